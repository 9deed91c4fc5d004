package simreport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sixty-dev/sixty/internal/plot"
)

// JSON writes a simulation in its schema.
func JSON(w io.Writer, s *Simulation) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// Text writes a simulation for a terminal of so many columns.
func Text(w io.Writer, s *Simulation, width int) error {
	t := &text{width: max(width, 40)}
	t.head(s)
	if len(s.Sweep) > 0 {
		t.sweep(s)
	} else {
		t.run(s, &s.Runs[0])
	}
	t.foot(s)
	if _, err := io.WriteString(w, t.b.String()); err != nil {
		return fmt.Errorf("write simulation: %w", err)
	}
	return nil
}

type text struct {
	b     strings.Builder
	width int
}

func (t *text) f(format string, args ...any) { fmt.Fprintf(&t.b, format, args...) }

// label is how wide the names at the left are.
const label = 12

// item writes a named paragraph whose further lines are indented.
func (t *text) item(name, body string) {
	at := label
	t.f("%-*s", label, name)
	if len(name) >= label {
		t.f(" ")
		at = len(name) + 1
	}
	for i, word := range strings.Fields(body) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > t.width:
			t.f("\n%*s", label, "")
			at = label
		default:
			t.f(" ")
			at++
		}
		t.f("%s", word)
		at += n
	}
	t.f("\n")
}

func (t *text) head(s *Simulation) {
	w := &s.Workload
	body := fmt.Sprintf("%s; %d requests in %s (%s/s), %s prompt and %s output tokens on average", w.Text, w.Requests, plot.Duration(w.Duration), plot.Number(w.Rate),
		plot.Number(w.PromptTokens), plot.Number(w.OutputTokens))
	if w.SharedTokens > 0 {
		body += fmt.Sprintf(", of which %s shared", plot.Number(w.SharedTokens))
	}
	body = fmt.Sprintf("%s; seed %d", body, w.Seed)
	if len(s.Sweep) > 0 {
		body += "; at the first point of the sweep"
	}
	t.item("workload", body)
	d := &s.Deployment
	body = fmt.Sprintf("vLLM %s, %s %v, %s %v, KV cache of %s tokens", d.VLLM, "max-num-seqs", d.Settings["max-num-seqs"].Value,
		"max-num-batched-tokens", d.Settings["max-num-batched-tokens"].Value, plot.Number(float64(d.KVTokens)))
	if d.Replicas > 1 {
		body = fmt.Sprintf("%d replicas, %s: each %s", d.Replicas, d.Route, body)
	}
	t.item("deployment", body)
	t.item("basis", s.Calibration.Statement)
	t.f("\n")
}

func (t *text) run(s *Simulation, r *Run) {
	if r.Error != "" {
		t.item("error", r.Error)
		return
	}
	t.f("%-*s%9s%9s%9s%9s%9s", label, "", "mean", "P50", "P95", "P99", "max")
	wide := t.width >= label+5*9+24
	if wide && r.Samples > 0 {
		t.f("   %s", intervalTitle(r))
	}
	t.f("\n")
	for _, m := range Metrics() {
		l := r.Latency[m]
		if l == nil {
			continue
		}
		t.f("%-*s", label, m.Title())
		for _, v := range []float64{l.Mean, l.P50, l.P95, l.P99, l.Max} {
			t.f("%9s", plot.Duration(v))
		}
		if wide {
			if i := l.interval(); i != "" {
				t.f("   %s", i)
			}
		}
		t.f("\n")
	}
	t.f("\n")
	if !wide && r.Samples > 0 {
		t.item("intervals", t.intervals(r))
	}
	t.state(r)
	t.objective(s, r)
	t.measured(s, r)
}

func intervalTitle(r *Run) string {
	if r.Samples < 10 {
		return "interval (few samples)"
	}
	return "95 % interval"
}

// interval is that of the P95 or, where there is none, of the mean.
func (l *Latency) interval() string {
	switch {
	case l.P95Within != nil:
		return fmt.Sprintf("P95 %s – %s", plot.Duration(l.P95Within[0]), plot.Duration(l.P95Within[1]))
	case l.MeanWithin != nil:
		return fmt.Sprintf("mean %s – %s", plot.Duration(l.MeanWithin[0]), plot.Duration(l.MeanWithin[1]))
	}
	return ""
}

func (t *text) intervals(r *Run) string {
	var parts []string
	for _, m := range Metrics() {
		if l := r.Latency[m]; l != nil && l.interval() != "" {
			parts = append(parts, m.Title()+" "+l.interval())
		}
	}
	return strings.Join(parts, "; ")
}

func (t *text) state(r *Run) {
	x := &r.Throughput
	out := fmt.Sprintf("%s output tokens/s", plot.Number(x.OutputTokens))
	if r.Samples > 0 {
		out += fmt.Sprintf(" (%s – %s)", plot.Number(x.Interval[0]), plot.Number(x.Interval[1]))
	}
	t.item("throughput", fmt.Sprintf("%s, %s requests/s, %s prompt tokens/s; engine busy %s of the time", out, plot.Number(x.Requests), plot.Number(x.PromptTokens), percent(x.Busy)))
	s := &r.State
	t.item("batch", fmt.Sprintf("%s running on average, %s at most", plot.Number(s.RunningMean), plot.Number(s.RunningMax)))
	t.item("queue", fmt.Sprintf("%s waiting on average, %s at most, %s when the last request arrived", plot.Number(s.WaitingMean), plot.Number(s.WaitingMax), plot.Number(s.WaitingEnd)))
	body := fmt.Sprintf("%s full on average, %s at most", percent(s.KVMean), percent(s.KVMax))
	if s.PrefixHits > 0 {
		body += fmt.Sprintf("; %s of the prompt tokens from the prefix cache", percent(s.PrefixHits))
	}
	t.item("KV cache", body)
	body = fmt.Sprintf("%d", r.Requests.Preemptions)
	if r.Samples > 0 && r.Requests.Interval[1] > 0 {
		body += fmt.Sprintf(" (%.0f – %.0f), of %d requests", r.Requests.Interval[0], r.Requests.Interval[1], r.Requests.Preempted)
	}
	t.item("preemptions", body)
	if len(r.Requests.Refused) > 0 {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(r.Requests.Refused)) {
			parts = append(parts, fmt.Sprintf("%d %s", r.Requests.Refused[k], k))
		}
		t.item("not served", strings.Join(parts, ", ")+fmt.Sprintf(" of %d requests", r.Requests.Total))
	}
}

func (t *text) objective(s *Simulation, r *Run) {
	if s.Objective == nil || r.Goodput == nil {
		return
	}
	met := "missed"
	if r.Goodput.Met {
		met = "met"
	}
	t.item("goodput", fmt.Sprintf("%s of the requests, %s/s, within %s; objective %s", percent(r.Goodput.Share), plot.Number(r.Goodput.Requests), s.Objective.text(), met))
}

func (o *Objective) text() string {
	var parts []string
	for _, x := range []struct {
		name  string
		value float64
	}{{"TTFT", o.TTFT}, {"ITL", o.ITL}, {"E2E", o.E2E}} {
		if x.value > 0 {
			parts = append(parts, x.name+" ≤ "+plot.Duration(x.value))
		}
	}
	return strings.Join(parts, ", ") + " (" + o.Name + ")"
}

// measured lays what the servers had beside the simulation of it.
func (t *text) measured(s *Simulation, r *Run) {
	m := s.Measured
	if m == nil || r.Latency[TTFT] == nil || r.Latency[ITL] == nil {
		return
	}
	t.f("\n%-*s%12s%12s\n", label+12, "against the servers", "measured", "simulated")
	row := func(name string, measured, simulated string) {
		t.f("%-*s%12s%12s\n", label+12, name, measured, simulated)
	}
	row("TTFT mean", plot.Duration(m.TTFTMean), plot.Duration(r.State.TTFTMean))
	row("ITL mean", plot.Duration(m.ITLMean), plot.Duration(r.Latency[ITL].Mean))
	row("output tokens/s", plot.Number(m.OutputTokens), plot.Number(r.Throughput.OutputTokens))
	row("running, mean", plot.Number(m.Running), plot.Number(r.State.RunningMean))
	row("waiting, mean", plot.Number(m.Waiting), plot.Number(r.State.WaitingMean))
	row("KV cache, mean", percent(m.KVUsage), percent(r.State.KVMean))
	row("preemptions", plot.Number(m.Preemptions), plot.Number(float64(r.Requests.Preemptions)))
}

// column is one of the sweep's table. Those of lower rank are left out where the
// terminal is narrow.
type column struct {
	title string
	rank  int
	cell  func(*Run) string
}

const columnWidth = 10

func p95Column(m Metric, rank int) column {
	return column{m.Title() + " P95", rank, func(r *Run) string {
		if l := r.Latency[m]; l != nil {
			return plot.Duration(l.P95)
		}
		return "–"
	}}
}

// columns are those that fit beside the parameters.
func (t *text) columns(s *Simulation, taken int) []column {
	all := []column{
		p95Column(TTFT, 9), p95Column(ITL, 8), p95Column(E2E, 6),
		{"tokens/s", 7, func(r *Run) string { return plot.Number(r.Throughput.OutputTokens) }},
		{"preempt", 5, func(r *Run) string { return plot.Number(float64(r.Requests.Preemptions)) }},
		{"KV max", 3, func(r *Run) string { return percent(r.State.KVMax) }},
		{"queue max", 4, func(r *Run) string { return plot.Number(r.State.WaitingMax) }},
	}
	if s.Objective != nil {
		all = append(all, column{"goodput", 10, func(r *Run) string {
			switch {
			case r.Goodput == nil:
				return "–"
			case r.Goodput.Met:
				return percent(r.Goodput.Share) + " ✓"
			}
			return percent(r.Goodput.Share) + "  "
		}})
	}
	for taken+columnWidth*len(all) > t.width && len(all) > 3 {
		least := slices.MinFunc(all, func(a, b column) int { return cmp.Compare(a.rank, b.rank) })
		all = slices.DeleteFunc(all, func(c column) bool { return c.rank == least.rank })
	}
	return all
}

// sweep writes a line for every point.
func (t *text) sweep(s *Simulation) {
	widths := make([]int, len(s.Sweep))
	taken := 0
	for i, a := range s.Sweep {
		widths[i] = utf8.RuneCountInString(a.Parameter)
		for _, v := range a.Values {
			widths[i] = max(widths[i], utf8.RuneCountInString(v))
		}
		t.f("%*s  ", widths[i], a.Parameter)
		taken += widths[i] + 2
	}
	columns := t.columns(s, taken)
	for _, c := range columns {
		t.f("%*s", columnWidth, c.title)
	}
	t.f("\n")
	for i := range s.Runs {
		r := &s.Runs[i]
		for k, a := range s.Sweep {
			t.f("%*s  ", widths[k], r.Set[a.Parameter])
		}
		if r.Error != "" {
			t.f("  %s\n", r.Error)
			continue
		}
		for _, c := range columns {
			t.f("%*s", columnWidth, c.cell(r))
		}
		t.f("\n")
	}
	if s.Objective != nil {
		t.f("\n")
		t.item("goodput", "share of the requests within "+s.Objective.text()+"; ✓ where every percentile keeps its objective")
	}
}

// foot writes what must be known to believe the numbers.
func (t *text) foot(s *Simulation) {
	t.f("\n")
	for _, w := range warnings(s) {
		t.item("warning", w)
	}
	for _, n := range slices.Concat(s.Calibration.Notes, s.Workload.Notes) {
		t.item("note", n)
	}
	if len(s.Deployment.Assumed) > 0 {
		t.item("assumed", strings.Join(s.Deployment.Assumed, "; "))
	}
	if len(s.Deployment.NotModelled) > 0 {
		t.item("left out", strings.Join(s.Deployment.NotModelled, ", ")+": the servers have it, the simulation does not")
	}
}

// warnings are those of all runs, each once with the points that it holds for.
func warnings(s *Simulation) []string {
	if len(s.Runs) == 1 {
		return s.Runs[0].Warnings
	}
	// What differs from point to point are its numbers: the beginning says what it is.
	kind := func(w string) string {
		if i := strings.IndexAny(w, ":,"); i > 0 {
			return w[:i]
		}
		return w
	}
	first, points := map[string]string{}, map[string][]string{}
	var order []string
	for i := range s.Runs {
		seen := map[string]bool{}
		for _, w := range s.Runs[i].Warnings {
			k := kind(w)
			if _, ok := first[k]; !ok {
				first[k] = w
				order = append(order, k)
			}
			if !seen[k] {
				points[k] = append(points[k], s.Runs[i].point(s.Sweep))
			}
			seen[k] = true
		}
	}
	var out []string
	for _, k := range order {
		switch n := len(points[k]); {
		case n == len(s.Runs):
			out = append(out, "at every point: "+first[k])
		case n > 4:
			out = append(out, fmt.Sprintf("at %d of %d points, first %s: %s", n, len(s.Runs), points[k][0], first[k]))
		default:
			out = append(out, "at "+strings.Join(points[k], " and ")+": "+first[k])
		}
	}
	return out
}

// point names a run's place in the sweep.
func (r *Run) point(axes []Axis) string {
	var parts []string
	for _, a := range axes {
		parts = append(parts, a.Parameter+" "+cmp.Or(r.Set[a.Parameter], "?"))
	}
	return strings.Join(parts, ", ")
}

func percent(v float64) string {
	if v > 0 && v < 0.1 {
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	if v > 0.99 && v < 1 {
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

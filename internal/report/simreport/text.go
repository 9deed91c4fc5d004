package simreport

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
)

// Text writes a simulation for a terminal.
func Text(w io.Writer, s *Simulation, full bool, o render.Options) error {
	t := &text{render.NewText(o)}
	t.head(s)
	if len(s.Sweep) > 0 {
		t.sweep(s)
	} else {
		t.run(s, &s.Runs[0])
	}
	t.foot(s)
	_, err := t.WriteTo(w)
	return err
}

type text struct{ *render.Text }

// item writes a named paragraph.
func (t *text) item(name, body string) { t.Item(12, name, body) }

func (t *text) head(s *Simulation) {
	w := &s.Workload
	body := fmt.Sprintf("%s; %d requests in %s (%s/s), %s prompt and %s output tokens on average", w.Text, w.Requests, render.Seconds(w.Duration), render.Number(w.Rate),
		render.Number(w.PromptTokens), render.Number(w.OutputTokens))
	if w.SharedTokens > 0 {
		body += fmt.Sprintf(", of which %s shared", render.Number(w.SharedTokens))
	}
	body = fmt.Sprintf("%s; seed %d", body, w.Seed)
	if len(s.Sweep) > 0 {
		body += "; at the first point of the sweep"
	}
	t.item("workload", body)
	d := &s.Deployment
	body = fmt.Sprintf("vLLM %s, %s %v, %s %v, KV cache of %s tokens", d.VLLM, "max-num-seqs", d.Settings["max-num-seqs"].Value,
		"max-num-batched-tokens", d.Settings["max-num-batched-tokens"].Value, render.Number(float64(d.KVTokens)))
	if d.Replicas > 1 {
		body = fmt.Sprintf("%d replicas, %s: each %s", d.Replicas, d.Route, body)
	}
	t.item("deployment", body)
	t.item("basis", s.Calibration.Statement)
	t.Line("")
}

func (t *text) run(s *Simulation, r *Run) {
	if r.Error != "" {
		t.item("error", r.Error)
		return
	}
	interval := "95 % interval"
	if r.Samples < 10 {
		interval = "interval (few samples)"
	}
	columns := append(render.Columns("", "mean", "P50", "P95", "P99", "max"), render.Column{Left: true})
	if r.Samples > 0 {
		columns[len(columns)-1].Title = interval
	}
	var rows [][]string
	for _, m := range Metrics() {
		if l := r.Latency[m]; l != nil {
			rows = append(rows, []string{m.Title(), render.Seconds(l.Mean), render.Seconds(l.P50), render.Seconds(l.P95), render.Seconds(l.P99), render.Seconds(l.Max), l.interval()})
		}
	}
	t.Table(columns, rows)
	t.Line("")
	t.state(r)
	t.objective(s, r)
	t.measured(s, r)
}

// interval is that of the P95 or, where there is none, of the mean.
func (l *Latency) interval() string {
	switch {
	case l.P95Within != nil:
		return fmt.Sprintf("P95 %s – %s", render.Seconds(l.P95Within[0]), render.Seconds(l.P95Within[1]))
	case l.MeanWithin != nil:
		return fmt.Sprintf("mean %s – %s", render.Seconds(l.MeanWithin[0]), render.Seconds(l.MeanWithin[1]))
	}
	return ""
}

func (t *text) state(r *Run) {
	x := &r.Throughput
	out := fmt.Sprintf("%s output tokens/s", render.Number(x.OutputTokens))
	if r.Samples > 0 {
		out += fmt.Sprintf(" (%s – %s)", render.Number(x.Interval[0]), render.Number(x.Interval[1]))
	}
	t.item("throughput", fmt.Sprintf("%s, %s requests/s, %s prompt tokens/s; engine busy %s of the time", out, render.Number(x.Requests), render.Number(x.PromptTokens), render.Percent(x.Busy)))
	s := &r.State
	t.item("batch", fmt.Sprintf("%s running on average, %s at most", render.Number(s.RunningMean), render.Number(s.RunningMax)))
	t.item("queue", fmt.Sprintf("%s waiting on average, %s at most, %s when the last request arrived", render.Number(s.WaitingMean), render.Number(s.WaitingMax), render.Number(s.WaitingEnd)))
	body := fmt.Sprintf("%s full on average, %s at most", render.Percent(s.KVMean), render.Percent(s.KVMax))
	if s.PrefixHits > 0 {
		body += fmt.Sprintf("; %s of the prompt tokens from the prefix cache", render.Percent(s.PrefixHits))
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
	t.item("goodput", fmt.Sprintf("%s of the requests, %s/s, within %s; objective %s", render.Percent(r.Goodput.Share), render.Number(r.Goodput.Requests), s.Objective.text(), met))
}

func (o *Objective) text() string {
	return render.Objective(o.TTFT, o.ITL, o.E2E) + " (" + o.Name + ")"
}

// measured lays what the servers had beside the simulation of it.
func (t *text) measured(s *Simulation, r *Run) {
	m := s.Measured
	if m == nil || r.Latency[TTFT] == nil || r.Latency[ITL] == nil {
		return
	}
	t.Line("")
	t.Table(render.Columns("against the servers", "measured", "simulated"), [][]string{
		{"TTFT mean", render.Seconds(m.TTFTMean), render.Seconds(r.State.TTFTMean)},
		{"ITL mean", render.Seconds(m.ITLMean), render.Seconds(r.Latency[ITL].Mean)},
		{"output tokens/s", render.Number(m.OutputTokens), render.Number(r.Throughput.OutputTokens)},
		{"running, mean", render.Number(m.Running), render.Number(r.State.RunningMean)},
		{"waiting, mean", render.Number(m.Waiting), render.Number(r.State.WaitingMean)},
		{"KV cache, mean", render.Percent(m.KVUsage), render.Percent(r.State.KVMean)},
		{"preemptions", render.Number(m.Preemptions), render.Number(float64(r.Requests.Preemptions))},
	})
}

// sweep writes a line for every point. In a narrow terminal the quantities that say
// least of it are left out.
func (t *text) sweep(s *Simulation) {
	var columns []render.Column
	for _, a := range s.Sweep {
		columns = append(columns, render.Column{Title: a.Parameter})
	}
	columns = append(columns, render.Column{Title: "TTFT P95", Rank: 9}, render.Column{Title: "ITL P95", Rank: 8}, render.Column{Title: "E2E P95", Rank: 6},
		render.Column{Title: "tokens/s", Rank: 7}, render.Column{Title: "preempt", Rank: 5}, render.Column{Title: "KV max", Rank: 3}, render.Column{Title: "queue max", Rank: 4})
	if s.Objective != nil {
		columns = append(columns, render.Column{Title: "goodput", Rank: 10})
	}
	p95 := func(r *Run, m Metric) string {
		if l := r.Latency[m]; l != nil {
			return render.Seconds(l.P95)
		}
		return "–"
	}
	var rows [][]string
	for i := range s.Runs {
		r := &s.Runs[i]
		var row []string
		for _, a := range s.Sweep {
			row = append(row, r.Set[a.Parameter])
		}
		if r.Error != "" {
			rows = append(rows, append(row, r.Error))
			continue
		}
		row = append(row, p95(r, TTFT), p95(r, ITL), p95(r, E2E), render.Number(r.Throughput.OutputTokens), render.Number(float64(r.Requests.Preemptions)),
			render.Percent(r.State.KVMax), render.Number(r.State.WaitingMax))
		switch {
		case s.Objective == nil:
		case r.Goodput == nil:
			row = append(row, "–")
		case r.Goodput.Met:
			row = append(row, render.Percent(r.Goodput.Share)+" ✓")
		default:
			row = append(row, render.Percent(r.Goodput.Share)+"  ")
		}
		rows = append(rows, row)
	}
	t.Table(columns, rows)
	if s.Objective != nil {
		t.Line("")
		t.item("goodput", "share of the requests within "+s.Objective.text()+"; ✓ where every percentile keeps its objective")
	}
}

// foot writes what must be known to believe the numbers.
func (t *text) foot(s *Simulation) {
	t.Line("")
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
func (r *Run) point(axes []planning.Axis) string {
	var parts []string
	for _, a := range axes {
		parts = append(parts, a.Parameter+" "+cmp.Or(r.Set[a.Parameter], "?"))
	}
	return strings.Join(parts, ", ")
}

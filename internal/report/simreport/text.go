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

// Text writes a simulation for a terminal: what users would see comes first, and without
// full little more.
func Text(w io.Writer, s *Simulation, full bool, o render.Options) error {
	t := &text{render.NewText(o), full}
	if len(s.Missed) > 0 {
		t.noAnswer(s)
		if full {
			t.Line("")
			t.head(s)
			t.foot(s)
		}
		_, err := t.WriteTo(w)
		return err
	}
	for most := fewRows; ; most-- { // points of a sweep make room for what casts doubt on them
		if len(s.Sweep) > 0 {
			t.sweepAnswer(s, most)
		} else {
			t.answer(s, &s.Runs[0])
		}
		t.believe(s)
		if full || t.Lines()+linesAfter <= t.Room() || len(s.Sweep) == 0 || most == leastRows {
			break
		}
		t = &text{render.NewText(o), full}
	}
	if full {
		t.Line("")
		t.head(s)
		if len(s.Sweep) == 0 {
			t.run(s, &s.Runs[0])
		}
		t.foot(s)
	} else {
		t.Fit(linesAfter)
		t.Line("")
		t.Brief(1, "", "", "--full shows the batch, the queue and what is assumed; --html FILE draws it.")
	}
	_, err := t.WriteTo(w)
	return err
}

// noAnswer says why there is none, and what may give one.
func (t *text) noAnswer(s *Simulation) {
	t.Styled(render.Bold, "", "", "No answer: "+s.missed()+".")
	t.Line("")
	t.Paragraph("", "", "They do something that the simulation lacks, stood still for a while, or had another load than their metrics tell; what it says of anything else would be a guess. "+
		"Try a longer or calmer time (--window, --at), settings that the metrics do not tell (--engine-args), or a load test's results (--load-test).")
	t.Line("")
	t.item("basis", s.Calibration.Statement)
}

type text struct {
	*render.Text
	full bool
}

// linesAfter is how many lines the last words of a short answer take.
const linesAfter = 2

// item writes a named paragraph, which leaves a short answer where there is no room for it:
// a description before a doubt.
func (t *text) item(name, body string) {
	t.Part(map[string]int{"basis": 1, "goodput": 2, "check": 3}[name])
	t.Item(12, name, body)
}

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
	t.Line("")
}

// answer says what users would see, beside what they see now where that is something else.
func (t *text) answer(s *Simulation, r *Run) {
	if r.Error != "" {
		t.item("error", r.Error)
		return
	}
	head, now, rows := s.outlook()
	columns := render.Columns("", "now", "then", "90 % interval")
	if now == nil {
		columns = render.Columns("", "simulated", "90 % interval")
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
	}
	if r.Samples == 0 {
		columns[len(columns)-1].Title = ""
	}
	t.Styled(render.Bold, "", "", head)
	t.Line("")
	if len(rows) > 0 {
		t.Table(columns, rows)
		t.Line("")
	}
	if r.Overload {
		t.item("overload", "at the slow end of the interval the servers do not keep up with the load, and requests wait ever longer")
		t.Line("")
	}
	t.objective(s, now, r)
}

// outlook is the answer of a simulation without a sweep: a sentence, the run of the present
// where that is something else, and for each quantity its name, its value now and then, and
// the interval of that.
func (s *Simulation) outlook() (head string, now *Run, rows [][]string) {
	if !s.Served() {
		return "No request is served: " + refusals(&s.Runs[0]) + ".", nil, nil
	}
	head = "As it is simulated"
	if p := s.Present; p != nil && p.Run.Error == "" {
		now, head = &p.Run, "With "+render.And(p.Changes)
	} else if s.Measured != nil {
		head = "The servers as they are"
	}
	then := &s.Runs[0]
	var said []string
	add := func(name string, of func(r *Run) (value, interval string)) {
		v, interval := of(then)
		was := ""
		if now != nil {
			was, _ = of(now)
		}
		rows = append(rows, []string{name, was, v, interval})
		if was != "" && was != v {
			v = was + " → " + v
		}
		said = append(said, name+" "+v)
	}
	for _, m := range []Metric{TTFT, ITL, E2E} {
		add(m.Title()+" P95", func(r *Run) (string, string) {
			l := r.Latency[m]
			if l == nil {
				return "–", ""
			}
			if r.Overload && l.P95Within != nil {
				return render.Seconds(l.P95), render.Seconds(l.P95Within[0]) + " – overload"
			}
			return render.Seconds(l.P95), span(l.P95Within, render.Seconds)
		})
	}
	add("output tokens/s", func(r *Run) (string, string) {
		if r.Samples == 0 {
			return render.Number(r.Throughput.OutputTokens), ""
		}
		return render.Number(r.Throughput.OutputTokens), span(&r.Throughput.Interval, render.Number)
	})
	head += ": " + strings.Join(said, ", ") + "."
	for _, x := range []struct {
		name string
		of   func(*Run) float64
	}{
		{"waiting requests, mean", func(r *Run) float64 { return r.State.WaitingMean }},
		{"preemptions", func(r *Run) float64 { return float64(r.Requests.Preemptions) }},
		{"requests not served", func(r *Run) float64 { return float64(r.Requests.Total - r.Requests.Finished) }},
	} {
		if x.of(then) >= 0.5 || now != nil && x.of(now) >= 0.5 {
			add(x.name, func(r *Run) (string, string) { return render.Number(x.of(r)), "" })
		}
	}
	return head, now, rows
}

// against sets what was measured beside the simulation of the servers as they are: names,
// measured and simulated values. There are none where either is missing.
func (s *Simulation) against() [][]string {
	r, m := s.asTheyAre(), s.Measured
	if m == nil || r.Latency[TTFT] == nil || r.Latency[ITL] == nil {
		return nil
	}
	return [][]string{
		{"TTFT mean", render.Seconds(m.TTFTMean), render.Seconds(r.State.TTFTMean)},
		{"ITL mean", render.Seconds(m.ITLMean), render.Seconds(r.Latency[ITL].Mean)},
		{"output tokens/s", render.Number(m.OutputPerSecond), render.Number(r.State.Arriving.OutputTokens)},
		{"running, mean", render.Number(m.Running), render.Number(r.State.Arriving.Running)},
		{"waiting, mean", render.Number(m.Waiting), render.Number(r.State.Arriving.Waiting)},
		{"KV cache, mean", render.Percent(m.KVUsage), render.Percent(r.State.Arriving.KVUsage)},
		{"preemptions", render.Number(m.Preemptions), render.Number(float64(r.Requests.Preemptions))},
	}
}

// asTheyAre is the run of the servers as they are, where they were simulated at all.
func (s *Simulation) asTheyAre() *Run {
	if s.Present != nil {
		return &s.Present.Run
	}
	return &s.Runs[0]
}

// astray reports whether the simulation of the servers as they are is far from what was
// measured, so that nothing else that it says is worth much.
func (s *Simulation) astray() bool {
	far := func(a, b, factor float64) bool { return a > 0 && b > 0 && max(a/b, b/a) > factor }
	r, m := s.asTheyAre(), s.Measured
	return m != nil && r.Latency[ITL] != nil &&
		(far(m.TTFTMean, r.State.TTFTMean, 2) || far(m.ITLMean, r.Latency[ITL].Mean, 1.5))
}

// span writes an interval, "" where there is none.
func span(v *[2]float64, format func(float64) string) string {
	if v == nil {
		return ""
	}
	return format(v[0]) + " – " + format(v[1])
}

// believe says how far the answer is to be believed.
func (t *text) believe(s *Simulation) {
	var means []string
	for _, row := range s.against()[:min(3, len(s.against()))] {
		means = append(means, row[0]+" "+row[1]+" | "+row[2])
	}
	if len(means) > 0 {
		t.item("check", "now, measured | simulated: "+strings.Join(means, ", "))
	}
	if s.astray() {
		t.item("warning", "the simulation is far from what was measured of the servers as they are: it lacks something that they do, or a setting that their metrics do not tell (--engine-args)")
	}
	for _, n := range s.Calibration.Notes {
		t.item("warning", n)
	}
	basis := s.Calibration.Statement
	if !t.full {
		basis, _, _ = strings.Cut(basis, ";")
	}
	t.item("basis", basis)
	if !t.full && len(s.Runs) > 1 {
		if kinds := warningKinds(s); len(kinds) > 0 {
			t.item("warning", strings.Join(kinds, "; "))
		}
		return
	}
	for _, w := range warnings(s) {
		t.item("warning", w)
	}
}

func (t *text) run(s *Simulation, r *Run) {
	interval := "90 % interval"
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
	if rows := s.against(); rows != nil {
		t.Line("")
		t.Table(render.Columns("against the servers", "measured", "simulated"), rows)
	}
}

// interval is that of the P95.
func (l *Latency) interval() string {
	if l.P95Within == nil {
		return ""
	}
	return "P95 " + span(l.P95Within, render.Seconds)
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
		t.item("not served", refusals(r))
	}
}

// refusals says why requests were not served.
func refusals(r *Run) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(r.Requests.Refused)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Requests.Refused[k], k))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(" of %d requests", r.Requests.Total)
}

// objective says how many requests keep what was promised, now and then.
func (t *text) objective(s *Simulation, now, r *Run) {
	if s.Objective == nil || r.Goodput == nil {
		return
	}
	met := "missed"
	if r.Goodput.Met {
		met = "met"
	}
	share := render.Percent(r.Goodput.Share)
	if now != nil && now.Goodput != nil {
		share = render.Percent(now.Goodput.Share) + " → " + share
	}
	t.item("goodput", fmt.Sprintf("%s of the requests, %s/s, within %s; objective %s", share, render.Number(r.Goodput.Requests), s.Objective.text(), met))
}

func (o *Objective) text() string {
	return render.Objective(o.TTFT, o.ITL, o.E2E) + " (" + o.Name + ")"
}

// How many points of a sweep are shown without --full, and how few of them where there is
// more to say.
const (
	fewRows   = 12
	leastRows = 7
)

// order is that of the points' worth: those that keep the objective by their throughput,
// others by the share of requests within it, or without one by the time to the first token.
func (s *Simulation) order() []int {
	var out []int
	for i := range s.Runs {
		if r := &s.Runs[i]; r.Error == "" && r.Latency[TTFT] != nil {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		x, y := &s.Runs[a], &s.Runs[b]
		switch {
		case x.Goodput == nil || y.Goodput == nil:
			return cmp.Compare(x.Latency[TTFT].P95, y.Latency[TTFT].P95)
		case x.Goodput.Met && y.Goodput.Met:
			return cmp.Compare(y.Throughput.OutputTokens, x.Throughput.OutputTokens)
		case x.Goodput.Met != y.Goodput.Met:
			return map[bool]int{true: -1, false: 1}[x.Goodput.Met]
		}
		return cmp.Compare(y.Goodput.Share, x.Goodput.Share)
	})
	return out
}

// verdict says in a sentence what a sweep found.
func (s *Simulation) verdict(order []int) string {
	if len(order) == 0 {
		return "No point of the sweep serves a request."
	}
	r, met := &s.Runs[order[0]], 0
	for i := range s.Runs {
		if g := s.Runs[i].Goodput; g != nil && g.Met {
			met++
		}
	}
	what := fmt.Sprintf("%s (%s output tokens/s, TTFT P95 %s)", r.point(s.Sweep), render.Number(r.Throughput.OutputTokens), render.Seconds(r.Latency[TTFT].P95))
	switch {
	case r.Goodput == nil:
		return "The shortest TTFT P95 is at " + what + "."
	case met == 0:
		return fmt.Sprintf("None of %d points keeps the objective; the nearest is %s with %s of the requests.", len(s.Runs), what, render.Percent(r.Goodput.Share))
	}
	return fmt.Sprintf("%d of %d points keep the objective; the one with the most tokens/s is %s.", met, len(s.Runs), what)
}

// sweepAnswer names the best point and writes a line for every one, or for the best few of
// them. In a narrow terminal the quantities that say least are left out.
func (t *text) sweepAnswer(s *Simulation, most int) {
	order := s.order()
	t.Styled(render.Bold, "", "", s.verdict(order))
	t.Line("")
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
	line := func(r *Run, row []string) {
		if r.Error != "" {
			rows = append(rows, append(row, r.Error))
			return
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
	if p := s.Present; p != nil {
		line(&p.Run, append(make([]string, len(s.Sweep)-1), "now"))
	}
	shown := 0
	for i := range s.Runs {
		r := &s.Runs[i]
		if !t.full && len(s.Runs) > most && !slices.Contains(order[:min(len(order), most)], i) {
			continue
		}
		var row []string
		for _, a := range s.Sweep {
			row = append(row, r.Set[a.Parameter])
		}
		line(r, row)
		shown++
	}
	t.Table(columns, rows)
	if left := len(s.Runs) - shown; left > 0 {
		t.Paragraph("  ", "  ", fmt.Sprintf("the best %d of %d points; --full shows all", shown, len(s.Runs)))
	}
	t.Line("")
	if s.Objective != nil {
		t.item("goodput", "share of requests within "+s.Objective.text()+"; ✓ where all percentiles keep it")
	}
}

// foot writes what must be known to believe the numbers.
func (t *text) foot(s *Simulation) {
	t.Line("")
	for _, n := range s.Workload.Notes {
		t.item("note", n)
	}
	if len(s.Deployment.Assumed) > 0 {
		t.item("assumed", strings.Join(s.Deployment.Assumed, "; "))
	}
	if len(s.Deployment.NotModelled) > 0 {
		t.item("left out", strings.Join(s.Deployment.NotModelled, ", ")+": the servers have it, the simulation does not")
	}
}

// kind is what a warning says without its numbers, which differ from point to point.
func kind(warning string) string {
	if i := strings.IndexAny(warning, ":,"); i > 0 {
		return warning[:i]
	}
	return warning
}

// warningKinds are the kinds of warning that the runs have, with the number of points.
func warningKinds(s *Simulation) []string {
	at := map[string]map[int]bool{}
	for i := range s.Runs {
		for _, w := range s.Runs[i].Warnings {
			k := kind(w)
			if at[k] == nil {
				at[k] = map[int]bool{}
			}
			at[k][i] = true
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(at)) {
		out = append(out, fmt.Sprintf("%s at %d of %d points", k, len(at[k]), len(s.Runs)))
	}
	return out
}

// warnings are those of all runs, each once with the points that it holds for.
func warnings(s *Simulation) []string {
	if len(s.Runs) == 1 {
		return s.Runs[0].Warnings
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

package simreport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
)

type document struct {
	*render.Document
	s *Simulation
}

// How long what a screen tells stays where there is no room for all of it: a description
// before a doubt, and some points of a sweep before both.
const (
	rankPoint = iota + 1
	rankBasis
	rankGoodput
	rankCheck
)

// Document says what was simulated: what users would see comes first, and on a screen little
// more.
func Document(s *Simulation) *render.Document {
	d := &document{render.NewDocument("Simulation"), s}
	if len(s.Missed) > 0 {
		d.Answer(render.Bold, "", "No answer: "+s.missedText()+".")
		d.Paragraph("", "The servers do something that is not simulated, stalled for a while, or had a load that their metrics do not show; any other result would be a guess. "+
			"Try a longer or calmer time (--window, --at), settings that are not in the metrics (--engine-args), or a load test's results (--load-test).")
		d.Item("basis", s.Calibration.Statement)
		d.simulated()
		return d.Document
	}
	d.More = "batch, queue and assumptions; --out FILE.html draws charts"
	r := &s.Runs[0]
	switch {
	case len(s.Sweep) > 0:
		d.sweep()
	case r.Error != "":
		d.Answer(render.Bold, "", r.Error)
	default:
		d.answer(r)
	}
	d.writeLimits()
	figures := sweepFigures
	if len(s.Sweep) == 0 {
		d.run(r)
		figures = runFigures
	}
	d.simulated()
	d.ShowIn(render.Page)
	d.Section("Charts", "")
	d.Figures(figures(s)...)
	return d.Document
}

// answer says what users would see, beside what they see now where that is something else.
func (d *document) answer(r *Run) {
	head, now, rows := d.s.answerRows()
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
	d.Answer(render.Bold, "", head)
	d.Table(columns, rows)
	if r.Overload {
		d.Item("overload", "at the slow end of the interval the servers do not keep up with the load, and the queue keeps growing")
	}
	if d.s.Objective == nil || r.Goodput == nil {
		return
	}
	met, share := "missed", render.Percent(r.Goodput.Share)
	if r.Goodput.Met {
		met = "met"
	}
	if now != nil && now.Goodput != nil {
		share = render.Percent(now.Goodput.Share) + " → " + share
	}
	d.Ranked(rankGoodput, "goodput", fmt.Sprintf("%s of the requests, %s/s, within %s; objective %s", share, render.Number(r.Goodput.Requests), d.s.Objective.text(), met))
}

// How many points of a sweep a screen shows, and how few of them where there is more to say.
const (
	fewRows   = 12
	leastRows = 7
)

// sweep names the best point and has a line for every one, or on a screen for the best. In a
// narrow terminal the quantities that say least are left out.
func (d *document) sweep() {
	s := d.s
	order := s.order()
	d.Answer(render.Bold, "", s.verdict(order))
	var columns []render.Column
	for _, a := range s.Sweep {
		columns = append(columns, render.Column{Title: a.Parameter})
	}
	columns = append(columns, render.Column{Title: "TTFT P95", Rank: 9}, render.Column{Title: "ITL P95", Rank: 8}, render.Column{Title: "E2E P95", Rank: 6},
		render.Column{Title: "tokens/s", Rank: 7}, render.Column{Title: "preempt", Rank: 5}, render.Column{Title: "KV max", Rank: 3}, render.Column{Title: "queue max", Rank: 4})
	if s.Objective != nil {
		columns = append(columns, render.Column{Title: "goodput", Rank: 10})
	}
	var all, few [][]string
	var ranks []int
	if p := s.Present; p != nil {
		all = append(all, s.line(&p.Run, append(make([]string, len(s.Sweep)-1), "now")))
		few, ranks = all, []int{0}
	}
	for i := range s.Runs {
		var row []string
		for _, a := range s.Sweep {
			row = append(row, s.Runs[i].Set[a.Parameter])
		}
		row = s.line(&s.Runs[i], row)
		all = append(all, row)
		worth := slices.Index(order, i)
		if len(s.Runs) > fewRows && (worth < 0 || worth >= fewRows) {
			continue
		}
		rank := 0
		if worth >= leastRows {
			rank = rankPoint
		}
		few, ranks = append(few, row), append(ranks, rank)
	}
	d.ShowIn(render.Screen)
	d.Table(columns, few).Ranks = ranks
	if len(s.Runs) > leastRows {
		d.Paragraph("", fmt.Sprintf("the best of %d points; --full shows all", len(s.Runs)))
	}
	d.ShowIn(render.Details)
	d.Table(columns, all)
	d.ShowIn(render.Everywhere)
	if s.Objective != nil {
		d.Ranked(rankGoodput, "goodput", "share of requests within "+s.Objective.text()+"; ✓ if all percentiles meet it")
	}
}

// line is a run's in the table of a sweep, behind its point.
func (s *Simulation) line(r *Run, row []string) []string {
	if r.Error != "" {
		return append(row, r.Error)
	}
	for _, m := range []Metric{TTFT, ITL, E2E} {
		if l := r.Latency[m]; l != nil {
			row = append(row, render.Seconds(l.P95))
		} else {
			row = append(row, "–")
		}
	}
	row = append(row, render.Number(r.Throughput.OutputTokens), render.Number(float64(r.Requests.Preemptions)), render.Percent(r.State.KVMax), render.Number(r.State.WaitingMax))
	switch {
	case s.Objective == nil:
		return row
	case r.Goodput == nil:
		return append(row, "–")
	case r.Goodput.Met:
		return append(row, render.Percent(r.Goodput.Share)+" ✓")
	}
	return append(row, render.Percent(r.Goodput.Share)+"  ")
}

// writeLimits says how far the answer is to be believed.
func (d *document) writeLimits() {
	s := d.s
	var means []string
	for _, row := range s.comparisonRows()[:min(3, len(s.comparisonRows()))] {
		means = append(means, row[0]+" "+row[1]+" | "+row[2])
	}
	if len(means) > 0 {
		d.Ranked(rankCheck, "check", "now, measured | simulated: "+strings.Join(means, ", "))
	}
	if s.missesPresent() {
		d.Item("warning", "the simulation of the current servers is far from the measurement: the servers do something that is not simulated, or use a setting that is not in their metrics (--engine-args)")
	}
	for _, n := range s.Calibration.Notes {
		d.Item("warning", n)
	}
	basis, _, _ := strings.Cut(s.Calibration.Statement, ";")
	d.ShowIn(render.Screen)
	d.Ranked(rankBasis, "basis", basis)
	var brief, full []string
	for _, w := range s.warnings() {
		brief, full = append(brief, fmt.Sprintf("%s at %d of %d points", w.kind, len(w.points), len(s.Runs))), append(full, w.in(len(s.Runs)))
	}
	if len(s.Runs) == 1 {
		full = s.Runs[0].Warnings
	} else if len(brief) > 0 {
		d.Item("warning", strings.Join(slices.Sorted(slices.Values(brief)), "; "))
	}
	d.ShowIn(render.Details)
	d.Item("basis", s.Calibration.Statement)
	if len(s.Runs) == 1 {
		d.ShowIn(render.Everywhere)
	}
	for _, w := range full {
		d.Item("warning", w)
	}
	d.ShowIn(render.Everywhere)
}

// run tells all of the run of a simulation without a sweep.
func (d *document) run(r *Run) {
	if r.Error != "" {
		return
	}
	d.ShowIn(render.Details)
	defer d.ShowIn(render.Everywhere)
	columns := render.Columns("", "count", "mean", "interval", "P50", "P90", "P95", "interval", "P99", "max")
	columns[1].Rank, columns[3].Rank, columns[5].Rank = 2, 1, 3 // what a narrow terminal leaves out
	var rows [][]string
	for _, m := range Metrics() {
		if l := r.Latency[m]; l != nil {
			rows = append(rows, []string{
				m.Title(), render.Number(float64(l.Count)), render.Seconds(l.Mean), span(l.MeanWithin, render.Seconds), render.Seconds(l.P50), render.Seconds(l.P90),
				render.Seconds(l.P95), span(l.P95Within, render.Seconds), render.Seconds(l.P99), render.Seconds(l.Max),
			})
		}
	}
	d.Section("The run", "")
	d.Table(columns, rows)
	switch {
	case r.Samples >= 10:
		d.Paragraph("", fmt.Sprintf("intervals: 90 %% of %d samples of the calibration", r.Samples))
	case r.Samples > 0:
		d.Paragraph("", fmt.Sprintf("intervals: the extremes of %d samples of the calibration", r.Samples))
	}
	d.state(r)
	if rows := d.s.comparisonRows(); rows != nil {
		d.Section("Compared with the current servers", "")
		d.Table(render.Columns("", "measured", "simulated"), rows)
	}
}

func (d *document) state(r *Run) {
	x, s := &r.Throughput, &r.State
	out := render.Number(x.OutputTokens)
	if r.Samples > 0 {
		out = render.Within(out, render.Number(x.Interval[0]), render.Number(x.Interval[1]))
	}
	d.Item("throughput", fmt.Sprintf("output tokens/s %s, %s requests/s, %s prompt tokens/s; engine busy %s of the time", out, render.Number(x.Requests), render.Number(x.PromptTokens), render.Percent(x.Busy)))
	d.Item("batch", fmt.Sprintf("%s running on average, %s at most", render.Number(s.RunningMean), render.Number(s.RunningMax)))
	d.Item("queue", fmt.Sprintf("%s waiting on average, %s at most, %s when the last request arrived", render.Number(s.WaitingMean), render.Number(s.WaitingMax), render.Number(s.WaitingEnd)))
	body := fmt.Sprintf("%s full on average, %s at most", render.Percent(s.KVMean), render.Percent(s.KVMax))
	if s.PrefixHits > 0 {
		body += fmt.Sprintf("; %s of the prompt tokens from the prefix cache", render.Percent(s.PrefixHits))
	}
	d.Item("KV cache", body)
	body = fmt.Sprintf("%d", r.Requests.Preemptions)
	if r.Samples > 0 && r.Requests.Interval[1] > 0 {
		body = render.Within(body, fmt.Sprintf("%.0f", r.Requests.Interval[0]), fmt.Sprintf("%.0f", r.Requests.Interval[1])) + fmt.Sprintf(", of %d requests", r.Requests.Preempted)
	}
	d.Item("preemptions", body)
	if len(r.Requests.Refused) > 0 {
		d.Item("not served", refusals(r))
	}
}

// simulated says what must be known to believe the numbers.
func (d *document) simulated() {
	w, p := &d.s.Workload, &d.s.Deployment
	body := fmt.Sprintf("%s; %d requests in %s (%s/s), %s prompt and %s output tokens on average", w.Text, w.Requests, render.Seconds(w.Duration), render.Number(w.Rate),
		render.Number(w.PromptTokens), render.Number(w.OutputTokens))
	if w.SharedTokens > 0 {
		body += fmt.Sprintf(", of which %s shared", render.Number(w.SharedTokens))
	}
	body = fmt.Sprintf("%s; seed %d", body, w.Seed)
	if len(d.s.Sweep) > 0 {
		body += "; at the first point of the sweep"
	}
	d.ShowIn(render.Details)
	d.Section("What was simulated", "")
	d.Item("workload", body)
	body = fmt.Sprintf("vLLM %s, %s %v, %s %v, KV cache of %s tokens", p.VLLM, "max-num-seqs", p.Settings["max-num-seqs"].Value,
		"max-num-batched-tokens", p.Settings["max-num-batched-tokens"].Value, render.Number(float64(p.KVTokens)))
	if p.Replicas > 1 {
		body = fmt.Sprintf("%d replicas, %s: each %s", p.Replicas, p.Route, body)
	}
	d.Item("deployment", body)
	for _, n := range w.Notes {
		d.Item("note", n)
	}
	if len(p.Assumed) > 0 {
		d.Item("assumed", strings.Join(p.Assumed, "; "))
	}
	if len(p.NotModelled) > 0 {
		d.Item("left out", strings.Join(p.NotModelled, ", ")+": present in the servers, not simulated")
	}
	var settings [][]string
	for _, flag := range slices.Sorted(maps.Keys(p.Settings)) {
		settings = append(settings, []string{flag, fmt.Sprint(p.Settings[flag].Value), p.Settings[flag].Source})
	}
	d.ShowIn(render.Page)
	d.Section("Settings", "").Folded = true
	d.Table(render.Words(render.Columns("setting", "value", "from")), settings)
}

// answerRows is the answer of a simulation without a sweep: a sentence, the run of the present
// where that is something else, and for each quantity its name, its value now and then, and
// the interval of that.
func (s *Simulation) answerRows() (head string, now *Run, rows [][]string) {
	if !s.Served() {
		return "No request is served: " + refusals(&s.Runs[0]) + ".", nil, nil
	}
	head = "As simulated"
	if p := s.Present; p != nil && p.Run.Error == "" {
		now, head = &p.Run, "With "+render.And(p.Changes)
	} else if s.Measured != nil {
		head = "The current servers"
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

// comparisonRows sets what was measured beside the simulation of the servers as they are: names,
// measured and simulated values. There are none where either is missing.
func (s *Simulation) comparisonRows() [][]string {
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

// missesPresent reports whether the simulation of the servers as they are is far from what was
// measured, so that nothing else that it says is worth much.
func (s *Simulation) missesPresent() bool {
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
	if low, high := format(v[0]), format(v[1]); low != high {
		return low + " – " + high
	}
	return ""
}

// refusals says why requests were not served.
func refusals(r *Run) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(r.Requests.Refused)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Requests.Refused[k], k))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(" of %d requests", r.Requests.Total)
}

func (o *Objective) text() string {
	return render.Objective(o.TTFT, o.ITL, o.E2E) + " (" + o.Name + ")"
}

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
	r, met, same := &s.Runs[order[0]], 0, len(order) == len(s.Runs)
	for _, i := range order {
		same = same && slices.Equal(s.line(&s.Runs[i], nil), s.line(r, nil))
	}
	if same && len(order) > 1 {
		return fmt.Sprintf("The %d points do not differ: %s output tokens/s, TTFT P95 %s.", len(order), render.Number(r.Throughput.OutputTokens), render.Seconds(r.Latency[TTFT].P95))
	}
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
		return fmt.Sprintf("None of %d points meets the objective; the nearest is %s with %s of the requests.", len(s.Runs), what, render.Percent(r.Goodput.Share))
	}
	return fmt.Sprintf("%d of %d points meet the objective; the one with the most tokens/s is %s.", met, len(s.Runs), what)
}

// kind is what a warning says without its numbers, which differ from point to point.
func kind(warning string) string {
	if i := strings.IndexAny(warning, ":,"); i > 0 {
		return warning[:i]
	}
	return warning
}

// A warning is one of a kind that some runs have.
type warning struct {
	kind, first string   // without its numbers, and as the first of the points has it
	points      []string // that it holds for
}

// warnings are those of all runs, in the order in which they first come.
func (s *Simulation) warnings() (out []*warning) {
	for i := range s.Runs {
		at := s.Runs[i].point(s.Sweep)
		for _, text := range s.Runs[i].Warnings {
			k := slices.IndexFunc(out, func(w *warning) bool { return w.kind == kind(text) })
			if k < 0 {
				k = len(out)
				out = append(out, &warning{kind(text), text, nil})
			}
			if w := out[k]; !slices.Contains(w.points, at) {
				w.points = append(w.points, at)
			}
		}
	}
	return out
}

// in says for which of so many points a warning holds.
func (w *warning) in(runs int) string {
	switch n := len(w.points); {
	case n == runs:
		return "at every point: " + w.first
	case n > 4:
		return fmt.Sprintf("at %d of %d points, first %s: %s", n, runs, w.points[0], w.first)
	}
	return "at " + strings.Join(w.points, " and ") + ": " + w.first
}

// point names a run's place in the sweep.
func (r *Run) point(axes []planning.Axis) string {
	var parts []string
	for _, a := range axes {
		parts = append(parts, a.Parameter+" "+cmp.Or(r.Set[a.Parameter], "?"))
	}
	return strings.Join(parts, ", ")
}

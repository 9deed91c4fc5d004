package simreport

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/render"
)

type document struct {
	*render.Document
	s *Simulation
}

// Ranks on a small screen: some points of a sweep leave first, then descriptions, then doubts.
const (
	rankPoint = iota + 1
	rankBasis
	rankGoodput
	rankCheck
)

// Document reports a simulation. What users would see comes first; a screen shows little more.
func Document(s *Simulation) *render.Document {
	d := &document{render.NewDocument("Simulation"), s}
	if len(s.Missed) > 0 {
		d.Answer(render.Bold, "", "No answer: "+s.missedText()+".")
		d.Paragraph("", "The servers do something that is not simulated, stalled for a while, or had a load that "+
			"their metrics do not show; any other result would be a guess. "+
			"Try a longer or calmer time (--window, --at), settings that are not in the metrics (--engine-args), "+
			"or a load test's results (--load-test).")
		d.Item("basis", s.Calibration.Statement)
		d.addAssumptions()
		return d.Document
	}
	d.More = "batch, queue and assumptions"
	r := &s.Runs[0]
	switch {
	case len(s.Sweep) > 0:
		d.More = "every point and the assumptions"
		d.addSweep()
	case r.Error != "":
		d.Answer(render.Bold, "", r.Error)
	default:
		d.addAnswer(r)
	}
	if s.Objective != nil {
		d.Ranked(rankGoodput, "goodput", "share of requests within "+s.Objective.describeObjective()+
			"; ✓ if all percentiles meet it")
	}
	d.writeLimits()
	if len(s.Sweep) == 0 && r.Error == "" {
		d.addRun(r)
	}
	d.addAssumptions()
	return d.Document
}

// A quantity is a result that users would see: its name, the rank of its column on a narrow terminal, its value and,
// if it has one, its interval.
type quantity struct {
	name   string
	rank   int
	of     func(r *Run) string
	within func(r *Run) string
}

// userQuantities returns the quantities of the answer and of each point of a sweep.
func (s *Simulation) userQuantities() (out []quantity) {
	for i, m := range []Metric{TTFT, ITL, E2E} {
		out = append(out, quantity{
			m.displayName() + " P95", 9 - i,
			func(r *Run) string { return formatSeconds(r.latencyP95(m)) }, func(r *Run) string {
				l := r.Latency[m]
				switch {
				case l == nil || l.P95Within == nil:
					return ""
				case r.Overload:
					return render.Seconds(l.P95Within[0]) + " – overload"
				}
				return formatSpan(l.P95Within, render.Seconds)
			},
		})
	}
	number := func(name string, rank int, of func(r *Run) float64) {
		out = append(out, quantity{name, rank, func(r *Run) string { return render.Number(of(r)) }, nil})
	}
	number("output tokens/s", 6, func(r *Run) float64 { return r.Throughput.OutputTokens })
	out[len(out)-1].within = func(r *Run) string {
		if r.Samples == 0 {
			return ""
		}
		return formatSpan(&r.Throughput.Interval, render.Number)
	}
	number("waiting", 4, func(r *Run) float64 { return r.State.WaitingMean })
	number("preemptions", 3, func(r *Run) float64 { return float64(r.Requests.Preemptions) })
	number("not served", 2, func(r *Run) float64 { return float64(r.Requests.Total - r.Requests.Finished) })
	if s.Objective != nil {
		out = append(out, quantity{"goodput", 10, func(r *Run) string {
			if r.Goodput == nil {
				return "–"
			}
			return render.Percent(r.Goodput.Share) + map[bool]string{true: " ✓", false: "  "}[r.Goodput.Met]
		}, nil})
	}
	return out
}

// latencyP95 returns NaN without the latency.
func (r *Run) latencyP95(m Metric) float64 {
	if l := r.Latency[m]; l != nil {
		return l.P95
	}
	return math.NaN()
}

func formatSeconds(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return render.Seconds(v)
}

func (m Metric) displayName() string {
	if m == Queue {
		return string(m)
	}
	return strings.ToUpper(string(m))
}

// addAnswer shows what users would see, next to the present if that is different.
func (d *document) addAnswer(then *Run) {
	s := d.s
	if !s.Served() {
		d.Answer(render.Bold, "", "No request is served: "+describeRefusals(then)+".")
		return
	}
	var now *Run
	head := "As simulated"
	if p := s.Present; p != nil && p.Run.Error == "" {
		now, head = &p.Run, "With "+render.And(p.Changes)
	} else if s.Measured != nil {
		head = "The current servers"
	}
	var rows [][]string
	var said []string
	for i, q := range s.userQuantities() {
		v, was, within := q.of(then), "", ""
		if now != nil {
			was = q.of(now)
		}
		if i > 3 && v == "0" && (now == nil || was == "0") {
			continue
		}
		if q.within != nil {
			within = q.within(then)
		}
		rows = append(rows, []string{q.name, was, v, within})
		if was != "" && was != v {
			v = was + " → " + v
		}
		if i <= 3 {
			said = append(said, q.name+" "+v)
		}
	}
	columns := render.Columns("", "now", "then", "90 % interval")
	if now == nil {
		columns = render.Columns("", "simulated", "90 % interval")
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
	}
	if then.Samples == 0 {
		columns[len(columns)-1].Title = ""
	}
	d.Answer(render.Bold, "", head+": "+strings.Join(said, ", ")+".")
	d.Table(columns, rows)
	if then.Overload {
		d.Item("overload", "at the slow end of the interval the servers do not keep up with the load, and the "+
			"queue keeps growing")
	}
}

// leastRows is how many of a sweep's best points a screen always shows.
const leastRows = 7

// addSweep names the best point and has a row for each one. A narrow terminal omits the less important quantities.
func (d *document) addSweep() {
	s := d.s
	order, quantities := s.sortPoints(), s.userQuantities()
	d.Answer(render.Bold, "", s.summarizeSweep(order))
	columns := []render.Column{{Title: s.Sweep[0].Parameter}}
	for _, q := range quantities {
		columns = append(columns, render.Column{Title: q.name, Rank: q.rank})
	}
	var rows [][]string
	var ranks []int
	add := func(name string, rank int, r *Run) {
		row := []string{name}
		if r.Error != "" {
			row = append(row, r.Error)
		} else {
			for _, q := range quantities {
				row = append(row, q.of(r))
			}
		}
		rows, ranks = append(rows, row), append(ranks, rank)
	}
	if s.Present != nil {
		add("now", 0, &s.Present.Run)
	}
	for i := range s.Runs {
		rank := 0
		if slices.Index(order, i) >= leastRows || s.Runs[i].Error != "" && len(s.Runs) > leastRows {
			rank = rankPoint
		}
		add(s.Runs[i].Set[s.Sweep[0].Parameter], rank, &s.Runs[i])
	}
	d.Table(columns, rows).Ranks = ranks
}

// writeLimits shows how far the answer can be trusted.
func (d *document) writeLimits() {
	s := d.s
	var means []string
	for _, row := range s.comparePresent()[:min(3, len(s.comparePresent()))] {
		means = append(means, row[0]+" "+row[1]+" | "+row[2])
	}
	if len(means) > 0 {
		d.Ranked(rankCheck, "check", "now, measured | simulated: "+strings.Join(means, ", "))
	}
	far := func(a, b, factor float64) bool { return a > 0 && b > 0 && max(a/b, b/a) > factor }
	if r, m := s.presentRun(), s.Measured; m != nil && r.Latency[ITL] != nil &&
		(far(m.TTFTMean, r.State.TTFTMean, 2) || far(m.ITLMean, r.Latency[ITL].Mean, 1.5)) {
		d.Item("warning", "the simulation of the current servers is far from the measurement: the servers do "+
			"something that is not simulated, or use a setting that is not in their metrics (--engine-args)")
	}
	for _, n := range s.Calibration.Notes {
		d.Item("warning", n)
	}
	basis, _, _ := strings.Cut(s.Calibration.Statement, ";")
	d.ShowIn(render.Screen)
	d.Ranked(rankBasis, "basis", basis)
	brief, full := s.mergeWarnings()
	if len(s.Sweep) > 0 && len(brief) > 0 {
		d.Item("warning", strings.Join(brief, "; "))
	}
	d.ShowIn(render.Details)
	d.Item("basis", s.Calibration.Statement)
	if len(s.Sweep) == 0 {
		d.ShowIn(render.Everywhere)
	}
	for _, w := range full {
		d.Item("warning", w)
	}
	d.ShowIn(render.Everywhere)
}

// mergeWarnings merges the warnings of all runs by kind, which is their text before the numbers: brief says at how many
// points a kind occurs, full adds its first warning.
func (s *Simulation) mergeWarnings() (brief, full []string) {
	first, points := map[string]string{}, map[string]map[int]bool{}
	for i := range s.Runs {
		for _, text := range s.Runs[i].Warnings {
			kind := text
			if at := strings.IndexAny(text, ":,"); at > 0 && len(s.Sweep) > 0 {
				kind = text[:at]
			}
			if points[kind] == nil {
				first[kind], points[kind] = text, map[int]bool{}
			}
			points[kind][i] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(first)) {
		at := fmt.Sprintf("%d of %d points", len(points[kind]), len(s.Runs))
		brief = append(brief, kind+" at "+at)
		if len(s.Sweep) > 0 {
			first[kind] = "at " + at + ", first: " + first[kind]
		}
		full = append(full, first[kind])
	}
	return brief, full
}

// addRun shows all details of a simulation without a sweep.
func (d *document) addRun(r *Run) {
	d.ShowIn(render.Details)
	defer d.ShowIn(render.Everywhere)
	columns := render.Columns("", "count", "mean", "interval", "P50", "P90", "P95", "P99", "max")
	columns[1].Rank, columns[3].Rank, columns[5].Rank = 2, 1, 3 // a narrow terminal omits these
	var rows [][]string
	for _, m := range []Metric{TTFT, Queue, ITL, TPOT, E2E} {
		if l := r.Latency[m]; l != nil {
			rows = append(rows, []string{
				m.displayName(), render.Number(float64(l.Count)), render.Seconds(l.Mean),
				formatSpan(l.MeanWithin, render.Seconds), render.Seconds(l.P50), render.Seconds(l.P90),
				render.Seconds(l.P95), render.Seconds(l.P99), render.Seconds(l.Max),
			})
		}
	}
	d.Section("The run", "")
	d.Table(columns, rows)
	if r.Samples > 0 {
		d.Paragraph("", fmt.Sprintf("intervals: 90 %% of %d samples of the calibration", r.Samples))
	}
	x, s, q := &r.Throughput, &r.State, &r.Requests
	d.Item("throughput", fmt.Sprintf("%s requests/s, %s prompt tokens/s; engine busy %s of the time",
		render.Number(x.Requests), render.Number(x.PromptTokens), render.Percent(x.Busy)))
	d.Item("batch", fmt.Sprintf("%s running on average, %s at most", render.Number(s.RunningMean),
		render.Number(s.RunningMax)))
	d.Item("queue", fmt.Sprintf("%s waiting on average, %s at most, %s when the last request arrived",
		render.Number(s.WaitingMean), render.Number(s.WaitingMax), render.Number(s.WaitingEnd)))
	cache := fmt.Sprintf("%s full on average, %s at most", render.Percent(s.KVMean), render.Percent(s.KVMax))
	if s.PrefixHits > 0 {
		cache += fmt.Sprintf("; %s of the prompt tokens from the prefix cache", render.Percent(s.PrefixHits))
	}
	d.Item("KV cache", cache)
	preempted := fmt.Sprintf("%d, of %d requests", q.Preemptions, q.Preempted)
	if r.Samples > 0 && q.Interval[1] > 0 {
		preempted += fmt.Sprintf(" (%.0f to %.0f)", q.Interval[0], q.Interval[1])
	}
	d.Item("preemptions", preempted)
	if len(q.Refused) > 0 {
		d.Item("not served", describeRefusals(r))
	}
	if rows := d.s.comparePresent(); rows != nil {
		d.Section("Compared with the current servers", "")
		d.Table(render.Columns("", "measured", "simulated"), rows)
	}
}

func (d *document) addAssumptions() {
	w, p := &d.s.Workload, &d.s.Deployment
	work := fmt.Sprintf("%s; %d requests in %s (%s/s), %s prompt and %s output tokens on average", w.Text, w.Requests,
		render.Seconds(w.Duration), render.Number(w.Rate),
		render.Number(w.PromptTokens), render.Number(w.OutputTokens))
	if w.SharedTokens > 0 {
		work += fmt.Sprintf(", of which %s shared", render.Number(w.SharedTokens))
	}
	work += fmt.Sprintf("; seed %d", w.Seed)
	if len(d.s.Sweep) > 0 {
		work += "; at the first point of the sweep"
	}
	deployed := fmt.Sprintf("vLLM %s, %s %v, %s %v, KV cache of %s tokens", p.VLLM, "max-num-seqs",
		p.Settings["max-num-seqs"].Value,
		"max-num-batched-tokens", p.Settings["max-num-batched-tokens"].Value, render.Number(float64(p.KVTokens)))
	if p.Replicas > 1 {
		deployed = fmt.Sprintf("%d replicas, %s: each %s", p.Replicas, p.Route, deployed)
	}
	d.ShowIn(render.Details)
	d.Section("What was simulated", "")
	d.Item("workload", work)
	d.Item("deployment", deployed)
	for _, n := range w.Notes {
		d.Item("note", n)
	}
	d.Ranked(0, "assumed", strings.Join(p.Assumed, "; "))
	if len(p.NotModelled) > 0 {
		d.Item("left out", strings.Join(p.NotModelled, ", ")+": present in the servers, not simulated")
	}
}

// comparePresent compares the measurements with the simulated present: names, measured and simulated values. It returns
// nil if either is missing.
func (s *Simulation) comparePresent() [][]string {
	r, m := s.presentRun(), s.Measured
	if m == nil || r.Latency[TTFT] == nil || r.Latency[ITL] == nil {
		return nil
	}
	a := &r.State.Arriving
	return [][]string{
		{"TTFT mean", render.Seconds(m.TTFTMean), render.Seconds(r.State.TTFTMean)},
		{"ITL mean", render.Seconds(m.ITLMean), render.Seconds(r.Latency[ITL].Mean)},
		{"output tokens/s", render.Number(m.OutputPerSecond), render.Number(a.OutputTokens)},
		{"running, mean", render.Number(m.Running), render.Number(a.Running)},
		{"waiting, mean", render.Number(m.Waiting), render.Number(a.Waiting)},
		{"KV cache, mean", render.Percent(m.KVUsage), render.Percent(a.KVUsage)},
		{"preemptions", render.Number(m.Preemptions), render.Number(float64(r.Requests.Preemptions))},
	}
}

// presentRun returns the run of the current servers.
func (s *Simulation) presentRun() *Run {
	if s.Present != nil {
		return &s.Present.Run
	}
	return &s.Runs[0]
}

func formatSpan(v *[2]float64, format func(float64) string) string {
	if v == nil || format(v[0]) == format(v[1]) {
		return ""
	}
	return format(v[0]) + " – " + format(v[1])
}

func describeRefusals(r *Run) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(r.Requests.Refused)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Requests.Refused[k], k))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(" of %d requests", r.Requests.Total)
}

func (o *Objective) describeObjective() string {
	return render.Objective(o.TTFT, o.ITL, o.E2E) + " (" + o.Name + ")"
}

// sortPoints sorts the points by merit: points within the objective by throughput, others by their share of requests
// within it, or without an objective by the time to first token.
func (s *Simulation) sortPoints() []int {
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

func (s *Simulation) summarizeSweep(order []int) string {
	if len(order) == 0 {
		return "No point of the sweep serves a request."
	}
	r, met := &s.Runs[order[0]], 0
	for i := range s.Runs {
		if g := s.Runs[i].Goodput; g != nil && g.Met {
			met++
		}
	}
	what := fmt.Sprintf("%s %s (%s output tokens/s, TTFT P95 %s)", s.Sweep[0].Parameter, r.Set[s.Sweep[0].Parameter],
		render.Number(r.Throughput.OutputTokens), render.Seconds(r.Latency[TTFT].P95))
	switch {
	case r.Goodput == nil:
		return "The shortest TTFT P95 is at " + what + "."
	case met == 0:
		return fmt.Sprintf("None of %d points meets the objective; the nearest is %s with %s of the requests.",
			len(s.Runs), what, render.Percent(r.Goodput.Share))
	}
	return fmt.Sprintf("%d of %d points meet the objective; the one with the most tokens/s is %s.", met, len(s.Runs),
		what)
}

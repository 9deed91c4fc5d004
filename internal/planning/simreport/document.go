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

// Ranks of the parts of a report: the lowest leave a small screen first.
const (
	rankPoint = iota + 1
	rankBasis
	rankGoodput
	rankCheck
)

// Document reports a simulation. It begins with the latencies that users would see; a screen shows little more.
func Document(s *Simulation) *render.Document {
	d := &document{render.NewDocument("Simulation"), s}
	r := &s.Runs[0]
	switch {
	case len(s.Missed) > 0:
		d.Answer(render.Bold, "", "No answer: "+s.missedText()+".")
		d.Paragraph("", "The servers do something that is not simulated, stalled for a while, or had a load that "+
			"their metrics do not show; any other result would be a guess. "+
			"Try a longer or calmer time (--window, --at), settings that are not in the metrics (--engine-args), "+
			"or a load test's results (--load-test).")
	case s.Sweep != nil:
		d.More = "every point and the assumptions"
		d.addSweep()
	case r.Error != "":
		d.Answer(render.Bold, "", r.Error)
	case !s.Served():
		d.Answer(render.Bold, "", "No request is served: "+describeRefusals(r)+".")
	default:
		d.More = "percentiles, batch, queue and assumptions"
		d.addAnswer(r)
	}
	if s.Objective != "" && len(s.Missed) == 0 {
		d.Ranked(rankGoodput, "goodput", "share of requests within "+s.Objective+"; ✓ if all percentiles meet it")
	}
	d.addLimits()
	d.addAssumptions()
	return d.Document
}

// shown lists the quantities that users notice, with the ranks of their columns on a narrow terminal.
var shown = []struct {
	name string
	rank int
}{
	{ttft, 9},
	{"ITL P95", 8},
	{"E2E P95", 7},
	{tokens, 6},
	{"waiting", 4},
	{"preemptions", 3},
	{"not served", 2},
	{goodput, 10},
}

// text writes a quantity, or "–" if the run does not have it.
func (r *Run) text(name string) string {
	q := r.Find(name)
	switch {
	case q == nil:
		return "–"
	case name == goodput:
		return q.Format(q.Value) + map[bool]string{true: " ✓", false: "  "}[r.Met]
	}
	return q.Format(q.Value)
}

// interval writes the interval of a quantity, or "" without one.
func (r *Run) interval(name string) string {
	q := r.Find(name)
	if q == nil || q.Format(q.Low) == q.Format(q.High) {
		return ""
	}
	if r.Overload && strings.HasSuffix(name, "P95") {
		return q.Format(q.Low) + " – overload"
	}
	return q.Format(q.Low) + " – " + q.Format(q.High)
}

// addAnswer shows the quantities that users notice, beside the present if it differs, and then all other quantities.
func (d *document) addAnswer(then *Run) {
	s, now, head := d.s, d.s.Present, "As simulated"
	if now != nil && now.Error != "" {
		now = nil
	}
	switch {
	case now != nil:
		head = "With " + render.And(s.Changes)
	case s.Check != nil:
		head = "The current servers"
	}
	var first []string // quantities for the first sentence
	var users, others [][]string
	row := func(name string) []string {
		if now == nil {
			return []string{name, then.text(name), then.interval(name)}
		}
		return []string{name, now.text(name), then.text(name), then.interval(name)}
	}
	for i, q := range shown {
		v := then.text(q.name)
		if now != nil && now.text(q.name) != v {
			v = now.text(q.name) + " → " + v
		}
		if i < 4 {
			first = append(first, q.name+" "+v)
		}
		if v != "0" && (q.name != goodput || s.Objective != "") {
			users = append(users, row(q.name))
		}
	}
	for _, q := range then.Quantities {
		if !slices.ContainsFunc(users, func(r []string) bool { return r[0] == q.Name }) {
			others = append(others, row(q.Name))
		}
	}
	columns := render.Columns("", "now", "then", "90 % interval")
	if now == nil {
		columns = render.Columns("", "simulated", "90 % interval")
	}
	d.Answer(render.Bold, "", head+": "+strings.Join(first, ", ")+".")
	d.Table(columns, users).In(render.Screen)
	d.Table(columns, append(users, others...)).In(render.Details)
	if len(then.Refused) > 0 {
		d.Item("not served", describeRefusals(then)).In(render.Details)
	}
	if then.Overload {
		d.Item("overload", "at the slow end of the interval the servers do not keep up with the load, and the "+
			"queue keeps growing")
	}
}

// leastRows is how many of a sweep's best points a screen always shows.
const leastRows = 7

// addSweep names the best point and has a row for each point. A narrow terminal omits the less important quantities.
func (d *document) addSweep() {
	s := d.s
	best := make([]*Run, len(s.Runs))
	for i := range s.Runs {
		best[i] = &s.Runs[i]
	}
	slices.SortStableFunc(best, func(a, b *Run) int { return cmp.Compare(s.merit(b), s.merit(a)) })
	d.Answer(render.Bold, "", s.summarizeSweep(best[0]))
	columns := []render.Column{{Title: s.Sweep.Parameter}}
	for _, q := range shown {
		if q.name != goodput || s.Objective != "" {
			columns = append(columns, render.Column{Title: q.name, Rank: q.rank})
		}
	}
	var rows [][]string
	var ranks []int
	add := func(name string, rank int, r *Run) {
		row := []string{name}
		if r.Error != "" {
			row = append(row, r.Error)
		} else {
			for _, c := range columns[1:] {
				row = append(row, r.text(c.Title))
			}
		}
		rows, ranks = append(rows, row), append(ranks, rank)
	}
	if s.Present != nil {
		add("now", 0, s.Present)
	}
	for i := range s.Runs {
		runRank := 0
		if slices.Index(best, &s.Runs[i]) >= leastRows {
			runRank = rankPoint
		}
		add(s.Runs[i].Point, runRank, &s.Runs[i])
	}
	d.Table(columns, rows).Ranks = ranks
}

// addLimits shows the comparison with the present, the warnings, and the basis of the step times.
func (d *document) addLimits() {
	s := d.s
	if len(s.Missed) == 0 {
		var check []string
		for _, m := range s.Check {
			check = append(check, m.String())
		}
		if len(check) > 0 {
			d.Ranked(rankCheck, "check", "the current servers, simulated: "+strings.Join(check, ", "))
		}
		for _, n := range s.Calibration.Notes {
			d.Item("warning", n)
		}
		for _, text := range s.mergeWarnings() {
			w := d.Item("warning", text)
			if s.Sweep != nil {
				w.Most = 1
			}
		}
	}
	basis, _, _ := strings.Cut(s.Calibration.Statement, ";")
	d.ShowIn(render.Screen)
	d.Ranked(rankBasis, "basis", basis)
	d.ShowIn(render.Details)
	d.Item("basis", s.Calibration.Statement)
}

// mergeWarnings returns the warnings of all points. In a sweep it merges those of one kind, which have the same text
// before the first colon, into the first of them with the number of its points.
func (s *Simulation) mergeWarnings() (out []string) {
	if s.Sweep == nil {
		return s.Runs[0].Warnings
	}
	first, points := map[string]string{}, map[string]map[int]bool{}
	for i := range s.Runs {
		for _, text := range s.Runs[i].Warnings {
			kind, _, _ := strings.Cut(text, ":")
			if points[kind] == nil {
				first[kind], points[kind] = text, map[int]bool{}
			}
			points[kind][i] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(first)) {
		text := first[kind]
		if len(points[kind]) < len(s.Runs) {
			text = fmt.Sprintf("%s (at %d of %d points)", text, len(points[kind]), len(s.Runs))
		}
		out = append(out, text)
	}
	return out
}

// addAssumptions shows the simulated workload and deployment.
func (d *document) addAssumptions() {
	w, p := &d.s.Workload, &d.s.Deployment
	work := fmt.Sprintf("%s; %d requests, %s prompt and %s output tokens on average; seed %d", w.Text,
		d.s.Runs[0].Requests, render.Number(w.PromptTokens), render.Number(w.OutputTokens), w.Seed)
	if d.s.Sweep != nil {
		work += "; at the first point of the sweep"
	}
	deployed := fmt.Sprintf("vLLM %s, max-num-seqs %v, max-num-batched-tokens %v, KV cache of %s tokens", p.VLLM,
		p.Settings["max-num-seqs"], p.Settings["max-num-batched-tokens"], render.Number(float64(p.KVTokens)))
	if p.Replicas > 1 {
		deployed = fmt.Sprintf("%d replicas: each %s", p.Replicas, deployed)
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

func describeRefusals(r *Run) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(r.Refused)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Refused[k], k))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(" of %d requests", r.Requests)
}

// merit returns how good a point of a sweep is. Without an objective, a shorter time to first token is better. With
// one, points within it come first, by throughput, and then the others, by goodput. A point that serves nothing has
// -Inf.
func (s *Simulation) merit(r *Run) float64 {
	first := r.Find(ttft)
	switch {
	case first == nil:
		return math.Inf(-1)
	case s.Objective == "":
		return -first.Value
	case r.Met:
		return 1 + r.Find(tokens).Value
	}
	return r.Find(goodput).Value
}

// summarizeSweep describes the best point.
func (s *Simulation) summarizeSweep(r *Run) string {
	if r.Find(ttft) == nil {
		return "No point of the sweep serves a request."
	}
	met := 0
	for i := range s.Runs {
		if s.Runs[i].Met {
			met++
		}
	}
	what := fmt.Sprintf("%s %s (%s output tokens/s, TTFT P95 %s)", s.Sweep.Parameter, r.Point, r.text(tokens),
		r.text(ttft))
	switch {
	case s.Objective == "":
		return "The shortest TTFT P95 is at " + what + "."
	case met == 0:
		return fmt.Sprintf("None of %d points meets the objective; the nearest is %s with %s of the requests.",
			len(s.Runs), what, strings.TrimSpace(r.text(goodput)))
	}
	return fmt.Sprintf("%d of %d points meet the objective; the one with the most tokens/s is %s.", met, len(s.Runs),
		what)
}

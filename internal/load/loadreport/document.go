package loadreport

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/render"
)

// Document reports results, and the search that led to them, if any; unit is the unit of its levels. A screen shows
// the answer; the full form has every latency, the servers' signals and the generator's judgement of itself.
func Document(found *load.Found, unit string, results ...*load.Result) *render.Document {
	title := "Load test"
	if len(results) > 0 {
		title += " of " + results[0].Target.Model
	}
	d := &document{render.NewDocument(title), render.Everywhere}
	if found != nil {
		d.addSearch(found, unit)
		d.everywhere = render.Details
	} else if len(results) > 1 {
		d.ShowIn(render.Screen)
		for _, r := range results {
			style, answer := Answer(r)
			d.Answer(style, r.Name, answer)
			d.Rank(rankEvidence) // on a small screen the first one stays
		}
		d.Rank(0)
		d.ShowIn(render.Everywhere)
		d.compareScenarios(results)
		d.everywhere = render.Details
	}
	for _, r := range results {
		d.ShowIn(d.everywhere)
		d.addResult(r)
		d.More = "every latency and all evidence"
	}
	return d.Document
}

// compareScenarios shows a line for each result.
func (d *document) compareScenarios(results []*load.Result) {
	rows := make([][]string, len(results))
	for i, r := range results {
		rows[i] = []string{r.Name, fmt.Sprint(r.Requests.Complete)}
		for _, m := range []load.Metric{load.TTFT, load.ITL, load.E2E} {
			p95 := "–"
			if x, ok := r.Latency[m].At(0.95); ok {
				p95 = render.Seconds(x.Value)
			}
			rows[i] = append(rows[i], p95)
		}
		rows[i] = append(rows[i], render.Number(r.Throughput.OutputTokens), render.Number(r.Throughput.Requests))
	}
	d.Table(render.Columns("scenario", "requests", "TTFT P95", "ITL P95", "E2E P95", "tokens/s", "req/s"), rows)
}

type document struct {
	*render.Document
	everywhere render.Form // forms that show a result; not a screen if there are several
}

// Ranks of the parts of a short summary: the lowest leave a small screen first.
const (
	rankMetric = iota + 1
	rankFollows
	rankEvidence
	rankGenerator
	rankMark
	rankAlso
	rankNote
	rankError
	rankThroughput
	rankFix
)

func (d *document) addItem(rank int, name, format string, args ...any) *render.Block {
	d.Rank(rank)
	defer d.Rank(0)
	return d.Item(name, fmt.Sprintf(format, args...))
}

var metricTitles = map[load.Metric]string{
	load.TTFT: "TTFT", load.TTFTScheduled: "TTFT from schedule", load.ITL: "ITL (per token)", load.TPOT: "TPOT",
	load.E2E: "E2E", load.E2EScheduled: "E2E from schedule", load.Stall: "longest stall", load.Connect: "connect",
}

// metricTitle returns a latency's name in reports.
func metricTitle(m load.Metric) string {
	if t, ok := metricTitles[m]; ok {
		return t
	}
	return string(m)
}

// addResult reports one result, with a title on a page.
func (d *document) addResult(r *load.Result) {
	style, answer := Answer(r)
	name := r.Name
	if name != "" && d.everywhere != render.Everywhere {
		d.Section(name, "")
	} else if name != "" {
		name += ": "
	}
	d.Answer(style, "", answer)
	d.Paragraph("", fmt.Sprintf("%s%s at %s (%s)", name, r.Target.Model, r.Target.URL, r.Target.API))
	d.Paragraph("", describeLoad(r))
	if v := r.Target.Version; v != "" {
		d.Paragraph("", "version "+v).In(render.Page)
	}
	d.Paragraph("", "started "+r.Started.Format("2006-01-02 15:04:05 MST")).In(render.Page)
	d.addLatencies(r)
	d.addRequests(r)
	x := &r.Throughput
	d.addItem(rankThroughput, "throughput", "requests/s %s, output tokens/s %s",
		render.WithInterval(render.Number(x.Requests), render.Number(x.RequestsLow), render.Number(x.RequestsHigh)),
		render.WithInterval(render.Number(x.OutputTokens), render.Number(x.OutputLow), render.Number(x.OutputHigh)))
	if g := r.Goodput; g != nil {
		d.addItem(0, "goodput", "%s of the requests, %s requests/s, within %s", render.Percent(g.Share),
			render.Number(g.Requests), formatObjective(g))
	}
	d.ShowIn(render.Details)
	d.addItem(0, "input", "%s input tokens/s", render.Number(x.InputTokens))
	d.addItem(0, "in flight", "%.1f on average", r.Streams.Mean)
	d.addItem(0, "tokens", "prompt %.0f (requested %.0f), output %.0f (requested %.0f)%s", r.Tokens.Prompt,
		r.Tokens.PromptAsked, r.Tokens.Output, r.Tokens.OutputAsked, describeCached(r))
	d.ShowIn(d.everywhere)
	d.addServer(r)
	d.addGenerator(r)
	d.Item("steady state", r.Window.Why).In(render.Details)
	if hasUnboundedP99(r) {
		d.addItem(rankMark, "* and ?", "too few requests to bound that percentile from above")
	}
	for _, n := range r.Notes {
		d.addItem(rankNote, "note", "%s", n)
	}
}

// Answer summarizes a result in a sentence, with a style.
func Answer(r *load.Result) (render.Style, string) {
	switch q := &r.Requests; {
	case q.Complete == 0:
		return render.Bad, "No request was answered."
	case r.Gone > 0:
		return render.Bad, fmt.Sprintf("The server went away after %s: the numbers cover the time until then.",
			render.Seconds(r.Gone))
	case r.Generator.Spoiled:
		return render.Bad, "Not to be trusted: the load generator distorted the result: " +
			strings.Join(r.Generator.Reasons, "; ") + "."
	}
	var p95 []string
	for _, m := range []load.Metric{load.TTFT, load.ITL, load.E2E} {
		if x, ok := r.Latency[m].At(0.95); ok {
			p95 = append(p95, strings.ToUpper(string(m))+" "+render.Seconds(x.Value))
		}
	}
	style, lead := render.Bold, ""
	if g := r.Goodput; g != nil {
		if style, lead = render.Bad, "Objective missed: "; g.Met {
			style, lead = render.Good, "Objective met: "
		}
	}
	failed := ""
	if r.Requests.Failed > 0 {
		failed = fmt.Sprintf(", %d failed", r.Requests.Failed)
	}
	return style, fmt.Sprintf("%s%s requests/s, %s output tokens/s%s; P95 of %s.", lead,
		render.Number(r.Throughput.Requests),
		render.Number(r.Throughput.OutputTokens), failed, strings.Join(p95, ", "))
}

// addLatencies shows the latencies of users, and in full all latencies.
func (d *document) addLatencies(r *load.Result) {
	var rows [][]string
	var ranks []int
	for _, m := range load.Metrics() {
		x := r.Latency[m]
		if x == nil || x.Count == 0 || m == load.TTFTScheduled && areAlike(r, load.TTFT, m) ||
			m == load.E2EScheduled && areAlike(r, load.E2E, m) {
			continue
		}
		row := []string{metricTitle(m), render.Seconds(x.Mean)}
		for _, q := range []float64{0.5, 0.95, 0.99} {
			p, _ := x.At(q)
			mark := ""
			if p.Few {
				mark = "*"
			}
			row = append(row, render.Seconds(p.Value)+mark)
		}
		rows, ranks = append(rows, append(row, formatInterval(x))), append(ranks, 0)
		if m != load.TTFT && m != load.ITL && m != load.E2E {
			ranks[len(ranks)-1] = rankMetric
		}
	}
	columns := append(render.Columns("", "mean", "P50", "P95", "P99"),
		render.Column{Title: "95 % interval of P95", Left: true, Rank: 2})
	d.Table(columns, rows).Ranks = ranks
}

// formatInterval writes the interval of a P95, open if too few requests bound it.
func formatInterval(d *load.Distribution) string {
	x, _ := d.At(0.95)
	high := render.Seconds(x.High)
	if x.Few {
		high = "?"
	}
	if low := render.Seconds(x.Low); low != high {
		return low + " – " + high
	}
	return high
}

// areAlike reports whether two latencies are so similar that one of them suffices.
func areAlike(r *load.Result, a, b load.Metric) bool {
	x, y := r.Latency[a], r.Latency[b]
	return x != nil && y != nil && math.Abs(y.Mean-x.Mean) <= 0.005*x.Mean && math.Abs(y.Max-x.Max) <= 0.02*x.Max
}

func hasUnboundedP99(r *load.Result) bool {
	for _, d := range r.Latency {
		if x, ok := d.At(0.99); ok && x.Few {
			return true
		}
	}
	return false
}

// describeLoad describes the load in a line.
func describeLoad(r *load.Result) string {
	l, how := &r.Load, ""
	switch {
	case l.Concurrency > 0:
		how = fmt.Sprintf("closed loop of %d streams", l.Concurrency)
	case l.Trace != "":
		how = fmt.Sprintf("replay of a %s trace at %g times its speed", l.Trace, l.Speed)
	case l.Arrivals != nil && len(l.Arrivals.Profile) == 1 && l.Arrivals.Profile[0].Duration == 0:
		how = fmt.Sprintf("open loop of %g requests/s, %s", l.Arrivals.Profile[0].From, describeSpacing(l.Arrivals.CV))
	case l.Arrivals != nil:
		how = fmt.Sprintf("open loop of %d rate segments, %s", len(l.Arrivals.Profile), describeSpacing(l.Arrivals.CV))
	}
	return fmt.Sprintf("%s, %d requests in %s", how, r.Requests.Sent, render.Seconds(r.Duration))
}

func describeSpacing(cv float64) string {
	switch cv {
	case 0:
		return "evenly spaced"
	case 1:
		return "Poisson"
	}
	return fmt.Sprintf("gamma with a variation of %g", cv)
}

func (d *document) addRequests(r *load.Result) {
	q := &r.Requests
	line := fmt.Sprintf("%d complete, %d failed", q.Complete, q.Failed)
	if q.Unfinished > 0 {
		line += fmt.Sprintf(", %d unfinished", q.Unfinished)
	}
	d.addItem(0, "requests", "%s", line)
	for _, kind := range slices.Sorted(maps.Keys(q.Errors)) {
		line := fmt.Sprintf("%d × %s", q.Errors[kind], kind)
		if m := q.Messages[kind]; len(m) > 0 {
			line += ": " + strings.Join(m, "; ")
		}
		d.addItem(rankError, "", "%s", line)
	}
}

func formatObjective(g *load.Goodput) string { return render.Objective(g.TTFT, g.ITL, g.E2E) }

func describeCached(r *load.Result) string {
	if r.Tokens.CachedShare == 0 {
		return ""
	}
	return ", " + render.Percent(r.Tokens.CachedShare) + " of the prompt from the prefix cache"
}

func (d *document) addServer(r *load.Result) {
	if r.Server == nil {
		return
	}
	highest := map[string]float64{}
	for _, x := range r.Server.Series {
		for k, v := range x.Values {
			highest[k] = max(highest[k], v)
		}
	}
	var parts []string
	for _, s := range indicator.All() {
		if v, ok := highest[s.Name]; ok {
			parts = append(parts, s.Title+" "+indicator.FormatNumber(v, s.Unit))
		}
	}
	if r.Server.Missed > 0 {
		d.addItem(0, "server", "%d scrapes of its metrics failed", r.Server.Missed)
	}
	if len(parts) > 0 {
		d.Item("server", "at most: "+strings.Join(parts, ", ")).In(render.Details)
	}
	for i := range r.Server.Phases {
		x := &r.Server.Phases[i]
		name := ""
		if i == 0 {
			name = "diagnosis"
		}
		where, rank := "", 0
		if len(r.Server.Phases) > 1 {
			where, rank = x.Name+": ", rankAlso
		}
		// the id repeats the name
		d.addItem(rank, name, "%s%s: %s", where, x.Verdict,
			strings.TrimPrefix(x.Summary, diagnose.NameOf(x.Verdict)+": "))
		for j := range x.Findings {
			d.addFinding(&x.Findings[j], x.Verdict)
		}
		if len(x.Unchecked) > 0 {
			d.Item("", "not checked, no metrics: "+strings.Join(x.Unchecked, ", ")).In(render.Page)
		}
	}
	for _, n := range r.Server.Notes {
		d.addItem(rankNote, "note", "%s", n)
	}
}

// addFinding shows the evidence and the first remedy of the verdict, and names other findings.
func (d *document) addFinding(f *load.FiredPathology, verdict string) {
	switch {
	case f.ExplainBy != "":
		d.addItem(rankFollows, "", "symptom: %s", f.Title)
		return
	case f.ID != verdict:
		d.addItem(rankAlso, "", "also %s: %s", f.ID, f.Summary)
		return
	}
	for _, e := range f.Evidence {
		d.addItem(rankEvidence, "", "%s", e)
	}
	for i, x := range f.Fixes[:min(2, len(f.Fixes))] {
		if item := d.addItem(rankFix, "", "try: %s", x); i > 0 {
			item.In(render.Page)
		}
	}
}

func (d *document) addGenerator(r *load.Result) {
	g := &r.Generator
	judged := "fit to measure"
	if g.Spoiled {
		judged = "distorted the result: " + strings.Join(g.Reasons, "; ")
	}
	d.addItem(rankGenerator, "generator", "%s", judged)
	d.ShowIn(render.Details)
	defer d.ShowIn(d.everywhere)
	line := fmt.Sprintf("send lag %s / %s (P50 / P99)", render.Seconds(g.SendLag.P50), render.Seconds(g.SendLag.P99))
	if g.ReceiveLag.Count > 0 {
		line += fmt.Sprintf(", receive lag %s / %s, corrected by the kernel's times",
			render.Seconds(g.ReceiveLag.P50), render.Seconds(g.ReceiveLag.P99))
	} else {
		line += fmt.Sprintf(", wake-up lag %s / %s", render.Seconds(g.WakeLag.P50), render.Seconds(g.WakeLag.P99))
	}
	d.addItem(0, "", "%s, %s of %d CPUs, %s per event", line, render.Percent(g.Utilisation), g.Cores,
		render.Seconds(g.PerEvent))
	if g.ArrivalCV > 0 {
		d.addItem(0, "", "variation of the times between sends %.2f, %s of the requested rate sent", g.ArrivalCV,
			render.Percent(g.Achieved))
	}
}

// Progress returns the status line of a running test.
func Progress(p load.Progress, sinceTokens int64, interval time.Duration) string {
	first := "–"
	if len(p.TTFTs) > 0 {
		first = render.Seconds(stat.Median(p.TTFTs).Seconds())
	}
	return fmt.Sprintf("%4.0fs  %d sent  %d in flight  %d done  %d failed  %s tokens/s  TTFT P50 %s",
		p.Elapsed.Seconds(), p.Sent, p.InFlight,
		p.Complete, p.Failed, render.Number(float64(sinceTokens)/interval.Seconds()), first)
}

// rankSame is the rank of unchanged quantities in a comparison.
const rankSame = 1

// Comparison reports which quantities changed and, in full, which did not.
func Comparison(c *load.Comparison) *render.Document {
	d := render.NewDocument("")
	style, answer := summarizeChanges(c)
	d.Answer(style, "", answer)
	var rows [][]string
	var ranks []int
	for _, x := range c.Changes {
		rank := 0
		if x.Verdict == load.Same || x.Verdict == load.Unknown {
			rank = rankSame
			d.More = "every quantity"
		}
		show := render.Seconds
		if x.Unit != "s" {
			show = func(v float64) string { return render.Number(v) + "/s" }
		}
		pv := "–"
		if x.P != nil {
			pv = fmt.Sprintf("%.3f", *x.P)
			if *x.P < 0.001 {
				pv = "<0.001"
			}
		}
		rows, ranks = append(rows, []string{
			x.Quantity, show(x.A), show(x.B), fmt.Sprintf("%+.1f %%", 100*x.Relative), pv, x.Verdict,
		}), append(ranks, rank)
	}
	d.Table(render.Words(render.Columns("", "A", "B", "change", "p", "verdict")), rows).Ranks = ranks
	for _, n := range c.Notes {
		d.Paragraph("Note", n)
	}
	return d
}

// summarizeChanges summarizes what became worse and better from A to B.
func summarizeChanges(c *load.Comparison) (render.Style, string) {
	of := func(verdict string) string {
		var out []string
		for _, x := range c.Changes {
			if x.Verdict == verdict {
				out = append(out, fmt.Sprintf("%s (%+.1f %%)", x.Quantity, 100*x.Relative))
			}
		}
		return render.And(out)
	}
	worse, better := of(load.Worse), of(load.Better)
	switch {
	case worse != "" && better != "":
		return render.Bad, "B is worse than A in " + worse + "; better in " + better + "."
	case worse != "":
		return render.Bad, "B is worse than A in " + worse + "."
	case better != "":
		return render.Good, "B is better than A in " + better + "."
	}
	return render.Bold, "No significant difference between A and B."
}

// addSearch reports the answer and the trials of a search.
func (d *document) addSearch(f *load.Found, unit string) {
	switch {
	case f.Best == nil:
		d.Answer(render.Bad, "", "No level met the objective: "+f.Why+".")
	default:
		end := "; " + f.Why
		if f.Above > 0 {
			end = fmt.Sprintf(", missed at %.4g", f.Above)
			if !f.Done {
				end += "; " + f.Why
			}
		}
		d.Answer(render.Good, "", fmt.Sprintf("Highest load within the objective: %.4g %s%s.", f.Best.Level, unit, end))
	}
	if x := findBottleneck(f); x != nil {
		d.Paragraph("Bottleneck beyond that load", x.Verdict+": "+x.Summary)
	}
	columns := []render.Column{
		{Title: unit},
		{Left: true},
		{Title: "TTFT P95"},
		{Title: "ITL P95"},
		{Title: "E2E P95"},
		{Title: "tokens/s"},
		{Title: "the server", Left: true, Rank: 1},
		{Left: true},
	}
	var rows [][]string
	for _, x := range f.Trials {
		row := []string{fmt.Sprintf("%.4g", x.Level), "missed"}
		if x.Met {
			row[1] = "met"
		}
		if r := x.Result; r != nil {
			for _, m := range []load.Metric{load.TTFTScheduled, load.ITL, load.E2EScheduled} {
				q, _ := r.Latency[m].At(0.95)
				row = append(row, render.Seconds(q.Value))
			}
			row = append(row, render.Number(r.Throughput.OutputTokens), trialVerdict(x))
		}
		rows = append(rows, append(row, x.Why))
	}
	d.Table(columns, rows)
}

// trialVerdict returns the diagnosis of a trial in a word.
func trialVerdict(t load.Trial) string {
	if t.Result == nil || t.Result.Server == nil || len(t.Result.Server.Phases) == 0 {
		return ""
	}
	return t.Result.Server.Phases[len(t.Result.Server.Phases)-1].Verdict
}

// findBottleneck returns the diagnosis of the lowest level that missed the objective, or nil without a finding.
func findBottleneck(f *load.Found) *load.Phase {
	var lowest *load.Trial
	for i := range f.Trials {
		if t := &f.Trials[i]; !t.Met && trialVerdict(*t) != "" && (lowest == nil || t.Level < lowest.Level) {
			lowest = t
		}
	}
	if lowest == nil {
		return nil
	}
	phases := lowest.Result.Server.Phases
	if x := &phases[len(phases)-1]; x.Status == "firing" {
		return x
	}
	return nil
}

package loadreport

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/stat"
	"github.com/sixty-dev/sixty/internal/workload"
)

// text has the names of what it tells in a column of their own.
type text struct{ *render.Text }

// How long parts of a short summary stay where there is no room for all of them.
const (
	rankFollows = iota + 1
	rankEvidence
	rankGenerator
	rankTenant
	rankMark
	rankAlso
	rankNote
	rankError
	rankThroughput
	rankFix
)

func (t *text) item(name, format string, args ...any) {
	t.Item(13, name, fmt.Sprintf(format, args...))
}

var metricTitles = map[load.Metric]string{
	load.TTFT: "TTFT", load.TTFTScheduled: "TTFT from schedule", load.ITL: "ITL (per token)", load.TPOT: "TPOT", load.E2E: "E2E",
	load.E2EScheduled: "E2E from schedule", load.Stall: "longest stall", load.Connect: "connect", load.QueueWait: "wait for a stream",
}

// Title is a latency's name in reports.
func Title(m load.Metric) string {
	if t, ok := metricTitles[m]; ok {
		return t
	}
	return string(m)
}

// TextOptions say how a result is told.
type TextOptions struct {
	render.Options
	Full bool // every latency, the server's signals, the generator's judgement of itself
}

// Text writes a summary for a terminal, the answer first.
func Text(w io.Writer, r *load.Result, o TextOptions) error {
	t := &text{render.NewText(o.Options)}
	style, answer := Answer(r)
	t.Styled(style, "", "  ", answer)
	name := r.Name
	if name != "" {
		name += ": "
	}
	t.Paragraph("", "  ", fmt.Sprintf("%s%s at %s (%s%s)", name, r.Target.Model, r.Target.URL, r.Target.API, streaming(r.Target.Stream)))
	t.Paragraph("", "  ", Shape(r))
	t.Line("")
	table(t, r, o.Full)
	t.Line("")
	requests(t, r)
	x := &r.Throughput
	t.Part(rankThroughput)
	t.item("throughput", "%s requests/s (%s – %s), %s output tokens/s (%s – %s)", render.Number(x.Requests), render.Number(x.RequestsLow), render.Number(x.RequestsHigh),
		render.Number(x.OutputTokens), render.Number(x.OutputLow), render.Number(x.OutputHigh))
	t.Part(0)
	if g := r.Goodput; g != nil {
		t.item("goodput", "%s of the requests, %s requests/s, within %s", render.Percent(g.Share), render.Number(g.Requests), objective(g))
	}
	if o.Full {
		t.item("input", "%s input tokens/s", render.Number(x.InputTokens))
		t.item("in flight", "%.1f on average, %d at most", r.Streams.Mean, r.Streams.Max)
		t.item("tokens", "prompt %.0f (asked %.0f), output %.0f (asked %.0f)%s", r.Tokens.Prompt, r.Tokens.PromptAsked, r.Tokens.Output, r.Tokens.OutputAsked, cached(r))
	}
	tenants(t, r)
	server(t, r, o.Full)
	generator(t, r, o.Full)
	if o.Full {
		t.item("steady state", "%s", r.Window.Why)
	}
	if few(r) {
		t.Part(rankMark)
		t.item("* and ?", "too few requests to bound that percentile from above")
	}
	for _, n := range r.Notes {
		t.Part(rankNote)
		t.item("note", "%s", n)
	}
	if !o.Full {
		kept := 1
		if r.Generator.Spoiled {
			kept = 3 // for the error that says what to do about it
		}
		t.Fit(kept)
		t.item("more", "-v shows every latency and all evidence; --html FILE draws them")
	}
	_, err := t.WriteTo(w)
	return err
}

// Answer is what a result says, in a sentence, and how it is to stand out.
func Answer(r *load.Result) (render.Style, string) {
	switch q := &r.Requests; {
	case q.Complete+q.Cancelled == 0:
		return render.Bad, "No request was answered."
	case r.Gone > 0:
		return render.Bad, fmt.Sprintf("The server went away after %s: the numbers are of the time until then.", render.Seconds(r.Gone))
	case r.Generator.Spoiled:
		return render.Bad, "Not to be trusted: the generator itself spoiled the result: " + strings.Join(r.Generator.Reasons, "; ") + "."
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
	return style, fmt.Sprintf("%s%s requests/s, %s output tokens/s%s; P95 of %s.", lead, render.Number(r.Throughput.Requests),
		render.Number(r.Throughput.OutputTokens), failed, strings.Join(p95, ", "))
}

// table shows the latencies: those of users, or all of them.
func table(t *text, r *load.Result, full bool) {
	var rows [][]string
	names, quantiles, metrics := []string{"P50", "P95", "P99"}, []float64{0.5, 0.95, 0.99}, []load.Metric{load.TTFT, load.ITL, load.E2E}
	if full {
		names, quantiles, metrics = []string{"mean", "P50", "P90", "P95", "P99", "max"}, []float64{0.5, 0.9, 0.95, 0.99}, load.Metrics()
	}
	for _, m := range metrics {
		d := r.Latency[m]
		if d == nil || d.Count == 0 || m == load.TTFTScheduled && same(r, load.TTFT, m) || m == load.E2EScheduled && same(r, load.E2E, m) {
			continue
		}
		var row []string
		for _, q := range quantiles {
			x, _ := d.At(q)
			mark := ""
			if x.Few {
				mark = "*"
			}
			row = append(row, render.Seconds(x.Value)+mark)
		}
		if full {
			row = append(append([]string{render.Seconds(d.Mean)}, row...), render.Seconds(d.Max))
		}
		rows = append(rows, append(append([]string{Title(m)}, row...), interval(d)))
	}
	columns := append(render.Columns("", names...), render.Column{Title: "95 % interval of P95", Left: true, Rank: 2})
	if full {
		columns[3].Rank = 1
	}
	t.Table(columns, rows)
}

// interval is that of a P95, open where too few requests bound it.
func interval(d *load.Distribution) string {
	x, _ := d.At(0.95)
	high := render.Seconds(x.High)
	if x.Few {
		high = "?"
	}
	return render.Seconds(x.Low) + " – " + high
}

func streaming(s bool) string {
	if s {
		return ", streaming"
	}
	return ", not streaming"
}

// same reports whether two latencies are alike enough to show one of them.
func same(r *load.Result, a, b load.Metric) bool {
	x, y := r.Latency[a], r.Latency[b]
	return x != nil && y != nil && math.Abs(y.Mean-x.Mean) <= 0.005*x.Mean && math.Abs(y.Max-x.Max) <= 0.02*x.Max
}

func few(r *load.Result) bool {
	for _, d := range r.Latency {
		if x, ok := d.At(0.99); ok && x.Few {
			return true
		}
	}
	return false
}

// Shape says in a line how the load was made.
func Shape(r *load.Result) string {
	l, how := &r.Load, ""
	switch {
	case l.Concurrency > 0:
		how = fmt.Sprintf("closed loop of %d streams", l.Concurrency)
	case l.Trace != "":
		how = fmt.Sprintf("replay of a %s trace at %g times its speed", l.Trace, l.Speed)
	case l.Arrivals != nil && len(l.Arrivals.Profile) == 1 && l.Arrivals.Profile[0].Duration == 0:
		how = fmt.Sprintf("open loop of %g requests/s, %s", l.Arrivals.Profile[0].From, spacing(l.Arrivals.CV))
	case l.Arrivals != nil:
		how = fmt.Sprintf("open loop of %d rate segments, %s", len(l.Arrivals.Profile), spacing(l.Arrivals.CV))
	}
	return fmt.Sprintf("%s, %d requests in %s", how, r.Requests.Sent, render.Seconds(r.Duration))
}

func spacing(cv float64) string {
	switch cv {
	case 0:
		return "evenly spaced"
	case 1:
		return "Poisson"
	}
	return fmt.Sprintf("gamma with a variation of %g", cv)
}

func requests(t *text, r *load.Result) {
	q := &r.Requests
	line := fmt.Sprintf("%d complete, %d failed", q.Complete, q.Failed)
	for _, x := range []struct {
		n    int
		what string
	}{{q.Cancelled, "left by their client"}, {q.Unfinished, "unfinished"}} {
		if x.n > 0 {
			line += fmt.Sprintf(", %d %s", x.n, x.what)
		}
	}
	t.item("requests", "%s", line)
	for _, kind := range slices.Sorted(maps.Keys(q.Errors)) {
		t.Part(rankError)
		line := fmt.Sprintf("%d × %s", q.Errors[kind], kind)
		if m := q.Messages[kind]; len(m) > 0 {
			line += ": " + strings.Join(m, "; ")
		}
		t.item("", "%s", render.Clean(line))
	}
}

func objective(g *load.Goodput) string { return render.Objective(g.TTFT, g.ITL, g.E2E) }

func cached(r *load.Result) string {
	if r.Tokens.CachedShare == 0 {
		return ""
	}
	return ", " + render.Percent(r.Tokens.CachedShare) + " of the prompt from the prefix cache"
}

func tenants(t *text, r *load.Result) {
	for _, name := range slices.Sorted(maps.Keys(r.Tenants)) {
		x := r.Tenants[name]
		first, _ := x.Latency[load.TTFT].At(0.95)
		whole, _ := x.Latency[load.E2E].At(0.95)
		t.Part(rankTenant)
		t.item("tenant "+name, "%d requests, %d failed, TTFT P95 %s, E2E P95 %s, %s output tokens/s", x.Requests, x.Failed, render.Seconds(first.Value), render.Seconds(whole.Value), render.Number(x.Output))
	}
}

func server(t *text, r *load.Result, full bool) {
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
	for _, k := range signals(highest) {
		s := signal(k)
		parts = append(parts, s.Title+" "+indicator.FormatNumber(highest[k], s.Unit))
	}
	if r.Server.Missed > 0 {
		t.item("server", "%d scrapes of its metrics failed", r.Server.Missed)
	}
	if len(parts) > 0 && full {
		t.item("server", "at most: %s", strings.Join(parts, ", "))
	}
	for i := range r.Server.Phases {
		x := &r.Server.Phases[i]
		name := ""
		if i == 0 {
			name = "diagnosis"
		}
		where := ""
		t.Part(0)
		if len(r.Server.Phases) > 1 {
			where = x.Name + ": "
			t.Part(rankAlso)
		}
		t.item(name, "%s%s: %s", where, x.Verdict, x.Summary)
		for j := range x.Findings {
			finding(t, &x.Findings[j], x.Verdict)
		}
	}
	for _, n := range r.Server.Notes {
		t.Part(rankNote)
		t.item("note", "%s", n)
	}
}

// finding prints the verdict's evidence and first remedy, and the names of what
// else is there.
func finding(t *text, f *load.Finding, verdict string) {
	more := func(rank int, s string) {
		t.Part(rank)
		t.Paragraph(strings.Repeat(" ", 15), strings.Repeat(" ", 17), s)
	}
	switch {
	case f.ExplainBy != "":
		more(rankFollows, "follows from it: "+f.Title)
		return
	case f.ID != verdict:
		more(rankAlso, "also "+f.ID+": "+f.Summary)
		return
	}
	for _, e := range f.Evidence {
		more(rankEvidence, e)
	}
	if len(f.Fixes) > 0 {
		more(rankFix, "try: "+f.Fixes[0])
	}
}

// signals are the keys in the order of reports: what a reader looks for first.
func signals[V any](m map[string]V) []string {
	first := []string{indicator.Running.Name, indicator.Waiting.Name, indicator.KVUsage.Name, indicator.PreemptionRate.Name, indicator.PrefixHitRatio.Name}
	rank := func(k string) int {
		if i := slices.Index(first, k); i >= 0 {
			return i
		}
		return len(first)
	}
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	return keys
}

// signal is a signal by its name; one of a newer version has no unit.
func signal(name string) *indicator.Signal {
	for _, s := range indicator.All() {
		if s.Name == name {
			return s
		}
	}
	return &indicator.Signal{Name: name, Title: name}
}

func generator(t *text, r *load.Result, full bool) {
	g := &r.Generator
	t.Part(rankGenerator)
	switch {
	case g.Spoiled:
		t.item("generator", "spoiled the result")
	default:
		t.item("generator", "fit to measure")
	}
	if !full {
		return
	}
	line := fmt.Sprintf("send lag %s / %s (P50 / P99)", render.Seconds(g.SendLag.P50), render.Seconds(g.SendLag.P99))
	if g.ReceiveLag.Count > 0 {
		line += fmt.Sprintf(", receive lag %s / %s, corrected by the kernel's times", render.Seconds(g.ReceiveLag.P50), render.Seconds(g.ReceiveLag.P99))
	} else {
		line += fmt.Sprintf(", wake-up lag %s / %s", render.Seconds(g.WakeLag.P50), render.Seconds(g.WakeLag.P99))
	}
	t.item("", "%s, %s of %d processors, %s each event", line, render.Percent(g.Utilisation), g.Cores, render.Seconds(g.PerEvent))
	if g.ArrivalCV > 0 {
		t.item("", "variation of the times between sends %.2f, %s of the asked rate sent", g.ArrivalCV, render.Percent(g.Achieved))
	}
}

// Progress is the line that a running test shows.
func Progress(p load.Progress, sinceTokens int64, interval time.Duration) string {
	first := "–"
	if len(p.TTFTs) > 0 {
		first = render.Seconds(stat.Median(p.TTFTs).Seconds())
	}
	s := fmt.Sprintf("%4.0fs  %d sent  %d in flight  %d done  %d failed  %s tokens/s  TTFT P50 %s", p.Elapsed.Seconds(), p.Sent, p.InFlight,
		p.Complete+p.Cancelled, p.Failed, render.Number(float64(sinceTokens)/interval.Seconds()), first)
	if p.Waiting > 0 {
		s += fmt.Sprintf("  %d waiting for a stream", p.Waiting)
	}
	return s
}

// CompareText writes a comparison for a terminal.
func CompareText(w io.Writer, c *load.Comparison, o TextOptions) error {
	same := len(c.Changes)
	t := comparison(c, o, same)
	for !o.Full && t.Lines() > t.Room() && same > 0 {
		same--
		t = comparison(c, o, same)
	}
	_, err := t.WriteTo(w)
	return err
}

// comparison lays a comparison out: what changed, and at most so many quantities that did not.
func comparison(c *load.Comparison, o TextOptions, same int) *render.Text {
	t := render.NewText(o.Options)
	style, answer := compared(c)
	t.Styled(style, "", "  ", answer)
	t.Line("")
	var rows [][]string
	for _, x := range c.Changes {
		if x.Verdict == load.Same || x.Verdict == load.Unknown {
			if same == 0 {
				continue
			}
			same--
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
		rows = append(rows, []string{x.Quantity, show(x.A), show(x.B), fmt.Sprintf("%+.1f %%", 100*x.Relative), pv, x.Verdict})
	}
	if len(rows) > 0 {
		t.Table(render.Words(render.Columns("", "A", "B", "change", "p", "verdict")), rows)
	}
	for _, n := range c.Notes {
		t.Paragraph("note: ", "  ", n)
	}
	if n := len(c.Changes) - len(rows); n > 0 {
		t.Paragraph("", "  ", fmt.Sprintf("%d more did not change, or not surely: -v shows them.", n))
	}
	return t
}

// compared says in a sentence what became worse and what better from A to B.
func compared(c *load.Comparison) (render.Style, string) {
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
	return render.Bold, "No difference between A and B that may not be chance."
}

// SearchText writes a search's answer and its trials for a terminal.
func SearchText(w io.Writer, f *load.Found, unit string, o render.Options) error {
	t := render.NewText(o)
	switch {
	case f.Best == nil && f.Why == "sweep":
		t.Styled(render.Bold, "", "  ", fmt.Sprintf("%d levels were tried.", len(f.Trials)))
	case f.Best == nil:
		t.Styled(render.Bad, "", "  ", "No level met the objective: "+f.Why+".")
	default:
		missed := ""
		if f.Above > 0 {
			missed = fmt.Sprintf(" (missed at %.4g)", f.Above)
		}
		t.Styled(render.Good, "", "  ", fmt.Sprintf("Highest load within the objective: %.4g %s%s; %s.", f.Best.Level, unit, missed, f.Why))
	}
	if x := limit(f); x != nil {
		t.Paragraph("", "  ", fmt.Sprintf("What limits the server beyond it: %s: %s", x.Verdict, x.Summary))
	}
	t.Line("")
	columns := []render.Column{{Title: unit}, {Left: true}, {Title: "TTFT P95"}, {Title: "ITL P95"}, {Title: "E2E P95"}, {Title: "tokens/s"}, {Left: true}}
	var rows [][]string
	for _, x := range f.Trials {
		row := []string{fmt.Sprintf("%.4g", x.Level), "missed"}
		if x.Met {
			row[1] = "met"
		}
		if r := x.Result; r != nil {
			for _, v := range trialLatencies(r) {
				row = append(row, render.Seconds(v))
			}
			row = append(row, render.Number(r.Throughput.OutputTokens))
		}
		rows = append(rows, append(row, x.Why))
	}
	t.Table(columns, rows)
	_, err := t.WriteTo(w)
	return err
}

// TraceText describes a trace for a terminal.
func TraceText(w io.Writer, trace *workload.Trace, o render.Options) error {
	t, s := render.NewText(o), trace.Stats()
	say := func(format string, args ...any) { t.Paragraph("", "  ", fmt.Sprintf(format, args...)) }
	say("%s: %d requests in %s, %.3g per second, variation of the times between them %.2f", trace.Format, s.Requests, s.Duration.Round(1e6), s.Rate, s.ArrivalCV)
	say("prompt tokens %.0f on average, P95 %d; output tokens %.0f on average, P95 %d", s.PromptMean, s.PromptP95, s.OutputMean, s.OutputP95)
	if trace.BlockTokens > 0 {
		say("%.1f %% of the prompt tokens repeat the beginning of an earlier prompt", 100*s.ReusableShare)
	}
	if s.DistinctSessions > 0 {
		say("%d conversations", s.DistinctSessions)
	}
	for _, reason := range slices.Sorted(maps.Keys(trace.Skipped)) {
		say("%d lines left out: %s", trace.Skipped[reason], reason)
	}
	_, err := t.WriteTo(w)
	return err
}

// trialLatencies are the P95s that a search shows of a trial.
func trialLatencies(r *load.Result) []float64 {
	var out []float64
	for _, m := range []load.Metric{load.TTFTScheduled, load.ITL, load.E2EScheduled} {
		q, _ := r.Latency[m].At(0.95)
		out = append(out, q.Value)
	}
	return out
}

// verdict is the diagnosis of a trial in a word.
func verdict(t load.Trial) string {
	if t.Result == nil || t.Result.Server == nil || len(t.Result.Server.Phases) == 0 {
		return ""
	}
	return t.Result.Server.Phases[len(t.Result.Server.Phases)-1].Verdict
}

// limit is what was wrong with the server at the lowest level that missed the
// objective, nil where nothing was or nobody looked.
func limit(f *load.Found) *load.Phase {
	var lowest *load.Trial
	for i := range f.Trials {
		if t := &f.Trials[i]; !t.Met && verdict(*t) != "" && (lowest == nil || t.Level < lowest.Level) {
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

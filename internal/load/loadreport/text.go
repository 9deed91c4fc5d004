package loadreport

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/plot"
)

// printer remembers the first error of a sequence of writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
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

// Text writes a summary for a terminal.
func Text(w io.Writer, r *load.Result) error {
	p := &printer{w: w}
	name := r.Name
	if name != "" {
		name += ": "
	}
	p.f("%s%s at %s (%s%s)\n", name, r.Target.Model, r.Target.URL, r.Target.API, streaming(r.Target.Stream))
	p.f("%s\n", Shape(r))
	if r.Gone > 0 {
		p.f("THE SERVER WENT AWAY after %s: the numbers are of the time until then\n", plot.Duration(r.Gone))
	}
	p.f("\n")
	requests(p, r)
	p.f("%-20s %9s %9s %9s %9s %9s %9s  %s\n", "", "mean", "P50", "P90", "P95", "P99", "max", "95 % interval of P95")
	for _, m := range load.Metrics() {
		d := r.Latency[m]
		if d == nil || d.Count == 0 || m == load.TTFTScheduled && same(r, load.TTFT, m) || m == load.E2EScheduled && same(r, load.E2E, m) {
			continue
		}
		p.f("%-20s %9s", Title(m), plot.Duration(d.Mean))
		for _, q := range []float64{0.5, 0.9, 0.95, 0.99} {
			x, _ := d.At(q)
			mark := ""
			if x.Few {
				mark = "*"
			}
			p.f(" %9s", plot.Duration(x.Value)+mark)
		}
		x, _ := d.At(0.95)
		p.f(" %9s  %s – %s\n", plot.Duration(d.Max), plot.Duration(x.Low), plot.Duration(x.High))
	}
	t := &r.Throughput
	p.f("\n%-20s %s requests/s (%s – %s), %s output tokens/s (%s – %s), %s input tokens/s\n", "throughput", plot.Number(t.Requests), plot.Number(t.RequestsLow), plot.Number(t.RequestsHigh),
		plot.Number(t.OutputTokens), plot.Number(t.OutputLow), plot.Number(t.OutputHigh), plot.Number(t.InputTokens))
	if g := r.Goodput; g != nil {
		met := "missed"
		if g.Met {
			met = "met"
		}
		p.f("%-20s %.1f %% of the requests, %s requests/s, within %s; objective %s\n", "goodput", 100*g.Share, plot.Number(g.Requests), objective(g), met)
	}
	p.f("%-20s %.1f on average, %d at most\n", "in flight", r.Streams.Mean, r.Streams.Max)
	p.f("%-20s prompt %.0f (asked %.0f), output %.0f (asked %.0f)%s\n", "tokens", r.Tokens.Prompt, r.Tokens.PromptAsked, r.Tokens.Output, r.Tokens.OutputAsked, cached(r))
	tenants(p, r)
	server(p, r)
	generator(p, r)
	p.f("%-20s %s\n", "steady state", r.Window.Why)
	if few(r) {
		p.f("%-20s too few requests to bound that percentile from above\n", "*")
	}
	for _, n := range r.Notes {
		p.f("%-20s %s\n", "note", n)
	}
	return p.err
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
	return fmt.Sprintf("%s, %d requests in %s", how, r.Requests.Sent, plot.Duration(r.Duration))
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

func requests(p *printer, r *load.Result) {
	q := &r.Requests
	p.f("%-20s %d complete, %d failed, %d left by their client, %d unfinished\n", "requests", q.Complete, q.Failed, q.Cancelled, q.Unfinished)
	for _, kind := range sortedKeys(q.Errors) {
		p.f("%-20s %d × %s", "", q.Errors[kind], kind)
		if m := q.Messages[kind]; len(m) > 0 {
			p.f(": %s", strings.Join(m, "; "))
		}
		p.f("\n")
	}
	p.f("\n")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func objective(g *load.Goodput) string {
	var parts []string
	for _, x := range []struct {
		name string
		v    float64
	}{{"TTFT", g.TTFT}, {"ITL", g.ITL}, {"E2E", g.E2E}} {
		if x.v > 0 {
			parts = append(parts, x.name+" ≤ "+plot.Duration(x.v))
		}
	}
	return strings.Join(parts, ", ")
}

func cached(r *load.Result) string {
	if r.Tokens.CachedShare == 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f %% of the prompt from the prefix cache", 100*r.Tokens.CachedShare)
}

func tenants(p *printer, r *load.Result) {
	for _, name := range sortedKeys(r.Tenants) {
		t := r.Tenants[name]
		first, _ := t.Latency[load.TTFT].At(0.95)
		whole, _ := t.Latency[load.E2E].At(0.95)
		p.f("%-20s %d requests, %d failed, TTFT P95 %s, E2E P95 %s, %s output tokens/s\n", "tenant "+name, t.Requests, t.Failed, plot.Duration(first.Value), plot.Duration(whole.Value), plot.Number(t.Output))
	}
}

func server(p *printer, r *load.Result) {
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
		p.f("%-20s %d scrapes of its metrics failed\n", "server", r.Server.Missed)
	}
	if len(parts) > 0 {
		p.f("%-20s at most: %s\n", "server", strings.Join(parts, ", "))
	}
	for i := range r.Server.Phases {
		x := &r.Server.Phases[i]
		name := ""
		if i == 0 {
			name = "diagnosis"
		}
		where := ""
		if len(r.Server.Phases) > 1 {
			where = x.Name + ": "
		}
		p.f("%-20s %s%s: %s\n", name, where, x.Verdict, x.Summary)
		for j := range x.Findings {
			finding(p, &x.Findings[j], x.Verdict)
		}
	}
	for _, n := range r.Server.Notes {
		p.f("%-20s %s\n", "note", n)
	}
}

// finding prints the verdict's evidence and first remedy, and the names of what
// else is there.
func finding(p *printer, f *load.Finding, verdict string) {
	switch {
	case f.ExplainBy != "":
		p.f("%-20s   follows from it: %s\n", "", f.Title)
		return
	case f.ID != verdict:
		p.f("%-20s   also %s: %s\n", "", f.ID, f.Summary)
		return
	}
	for _, e := range f.Evidence {
		p.f("%-20s   %s\n", "", e)
	}
	if len(f.Fixes) > 0 {
		p.f("%-20s   try: %s\n", "", f.Fixes[0])
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
	keys := sortedKeys(m)
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

func generator(p *printer, r *load.Result) {
	g := &r.Generator
	verdict := "fit to measure"
	if g.Spoiled {
		verdict = "SPOILED THE RESULT: " + strings.Join(g.Reasons, "; ")
	}
	p.f("%-20s %s\n", "generator", verdict)
	p.f("%-20s send lag %s / %s (P50 / P99)", "", plot.Duration(g.SendLag.P50), plot.Duration(g.SendLag.P99))
	if g.ReceiveLag.Count > 0 {
		p.f(", receive lag %s / %s, corrected by the kernel's times", plot.Duration(g.ReceiveLag.P50), plot.Duration(g.ReceiveLag.P99))
	} else {
		p.f(", wake-up lag %s / %s", plot.Duration(g.WakeLag.P50), plot.Duration(g.WakeLag.P99))
	}
	p.f(", %.0f %% of %d processors, %s each event\n", 100*g.Utilisation, g.Cores, plot.Duration(g.PerEvent))
	if g.ArrivalCV > 0 {
		p.f("%-20s variation of the times between sends %.2f, %.1f %% of the asked rate sent\n", "", g.ArrivalCV, 100*g.Achieved)
	}
}

// Progress is the line that a running test shows.
func Progress(p load.Progress, sinceTokens int64, interval time.Duration) string {
	slices.Sort(p.TTFTs)
	first := "–"
	if n := len(p.TTFTs); n > 0 {
		first = plot.Duration(p.TTFTs[n/2].Seconds())
	}
	s := fmt.Sprintf("%4.0fs  %d sent  %d in flight  %d done  %d failed  %s tokens/s  TTFT P50 %s", p.Elapsed.Seconds(), p.Sent, p.InFlight,
		p.Complete+p.Cancelled, p.Failed, plot.Number(float64(sinceTokens)/interval.Seconds()), first)
	if p.Waiting > 0 {
		s += fmt.Sprintf("  %d waiting for a stream", p.Waiting)
	}
	return s
}

// CompareText writes a comparison for a terminal.
func CompareText(w io.Writer, c *load.Comparison) error {
	p := &printer{w: w}
	p.f("%-22s %12s %12s %9s %9s  %s\n", "", "A", "B", "change", "p", "verdict")
	for _, x := range c.Changes {
		show := plot.Duration
		if x.Unit != "s" {
			show = func(v float64) string { return plot.Number(v) + "/s" }
		}
		pv := "–"
		if x.P != nil {
			pv = fmt.Sprintf("%.3f", *x.P)
			if *x.P < 0.001 {
				pv = "<0.001"
			}
		}
		p.f("%-22s %12s %12s %+8.1f%% %9s  %s\n", x.Quantity, show(x.A), show(x.B), 100*x.Relative, pv, x.Verdict)
	}
	for _, n := range c.Notes {
		p.f("note: %s\n", n)
	}
	return p.err
}

// SearchText writes a search's trials and its answer for a terminal.
func SearchText(w io.Writer, f *load.Found, unit string) error {
	p := &printer{w: w}
	p.f("%12s  %-7s %12s %12s %12s %14s\n", unit, "", "TTFT P95", "ITL P95", "E2E P95", "tokens/s")
	for _, t := range f.Trials {
		met := "missed"
		if t.Met {
			met = "met"
		}
		p.f("%12.4g  %-7s", t.Level, met)
		if r := t.Result; r != nil {
			for _, v := range trialLatencies(r) {
				p.f(" %12s", plot.Duration(v))
			}
			p.f(" %14s", plot.Number(r.Throughput.OutputTokens))
		}
		p.f("  %s\n", t.Why)
	}
	if x := limit(f); x != nil {
		p.f("what limits the server beyond it: %s: %s\n", x.Verdict, x.Summary)
	}
	if f.Best == nil {
		p.f("no level met the objective: %s\n", f.Why)
		return p.err
	}
	p.f("highest %s within the objective: %.4g", unit, f.Best.Level)
	if f.Above > 0 {
		p.f(" (missed at %.4g)", f.Above)
	}
	p.f("; %s\n", f.Why)
	return p.err
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

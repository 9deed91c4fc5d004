package boundary

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// A View is what the gateway saw over a span of time, beside the engines.
type View struct {
	Gateway string        // kind of gateway
	Span    time.Duration // that was watched
	Whole   bool          // too little ended in it: the numbers are since the gateway began
	Offered float64       // requests that arrived
	Ended   map[string]float64
	Open    float64 // requests that wait for an engine, or get its answer, at the end

	ErrorShare  float64 // of what ended and was not given up by its client; NaN where nothing was
	GaveUpShare float64 // of what ended; likewise

	First    *Latency // time to the first token; nil where the gateway does not measure it
	Duration *Latency
	Parts    []Part // of the difference between both means of the first token

	Findings []Finding // the worst first
}

// Latency compares what clients saw and what the engines say. Values are seconds
// and NaN where they are not known.
type Latency struct {
	Count, GivenUp                   float64 // that came to its end, and that was given up before
	Mean, P50, P95                   float64
	CorrectedP50                     float64 // for those that were given up
	CorrectedP95                     float64
	AtLeast50, AtLeast95             bool // the corrected value is a lower bound: too many gave up
	EngineCount                      float64
	EngineMean, EngineP50, EngineP95 float64
}

// A Part is where a part of the wait arises.
type Part struct {
	Name    string
	Seconds float64
}

// A Finding is something that is wrong at the boundary.
type Finding struct {
	ID       string           `json:"id"`
	Severity catalog.Severity `json:"severity"`
	Summary  string           `json:"summary"`
}

// Limits from which on a share is a finding: those of the pathologies http-errors
// and client-cancellations, and an availability objective where there is one.
type Limits struct {
	ErrorShare  float64 // 0.04 when 0
	GaveUpShare float64 // 0.15 when 0
}

const (
	some        = 3 // events that mean something
	minForTail  = 10
	retryShare  = 0.1
	minRetries  = 10
	favoured    = 2 // times what the others get on average
	minAttempts = 40
)

// Look compares two pages of a gateway, and two moments of the engines behind it.
func Look(before, after *Counts, engineBefore, engineAfter *Engine, l Limits) *View {
	l.ErrorShare, l.GaveUpShare = cmp.Or(l.ErrorShare, 0.04), cmp.Or(l.GaveUpShare, 0.15)
	c := after.Since(before)
	v := &View{Gateway: after.Kind, Open: after.Open}
	if before != nil {
		v.Span = after.At.Sub(before.At)
	}
	var engine Engine
	if engineAfter != nil {
		engine = *engineAfter
		if engineBefore != nil {
			engine = engineAfter.Since(*engineBefore)
		}
	}
	recent := c
	if c.hasFirst && c.First.Count+c.NoFirst.Count < minForTail && after.First.Count >= minForTail {
		v.Whole, c = true, after
		if engineAfter != nil {
			engine = *engineAfter
		}
	}
	v.Offered, v.Ended = c.Offered, c.Ended
	total := sum(c.Ended)
	gaveUp := c.Ended["client_disconnect"]
	failed := failures(c)
	v.ErrorShare, v.GaveUpShare = failed/(total-gaveUp), gaveUp/total
	if c.hasFirst {
		v.First = latency(c.First, c.NoFirst, engine.First)
		v.Duration = latency(c.Duration, c.Cut, engine.Duration)
		v.parts(c, engine)
	}
	v.judge(recent, after, l)
	return v
}

func failures(c *Counts) float64 {
	return c.Ended["upstream_error"] + c.Ended["error_event"] + c.Ended["timeout"] + c.Ended["rejected"]
}

func sum(m map[string]float64) (total float64) {
	for _, n := range m {
		total += n
	}
	return total
}

func latency(ended, cut, engine Histogram) *Latency {
	l := &Latency{
		Count: ended.Count, GivenUp: cut.Count, Mean: ended.Mean(),
		EngineCount: engine.Count, EngineMean: engine.Mean(), EngineP50: engine.Quantile(0.5), EngineP95: tail(engine),
	}
	// Both by one method, so that they differ by those that were given up alone.
	var known bool
	l.P50, _ = Corrected(0.5, ended, Histogram{})
	if l.P95, _ = Corrected(0.95, ended, Histogram{}); ended.Count < minForTail {
		l.P95 = math.NaN()
	}
	l.CorrectedP50, known = Corrected(0.5, ended, cut)
	l.AtLeast50 = !known
	l.CorrectedP95, known = Corrected(0.95, ended, cut)
	l.AtLeast95 = !known
	if ended.Count+cut.Count < minForTail {
		l.CorrectedP95 = math.NaN()
	}
	return l
}

// tail is the 95th percentile of ten observations or more.
func tail(h Histogram) float64 {
	if h.Count < minForTail {
		return math.NaN()
	}
	return h.Quantile(0.95)
}

// parts says where the mean first token as clients see it differs from the
// engines'.
func (v *View) parts(c *Counts, engine Engine) {
	if c.First.Count == 0 || engine.First.Count == 0 {
		return
	}
	v.Parts = []Part{{"gateway queue and body", c.Queue.Mean()}, {"connecting, retries", c.Connect.Mean()}}
	rest := c.First.Mean() - engine.First.Mean()
	for _, p := range v.Parts {
		rest -= p.Seconds
	}
	v.Parts = append(v.Parts, Part{"network, routing, API server", rest}, Part{"engine", engine.First.Mean()})
}

// judge finds what is wrong. Shares are those of the span that was watched.
func (v *View) judge(c, after *Counts, l Limits) {
	find := func(p *catalog.Pathology, format string, args ...any) {
		v.Findings = append(v.Findings, Finding{p.ID, p.Severity, fmt.Sprintf(format, args...)})
	}
	percent := func(share float64) string { return indicator.FormatNumber(share, indicator.Ratio) }
	names := slices.Sorted(maps.Keys(after.Upstreams))
	var missing, excess, attempts float64
	for _, name := range names {
		u := after.Upstreams[name]
		missing, excess = missing+u.Missing, excess+u.Excess
		attempts += c.Upstreams[name].Attempts
		if !u.Up {
			find(upstreamDown, "The gateway's health check of %s fails", name)
		}
	}
	switch {
	case missing >= 1 && c.Tokens == 0:
		find(hangOutsideEngine, "%.0f requests wait at the gateway, no token came in %.0f s, and the engine holds none of them: the API server hangs, whatever its health check answers", missing, v.Span.Seconds())
	case missing >= 1:
		find(notInEngine, "%.0f requests wait at the gateway for a while, and the engine holds none of them: they are stuck between the API server and the engine", missing)
	case c.Tokens == 0 && after.Open >= 1 && v.Span >= 10*time.Second && c.Offered+after.Open >= some && c.First.Count == 0 && after.hasFirst:
		find(noTokenPasses, "%.0f requests are open at the gateway and no token came in %.0f s", after.Open, v.Span.Seconds())
	}
	total, gaveUp := sum(c.Ended), c.Ended["client_disconnect"]
	if failed := failures(c); failed >= some && failed/(total-gaveUp) > l.ErrorShare {
		find(httpErrors, "%.0f of %.0f requests that their clients waited for failed at the gateway (%s): %s", failed, total-gaveUp, percent(failed/(total-gaveUp)), breakdown(c))
	}
	if n := c.Ended["timeout"]; n >= some {
		find(gatewayTimeouts, "%.0f requests were ended by the gateway's own limits", n)
	}
	if gaveUp >= 5 && gaveUp/total > l.GaveUpShare {
		find(clientCancellations, "%.0f of %.0f clients left before their answer was complete (%s)%s", gaveUp, total, percent(gaveUp/total), withoutFirst(c))
	}
	if c.Retries >= minRetries && c.Retries > retryShare*total {
		find(retryStorm, "%.0f retries for %.0f requests: each makes an overload worse", c.Retries, total)
	}
	if excess >= 1 {
		find(heldAfterClient, "The engines hold %.0f requests that are not open at the gateway: other clients', or some whose client has gone; GET /requests names candidates", excess)
	}
	if after.Leaks >= 1 {
		find(suspectedLeaks, "%.0f requests are open for longer than the gateway's limit; GET /requests lists them", after.Leaks)
	}
	for i, name := range names {
		for _, other := range names[:i] {
			if born := after.Upstreams[name].Born; born > 0 && born == after.Upstreams[other].Born {
				find(oneEngine, "%s and %s are one engine: it answers the health checks of both", other, name)
			}
		}
	}
	up := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !after.Upstreams[n].Up })
	if len(up) > 1 && attempts >= minAttempts {
		for _, name := range up {
			if n := c.Upstreams[name].Attempts; n > favoured*(attempts-n)/float64(len(up)-1) {
				find(replicaImbalance, "%s gets %s of the requests of %d upstreams", name, percent(n/attempts), len(up))
			}
		}
	}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
}

func withoutFirst(c *Counts) string {
	if c.NoFirst.Count == 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f of them before the first token, after %s on average: the engine's own percentiles miss these",
		c.NoFirst.Count, indicator.FormatNumber(c.NoFirst.Mean(), indicator.Seconds))
}

// breakdown says how many ended how badly.
func breakdown(c *Counts) string {
	text := ""
	for _, s := range []struct{ status, words string }{
		{"upstream_error", "by the upstream"}, {"error_event", "inside an answer of 200"}, {"timeout", "by a limit"}, {"rejected", "refused by the gateway"},
	} {
		if n := c.Ended[s.status]; n > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%.0f %s", n, s.words)
		}
	}
	return text
}

// Lines are the view in words, for people.
func (v *View) Lines() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	when := fmt.Sprintf("in %.0f s", v.Span.Seconds())
	if v.Whole || v.Span == 0 {
		when = "since the gateway began"
	}
	total := sum(v.Ended)
	if total == 0 {
		add("Seen by %s: %.0f requests arrived %s, none ended, %.0f are open", v.Gateway, v.Offered, when, v.Open)
	} else {
		line := fmt.Sprintf("Seen by %s: %.0f requests arrived %s and %.0f ended, %.0f of them well", v.Gateway, v.Offered, when, total, v.Ended["success"])
		if !math.IsNaN(v.ErrorShare) {
			line += fmt.Sprintf("; error rate %s", indicator.FormatNumber(v.ErrorShare, indicator.Ratio))
		}
		if v.Ended["client_disconnect"] > 0 {
			line += fmt.Sprintf(", given up by clients %s", indicator.FormatNumber(v.GaveUpShare, indicator.Ratio))
		}
		out = append(out, line)
	}
	for _, l := range []struct {
		name string
		l    *Latency
	}{{"TTFT", v.First}, {"E2E", v.Duration}} {
		if l.l == nil || l.l.Count == 0 {
			continue
		}
		line := fmt.Sprintf("%s as clients see it: mean %s, P50 %s, P95 %s", l.name, seconds(l.l.Mean), seconds(l.l.P50), seconds(l.l.P95))
		if l.l.GivenUp > 0 {
			line += fmt.Sprintf("; corrected for the %.0f given up: P50 %s, P95 %s", l.l.GivenUp,
				least(l.l.AtLeast50)+seconds(l.l.CorrectedP50), least(l.l.AtLeast95)+seconds(l.l.CorrectedP95))
		}
		if l.l.EngineCount > 0 {
			line += fmt.Sprintf("; the engine says mean %s, P50 %s, P95 %s", seconds(l.l.EngineMean), seconds(l.l.EngineP50), seconds(l.l.EngineP95))
		}
		out = append(out, line)
	}
	if len(v.Parts) > 0 {
		line := "Where the mean TTFT arises: "
		for i, p := range v.Parts {
			if i > 0 {
				line += ", "
			}
			line += p.Name + " " + seconds(p.Seconds)
		}
		out = append(out, line)
	}
	return out
}

func seconds(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return indicator.FormatNumber(v, indicator.Seconds)
}

func least(at bool) string {
	if at {
		return "at least "
	}
	return ""
}

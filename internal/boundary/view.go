package boundary

import (
	"fmt"
	"math"
	"time"

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

// minForTail is how many observations a 95th percentile needs.
const minForTail = 10

// Look compares two pages of a gateway, and two moments of the engines behind it.
func Look(before, after *Counts, engineBefore, engineAfter *Engine) *View {
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

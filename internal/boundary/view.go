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

// Look compares what a gateway and the engines behind it say of the same span; nil where the
// page is of no gateway that is known.
func Look(gateway []Sample, span time.Duration, engines []Engines) *View {
	c := read(gateway, false)
	if c == nil {
		return nil
	}
	v := &View{Gateway: c.kind, Span: span, Open: c.open}
	if c.first.count+c.noFirst.count < minForTail {
		if all := read(gateway, true); all.first.count >= minForTail {
			v.Whole, c = true, all
		}
	}
	first, duration := readEngines(engines, v.Whole)
	v.Offered, v.Ended = c.offered, c.ended
	total, gaveUp := sum(c.ended), c.ended["client_disconnect"]
	failed := c.ended["upstream_error"] + c.ended["error_event"] + c.ended["timeout"] + c.ended["rejected"]
	v.ErrorShare, v.GaveUpShare = failed/(total-gaveUp), gaveUp/total
	if len(c.first.bounds)+len(c.noFirst.bounds) > 0 {
		v.First = latency(c.first, c.noFirst, first)
		v.Duration = latency(c.duration, c.cut, duration)
		v.parts(c, first)
	}
	return v
}

func sum(m map[string]float64) (total float64) {
	for _, n := range m {
		total += n
	}
	return total
}

func latency(ended, cut, engine histogram) *Latency {
	l := &Latency{
		Count: ended.count, GivenUp: cut.count, Mean: ended.mean(),
		EngineCount: engine.count, EngineMean: engine.mean(), EngineP50: engine.quantile(0.5), EngineP95: tail(engine),
	}
	// Both by one method, so that they differ by those that were given up alone.
	var known bool
	l.P50, _ = corrected(0.5, ended, histogram{})
	if l.P95, _ = corrected(0.95, ended, histogram{}); ended.count < minForTail {
		l.P95 = math.NaN()
	}
	l.CorrectedP50, known = corrected(0.5, ended, cut)
	l.AtLeast50 = !known
	l.CorrectedP95, known = corrected(0.95, ended, cut)
	l.AtLeast95 = !known
	if ended.count+cut.count < minForTail {
		l.CorrectedP95 = math.NaN()
	}
	return l
}

// tail is the 95th percentile of ten observations or more.
func tail(h histogram) float64 {
	if h.count < minForTail {
		return math.NaN()
	}
	return h.quantile(0.95)
}

// parts says where the mean first token as clients see it differs from the
// engines'.
func (v *View) parts(c *counts, engine histogram) {
	if c.first.count == 0 || engine.count == 0 {
		return
	}
	v.Parts = []Part{{"gateway queue and body", c.queue.mean()}, {"connecting, retries", c.connect.mean()}}
	rest := c.first.mean() - engine.mean()
	for _, p := range v.Parts {
		rest -= p.Seconds
	}
	v.Parts = append(v.Parts, Part{"network, routing, API server", rest}, Part{"engine", engine.mean()})
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

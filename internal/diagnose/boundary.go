package diagnose

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/gateway"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Boundary is what a gateway counted in its window, beside what the engines behind it say.
// Nothing is judged by it.
type Boundary struct {
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
	Waits    []Wait // of which the mean of the first token as clients see it is the sum
}

// Latency compares what clients saw and what the engines say, in seconds. A mean is NaN where it
// is not known.
type Latency struct {
	Count, GivenUp             float64 // that came to its end, and that was given up before
	Mean                       float64
	P50, P95                   indicator.Value
	CorrectedP50, CorrectedP95 indicator.Value // for those that were given up; a lower bound where these are too many
	EngineCount, EngineMean    float64
	EngineP50, EngineP95       indicator.Value
}

// A Wait is where a part of the time to the first token passes.
type Wait struct {
	Where   string
	Seconds float64
}

// minForTail is how many observations a 95th percentile needs.
const minForTail = 10

// atGateways sets what the gateways counted in the window beside the diagnosis: of
// several the one at which most is wrong.
func (d *Diagnosis) atGateways(ctx context.Context, q metrics.Querier, r *Request) error {
	most := -1
	for i := range r.Targets {
		t := &r.Targets[i]
		switch {
		case !t.isGateway():
			continue
		case t.Problem != "":
			d.Notes = append(d.Notes, fmt.Sprintf("the gateway %s cannot be read: %s", t.Name, t.Problem))
			continue
		}
		b, err := readBoundary(ctx, q, r, i)
		if err != nil {
			return fmt.Errorf("read the gateway %s: %w", t.Name, err)
		}
		wrong := 0
		for k := range d.Findings {
			wrong += boolToInt(d.Findings[k].Status == Firing && slices.Contains(d.Findings[k].Targets, t.Name))
		}
		if b != nil && wrong > most {
			d.Boundary, most = b, wrong
		}
	}
	return nil
}

// readBoundary reads what a gateway and the engines counted in the gateway's window; nil
// without two pages.
func readBoundary(ctx context.Context, q metrics.Querier, r *Request, target int) (*Boundary, error) {
	t, window := &r.Targets[target], r.Spans[target].Window
	matchers := slices.Clone(r.Matchers)
	for _, n := range r.Instance {
		matchers = append(matchers, indicator.Is(n, t.Labels[n]))
	}
	page, span, err := gains(ctx, q, r, selectorOf(dialect.Gateways, matchers), window)
	if err != nil || span == 0 {
		return nil, err
	}
	var engines counters
	for _, g := range groups(r, func(int) Range { return Range{} }, func(i int) bool { return r.Targets[i].Serves() }) {
		canonical := map[string]string{}
		for _, suffix := range engine.HistogramSuffixes {
			for _, family := range []string{familyNames[firstTokens], durations} {
				canonical[g.lead.Dialect.Metric(family+suffix)] = family + suffix
			}
		}
		these, _, err := gains(ctx, q, r, selectorOf(strings.Join(slices.Sorted(maps.Keys(canonical)), "|"), g.matchers), window)
		if err != nil {
			return nil, err
		}
		for _, c := range these {
			c.name = canonical[c.name]
			engines = append(engines, c)
		}
	}
	return newBoundary(page, engines, span), nil
}

// durations is the canonical name of the histogram of whole requests.
const durations = "vllm:e2e_request_latency_seconds"

// A counter is one series of a metrics page: what it gained over a span, and what it says at
// its end.
type counter struct {
	name        string
	labels      model.Metric
	gain, total float64
}

type counters []counter

// gains reads by how much counters rose from one scrape to the next in a window, and over
// what time. What was not on the first page of its process in the window began at zero.
// Counters are read as they are, for requests are counted in whole numbers.
func gains(ctx context.Context, q metrics.Querier, r *Request, selector string, window Range) (out counters, span time.Duration, err error) {
	series, err := q.Samples(ctx, selector, window.To, window.Length())
	if err != nil {
		return nil, 0, err
	}
	first := map[string]model.Time{}
	for _, s := range series {
		k := labelKey(s.Metric, r.Instance)
		if at, ok := first[k]; !ok || s.Values[0].Timestamp < at {
			first[k] = s.Values[0].Timestamp
		}
	}
	for _, s := range series {
		begin, before, last := first[labelKey(s.Metric, r.Instance)], 0.0, s.Values[len(s.Values)-1]
		c := counter{string(s.Metric[model.MetricNameLabel]), s.Metric, 0, float64(last.Value)}
		for _, p := range s.Values {
			v := float64(p.Value)
			if p.Timestamp > begin {
				if v < before {
					before = 0 // a counter that was reset
				}
				c.gain += v - before
			}
			before = v
		}
		span = max(span, last.Timestamp.Sub(begin))
		if !math.IsNaN(c.gain+c.total) && !math.IsInf(c.gain+c.total, 0) {
			out = append(out, c)
		}
	}
	return out, span, nil
}

// whole are the same counters since they began.
func (cs counters) whole() counters {
	out := slices.Clone(cs)
	for i := range out {
		out[i].gain = out[i].total
	}
	return out
}

// of selects the series of a metric.
func (cs counters) of(metric string, where ...*labels.Matcher) (out counters) {
	for _, c := range cs {
		if c.name == metric && !slices.ContainsFunc(where, func(m *labels.Matcher) bool { return !m.Matches(string(c.labels[model.LabelName(m.Name)])) }) {
			out = append(out, c)
		}
	}
	return out
}

func (cs counters) sum() (gain, total float64) {
	for _, c := range cs {
		gain, total = gain+c.gain, total+c.total
	}
	return gain, total
}

// histogram adds up classic histograms of a family, in the buckets that all of them have.
func (cs counters) histogram(family string, where ...*labels.Matcher) (h histogram) {
	upTo, series, most := map[float64]float64{}, map[float64]int{}, 0
	for _, c := range cs.of(family+"_bucket", where...) {
		if le, ok := parseBound(string(c.labels[model.BucketLabel])); ok && !math.IsInf(le, 0) {
			upTo[le] += c.gain
			series[le]++
			most = max(most, series[le])
		}
	}
	for _, le := range slices.Sorted(maps.Keys(upTo)) {
		if series[le] == most {
			h.bounds, h.upTo = append(h.bounds, le), append(h.upTo, upTo[le])
		}
	}
	h.sum, _ = cs.of(family+"_sum", where...).sum()
	h.count, _ = cs.of(family+"_count", where...).sum()
	return h
}

// newBoundary makes a table of what a gateway's page and those of engines gained over a span;
// nil where the page is of no gateway that is known.
func newBoundary(page, engines counters, span time.Duration) *Boundary {
	names := map[string]bool{}
	for _, c := range page {
		names[c.name] = true
	}
	product, ok := gateway.Detect(names)
	if !ok {
		return nil
	}
	of := func(family string) histogram { return page.histogram("sixty_gateway_"+family, indicator.OnRoutes) }
	b := &Boundary{Gateway: product.Title, Span: span, Ended: map[string]float64{}}
	if of("time_to_first_token_seconds").count+of("no_first_token_seconds").count < minForTail {
		since := page
		if page = page.whole(); of("time_to_first_token_seconds").count >= minForTail {
			b.Whole, engines = true, engines.whole()
		} else {
			page = since
		}
	}
	for _, t := range product.Terms {
		these := page.of(t.Metric, t.Match...)
		switch gain, total := these.sum(); {
		case len(these) == 0:
		case t.Outcome == gateway.Offered:
			b.Offered += t.Sign * gain
		case t.Outcome == gateway.Open:
			b.Open += t.Sign * total
		case t.Outcome == gateway.ErrorEvent || slices.Contains(gateway.Ends, t.Outcome):
			b.Ended[t.Outcome] += t.Sign * gain
		}
	}
	total, gaveUp := b.ended(), b.Ended[gateway.ClientDisconnect]
	failed := b.Ended[gateway.UpstreamError] + b.Ended[gateway.ErrorEvent] + b.Ended[gateway.Timeout] + b.Ended[gateway.Rejected]
	b.ErrorShare, b.GaveUpShare = failed/(total-gaveUp), gaveUp/total
	first, none := of("time_to_first_token_seconds"), of("no_first_token_seconds")
	if len(first.bounds)+len(none.bounds) == 0 {
		return b
	}
	told := engines.histogram(familyNames[firstTokens])
	b.First = newLatency(first, none, told)
	b.Duration = newLatency(of("request_duration_seconds"), of("cut_request_duration_seconds"), engines.histogram(durations))
	if first.count > 0 && told.count > 0 {
		queue, connect := of("queue_seconds").mean(), of("connect_seconds").mean()
		b.Waits = []Wait{
			{"gateway queue and body", queue},
			{"connecting, retries", connect},
			{"network, routing, API server", first.mean() - told.mean() - queue - connect},
			{"engine", told.mean()},
		}
	}
	return b
}

func (b *Boundary) ended() (total float64) {
	for _, n := range b.Ended {
		total += n
	}
	return total
}

func newLatency(ended, cut, engine histogram) *Latency {
	// tail is the 95th percentile of ten observations or more.
	tail := func(h, cut histogram, v indicator.Value) indicator.Value {
		if h.count+cut.count < minForTail {
			return indicator.Unknown("too few requests")
		}
		return v
	}
	return &Latency{
		Count: ended.count, GivenUp: cut.count, Mean: ended.mean(),
		EngineCount: engine.count, EngineMean: engine.mean(), EngineP50: engine.reading(0.5), EngineP95: tail(engine, histogram{}, engine.reading(0.95)),
		// Both by one method, so that they differ by those that were given up alone.
		P50: corrected(0.5, ended, histogram{}), P95: tail(ended, histogram{}, corrected(0.95, ended, histogram{})),
		CorrectedP50: corrected(0.5, ended, cut), CorrectedP95: tail(ended, cut, corrected(0.95, ended, cut)),
	}
}

// A histogram is a classic histogram, or what several gained over a span.
type histogram struct {
	bounds []float64 // finite, ascending
	upTo   []float64 // observations up to each bound
	count  float64
	sum    float64
}

// mean is NaN without observations.
func (h histogram) mean() float64 { return h.sum / h.count }

// corrected estimates a quantile of how long something takes that was not always
// waited for: ended holds the times of what came to its end, cut the times after
// which the others were given up. It is the estimate of Kaplan and Meier on
// buckets: within each, ending and giving up are taken to be as likely at any
// moment, in the proportion that was counted. Where too many gave up for the
// quantile to be known it is at least the last time that is.
func corrected(q float64, ended, cut histogram) indicator.Value {
	if len(ended.bounds) == 0 || ended.count == 0 || len(ended.bounds) != len(cut.bounds) && cut.count > 0 {
		return indicator.Value{Reason: "no observations", AtLeast: true}
	}
	atRisk, survive, low := ended.count+cut.count, 1.0, 0.0
	var endedBefore, cutBefore float64
	for i, high := range ended.bounds {
		d := ended.upTo[i] - endedBefore
		c := 0.0
		if cut.count > 0 {
			c = cut.upTo[i] - cutBefore
			cutBefore = cut.upTo[i]
		}
		endedBefore = ended.upTo[i]
		next := survive
		if d > 0 && atRisk > 0 {
			next *= math.Pow(max(1-(d+c)/atRisk, 0), d/(d+c))
		}
		if next <= 1-q+1e-12 && d > 0 {
			// Within a bucket the share that still waits falls evenly in its logarithm,
			// to half a request where it is the last one.
			next = max(next, 0.5/(ended.count+cut.count))
			return indicator.Value{V: low + (high-low)*math.Log(survive/(1-q))/math.Log(survive/next), OK: true, Bucket: stat.Bucket{Low: low, High: high}}
		}
		survive, low = next, high
		if atRisk -= d + c; atRisk <= 0 {
			break
		}
	}
	return indicator.Value{V: low, OK: true, AtLeast: true}
}

// Lines are the table in words, for people.
func (b *Boundary) Lines() []string {
	when := fmt.Sprintf("in %.0f s", b.Span.Seconds())
	if b.Whole || b.Span == 0 {
		when = "since the gateway began"
	}
	line := fmt.Sprintf("Seen by %s: %.0f requests arrived %s", b.Gateway, b.Offered, when)
	if total := b.ended(); total == 0 {
		line += fmt.Sprintf(", none ended, %.0f are open", b.Open)
	} else {
		line += fmt.Sprintf(" and %.0f ended, %.0f of them successfully", total, b.Ended[gateway.Success])
		if !math.IsNaN(b.ErrorShare) {
			line += "; error rate " + indicator.FormatNumber(b.ErrorShare, indicator.Ratio)
		}
		if b.Ended[gateway.ClientDisconnect] > 0 {
			line += ", cancelled by clients " + indicator.FormatNumber(b.GaveUpShare, indicator.Ratio)
		}
	}
	out := []string{line}
	for _, l := range []struct {
		name string
		*Latency
	}{{"TTFT", b.First}, {"E2E", b.Duration}} {
		if l.Latency == nil || l.Count == 0 {
			continue
		}
		line := fmt.Sprintf("%s as clients see it: mean %s, P50 %s, P95 %s", l.name, seconds(l.Mean), percentile(l.P50), percentile(l.P95))
		if l.GivenUp > 0 {
			line += fmt.Sprintf("; corrected for the %.0f cancelled: P50 %s, P95 %s", l.GivenUp, percentile(l.CorrectedP50), percentile(l.CorrectedP95))
		}
		if l.EngineCount > 0 {
			line += fmt.Sprintf("; in the engine: mean %s, P50 %s, P95 %s", seconds(l.EngineMean), percentile(l.EngineP50), percentile(l.EngineP95))
		}
		out = append(out, line)
	}
	var waits []string
	for _, w := range b.Waits {
		waits = append(waits, w.Where+" "+seconds(w.Seconds))
	}
	if len(waits) > 0 {
		out = append(out, "Where the mean TTFT is spent: "+strings.Join(waits, ", "))
	}
	return out
}

func seconds(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return indicator.FormatNumber(v, indicator.Seconds)
}

func percentile(v indicator.Value) string {
	if !v.OK {
		return "unknown"
	}
	return indicator.Format(v, indicator.Seconds)
}

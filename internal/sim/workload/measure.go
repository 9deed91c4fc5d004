package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Server is a scraped server.
type Server struct {
	Name     string
	Matchers []*labels.Matcher                       // they select its series
	Series   func(canonical string) indicator.Series // its names; nil: vLLM's own names of today
	Config   engine.Config                           // its known settings
}

// A Measurement selects servers and a time.
type Measurement struct {
	Servers  []Server // replicas of one model
	From, To time.Time
	Interval time.Duration // between two scrapes
}

// maxIntervals bounds the number of points of a range query.
const maxIntervals = 360

// intervalLength is the length of an interval: one scrape or several.
func (o *Measurement) intervalLength() time.Duration {
	scrapes := max(int(math.Ceil(o.To.Sub(o.From).Seconds()/o.Interval.Seconds()/maxIntervals)), 1)
	return time.Duration(scrapes) * o.Interval
}

// Measured is the result for the servers of one model.
type Measured struct {
	Workload Observed
	Ranks    []Rank
	From, To time.Time
	LeftOut  []string // servers of the model with a fault, each with the fault's name, for the user

	// Empty unless the caller of Measure fills them.
	Source  string // for the user
	Model   string
	Release engine.Release // vLLM release
	Config  engine.Config  // common to all servers, with inferred settings
}

// A Rank is one data-parallel rank of a server, an engine of its own.
type Rank struct {
	Server    string
	Number    string
	Config    engine.Config // the server's, with inferred settings
	Intervals []Interval
}

// An Interval is the gain of an engine's counters and the means of its gauges between two scrapes. NaN is a quantity
// that the server does not report.
type Interval struct {
	End                       time.Time
	Seconds                   float64
	Running, Waiting, KVUsage float64 // means
	Joined                    float64 // growth of the queue, negative if it shrank
	Generated                 float64 // output tokens
	FirstTokens               float64 // requests that got one
	Arrived                   float64 // requests: first tokens and growth of the queue
	Computed                  float64 // prompt tokens that were not cached
	ITLSum, ITLCount          float64
	PrefillSum, PrefillCount  float64
	QueueSum, QueueCount      float64
	TTFTSum                   float64
	Preempted                 float64
	Steps                     float64 // model executions that gave a token

	promptTokens, prefixHits float64
}

// sampleTimes returns the times of the queries. If the time range ends at a scrape, as it mostly does, they lie midway
// between scrapes, so that no early or late scrape is missed. Each query shows the scrape before it.
func (o *Measurement) sampleTimes() metrics.Range {
	step, end := o.intervalLength(), o.To.Add(o.Interval/2)
	return metrics.Range{Start: end.Add(-end.Sub(o.From).Truncate(step)), End: end, Step: step}
}

// Measure reads the metrics of running servers that a simulation of them needs: their workload, and intervals that show
// the duration of their steps by load. A Querier reads live servers, recordings and Prometheus servers alike.
func Measure(ctx context.Context, q metrics.Querier, o Measurement) (*Measured, error) {
	if len(o.Servers) == 0 || o.Interval <= 0 || !o.To.After(o.From.Add(o.Interval)) {
		return nil, hint.With(fmt.Errorf("measure %d servers from %s to %s: no samples", len(o.Servers),
			o.From.Format(time.RFC3339), o.To.Format(time.RFC3339)),
			"take a longer time")
	}
	f := &Measured{From: o.From, To: o.To}
	for _, t := range o.Servers {
		r := reader{q: q, o: &o, t: &t}
		engines, err := r.readRanks(ctx)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", t.Name, err)
		}
		f.Ranks = append(f.Ranks, engines...)
		if err := r.readShape(ctx, &f.Workload); err != nil {
			return nil, fmt.Errorf("measure %s: %w", t.Name, err)
		}
	}
	f.countArrivals(o.intervalLength())
	f.findLoop(o.intervalLength())
	return f, nil
}

// scrapesPerCount is how many scrapes a count of arrivals spans. With fewer, the irregularity of the scrapes would show
// in its variance.
const scrapesPerCount = 4

// countArrivals counts the arrivals at all engines together, over common periods. Within an engine's interval, requests
// count as evenly spread. A period is unknown if any engine has no values for half of it.
func (f *Measured) countArrivals(step time.Duration) {
	w := &f.Workload
	w.Every = scrapesPerCount * step
	n := int(f.To.Sub(f.From) / w.Every)
	w.Arrived = make([]float64, n)
	for _, e := range f.Ranks {
		came, covered := make([]float64, n), make([]float64, n) // requests, seconds
		for _, v := range e.Intervals {
			if math.IsNaN(v.Arrived) {
				continue
			}
			end := v.End.Sub(f.From).Seconds()
			for i := range n {
				lo, hi := float64(i)*w.Every.Seconds(), float64(i+1)*w.Every.Seconds()
				if overlap := min(hi, end) - max(lo, end-v.Seconds); overlap > 0 {
					came[i] += v.Arrived * overlap / v.Seconds
					covered[i] += overlap
				}
			}
		}
		for i, seconds := range covered {
			share := seconds / w.Every.Seconds()
			if share < 0.5 {
				share = math.NaN()
			}
			w.Arrived[i] += came[i] / share
		}
	}
}

// Summary is the engines' load over the whole time: means over time, as sums over engines except for KV usage, which is
// their mean. Quantities that no interval has are 0.
type Summary struct {
	TTFTMean        float64 `json:"ttft_mean"` // seconds
	ITLMean         float64 `json:"itl_mean"`
	OutputPerSecond float64 `json:"output_tokens"`
	Running         float64 `json:"running"`
	Waiting         float64 `json:"waiting"`
	KVUsage         float64 `json:"kv_cache_usage"`
	Preemptions     float64 `json:"preemptions"`
	FirstTokens     float64 `json:"-"`
}

// Summary adds the intervals up.
func (f *Measured) Summary() Summary {
	var s Summary
	var ttft, itl, gaps float64
	sum := func(to *float64, v float64) {
		if !math.IsNaN(v) {
			*to += v
		}
	}
	for _, e := range f.Ranks {
		seconds, generated := 0.0, 0.0
		var running, waiting, kv float64
		for _, i := range e.Intervals {
			seconds += i.Seconds
			sum(&running, i.Running*i.Seconds)
			sum(&waiting, i.Waiting*i.Seconds)
			sum(&kv, i.KVUsage*i.Seconds)
			sum(&generated, i.Generated)
			sum(&s.Preemptions, i.Preempted)
			sum(&s.FirstTokens, i.FirstTokens)
			sum(&ttft, i.TTFTSum)
			sum(&itl, i.ITLSum)
			sum(&gaps, i.ITLCount)
		}
		if seconds > 0 {
			s.Running += running / seconds
			s.Waiting += waiting / seconds
			s.KVUsage += kv / seconds / float64(len(f.Ranks))
			s.OutputPerSecond += generated / seconds
		}
	}
	if s.FirstTokens > 0 {
		s.TTFTMean = ttft / s.FirstTokens
	}
	if gaps > 0 {
		s.ITLMean = itl / gaps
	}
	return s
}

// A reader reads one server.
type reader struct {
	q metrics.Querier
	o *Measurement
	t *Server
}

// gainKind says how an interval's value follows from a query's answers.
type gainKind uint8

const (
	mean    gainKind = iota // the value at the interval's end, a mean over all of it
	counter                 // the gain; unknown if the counter fell
	growth                  // the difference, of either sign
)

// fields lists the queries, with [5m] for an interval, and the field of an Interval that each fills.
var fields = []struct {
	expr  string
	kind  gainKind
	field func(*Interval) *float64
}{
	{
		"max by (engine) (timestamp(vllm:generation_tokens_total))", growth,
		func(i *Interval) *float64 { return &i.Seconds },
	},
	{sumOf("avg_over_time(vllm:num_requests_running[5m])"), mean, func(i *Interval) *float64 { return &i.Running }},
	{sumOf("avg_over_time(vllm:num_requests_waiting[5m])"), mean, func(i *Interval) *float64 { return &i.Waiting }},
	{
		"avg by (engine) (avg_over_time(vllm:kv_cache_usage_perc[5m]))", mean,
		func(i *Interval) *float64 { return &i.KVUsage },
	},
	{sumOf("vllm:num_requests_waiting"), growth, func(i *Interval) *float64 { return &i.Joined }},
	{sumOf("vllm:generation_tokens_total"), counter, func(i *Interval) *float64 { return &i.Generated }},
	{sumOf("vllm:time_to_first_token_seconds_count"), counter, func(i *Interval) *float64 { return &i.FirstTokens }},
	{
		sumOf(`vllm:prompt_tokens_by_source_total{source="local_compute"}`), counter,
		func(i *Interval) *float64 { return &i.Computed },
	},
	{sumOf("vllm:prompt_tokens_total"), counter, func(i *Interval) *float64 { return &i.promptTokens }},
	{sumOf("vllm:prefix_cache_hits_total"), counter, func(i *Interval) *float64 { return &i.prefixHits }},
	{sumOf("vllm:inter_token_latency_seconds_sum"), counter, func(i *Interval) *float64 { return &i.ITLSum }},
	{sumOf("vllm:inter_token_latency_seconds_count"), counter, func(i *Interval) *float64 { return &i.ITLCount }},
	{sumOf("vllm:time_to_first_token_seconds_sum"), counter, func(i *Interval) *float64 { return &i.TTFTSum }},
	{sumOf("vllm:iteration_tokens_total_count"), counter, func(i *Interval) *float64 { return &i.Steps }},
	{sumOf("vllm:num_preemptions_total"), counter, func(i *Interval) *float64 { return &i.Preempted }},
	{sumOf("vllm:request_prefill_time_seconds_sum"), counter, func(i *Interval) *float64 { return &i.PrefillSum }},
	{sumOf("vllm:request_prefill_time_seconds_count"), counter, func(i *Interval) *float64 { return &i.PrefillCount }},
	{sumOf("vllm:request_queue_time_seconds_sum"), counter, func(i *Interval) *float64 { return &i.QueueSum }},
	{sumOf("vllm:request_queue_time_seconds_count"), counter, func(i *Interval) *float64 { return &i.QueueCount }},
}

// sumOf sums a series over everything but the rank.
func sumOf(series string) string { return "sum by (engine) (" + series + ")" }

// scraped is the field of a scrape's time.
const scraped = 0

// concurrency limits the queries in flight.
const concurrency = 4

// readRanks reads the intervals of the server's ranks.
func (r *reader) readRanks(ctx context.Context) ([]Rank, error) {
	answers := make([]model.Matrix, len(fields))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for i, f := range fields {
		g.Go(func() error {
			query, err := r.rewriteQuery(f.expr, r.o.intervalLength()+r.o.Interval)
			if err != nil {
				return err
			}
			answers[i], err = r.q.QueryRange(ctx, query, r.o.sampleTimes())
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if len(answers[scraped]) == 0 || len(answers[scraped+1]) == 0 {
		return nil, hint.With(errors.New("no metrics of running requests and generated tokens in that time"),
			"check that the server is vLLM and was scraped then")
	}
	var engines []Rank
	for _, series := range answers[scraped] {
		rank := string(series.Metric["engine"])
		e := Rank{Server: r.t.Name, Number: rank, Config: engine.Config{}, Intervals: r.toIntervals(rank, answers)}
		e.Config.Merge(r.t.Config)
		e.inferBatchLimit()
		engines = append(engines, e)
	}
	return engines, nil
}

func (r *reader) rewriteQuery(expr string, window time.Duration) (string, error) {
	tree, err := indicator.Rewrite(expr,
		indicator.Rewriting{Window: window, Matchers: r.t.Matchers, Series: r.t.Series})
	if err != nil {
		return "", err
	}
	return tree.String(), nil
}

// toIntervals returns the intervals of one rank. Scrapes do not come at the queries' exact times, so an interval lasts
// from one scrape to a later one, by their timestamps.
func (r *reader) toIntervals(rank string, answers []model.Matrix) []Interval {
	moments := r.o.sampleTimes()
	step := moments.Step
	n := int(moments.End.Sub(moments.Start) / step)
	at := make([][]float64, len(fields)) // the values at each moment, by field
	for k := range fields {
		at[k] = make([]float64, n+1)
		for i := range at[k] {
			at[k][i] = math.NaN()
		}
		for _, series := range answers[k] {
			if string(series.Metric["engine"]) != rank {
				continue
			}
			for _, p := range series.Values {
				i := int(math.Round(p.Timestamp.Time().Sub(moments.Start).Seconds() / step.Seconds()))
				if i >= 0 && i <= n {
					at[k][i] = float64(p.Value)
				}
			}
		}
	}
	var out []Interval
	times := at[scraped]
	for last, i := 0, 1; i <= n; i++ {
		switch {
		case math.IsNaN(times[i]), int64(math.Round(times[i]*1e3)) > r.o.To.UnixMilli():
			continue
		case math.IsNaN(times[last]):
			last = i
			continue
		case !(times[i] > times[last]):
			continue // no scrape in between
		case times[i]-times[last] > maxGap*step.Seconds():
			last = i // something unknown happened, perhaps a different server
			continue
		}
		out = append(out, newInterval(at, last, i))
		last = i
	}
	return out
}

// maxGap is how many steps an interval without scrapes may last.
const maxGap = 5

// newInterval makes an interval from the values at its ends.
func newInterval(at [][]float64, from, to int) Interval {
	var v Interval
	for k, f := range fields {
		x := at[k][to]
		if f.kind != mean {
			x -= at[k][from]
		}
		if f.kind == counter && x < 0 {
			x = math.NaN() // the counter began anew
		}
		*f.field(&v) = x
	}
	v.End = time.UnixMilli(int64(at[scraped][to] * 1e3))
	v.Arrived = max(v.FirstTokens+v.Joined, 0)
	if math.IsNaN(v.Computed) {
		v.Computed = v.promptTokens
		if !math.IsNaN(v.prefixHits) {
			v.Computed = max(v.promptTokens-v.prefixHits, 0)
		}
	}
	return v
}

// If requests wait although the cache has room, and the number of running requests stays the same, it is the batch
// limit.
const (
	roomInCache  = 0.9
	minPinned    = 5
	pinnedWithin = 0.02
)

// inferBatchLimit adds the batch limit to the settings if a queue shows it. vLLM has no metric for it.
func (e *Rank) inferBatchLimit() {
	var pinned []float64
	for _, i := range e.Intervals {
		if i.Waiting >= 1 && i.KVUsage < roomInCache {
			pinned = append(pinned, i.Running)
		}
	}
	if len(pinned) < minPinned {
		return
	}
	slices.Sort(pinned)
	top, middle := pinned[len(pinned)-1], pinned[len(pinned)/2]
	if limit := math.Round(top); limit >= 1 && top-middle <= max(pinnedWithin*top, 0.05) {
		e.Config.Set(engine.MaxNumSeqs, strconv.Itoa(int(limit)),
			"inferred from a queue behind that many running requests")
	}
}

// readShape adds the server's lengths and prefix reuse to a workload.
func (r *reader) readShape(ctx context.Context, w *Observed) error {
	span := r.o.To.Sub(r.o.From)
	for _, h := range []struct {
		family string
		to     *Histogram
	}{
		{"vllm:request_prompt_tokens", &w.Prompt},
		{"vllm:request_generation_tokens", &w.Output},
		{"vllm:time_to_first_token_seconds", &w.TTFT},
		{"vllm:inter_token_latency_seconds", &w.ITL},
		{"vllm:e2e_request_latency_seconds", &w.E2E},
	} {
		if err := r.addHistogram(ctx, h.family, span, h.to); err != nil {
			return err
		}
	}
	if err := r.addGain(ctx, "vllm:prefix_cache_queries_total", span, &w.QueriedTokens); err != nil {
		return err
	}
	return r.addGain(ctx, "vllm:prefix_cache_hits_total", span, &w.HitTokens)
}

// addGain adds the gain of a counter.
func (r *reader) addGain(ctx context.Context, name string, span time.Duration, to *float64) error {
	v, err := r.runQuery(ctx, "sum(increase("+name+"[5m]))", span)
	for _, s := range v {
		*to += float64(s.Value)
	}
	return err
}

func (r *reader) runQuery(ctx context.Context, expr string, span time.Duration) (model.Vector, error) {
	text, err := r.rewriteQuery(expr, span)
	if err != nil {
		return nil, err
	}
	return r.q.Query(ctx, text, r.o.To)
}

// addHistogram adds the gain of a histogram.
func (r *reader) addHistogram(ctx context.Context, family string, span time.Duration, to *Histogram) error {
	if err := r.addGain(ctx, family+"_sum", span, &to.Sum); err != nil {
		return err
	}
	if err := r.addGain(ctx, family+"_count", span, &to.Count); err != nil {
		return err
	}
	v, err := r.runQuery(ctx, "sum by (le) (increase("+family+"_bucket[5m]))", span)
	if err != nil {
		return err
	}
	cumulative := map[float64]float64{}
	for _, s := range v {
		if le, err := strconv.ParseFloat(string(s.Metric["le"]), 64); err == nil && le > 0 {
			cumulative[le] += float64(s.Value)
		}
	}
	to.Buckets = mergeBuckets(to.Buckets, cumulative)
	return nil
}

// mergeBuckets adds cumulative counts to buckets. Servers of one model have the same bounds; otherwise a count goes to
// the first bound that holds it.
func mergeBuckets(buckets []Bucket, cumulative map[float64]float64) []Bucket {
	counts := map[float64]float64{}
	for _, b := range buckets {
		counts[b.UpperBound] = b.Count
	}
	below := 0.0
	for _, le := range slices.Sorted(maps.Keys(cumulative)) {
		counts[le] += max(cumulative[le]-below, 0)
		below = max(below, cumulative[le])
	}
	out := buckets[:0]
	for _, le := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Bucket{UpperBound: le, Count: counts[le]})
	}
	return out
}

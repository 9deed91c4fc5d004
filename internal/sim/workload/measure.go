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

// A Server is one that is scraped.
type Server struct {
	Name     string
	Matchers []*labels.Matcher                       // that select its series
	Series   func(canonical string) indicator.Series // its names; nil is vLLM's own of today
	Config   engine.Config                           // what is known of it
}

// A Measurement says what to read.
type Measurement struct {
	Servers  []Server // replicas of one model
	From, To time.Time
	Interval time.Duration // between two scrapes
}

// maxIntervals bounds the number of points of a range query.
const maxIntervals = 360

// step is the length of an interval: that of a scrape or a multiple of it.
func (o *Measurement) step() time.Duration {
	scrapes := max(int(math.Ceil(o.To.Sub(o.From).Seconds()/o.Interval.Seconds()/maxIntervals)), 1)
	return time.Duration(scrapes) * o.Interval
}

// Measured is what was read of the servers of one model.
type Measured struct {
	Workload Observed
	Ranks    []Rank
	From, To time.Time
	LeftOut  []string // servers of the model that are ill, each with what is wrong, for people

	// Of the servers; empty where whoever measures does not ask.
	Source  string         // for people
	Model   string         //
	Release engine.Release // of vLLM
	Config  engine.Config  // of all of them, with what was inferred
}

// A Rank is one data-parallel rank of a server, an engine of its own.
type Rank struct {
	Server    string
	Number    string
	Config    engine.Config // the server's, with what was inferred
	Intervals []Interval
}

// An Interval is what an engine's counters gained and its gauges were on average
// between two scrapes. NaN is a quantity that the server does not tell.
type Interval struct {
	End                       time.Time
	Seconds                   float64
	Running, Waiting, KVUsage float64 // means
	Joined                    float64 // growth of the queue, negative where it shrank
	Generated                 float64 // output tokens
	FirstTokens               float64 // requests that got one
	Arrived                   float64 // requests: first tokens and growth of the queue
	Computed                  float64 // prompt tokens that were not cached
	ITLSum, ITLCount          float64
	PrefillSum, PrefillCount  float64
	QueueSum, QueueCount      float64
	TTFTSum                   float64
	Preempted                 float64
	Steps                     float64 // that gave a token

	promptTokens, prefixHits float64
}

// moments are those that are asked about. They lie midway between scrapes where the
// time ends at one, as it mostly does: there none comes so early or late that it is
// missed. Each shows the scrape before it.
func (o *Measurement) moments() metrics.Range {
	step, end := o.step(), o.To.Add(o.Interval/2)
	return metrics.Range{Start: end.Add(-end.Sub(o.From).Truncate(step)), End: end, Step: step}
}

// Measure reads what a simulation of running servers needs from their metrics: the workload that they had,
// and how long their steps took under which load. It asks one Querier, so that live servers, a recording and a
// Prometheus server are read alike, and judges nothing.
func Measure(ctx context.Context, q metrics.Querier, o Measurement) (*Measured, error) {
	if len(o.Servers) == 0 || o.Interval <= 0 || !o.To.After(o.From.Add(o.Interval)) {
		return nil, hint.With(fmt.Errorf("measure %d servers from %s to %s: no samples", len(o.Servers), o.From.Format(time.RFC3339), o.To.Format(time.RFC3339)),
			"take a longer time")
	}
	f := &Measured{From: o.From, To: o.To}
	for _, t := range o.Servers {
		r := reader{q: q, o: &o, t: &t}
		engines, err := r.engines(ctx)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", t.Name, err)
		}
		f.Ranks = append(f.Ranks, engines...)
		if err := r.shape(ctx, &f.Workload); err != nil {
			return nil, fmt.Errorf("measure %s: %w", t.Name, err)
		}
	}
	f.arrivals(o.step())
	f.loop(o.step())
	return f, nil
}

// scrapesPerCount is how many scrapes a count of arrivals spans: fewer, and the
// moments of the scrapes would show in its variance.
const scrapesPerCount = 4

// arrivals counts what came to all engines together, over times that are common to
// all of them. Within an engine's interval requests are taken to come evenly. A
// time of which one engine tells nothing is unknown.
func (f *Measured) arrivals(step time.Duration) {
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

// Summary is what the engines had over the whole time: means over time, of all
// engines together but for KV usage, which is their mean. Quantities that no
// interval tells are 0.
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

// reader asks for one target.
type reader struct {
	q metrics.Querier
	o *Measurement
	t *Server
}

// kind is what an interval takes of a query's answers.
type kind uint8

const (
	mean    kind = iota // the value at its end, which stands for all of it
	counter             // what was gained; nothing where the counter fell
	growth              // the difference, whatever its sign
)

// fields are the queries, with [5m] for an interval, and what they fill.
var fields = []struct {
	expr  string
	kind  kind
	field func(*Interval) *float64
}{
	{"max by (engine) (timestamp(vllm:generation_tokens_total))", growth, func(i *Interval) *float64 { return &i.Seconds }},
	{"sum by (engine) (avg_over_time(vllm:num_requests_running[5m]))", mean, func(i *Interval) *float64 { return &i.Running }},
	{"sum by (engine) (avg_over_time(vllm:num_requests_waiting[5m]))", mean, func(i *Interval) *float64 { return &i.Waiting }},
	{"avg by (engine) (avg_over_time(vllm:kv_cache_usage_perc[5m]))", mean, func(i *Interval) *float64 { return &i.KVUsage }},
	{"sum by (engine) (vllm:num_requests_waiting)", growth, func(i *Interval) *float64 { return &i.Joined }},
	{"sum by (engine) (vllm:generation_tokens_total)", counter, func(i *Interval) *float64 { return &i.Generated }},
	{"sum by (engine) (vllm:time_to_first_token_seconds_count)", counter, func(i *Interval) *float64 { return &i.FirstTokens }},
	{`sum by (engine) (vllm:prompt_tokens_by_source_total{source="local_compute"})`, counter, func(i *Interval) *float64 { return &i.Computed }},
	{"sum by (engine) (vllm:prompt_tokens_total)", counter, func(i *Interval) *float64 { return &i.promptTokens }},
	{"sum by (engine) (vllm:prefix_cache_hits_total)", counter, func(i *Interval) *float64 { return &i.prefixHits }},
	{"sum by (engine) (vllm:inter_token_latency_seconds_sum)", counter, func(i *Interval) *float64 { return &i.ITLSum }},
	{"sum by (engine) (vllm:inter_token_latency_seconds_count)", counter, func(i *Interval) *float64 { return &i.ITLCount }},
	{"sum by (engine) (vllm:time_to_first_token_seconds_sum)", counter, func(i *Interval) *float64 { return &i.TTFTSum }},
	{"sum by (engine) (vllm:iteration_tokens_total_count)", counter, func(i *Interval) *float64 { return &i.Steps }},
	{"sum by (engine) (vllm:num_preemptions_total)", counter, func(i *Interval) *float64 { return &i.Preempted }},
	{"sum by (engine) (vllm:request_prefill_time_seconds_sum)", counter, func(i *Interval) *float64 { return &i.PrefillSum }},
	{"sum by (engine) (vllm:request_prefill_time_seconds_count)", counter, func(i *Interval) *float64 { return &i.PrefillCount }},
	{"sum by (engine) (vllm:request_queue_time_seconds_sum)", counter, func(i *Interval) *float64 { return &i.QueueSum }},
	{"sum by (engine) (vllm:request_queue_time_seconds_count)", counter, func(i *Interval) *float64 { return &i.QueueCount }},
}

// scraped is the field that tells when a scrape was.
const scraped = 0

// concurrency bounds the queries that are under way at once.
const concurrency = 4

// engines reads the intervals of the target's ranks.
func (r *reader) engines(ctx context.Context) ([]Rank, error) {
	answers := make([]model.Matrix, len(fields))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for i, f := range fields {
		g.Go(func() error {
			expr, err := r.rewrite(f.expr, r.o.step()+r.o.Interval)
			if err != nil {
				return err
			}
			answers[i], err = r.q.QueryRange(ctx, expr, r.o.moments())
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if len(answers[scraped]) == 0 || len(answers[scraped+1]) == 0 {
		return nil, hint.With(errors.New("no metrics of running requests and generated tokens in that time"), "check that the server is vLLM and was scraped then")
	}
	var engines []Rank
	for _, series := range answers[scraped] {
		rank := string(series.Metric["engine"])
		e := Rank{Server: r.t.Name, Number: rank, Config: engine.Config{}, Intervals: r.intervals(rank, answers)}
		e.Config.Merge(r.t.Config)
		e.infer()
		engines = append(engines, e)
	}
	return engines, nil
}

func (r *reader) rewrite(expr string, window time.Duration) (string, error) {
	tree, err := indicator.Rewrite(expr, indicator.Rewriting{Window: window, Matchers: r.t.Matchers, Series: r.t.Series})
	if err != nil {
		return "", err
	}
	return tree.String(), nil
}

// intervals puts one rank's answers side by side. Scrapes do not come at the very
// moments that are asked for: an interval goes from one scrape to a later one, and
// has the length that their times say.
func (r *reader) intervals(rank string, answers []model.Matrix) []Interval {
	moments := r.o.moments()
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
				if i := int(math.Round(p.Timestamp.Time().Sub(moments.Start).Seconds() / step.Seconds())); i >= 0 && i <= n {
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
			last = i // who knows what happened, another server perhaps
			continue
		}
		out = append(out, interval(at, last, i))
		last = i
	}
	return out
}

// maxGap is how many steps an interval without scrapes may last.
const maxGap = 5

// interval is what the values at two moments say of the time in between.
func interval(at [][]float64, from, to int) Interval {
	var v Interval
	for k, f := range fields {
		x := at[k][to]
		if f.kind != mean {
			x -= at[k][from]
		}
		if f.kind == counter && x < 0 {
			x = math.NaN() // it began anew: nothing is known
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

// How a batch limit shows: the running count stays where it is while requests
// wait and the cache has room.
const (
	roomInCache  = 0.9
	minPinned    = 5
	pinnedWithin = 0.02
)

// infer adds the batch limit where a queue shows it: vLLM exports no metric of it.
func (e *Rank) infer() {
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
		e.Config.Set(engine.MaxNumSeqs, strconv.Itoa(int(limit)), "inferred from a queue behind that many running requests")
	}
}

// shape adds the target's lengths and prefix reuse to a workload.
func (r *reader) shape(ctx context.Context, w *Observed) error {
	span := r.o.To.Sub(r.o.From)
	for _, h := range []struct {
		family string
		to     *Histogram
	}{
		{"vllm:request_prompt_tokens", &w.Prompt},
		{"vllm:request_generation_tokens", &w.Output},
		{"vllm:request_params_max_tokens", &w.MaxTokens},
		{"vllm:time_to_first_token_seconds", &w.TTFT},
		{"vllm:inter_token_latency_seconds", &w.ITL},
		{"vllm:e2e_request_latency_seconds", &w.E2E},
	} {
		if err := r.histogram(ctx, h.family, span, h.to); err != nil {
			return err
		}
	}
	if err := r.gained(ctx, "vllm:prefix_cache_queries_total", span, &w.QueriedTokens); err != nil {
		return err
	}
	return r.gained(ctx, "vllm:prefix_cache_hits_total", span, &w.HitTokens)
}

// gained adds what a counter gained.
func (r *reader) gained(ctx context.Context, name string, span time.Duration, to *float64) error {
	v, err := r.query(ctx, "sum(increase("+name+"[5m]))", span)
	for _, s := range v {
		*to += float64(s.Value)
	}
	return err
}

func (r *reader) query(ctx context.Context, expr string, span time.Duration) (model.Vector, error) {
	text, err := r.rewrite(expr, span)
	if err != nil {
		return nil, err
	}
	return r.q.Query(ctx, text, r.o.To)
}

// histogram adds what a histogram gained.
func (r *reader) histogram(ctx context.Context, family string, span time.Duration, to *Histogram) error {
	if err := r.gained(ctx, family+"_sum", span, &to.Sum); err != nil {
		return err
	}
	if err := r.gained(ctx, family+"_count", span, &to.Count); err != nil {
		return err
	}
	v, err := r.query(ctx, "sum by (le) (increase("+family+"_bucket[5m]))", span)
	if err != nil {
		return err
	}
	cumulative := map[float64]float64{}
	for _, s := range v {
		if le, err := strconv.ParseFloat(string(s.Metric["le"]), 64); err == nil && le > 0 {
			cumulative[le] += float64(s.Value)
		}
	}
	to.Buckets = merge(to.Buckets, cumulative)
	return nil
}

// merge adds cumulative counts to buckets. Servers of one model have the same
// bounds; where they differ, a count goes to the first bound that holds it.
func merge(buckets []Bucket, cumulative map[float64]float64) []Bucket {
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

package embedded

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Mirror caches the last samples of a remote server's series. A monitor sends hundreds of queries at each
// evaluation; with a Mirror it reads each sample once, and answers the queries in this process. The server's API does
// not show staleness markers: a series ended where its target was down or gone (ends.go). The server answers
// queries beyond the cached span, and those that depend on ends that are not certain. The zero value is empty.
type Mirror struct {
	mu      sync.Mutex
	recent  *recent
	reading map[string]*sync.Mutex // by metric, which one goroutine reads at a time
	asking  chan struct{}          // has a slot for each concurrent query to the server
}

const (
	// mostMirrored bounds the cached samples, of 16 bytes each. The server answers for metrics beyond it.
	mostMirrored = 32_000_000
	// piece is how much of the past is read at once, in ms, because an answer is in memory while it is read.
	piece = 10 * 60_000
	// beyond is how much longer than the given past the cache spans, because a query may end with the last scrape, and
	// look for the sample before its range.
	beyond = Lookback + time.Minute
	// mostReturned is how many instances are read again by name. Beyond it, the whole metric is read again.
	mostReturned = 100
)

// Over returns a Querier for queries at one time, which must not be before the time of the last call. The cache spans
// the given time before it, and more; interval is the scrape interval. Queries without all matchers of the scope go to
// the server. If the scope changed since the last call, the series that joined it are read.
func (m *Mirror) Over(
	q metrics.Querier, scope []*labels.Matcher, at time.Time, past, interval time.Duration,
) metrics.Querier {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := at.UnixMilli()
	if m.recent == nil || m.recent.newest > now {
		m.recent, m.reading, m.asking = newRecent(nil, Lookback), map[string]*sync.Mutex{},
			make(chan struct{}, metrics.AtOnce)
		m.recent.families, m.recent.anywhen, m.recent.swept = map[string]*family{}, true, now
	}
	m.recent.startEvaluation(now, interval.Milliseconds())
	held := at.Add(-past - beyond)
	return &mirrored{
		Querier: q, mirror: m, recent: m.recent, scope: scope, answersFrom: held, held: held.UnixMilli(), now: now,
	}
}

// acquireSlot waits for a query slot, and returns the function that releases it.
func (m *Mirror) acquireSlot() func() {
	m.asking <- struct{}{}
	return func() { <-m.asking }
}

// startEvaluation moves on to the next evaluation time, and clears results of samples that may have changed.
func (r *recent) startEvaluation(now, interval int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest, r.interval, r.memo = now, interval, map[reading][]element{}
	if now > r.swept+sweepEvery {
		r.sweepUnused()
	}
}

// mirrored answers the queries of one evaluation time.
type mirrored struct {
	metrics.Querier
	mirror      *Mirror
	recent      *recent
	scope       []*labels.Matcher
	answersFrom time.Time // it answers for later times
	held        int64     // samples after this time are cached, in ms
	now         int64

	targets     sync.Mutex
	targetsHeld bool // the samples of up are cached, and the targets that ended are marked
}

// Evaluate implements metrics.Querier.
func (q *mirrored) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	var names []string
	here := true
	e.Each(func(s indicator.Samples) {
		here = here && s.Metric != "" && s.Offset == 0 && q.coversSelector(s.Where,
			at.Add(-time.Duration(q.recent.lookBehind(s))*time.Millisecond))
		names = append(names, s.Metric)
	})
	if here && len(names) > 0 {
		err := q.holdMetrics(ctx, names)
		if err == nil {
			var v model.Vector
			if v, err = q.recent.evaluateExpr(ctx, e, at.UnixMilli()); err == nil {
				return v, nil
			}
		}
		if !errors.Is(err, errEngine) {
			return nil, err
		}
	}
	defer q.mirror.acquireSlot()()
	return q.Querier.Evaluate(ctx, e, at)
}

// Samples implements metrics.Querier.
func (q *mirrored) Samples(
	ctx context.Context, selector string, at time.Time, span time.Duration,
) (model.Matrix, error) {
	if m, err := q.answerSelector(ctx, selector, at, span, 0); !errors.Is(err, errEngine) {
		return m, err
	}
	defer q.mirror.acquireSlot()()
	return q.Querier.Samples(ctx, selector, at, span)
}

// QueryRange implements metrics.Querier.
func (q *mirrored) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	if m, err := q.answerSelector(ctx, expr, r.End, r.End.Sub(r.Start), r.Step); !errors.Is(err, errEngine) {
		return m, err
	}
	defer q.mirror.acquireSlot()()
	return q.Querier.QueryRange(ctx, expr, r)
}

// answerSelector parses a selector and calls recent.selectStreams.
func (q *mirrored) answerSelector(
	ctx context.Context, selector string, at time.Time, span, step time.Duration,
) (model.Matrix, error) {
	ms, err := promQL.ParseMetricSelector(selector)
	if err != nil {
		return nil, errEngine
	}
	var names []string
	for _, m := range ms {
		switch {
		case m.Name != labels.MetricName:
		case m.Type == labels.MatchEqual:
			names = append(names, m.Value)
		case m.Type == labels.MatchRegexp:
			names = append(names, m.SetMatches()...)
		}
	}
	after := at.Add(-span)
	if step > 0 {
		after = after.Add(-Lookback)
	}
	if len(names) == 0 || !q.coversSelector(ms, after) {
		return nil, errEngine
	}
	if err := q.holdMetrics(ctx, names); err != nil {
		return nil, err
	}
	return q.recent.selectStreams(ctx, ms, span.Milliseconds(), at.UnixMilli(), step.Milliseconds())
}

// coversSelector reports whether the cache has all samples of a selector after a time.
func (q *mirrored) coversSelector(where []*labels.Matcher, after time.Time) bool {
	for _, want := range q.scope {
		if !slices.ContainsFunc(where, func(m *labels.Matcher) bool {
			return m.Name == want.Name && m.Type == want.Type && m.Value == want.Value
		}) {
			return false
		}
	}
	return !after.Before(q.answersFrom)
}

// holdMetrics caches the samples of metrics up to now.
func (q *mirrored) holdMetrics(ctx context.Context, names []string) error {
	if len(names) == 1 {
		return q.holdMetric(ctx, names[0])
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(metrics.AtOnce)
	for _, n := range names {
		eg.Go(func() error { return q.holdMetric(ctx, n) })
	}
	return eg.Wait()
}

// holdMetric caches the samples of a metric up to now. errEngine means that the server must answer.
func (q *mirrored) holdMetric(ctx context.Context, name string) error {
	if err := q.holdTargets(ctx); err != nil && !errors.Is(err, errEngine) {
		return err
	}
	_, err := q.holdFamily(ctx, name)
	return err
}

// holdTargets caches the samples of up, and marks the targets that ended, once in an evaluation.
func (q *mirrored) holdTargets(ctx context.Context) error {
	q.targets.Lock()
	defer q.targets.Unlock()
	if q.targetsHeld {
		return nil
	}
	f, err := q.holdFamily(ctx, upMetric)
	if err != nil {
		return err
	}
	live, err := q.seriesAt(ctx, upMetric, q.now)
	if err != nil {
		return err
	}
	q.recent.markTargets(f, live)
	q.targetsHeld = true
	return nil
}

// confirmEnds asks the server whether series had ended, of targets of which it is not known that they have markers.
func (q *mirrored) confirmEnds(ctx context.Context, f *family) error {
	at, doubted := q.recent.takeDoubtedEnds(f)
	if len(doubted) == 0 {
		return nil
	}
	var instances []string
	for _, s := range doubted {
		instances = append(instances, regexp.QuoteMeta(s.lset.Get(model.InstanceLabel)))
	}
	returned, err := q.seriesAt(ctx, f.metric, at, indicator.Like(model.InstanceLabel, strings.Join(instances, "|")))
	if err != nil {
		return err
	}
	q.recent.mu.Lock()
	defer q.recent.mu.Unlock()
	for _, s := range doubted {
		s.origin.marked = !returned[s.lset.Hash()]
		if !s.origin.marked && at <= q.now-metrics.Arrival.Milliseconds() {
			s.origin.askAfter = q.now + sweepEvery
		}
	}
	return nil
}

// seriesAt returns the hashes of the series that the server returns for a metric at a time.
func (q *mirrored) seriesAt(
	ctx context.Context, metric string, at int64, more ...*labels.Matcher,
) (map[uint64]bool, error) {
	defer q.mirror.acquireSlot()()
	v, err := q.Query(ctx, indicator.Selector(metric, slices.Concat(q.scope, more)...), time.UnixMilli(at))
	if err != nil {
		return nil, err
	}
	hashes := make(map[uint64]bool, len(v))
	for _, s := range v {
		hashes[labelsFromMetric(s.Metric).Hash()] = true
	}
	return hashes, nil
}

// holdFamily caches the samples of a metric up to now, but not the ends of targets.
func (q *mirrored) holdFamily(ctx context.Context, name string) (*family, error) {
	lock := q.mirror.metricLock(name)
	lock.Lock()
	defer lock.Unlock()
	f, since, extends := q.recent.planRead(name, q.held, q.now)
	returned, err := q.readPieces(ctx, f, since, extends)
	switch {
	case extends && len(returned) > mostReturned:
		_, err = q.readPieces(ctx, f, f.completeFrom, false)
	case extends && len(returned) > 0:
		var series model.Matrix
		if series, err = q.readSamples(ctx, f, f.completeFrom, q.now,
			indicator.Like("instance", strings.Join(returned, "|"))); err == nil {
			q.recent.replaceSamples(f, series)
		}
	}
	if errors.Is(err, metrics.ErrTooLarge) {
		q.recent.mu.Lock()
		q.recent.refuseFamily(f)
		q.recent.mu.Unlock()
		err = nil
	}
	if err == nil && f.refused {
		err = errEngine
	}
	if err == nil {
		err = q.confirmEnds(ctx, f)
	}
	return f, err
}

// readPieces reads the samples of a metric from a time up to now, piece by piece; see storeSamples.
func (q *mirrored) readPieces(
	ctx context.Context, f *family, since int64, extends bool,
) (returned []string, err error) {
	for since < q.now && !f.refused {
		until := min(since+piece, q.now)
		series, err := q.readSamples(ctx, f, since, until)
		if err != nil {
			return nil, err
		}
		returned = append(returned, q.recent.storeSamples(f, series, since, until, extends)...)
		since, extends = until, true
	}
	return returned, nil
}

// metricLock returns the mutex of a metric.
func (m *Mirror) metricLock(name string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reading[name] == nil {
		m.reading[name] = new(sync.Mutex)
	}
	return m.reading[name]
}

// readSamples reads the samples of a metric between two times.
func (q *mirrored) readSamples(
	ctx context.Context, f *family, after, until int64, more ...*labels.Matcher,
) (model.Matrix, error) {
	defer q.mirror.acquireSlot()()
	return q.Querier.Samples(ctx, indicator.Selector(f.metric, slices.Concat(q.scope, more)...), time.UnixMilli(until),
		time.Duration(until-after)*time.Millisecond)
}

// planRead returns the time after which a metric's samples must be read, to have all samples after a given time. If the
// cache can be extended, that time lies before its end, because samples may have arrived late.
func (r *recent) planRead(name string, from, now int64) (f *family, after int64, extends bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f = r.families[name]; f == nil {
		f = r.addFamily(name)
	}
	f.wants[0] = now - from + sweepEvery
	switch {
	case f.refused || f.held && f.completeFrom <= from && f.completeUntil >= now:
		return f, now, true
	case f.held && f.completeFrom <= from:
		return f, max(from, f.completeUntil-metrics.Arrival.Milliseconds()), true
	}
	return f, from, false
}

// storeSamples caches samples of a metric between two times: it extends the cached series, or replaces all of them.
// It returns patterns of the instances with new series, and with series that had no sample at the end of the cache:
// older samples may have arrived in the meantime.
func (r *recent) storeSamples(f *family, read model.Matrix, since, until int64, extends bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !extends {
		wants := f.wants
		r.dropFamily(f)
		f.held, f.completeFrom, f.wants, f.byHash = true, since, wants, map[uint64]*recentSeries{}
	}
	f.retention, f.completeUntil = max(f.wants[0], f.wants[1]), until
	for _, s := range f.series {
		r.cutAfter(s, since)
	}
	returned := map[string]bool{}
	for _, one := range read {
		s := r.findSeries(f, labelsFromMetric(one.Metric))
		if n := len(s.points); n < 2 || since-s.points[n-1].T > (s.points[n-1].T-s.points[0].T)*3/2/int64(n-1) {
			returned[regexp.QuoteMeta(string(one.Metric["instance"]))] = true
		}
		r.extendSeries(s, one.Values)
	}
	r.markSeries(f, since)
	if r.sampleCount > mostMirrored {
		r.refuseFamily(f)
	}
	if !extends {
		return nil
	}
	return slices.Sorted(maps.Keys(returned))
}

// replaceSamples replaces all samples of some series of a metric.
func (r *recent) replaceSamples(f *family, read model.Matrix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range read {
		s := r.findSeries(f, labelsFromMetric(one.Metric))
		r.cutAfter(s, f.completeFrom)
		r.extendSeries(s, one.Values)
	}
	r.markSeries(f, f.completeFrom)
}

// cutAfter drops the samples of a series after a time.
func (r *recent) cutAfter(s *recentSeries, after int64) {
	n := s.upTo(after)
	r.sampleCount -= len(s.points) - n
	s.points = s.points[:n]
}

// extendSeries appends newer samples to a series. A server may include the sample at the start of a span.
func (r *recent) extendSeries(s *recentSeries, samples []model.SamplePair) {
	for _, p := range samples {
		t, n := int64(p.Timestamp), len(s.points)
		if n > 0 && t <= s.points[n-1].T {
			continue
		}
		if n == cap(s.points) {
			r.trimSeries(s, r.newest)
		}
		s.points = append(s.points, promql.FPoint{T: t, F: float64(p.Value)})
		r.sampleCount++
	}
}

func labelsFromMetric(m model.Metric) labels.Labels {
	b := labels.NewScratchBuilder(len(m))
	for k, v := range m {
		b.Add(string(k), string(v))
	}
	b.Sort()
	return b.Labels()
}

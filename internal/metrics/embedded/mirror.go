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

// A Mirror holds the last samples of another server's series, which a monitor asks about at each evaluation
// in hundreds of questions, so that the server is asked for each sample once, and the questions are
// answered here. What reaches further back than is held is left to the server, and so are instant selectors
// and what looks for the end of series, as its API does not show staleness markers. The zero value is empty.
type Mirror struct {
	mu      sync.Mutex
	recent  *recent
	reading map[string]*sync.Mutex // by metric: it is read by one at a time
	asking  chan struct{}          // has a place for each question to the server
}

const (
	// mostMirrored bounds the samples that are held, of 16 bytes each: metrics that there is no room for are
	// left to the server.
	mostMirrored = 32_000_000
	// piece is how much of the past is read at once, in ms: an answer has a place in memory while it is read.
	piece = 10 * 60_000
	// mostReturned is how many instances are read again by their names.
	mostReturned = 100
)

// Over returns the mirrored Querier for the questions of a moment that is not before the last one. Held is
// what lies so far before it; a sample counts for as long as lookback says in ranges. Questions that do not
// have all the matchers of the scope are left to the Querier. Where the scope is another one than the last
// time, what comes into it is read.
func (m *Mirror) Over(q metrics.Querier, scope []*labels.Matcher, at time.Time, past, lookback time.Duration) metrics.Querier {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := at.UnixMilli()
	if m.recent == nil || m.recent.newest > now {
		m.recent, m.reading, m.asking = newRecent(nil, lookback), map[string]*sync.Mutex{}, make(chan struct{}, metrics.AtOnce)
		m.recent.families, m.recent.anywhen, m.recent.swept = map[string]*family{}, true, now
	}
	m.recent.turn(now, lookback.Milliseconds())
	return &mirrored{q, m, m.recent, scope, at.Add(-past), now - (past + lookback).Milliseconds(), now}
}

// ask waits for a place for a question, and returns what gives it back.
func (m *Mirror) ask() func() {
	m.asking <- struct{}{}
	return func() { <-m.asking }
}

// turn begins another moment: what was derived of samples that may have changed since is forgotten.
func (r *recent) turn(now, lookback int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest, r.lookback, r.memo = now, lookback, map[reading][]element{}
	if now > r.swept+sweepEvery {
		r.sweep()
	}
}

// mirrored answers the questions of one moment.
type mirrored struct {
	metrics.Querier
	mirror *Mirror
	recent *recent
	scope  []*labels.Matcher
	from   time.Time // of which it answers
	held   int64     // samples after it, in ms
	now    int64
}

// Evaluate implements metrics.Querier.
func (q *mirrored) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	var names []string
	here := true
	e.Each(func(s indicator.Samples) {
		switch s.Func {
		case "", indicator.FirstSeen, indicator.LastTrue, indicator.HeldLast:
			here = false // staleness markers count
		}
		here = here && s.Metric != "" && s.Offset == 0 && q.covers(s.Where, at.Add(-time.Duration(q.recent.back(s))*time.Millisecond))
		names = append(names, s.Metric)
	})
	if here && len(names) > 0 {
		err := q.hold(ctx, names)
		if err == nil {
			var v model.Vector
			if v, err = q.recent.evaluate(ctx, e, at.UnixMilli()); err == nil {
				return v, nil
			}
		}
		if !errors.Is(err, errEngine) {
			return nil, err
		}
	}
	defer q.mirror.ask()()
	return q.Querier.Evaluate(ctx, e, at)
}

// Samples implements metrics.Querier.
func (q *mirrored) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	if m, err := q.streams(ctx, selector, at, span, 0); !errors.Is(err, errEngine) {
		return m, err
	}
	defer q.mirror.ask()()
	return q.Querier.Samples(ctx, selector, at, span)
}

// QueryRange implements metrics.Querier.
func (q *mirrored) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	if m, err := q.streams(ctx, expr, r.End, r.End.Sub(r.Start), r.Step); !errors.Is(err, errEngine) {
		return m, err
	}
	defer q.mirror.ask()()
	return q.Querier.QueryRange(ctx, expr, r)
}

// streams is recent.streams of a selector.
func (q *mirrored) streams(ctx context.Context, selector string, at time.Time, span, step time.Duration) (model.Matrix, error) {
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
	if len(names) == 0 || !q.covers(ms, at.Add(-span)) {
		return nil, errEngine
	}
	if err := q.hold(ctx, names); err != nil {
		return nil, err
	}
	return q.recent.streams(ctx, ms, span.Milliseconds(), at.UnixMilli(), step.Milliseconds())
}

// covers reports whether what is held has all samples of a selector after a moment.
func (q *mirrored) covers(where []*labels.Matcher, after time.Time) bool {
	for _, want := range q.scope {
		if !slices.ContainsFunc(where, func(m *labels.Matcher) bool {
			return m.Name == want.Name && m.Type == want.Type && m.Value == want.Value
		}) {
			return false
		}
	}
	return !after.Before(q.from)
}

// hold makes sure that the samples of metrics are held up to now.
func (q *mirrored) hold(ctx context.Context, names []string) error {
	if len(names) == 1 {
		return q.holdOne(ctx, names[0])
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(metrics.AtOnce)
	for _, n := range names {
		eg.Go(func() error { return q.holdOne(ctx, n) })
	}
	return eg.Wait()
}

func (q *mirrored) holdOne(ctx context.Context, name string) error {
	lock := q.mirror.lock(name)
	lock.Lock()
	defer lock.Unlock()
	f, since, goesOn := q.recent.since(name, q.held, q.now)
	returned, err := q.fill(ctx, f, since, goesOn)
	switch {
	case goesOn && len(returned) > mostReturned:
		_, err = q.fill(ctx, f, f.from, false)
	case goesOn && len(returned) > 0:
		var series model.Matrix
		if series, err = q.read(ctx, f, f.from, q.now, indicator.Like("instance", strings.Join(returned, "|"))); err == nil {
			q.recent.replace(f, series)
		}
	}
	if errors.Is(err, metrics.ErrTooLarge) {
		q.recent.mu.Lock()
		q.recent.refuse(f)
		q.recent.mu.Unlock()
		err = nil
	}
	if err == nil && f.refused {
		return errEngine
	}
	return err
}

// fill reads the samples of a metric after a moment and up to now, piece by piece; see take.
func (q *mirrored) fill(ctx context.Context, f *family, since int64, goesOn bool) (returned []string, err error) {
	for since < q.now && !f.refused {
		until := min(since+piece, q.now)
		series, err := q.read(ctx, f, since, until)
		if err != nil {
			return nil, err
		}
		returned = append(returned, q.recent.take(f, series, since, until, goesOn)...)
		since, goesOn = until, true
	}
	return returned, nil
}

// lock returns the lock of a metric.
func (m *Mirror) lock(name string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reading[name] == nil {
		m.reading[name] = new(sync.Mutex)
	}
	return m.reading[name]
}

// read reads the samples of a metric after a moment and up to another one.
func (q *mirrored) read(ctx context.Context, f *family, after, until int64, more ...*labels.Matcher) (model.Matrix, error) {
	defer q.mirror.ask()()
	return q.Querier.Samples(ctx, indicator.Selector(f.name, slices.Concat(q.scope, more)...), time.UnixMilli(until), time.Duration(until-after)*time.Millisecond)
}

// since returns a metric, and after when its samples are to be read, to have those after a moment: those
// of before that may not all have been there when they were read, where it goes on with what is held.
func (r *recent) since(name string, from, now int64) (f *family, since int64, goesOn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f = r.families[name]; f == nil {
		f = r.add(name)
	}
	f.wants[0] = now - from + sweepEvery
	switch {
	case f.refused || f.held && f.from <= from && f.until >= now:
		return f, now, true
	case f.held && f.from <= from:
		return f, max(from, f.until-metrics.Arrival.Milliseconds()), true
	}
	return f, from, false
}

// take takes the samples of a metric after a moment and up to another one, which go on with what is held or
// replace all of it. It returns the instances of series of which samples before that may have come since
// they were read, as patterns: new ones, and those that had none at its end.
func (r *recent) take(f *family, read model.Matrix, since, until int64, goesOn bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !goesOn {
		wants := f.wants
		r.drop(f)
		f.held, f.from, f.wants, f.byHash = true, since, wants, map[uint64]*recentSeries{}
	}
	f.keep, f.until = max(f.wants[0], f.wants[1]), until
	for _, s := range f.series {
		r.cut(s, since)
	}
	returned := map[string]bool{}
	for _, one := range read {
		s := r.series(f, labelsOf(one.Metric))
		if n := len(s.points); n < 2 || since-s.points[n-1].T > (s.points[n-1].T-s.points[0].T)*3/2/int64(n-1) {
			returned[regexp.QuoteMeta(string(one.Metric["instance"]))] = true
		}
		r.extend(s, one.Values)
	}
	if r.samples > mostMirrored {
		r.refuse(f)
	}
	if !goesOn {
		return nil
	}
	return slices.Sorted(maps.Keys(returned))
}

// replace takes all samples of some of a metric's series.
func (r *recent) replace(f *family, read model.Matrix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range read {
		s := r.series(f, labelsOf(one.Metric))
		r.cut(s, f.from)
		r.extend(s, one.Values)
	}
}

// cut drops the samples of a series after a moment.
func (r *recent) cut(s *recentSeries, after int64) {
	n := s.upTo(after)
	r.samples -= len(s.points) - n
	s.points = s.points[:n]
}

// extend adds samples that come after those of a series: a server may count the beginning of a span to it.
func (r *recent) extend(s *recentSeries, samples []model.SamplePair) {
	for _, p := range samples {
		t, n := int64(p.Timestamp), len(s.points)
		if n > 0 && t <= s.points[n-1].T {
			continue
		}
		if n == cap(s.points) {
			r.trim(s, r.newest)
		}
		s.points = append(s.points, promql.FPoint{T: t, F: float64(p.Value)})
		r.samples++
	}
}

func labelsOf(m model.Metric) labels.Labels {
	b := labels.NewScratchBuilder(len(m))
	for k, v := range m {
		b.Add(string(k), string(v))
	}
	b.Sort()
	return b.Labels()
}

package embedded

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// recent holds, decoded, the last samples of the metrics that are asked for again and
// again: a monitor's questions, two hundred every 15 s, are all about the last minutes.
// Samples come from the appenders that it wraps, once they are committed; what was there
// before is read from the storage when a metric is asked for. It holds a metric as far back
// as it was asked for in the last minutes, and forgets what nobody asks for any more. Of a
// recording, which is diagnosed at moments all over it, it holds what any of them asks.
type recent struct {
	db       *tsdb.DB
	lookback int64 // ms
	anywhen  bool  // what is asked again is held wherever it ends, not near the newest sample alone
	pool     sync.Pool

	mu        sync.Mutex
	families  map[string]*family // by name; nil before the first question
	bound     bindings
	sets      *labelSets
	instances map[string]int32   // by name
	choices   map[string]*choice // of selectors, for the series that there are
	memo      map[reading][]element
	memoTo    int64  // the latest moment that memo speaks of
	idle      int    // transactions since the last question
	key       []byte // scratch

	elements scratch[element]
	numbers  scratch[int32] // of labels
	partials scratch[partial]

	newest  int64 // time of the newest sample
	samples int   // that are held
	swept   int64 // newest when it was swept
}

// A family is what is known of one metric.
type family struct {
	name    string
	held    bool
	refused bool  // it cannot be held: native histograms, or too much
	from    int64 // all samples after it are held
	until   int64 // and up to it, where they are read from a server
	keep    int64 // how far back, in ms, samples are kept
	wants   [2]int64
	series  []*recentSeries
	other   *recentSeries // stands for series while none are held
	byHash  map[uint64]*recentSeries
}

type recentSeries struct {
	family  *family
	next    *recentSeries // of the same hash
	lset    labels.Labels
	id      int32 // of lset, from 1 on; 0 where it has none yet
	scraped int32 // the number of its instance
	ref     storage.SeriesRef
	points  []promql.FPoint // in the order of time, without staleness markers
	stale   []int64         // times of staleness markers
	last    int64           // time of the last sample, markers included
}

// bindings are series by their references, which the storage gives one after the other: those of
// one page lie beside each other.
type bindings map[storage.SeriesRef]*[bindingsTogether]*recentSeries

const bindingsTogether = 512

func (b bindings) of(ref storage.SeriesRef) *recentSeries {
	if together := b[ref/bindingsTogether]; together != nil {
		return together[ref%bindingsTogether]
	}
	return nil
}

// set binds a series; reference 0 is none.
func (b bindings) set(ref storage.SeriesRef, s *recentSeries) {
	together := b[ref/bindingsTogether]
	if together == nil && s != nil {
		together = new([bindingsTogether]*recentSeries)
		b[ref/bindingsTogether] = together
	}
	if together != nil && ref != 0 {
		together[ref%bindingsTogether] = s
	}
}

const (
	// mostRecent bounds the samples that are held: of what is more the engine answers.
	mostRecent = 16_000_000
	// sweepEvery is how often what nobody asks for is dropped, in ms.
	sweepEvery = 5 * 60_000
	// recently is how far before the newest sample a question may end, in ms, for what it
	// asks to be held from then on.
	recently = 30_000
	// forgetful is after how many transactions without a question between them what questions
	// of one moment have in common is forgotten.
	forgetful = 100
	// longestKept is the longest span of time that is held, in ms.
	longestKept = 370 * 60_000
)

func newRecent(db *tsdb.DB, lookback time.Duration) *recent {
	r := &recent{db: db, lookback: lookback.Milliseconds(), newest: math.MinInt64}
	r.pool.New = func() any { return new(batch) }
	r.clear()
	return r
}

func (r *recent) clear() {
	r.families, r.bound, r.samples = nil, bindings{}, 0
	r.reset()
}

// reset forgets what was derived of the series that there are.
func (r *recent) reset() {
	r.sets, r.instances, r.choices, r.memo = newLabelSets(), map[string]int32{}, map[string]*choice{}, map[reading][]element{}
	for _, f := range r.families {
		for _, s := range f.series {
			s.id, s.scraped = 0, r.instance(s.lset)
		}
	}
}

// A batch is what one transaction appended.
type batch struct {
	samples    []appended
	histograms []string // metrics with native histograms
}

type appended struct {
	ref  storage.SeriesRef
	lset labels.Labels
	t    int64
	v    float64
}

// publish takes what was committed.
func (r *recent) publish(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle++; r.idle == forgetful {
		r.memo = map[reading][]element{}
	}
	for i := range b.samples {
		a := &b.samples[i]
		r.newest = max(r.newest, a.t)
		if r.families == nil {
			continue
		}
		s := r.bound.of(a.ref)
		if s == nil || s == s.family.other && s.family.held {
			s = r.bind(a)
		}
		if s.family.held {
			r.append(s, a.t, a.v)
		}
	}
	for _, name := range b.histograms {
		if f := r.families[name]; f != nil {
			r.refuse(f)
		}
	}
	if r.newest > r.swept+sweepEvery {
		r.sweep()
	}
}

// bind finds the series of a sample, or makes it; where its family is not held it is the same one for all.
func (r *recent) bind(a *appended) *recentSeries {
	name := a.lset.Get(labels.MetricName)
	f := r.families[name]
	if f == nil {
		f = r.add(name)
	}
	s := f.other
	if f.held {
		s = r.series(f, a.lset)
		r.bound.set(s.ref, nil)
		s.ref = a.ref
	}
	r.bound.set(a.ref, s)
	return s
}

func (r *recent) add(name string) *family {
	f := &family{name: name}
	f.other = &recentSeries{family: f}
	r.families[name] = f
	clear(r.choices)
	return f
}

// series returns the series of a family with these labels.
func (r *recent) series(f *family, lset labels.Labels) *recentSeries {
	hash := lset.Hash()
	for s := f.byHash[hash]; s != nil; s = s.next {
		if labels.Equal(s.lset, lset) {
			return s
		}
	}
	s := &recentSeries{family: f, lset: lset, scraped: r.instance(lset), next: f.byHash[hash], last: math.MinInt64}
	f.byHash[hash] = s
	f.series = append(f.series, s)
	clear(r.choices)
	return s
}

// instance numbers the instances of series.
func (r *recent) instance(lset labels.Labels) int32 {
	name := lset.Get(model.InstanceLabel)
	n, known := r.instances[name]
	if !known {
		n = int32(len(r.instances))
		r.instances[name] = n
	}
	return n
}

func (r *recent) append(s *recentSeries, t int64, v float64) {
	if t <= s.last {
		return // it was read from the storage before
	}
	if t <= r.memoTo {
		r.memoTo = math.MinInt64
		clear(r.memo)
	}
	s.last = t
	if value.IsStaleNaN(v) {
		s.ended(t)
		return
	}
	if len(s.points) == cap(s.points) {
		r.trim(s, t)
	}
	s.points = append(s.points, promql.FPoint{T: t, F: v})
	r.samples++
}

// trim makes room for a sample at a time, in the place of those that are too old.
func (r *recent) trim(s *recentSeries, t int64) {
	old := s.upTo(t - s.family.keep)
	if old > 0 {
		s.family.from = max(s.family.from, s.points[old-1].T)
		r.samples -= old
	}
	if left := s.points[old:]; 4*old >= len(s.points) {
		s.points = s.points[:copy(s.points, left)]
	} else {
		s.points = append(make([]promql.FPoint, 0, len(left)+len(left)/8+4), left...)
	}
}

// upTo returns how many samples lie at a time or before it: of most questions all but a few.
func (s *recentSeries) upTo(t int64) int {
	lo, hi := 0, len(s.points)
	for back := 1; hi-back >= 0; back *= 2 {
		if s.points[hi-back].T <= t {
			lo = hi - back + 1
			break
		}
		hi -= back
	}
	for lo < hi {
		if m := (lo + hi) / 2; s.points[m].T <= t {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// between returns the samples after a time and up to another one.
func (s *recentSeries) between(after, until int64) []promql.FPoint {
	return s.points[s.upTo(after):s.upTo(until)]
}

// ended notes a staleness marker.
func (s *recentSeries) ended(t int64) {
	if len(s.stale) > 0 && s.stale[0] < t-s.family.keep-longestKept {
		s.stale = s.stale[:copy(s.stale, s.stale[1:])]
	}
	s.stale = append(s.stale, t)
}

// at returns the sample that an instant query at a time sees.
func (s *recentSeries) at(t, lookback int64) (promql.FPoint, bool) {
	n := s.upTo(t)
	if n == 0 || s.points[n-1].T <= t-lookback {
		return promql.FPoint{}, false
	}
	p := s.points[n-1]
	for i := len(s.stale) - 1; i >= 0 && s.stale[i] > p.T; i-- {
		if s.stale[i] <= t {
			return promql.FPoint{}, false
		}
	}
	return p, true
}

// sweep drops what nobody asked for lately, and series that ended.
func (r *recent) sweep() {
	r.swept, r.bound = r.newest, bindings{}
	held := 0 // series
	for _, f := range r.families {
		if !f.held {
			f.refused = false // there may be room now
			continue
		}
		f.wants = [2]int64{0, f.wants[0]}
		if f.wants[1] == 0 {
			r.drop(f)
			continue
		}
		f.keep = f.wants[1]
		live := f.series[:0]
		clear(f.byHash)
		for _, s := range f.series {
			old := s.upTo(r.newest - f.keep)
			if old == len(s.points) {
				f.from = max(f.from, r.newest-f.keep)
				r.samples -= old
				continue
			}
			if 2*old > len(s.points) {
				r.trim(s, r.newest)
			}
			hash := s.lset.Hash()
			s.next, f.byHash[hash] = f.byHash[hash], s
			live = append(live, s)
			r.bound.set(s.ref, s)
		}
		clear(f.series[len(live):])
		f.series, held = live, held+len(live)
	}
	clear(r.choices)
	if len(r.sets.sets) > 4*held+10_000 {
		r.reset()
	}
}

// drop forgets the samples of a family.
func (r *recent) drop(f *family) {
	for _, s := range f.series {
		r.bound.set(s.ref, nil)
		r.samples -= len(s.points)
	}
	f.held, f.keep, f.wants, f.series, f.byHash = false, 0, [2]int64{}, nil, nil
	clear(r.choices)
}

// refuse leaves a family to the engine, or the server, until the next sweep.
func (r *recent) refuse(f *family) {
	r.drop(f)
	f.refused = true
}

// ensureSamples makes sure that a family's samples after a time are held, for a question that ends
// at another time; false says that they are not.
func (r *recent) ensureSamples(ctx context.Context, f *family, from, to int64) bool {
	if f.refused {
		return false
	}
	span := r.newest - from
	worth := (r.anywhen || to >= r.newest-recently) && span <= longestKept
	if worth {
		f.wants[0] = max(f.wants[0], span+span/8+60_000)
		f.keep = max(f.keep, f.wants[0])
	}
	if f.held && f.from <= from {
		return true
	}
	return worth && r.readFamily(ctx, f, from-span/8-45_000)
}

// readFamily reads what the storage has of a family after a time.
func (r *recent) readFamily(ctx context.Context, f *family, from int64) bool {
	if r.db == nil {
		return false
	}
	wants, keep := f.wants, f.keep
	r.drop(f)
	q, err := r.db.Querier(from+1, math.MaxInt64)
	if err != nil {
		return false
	}
	defer q.Close()
	oldest := r.db.Head().MinTime()
	for _, b := range r.db.Blocks() {
		oldest = min(oldest, b.MinTime())
	}
	f.wants, f.keep, f.held, f.from, f.byHash = wants, keep, true, from, map[uint64]*recentSeries{}
	if from < oldest {
		f.from = math.MinInt64 // there is nothing before
	}
	set := q.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, f.name))
	var it chunkenc.Iterator
	for set.Next() && !f.refused {
		s := r.series(f, set.At().Labels())
		it = set.At().Iterator(it)
		kind := it.Next()
		for ; kind == chunkenc.ValFloat; kind = it.Next() {
			t, v := it.At()
			s.last = t
			if value.IsStaleNaN(v) {
				s.ended(t)
			} else {
				s.points = append(s.points, promql.FPoint{T: t, F: v})
			}
		}
		s.points = slices.Clip(s.points)
		r.samples += len(s.points)
		f.refused = kind != chunkenc.ValNone || it.Err() != nil || r.samples > mostRecent
	}
	if f.refused || set.Err() != nil {
		r.drop(f)
		return false
	}
	return true
}

// begin learns which metrics there are, at the first question.
func (r *recent) begin(ctx context.Context) bool {
	if r.families != nil {
		return true
	}
	if newest := r.db.Head().MaxTime(); newest > math.MinInt64 {
		r.newest = max(r.newest, newest)
	}
	r.swept = r.newest
	q, err := r.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return false
	}
	defer q.Close()
	names, _, err := q.LabelValues(ctx, labels.MetricName, nil)
	if err != nil {
		return false
	}
	r.families = map[string]*family{}
	for _, name := range names {
		r.add(name)
	}
	return true
}

// wrap returns an appender that shows what is committed.
func (r *recent) wrap(app storage.AppenderV2) storage.AppenderV2 {
	return &observedV2{AppenderV2: app, observation: observation{r, r.pool.Get().(*batch)}}
}

// Observe wraps a storage that this store is a part of, such as one that also writes to a
// remote one: what is appended there is seen here.
func (s *Store) Observe(all storage.Storage) storage.Storage { return observedStorage{all, s.recent} }

type observedStorage struct {
	storage.Storage
	recent *recent
}

// Appender implements storage.Appendable.
func (o observedStorage) Appender(ctx context.Context) storage.Appender {
	return &observedV1{Appender: o.Storage.Appender(ctx), observation: observation{o.recent, o.recent.pool.Get().(*batch)}}
}

// AppenderV2 implements storage.AppendableV2.
func (o observedStorage) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return o.recent.wrap(o.Storage.AppenderV2(ctx))
}

// An observation gathers what a transaction appends.
type observation struct {
	recent *recent
	batch  *batch
}

func (o *observation) add(ref storage.SeriesRef, l labels.Labels, t int64, v float64) {
	o.batch.samples = append(o.batch.samples, appended{ref, l, t, v})
}

// end ends the transaction, whose samples count if it was committed.
func (o *observation) end(err error, committed bool) error {
	if o.batch == nil {
		return err
	}
	switch {
	case err == nil && committed:
		o.recent.publish(o.batch)
	case committed: // a part of it may be there
		o.recent.mu.Lock()
		o.recent.clear()
		o.recent.mu.Unlock()
	}
	clear(o.batch.samples)
	o.batch.samples, o.batch.histograms = o.batch.samples[:0], o.batch.histograms[:0]
	o.recent.pool.Put(o.batch)
	o.batch = nil
	return err
}

type observedV1 struct {
	storage.Appender
	observation
}

// Append implements storage.Appender.
func (o *observedV1) Append(ref storage.SeriesRef, l labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	ref, err := o.Appender.Append(ref, l, t, v)
	if err == nil {
		o.add(ref, l, t, v)
	}
	return ref, err
}

// AppendHistogram implements storage.HistogramAppender.
func (o *observedV1) AppendHistogram(
	ref storage.SeriesRef, l labels.Labels, t int64, h *histogram.Histogram, fh *histogram.FloatHistogram,
) (storage.SeriesRef, error) {
	o.batch.histograms = append(o.batch.histograms, l.Get(labels.MetricName))
	return o.Appender.AppendHistogram(ref, l, t, h, fh)
}

// Commit implements storage.AppenderTransaction.
func (o *observedV1) Commit() error { return o.end(o.Appender.Commit(), true) }

// Rollback implements storage.AppenderTransaction.
func (o *observedV1) Rollback() error { return o.end(o.Appender.Rollback(), false) }

type observedV2 struct {
	storage.AppenderV2
	observation
}

// Append implements storage.AppenderV2.
func (o *observedV2) Append(
	ref storage.SeriesRef, l labels.Labels, st, t int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram,
	opts storage.AOptions,
) (storage.SeriesRef, error) {
	ref, err := o.AppenderV2.Append(ref, l, st, t, v, h, fh, opts)
	switch {
	case h != nil || fh != nil:
		o.batch.histograms = append(o.batch.histograms, l.Get(labels.MetricName))
	case err == nil || errors.As(err, new(*storage.AppendPartialError)):
		o.add(ref, l, t, v)
	}
	return ref, err
}

// Commit implements storage.AppenderTransaction.
func (o *observedV2) Commit() error { return o.end(o.AppenderV2.Commit(), true) }

// Rollback implements storage.AppenderTransaction.
func (o *observedV2) Rollback() error { return o.end(o.AppenderV2.Rollback(), false) }

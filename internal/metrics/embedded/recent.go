package embedded

import (
	"context"
	"errors"
	"math"
	"math/bits"
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
	parser   *parsed
	lookback int64 // ms
	anywhen  bool  // what is asked again is held wherever it ends, not near the newest sample alone
	pool     sync.Pool

	mu       sync.Mutex
	families map[string]*family // by name; nil before the first question
	bound    refs
	sets     *labelSets
	choices  map[string]*choice         // of selectors, for the series that there are
	matched  map[*labels.Matcher][]bool // what matchers of instances choose, by number
	picked   []*recentSeries            // scratch
	plans    [2]map[string]*plan
	memo     map[memoKey][]element
	memoTo   int64 // the latest moment that memo speaks of
	idle     int   // transactions since the last question
	room     []promql.FPoint
	scratch  scratch

	instances []string // by number
	numbers   map[string]int32

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
	keep    int64 // how far back, in ms, samples are kept
	wants   [2]int64
	asked   [11][2]int64 // the last two moments at which so much was asked for, by its logarithm
	series  []*recentSeries
	byHash  map[uint64]*recentSeries
	stub    recentSeries // stands for all series of one that is not held
}

type recentSeries struct {
	family   *family
	next     *recentSeries // of the same hash
	lset     labels.Labels
	id       int32 // of lset, from 1 on; 0 where it has none yet
	instance int32 // number of its instance
	ref      storage.SeriesRef
	column           // without staleness markers
	stale    []int64 // times of staleness markers
	last     int64   // time of the last sample, markers included
}

// refs holds series by the number that the storage gives them. The storage counts, and a scrape
// has numbers that are close to each other: a page is looked for once for many of them.
type refs struct {
	n     int // that are held
	pages map[storage.SeriesRef]*refPage
	last  *refPage // the one that was asked for last
}

type refPage struct {
	first  storage.SeriesRef
	series [256]*recentSeries
	n      int
}

// page returns where a number is held, nil where it is not.
func (b *refs) page(ref storage.SeriesRef) *refPage {
	first := ref &^ 255
	if b.last == nil || b.last.first != first {
		b.last = b.pages[first]
	}
	return b.last
}

func (b *refs) get(ref storage.SeriesRef) *recentSeries {
	if p := b.page(ref); p != nil {
		return p.series[ref&255]
	}
	return nil
}

// set puts a series in the place of another one; nil takes it away.
func (b *refs) set(ref storage.SeriesRef, s *recentSeries) {
	p := b.page(ref)
	switch {
	case p == nil && s == nil:
		return
	case b.pages == nil:
		b.pages = map[storage.SeriesRef]*refPage{}
		fallthrough
	case p == nil:
		p = &refPage{first: ref &^ 255}
		b.pages[p.first], b.last = p, p
	}
	if p.series[ref&255] != nil {
		p.n, b.n = p.n-1, b.n-1
	}
	if s != nil {
		p.n, b.n = p.n+1, b.n+1
	}
	if p.series[ref&255] = s; p.n == 0 {
		delete(b.pages, p.first)
		b.last = nil
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
	longestKept = 70 * 60_000
)

func newRecent(db *tsdb.DB, lookback time.Duration, p *parsed) *recent {
	r := &recent{db: db, parser: p, lookback: lookback.Milliseconds(), newest: math.MinInt64}
	r.pool.New = func() any { return new(batch) }
	r.clear()
	return r
}

func (r *recent) clear() {
	r.families, r.bound, r.samples = nil, refs{}, 0
	r.plans = [2]map[string]*plan{{}, {}}
	r.renumber()
	r.reset()
}

// renumber forgets the instances that there were.
func (r *recent) renumber() {
	r.instances, r.numbers, r.matched, r.picked = nil, map[string]int32{}, map[*labels.Matcher][]bool{}, nil
}

// instance returns the number of the instance that labels name.
func (r *recent) instance(lset labels.Labels) int32 {
	name := lset.Get(model.InstanceLabel)
	n, ok := r.numbers[name]
	if !ok {
		n = int32(len(r.instances))
		r.numbers[name], r.instances = n, append(r.instances, name)
	}
	return n
}

// reset forgets what was derived of the series that there are.
func (r *recent) reset() {
	r.sets, r.choices, r.memo = newLabelSets(), map[string]*choice{}, map[memoKey][]element{}
	for _, f := range r.families {
		for _, s := range f.series {
			s.id = 0
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
		r.memo = map[memoKey][]element{}
	}
	for i := range b.samples {
		a := &b.samples[i]
		r.newest = max(r.newest, a.t)
		if r.families == nil {
			continue
		}
		s := r.bound.get(a.ref)
		if s == nil || s == &s.family.stub && s.family.held {
			s = r.bind(a)
		}
		if s.family.held {
			r.append(s, a.t, a.v)
		}
	}
	for _, name := range b.histograms {
		if f := r.families[name]; f != nil {
			r.drop(f)
			f.refused = true
		}
	}
	if r.newest > r.swept+sweepEvery {
		r.sweep()
	}
}

// bind finds the series of a sample, or makes it.
func (r *recent) bind(a *appended) *recentSeries {
	name := a.lset.Get(labels.MetricName)
	f := r.families[name]
	if f == nil {
		f = r.add(name)
	}
	s := &f.stub
	if f.held {
		s = r.series(f, a.lset)
		s.ref = a.ref
	}
	r.bound.set(a.ref, s)
	return s
}

func (r *recent) add(name string) *family {
	f := &family{name: name}
	f.stub.family = f
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
	s := &recentSeries{family: f, lset: lset, instance: r.instance(lset), next: f.byHash[hash], last: math.MinInt64}
	f.byHash[hash] = s
	f.series = append(f.series, s)
	clear(r.choices)
	return s
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
	if s.full() {
		r.trim(s, t)
	}
	s.push(t, v)
	r.samples++
}

// trim makes room for a sample at a time: where those that are too old are many, in the
// place of them.
func (r *recent) trim(s *recentSeries, t int64) {
	old := s.upTo(t - s.family.keep)
	if old > 0 {
		s.family.from = max(s.family.from, s.t(old-1))
		r.samples -= old
	}
	s.shrink(old)
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
	if n == 0 || s.t(n-1) <= t-lookback {
		return promql.FPoint{}, false
	}
	p := promql.FPoint{T: s.t(n - 1), F: s.f(n - 1)}
	for i := len(s.stale) - 1; i >= 0 && s.stale[i] > p.T; i-- {
		if s.stale[i] <= t {
			return promql.FPoint{}, false
		}
	}
	return p, true
}

// sweep drops what nobody asked for lately, and series that ended.
func (r *recent) sweep() {
	r.swept = r.newest
	r.renumber()
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
			if old == s.len() {
				r.bound.set(s.ref, nil)
				r.samples -= old
				continue
			}
			if 2*old > s.len() {
				r.trim(s, r.newest)
			}
			hash := s.lset.Hash()
			s.next, f.byHash[hash] = f.byHash[hash], s
			s.instance = r.instance(s.lset)
			live = append(live, s)
		}
		clear(f.series[len(live):])
		f.from = max(f.from, r.newest-f.keep)
		f.series = live
	}
	if n := r.db.Head().NumSeries(); uint64(r.bound.n) > 2*n+1000 {
		r.bound = refs{}
	}
	r.plans = [2]map[string]*plan{{}, r.plans[0]}
	clear(r.choices)
	if len(r.sets.sets) > 4*r.bound.n+10_000 {
		r.reset()
	}
}

// drop forgets the samples of a family.
func (r *recent) drop(f *family) {
	for _, s := range f.series {
		r.bound.set(s.ref, nil)
		r.samples -= s.len()
	}
	f.held, f.keep, f.wants, f.series, f.byHash = false, 0, [2]int64{}, nil, nil
	clear(r.choices)
}

// want makes sure that a family's samples after a time are held, for a question that ends
// at another time; false says that they are not.
func (r *recent) want(ctx context.Context, f *family, from, to int64) bool {
	if f.refused {
		return false
	}
	span := r.newest - from
	again := (r.anywhen || to >= r.newest-recently) && span <= longestKept && f.again(span, to)
	if again {
		f.wants[0] = max(f.wants[0], span+span/8+15_000)
		f.keep = max(f.keep, f.wants[0])
	}
	if f.held && f.from <= from {
		return true
	}
	return again && r.hold(ctx, f, from-span/8)
}

// again notes that a question at a moment reaches so far back, and reports whether one did
// at another moment not long ago: what is asked once is not worth holding.
func (f *family) again(span, to int64) (again bool) {
	class := bits.Len64(uint64(max(0, span) >> 13))
	if a := &f.asked[class]; a[0] != to {
		a[0], a[1] = to, a[0]
	}
	for _, a := range f.asked[class:] {
		for _, at := range a {
			again = again || at != 0 && at != to && to-at < sweepEvery
		}
	}
	return again
}

// hold reads what the storage has of a family after a time.
func (r *recent) hold(ctx context.Context, f *family, from int64) bool {
	wants, keep := f.wants, f.keep
	r.drop(f)
	q, err := r.db.Querier(from+1, math.MaxInt64)
	if err != nil {
		return false
	}
	defer q.Close()
	f.wants, f.keep, f.held, f.from, f.byHash = wants, keep, true, from, map[uint64]*recentSeries{}
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
				s.push(t, v)
			}
		}
		s.clip()
		r.samples += s.len()
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

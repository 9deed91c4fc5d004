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

// recent caches the last samples of metrics, decoded, because a monitor sends two hundred queries about the last
// minutes every 15 s. The appenders that recent wraps pass samples on when they commit. The first query for a metric
// reads older samples from the storage. A metric's retention is the longest span that queries asked for in the last
// minutes; a metric without queries is dropped. A recording is diagnosed at any of its moments, so its samples stay.
type recent struct {
	db       *tsdb.DB
	lookback int64 // ms
	anywhen  bool  // cache samples of any time, not only near the newest sample
	pool     sync.Pool

	mu          sync.Mutex
	families    map[string]*family // by name; nil before the first query
	bound       bindings
	sets        *labelSets
	instances   map[string]int32   // by name
	choices     map[string]*choice // by selector; cleared when a series appears
	memo        map[reading][]element
	memoTo      int64  // the latest evaluation time in memo
	idle        int    // transactions since the last query
	selectorKey []byte // scratch

	interval int64                     // of scrapes, in ms, where a server is mirrored
	ups      map[int32][]*recentSeries // the series of up by instance, where a server is mirrored

	elements scratch[element]
	numbers  scratch[int32] // label set numbers
	partials scratch[partial]

	newest      int64 // time of the newest sample
	sampleCount int   // cached samples
	swept       int64 // newest at the last sweep
}

// A family is the cache of one metric.
type family struct {
	metric        string
	held          bool
	refused       bool     // not cacheable: native histograms, or too many samples
	completeFrom  int64    // the cache is complete after this time
	completeUntil int64    // and up to this time, where a server is mirrored
	retention     int64    // retention in ms
	wants         [2]int64 // longest spans of queries, in ms: since the last sweep, and before it
	series        []*recentSeries
	other         *recentSeries // stands for all series while the family is not cached
	byHash        map[uint64]*recentSeries
}

type recentSeries struct {
	family     *family
	next       *recentSeries // next series with the same hash
	lset       labels.Labels
	id         int32 // number of lset, from 1 on; 0 before it has one
	instanceID int32 // number of the instance label
	storageRef storage.SeriesRef
	points     []promql.FPoint // in the order of time, without staleness markers
	stale      []int64         // times of staleness markers
	origin     *origin         // of a mirrored series; nil if it is unknown
	endsFrom   int64           // of a mirrored series: stale is complete after this sample
	endsUntil  int64           // and before this one
	last       int64           // time of the last sample, markers included
}

// bindings map references to series in blocks, because the storage numbers the series of one page
// consecutively.
type bindings map[storage.SeriesRef]*[bindingsTogether]*recentSeries

const bindingsTogether = 512

func (b bindings) seriesFor(ref storage.SeriesRef) *recentSeries {
	if together := b[ref/bindingsTogether]; together != nil {
		return together[ref%bindingsTogether]
	}
	return nil
}

// bindSeries binds a series to a reference; reference 0 means none.
func (b bindings) bindSeries(ref storage.SeriesRef, s *recentSeries) {
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
	// mostRecent bounds the cached samples; beyond it PromQL's engine answers.
	mostRecent = 16_000_000
	// sweepEvery is the interval, in ms, at which metrics without queries are dropped.
	sweepEvery = 5 * 60_000
	// recently is how far before the newest sample, in ms, a query may end and still have its
	// metrics cached.
	recently = 30_000
	// young is how far before the newest sample, in ms, a query may begin to have its metrics cached wherever
	// it ends: while servers are watched for minutes, their baseline grows and is queried again and again.
	young = 20 * 60_000
	// forgetful is the number of transactions without a query after which memo is cleared.
	forgetful = 100
	// longestKept is the longest retention, in ms.
	longestKept = 370 * 60_000
)

func newRecent(db *tsdb.DB, lookback time.Duration) *recent {
	r := &recent{db: db, lookback: lookback.Milliseconds(), newest: math.MinInt64}
	r.pool.New = func() any { return new(batch) }
	r.clearAll()
	return r
}

func (r *recent) clearAll() {
	r.families, r.bound, r.sampleCount = nil, bindings{}, 0
	r.resetDerived()
}

// resetDerived clears everything that is derived from the cached series.
func (r *recent) resetDerived() {
	r.sets, r.instances, r.choices, r.memo = newLabelSets(), map[string]int32{}, map[string]*choice{},
		map[reading][]element{}
	for _, f := range r.families {
		for _, s := range f.series {
			s.id, s.instanceID = 0, r.instanceNumber(s.lset)
		}
	}
}

// A batch holds what one transaction appended.
type batch struct {
	floats     []appended
	histograms []string // names of metrics with native histograms
}

type appended struct {
	storageRef storage.SeriesRef
	lset       labels.Labels
	t          int64
	v          float64
}

// publishBatch caches a committed batch.
func (r *recent) publishBatch(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle++; r.idle == forgetful {
		r.memo = map[reading][]element{}
	}
	for i := range b.floats {
		a := &b.floats[i]
		r.newest = max(r.newest, a.t)
		if r.families == nil {
			continue
		}
		s := r.bound.seriesFor(a.storageRef)
		if s == nil || s == s.family.other && s.family.held {
			s = r.bindSample(a)
		}
		if s.family.held {
			r.appendSample(s, a.t, a.v)
		}
	}
	for _, name := range b.histograms {
		if f := r.families[name]; f != nil {
			r.refuseFamily(f)
		}
	}
	if r.newest > r.swept+sweepEvery {
		r.sweepUnused()
	}
}

// bindSample finds or creates the series of a sample. A family that is not cached has one series for all.
func (r *recent) bindSample(a *appended) *recentSeries {
	name := a.lset.Get(labels.MetricName)
	f := r.families[name]
	if f == nil {
		f = r.addFamily(name)
	}
	s := f.other
	if f.held {
		s = r.findSeries(f, a.lset)
		r.bound.bindSeries(s.storageRef, nil)
		s.storageRef = a.storageRef
	}
	r.bound.bindSeries(a.storageRef, s)
	return s
}

func (r *recent) addFamily(name string) *family {
	f := &family{metric: name}
	f.other = &recentSeries{family: f}
	r.families[name] = f
	clear(r.choices)
	return f
}

// findSeries finds or creates the series of a family with the given labels.
func (r *recent) findSeries(f *family, lset labels.Labels) *recentSeries {
	hash := lset.Hash()
	for s := f.byHash[hash]; s != nil; s = s.next {
		if labels.Equal(s.lset, lset) {
			return s
		}
	}
	s := &recentSeries{
		family: f, lset: lset, instanceID: r.instanceNumber(lset), next: f.byHash[hash], last: math.MinInt64,
	}
	f.byHash[hash] = s
	f.series = append(f.series, s)
	clear(r.choices)
	return s
}

// instanceNumber returns the number of the instance label.
func (r *recent) instanceNumber(lset labels.Labels) int32 {
	name := lset.Get(model.InstanceLabel)
	n, known := r.instances[name]
	if !known {
		n = int32(len(r.instances))
		r.instances[name] = n
	}
	return n
}

func (r *recent) appendSample(s *recentSeries, t int64, v float64) {
	if t <= s.last {
		return // already read from the storage
	}
	if t <= r.memoTo {
		r.memoTo = math.MinInt64
		clear(r.memo)
	}
	s.last = t
	if value.IsStaleNaN(v) {
		s.recordEnd(t)
		return
	}
	if len(s.points) == cap(s.points) {
		r.trimSeries(s, t)
	}
	s.points = append(s.points, promql.FPoint{T: t, F: v})
	r.sampleCount++
}

// trimSeries makes room for a sample at time t by dropping samples beyond the retention.
func (r *recent) trimSeries(s *recentSeries, t int64) {
	old := s.upTo(t - s.family.retention)
	if old > 0 {
		s.family.completeFrom = max(s.family.completeFrom, s.points[old-1].T)
		r.sampleCount -= old
	}
	if left := s.points[old:]; 4*old >= len(s.points) {
		s.points = s.points[:copy(s.points, left)]
	} else {
		s.points = append(make([]promql.FPoint, 0, len(left)+len(left)/8+4), left...)
	}
}

// upTo counts the samples at time t or before. It searches from the end, where most queries look.
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

// samplesBetween returns the samples in (after, until].
func (s *recentSeries) samplesBetween(after, until int64) []promql.FPoint {
	return s.points[s.upTo(after):s.upTo(until)]
}

// recordEnd records a staleness marker.
func (s *recentSeries) recordEnd(t int64) {
	if len(s.stale) > 0 && s.stale[0] < t-s.family.retention-longestKept {
		s.stale = s.stale[:copy(s.stale, s.stale[1:])]
	}
	s.stale = append(s.stale, t)
}

// sampleAt returns the sample that an instant query at time t sees.
func (s *recentSeries) sampleAt(t, lookback int64) (promql.FPoint, bool) {
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

// sweepUnused drops metrics without recent queries, and series without samples in the retention.
func (r *recent) sweepUnused() {
	r.swept, r.bound = r.newest, bindings{}
	held := 0 // cached series
	for _, f := range r.families {
		if !f.held {
			f.refused = false // there may be room now
			continue
		}
		f.wants = [2]int64{0, f.wants[0]}
		if f.wants[1] == 0 {
			r.dropFamily(f)
			continue
		}
		f.retention = f.wants[1]
		live := f.series[:0]
		clear(f.byHash)
		for _, s := range f.series {
			old := s.upTo(r.newest - f.retention)
			if old == len(s.points) {
				f.completeFrom = max(f.completeFrom, r.newest-f.retention)
				r.sampleCount -= old
				s.points = nil
				continue
			}
			if 2*old > len(s.points) {
				r.trimSeries(s, r.newest)
			}
			hash := s.lset.Hash()
			s.next, f.byHash[hash] = f.byHash[hash], s
			live = append(live, s)
			r.bound.bindSeries(s.storageRef, s)
		}
		clear(f.series[len(live):])
		f.series, held = live, held+len(live)
	}
	clear(r.choices)
	if len(r.sets.sets) > 4*held+10_000 {
		r.resetDerived()
	}
}

// dropFamily removes a family from the cache.
func (r *recent) dropFamily(f *family) {
	for _, s := range f.series {
		r.bound.bindSeries(s.storageRef, nil)
		r.sampleCount -= len(s.points)
		s.points = nil
	}
	f.held, f.retention, f.wants, f.series, f.byHash = false, 0, [2]int64{}, nil, nil
	clear(r.choices)
}

// refuseFamily leaves a family to the engine, or to the mirrored server, until the next sweep.
func (r *recent) refuseFamily(f *family) {
	r.dropFamily(f)
	f.refused = true
}

// ensureSamples caches a family's samples after from, for a query that ends at to. It reports false
// if the engine must answer.
func (r *recent) ensureSamples(ctx context.Context, f *family, from, to int64) bool {
	if f.refused {
		return false
	}
	span := r.newest - from
	worth := (r.anywhen || to >= r.newest-recently || span <= young) && span <= longestKept
	if worth {
		f.wants[0] = max(f.wants[0], span+span/8+60_000)
		f.retention = max(f.retention, f.wants[0])
	}
	if f.held && f.completeFrom <= from {
		return true
	}
	return worth && r.readFamily(ctx, f, from-span/8-45_000)
}

// readFamily reads a family's samples after from out of the storage.
func (r *recent) readFamily(ctx context.Context, f *family, from int64) bool {
	if r.db == nil {
		return false
	}
	wants, keep := f.wants, f.retention
	r.dropFamily(f)
	q, err := r.db.Querier(from+1, math.MaxInt64)
	if err != nil {
		return false
	}
	defer q.Close()
	oldest := r.db.Head().MinTime()
	for _, b := range r.db.Blocks() {
		oldest = min(oldest, b.MinTime())
	}
	f.wants, f.retention, f.held, f.completeFrom, f.byHash = wants, keep, true, from, map[uint64]*recentSeries{}
	if from < oldest {
		f.completeFrom = math.MinInt64 // the storage has nothing older
	}
	set := q.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, f.metric))
	var it chunkenc.Iterator
	for set.Next() && !f.refused {
		s := r.findSeries(f, set.At().Labels())
		it = set.At().Iterator(it)
		kind := it.Next()
		for ; kind == chunkenc.ValFloat; kind = it.Next() {
			t, v := it.At()
			s.last = t
			if value.IsStaleNaN(v) {
				s.recordEnd(t)
			} else {
				s.points = append(s.points, promql.FPoint{T: t, F: v})
			}
		}
		s.points = slices.Clip(s.points)
		r.sampleCount += len(s.points)
		f.refused = kind != chunkenc.ValNone || it.Err() != nil || r.sampleCount > mostRecent
	}
	if f.refused || set.Err() != nil {
		r.dropFamily(f)
		return false
	}
	return true
}

// listMetrics lists the metrics at the first query.
func (r *recent) listMetrics(ctx context.Context) bool {
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
		r.addFamily(name)
	}
	return true
}

// wrapAppender returns an appender that publishes what it commits.
func (r *recent) wrapAppender(app storage.AppenderV2) storage.AppenderV2 {
	return &observedV2{AppenderV2: app, observation: observation{r, r.pool.Get().(*batch)}}
}

// Observe wraps a storage that contains this store, such as one that also writes to a remote storage, so that samples
// appended there are cached here.
func (s *Store) Observe(all storage.Storage) storage.Storage { return observedStorage{all, s.recent} }

type observedStorage struct {
	storage.Storage
	recent *recent
}

// Appender implements storage.Appendable.
func (o observedStorage) Appender(ctx context.Context) storage.Appender {
	return &observedV1{
		Appender: o.Storage.Appender(ctx), observation: observation{o.recent, o.recent.pool.Get().(*batch)},
	}
}

// AppenderV2 implements storage.AppendableV2.
func (o observedStorage) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return o.recent.wrapAppender(o.Storage.AppenderV2(ctx))
}

// An observation collects what a transaction appends.
type observation struct {
	recent *recent
	batch  *batch
}

func (o *observation) addSample(ref storage.SeriesRef, l labels.Labels, t int64, v float64) {
	o.batch.floats = append(o.batch.floats, appended{ref, l, t, v})
}

// endTransaction ends the transaction; its samples are published if it was committed.
func (o *observation) endTransaction(err error, committed bool) error {
	if o.batch == nil {
		return err
	}
	switch {
	case err == nil && committed:
		o.recent.publishBatch(o.batch)
	case committed: // some samples may have been stored
		o.recent.mu.Lock()
		o.recent.clearAll()
		o.recent.mu.Unlock()
	}
	clear(o.batch.floats)
	o.batch.floats, o.batch.histograms = o.batch.floats[:0], o.batch.histograms[:0]
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
		o.addSample(ref, l, t, v)
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
func (o *observedV1) Commit() error { return o.endTransaction(o.Appender.Commit(), true) }

// Rollback implements storage.AppenderTransaction.
func (o *observedV1) Rollback() error { return o.endTransaction(o.Appender.Rollback(), false) }

type observedV2 struct {
	storage.AppenderV2
	observation
}

// Append implements storage.AppenderV2.
func (o *observedV2) Append(
	ref storage.SeriesRef, l labels.Labels, st, t int64, v float64,
	h *histogram.Histogram, fh *histogram.FloatHistogram, opts storage.AOptions,
) (storage.SeriesRef, error) {
	ref, err := o.AppenderV2.Append(ref, l, st, t, v, h, fh, opts)
	switch {
	case h != nil || fh != nil:
		o.batch.histograms = append(o.batch.histograms, l.Get(labels.MetricName))
	case err == nil || errors.As(err, new(*storage.AppendPartialError)):
		o.addSample(ref, l, t, v)
	}
	return ref, err
}

// Commit implements storage.AppenderTransaction.
func (o *observedV2) Commit() error { return o.endTransaction(o.AppenderV2.Commit(), true) }

// Rollback implements storage.AppenderTransaction.
func (o *observedV2) Rollback() error { return o.endTransaction(o.AppenderV2.Rollback(), false) }

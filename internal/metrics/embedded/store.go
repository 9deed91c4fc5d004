// Package embedded is a Querier over Prometheus' own storage and query engine inside this process.
//
// A [Store] appends metrics pages as a scraping Prometheus server would: with the labels instance and job, up and the
// scrape_* series, staleness markers for series that vanished, and the timestamps of the scrapes. In one respect it
// goes further: a counter that appears gets a zero at its creation time, so that increase() sees the first increment
// and a single page already covers the whole life of a process.
//
// # Appending a page
//
// Append looks up the state of the target (target), drops a page that is not newer than the last one, and parses it.
// A line that was seen before is found by its text (lineState), without building labels. New lines get the target's
// labels and a use: a sample, a creation time, or dropped. One transaction then writes the page, zeros for new
// counters, and staleness markers for lines that the page before had.
//
// # Answering a query
//
// A monitor sends two hundred queries about the last minutes every 15 s, and decoding chunks for each is most of their
// cost. So recent caches the last samples, decoded: a family for each metric that somebody queries, in it a
// recentSeries for each series, with its points and the times of its staleness markers. The first query of a metric
// reads the past from the storage; after that, committed transactions are published to the cache.
//
// Evaluate works on this cache (eval.go). It finds the series of a selector (chooseSeries, which remembers them until
// a series appears), applies PromQL's own range function to each (readRange, which remembers the results of one
// evaluation time, because signals share selectors), and aggregates and joins by the numbers of label sets instead of
// their text (labelSets). The engine answers every query that the cache cannot: other functions, offsets, older
// samples, native histograms, errors. A test holds both to the same results.
//
// A [Mirror] keeps the same cache of a remote server's samples, which it reads once.
//
// # Bounds
//
// Pages are foreign: their series, labels and values are bounded, and so are the series of a target that changes its
// labels at each scrape (churn). A named storage keeps a reserve on its disk, so that a full disk does not stop it.
//
// The package fetches nothing: packages scrape and recording bring the pages. The command line and the monitor open
// stores; all other packages see a metrics.Querier.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Limits on storage and queries.
const (
	// maxSeries bounds the series in memory: samples of further ones are dropped and counted.
	maxSeries = 2_000_000
	// maxSamples bounds one query, as Prometheus' --query.max-samples.
	maxSamples = 50_000_000
	// Lookback is how old an instant sample may be, as Prometheus' --query.lookback-delta.
	Lookback = 5 * time.Minute
	// DefaultTimeout and DefaultRetention apply if Config sets none.
	DefaultTimeout   = 30 * time.Second
	DefaultRetention = 15 * 24 * time.Hour
)

// Config configures a Store. The zero value is usable.
type Config struct {
	// Dir holds the storage. Empty means a temporary one, without a write-ahead log, for samples of any age in the
	// order of time per target; Close removes it. A named one outlives the process. As in Prometheus, its samples may
	// be about an hour older than its newest one, and no older. If its disk has no room for its logs, a temporary
	// storage replaces it: see Full.
	Dir string

	// Retention is how long a named storage keeps samples, DefaultRetention when 0, and
	// RetentionBytes how much, without a bound when 0.
	Retention      time.Duration
	RetentionBytes int64

	// Timeout bounds one query, DefaultTimeout when 0.
	Timeout time.Duration

	// Logger and Registerer get the logs and metrics of a named storage. Both may be nil.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Store is the storage and its query engine. It is safe for concurrent use; pages of one target are appended one after
// the other.
type Store struct {
	db        *tsdb.DB
	engine    *promql.Engine
	recent    *recent
	churn     *churn
	temporary string // directory to remove
	full      error  // why a named storage is a temporary one
	maxSeries uint64

	mu      sync.Mutex
	targets map[string]*target

	tooMany atomic.Int64 // samples dropped because of maxSeries
}

var _ metrics.Querier = (*Store)(nil)

// Open opens a store.
func Open(cfg Config) (*Store, error) {
	s := &Store{targets: make(map[string]*target), maxSeries: maxSeries}
	named := cfg.Dir != ""
	if named {
		if err := errors.Join(restoreSegments(cfg.Dir), setAsideDamaged(cfg.Dir, cfg.Logger)); err != nil {
			return nil, fmt.Errorf("open store: set damaged blocks aside: %w", err)
		}
		if s.full = checkRoom(cfg.Dir); s.full != nil {
			cfg.Dir = ""
		} else if err := keepReserve(cfg.Dir); err != nil {
			return nil, fmt.Errorf("open store: reserve: %w", err)
		}
	}
	dir := cfg.Dir
	if dir == "" {
		where := "" // the usual directory of temporary files
		if s.full != nil {
			where = roomiestDir() // the usual one may be on the full disk
		}
		tmp, err := os.MkdirTemp(where, "sixty-store-")
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		dir, s.temporary = tmp, tmp
	}
	options := storageOptions(cfg)
	s.churn = &churn{max: MaxTargetSeries, series: map[scrapedTarget]int{}}
	if named { // a temporary storage has few targets, and Append bounds their series
		options.SeriesLifecycleCallback = s.churn
	}
	db, err := tsdb.Open(dir, cfg.Logger, cfg.Registerer, options, nil)
	if err != nil {
		return nil, errors.Join(explainOpen(dir, err), s.removeTemporary())
	}
	s.churn.startRefusing()
	if s.temporary != "" {
		db.DisableCompactions()
	}
	s.db, s.recent = db, newRecent(db, Lookback)
	s.recent.anywhen = s.temporary != "" // a recording is read from its beginning to its end
	s.engine = promql.NewEngine(promql.EngineOpts{
		Logger:               cfg.Logger,
		Reg:                  cfg.Registerer,
		MaxSamples:           maxSamples,
		Timeout:              cmp.Or(cfg.Timeout, DefaultTimeout),
		LookbackDelta:        Lookback,
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
		// The default of Prometheus' global.evaluation_interval.
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		Parser:                   promQL,
	})
	return s, nil
}

// storageOptions of a temporary storage keep everything in one head block. The storage refuses
// samples that are half a block range behind the newest one, so the range covers all times up to 2262.
func storageOptions(cfg Config) *tsdb.Options {
	o := tsdb.DefaultOptions()
	o.RetentionDuration = cmp.Or(cfg.Retention, DefaultRetention).Milliseconds()
	o.MaxBytes = cfg.RetentionBytes
	if cfg.Dir != "" {
		return o
	}
	// A thousandth of Prometheus' hash map: tens of thousands of series, not tens
	// of millions, and it must open in a millisecond.
	o.StripeSize = 512
	const year = int64(365 * 24 * time.Hour / time.Millisecond)
	o.WALSegmentSize = -1
	o.MinBlockDuration = 1000 * year
	o.MaxBlockDuration = 1000 * year
	o.RetentionDuration = 0
	o.NoLockfile = true
	o.HeadChunksWriteQueueSize = 0
	// Most queries are about the last few scrapes, and a chunk is read from its
	// beginning.
	o.SamplesPerChunk = 30
	return o
}

// explainOpen says why a directory cannot be opened, with the way out.
func explainOpen(dir string, err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EAGAIN) {
		return hint.With(fmt.Errorf("open store: %s is in use by another process", dir),
			"stop it, or use another directory")
	}
	return fmt.Errorf("open store: %w", err)
}

// DB and Engine expose the storage and the query engine to Prometheus' own code: the scraper, the rule
// manager and the HTTP API.
func (s *Store) DB() *tsdb.DB { return s.db }

// Engine returns the query engine; see DB.
func (s *Store) Engine() *promql.Engine { return s.engine }

// Full returns the reason why a named storage was replaced by a temporary one, or nil.
func (s *Store) Full() error { return s.full }

func (s *Store) removeTemporary() error {
	if s.temporary == "" {
		return nil
	}
	return os.RemoveAll(s.temporary)
}

// Close ends all queries and closes the storage.
func (s *Store) Close() error {
	err := errors.Join(s.engine.Close(), s.db.Close(), s.removeTemporary())
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// targetState returns the state of a target, and creates it at the first page.
func (s *Store) targetState(t Target) *target {
	key := t.textKey()
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.targets[key]
	if !ok {
		st = newTarget(t)
		s.targets[key] = st
	}
	return st
}

// Targets returns the targets that pages were appended for, sorted by instance.
func (s *Store) Targets() []Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Target
	for _, key := range slices.Sorted(maps.Keys(s.targets)) {
		list = append(list, s.targets[key].Target)
	}
	return list
}

// Times returns the times of the first and the last page over all targets,
// failed ones included; ok is false when there was none.
func (s *Store) Times() (first, last time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.targets {
		t.mu.Lock()
		if t.hasPage {
			if f := time.UnixMilli(t.firstTime); !ok || f.Before(first) {
				first = f
			}
			if l := time.UnixMilli(t.lastTime); !ok || l.After(last) {
				last = l
			}
			ok = true
		}
		t.mu.Unlock()
	}
	return first, last, ok
}

// FirstCreated returns the time at which the counters of a target's first page began: the earliest
// creation time of a counter, or else process_start_time_seconds. Servers with several API server
// processes or data-parallel ranks expose neither, and ok is false.
func (s *Store) FirstCreated(target Target) (time.Time, bool) {
	t := s.targetState(target)
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.UnixMilli(t.created), t.created > 0
}

// Warnings returns one sentence for each kind of dropped data, with the reason.
func (s *Store) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, key := range slices.Sorted(maps.Keys(s.targets)) {
		list = append(list, s.targets[key].listWarnings()...)
	}
	if n := s.tooMany.Load(); n > 0 {
		list = append(list, fmt.Sprintf("Dropped %d samples: more than %d series", n, s.maxSeries))
	}
	return list
}

// untrimmed reads whole chunks. The engine skips samples outside of a query's range itself, and trimming them first
// would take a fifth of a query's time.
type untrimmed struct{ storage.Queryable }

// Querier implements storage.Queryable.
func (u untrimmed) Querier(from, to int64) (storage.Querier, error) {
	q, err := u.Queryable.Querier(from, to)
	return untrimmedQuerier{q}, err
}

type untrimmedQuerier struct{ storage.Querier }

// Select implements storage.Querier.
func (u untrimmedQuerier) Select(
	ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher,
) storage.SeriesSet {
	if hints != nil {
		h := *hints
		h.DisableTrimming = true
		hints = &h
	}
	return u.Querier.Select(ctx, sorted, hints, ms...)
}

var promQL = parser.NewParser(parser.Options{})

// Query implements metrics.Querier.
func (s *Store) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	q, err := s.engine.NewInstantQuery(ctx, untrimmed{s.db}, nil, expr, at)
	return runQuery(ctx, expr, q, err, copyVector)
}

// QueryRange implements metrics.Querier.
func (s *Store) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	if r.Step < time.Millisecond {
		return nil, fmt.Errorf("query %q: step %s is below a millisecond", expr, r.Step)
	}
	if ms, err := promQL.ParseMetricSelector(expr); err == nil {
		if m, err := s.recent.selectStreams(ctx, ms, r.End.UnixMilli()-r.Start.UnixMilli(), r.End.UnixMilli(),
			r.Step.Milliseconds()); err == nil {
			return m, nil
		}
	}
	q, err := s.engine.NewRangeQuery(ctx, untrimmed{s.db}, nil, expr, r.Start, r.End, r.Step)
	return runQuery(ctx, expr, q, err, copyMatrix)
}

// Samples implements metrics.Querier.
func (s *Store) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	// A selector without a metric name reads whole pages, for an incident's evidence. It says nothing about which
	// metrics will be queried again.
	if ms, err := promQL.ParseMetricSelector(selector); err == nil &&
		slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == labels.MetricName }) {
		if m, err := s.recent.selectStreams(ctx, ms, span.Milliseconds(), at.UnixMilli(), 0); err == nil {
			return m, nil
		}
	}
	expr := metrics.RangeSelector(selector, span)
	q, err := s.engine.NewInstantQuery(ctx, untrimmed{s.db}, nil, expr, at)
	return runQuery(ctx, expr, q, err, copyMatrix)
}

// runQuery executes a query and copies its result. It returns err if the query could not be created.
func runQuery[T any](
	ctx context.Context, expr string, q promql.Query, err error, read func(parser.Value) (T, error),
) (T, error) {
	var none T
	if err != nil {
		return none, fmt.Errorf("query %q: %w", expr, err)
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return none, explainQueryError(ctx, expr, res.Err)
	}
	v, err := read(res.Value)
	if err != nil {
		return none, fmt.Errorf("query %q: %w", expr, err)
	}
	return v, nil
}

// explainQueryError wraps the error of a query that was parsed but not answered.
func explainQueryError(ctx context.Context, expr string, err error) error {
	var samples promql.ErrTooManySamples
	var timeout promql.ErrQueryTimeout
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, &samples), errors.As(err, &timeout):
		return hint.With(fmt.Errorf("query %q: %w", expr, err), "ask for a shorter window or fewer targets")
	}
	return fmt.Errorf("query %q: %w", expr, err)
}

package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// Bounds of one series. Prometheus leaves them to the user, as label limits. A page from a stranger needs some.
const (
	maxLabels     = 128
	maxLabelBytes = 64 << 10 // names and values of one series together
)

// MaxPageSeries bounds the series of one page. Several models on several engines
// with all of vLLM's histograms make five to ten thousand.
const MaxPageSeries = 50_000

// ErrTooManySeries is wrapped by the error for a page that has more than
// MaxPageSeries.
var ErrTooManySeries = errors.New("too many series")

// IsPageFault reports whether an error of Append is about the page, which then counts as a failed scrape, and not about
// the storage.
func IsPageFault(err error) bool {
	return errors.Is(err, scrape.ErrNotExposition) || errors.Is(err, ErrTooManySeries)
}

// Target identifies a scraped server by the labels that all its series get.
type Target struct {
	Instance string            // host:port, or a recording's name for it
	Job      string            // empty: no label
	Labels   map[string]string // further labels, such as namespace and pod
}

func (t Target) textKey() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q", t.Instance, t.Job)
	for _, name := range slices.Sorted(maps.Keys(t.Labels)) {
		fmt.Fprintf(&b, " %q=%q", name, t.Labels[name])
	}
	return b.String()
}

// attachedLabels returns the labels to attach to every series, sorted by name.
func (t Target) attachedLabels() []labels.Label {
	m := make(map[string]string, len(t.Labels)+2)
	maps.Copy(m, t.Labels)
	m[model.InstanceLabel], m[model.JobLabel] = t.Instance, t.Job
	var list []labels.Label
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != "" && name != model.MetricNameLabel {
			list = append(list, labels.Label{Name: name, Value: m[name]})
		}
	}
	return list
}

// target is the state between the scrapes of one target, as a Prometheus scrape
// loop has it.
type target struct {
	Target
	attach []labels.Label

	mu      sync.Mutex
	cache   map[string]*lineState // by the text of the line
	live    []*lineState          // on the last page
	page    []*lineState          // scratch
	scrape  uint64                // number of the page at hand
	own     [len(ownNames)]*lineState
	builder *labels.Builder

	hasPage             bool
	firstTime, lastTime int64 // times of the first and the last page, failed or not
	good                bool  // there was a page that could be read
	lastGood            int64 // its time
	created             int64 // see FirstCreated; 0 when unknown

	late, invalid, refused, duplicates, partial int

	impossible      int    // samples with impossible values
	firstImpossible string // metric of the first such sample
}

// ownNames are the metrics that describe the scrape itself; duration is the index of
// scrape_duration_seconds.
var ownNames = [...]string{"up", "scrape_duration_seconds", "scrape_samples_scraped"}

const duration = 1

// lineState is the state of one line of a page.
type lineState struct {
	lset       labels.Labels
	storageRef storage.SeriesRef
	use        use
	scrape     uint64 // number on the last page that had it
	value      float64

	unmeasured bool // a page had it with an impossible value
}

// use says how a series is stored.
type use uint8

const (
	fresh   use = iota // not decided yet
	stored             // a sample
	created            // a sample too: the time when a counter began, on the server's clock
	dropped            // invalid
)

func newTarget(t Target) *target {
	t.Labels = maps.Clone(t.Labels)
	st := &target{
		Target: t, attach: t.attachedLabels(), cache: make(map[string]*lineState),
		builder: labels.NewBuilder(labels.EmptyLabels()),
	}
	for i, name := range ownNames {
		st.own[i] = &lineState{lset: st.attachLabels(labels.FromStrings(labels.MetricName, name)), use: stored}
	}
	return st
}

// attachLabels attaches the target's labels. Exposed labels with the same names become exported_NAME, as
// with Prometheus' honor_labels: false.
func (t *target) attachLabels(exposed labels.Labels) labels.Labels {
	t.builder.Reset(exposed)
	for _, l := range t.attach {
		if was := exposed.Get(l.Name); was != "" {
			renamed := model.ExportedLabelPrefix + l.Name
			for t.builder.Get(renamed) != "" {
				renamed = model.ExportedLabelPrefix + renamed
			}
			t.builder.Set(renamed, was)
		}
	}
	for _, l := range t.attach {
		t.builder.Set(l.Name, l.Value)
	}
	return t.builder.Labels()
}

// Append stores a page of a target, requested at the given time and received after took. If took is 0
// the duration is unknown, and scrape_duration_seconds is not stored. Timestamps in the page are ignored.
// Impossible values are dropped: NaN, infinities, absurdly large numbers, and negative values of counters.
// A page that cannot be parsed, or has more series than MaxPageSeries, is stored as a failed scrape and
// returned as an error (IsPageFault). A page that is not newer than the target's last page is dropped
// without an error; Warnings counts it.
func (s *Store) Append(
	target Target, at time.Time, body []byte, contentType string, took time.Duration,
) (scrape.Info, error) {
	ms, err := unixMilli(at)
	if err != nil {
		return scrape.Info{}, fmt.Errorf("append %s: %w", target.Instance, err)
	}
	t := s.targetState(target)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.acceptTime(ms) {
		return scrape.Info{}, nil
	}
	info, err := t.parsePage(body, contentType)
	if err != nil {
		return info, errors.Join(fmt.Errorf("append %s: %w", t.Instance, err), s.writeFailure(t, ms, took))
	}
	if info.Refused != nil {
		t.partial++
	}
	t.decideUses(info)
	if err := s.writePage(t, ms, took, info); err != nil {
		return info, fmt.Errorf("append %s: %w", t.Instance, err)
	}
	t.good, t.lastGood = true, ms
	t.live, t.page = t.page, t.live[:0]
	t.dropGoneSeries()
	return info, nil
}

// AppendFailure records that a scrape of the target failed: up is 0, and its
// series are stale.
func (s *Store) AppendFailure(target Target, at time.Time) error {
	return s.AppendFailureAfter(target, at, 0)
}

// AppendFailureAfter is AppendFailure with the duration of the failed scrape; 0 means unknown.
func (s *Store) AppendFailureAfter(target Target, at time.Time, took time.Duration) error {
	ms, err := unixMilli(at)
	if err != nil {
		return fmt.Errorf("append failure of %s: %w", target.Instance, err)
	}
	t := s.targetState(target)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.acceptTime(ms) {
		return nil
	}
	if err := s.writeFailure(t, ms, took); err != nil {
		return fmt.Errorf("append failure of %s: %w", t.Instance, err)
	}
	return nil
}

// unixMilli converts a time to the storage's milliseconds. The query engine's 64-bit nanoseconds end
// in 2262.
func unixMilli(at time.Time) (int64, error) {
	const end = math.MaxInt64 / int64(time.Millisecond)
	if ms := at.UnixMilli(); ms >= 0 && ms < end {
		return ms, nil
	}
	return 0, fmt.Errorf("time %s is not between 1970 and 2262", at.UTC().Format(time.RFC3339))
}

// acceptTime accepts or drops a page by its time. The storage takes samples in order only, so after the
// clock stepped backwards, pages are dropped until it has caught up.
func (t *target) acceptTime(ms int64) bool {
	if t.hasPage && ms <= t.lastTime {
		t.late++
		return false
	}
	if !t.hasPage {
		t.hasPage, t.firstTime = true, ms
	}
	t.lastTime = ms
	t.scrape++
	return true
}

// parsePage parses a page into t.page, which holds each series once, with its last value.
func (t *target) parsePage(body []byte, contentType string) (scrape.Info, error) {
	t.page = t.page[:0]
	duplicates := 0
	excess := map[string]int{} // series beyond the bound, by metric
	info, err := scrape.ParseSeries(body, contentType, func(line *scrape.Sample) {
		if len(t.page) >= MaxPageSeries {
			excess[metricName(line.Series)]++
			return
		}
		c, ok := t.cache[string(line.Series)]
		if !ok {
			c = t.addSeries(line)
		}
		c.value = line.Value
		if c.scrape == t.scrape {
			duplicates++
			return
		}
		c.scrape = t.scrape
		t.page = append(t.page, c)
	})
	info.Duplicates = duplicates
	t.duplicates += duplicates
	if err == nil && len(excess) > 0 {
		err = t.tooMany(excess)
	}
	return info, err
}

// metricName returns the metric name at the beginning of a line.
func metricName(line []byte) string {
	name, _, _ := bytes.Cut(line, []byte("{"))
	return string(bytes.TrimSpace(name))
}

// tooMany returns the error for a page with too many series, which names the metric with the most
// series, and removes those series from the cache.
func (t *target) tooMany(byMetric map[string]int) error {
	n := len(t.page)
	for _, more := range byMetric {
		n += more
	}
	for _, c := range t.page {
		if c.use != dropped {
			byMetric[c.lset.Get(labels.MetricName)]++
		}
	}
	worst := ""
	for _, name := range slices.Sorted(maps.Keys(byMetric)) {
		if byMetric[name] > byMetric[worst] {
			worst = name
		}
	}
	t.page = t.page[:0]
	maps.DeleteFunc(t.cache, func(_ string, c *lineState) bool { return c.storageRef == 0 })
	return hint.With(fmt.Errorf("%w: %d on one page, at most %d are read; %s alone has %d", ErrTooManySeries, n,
		MaxPageSeries, worst, byMetric[worst]),
		"drop the label that has a value for each user or request, at the server or with metric_relabel_configs, or "+
			"diagnose a Prometheus server with --match")
}

func (t *target) addSeries(line *scrape.Sample) *lineState {
	c := new(lineState)
	exposed := line.Labels()
	if hasValidLabels(exposed) {
		c.lset = t.attachLabels(exposed)
	} else {
		c.use = dropped
		t.invalid++
	}
	t.cache[string(line.Series)] = c
	return c
}

func hasValidLabels(l labels.Labels) bool {
	if _, twice := l.HasDuplicateLabelNames(); twice {
		return false
	}
	size := 0
	l.Range(func(l labels.Label) { size += len(l.Name) + len(l.Value) })
	return l.Len() <= maxLabels && size <= maxLabelBytes && l.Has(labels.MetricName) && l.IsValid(model.UTF8Validation)
}

// decideUses sets the use of new series. It needs the types of the whole page.
func (t *target) decideUses(info scrape.Info) {
	possible := t.page[:0]
	for _, c := range t.page {
		if c.use == fresh {
			c.use = stored
			if isCreation(c.lset.Get(labels.MetricName), info) {
				c.use = created
			}
		}
		if c.use == dropped || t.checkValue(c, info) {
			possible = append(possible, c)
		} else {
			c.scrape, c.unmeasured = 0, true // as if the page did not have it
		}
	}
	t.page = possible
}

// checkValue reports whether a sample's value is possible, and counts impossible ones. The NaN of a
// summary's quantile is possible: it means that nothing was observed.
func (t *target) checkValue(c *lineState, info scrape.Info) bool {
	if math.Abs(c.value) <= metrics.MaxMagnitude && !(c.value < 0 && countsEvents(c.lset, info)) {
		return true
	}
	if math.IsNaN(c.value) && c.lset.Has(model.QuantileLabel) {
		return true
	}
	if t.impossible++; t.firstImpossible == "" {
		t.firstImpossible = c.lset.Get(labels.MetricName)
	}
	return false
}

// isCreation reports whether a metric is the X_created of a counter, histogram or summary X. Python's
// client exposes it as a gauge family in the text format; in OpenMetrics it is part of family X.
func isCreation(name string, info scrape.Info) bool {
	base, ok := strings.CutSuffix(name, "_created")
	if !ok {
		return false
	}
	for _, family := range [...]string{base, base + "_total"} {
		switch info.Types[family] {
		case model.MetricTypeCounter, model.MetricTypeHistogram, model.MetricTypeSummary:
			return true
		}
	}
	return false
}

// isCumulative reports whether a series only grows: a counter, or a bucket, sum or count of a histogram
// or summary.
func isCumulative(l labels.Labels, info scrape.Info) bool {
	name := l.Get(labels.MetricName)
	switch info.TypeOf(name) {
	case model.MetricTypeCounter, model.MetricTypeHistogram:
		return true
	case model.MetricTypeSummary:
		return !l.Has(model.QuantileLabel)
	}
	return false
}

// countsEvents reports whether a series counts events: it is cumulative and no sum, which negative
// observations decrease.
func countsEvents(l labels.Labels, info scrape.Info) bool {
	return isCumulative(l, info) && !strings.HasSuffix(l.Get(labels.MetricName), "_sum")
}

// writePage appends the page to the storage.
func (s *Store) writePage(t *target, ms int64, took time.Duration, info scrape.Info) error {
	a := appending{app: s.recent.wrapAppender(s.db.AppenderV2(context.Background())), store: s, state: t}
	zeros := t.readCreationTimes(info, ms)
	if err := a.appendScrapeSeries(ms, 1, took, info.Samples); err != nil {
		return a.rollBack(err)
	}
	for _, c := range t.page {
		if c.use == dropped {
			continue
		}
		if c.storageRef == 0 {
			if at, ok := zeros.zeroTime(c); ok {
				a.appendZero(c, at)
			}
		}
		if err := a.appendSample(c, ms, c.value); err != nil {
			return a.rollBack(err)
		}
	}
	for _, c := range t.live {
		if c.scrape != t.scrape && c.use != dropped {
			if err := a.appendSample(c, ms, staleNaN); err != nil {
				return a.rollBack(err)
			}
		}
	}
	return a.app.Commit()
}

// writeFailure appends a failed scrape.
func (s *Store) writeFailure(t *target, ms int64, took time.Duration) error {
	a := appending{app: s.recent.wrapAppender(s.db.AppenderV2(context.Background())), store: s, state: t}
	if err := a.appendScrapeSeries(ms, 0, took, 0); err != nil {
		return a.rollBack(err)
	}
	for _, c := range t.live {
		if c.use != dropped {
			if err := a.appendSample(c, ms, staleNaN); err != nil {
				return a.rollBack(err)
			}
		}
	}
	t.live = t.live[:0]
	return a.app.Commit()
}

var staleNaN = math.Float64frombits(value.StaleNaN)

// An appending is one transaction.
type appending struct {
	app   storage.AppenderV2
	store *Store
	state *target
}

func (a *appending) rollBack(err error) error { return errors.Join(err, a.app.Rollback()) }

// appendScrapeSeries appends the series that describe the scrape. They come first, so that they win
// over exposed series with the same labels.
func (a *appending) appendScrapeSeries(ms int64, up float64, took time.Duration, samples int) error {
	for i, v := range [...]float64{up, took.Seconds(), float64(samples)} {
		if i == duration && took == 0 {
			continue
		}
		if err := a.appendSample(a.state.own[i], ms, v); err != nil {
			return err
		}
	}
	return nil
}

// appendSample appends one sample. Samples that the storage refuses because of their order are counted;
// other errors end the transaction.
func (a *appending) appendSample(c *lineState, ms int64, v float64) error {
	if c.storageRef == 0 && a.store.db.Head().NumSeries() >= a.store.maxSeries {
		a.store.tooMany.Add(1)
		return nil
	}
	ref, err := a.app.Append(c.storageRef, c.lset, 0, ms, v, nil, nil, storage.AOptions{})
	switch {
	case err == nil:
		c.storageRef = ref
		return nil
	case errors.Is(err, storage.ErrOutOfOrderSample), errors.Is(err, storage.ErrOutOfBounds),
		errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
		a.state.refused++
		return nil
	}
	return err
}

// appendZero appends a zero before a series' first sample if its time is known.
func (a *appending) appendZero(c *lineState, ms int64) {
	if a.store.db.Head().NumSeries() >= a.store.maxSeries {
		return
	}
	if ref, err := a.app.Append(0, c.lset, 0, ms, 0, nil, nil, storage.AOptions{}); err == nil {
		c.storageRef = ref
	}
}

// dropGoneSeries removes series that disappeared long ago from the cache, because the labels of some
// targets change with every page.
func (t *target) dropGoneSeries() {
	if len(t.cache) <= 2*len(t.live)+1000 {
		return
	}
	for line, c := range t.cache {
		if c.scrape != t.scrape {
			delete(t.cache, line)
		}
	}
}

// listWarnings says which data of the target was dropped. It locks the target.
func (t *target) listWarnings() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	add := func(n int, format string) {
		if n > 0 {
			list = append(list, t.Instance+": "+fmt.Sprintf(format, n))
		}
	}
	add(t.late, "Dropped %d pages that were not newer than the previous one: the clock stepped back")
	add(t.partial, "%d pages had malformed lines; valid samples were kept")
	add(t.duplicates, "%d samples were duplicates within one page; the last was kept")
	add(t.invalid, "Dropped %d series with invalid or too large labels")
	add(t.impossible, "Ignored %d invalid values (NaN, infinite, too large, or a negative count), first in "+
		t.firstImpossible)
	add(t.refused, "Dropped %d samples older than their series")
	return list
}

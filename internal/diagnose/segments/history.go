// Package segments finds, for each target, when something changed, which time is normal, and since when a signal is
// beyond its threshold.
//
// # The idea
//
// A fault is judged undiluted, and against a time without it. So a target's past is divided where something changed,
// and not by the clock: an hour's average hides a minute's fault, and the last five minutes hold the fault and the time
// before. Changes are found in counts, because a counter's increase over an interval says by itself how much chance is
// in it: four late requests of five say less than forty of fifty.
//
// # What it holds
//
// A [History] holds the scrapes of one target: a column for each counter and gauge, and for each bucket of its
// histograms, with a value for each scrape. An interval is the time between two pages; a run is intervals that follow
// each other. A [Timeline] divides a history into [Segment]s in which nothing changed. A [Span] is the window that is
// judged and the baseline that says what is normal. [Steadiness] is how much the target varies by itself. A [Course] is
// the part of a history that onsets are read from.
//
// # The order
//
//   - [ReadHistories] reads the scrapes (history.go): the last ones one by one, older ones at a coarser pace. It
//     continues the histories of the previous diagnosis.
//   - A timeline is divided at outages, at restarts, and where package changepoint finds that counts changed
//     (timeline.go).
//   - [Choice.ChooseSpans] chooses (spans.go). The last segment is the window, together with the earlier ones of the
//     same incident. The latest segment before that was no worse than others is the baseline (service.go says what
//     worse is). Targets whose windows differ by the phase of their scrapes share a window, and so their queries.
//     Targets that departed are dropped (departed.go).
//   - [Course.Onset] is called afterwards, and says since when a signal is beyond a limit (onset.go): it compares the
//     counts of the stretch up to now with the baseline's, by their likelihood.
//
// It judges nothing: which signals are beyond which limits is package diagnose's to say.
package segments

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/changepoint"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A column is one quantity of a history, with a value for each scrape.
type column int

// The columns: when pages came, the traffic, the work, the cache and the queue. After them come the sum and the count
// of each family.
const (
	up column = iota
	scrapeTook
	started
	created
	running
	waiting // columns up to here show whether a scrape brought a page
	steps
	tokensOut
	evictions
	lookups
	hits
	completions
	erred
	accepted
	notFetched
	notArrived
	transfers
	corrupted
	aborted
	openFiles
	answers2xx
	answers4xx
	answers5xx
	allColumns = answers5xx + 1 + 2*column(families)
)

// A family is a histogram of a history: a latency, or a length.
type family int

// The families.
const (
	firstTokens family = iota
	tokenGaps
	queueTimes // without buckets
	promptLengths
	answerLengths
	families
)

func (f family) sum() column   { return answers5xx + 1 + 2*column(f) }
func (f family) count() column { return f.sum() + 1 }

// Canonical names of the metrics in a history.
var (
	columnNames = [answers2xx]string{
		up: "up", scrapeTook: "scrape_duration_seconds", started: "process_start_time_seconds",
		created: "vllm:generation_tokens_created",
		running: "vllm:num_requests_running", waiting: "vllm:num_requests_waiting",
		steps: "vllm:iteration_tokens_total_count", tokensOut: "vllm:generation_tokens_total",
		evictions: "vllm:num_preemptions_total",
		lookups:   "vllm:prefix_cache_queries_total", hits: "vllm:prefix_cache_hits_total",
		completions: "vllm:request_success_total",
		erred:       "vllm:request_success_total",
		accepted:    "vllm:spec_decode_num_accepted_tokens_total", notFetched: "vllm:nixl_num_kv_expired_reqs_total",
		notArrived: "vllm:nixl_num_failed_transfers_total", transfers: "vllm:nixl_xfer_time_seconds_count",
		corrupted: "vllm:corrupted_requests_total",
		aborted:   "vllm:num_aborted_requests_total", // SGLang's; vLLM counts none of those whose clients leave
		openFiles: "process_open_fds",
	}
	familyNames = [families]string{
		firstTokens: "vllm:time_to_first_token_seconds", tokenGaps: "vllm:inter_token_latency_seconds",
		queueTimes:    "vllm:request_queue_time_seconds",
		promptLengths: "vllm:request_prompt_tokens", answerLengths: "vllm:request_generation_tokens",
	}
)

// A place says where the samples of a metric, by its canonical name, go: into a column, into the buckets of a family,
// or into the column of a class of answers.
type place struct {
	name string
	column
	family
	buckets, answers bool
	where            []*labels.Matcher // matchers of the samples; empty for all
}

var places = func() (out []place) {
	for c, n := range columnNames {
		p := place{name: n, column: column(c)}
		if p.column == erred {
			p.where = []*labels.Matcher{indicator.Is("finished_reason", "error")}
		}
		out = append(out, p)
	}
	for f, n := range familyNames {
		f := family(f)
		if f <= queueTimes {
			out = append(out, place{name: n + "_sum", column: f.sum()}, place{name: n + "_count", column: f.count()})
		}
		if f != queueTimes {
			out = append(out, place{name: n + "_bucket", family: f, buckets: true})
		}
	}
	return append(out, place{answers: true})
}()

// seriesOf returns the series that go to a place, in a dialect's names.
func (p *place) seriesOf(d *dialect.Dialect) indicator.Series {
	if p.answers {
		return indicator.Series{Metric: d.HTTPAnswers().Metric}
	}
	return d.Series(p.name)
}

// marksScrapes reports whether the samples tell when a target was scraped, with or without success.
func (p *place) marksScrapes() bool { return !p.answers && !p.buckets && p.column <= waiting }

// A History holds the scrapes of one target, oldest first.
type History struct {
	at []time.Time // the time of every scrape, failed ones included
	ok []bool      // the scrape brought a page
	// columns hold counters as they were exposed, and gauges. A column that no page had is nil; a value that a page
	// lacked is NaN.
	columns [allColumns][]float64
	buckets [families][]bound // ascending
	older   int               // how many scrapes, the first ones, were read at the coarser pace

	extent
	rows []row     // by scrape, nil until they are computed
	room []float64 // memory for further columns
}

// A bound is a bucket of a histogram, with its cumulative count on each page.
type bound struct {
	le   float64
	upTo []float64
}

// A row caches the observations of the interval that ends with a scrape.
type row struct {
	from time.Time
	*changepoint.Row
}

// An extent says which scrapes a history has.
type extent struct {
	selector    string        // by which they were queried
	grid        metrics.Range // the moments at a coarser pace
	from, until time.Time     // the others lie after from and up to until
}

// settledUntil returns the time up to which all scrapes have arrived.
func (e *extent) settledUntil() time.Time { return e.until.Add(-metrics.Arrival) }

// How many scrapes of a target are read one by one, which depends on the number of targets, and how long that time is
// at least; and how many points the rest of the past has.
const (
	finePoints   = 60
	fewestPoints = 20
	pointBudget  = 3000 // over all targets
	coarsePoints = 30
	fewestFine   = 5 * time.Minute
)

// A lookup reads the histories of a group.
type lookup struct {
	*identity.Group
	extent
	coarseSelector string           // for the time before from; "" without such a query
	known          map[int]*History // by member, from the previous diagnosis; nil if all is read anew
	knownExtent    extent           // the extent of known
	continuesGrid  bool             // the known grid is the beginning of this one

	parts [2]struct { // the samples read: at a coarser pace, and one by one
		series model.Matrix
		at     map[int][]model.Time // when each member was scraped
	}
}

// Histories holds the histories of a diagnosis, by target. The next diagnosis extends them, and they must not be used
// afterwards.
type Histories map[string]*History

// RememberHistories returns the histories of targets for the next diagnosis.
func RememberHistories(s *identity.Scope, hs []*History) Histories {
	out := make(Histories, len(hs))
	for i, h := range hs {
		key := targetKey(s, i)
		if out[key] != nil {
			h = &History{} // two targets have this key, so nothing is known of either
		}
		out[key] = h
	}
	return out
}

// ReadHistories reads the scrapes of every target in a period: the last ones one by one, older ones at a coarser pace.
// Known histories are only extended. returned means that a target is scraped again after a pause, so that what was
// known of its past may be incomplete.
func ReadHistories(ctx context.Context, q metrics.Querier, s *identity.Scope, past period.Period,
	interval time.Duration, known Histories) (hs []*History, returned bool, err error) {
	points := max(fewestPoints, min(finePoints, pointBudget/max(1, len(s.Targets))))
	fine := min(max(time.Duration(points)*interval, fewestFine), past.Length()).Truncate(time.Millisecond)
	until := past.To.Truncate(time.Millisecond)
	var all, anew []*lookup
	for _, g := range s.Groups(func(i int) (identity.Time, bool) {
		return identity.Time{Period: past}, !s.Targets[i].IsGPU()
	}) {
		l := &lookup{Group: g, extent: extent{from: until.Add(-fine - time.Millisecond), until: until}}
		// for gateways, only the times of scrapes are queried
		l.selector = l.selectorOfPlaces(func(p *place) bool { return p.marksScrapes() || !g.Lead.IsGateway() })
		if !g.Lead.IsGateway() && past.Length() >= fine+2*interval {
			l.coarseSelector, l.grid = l.selectorOfPlaces(func(p *place) bool {
				return !p.marksScrapes() || p.column >= running
			}), coarseGrid(past, fine, interval)
		}
		l.recallHistories(s, known)
		all = append(all, l)
	}
	if err := readAll(ctx, q, all); err != nil {
		return nil, false, err
	}
	for _, l := range all {
		if l.memberReturned(interval) {
			anew = append(anew, l)
			l.known = nil
		}
	}
	if err := readAll(ctx, q, anew); err != nil {
		return nil, false, err
	}
	hs = make([]*History, len(s.Targets))
	for i := range hs {
		hs[i] = &History{}
	}
	for _, l := range all {
		l.buildHistories(hs)
	}
	return hs, len(anew) > 0, nil
}

// selectorOfPlaces returns a selector of the metrics whose places are wanted.
func (l *lookup) selectorOfPlaces(want func(*place) bool) string {
	var names []string
	for i := range places {
		if want(&places[i]) {
			names = append(names, places[i].seriesOf(&l.Lead.Dialect).Metric)
		}
	}
	slices.Sort(names)
	return identity.SelectorOf(strings.Join(slices.Compact(names), "|"), l.Matchers)
}

// readAll queries the parts of the histories that are not remembered.
func readAll(ctx context.Context, q metrics.Querier, all []*lookup) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(metrics.AtOnce)
	for _, l := range all {
		from, grid := l.from, l.grid
		if l.known != nil {
			from = l.knownExtent.settledUntil()
			if l.continuesGrid {
				grid.Start = l.knownExtent.grid.End.Add(grid.Step)
			}
		}
		eg.Go(func() (err error) {
			if l.parts[1].series, err = q.Samples(ctx, l.selector, l.until, l.until.Sub(from)); err != nil {
				err = fmt.Errorf("read the last scrapes: %w", err)
			}
			return err
		})
		if l.coarseSelector == "" || grid.Start.After(grid.End) {
			continue
		}
		eg.Go(func() (err error) {
			if l.parts[0].series, err = q.QueryRange(ctx, l.coarseSelector, grid); err != nil {
				err = fmt.Errorf("read the past: %w", err)
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for _, l := range all {
		for k := range l.parts {
			l.parts[k].at = l.scrapeTimes(l.parts[k].series)
		}
	}
	return nil
}

// recallHistories returns the remembered histories, if the lookup can continue all of them.
func (l *lookup) recallHistories(s *identity.Scope, all Histories) {
	known := make(map[int]*History, len(l.Members))
	for _, i := range l.Members {
		h := all[targetKey(s, i)]
		if h == nil || len(known) > 0 && h.extent != l.knownExtent {
			return
		}
		known[i], l.knownExtent = h, h.extent
	}
	if w := &l.knownExtent; w.selector == l.selector && !w.from.After(l.from) && !w.until.After(l.until) &&
		w.settledUntil().After(l.from) {
		l.known = known
		l.continuesGrid = w.grid.Step == l.grid.Step && !w.grid.Start.After(l.grid.Start) &&
			!w.grid.End.Before(l.grid.Start) && !w.grid.End.After(l.grid.End)
	}
}

// memberReturned reports whether a member is scraped again after a pause so long that its samples may have arrived too
// late to be known.
func (l *lookup) memberReturned(interval time.Duration) bool {
	for i, h := range l.known {
		last := time.Time{}
		if n := len(h.at); n > 0 {
			last = h.at[n-1]
		}
		if len(l.parts[1].at[i]) > 0 && l.knownExtent.settledUntil().Sub(last) > missedScrapes*interval/2 {
			return true
		}
	}
	return false
}

// scrapeTimes returns when each member was scraped.
func (l *lookup) scrapeTimes(series model.Matrix) map[int][]model.Time {
	out := make(map[int][]model.Time, len(l.Members))
	places := l.placesByName()
	for _, s := range series {
		if !slices.ContainsFunc(places[string(s.Metric[model.MetricNameLabel])],
			func(p placedSeries) bool { return p.marksScrapes() && p.hasLabels(s.Metric) }) {
			continue
		}
		for _, i := range l.OwnersOf(s.Metric, s.Metric["model_name"] != "") {
			at := out[i]
			for _, p := range s.Values {
				if k, found := slices.BinarySearch(at, p.Timestamp); !found {
					at = slices.Insert(at, k, p.Timestamp)
				}
			}
			out[i] = at
		}
	}
	return out
}

// placesByName returns where samples go, by the names of the group's dialect.
func (l *lookup) placesByName() map[string][]placedSeries {
	out := make(map[string][]placedSeries, len(places))
	for i := range places {
		s := places[i].seriesOf(&l.Lead.Dialect)
		out[s.Metric] = append(out[s.Metric], placedSeries{&places[i], slices.Concat(places[i].where, s.Where)})
	}
	return out
}

// placedSeries are the series of a metric that go to a place.
type placedSeries struct {
	*place
	where []*labels.Matcher
}

func (h *placedSeries) hasLabels(m model.Metric) bool {
	return !slices.ContainsFunc(h.where,
		func(w *labels.Matcher) bool { return !w.Matches(string(m[model.LabelName(w.Name)])) })
}

// buildHistories builds the members' histories from the known ones and the new samples.
func (l *lookup) buildHistories(out []*History) {
	begins := [2]map[int]int{{}, {}} // where the new samples begin, in the columns of a member
	for _, i := range l.Members {
		h, known := out[i], l.known[i]
		h.extent = l.extent
		var kept [2][2]int // ranges of the known scrapes that are kept
		if known != nil {
			first := func(t time.Time) int {
				k, _ := slices.BinarySearchFunc(known.at, t, time.Time.Compare)
				return k
			}
			if l.continuesGrid {
				kept[0] = [2]int{min(first(l.grid.Start), known.older), known.older}
			}
			from := max(first(l.from.Add(1)), known.older)
			kept[1] = [2]int{from, max(from, first(l.knownExtent.settledUntil().Add(1)))}
		}
		for k, part := range l.parts {
			h.older = len(h.at) * k
			if known != nil {
				h.at = append(h.at, known.at[kept[k][0]:kept[k][1]]...)
			}
			begins[k][i] = len(h.at)
			for _, t := range part.at[i] {
				h.at = append(h.at, t.Time())
			}
		}
		if known != nil {
			h.moveColumns(known, kept)
		}
	}
	places := l.placesByName()
	for k, part := range l.parts {
		for _, s := range part.series {
			for _, p := range places[string(s.Metric[model.MetricNameLabel])] {
				if !p.hasLabels(s.Metric) {
					continue
				}
				c, le, ok := p.column, 0.0, true
				switch {
				case p.buckets:
					le, ok = ParseBound(string(s.Metric[model.BucketLabel]))
				case p.answers:
					c, ok = classOf(s.Metric, l.Lead.Dialect.HTTPAnswers())
				}
				if !ok {
					continue
				}
				for _, i := range l.OwnersOf(s.Metric, s.Metric["model_name"] != "") {
					if p.buckets {
						fillColumn(out[i].bucketColumn(p.family, le)[begins[k][i]:], part.at[i], s.Values)
					} else {
						fillColumn(out[i].columnOf(c)[begins[k][i]:], part.at[i], s.Values)
					}
				}
			}
		}
	}
	for _, i := range l.Members {
		out[i].markPages()
		if known := l.known[i]; known != nil && !out[i].hasSameColumns(known) {
			out[i].rows = nil
		}
	}
}

// moveColumns moves the retained columns out of known, which must not be used afterwards. Columns without any value are
// dropped.
func (h *History) moveColumns(known *History, kept [2][2]int) {
	has := func(c []float64) bool { return slices.ContainsFunc(c, func(v float64) bool { return !math.IsNaN(v) }) }
	move := func(was []float64) []float64 {
		if was == nil {
			return nil
		}
		older, newer := was[kept[0][0]:kept[0][1]], was[kept[1][0]:kept[1][1]]
		if !has(newer) && !has(older) {
			return nil
		}
		c := was
		if cap(was) < len(h.at) {
			c = h.unknownColumn()
		}
		c = c[:len(h.at)]
		from, to := copy(c, older), h.older+copy(c[h.older:], newer)
		forgetValues(c[from:h.older])
		forgetValues(c[to:])
		return c
	}
	for c, was := range known.columns {
		h.columns[c] = move(was)
	}
	for f, was := range known.buckets {
		for _, b := range was {
			if upTo := move(b.upTo); upTo != nil {
				h.buckets[f] = append(h.buckets[f], bound{b.le, upTo})
			}
		}
	}
	if known.rows != nil {
		h.rows = make([]row, len(h.at))
		copy(h.rows, known.rows[kept[0][0]:kept[0][1]])
		copy(h.rows[h.older:], known.rows[kept[1][0]:kept[1][1]])
	}
}

// hasSameColumns reports whether two histories have the same columns.
func (h *History) hasSameColumns(other *History) bool {
	for c := range h.columns {
		if (h.columns[c] == nil) != (other.columns[c] == nil) {
			return false
		}
	}
	for f := range h.buckets {
		if !slices.EqualFunc(h.buckets[f], other.buckets[f], func(a, b bound) bool { return a.le == b.le }) {
			return false
		}
	}
	return true
}

// coarseGrid returns the grid for the time before the scrapes that are read one by one. The grid stays the same for a
// while, so that change points in it stay where they were, and only new points are read.
func coarseGrid(past period.Period, fine, interval time.Duration) metrics.Range {
	r := metrics.Range{Step: max(interval, ((past.Length() - fine) / coarsePoints).Truncate(time.Second))}
	r.Step = (r.Step + interval - 1).Truncate(interval)
	r.Start = past.From.Add(r.Step - 1).Truncate(r.Step)
	r.End = past.To.Add(-fine - 2*time.Millisecond).Truncate(r.Step)
	return r
}

// targetKey identifies a target from one diagnosis to the next.
func targetKey(s *identity.Scope, target int) string {
	return identity.LabelKey(s.Targets[target].Labels, slices.Concat(s.Instance, s.Model, identity.IdentityLabels))
}

// columnOf returns a column. A new one holds unknown values.
func (h *History) columnOf(c column) []float64 {
	if h.columns[c] == nil {
		h.columns[c] = h.unknownColumn()
	}
	return h.columns[c]
}

// bucketColumn returns the column of a bucket. A new one holds unknown values.
func (h *History) bucketColumn(f family, le float64) []float64 {
	k, found := slices.BinarySearchFunc(h.buckets[f], le,
		func(b bound, le float64) int { return cmp.Compare(b.le, le) })
	if !found {
		h.buckets[f] = slices.Insert(h.buckets[f], k, bound{le, h.unknownColumn()})
	}
	return h.buckets[f][k].upTo
}

// unknownColumn returns a column of unknown values.
func (h *History) unknownColumn() []float64 {
	n := len(h.at)
	more := n + n/8 + 4 // with room for further scrapes
	if len(h.room) < more {
		h.room = make([]float64, 32*more)
	}
	c := h.room[:n:more]
	h.room = h.room[more:]
	return forgetValues(c)
}

// forgetValues makes a part of a column unknown.
func forgetValues(c []float64) []float64 {
	for k := range c {
		c[k] = math.NaN()
	}
	return c
}

// markPages notes which scrapes brought a page.
func (h *History) markPages() {
	h.ok = make([]bool, len(h.at))
	for k := range h.ok {
		h.ok[k] = !math.IsNaN(h.gaugeAt(running, k))
	}
}

// fillColumn adds samples to a column, at the scrapes whose times they have.
func fillColumn(c []float64, at []model.Time, samples []model.SamplePair) {
	k := 0
	for _, p := range samples {
		for k < len(at) && at[k] < p.Timestamp {
			k++
		}
		v := float64(p.Value)
		if k == len(at) || at[k] != p.Timestamp || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if math.IsNaN(c[k]) {
			c[k] = 0
		}
		c[k] += v
	}
}

var asked = regexp.MustCompile("^(?:" + indicator.Asked + ")$")

// classOf returns the column of an answer's class, if the answer is to a request for the engine.
func classOf(m model.Metric, in engine.Answers) (column, bool) {
	status := string(m[model.LabelName(in.Status)])
	if status == "" || !asked.MatchString(string(m[model.LabelName(in.Handler)])) {
		return 0, false
	}
	switch status[0] {
	case '2':
		return answers2xx, true
	case '4':
		return answers4xx, true
	case '5':
		return answers5xx, true
	}
	return 0, false
}

// An interval is the time between two pages of a history.
type interval struct{ from, to int } // indices into at

// strandedFor is how long connections must be open to say that their clients wait: prompts are tokenized within
// seconds.
const strandedFor = 30 * time.Second

// openedConnections counts the connections that were opened after a time, have been open for a while and belong to no
// request of the engine: the minimum over the last pages minus the maximum over the same process' pages up to that
// time.
func (h *History) openedConnections(after time.Time) (n float64, ok bool) {
	last := h.pageUpTo(len(h.at) - 1)
	now, before, next := math.Inf(1), math.Inf(-1), last
	for k := last; k >= 0; k-- {
		files := h.gaugeAt(openFiles, k)
		if !h.ok[k] || math.IsNaN(files) {
			continue
		}
		if h.restartedBetween(k, next) {
			break
		}
		beside := files - zeroNaN(h.gaugeAt(running, k)) - zeroNaN(h.gaugeAt(waiting, k))
		if h.at[last].Sub(h.at[next]) < strandedFor {
			now = min(now, beside)
		}
		if !h.at[k].After(after.Add(Edge)) {
			before = max(before, beside)
		}
		next = k
	}
	return max(0, now-before), !math.IsInf(now, 1) && !math.IsInf(before, -1)
}

// pageUpTo returns the index of the last scrape, up to the k-th, that brought a page; -1 if none did.
func (h *History) pageUpTo(k int) int {
	for k >= 0 && !h.ok[k] {
		k--
	}
	return k
}

// intervalsIn returns the intervals between the pages in a span of time.
func (h *History) intervalsIn(span period.Period) (out run) {
	before := -1
	for k, at := range h.at {
		if !h.ok[k] || at.Before(span.From) || at.After(span.To) {
			continue
		}
		if before >= 0 {
			out = append(out, interval{before, k})
		}
		before = k
	}
	return out
}

// restartedBetween reports whether counters were reset between two pages.
func (h *History) restartedBetween(a, b int) bool {
	for _, n := range []column{tokensOut, firstTokens.count(), steps} {
		if c := h.columns[n]; c != nil && c[b] < c[a] {
			return true
		}
	}
	return false
}

// answersInTurns reports whether several processes answer at one address in turn, as behind a load balancer. Then their
// start time goes back at times. Where none is exposed, a counter falls and jumps back above its old value, more than
// once and by at least half the fall. After a restart it would grow back slowly.
func (h *History) answersInTurns() bool {
	for _, startTimes := range []column{created, started} {
		if c := h.columns[startTimes]; c != nil {
			c = c[max(h.older, len(c)-fewestPoints):]
			for k := range c {
				if k > 0 && c[k] < c[k-1] {
					return true
				}
			}
			return false
		}
	}
	times, since := 0, 0 // how often it came back, and how many pages since then
	before, high, low := math.NaN(), math.NaN(), math.NaN()
	for k, v := range h.columns[tokensOut] {
		since++
		switch {
		case k < h.older || math.IsNaN(v):
			v = math.NaN()
		case v < before && !(high > before):
			high, low = before, v
		case v >= high:
			if v-before > (high-low)/2 {
				times, since = times+1, 0
			}
			high = math.NaN()
		}
		before = v
	}
	return times > 1 && since < fewestPoints/2
}

// increase returns the increase of a counter over an interval. A counter that was not there before began at zero.
func (h *History) increase(c column, iv interval) float64 { return rise(h.columns[c], iv) }

func rise(c []float64, iv interval) float64 {
	if c == nil || math.IsNaN(c[iv.to]) {
		return 0
	}
	before := c[iv.from]
	if math.IsNaN(before) {
		before = 0
	}
	return max(0, c[iv.to]-before)
}

// gaugeAt returns a gauge at a page, NaN where it was not there.
func (h *History) gaugeAt(c column, k int) float64 {
	if h.columns[c] == nil {
		return math.NaN()
	}
	return h.columns[c][k]
}

// appendCells appends what fell into each bucket of a histogram over an interval, times a factor.
func (h *History) appendCells(to []float64, f family, iv interval, factor float64) []float64 {
	below := 0.0
	for _, b := range h.buckets[f] {
		n := rise(b.upTo, iv)
		to = append(to, max(0, n-below)*factor)
		below = max(below, n)
	}
	return to
}

// countOf returns how many observations a histogram took over an interval.
func (h *History) countOf(f family, iv interval) float64 {
	if last := len(h.buckets[f]) - 1; last >= 0 && math.IsInf(h.buckets[f][last].le, 1) {
		return rise(h.buckets[f][last].upTo, iv)
	}
	return h.increase(f.count(), iv)
}

// appendMean appends a histogram's weighted number of observations and their weighted sum. If a deployment drops the
// buckets, only the mean shows a change.
func (h *History) appendMean(to []float64, f family, iv interval, weight float64) []float64 {
	return append(to, weight*h.countOf(f, iv), weight*h.increase(f.sum(), iv))
}

// Minimum dispersions of counts. Requests come in bursts and are alike within a burst, prompts share their clients, and
// the tokens of a step are one observation.
const (
	burstiness             = 3
	alike                  = 2
	lengthsAlike           = 1.5
	stepsAlike             = 20 // steps that count as one observation of the time that a step takes
	queueWanders           = 0.35
	observationsPerRequest = 2 // observations of the stream that one request is worth
)

// A quantity counts the bad events and all events of an interval.
type quantity func(*History, interval) (bad, all float64)

// misses counts requests. The bad ones are the share of prompt tokens that was not cached.
func misses(h *History, iv interval) (float64, float64) {
	n, asked := h.countOf(firstTokens, iv), h.increase(lookups, iv)
	if asked <= 0 {
		return 0, 0
	}
	return n * max(0, 1-h.increase(hits, iv)/asked), n
}

// undrafted counts output tokens. The bad ones did not come from speculation.
func undrafted(h *History, iv interval) (float64, float64) {
	n := h.increase(tokensOut, iv)
	return max(0, n-h.increase(accepted, iv)), n
}

// untransferred counts first tokens. The bad ones are of prompts whose KV cache was not transferred.
func untransferred(h *History, iv interval) (float64, float64) {
	n := h.countOf(firstTokens, iv)
	return max(0, n-h.increase(transfers, iv)), n
}

// abandoned counts accepted requests. The bad ones did not complete.
func abandoned(h *History, iv interval) (float64, float64) {
	return h.abandonedOf(func(c column) float64 { return h.increase(c, iv) })
}

func (h *History) abandonedOf(sum func(column) float64) (gaveUp, began float64) {
	if h.columns[aborted] != nil { // completions include them
		return sum(aborted), max(sum(aborted), sum(completions))
	}
	return max(0, sum(answers2xx)-sum(completions)), sum(answers2xx)
}

// answersOfClass returns a quantity that counts answers. The bad ones are of one class.
func answersOfClass(class column) quantity {
	return func(h *History, iv interval) (float64, float64) {
		return h.increase(class, iv), h.answersIn(iv)
	}
}

func (h *History) answersIn(iv interval) float64 {
	return h.increase(answers2xx, iv) + h.increase(answers4xx, iv) + h.increase(answers5xx, iv)
}

// observedSeries converts a run of intervals to a Series for the search of change points. Rows of intervals that did
// not change are reused.
func (h *History) observedSeries(ivs []interval) *changepoint.Series {
	s := &changepoint.Series{}
	var values []func(to []float64, iv interval) []float64
	sig := func(kind changepoint.Kind, cells int, dispersion float64, of func(to []float64, iv interval) []float64) {
		s.Signals = append(s.Signals, changepoint.Signal{Kind: kind, Cells: cells, Dispersion: dispersion})
		values = append(values, of)
	}
	rate := func(c column) {
		sig(changepoint.Rate, 1, burstiness,
			func(to []float64, iv interval) []float64 { return append(to, h.increase(c, iv)) })
	}
	cells := func(f family, dispersion float64) {
		sig(changepoint.Cells, len(h.buckets[f]), dispersion,
			func(to []float64, iv interval) []float64 { return h.appendCells(to, f, iv, 1) })
	}
	share := func(dispersion float64, of quantity) {
		sig(changepoint.Cells, 2, dispersion, func(to []float64, iv interval) []float64 {
			bad, all := of(h, iv)
			return append(to, bad, all-bad)
		})
	}
	sig(changepoint.Rate, 1, burstiness,
		func(to []float64, iv interval) []float64 { return append(to, h.countOf(firstTokens, iv)) })
	rate(evictions)
	cells(firstTokens, alike)
	cells(promptLengths, lengthsAlike)
	cells(answerLengths, lengthsAlike)
	sig(changepoint.Cells, len(h.buckets[tokenGaps]), 1,
		func(to []float64, iv interval) []float64 { return h.appendCells(to, tokenGaps, iv, h.gapsWorth(iv)) })
	share(alike, misses)
	sig(changepoint.Cells, 3, 1, func(to []float64, iv interval) []float64 {
		return append(to, h.increase(answers2xx, iv), h.increase(answers4xx, iv), h.increase(answers5xx, iv))
	})
	if h.columns[answers2xx] != nil || h.columns[aborted] != nil {
		share(1, abandoned)
	}
	if h.columns[accepted] != nil {
		share(stepsAlike, undrafted)
	}
	for _, rare := range []column{notFetched, notArrived, corrupted} {
		if h.columns[rare] != nil {
			rate(rare)
		}
	}
	for _, g := range []column{waiting, running} {
		sig(changepoint.Level, 1, queueWanders,
			func(to []float64, iv interval) []float64 { return append(to, h.gaugeAt(g, iv.to)) })
	}
	if len(h.buckets[firstTokens]) == 0 {
		sig(changepoint.Mean, 2, alike, func(to []float64, iv interval) []float64 {
			return h.appendMean(to, firstTokens, iv, 1)
		})
	}
	if len(h.buckets[tokenGaps]) == 0 {
		sig(changepoint.Mean, 2, 1, func(to []float64, iv interval) []float64 {
			return h.appendMean(to, tokenGaps, iv, h.gapsWorth(iv))
		})
	}
	if h.rows == nil {
		h.rows = make([]row, len(h.at))
	}
	n := 0
	for _, one := range s.Signals {
		n += one.Cells
	}
	for _, iv := range ivs {
		known := &h.rows[iv.to]
		if known.Row == nil || !known.from.Equal(h.at[iv.from]) {
			to := make([]float64, 0, n)
			for _, of := range values {
				to = of(to, iv)
			}
			*known = row{h.at[iv.from], &changepoint.Row{Seconds: h.lengthOf(iv), Values: to}}
		}
		s.Rows = append(s.Rows, known.Row)
	}
	return s
}

// gapsWorth returns the weight of one gap between tokens, as a share of an independent observation; 0 without gaps.
func (h *History) gapsWorth(iv interval) float64 {
	gaps := h.countOf(tokenGaps, iv)
	if gaps <= 0 {
		return 0
	}
	worth := gaps / stepsAlike
	if st := h.increase(steps, iv); st > 0 {
		worth = st / stepsAlike
	}
	if !h.servedTheSame(iv) { // tokens of one request are alike
		worth = min(worth, observationsPerRequest*h.countOf(firstTokens, iv)+max(0,
			zeroNaN(h.gaugeAt(running, iv.to)))*h.lengthOf(iv)/10)
	}
	return min(1, worth/gaps)
}

// servedTheSame reports whether the same requests ran from the beginning of an interval to its end: none began and none
// ended. The time of a step then differs by what the machine does, not by who is served.
func (h *History) servedTheSame(iv interval) bool {
	before, after := h.gaugeAt(running, iv.from), h.gaugeAt(running, iv.to)
	return before > 0 && before == after && h.countOf(firstTokens, iv) == 0
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// ParseBound reads a bucket's le label.
func ParseBound(le string) (float64, bool) {
	v, err := strconv.ParseFloat(le, 64)
	return v, err == nil && !math.IsNaN(v)
}

// missedScrapes is the number of half intervals after which the next scrape is not late, but missed.
const missedScrapes = 5

func (h *History) lengthOf(iv interval) float64 { return h.at[iv.to].Sub(h.at[iv.from]).Seconds() }

// A run is intervals between pages that follow each other.
type run []interval

// Edge makes a span of time include the scrape at its beginning, because ranges in Prometheus 3 are open on the left.
const Edge = time.Millisecond

func (h *History) isStalled(iv interval) bool {
	return h.increase(tokensOut, iv)+h.countOf(firstTokens, iv) == 0 && h.gaugeAt(running, iv.to)+h.gaugeAt(waiting,
		iv.to) > 0
}

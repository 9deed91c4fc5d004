package diagnose

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/changepoint"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Canonical names of what a history is made of: what users feel, the traffic, the
// work, the cache and the queue.
const (
	firstTokens   = "vllm:time_to_first_token_seconds"
	durations     = "vllm:e2e_request_latency_seconds"
	tokenGaps     = "vllm:inter_token_latency_seconds"
	promptLengths = "vllm:request_prompt_tokens"
	answerLengths = "vllm:request_generation_tokens"
	queueTimes    = "vllm:request_queue_time_seconds"
	steps         = "vllm:iteration_tokens_total_count"
	tokensOut     = "vllm:generation_tokens_total"
	evictions     = "vllm:num_preemptions_total"
	lookups       = "vllm:prefix_cache_queries_total"
	hits          = "vllm:prefix_cache_hits_total"
	completions   = "vllm:request_success_total"
	running       = "vllm:num_requests_running"
	waiting       = "vllm:num_requests_waiting"
	answers       = "http_requests_total"
	accepted      = "vllm:spec_decode_num_accepted_tokens_total"
	notFetched    = "vllm:nixl_num_kv_expired_reqs_total"
	notArrived    = "vllm:nixl_num_failed_transfers_total"
	transfers     = "vllm:nixl_xfer_time_seconds_count"
	corrupted     = "vllm:corrupted_requests_total"
	scrapeTook    = "scrape_duration_seconds"
	created       = "vllm:generation_tokens_created"
	started       = "process_start_time_seconds"
)

var (
	// historyPages tell when a page came, or was asked for in vain.
	historyPages = []string{"up", scrapeTook, started, created, running, waiting}
	historyNames = []string{answers, running, waiting, firstTokens + "_bucket", tokenGaps + "_bucket", promptLengths + "_bucket", answerLengths + "_bucket", queueTimes + "_sum", queueTimes + "_count", firstTokens + "_sum", firstTokens + "_count", tokenGaps + "_sum", tokenGaps + "_count", steps, tokensOut, evictions, lookups, hits, completions, accepted, notFetched, notArrived, transfers, corrupted}
)

// A history is what one target's scrapes held, oldest first.
type history struct {
	at []time.Time // of every scrape, failed ones included
	ok []bool      // the scrape brought a page
	// columns are counters as they were exposed, and gauges; NaN where a page had
	// none. Keys are canonical names, with the bound behind a bar for buckets and the
	// class of the status for HTTP answers.
	columns map[string][]float64
	bounds  map[string][]float64   // of each histogram, ascending
	buckets map[string][][]float64 // their columns
	limits  limits                 // what was set by hand
	older   int                    // scrapes that were read at another pace, before the others
}

// How many scrapes are read one by one, by the number of targets, and how far back
// and how finely the rest of the past is.
const (
	finePoints   = 60
	fewestPoints = 20
	pointBudget  = 3000 // of all targets
	coarsePoints = 30
	fewestFine   = 5 * time.Minute
)

// histories reads the scrapes of every target up to the given time: the last ones
// one by one, and those before them at a coarser pace.
func histories(ctx context.Context, q metrics.Querier, r *Request, past Range) ([]*history, error) {
	points := max(fewestPoints, min(finePoints, pointBudget/max(1, len(r.Targets))))
	fine := min(max(time.Duration(points)*r.Interval, fewestFine), past.Length())
	older := coarse(past, fine, r.Interval)
	gs := groups(r, func(int) Range { return past }, func(i int) bool { return !r.Targets[i].isGPU() })
	got := make([]struct {
		series, old model.Matrix
		known       map[string]*history // what lies before, as far as it was read for the diagnosis before
		more        bool                // the rest of it is old
	}, len(gs))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(concurrency)
	for i, g := range gs {
		selected := func(canonical []string) string {
			var names []string
			for _, n := range canonical {
				names = append(names, g.lead.Dialect.Metric(n))
			}
			slices.Sort(names)
			return selectorOf(strings.Join(slices.Compact(names), "|"), g.matchers)
		}
		names := historyPages
		if !g.lead.isGateway() { // of which is asked alone whether it is scraped
			names = slices.Concat(historyPages, historyNames)
		}
		eg.Go(func() (err error) {
			got[i].series, err = q.Samples(ctx, selected(names), past.To, fine+time.Millisecond)
			if err != nil {
				err = fmt.Errorf("read the last scrapes: %w", err)
			}
			return err
		})
		if g.lead.isGateway() || past.Length() < fine+2*r.Interval {
			continue
		}
		g.old = oldQuestion{selected(historyNames), older.Step}
		var rest metrics.Range
		if got[i].known, rest = r.Memory.pastHistories(g, r, older); rest.Start.After(rest.End) {
			continue
		}
		got[i].more = true
		eg.Go(func() (err error) {
			got[i].old, err = q.QueryRange(ctx, g.old.selector, rest)
			if err != nil {
				err = fmt.Errorf("read the past: %w", err)
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	out := make([]*history, len(r.Targets))
	for i := range out {
		out[i] = newHistory()
	}
	for i, g := range gs {
		if got[i].more {
			known := map[string]*history{}
			for m, h := range g.read(r, got[i].old, got[i].known) {
				known[targetKey(r, m)] = h
			}
			got[i].known = known
		}
		for m, h := range g.read(r, got[i].series, got[i].known) {
			out[m] = h
			h.complete()
		}
		r.Memory.keepBefore(g, older, got[i].known)
	}
	return out, nil
}

// An oldQuestion asks for the coarse part of a group's histories, and an oldAnswer is what
// was read of it.
type oldQuestion struct {
	selector string
	step     time.Duration
}

type oldAnswer struct {
	over     metrics.Range
	byTarget map[string]*history
}

// coarse is the grid of what lies before the scrapes that are read one by one. It is the
// same one for a while, so that what changed then stays where it was, and only what has
// joined it is read.
func coarse(past Range, fine, interval time.Duration) metrics.Range {
	r := metrics.Range{Step: max(interval, ((past.Length() - fine) / coarsePoints).Truncate(time.Second))}
	r.Step = (r.Step + interval - 1).Truncate(interval)
	r.Start = past.From.Add(r.Step - 1).Truncate(r.Step)
	r.End = past.To.Add(-fine).Truncate(r.Step)
	return r
}

// targetKey identifies a target from one diagnosis to the next.
func targetKey(r *Request, target int) string {
	return labelKey(r.Targets[target].Labels, slices.Concat(r.Instance, r.Model, identityLabels))
}

func newHistory() *history {
	return &history{columns: map[string][]float64{}, bounds: map[string][]float64{}, buckets: map[string][][]float64{}}
}

// follow puts what lies before it at the beginning of a history that has no columns yet; the
// scrapes of both are not the same.
func (h *history) follow(old *history) {
	if old == nil || len(old.at) == 0 {
		return
	}
	n := len(old.at)
	for n > 0 && len(h.at) > 0 && !old.at[n-1].Before(h.at[0]) {
		n--
	}
	h.at, h.older = slices.Concat(old.at[:n], h.at), n
	for key, was := range old.columns {
		c := h.unknown()
		copy(c, was[:n])
		h.columns[key] = c
	}
	for family, bounds := range old.bounds {
		h.bounds[family] = slices.Clone(bounds)
	}
}

// since returns what lies at a moment or after it.
func (h *history) since(t time.Time) *history {
	n, _ := slices.BinarySearchFunc(h.at, t, time.Time.Compare)
	if n == 0 {
		return h
	}
	out := &history{at: h.at[n:], columns: make(map[string][]float64, len(h.columns)), bounds: h.bounds}
	for key, c := range h.columns {
		out.columns[key] = c[n:]
	}
	return out
}

// unknown returns a column of nothing.
func (h *history) unknown() []float64 {
	c := make([]float64, len(h.at))
	for k := range c {
		c[k] = math.NaN()
	}
	return c
}

// complete puts buckets in order, and tells which scrapes brought a page.
func (h *history) complete() {
	for family, bounds := range h.bounds {
		slices.Sort(bounds)
		h.bounds[family] = slices.Compact(bounds)
		for _, b := range h.bounds[family] {
			h.buckets[family] = append(h.buckets[family], h.columns[bucketKey(family, b)])
		}
	}
	h.ok = make([]bool, len(h.at))
	for k := range h.ok {
		c := h.columns[running]
		h.ok[k] = len(c) > k && !math.IsNaN(c[k])
	}
}

// read makes histories of the group's members, which are not complete yet, of what was read and
// of what is known, by target, of the time before.
func (g *group) read(r *Request, series model.Matrix, known map[string]*history) map[int]*history {
	out := map[int]*history{}
	for _, i := range g.members {
		out[i] = newHistory()
	}
	owners := func(m model.Metric) []int { return g.owners(r, m, m["model_name"] != "") }
	canonical, pages := map[string]string{}, map[string]bool{}
	for _, n := range slices.Concat(historyPages, historyNames) {
		name := g.lead.Dialect.Metric(n)
		canonical[name], pages[name] = strings.TrimSuffix(n, "_bucket"), slices.Contains(historyPages, n)
	}
	for _, s := range series {
		if !pages[string(s.Metric[model.MetricNameLabel])] {
			continue
		}
		for _, i := range owners(s.Metric) {
			for _, p := range s.Values {
				out[i].at = append(out[i].at, p.Timestamp.Time())
			}
		}
	}
	for i, h := range out {
		slices.SortFunc(h.at, time.Time.Compare)
		h.at = slices.CompactFunc(h.at, time.Time.Equal)
		h.follow(known[targetKey(r, i)])
	}
	for _, s := range series {
		name := canonical[string(s.Metric[model.MetricNameLabel])]
		key, bound := name, math.NaN()
		switch {
		case name == "":
			continue
		case name == answers:
			if key = httpClass(s.Metric); key == "" {
				continue
			}
		case s.Metric[model.BucketLabel] != "":
			le, ok := parseBound(string(s.Metric[model.BucketLabel]))
			if !ok {
				continue
			}
			bound = le
			key = bucketKey(name, le)
		}
		for _, i := range owners(s.Metric) {
			h := out[i]
			c := h.columns[key]
			if c == nil {
				c = h.unknown()
				h.columns[key] = c
				if !math.IsNaN(bound) {
					h.bounds[name] = append(h.bounds[name], bound)
				}
			}
			h.fill(c, s.Values)
		}
	}
	return out
}

// fill adds samples to a column, at the scrapes whose times they have.
func (h *history) fill(c []float64, samples []model.SamplePair) {
	k := h.older
	for _, p := range samples {
		at, v := p.Timestamp.Time(), float64(p.Value)
		for k < len(h.at) && h.at[k].Before(at) {
			k++
		}
		if k == len(h.at) || !h.at[k].Equal(at) || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if math.IsNaN(c[k]) {
			c[k] = 0
		}
		c[k] += v
	}
}

func bucketKey(family string, le float64) string {
	return family + "|" + strconv.FormatFloat(le, 'g', -1, 64)
}

var asked = regexp.MustCompile("^(?:" + indicator.Asked + ")$")

// httpClass is the key of an answer to a request for the engine: its class.
func httpClass(m model.Metric) string {
	if !asked.MatchString(string(m["handler"])) {
		return ""
	}
	status := string(m["status"])
	if status == "" {
		return ""
	}
	return answers + "|" + status[:1]
}

// usualGap returns the median time between two scrapes.
func usualGap(at []time.Time) time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i].Sub(at[i-1]))
	}
	return stat.Median(gaps)
}

// An interval is what lies between two pages of a history.
type interval struct{ from, to int } // indices into at

// pageUpTo returns the last scrape up to one that brought a page, -1 where none did.
func (h *history) pageUpTo(k int) int {
	for k >= 0 && !h.ok[k] {
		k--
	}
	return k
}

// intervalsIn returns the intervals between the pages in a span of time.
func (h *history) intervalsIn(span Range) (out run) {
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

// reset reports whether counters began again between two pages.
func (h *history) reset(a, b int) bool {
	for _, n := range []string{tokensOut, firstTokens + "_count", steps} {
		if c := h.columns[n]; c != nil && c[b] < c[a] {
			return true
		}
	}
	return false
}

// inTurns reports whether the pages are of several processes that answer at one address in turn,
// as behind a load balancer. The time of a birth goes back, or, where none is exposed, a counter
// falls and is back beyond where it was by a jump of at least half the fall, more than once: after
// a restart it grows back slowly.
func (h *history) inTurns() bool {
	for _, births := range []string{created, started} {
		if c := h.columns[births]; c != nil {
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

// increase returns the increase of a counter over an interval; a counter that was not
// there before began at zero.
func (h *history) increase(key string, iv interval) float64 { return rise(h.columns[key], iv) }

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
func (h *history) gaugeAt(key string, k int) float64 {
	if c := h.columns[key]; c != nil {
		return c[k]
	}
	return math.NaN()
}

// cells appends what fell into each bucket of a histogram over an interval, times a factor.
func (h *history) cells(to []float64, family string, iv interval, factor float64) []float64 {
	below := 0.0
	for _, c := range h.buckets[family] {
		n := rise(c, iv)
		to = append(to, max(0, n-below)*factor)
		below = max(below, n)
	}
	return to
}

// count returns how many observations a histogram took over an interval.
func (h *history) count(family string, iv interval) float64 {
	if last := len(h.buckets[family]) - 1; last >= 0 && math.IsInf(h.bounds[family][last], 1) {
		return rise(h.buckets[family][last], iv)
	}
	return h.increase(family+"_count", iv)
}

// means gives, by interval, how many observations a histogram took beside their sum in units
// of the mean of all: where its buckets are dropped, the proportion is what tells a change.
func (h *history) means(family string, all []interval, weight func(interval) float64) func([]float64, interval) []float64 {
	n, sum := 0.0, 0.0
	for _, iv := range all {
		n += h.count(family, iv)
		sum += h.increase(family+"_sum", iv)
	}
	return func(to []float64, iv interval) []float64 {
		if sum <= 0 || h.count(family, iv) <= 0 {
			return to
		}
		w := weight(iv)
		return append(to, w*h.count(family, iv), w*h.increase(family+"_sum", iv)*n/sum)
	}
}

// Dispersions of counts, at the least: requests come in bursts and are alike within
// one, prompts share their clients, and the tokens of a step are one observation.
const (
	burstiness    = 3
	alike         = 2
	lengthsAlike  = 1.5
	stepsAlike    = 20 // steps that count as one observation of the time that a step takes
	queueWanders  = 0.35
	requestsTwice = 2 // observations of the stream that one request is worth
)

// A quantity is how much of what was counted over an interval is bad.
type quantity func(*history, interval) (bad, all float64)

// misses are requests, by the share of their prompt tokens that was not cached.
func misses(h *history, iv interval) (float64, float64) {
	n, asked := h.count(firstTokens, iv), h.increase(lookups, iv)
	if asked <= 0 {
		return 0, 0
	}
	return n * max(0, 1-h.increase(hits, iv)/asked), n
}

// drafted are the tokens that speculation did not give.
func drafted(h *history, iv interval) (float64, float64) {
	n := h.increase(tokensOut, iv)
	return max(0, n-h.increase(accepted, iv)), n
}

// unfilled are first tokens of prompts whose KV came from nowhere else.
func unfilled(h *history, iv interval) (float64, float64) {
	n := h.count(firstTokens, iv)
	return max(0, n-h.increase(transfers, iv)), n
}

// abandoned are requests that began well and did not come to their end.
func abandoned(h *history, iv interval) (float64, float64) {
	began := h.increase(answers+"|2", iv)
	return max(0, began-h.increase(completions, iv)), began
}

// refused returns those of a class among the answers.
func refused(class string) quantity {
	return func(h *history, iv interval) (float64, float64) {
		return h.increase(answers+"|"+class, iv), h.answered(iv)
	}
}

func (h *history) answered(iv interval) float64 {
	return h.increase(answers+"|2", iv) + h.increase(answers+"|4", iv) + h.increase(answers+"|5", iv)
}

// observed turns a run of intervals into what changes are looked for in.
func (h *history) observed(ivs []interval) *changepoint.Series {
	s := &changepoint.Series{}
	n := len(ivs)
	sig := func(kind changepoint.Kind, dispersion float64, values func(to []float64, iv interval) []float64) {
		out := changepoint.Signal{Kind: kind, Dispersion: dispersion, Values: make([][]float64, n)}
		var flat []float64
		for i, iv := range ivs {
			from := len(flat)
			if flat = values(flat, iv); from == 0 {
				flat = slices.Grow(flat, n*len(flat))
			}
			out.Values[i] = flat[from:len(flat):len(flat)]
		}
		s.Signals = append(s.Signals, out)
	}
	cells := func(family string) func([]float64, interval) []float64 {
		return func(to []float64, iv interval) []float64 { return h.cells(to, family, iv, 1) }
	}
	for _, iv := range ivs {
		s.Seconds = append(s.Seconds, h.seconds(iv))
	}
	share := func(of quantity) func([]float64, interval) []float64 {
		return func(to []float64, iv interval) []float64 {
			bad, all := of(h, iv)
			return append(to, bad, all-bad)
		}
	}
	sig(changepoint.Rate, burstiness, func(to []float64, iv interval) []float64 { return append(to, h.count(firstTokens, iv)) })
	sig(changepoint.Rate, burstiness, func(to []float64, iv interval) []float64 { return append(to, h.increase(evictions, iv)) })
	sig(changepoint.Cells, alike, cells(firstTokens))
	sig(changepoint.Cells, lengthsAlike, cells(promptLengths))
	sig(changepoint.Cells, lengthsAlike, cells(answerLengths))
	sig(changepoint.Cells, 1, func(to []float64, iv interval) []float64 {
		if worth := h.gapsWorth(iv); worth > 0 {
			return h.cells(to, tokenGaps, iv, worth)
		}
		return to
	})
	sig(changepoint.Cells, alike, share(misses))
	sig(changepoint.Cells, 1, func(to []float64, iv interval) []float64 {
		return append(to, h.increase(answers+"|2", iv), h.increase(answers+"|4", iv), h.increase(answers+"|5", iv))
	})
	if h.columns[answers+"|2"] != nil {
		sig(changepoint.Cells, 1, share(abandoned))
	}
	if len(h.buckets[firstTokens]) == 0 {
		sig(changepoint.Cells, alike, h.means(firstTokens, ivs, func(interval) float64 { return 1 }))
	}
	if len(h.buckets[tokenGaps]) == 0 {
		sig(changepoint.Cells, 1, h.means(tokenGaps, ivs, h.gapsWorth))
	}
	if h.columns[accepted] != nil {
		sig(changepoint.Cells, stepsAlike, share(drafted))
	}
	for _, rare := range []string{notFetched, notArrived, corrupted} {
		if h.columns[rare] != nil {
			sig(changepoint.Rate, burstiness, func(to []float64, iv interval) []float64 { return append(to, h.increase(rare, iv)) })
		}
	}
	for _, g := range []string{waiting, running} {
		sig(changepoint.Level, queueWanders, func(to []float64, iv interval) []float64 {
			return append(to, h.gaugeAt(g, iv.to))
		})
	}
	return s
}

// gapsWorth is how much of an observation one gap between tokens is, 0 where there is none.
func (h *history) gapsWorth(iv interval) float64 {
	gaps := h.count(tokenGaps, iv)
	if gaps <= 0 {
		return 0
	}
	worth := gaps / stepsAlike
	if st := h.increase(steps, iv); st > 0 {
		worth = st / stepsAlike
	}
	requests := requestsTwice*h.count(firstTokens, iv) + max(0, zeroNaN(h.gaugeAt(running, iv.to)))*h.seconds(iv)/10
	return min(1, min(worth, requests)/gaps)
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

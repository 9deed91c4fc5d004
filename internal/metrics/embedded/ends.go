package embedded

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Prometheus that scrapes a page without a series, or cannot scrape it, ends the series with a staleness marker, and
// so it ends all series of a target that it no longer scrapes. The HTTP API does not show the markers, but it shows the
// samples of up: each scrape writes one, with the time that the page's samples have. So a series ended at the first
// scrape of its target that brought no sample of it, or with its target. A target ended where an instant query for up
// no longer returns it. This file marks these ends.
//
// Federation, and some scrapers, write up but no markers. So ends count only after the server, asked for a series of
// the target at such an end, did not return it. Ends are unknown, and the server answers, where a sample does not have the
// time of a scrape (no up has its labels, or exporters write timestamps), where a target had a pause during which no
// evaluation saw it end, and while a missing sample may still arrive.

// upMetric is the metric that each scrape writes.
const upMetric = "up"

// writtenWithin is how long, in ms, the samples of one scrape usually take to arrive, its up first or last: remote
// writes are sent in shards, each after at most five seconds. Until then nothing is missing.
const writtenWithin = 10_000

// endsMatter lists the functions of samples whose result depends on the end of a series.
var endsMatter = []string{
	"", indicator.FirstSeen, indicator.LastTrue, indicator.LastZero, indicator.LastMoved, indicator.HeldLast,
}

// An origin is known by its up, each sample of which is a scrape.
type origin struct {
	up       *recentSeries // nil if the cache no longer has it
	liveAt   int64         // the last evaluation at which the server returned up
	marked   bool          // the server did not return a series of the target that had ended
	askAfter int64         // the evaluation after which the server is asked for such a series again
}

// targets finds targets by their labels.
type targets struct {
	interval int64 // the usual time between two scrapes, in ms
	index    []labelIndex
}

// A labelIndex finds targets with the same names of labels by the hash of their values.
type labelIndex struct {
	names  []string // sorted
	byHash map[uint64]*origin
}

// rebuildIndex indexes the targets of the series of up.
func (ts *targets) rebuildIndex(f *family) {
	for _, i := range ts.index {
		for _, t := range i.byHash {
			t.up = nil
		}
	}
	ts.index = nil
	for _, s := range f.series {
		if s.origin == nil {
			s.origin = &origin{}
		}
		s.origin.up = s
		var names []string
		s.lset.Range(func(l labels.Label) {
			if l.Name != labels.MetricName {
				names = append(names, l.Name)
			}
		})
		i := slices.IndexFunc(ts.index, func(i labelIndex) bool { return slices.Equal(i.names, names) })
		if i < 0 {
			i = len(ts.index)
			ts.index = append(ts.index, labelIndex{names, map[uint64]*origin{}})
		}
		hash, _ := s.lset.HashForLabels(nil, names...)
		ts.index[i].byHash[hash] = s.origin
	}
}

// findTarget returns the target that a series was scraped from; nil without one.
func (ts *targets) findTarget(lset labels.Labels) *origin {
	var buf []byte
	for _, i := range ts.index {
		var hash uint64
		hash, buf = lset.HashForLabels(buf[:0], i.names...)
		if t := i.byHash[hash]; t != nil {
			return t
		}
	}
	return nil
}

// markTargets marks the ends of targets, in the series of up. live are the hashes of those that the server returns now.
// A scraper that no longer scrapes a target writes its marker within 2.5 intervals, with the time of the first scrape
// that it left out.
func (r *recent) markTargets(f *family, live map[uint64]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets.rebuildIndex(f)
	for _, s := range f.series {
		t, isLive := s.origin, live[s.lset.Hash()]
		for i := max(0, s.upTo(t.liveAt)-1); i < len(s.points); i++ {
			at, last := s.points[i].T, i+1 == len(s.points)
			interval := r.targets.intervalBefore(s, i)
			markedBy := at + interval*5/2
			switch {
			case len(s.stale) > 0 && s.stale[len(s.stale)-1] > at || t.liveAt >= markedBy+writtenWithin:
			case last && !isLive && r.newest < at+r.lookback:
				s.recordEnd(min(at+interval, r.newest))
			case last && !isLive || !last && s.points[i+1].T > markedBy:
				s.endsFrom = at
			}
		}
		if s.endsUntil = math.MaxInt64; isLive {
			t.liveAt = r.newest
		}
	}
}

// intervalBefore returns the usual time, in ms, between the scrapes up to one of them.
func (ts *targets) intervalBefore(up *recentSeries, i int) int64 {
	var gaps []int64
	for j := max(1, i-6); j <= i; j++ {
		gaps = append(gaps, up.points[j].T-up.points[j-1].T)
	}
	if len(gaps) == 0 {
		return ts.interval
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// markSeries marks the ends of a family's series after a time, by the scrapes of their targets.
func (r *recent) markSeries(f *family, since int64) {
	if f.metric == upMetric {
		return
	}
	for _, s := range f.series {
		since := since
		if s.origin == nil || s.origin.up == nil {
			s.origin, since = r.targets.findTarget(s.lset), math.MinInt64
		}
		if s.origin != nil {
			r.markEnds(s, since)
		}
	}
}

// markEnds marks the ends of a series after a time, and where they are unknown. What is unknown of the last minute is
// known at the next evaluation.
func (r *recent) markEnds(s *recentSeries, since int64) {
	s.stale = slices.DeleteFunc(s.stale, func(t int64) bool { return t > since })
	if s.endsUntil = math.MaxInt64; s.endsFrom > since {
		s.endsFrom = 0
	}
	first := max(0, s.upTo(since)-1)
	if first >= len(s.points) {
		return
	}
	markEnd := func(t int64) {
		if len(s.stale) == 0 || s.stale[len(s.stale)-1] < t {
			s.recordEnd(t)
		}
	}
	settled, late := r.newest-metrics.Arrival.Milliseconds(), r.newest-writtenWithin
	scrapes, ended := s.origin.up.points, s.origin.up.stale
	k := s.origin.up.upTo(s.points[first].T - 1)
	for i := first; i < len(s.points); i++ {
		at, next, scrape := s.points[i].T, int64(math.MaxInt64), int64(math.MaxInt64)
		if i+1 < len(s.points) {
			next = s.points[i+1].T
		}
		for k < len(scrapes) && scrapes[k].T < at {
			k++
		}
		for len(ended) > 0 && ended[0] <= at {
			ended = ended[1:]
		}
		if k+1 < len(scrapes) {
			scrape = scrapes[k+1].T
		}
		switch {
		case k == len(scrapes) && at > late: // its up is not here yet
		case (k == len(scrapes) || scrapes[k].T != at) && at <= settled:
			s.endsFrom = at
		case k == len(scrapes) || scrapes[k].T != at:
			s.endsUntil = min(s.endsUntil, at)
		case len(ended) > 0 && ended[0] < min(next, scrape):
			markEnd(ended[0])
		case scrape >= next || scrape > late && scrapes[k+1].F > 0:
		case scrape > settled && scrapes[k+1].F > 0:
			s.endsUntil = min(s.endsUntil, at)
		default:
			markEnd(scrape)
		}
	}
}

// endsKnown reports whether the ends of a mirrored series after its samples in (from, until] are known.
func (s *recentSeries) endsKnown(from, until int64) bool {
	t, known := s.origin, false
	if t != nil && t.up != nil && (t.marked || t.up == s || len(s.stale) == 0 || s.stale[len(s.stale)-1] <= from) {
		unknown := max(s.endsFrom, t.up.endsFrom)
		known = (unknown <= from || len(s.samplesBetween(from, min(unknown, until))) == 0) &&
			(s.endsUntil > until || len(s.samplesBetween(max(from, s.endsUntil-1), until)) == 0)
	}
	return known || len(s.samplesBetween(from, until)) == 0
}

// knowsEnds reports whether the ends of series after their samples in (from, until] are known.
func (r *recent) knowsEnds(c *choice, from, until int64) bool {
	return r.db != nil || !slices.ContainsFunc(c.series, func(s *recentSeries) bool { return !s.endsKnown(from, until) })
}

// takeDoubtedEnds returns one series of each target about whose markers the server must be asked, and a time at which
// all of them had ended.
func (r *recent) takeDoubtedEnds(f *family) (at int64, doubted []*recentSeries) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isDoubted := func(s *recentSeries) bool {
		t := s.origin
		return f.metric != upMetric && len(s.stale) > 0 && t != nil && !t.marked && t.askAfter < r.newest
	}
	for _, s := range f.series {
		if isDoubted(s) {
			at = max(at, s.stale[len(s.stale)-1])
		}
	}
	for _, s := range f.series {
		if len(doubted) < mostReturned && isDoubted(s) && len(s.samplesBetween(at-r.lookback, at)) > 0 {
			if _, shown := s.sampleAt(at, r.lookback); !shown {
				s.origin.askAfter = r.newest
				doubted = append(doubted, s)
			}
		}
	}
	return at, doubted
}

// settleDoubts concludes from the hashes of the series that the server returned at a time which targets have markers.
func (r *recent) settleDoubts(at int64, doubted []*recentSeries, returned map[uint64]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range doubted {
		s.origin.marked = !returned[s.lset.Hash()]
		if !s.origin.marked && at <= r.newest-metrics.Arrival.Milliseconds() {
			s.origin.askAfter = r.newest + sweepEvery
		}
	}
}

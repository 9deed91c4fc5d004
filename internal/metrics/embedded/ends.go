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
// samples of up: each scrape writes one, with the time that the page's samples have. So all series of a target ended at
// a scrape that failed, or with the target, which ended where an instant query for up no longer returns it. This file
// marks these ends.
//
// Federation, and some scrapers, write up but no markers. So ends count only after the server, asked for a series of
// the target at such an end, did not return it. Ends are unknown, and the server answers, where a sample does not have
// the time of a scrape (no up has its labels, or exporters write timestamps), where a scrape brought no sample of a
// series (it ended, or the sample was lost), and where a target had a pause during which no evaluation saw it end.

// upMetric is the metric that each scrape writes.
const upMetric = "up"

// writtenWithin is how long, in ms, the samples of one scrape usually take to arrive, its up first or last: remote
// writes are sent in shards, each after at most five seconds. Until then nothing is missing.
const writtenWithin = 10_000

// endsMatter lists the functions of samples whose result depends on the end of a series.
var endsMatter = []string{
	"", indicator.FirstSeen, indicator.LastTrue, indicator.LastZero, indicator.LastMoved, indicator.HeldLast,
}

// An origin is a target, each sample of whose up is a scrape.
type origin struct {
	up       *recentSeries // without samples if the cache no longer has it
	liveAt   int64         // the last evaluation at which the server returned up
	marked   bool          // the server did not return a series of the target that had ended
	askAfter int64         // the evaluation after which the server is asked for such a series again
}

// originOf returns the target that a series was scraped from, whose labels the series has; nil without one.
func (r *recent) originOf(s *recentSeries) *origin {
	for _, up := range r.ups[s.instanceID] {
		differs := false
		up.lset.Range(func(l labels.Label) {
			differs = differs || l.Name != labels.MetricName && s.lset.Get(l.Name) != l.Value
		})
		if !differs {
			return up.origin
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
	r.ups = map[int32][]*recentSeries{}
	for _, s := range f.series {
		r.ups[s.instanceID] = append(r.ups[s.instanceID], s)
		if s.origin == nil {
			s.origin = &origin{up: s}
		}
		t, isLive := s.origin, live[s.lset.Hash()]
		for i := max(0, s.upTo(t.liveAt)-1); i < len(s.points); i++ {
			at, last := s.points[i].T, i+1 == len(s.points)
			interval := r.intervalBefore(s, i)
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
func (r *recent) intervalBefore(up *recentSeries, i int) int64 {
	var gaps []int64
	for j := max(1, i-6); j <= i; j++ {
		gaps = append(gaps, up.points[j].T-up.points[j-1].T)
	}
	if len(gaps) == 0 {
		return r.interval
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
		if s.origin == nil || len(s.origin.up.points) == 0 {
			s.origin, since = r.originOf(s), math.MinInt64
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
	doubt := func(at int64) {
		if at <= r.newest-metrics.Arrival.Milliseconds() {
			s.endsFrom = at
		} else {
			s.endsUntil = min(s.endsUntil, at)
		}
	}
	late := r.newest - writtenWithin
	scrapes, ended := s.origin.up.points, s.origin.up.stale
	k := s.origin.up.upTo(s.points[first].T - 1)
	for i := first; i < len(s.points); i++ {
		at, next, scrape := s.points[i].T, s.family.completeUntil+1, int64(math.MaxInt64)
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
		case k == len(scrapes) || scrapes[k].T != at:
			doubt(at)
		case len(ended) > 0 && ended[0] < min(next, scrape):
			markEnd(ended[0])
		case scrape >= next:
		case scrapes[k+1].F == 0:
			markEnd(scrape)
		case scrape <= late: // the page lacks it, or its sample was lost on the way
			doubt(at)
		}
	}
}

// endsKnown reports whether the ends of a mirrored series after its samples in (from, until] are known.
func (s *recentSeries) endsKnown(from, until int64) bool {
	if len(s.samplesBetween(from, until)) == 0 {
		return true
	}
	t := s.origin
	if t == nil || len(t.up.points) == 0 || s.endsUntil <= until && s.upTo(s.endsUntil-1) < s.upTo(until) {
		return false
	}
	confirmed := t.marked || t.up == s || len(s.stale) == 0 || s.stale[len(s.stale)-1] <= from
	return confirmed && s.upTo(min(max(s.endsFrom, t.up.endsFrom), until)) <= s.upTo(from)
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

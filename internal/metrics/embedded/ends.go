package embedded

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Prometheus that scrapes a page without a series, or cannot scrape it, ends the series with a staleness marker, and so
// it ends all series of a target that it no longer scrapes. The HTTP API does not show the markers, but it shows the
// samples of up: each scrape writes one, with the time that the page's samples have. So a series ended at the first
// scrape of its target that brought no sample of it, or with its target. A target ended where an instant query for up
// no longer returns it. This file marks the ends of mirrored series. Ends are unknown where no up has a series' labels
// (remote writes of a collector), and where its samples have times of their own (exporters that write timestamps), for
// which Prometheus writes no markers.

// up is the metric that each scrape writes.
const up = "up"

// writtenWithin is how long, in ms, the samples of one scrape may take to arrive after its up: remote writes are sent in
// shards, each after at most five seconds.
const writtenWithin = 10_000

// missedAfter is the number of half intervals after which a target without another scrape is no longer scraped.
const missedAfter = 5

// endsMatter lists the functions of samples whose result depends on the end of a series.
var endsMatter = []string{
	"", indicator.FirstSeen, indicator.LastTrue, indicator.LastZero, indicator.LastMoved, indicator.HeldLast,
}

// ends find the ends of series.
type ends struct {
	interval int64 // between two scrapes, in ms
	targets  []targetIndex
}

// A targetIndex finds the up of a target by the hash of its labels.
type targetIndex struct {
	names  []string // of the labels, sorted
	byHash map[uint64]*recentSeries
}

// indexTargets indexes the series of up by their labels.
func (e *ends) indexTargets(f *family) {
	e.targets = nil
	for _, s := range f.series {
		var names []string
		s.lset.Range(func(l labels.Label) {
			if l.Name != labels.MetricName {
				names = append(names, l.Name)
			}
		})
		i := slices.IndexFunc(e.targets, func(t targetIndex) bool { return slices.Equal(t.names, names) })
		if i < 0 {
			i = len(e.targets)
			e.targets = append(e.targets, targetIndex{names, map[uint64]*recentSeries{}})
		}
		hash, _ := s.lset.HashForLabels(nil, names...)
		e.targets[i].byHash[hash] = s
	}
}

// findTarget returns the up of the target that a series was scraped from; nil without one.
func (e *ends) findTarget(lset labels.Labels) *recentSeries {
	var buf []byte
	for _, t := range e.targets {
		var hash uint64
		hash, buf = lset.HashForLabels(buf[:0], t.names...)
		if s := t.byHash[hash]; s != nil {
			return s
		}
	}
	return nil
}

// markTargets marks the ends of targets, the series of up. live are the hashes of those that the server sees now. A
// target that had a pause which was over before it could be asked for is taken to have ended in between.
func (r *recent) markTargets(f *family, live map[uint64]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends.indexTargets(f)
	for _, s := range f.series {
		missed, until := r.ends.missedSince(s), r.newest
		for i := s.upTo(s.liveUntil - missed); i < len(s.points); i++ {
			end := s.points[i].T + missed
			switch last := i+1 == len(s.points); {
			case !last && end > s.liveUntil && end < s.points[i+1].T:
				s.recordEnd(end)
			case last && !live[s.lset.Hash()]:
				until = min(end, r.newest)
				s.recordEnd(until)
			}
		}
		s.endsKnown, s.liveUntil = true, until
	}
}

// markSeries marks the ends of a family's series after a time, by those of their targets.
func (r *recent) markSeries(f *family, since int64) {
	if f.metric == up {
		return
	}
	for _, s := range f.series {
		target := r.ends.findTarget(s.lset)
		s.endsKnown = target != nil && r.markEnds(s, target, since)
	}
}

// markEnds marks the ends of a series after a time. It reports false if samples have other times than their target's
// scrapes.
func (r *recent) markEnds(s, target *recentSeries, since int64) bool {
	s.stale = slices.DeleteFunc(s.stale, func(t int64) bool { return t > since })
	markEnd := func(t int64) {
		if len(s.stale) == 0 || s.stale[len(s.stale)-1] < t {
			s.recordEnd(t)
		}
	}
	first := max(0, s.upTo(since)-1)
	if first >= len(s.points) {
		return true
	}
	scrapes, ended := target.points, target.stale
	k := target.upTo(s.points[first].T - 1)
	for i := first; i < len(s.points); i++ {
		at, next := s.points[i].T, int64(math.MaxInt64)
		if i+1 < len(s.points) {
			next = s.points[i+1].T
		}
		for k < len(scrapes) && scrapes[k].T < at {
			k++
		}
		for len(ended) > 0 && ended[0] <= at {
			ended = ended[1:]
		}
		switch {
		case k == len(scrapes) || scrapes[k].T != at:
			return false
		case len(ended) > 0 && ended[0] < next && (k+1 == len(scrapes) || ended[0] < scrapes[k+1].T):
			markEnd(ended[0])
		case k+1 < len(scrapes) && scrapes[k+1].T < next:
			if without := scrapes[k+1]; without.F == 0 || without.T <= r.newest-writtenWithin {
				markEnd(without.T)
			}
		}
	}
	return true
}

// missedSince returns how long after a scrape, in ms, a target without another one is no longer scraped.
func (e *ends) missedSince(target *recentSeries) int64 {
	last := target.points[max(0, len(target.points)-8):]
	gaps := make([]int64, 0, 8)
	for i := 1; i < len(last); i++ {
		gaps = append(gaps, last[i].T-last[i-1].T)
	}
	usual := e.interval
	if slices.Sort(gaps); len(gaps) > 0 {
		usual = max(usual, gaps[len(gaps)/2])
	}
	return missedAfter * usual / 2
}

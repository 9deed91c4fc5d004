package diagnose

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose/changepoint"
)

// A Segment is a part of a Timeline: pages in which nothing changed, a time in which two
// scrapes in a row failed or more, or one before the server first answered. It begins where
// something changed for good, where counters began again at zero, or with an outage or its end.
type Segment struct {
	// Range is from the last scrape that surely lies before what began with it, to the last
	// scrape in it; the interval that holds a change belongs to neither side.
	Range

	run     run     // the intervals between its pages; none of an outage
	service service // how users were served in it
}

// A Timeline is what one target did in the past at hand: its segments in the order of
// time. Windows, baselines and onsets are read from it.
type Timeline []Segment

// answeredSegments returns the segments that hold pages.
func (t Timeline) answeredSegments() []Segment {
	return slices.DeleteFunc(slices.Clone(t), func(s Segment) bool { return len(s.run) == 0 })
}

// isDivided reports whether something changed, or came to an end, among the pages.
func (t Timeline) isDivided() bool { return len(t.answeredSegments()) > 1 }

// A run is intervals between pages that follow each other.
type run []interval

func (h *history) spanOf(r run) Range {
	return Range{h.at[r[0].from].Add(-edge), h.at[r[len(r)-1].to]}
}

// divideHistory divides a history: at outages, at restarts, and where something changed.
func (h *history) divideHistory() (out Timeline) {
	var life run
	end := func() { out, life = h.divideRun(out, life), nil }
	without := func(from, to time.Time) { out = append(out, Segment{Range: Range{from, to}}) }
	last, n := -1, len(h.at) // the last page
	for k := range h.at {
		switch {
		case !h.ok[k]:
			continue
		case last < 0 && k > 0:
			without(h.at[0].Add(-edge), h.at[k])
		case last >= 0 && k > last+2 && !h.timedOut(last, k):
			end()
			without(h.at[last], h.at[k])
		case last >= 0 && h.restartedBetween(last, k):
			end()
		case last >= 0:
			life = append(life, interval{last, k})
		}
		last = k
	}
	end()
	if n > 0 && last < 0 {
		without(h.at[0].Add(-edge), h.at[n-1])
	} else if last >= 0 && n > last+2 {
		without(h.at[last], h.at[n-1])
	}
	return out
}

// divideRun appends the segments between two restarts or outages.
func (h *history) divideRun(to Timeline, life run) Timeline {
	add := func(r run) {
		if len(r) > 0 {
			to = append(to, Segment{Range{h.at[r[0].from], h.at[r[len(r)-1].to]}, r, h.serviceIn(r)})
		}
	}
	if len(life) == 0 {
		return to
	}
	from := 0
	for _, c := range changepoint.Find(h.observedSeries(life)) {
		if c.Before > from {
			add(life[from:c.Before])
		}
		from = c.After
	}
	quiet := len(life) - h.idleTail(life[from:])
	add(life[from:quiet])
	add(life[quiet:])
	return to
}

// silence is how long nothing must happen for the time before to be over; less if so many requests should have come
// that chance is excluded.
const (
	silence  = 14 * time.Second
	expected = 5
)

// idleTail returns how many intervals at the end of a run were without any work, 0 where
// they are too short to say.
func (h *history) idleTail(s run) int {
	n := 0
	for n < len(s) {
		iv := s[len(s)-1-n]
		if h.increase(tokensOut, iv)+h.countOf(firstTokens, iv) > 0 || !(h.gaugeAt(running, iv.to)+h.gaugeAt(waiting, iv.to) == 0) {
			break
		}
		n++
	}
	if n == 0 {
		return 0
	}
	before, after := s[:len(s)-n], h.spanOf(s[len(s)-n:]).Length()
	if after >= silence {
		return n
	}
	if len(before) > 0 && after >= minHistory {
		if v := h.serviceIn(before); v.requests/v.seconds*after.Seconds() >= expected {
			return n
		}
	}
	return 0
}

package segments

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose/changepoint"
)

// A Segment is a part of a Timeline: pages in which nothing changed, a time in which at least two scrapes in a row
// failed, or the time before the server first answered. It begins where something changed for good, where counters were
// reset, or with an outage or its end.
type Segment struct {
	// The period is from the last scrape that surely lies before the change that began the segment, to the last scrape
	// in it. The interval that holds a change belongs to neither side.
	period.Period

	run     run     // the intervals between its pages; empty for an outage
	service service // how users were served in it
}

// A Timeline holds the segments of one target's past, in the order of time. Windows, baselines and onsets are read from
// it.
type Timeline []Segment

// answeredSegments returns the segments that hold pages.
func (t Timeline) answeredSegments() []Segment {
	return slices.DeleteFunc(slices.Clone(t), func(s Segment) bool { return len(s.run) == 0 })
}

// IsDivided reports whether something changed, or came to an end, among the pages.
func (t Timeline) IsDivided() bool { return len(t.answeredSegments()) > 1 }

func (h *History) spanOf(r run) period.Period {
	return period.Period{From: h.at[r[0].from].Add(-Edge), To: h.at[r[len(r)-1].to]}
}

// divideHistory divides a history: at outages, at restarts, and where something changed.
func (h *History) divideHistory(l Limits) (out Timeline) {
	var life run
	end := func() { out, life = h.divideRun(out, life), nil }
	addOutage := func(from, to time.Time) { out = append(out, Segment{Period: period.Period{From: from, To: to}}) }
	last, n := -1, len(h.at) // the last page
	for k := range h.at {
		switch {
		case !h.ok[k]:
			continue
		case last < 0 && k > 0:
			addOutage(h.at[0].Add(-Edge), h.at[k])
		case last >= 0 && k > last+2 && !h.timedOut(l, last, k):
			end()
			addOutage(h.at[last], h.at[k])
		case last >= 0 && h.restartedBetween(last, k):
			end()
		case last >= 0:
			life = append(life, interval{last, k})
		}
		last = k
	}
	end()
	if n > 0 && last < 0 {
		addOutage(h.at[0].Add(-Edge), h.at[n-1])
	} else if last >= 0 && n > last+2 {
		addOutage(h.at[last], h.at[n-1])
	}
	return out
}

// divideRun appends the segments between two restarts or outages.
func (h *History) divideRun(to Timeline, life run) Timeline {
	add := func(r run) {
		if len(r) > 0 {
			to = append(to, Segment{period.Period{From: h.at[r[0].from], To: h.at[r[len(r)-1].to]}, r, h.serviceIn(r)})
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

// minHistory is the shortest history that makes a baseline.
const minHistory = 9 * time.Second

// silence is how long a server must be idle before that time is a segment of its own. A shorter time is enough if as
// many requests as expected should have come in it.
const (
	silence  = 14 * time.Second
	expected = 5
)

// idleTail returns how many intervals at the end of a run were without any work; 0 if they are too short to tell.
func (h *History) idleTail(s run) int {
	n := 0
	for n < len(s) {
		iv := s[len(s)-1-n]
		if h.increase(tokensOut, iv)+h.countOf(firstTokens, iv) > 0 ||
			!(h.gaugeAt(running, iv.to)+h.gaugeAt(waiting, iv.to) == 0) {
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

// maxSilence returns how long scrapes may fail while the server is thought to be there. It is longer if they failed and
// succeeded before, or if the last scrape timed out.
func (h *History) maxSilence(l Limits) time.Duration {
	n := len(h.ok)
	if n > 0 && !h.ok[n-1] && h.gaugeAt(scrapeTook, n-1) >= l.Value(catalog.Refused, 0) {
		return l.Seconds(catalog.LongUnheard)
	}
	for k := 1; k < n; k++ {
		if h.ok[k] && !h.ok[k-1] && h.at[n-1].Sub(h.at[k]) < flapping && !h.restartedAt(k) {
			return l.Seconds(catalog.LongUnheard)
		}
	}
	return l.Seconds(catalog.Unheard)
}

// timedOut reports whether the scrapes between two pages failed because the page was slow, and for no longer than a
// slow page may take.
func (h *History) timedOut(l Limits, last, next int) bool {
	for k := last + 1; k < next; k++ {
		if !(h.gaugeAt(scrapeTook, k) >= l.Value(catalog.Refused, 0)) {
			return false
		}
	}
	return h.at[next].Sub(h.at[last]) < l.Seconds(catalog.LongUnheard)
}

// flapping is the time that indicator.Flaps looks at.
const flapping = 10 * time.Minute

// restartedAt reports whether the page that came after failed scrapes is of another process.
func (h *History) restartedAt(k int) bool {
	before := h.pageUpTo(k - 1)
	return before < 0 || h.restartedBetween(before, k) // or it never answered before
}

// lateButThere reports whether the last scrapes failed and the server is thought to be there all the same: a single
// failure may be a hiccup; several are a slow page, up to maxSilence.
func (h *History) lateButThere(l Limits) bool {
	n := len(h.ok)
	if n < 2 || h.ok[n-1] || h.failingFor() == 0 {
		return false
	}
	return h.ok[n-2] || h.failingFor() < h.maxSilence(l) && h.maxSilence(l) > l.Seconds(catalog.Unheard)
}

// failingFor returns how long ago the last good scrape was when the last one failed.
func (h *History) failingFor() time.Duration {
	if k := h.pageUpTo(len(h.at) - 1); k >= 0 {
		return h.at[len(h.at)-1].Sub(h.at[k])
	}
	return 0
}

// isAnswering reports whether the last scrapes brought pages: one that failed may be a
// hiccup, two are not.
func (h *History) isAnswering() bool {
	n := len(h.ok)
	return n > 0 && (h.ok[n-1] || n > 1 && h.ok[n-2])
}

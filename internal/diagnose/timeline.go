package diagnose

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/changepoint"
)

// Kind says what a segment of a Timeline is, and what divides it from the one before.
type Kind uint8

// The kinds of segments.
const (
	// Steady is the beginning of the observation, or what goes on after an outage as if
	// nothing had been: the process is the same.
	Steady Kind = iota
	// Changed begins where what the server did or was asked changed for good: Segment.By
	// names what changed most.
	Changed
	// Outage is a server that answered and does not: two scrapes in a row failed, or more.
	Outage
	// Restart begins where counters began again at zero.
	Restart
	// Starting is a server that was discovered and has not answered yet.
	Starting
)

func (k Kind) String() string {
	return [...]string{"steady", "changed", "outage", "restart", "starting"}[k]
}

// A Segment is a part of a Timeline in which nothing changed.
type Segment struct {
	Kind Kind
	// Range is from the last scrape that surely lies before what began with it, to the last
	// scrape in it; the interval that holds a change belongs to neither side.
	Range
	By string // what changed most, where Kind is Changed

	run     run     // the intervals between its pages; none of an outage
	service service // what users got in it
}

// A Timeline is what one target did in the past at hand: its segments in the order of
// time. Windows, baselines and onsets are read from it.
type Timeline []Segment

// answered returns the segments that hold pages.
func (t Timeline) answered() []Segment {
	return slices.DeleteFunc(slices.Clone(t), func(s Segment) bool { return len(s.run) == 0 })
}

// divided reports whether something changed, or came to an end, among the pages.
func (t Timeline) divided() bool { return len(t.answered()) > 1 }

// A run is intervals between pages that follow each other.
type run []interval

func (h *history) span(r run) Range {
	return Range{h.at[r[0].from].Add(-edge), h.at[r[len(r)-1].to]}
}

// timeline divides a history: at outages, at restarts, and where something changed.
func (h *history) timeline() Timeline {
	var out Timeline
	var life run
	kind := Steady // of the life's first segment
	end := func(next Kind) {
		if len(life) > 0 {
			out = h.divide(out, kind, life)
		}
		life, kind = nil, next
	}
	last := -1 // the last page
	for k := range h.at {
		switch {
		case !h.ok[k]:
			continue
		case last < 0 && k > 0:
			out = append(out, Segment{Kind: Starting, Range: Range{h.at[0].Add(-edge), h.at[k]}})
		case last >= 0 && k > last+2 && !h.timedOut(last, k):
			end(Steady)
			out = append(out, Segment{Kind: Outage, Range: Range{h.at[last], h.at[k]}})
			if h.reset(last, k) {
				kind = Restart
			}
		case last >= 0 && h.reset(last, k):
			end(Restart)
		case last >= 0:
			life = append(life, interval{last, k})
		}
		last = k
	}
	end(Steady)
	if n := len(h.at); n > 0 && last < 0 {
		out = append(out, Segment{Kind: Starting, Range: Range{h.at[0].Add(-edge), h.at[n-1]}})
	} else if last >= 0 && n > last+2 {
		out = append(out, Segment{Kind: Outage, Range: Range{h.at[last], h.at[n-1]}})
	}
	return out
}

// divide appends the segments of a life: of what lies between two restarts or outages.
func (h *history) divide(to Timeline, kind Kind, life run) Timeline {
	add := func(s Segment, r run) {
		if len(r) > 0 {
			s.run, s.service = r, h.service(r)
			s.From, s.To = h.at[r[0].from], h.at[r[len(r)-1].to]
			to = append(to, s)
			kind = Changed
		}
	}
	from, by := 0, ""
	for _, c := range changepoint.Find(h.observed(life), changepoint.Usual) {
		if c.Before > from {
			add(Segment{Kind: kind, By: by}, life[from:c.Before])
		}
		from, by = c.After, c.By
	}
	quiet := len(life) - h.quiet(life[from:])
	add(Segment{Kind: kind, By: by}, life[from:quiet])
	add(Segment{Kind: kind, By: "traffic ended"}, life[quiet:])
	return to
}

// silence is how long nothing must have happened for what came before it to be over;
// less where so many requests should have come meanwhile that chance is no reason.
const (
	silence  = 14 * time.Second
	expected = 5
)

// quiet returns how many intervals at the end of a run were without any work, 0 where
// they are too short to say.
func (h *history) quiet(s run) int {
	n := 0
	for n < len(s) {
		iv := s[len(s)-1-n]
		if h.rise(tokensOut, iv)+h.count(firstTokens, iv) > 0 || !(h.look(running, iv.to)+h.look(waiting, iv.to) == 0) {
			break
		}
		n++
	}
	if n == 0 {
		return 0
	}
	before, after := s[:len(s)-n], h.span(s[len(s)-n:]).Length()
	if after >= silence {
		return n
	}
	if len(before) > 0 && after >= minHistory {
		if v := h.service(before); v.requests/v.seconds*after.Seconds() >= expected {
			return n
		}
	}
	return 0
}

package diagnose

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// scraped is a history, a scrape every ten seconds: ten requests come in each interval, each
// with its first token in time, unless late says how many of them; evicted and failed say
// what happened in the interval before a scrape.
func scraped(n int, late, evicted func(i int) float64, failed func(i int) bool) *history {
	h := &history{}
	h.buckets[firstTokens] = []bound{{le: 1}, {le: math.Inf(1)}}
	var in, all, gone float64
	for i := range n {
		all += 10
		in += 10 - late(i)
		gone += evicted(i)
		h.at = append(h.at, time.Unix(int64(10_000+10*i), 0))
		for c, v := range map[*[]float64]float64{
			&h.buckets[firstTokens][0].upTo: in, &h.buckets[firstTokens][1].upTo: all, &h.columns[firstTokens.count()]: all,
			&h.columns[tokensOut]: 100 * all, &h.columns[evictions]: gone, &h.columns[running]: 5, &h.columns[waiting]: 0,
		} {
			if failed(i) {
				v = math.NaN()
			}
			*c = append(*c, v)
		}
	}
	h.markPages()
	return h
}

// A condition began when all of it did: a queue that was there before the evictions is not
// thrashing yet. What a history does not show has no say; an outage begins after the last
// good scrape, though the server was restarted before.
func TestOnset(t *testing.T) {
	from := func(k int, v float64) func(int) float64 {
		return func(i int) float64 {
			if i > k {
				return v
			}
			return 0
		}
	}
	never := func(int) bool { return false }
	limit := &catalog.Threshold{Name: "any", Default: 0.001}
	late, evicted := catalog.Above(indicator.TTFTP95, limit), catalog.Above(indicator.Preemptions, limit)
	unseen, down := catalog.Above(indicator.KVUsagePeak, limit), catalog.Below(indicator.UpNow, &catalog.Threshold{Name: "one", Default: 2})
	young := catalog.Below(indicator.ServingAge, &catalog.Threshold{Name: "age", Default: 2})
	for name, tt := range map[string]struct {
		h       *history
		cond    catalog.Cond
		want    int // scrape
		atLeast bool
	}{
		"all, when the last part began":        {scraped(40, from(20, 8), from(32, 30), never), catalog.All(late, evicted, unseen), 32, false},
		"any, when the first part began":       {scraped(40, from(20, 8), from(32, 30), never), catalog.Any(late, evicted), 20, false},
		"as normal is in between":              {scraped(40, func(i int) float64 { return from(30, 8)(i) + from(10, 8)(i) - from(18, 8)(i) }, from(40, 0), never), late, 30, false},
		"an outage":                            {scraped(40, from(40, 0), from(40, 0), func(i int) bool { return i > 35 || i > 10 && i < 15 }), down, 35, false},
		"a first start":                        {scraped(40, from(40, 0), from(40, 0), func(i int) bool { return i < 30 }), young, 29, false},
		"nothing that a history shows changed": {scraped(40, from(40, 0), from(40, 0), never), unseen, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Snapshot{At: tt.h.at[39], Targets: make([]Target, 1), Spans: make([]Span, 1), readings: []readings{make(readings, len(indicator.All()))}}
			for _, sig := range []*indicator.Signal{indicator.TTFTP95, indicator.Preemptions, indicator.KVUsagePeak, indicator.UpNow, indicator.ServingAge} {
				*s.readings[0].of(sig) = reading{now: indicator.Known(1)}
			}
			var normal, now run
			for k := range 9 {
				normal = append(normal, interval{k, k + 1})
			}
			s.Spans[0] = Span{Observed: tt.h.at[0], course: tt.h.courseOf(normal, now)}
			got := newView(s, 0, part{}, Settings{}).onsetOfCondition(&catalog.Pathology{}, tt.cond)
			if want := tt.h.at[tt.want]; !got.At.Equal(want) || got.AtLeast != tt.atLeast {
				t.Errorf("since %s (at least: %v), want %s (%v)", got.At.Sub(want), got.AtLeast, want, tt.atLeast)
			}
		})
	}
}

// A fault is over when what came last is as when all was normal, or is much nearer to that than to
// one fault with what came before it in the window. One that became milder is not, nor one of which too little came
// to tell.
func TestWhatIsOver(t *testing.T) {
	never := func(int) bool { return false }
	limit := &catalog.Threshold{Name: "any", Default: 0.001}
	then := func(late ...float64) func(int) float64 { // from scrape 30 on, ten requests each
		return func(i int) float64 { return late[max(0, min(i-30, len(late)-1))] }
	}
	for name, tt := range map[string]struct {
		late func(int) float64
		over bool
	}{
		"it goes on": {then(0, 8, 8, 8, 8, 8, 8, 8, 8, 8), false},
		"it goes on, and by chance a little less": {then(0, 8, 8, 8, 8, 8, 8, 8, 5, 6), false},
		"it has just begun":                       {then(0, 0, 0, 0, 0, 0, 0, 0, 0, 8), false},
		"it ended two scrapes ago":                {then(0, 8, 8, 8, 8, 8, 8, 8, 0, 0), true},
		"only the window's beginning is left":     {then(0, 8, 8, 8, 8, 8, 3, 0, 0, 0), true},
		"a fifth is left, and none was normal":    {then(0, 10, 10, 10, 10, 10, 10, 2, 2, 2), false},
		"it comes and goes":                       {then(0, 8, 0, 0, 8, 0, 0, 8, 0, 0), false},
		"it is milder since before the window":    {then(0, 8, 8, 8, 8, 4, 4, 4, 4, 4), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := scraped(40, tt.late, func(int) float64 { return 0 }, never)
			s := &Snapshot{At: h.at[39], Targets: make([]Target, 1), Spans: make([]Span, 1), readings: []readings{make(readings, len(indicator.All()))}}
			*s.readings[0].of(indicator.TTFTP95) = reading{now: indicator.Known(1)}
			*s.readings[0].of(indicator.KVUsagePeak) = reading{now: indicator.Known(1)}
			normal, now := h.intervalsIn(Range{h.at[0], h.at[30]}), h.intervalsIn(Range{h.at[30], h.at[39]})
			s.Spans[0] = Span{course: h.courseOf(normal, now), Window: Range{h.at[35], h.at[39]}}
			v := newView(s, 0, part{}, Settings{})
			late, unseen := catalog.Above(indicator.TTFTP95, limit), catalog.Above(indicator.KVUsagePeak, limit)
			for _, c := range []catalog.Cond{late, catalog.All(late, unseen)} {
				if got := c.Ended(v); got != tt.over {
					t.Errorf("over: %v, want %v", got, tt.over)
				}
			}
			if catalog.Any(late, unseen).Ended(v) {
				t.Error("what else holds is over with it")
			}
		})
	}
}

// In an interval in which a queue drains, those who waited when it began are of what was before: a fault that ended in it
// is over as soon as the others, and who came since, are served as normal. Where nobody's first token was later than
// normal but theirs, nothing else need be known; where more were late, or the queue is still there, it goes on.
func TestAQueueThatDrained(t *testing.T) {
	for name, tt := range map[string]struct {
		waited, still float64 // at the last scrape but two, and at the next one
		over          bool
	}{
		"it explains who was late":    {8, 0, true},
		"it explains a few":           {2, 0, false},
		"it is still there":           {8, 8, false},
		"nobody waited when it began": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			late := func(i int) float64 { return [2]float64{0, 8}[boolToInt(i > 30 && i < 39)] }
			h := scraped(40, late, func(int) float64 { return 0 }, func(int) bool { return false })
			h.columns[waiting][37], h.columns[waiting][38] = tt.waited, tt.still
			c := h.courseOf(h.intervalsIn(Range{h.at[0], h.at[30]}), h.intervalsIn(Range{h.at[30], h.at[39]}))
			of := traces[indicator.TTFTP95].readOnce(c)
			if got := c.endedWithin(&of.tally, of.At, Range{h.at[35], h.at[39]}); got != tt.over {
				t.Errorf("over: %v, want %v", got, tt.over)
			}
		})
	}
}

// What was once said of a fault that goes on is kept, unless it moves by more than an
// interval, or all that is left of its past is the fault.
func TestOnsetIsKept(t *testing.T) {
	const interval = 15 * time.Second
	began := time.Unix(10_000, 0)
	var m Memory
	of := onsetOf{target: "r0", pathology: "slow-decode"}
	for i, step := range []struct {
		at            time.Duration // of the diagnosis, after the beginning
		fresh         time.Duration
		atLeast       bool
		want          time.Duration
		wantAtLeast   bool
		whatIsGivenBy string
	}{
		{60 * time.Second, 0, false, 0, false, "the first"},
		{75 * time.Second, 15 * time.Second, false, 0, false, "an interval later"},
		{90 * time.Second, 45 * time.Second, false, 45 * time.Second, false, "three intervals later"},
		{105 * time.Second, -time.Minute, false, -time.Minute, false, "earlier"},
		{110 * time.Second, 61 * time.Second, false, -time.Minute, false, "later than it was first seen"},
		{120 * time.Second, time.Minute, true, -time.Minute, false, "no past is left"},
		{time.Hour, 50 * time.Minute, true, 50 * time.Minute, true, "another fault"},
	} {
		got := m.steadyOnset(of, Onset{began.Add(step.fresh), step.atLeast}, began.Add(step.at), interval)
		if want := (Onset{began.Add(step.want), step.wantAtLeast}); got != want {
			t.Errorf("%d, %s: %+v, want %+v", i, step.whatIsGivenBy, got, want)
		}
	}
}

// A timeline is divided where scrapes fail, where counters begin again, and where a server
// had not answered yet.
func TestTimeline(t *testing.T) {
	none := func(int) float64 { return 0 }
	h := scraped(60, none, none, func(i int) bool { return i < 3 || i > 20 && i < 25 || i > 50 })
	for _, c := range slices.Concat(h.columns[:], [][]float64{h.buckets[firstTokens][0].upTo, h.buckets[firstTokens][1].upTo}) {
		for i := len(c) - 1; i >= 40; i-- {
			c[i] -= c[40] // NaN stays
		}
	}
	type segment struct {
		from, to int // scrapes
		answered bool
	}
	var got []segment
	for _, s := range h.divideHistory() {
		scrape := func(t time.Time) int { return slices.IndexFunc(h.at, func(at time.Time) bool { return !at.Before(t) }) }
		got = append(got, segment{scrape(s.From), scrape(s.To), len(s.run) > 0})
	}
	// It starts, answers, is away, is back, begins again at zero, and is lost.
	if want := []segment{{0, 3, false}, {3, 20, true}, {20, 25, false}, {25, 39, true}, {40, 50, true}, {50, 59, false}}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// Events are compared over the same time, and shares of nothing are not below nothing.
func TestCountsAreOfTheSameTime(t *testing.T) {
	of := func(s *indicator.Signal) float64 {
		return scaleCount(s, indicator.Known(600), time.Hour, time.Minute).V
	}
	if got := of(indicator.Preemptions); got != 10 {
		t.Errorf("%v preemptions in a minute, want 10", got)
	}
	if got := of(indicator.TTFTP95); got != 600 {
		t.Errorf("a latency became %v", got)
	}
	if got := indicator.AbandonedShare.Natural(-2.2e-16); got != 0 {
		t.Errorf("a share of %v", got)
	}
	if got := indicator.WaitingGrowth.Natural(-2); got != -2 {
		t.Errorf("a queue that shrinks by %v", got)
	}
}

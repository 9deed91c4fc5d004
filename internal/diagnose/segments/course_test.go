package segments

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// scraped is a history, a scrape every ten seconds: ten requests come in each interval, each
// with its first token in time, unless late says how many of them; evicted and failed say
// what happened in the interval before a scrape.
func scraped(n int, late, evicted func(i int) float64, failed func(i int) bool) *History {
	h := &History{}
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

// A signal's onset is before the stretch that is surely not normal; an outage begins after the last good scrape, though the
// server was restarted before. What a history does not show has none.
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
	for name, tt := range map[string]struct {
		h      *History
		signal *indicator.Signal
		op     catalog.Op
		want   int // scrape, -1 where there is none
	}{
		"late first tokens":          {scraped(40, from(20, 8), from(32, 30), never), indicator.TTFTP95, catalog.GreaterThan, 20},
		"evictions":                  {scraped(40, from(20, 8), from(32, 30), never), indicator.Preemptions, catalog.GreaterThan, 32},
		"as normal is in between":    {scraped(40, func(i int) float64 { return from(30, 8)(i) + from(10, 8)(i) - from(18, 8)(i) }, from(40, 0), never), indicator.TTFTP95, catalog.GreaterThan, 30},
		"an outage":                  {scraped(40, from(40, 0), from(40, 0), func(i int) bool { return i > 35 || i > 10 && i < 15 }), indicator.UpNow, catalog.LessThan, 35},
		"a first start":              {scraped(40, from(40, 0), from(40, 0), func(i int) bool { return i < 30 }), indicator.ServingAge, catalog.LessThan, 29},
		"nothing changed":            {scraped(40, from(40, 0), from(40, 0), never), indicator.TTFTP95, catalog.GreaterThan, -1},
		"the other side is no fault": {scraped(40, from(20, 8), from(40, 0), never), indicator.TTFTP95, catalog.LessThan, -1},
		"it is not in the history":   {scraped(40, from(20, 8), from(40, 0), never), indicator.KVUsagePeak, catalog.GreaterThan, -1},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.h.courseOf(tt.h.intervalsIn(period.Period{From: tt.h.at[0], To: tt.h.at[9]}), nil)
			if strings.HasPrefix(name, "a first") || strings.HasPrefix(name, "an outage") {
				c = tt.h.courseOf(nil, nil)
			}
			switch got := c.Onset(tt.signal, tt.op); {
			case tt.want < 0 && got.Evidence > 0:
				t.Errorf("since %s, want no onset", got.At)
			case tt.want >= 0 && (got.Evidence == 0 || !got.At.Equal(tt.h.at[tt.want]) || got.AtLeast):
				t.Errorf("since %s (evidence %g, at least: %t), want %s", got.At, got.Evidence, got.AtLeast, tt.h.at[tt.want])
			}
		})
	}
}

// A fault is over when what came last is as when all was normal, or is much nearer to that than to
// one fault with what came before it in the window. One that became milder is not, nor one of which too little came
// to tell.
func TestWhatIsOver(t *testing.T) {
	never := func(int) bool { return false }
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
			c := h.courseOf(h.intervalsIn(period.Period{From: h.at[0], To: h.at[30]}), h.intervalsIn(period.Period{From: h.at[30], To: h.at[39]}))
			if got := c.Ended(indicator.TTFTP95, catalog.GreaterThan, period.Period{From: h.at[35], To: h.at[39]}); got != tt.over {
				t.Errorf("over: %v, want %v", got, tt.over)
			}
			if c.Ended(indicator.KVUsagePeak, catalog.GreaterThan, period.Period{From: h.at[35], To: h.at[39]}) {
				t.Error("what the history does not show is over")
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
			late := func(i int) float64 { return 8 * boolTo(i > 30 && i < 39) }
			h := scraped(40, late, func(int) float64 { return 0 }, func(int) bool { return false })
			h.columns[waiting][37], h.columns[waiting][38] = tt.waited, tt.still
			c := h.courseOf(h.intervalsIn(period.Period{From: h.at[0], To: h.at[30]}), h.intervalsIn(period.Period{From: h.at[30], To: h.at[39]}))
			of := traces[indicator.TTFTP95].readOnce(c)
			if got := c.endedWithin(&of.tally, of.At, period.Period{From: h.at[35], To: h.at[39]}); got != tt.over {
				t.Errorf("over: %v, want %v", got, tt.over)
			}
		})
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
	for _, s := range h.divideHistory(nil) {
		scrape := func(t time.Time) int { return slices.IndexFunc(h.at, func(at time.Time) bool { return !at.Before(t) }) }
		got = append(got, segment{scrape(s.From), scrape(s.To), len(s.run) > 0})
	}
	// It starts, answers, is away, is back, begins again at zero, and is lost.
	if want := []segment{{0, 3, false}, {3, 20, true}, {20, 25, false}, {25, 39, true}, {40, 50, true}, {50, 59, false}}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

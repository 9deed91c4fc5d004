package diagnose

import (
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/indicator"
)

// What a burst of requests or one stall does within a scrape or two is no fault yet; the
// same for a minute is.
func TestBurstsAndStallsAreDoubted(t *testing.T) {
	tests := map[string]struct {
		signal  *indicator.Signal
		now     map[*indicator.Signal]float64
		limit   float64
		doubted bool // at 19 s
	}{
		"a burst evicts one request in seven": {
			indicator.PreemptionsPerRequest, map[*indicator.Signal]float64{indicator.PreemptionsPerRequest: 0.15}, 0.1, true,
		},
		"every request is evicted twice": {
			indicator.PreemptionsPerRequest, map[*indicator.Signal]float64{indicator.PreemptionsPerRequest: 2}, 0.1, false,
		},
		"a queue that is served within a second": {
			indicator.WaitingFloor, map[*indicator.Signal]float64{indicator.WaitingFloor: 7, indicator.FirstTokenRate: 8.4}, 0.5, true,
		},
		"a queue that takes five seconds": {
			indicator.WaitingFloor, map[*indicator.Signal]float64{indicator.WaitingFloor: 42, indicator.FirstTokenRate: 8.4}, 0.5, false,
		},
		"a stall in one mean of prefill": {
			indicator.PrefillTimePerToken, map[*indicator.Signal]float64{indicator.PrefillTimePerToken: 3.4e-4}, 1.5e-4, true,
		},
		"twenty streams that stopped once": {
			indicator.StallsPerRequest, map[*indicator.Signal]float64{indicator.StallsPerRequest: 0.5, indicator.FirstTokens: 40, indicator.Running: 20}, 0.05, true,
		},
		"a stall at the height of a burst": {
			indicator.StallsPerRequest,
			map[*indicator.Signal]float64{indicator.StallsPerRequest: 2.14, indicator.FirstTokens: 30, indicator.Running: 22, indicator.RunningPeak: 34},
			0.03, true,
		},
		"streams that stop again and again": {
			indicator.StallsPerRequest, map[*indicator.Signal]float64{indicator.StallsPerRequest: 1.5, indicator.FirstTokens: 40, indicator.Running: 20}, 0.05, false,
		},
		"a replica that gets more of two hundred requests": {
			indicator.ArrivalShare, map[*indicator.Signal]float64{indicator.ArrivalShare: 1.9, indicator.FirstTokens: 200}, 1.5, true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			read := func(window time.Duration) float64 {
				s := newSnapshot(make([]Target, 1))
				end := time.Unix(1e9, 0)
				s.Spans[0].Window = Range{end.Add(-window), end}
				s.Spans[0].steady = steadiness{short: window < hiccup}
				for sig, v := range tt.now {
					s.readings[0][sig.Name] = reading{now: indicator.Known(v)}
				}
				return cautious{view{snapshot: s}}.Now(tt.signal).V
			}
			if got := read(19 * time.Second); (got <= tt.limit) != tt.doubted {
				t.Errorf("after 19 s it counts as %.3g, limit %.3g; want it doubted: %v", got, tt.limit, tt.doubted)
			}
			if tt.signal == indicator.StallsPerRequest {
				return // one stall is one, however long ago
			}
			if got := read(time.Minute); got <= tt.limit {
				t.Errorf("after a minute it counts as %.3g, limit %.3g: want it believed", got, tt.limit)
			}
		})
	}
}

// What is normal is taken for worse where chance, or a single moment, would do.
func TestFewRequestsRaiseWhatIsNormal(t *testing.T) {
	tests := map[string]struct {
		signal   *indicator.Signal
		normal   float64
		requests float64
		single   bool
		within   float64 // what may still be chance
		beyond   float64 // what is not
	}{
		"the P95 of a single moment: a prompt or two held the engine": {indicator.TTFTP95, 0.425, 70, true, 0.425 * 1.35, 0.425 * 3.6},
		"the P95 of a minute":                 {indicator.TTFTP95, 0.425, 70, false, 0.425 * 1.05, 0.425 * 2.6},
		"the longest of 53 prompts is no P99": {indicator.PromptTail, 10.1, 53, false, 12.9, 40},
		"the P99 of 10,000 prompts is known":  {indicator.PromptTail, 10.1, 10_000, false, 10.2, 13},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot(make([]Target, 1))
			s.Spans[0].steady = steadiness{ttft: usualTTFTDeviation, single: tt.single}
			s.readings[0][tt.signal.Name] = reading{normal: indicator.Known(tt.normal)}
			s.readings[0][indicator.FirstTokens.Name] = reading{now: indicator.Known(tt.requests)}
			if got := (cautious{view{snapshot: s}}).Normal(tt.signal).V; got < tt.within || got > tt.beyond {
				t.Errorf("%g counts as %.3g, want from %.3g to %.3g", tt.normal, got, tt.within, tt.beyond)
			}
		})
	}
}

// Windows of targets that are scraped at different moments are asked in one go where
// that changes none of the scrapes that they hold.
func TestWindowsInCommon(t *testing.T) {
	const step = 15 * time.Second
	noon := time.Unix(1_800_000_000, 0)
	// A span of a target that is scraped at a phase of the grid, over so many intervals.
	span := func(phase time.Duration, intervals int) Span {
		last := noon.Add(-phase)
		from := last.Add(-time.Duration(intervals) * step)
		return Span{Window: Range{from.Add(-edge), last}, before: from.Add(-step)}
	}
	tests := map[string]struct {
		spans    []Span
		distinct int
	}{
		"four phases":                      {[]Span{span(0, 4), span(4*time.Second, 4), span(9*time.Second, 4), span(14*time.Second, 4)}, 1},
		"another length":                   {[]Span{span(0, 4), span(4*time.Second, 4), span(9*time.Second, 8)}, 2},
		"too short for what rate() adds":   {[]Span{span(0, 1), span(9*time.Second, 1)}, 2},
		"no scrape was seen before either": {[]Span{{Window: Range{noon.Add(-time.Minute), noon}}, {Window: Range{noon.Add(-61 * time.Second), noon}}}, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spans := append([]Span(nil), tt.spans...)
			share(spans, step)
			distinct := map[Range]bool{}
			for i, s := range spans {
				distinct[s.Window] = true
				was := tt.spans[i]
				if s.Window.From.After(was.Window.From) || !was.before.IsZero() && !was.before.Before(s.Window.From) {
					t.Errorf("target %d: from %s on, want it after the scrape at %s and not after %s", i, s.Window.From, was.before, was.Window.From)
				}
				if s.Window.To.Before(was.Window.To) || s.Window.To.After(noon) {
					t.Errorf("target %d: up to %s, want %s or later", i, s.Window.To, was.Window.To)
				}
			}
			if len(distinct) != tt.distinct {
				t.Errorf("%d windows, want %d: %v", len(distinct), tt.distinct, distinct)
			}
		})
	}
}

// However many targets there are, what is asked is bounded by the time that it lies in:
// a thousand that fall ill at once are one incident, and not a thousand sets of queries.
func TestSpansOfManyTargetsAreBounded(t *testing.T) {
	const step, many = 15 * time.Second, 1000
	noon := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		intervals int
		whole     bool
	}{"just ill": {1, false}, "for a while": {4, false}, "just begun": {2, true}} {
		t.Run(name, func(t *testing.T) {
			var spans []Span
			for i := range many {
				last := noon.Add(-step * time.Duration(i) / many)
				from := last.Add(-time.Duration(tt.intervals) * step)
				spans = append(spans, Span{
					Window: Range{from.Add(-edge), last}, before: from.Add(-step), whole: tt.whole,
					Baseline: Range{last.Add(-20 * time.Minute), from}, Source: History,
				})
			}
			was := slices.Clone(spans)
			share(spans, step)
			windows, baselines := map[Range]bool{}, map[Range]bool{}
			for i, s := range spans {
				windows[s.Window] = true
				baselines[s.Baseline] = true
				if !s.before.Before(s.Window.From) || s.Window.From.After(was[i].Window.From) {
					t.Fatalf("target %d: its window begins at %s, want it after %s and not after %s", i, s.Window.From, s.before, was[i].Window.From)
				}
				if s.Baseline.From.Before(was[i].Baseline.From) || s.Baseline.To.After(was[i].Baseline.To) {
					t.Fatalf("target %d: the baseline %v is not within its own %v", i, s.Baseline, was[i].Baseline)
				}
			}
			if len(windows) > mostSpans || len(baselines) > mostSpans {
				t.Errorf("%d windows and %d baselines of %d targets, want %d at most", len(windows), len(baselines), many, mostSpans)
			}
		})
	}
}

func TestLongBaselinesStayOnAGrid(t *testing.T) {
	noon := time.Unix(1_800_000_000, 0).Truncate(time.Hour)
	ago := func(from, to time.Duration) Range { return Range{noon.Add(-from), noon.Add(-to)} }
	for _, tt := range []struct{ of, want Range }{
		{ago(58*time.Minute, 2*time.Minute), ago(50*time.Minute, 10*time.Minute)},
		{ago(43*time.Minute, 2*time.Minute), ago(40*time.Minute, 5*time.Minute)},
		{ago(30*time.Minute, 0), ago(30*time.Minute, 0)},
		{ago(15*time.Minute+time.Second, time.Minute+time.Second), ago(15*time.Minute, 2*time.Minute)},
		{ago(7*time.Minute+time.Second, time.Second), ago(7*time.Minute+time.Second, time.Second)},
	} {
		if got := tt.of.settled(); got != tt.want {
			t.Errorf("%v became %v, want %v", tt.of, got, tt.want)
		}
	}
}

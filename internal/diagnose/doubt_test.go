package diagnose

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
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
			indicator.ArrivalShare, map[*indicator.Signal]float64{indicator.ArrivalShare: 1.9, indicator.FirstTokens: 200, indicator.Replicas: 4}, 1.5, true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			read := func(window time.Duration) float64 {
				s := newSnapshot(make([]Target, 1))
				end := time.Unix(1e9, 0)
				s.Spans[0].Window = Range{end.Add(-window), end}
				s.Spans[0].steady = steadiness{since: window, moments: 2, lastGap: math.NaN(), lastTTFT: math.NaN()}
				for sig, v := range tt.now {
					*s.readings[0].of(sig) = reading{now: indicator.Known(v)}
				}
				return view{snapshot: s}.Doubt(tt.signal).Least
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
	twice := &catalog.Threshold{Name: "twice", Default: catalog.None, Baseline: &catalog.Relative{Factor: 2}}
	tests := map[string]struct {
		signal   *indicator.Signal
		normal   float64
		requests float64
		since    time.Duration
		within   float64 // of normal, what may still be chance
		beyond   float64 // what is not
	}{
		"the P95 of a single moment: a prompt or two held the engine": {indicator.TTFTP95, 0.425, 70, 20 * time.Second, 2 * 1.35, 2 * 3.6},
		"the P95 of a minute":                 {indicator.TTFTP95, 0.425, 70, time.Minute, 2 * 1.05, 2 * 2.6},
		"the longest of 53 prompts is no P99": {indicator.PromptTail, 10.1, 53, time.Minute, 2 * 1.28, 2 * 4},
		"the P99 of 10,000 prompts is known":  {indicator.PromptTail, 10.1, 10_000, time.Minute, 2, 2 * 1.29},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			holds := func(times float64) bool {
				s := newSnapshot(make([]Target, 1))
				s.Spans[0].steady = steadiness{ttft: usualTTFTDeviation, since: tt.since, moments: 3, lastTTFT: math.NaN()}
				*s.readings[0].of(tt.signal) = reading{now: indicator.Known(times * tt.normal), normal: indicator.Known(tt.normal)}
				*s.readings[0].of(indicator.FirstTokens) = reading{now: indicator.Known(tt.requests)}
				return catalog.Above(tt.signal, twice).Certain(view{snapshot: s}) == catalog.True
			}
			if holds(tt.within) {
				t.Errorf("%g times normal is certain, and may be chance", tt.within)
			}
			if !holds(tt.beyond) {
				t.Errorf("%g times normal is doubted", tt.beyond)
			}
		})
	}
}

// What was normal for no longer than a burst lasts may have been a server's best moment.
func TestAShortNormalIsUncertain(t *testing.T) {
	for _, tt := range []struct {
		past    time.Duration
		times   float64
		certain bool
	}{
		{28 * time.Second, 2.1, false},
		{28 * time.Second, 2.3, true},
		{time.Minute, 2.1, true},
		{0, 2.1, true}, // the sums of a life
	} {
		s := newSnapshot(make([]Target, 1))
		s.Spans[0].steady = steadiness{gap: usualGapDeviation, since: time.Minute, moments: 8, past: tt.past, lastGap: math.NaN()}
		s.Spans[0].Source = History
		*s.readings[0].of(indicator.ITLP50) = reading{now: indicator.Known(tt.times * 0.02), normal: indicator.Known(0.02)}
		slower := &catalog.Threshold{Name: "slower", Default: catalog.None, Baseline: &catalog.Relative{Factor: 1.6}}
		if got := catalog.Above(indicator.ITLP50, slower).Certain(view{snapshot: s}) == catalog.True; got != tt.certain {
			t.Errorf("%g times a normal of %s: certain %v, want %v", tt.times, tt.past, got, tt.certain)
		}
	}
}

// What is over is not certain: the last fifteen seconds say so, in one interval or in several.
func TestTheLastMomentsSayThatItIsOver(t *testing.T) {
	of := func(each float64, means ...float64) (out []meanOf) {
		for _, m := range means {
			out = append(out, meanOf{math.Log(m), each})
		}
		return out
	}
	for name, tt := range map[string]struct {
		moments []meanOf
		worst   float64
	}{
		"an interval of 30 s":     {of(30, 20, 20, 0.05), 0.05},
		"an interval of 15 s":     {of(15, 20, 20, 0.05), 0.05},
		"one that came early":     {of(14.9, 20, 20, 0.05), 0.05},
		"one of three of 5 s":     {of(5, 20, 0.05, 20, 0.05, 0.05), 20},
		"three of 5 s":            {of(5, 20, 20, 0.05, 0.05, 0.05), 0.05},
		"it goes on":              {of(30, 0.05, 20), 20},
		"fewer than so many here": {of(5, 20), 20},
	} {
		if got := worstOfLast(tt.moments) * lastingShare; math.Abs(got-tt.worst) > 1e-9 {
			t.Errorf("%s: %g s, want %g s", name, got, tt.worst)
		}
	}
}

// Two moments that happen to be alike tell less than thirty that are.
func TestFewMomentsTellLittleOfADeviation(t *testing.T) {
	alike := func(n int) (out []meanOf) {
		for i := range n {
			out = append(out, meanOf{0.1 * float64(i%2), 5})
		}
		return out
	}
	last := usualGapDeviation
	for _, n := range []int{2, 4, 10, 30} {
		if got := deviationOf(alike(n), usualGapDeviation); got > last || got < leastDeviation {
			t.Errorf("%d moments: %.3f, want %g to %.3f, and the less the more there are", n, got, leastDeviation, last)
		} else {
			last = got
		}
	}
	if last != leastDeviation {
		t.Errorf("thirty alike: %.3f, want %g", last, leastDeviation)
	}
}

// A split of requests that chance does not make is certain from seventy of them on.
func TestNineTenthsOfTheTrafficAreNoChance(t *testing.T) {
	for _, tt := range []struct {
		share, requests float64
		above           float64
		certain         bool
	}{
		{0.9, 63, 1.5, true},
		{0.9, 12, 1.5, false},
		{0.8, 40, 1.5, false},
		{0.55, 2000, 1, true},
		{0.55, 100, 1, false},
	} {
		s := newSnapshot(make([]Target, 1))
		s.Spans[0].Window = Range{time.Unix(0, 0), time.Unix(60, 0)}
		for sig, v := range map[*indicator.Signal]float64{indicator.ArrivalShare: 2 * tt.share, indicator.Replicas: 2, indicator.FirstTokens: tt.requests} {
			*s.readings[0].of(sig) = reading{now: indicator.Known(v)}
		}
		if got := (view{snapshot: s}).Doubt(indicator.ArrivalShare).Least > tt.above; got != tt.certain {
			t.Errorf("%g of %g requests: beyond %g × the mean is certain %v, want %v", tt.share, tt.requests, tt.above, got, tt.certain)
		}
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
			shareSpans(spans, step)
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
					Window: Range{from.Add(-edge), last}, Asked: last, before: from.Add(-step), whole: tt.whole,
					Baseline: Range{last.Add(-20 * time.Minute), from}, Source: History,
				})
			}
			was := slices.Clone(spans)
			shareSpans(spans, step)
			type asked struct {
				window  Range
				scrapes time.Time
			}
			windows, baselines := map[asked]bool{}, map[Range]bool{}
			for i, s := range spans {
				windows[asked{s.Window, s.Asked}] = true
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
		if got := tt.of.alignedToStep(); got != tt.want {
			t.Errorf("%v became %v, want %v", tt.of, got, tt.want)
		}
	}
}

// A server that starts takes the processors of its machine: what is slow beside it meanwhile
// is no fault yet. One on another machine, or one that has started for an hour, is no reason.
func TestStartsBesideAreDoubted(t *testing.T) {
	for name, tt := range map[string]struct {
		instance string
		watched  float64
		doubted  bool
	}{
		"on the same machine": {"gpu-1:8001", 60, true},
		"for an hour":         {"gpu-1:8001", 3600, false},
		"on another machine":  {"gpu-2:8000", 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot([]Target{{Labels: map[string]string{"instance": "gpu-1:8000"}}, {Labels: map[string]string{"instance": tt.instance}}})
			end := time.Unix(1e9, 0)
			s.Spans[0].Window = Range{end.Add(-time.Minute), end}
			s.Spans[0].steady = steadiness{since: time.Minute, moments: 8, lastGap: 1, lastTTFT: 1}
			*s.readings[0].of(indicator.ITLP50) = reading{now: indicator.Known(0.05)}
			*s.readings[1].of(indicator.Answered) = reading{now: indicator.Known(0)}
			*s.readings[1].of(indicator.Starting) = reading{now: indicator.Known(tt.watched)}
			if got := (view{snapshot: s}).Doubt(indicator.ITLP50).Least; (got == 0) != tt.doubted {
				t.Errorf("50 ms counts as %v s; want it doubted: %v", got, tt.doubted)
			}
		})
	}
}

// What is normal was counted too: of fifteen requests that clients gave up three of, it may
// have been half.
func TestANormalOfFewRequestsIsUncertain(t *testing.T) {
	for _, tt := range []struct {
		share, requests float64
		beyond          bool // six in ten are fifteen points more than normal, for certain
	}{
		{0.2, 15, false},
		{0.2, 200, true},
		{0.55, 2000, false},
	} {
		s := newSnapshot(make([]Target, 1))
		s.Spans[0].Source = History
		*s.readings[0].of(indicator.AbandonedShare) = reading{indicator.Known(0.6), indicator.Known(tt.share)}
		*s.readings[0].of(indicator.Abandoned) = reading{indicator.Known(600), indicator.Known(tt.share * tt.requests)}
		got := catalog.Above(indicator.AbandonedShare, catalog.AbandonedShare).Certain(view{snapshot: s}) == catalog.True
		if got != tt.beyond {
			t.Errorf("normal %g of %g requests: certain %v, want %v", tt.share, tt.requests, got, tt.beyond)
		}
	}
}

// A minute in which few clients happened to cancel is not what is normal for the hour after it.
func TestALuckyMinuteIsNotNormal(t *testing.T) {
	of := func(abandoned, answers float64) service {
		return service{requests: answers, answers: answers, abandoned: abandoned}
	}
	for _, tt := range []struct {
		now, was service
		worse    bool
	}{
		{of(0.57, 726), of(0.2, 15), false},
		{of(0.57, 726), of(0.2, 300), true},
		{of(0.6, 30), of(0, 15), true},
		{of(0.3, 10), of(0, 200), true},
	} {
		if got := (limits{}).isWorse(tt.now, tt.was, clearly); got != tt.worse {
			t.Errorf("%.2f of %g, after %.2f of %g: worse %v, want %v",
				tt.now.abandoned, tt.now.answers, tt.was.abandoned, tt.was.answers, got, tt.worse)
		}
	}
}

// A batch grows with slower steps as well as with more requests, so what its growth would explain is
// neither a fault beyond doubt nor well.
func TestABatchThatGrewLeavesASlowMedianInDoubt(t *testing.T) {
	slower := catalog.Above(indicator.ITLP50, &catalog.Threshold{
		Name: "slower", Default: catalog.None, Baseline: &catalog.Relative{Factor: 1.5, Per: indicator.DecodeBatch, Perhaps: true, Exponent: 0.5},
	})
	for name, tt := range map[string]struct {
		itl, batch            float64 // times normal
		holds, likely, surely bool
	}{
		"the same batch":                {1.6, 1, true, true, true},
		"half of the growth excuses it": {2, 4, true, false, false},
		"all of the growth excuses it":  {2.5, 4, true, true, false},
		"more than the batch explains":  {3.1, 4, true, true, true},
		"a larger batch, as fast":       {1.1, 4, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot(make([]Target, 1))
			s.Spans[0].steady = steadiness{lastGap: math.NaN(), lastTTFT: math.NaN()}
			*s.readings[0].of(indicator.ITLP50) = reading{now: indicator.Known(0.01 * tt.itl), normal: indicator.Known(0.01)}
			*s.readings[0].of(indicator.DecodeBatch) = reading{now: indicator.Known(3 * tt.batch), normal: indicator.Known(3)}
			v := view{snapshot: s}
			if got := [3]bool{slower.Holds(v) == catalog.True, slower.Likely(v) == catalog.True, slower.Certain(v) == catalog.True}; got != [3]bool{tt.holds, tt.likely, tt.surely} {
				t.Errorf("holds, likely, surely: %v, want %v", got, [3]bool{tt.holds, tt.likely, tt.surely})
			}
		})
	}
}

// The mean of a server's life holds its earlier faults, and its median does not.
func TestALifeWithFaultsHidesNoSlowMedian(t *testing.T) {
	for name, tt := range map[string]struct {
		now  float64
		want bool
	}{
		"three times the median of its life": {0.03, true},
		"as ever":                            {0.011, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot(make([]Target, 1))
			s.Spans[0].Source = Lifetime
			s.Spans[0].steady = steadiness{lastGap: math.NaN(), lastTTFT: math.NaN()}
			*s.readings[0].of(indicator.ITLMean) = reading{now: indicator.Known(tt.now), normal: indicator.Known(0.04)}
			*s.readings[0].of(indicator.ITLP50) = reading{now: indicator.Known(tt.now), normal: indicator.Known(0.01)}
			*s.readings[0].of(indicator.DecodeBatch) = reading{now: indicator.Known(3), normal: indicator.Known(3)}
			j := judgement{view: view{snapshot: s}}
			if got := j.reasonAgainstHealthy(); (got != "") != tt.want {
				t.Errorf("%q, want a reason: %t", got, tt.want)
			}
		})
	}
}

// What users feel is no health where too few requests were served to tell why they feel it.
func TestPainThatTooFewRequestsExplainIsNoHealth(t *testing.T) {
	slower := &catalog.Threshold{Name: "slower", Default: 0.1}
	alike := &catalog.Threshold{Name: "alike", Default: 100}
	slow := &catalog.Pathology{ID: "slow-decode", Severity: catalog.Ticket, Runbook: "# Slow decode\n"}
	when := catalog.All(catalog.Above(indicator.ITLMean, slower), catalog.Guard(catalog.Below(indicator.ComputedTokens, alike)))
	nobody, _ := indicator.ComputedTokens.TooFew(0)
	shows, _ := dialect.Detect([]string{"vllm:num_requests_running", "vllm:prompt_tokens_total", "vllm:time_to_first_token_seconds_count"})
	for name, tt := range map[string]struct {
		gap    float64
		prompt indicator.Value
		engine dialect.Dialect
		want   bool
	}{
		"slow, and no prompt tells why":         {0.2, nobody, shows, true},
		"slow, because of the prompts":          {0.2, indicator.Known(1000), shows, false},
		"slow, and the engine shows no prompts": {0.2, nobody, dialect.Dialect{}, false},
		"as fast as ever":                       {0.05, nobody, shows, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot([]Target{{Dialect: tt.engine}})
			*s.readings[0].of(indicator.ITLMean) = reading{now: indicator.Known(tt.gap)}
			*s.readings[0].of(indicator.ComputedTokens) = reading{now: tt.prompt}
			j := judgement{view: view{snapshot: s}, outcomes: []outcome{{pathology: slow, when: when, status: Unknown, severity: catalog.Ticket}}}
			if got := j.reasonAgainstHealthy(); (got != "") != tt.want {
				t.Errorf("%q, want a reason: %t", got, tt.want)
			}
		})
	}
}

// First tokens of a window that are far later than normal speak against health, unless something that hurt is seen to be
// over, whose they may be. Of a few requests that does not tell.
func TestLateFirstTokensMayBeOfWhatIsOver(t *testing.T) {
	over := outcome{status: Pending, ended: true}
	for name, tt := range map[string]struct {
		outcomes []outcome
		requests float64
		want     bool
	}{
		"nothing ended":                          {nil, 100, true},
		"something ended":                        {[]outcome{{status: OK}, over}, 100, false},
		"something ended, of few requests":       {[]outcome{over}, fewRequests - 1, true},
		"what is pending goes on":                {[]outcome{{status: Pending}}, 100, true},
		"a symptom that fires makes it believed": {[]outcome{{status: Firing, ended: true}}, 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot(make([]Target, 1))
			s.Spans[0].Source = History
			normal := catalog.TTFTObjective.Default
			*s.readings[0].of(indicator.TTFTP95) = reading{now: indicator.Known((farLater + 1) * normal), normal: indicator.Known(normal)}
			*s.readings[0].of(indicator.FirstTokens) = reading{now: indicator.Known(tt.requests)}
			j := judgement{view: view{snapshot: s}, outcomes: tt.outcomes}
			if got := j.reasonAgainstHealthy(); (got != "") != tt.want {
				t.Errorf("%q, want a reason: %t", got, tt.want)
			}
		})
	}
}

// What users felt, and no cause explains, is over with what hurt them, unless it is beyond doubt; what has a cause has an
// end of its own.
func TestWhatNothingNamesIsOverWithWhatHurt(t *testing.T) {
	named, felt := &catalog.Pathology{ID: "named"}, &catalog.Pathology{ID: "felt", Unspecific: true}
	for name, tt := range map[string]struct {
		status Status
		of     *catalog.Pathology
		end    bool // of another one
		want   bool
	}{
		"felt until then":    {Pending, felt, true, true},
		"nothing has an end": {Pending, felt, false, false},
		"felt beyond doubt":  {Firing, felt, true, false},
		"of a cause":         {Pending, named, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := judgement{outcomes: []outcome{{pathology: tt.of, status: tt.status}, {pathology: named, status: Pending, ended: tt.end}}}
			j.endWhatNothingNames()
			if got := j.outcomes[0].ended; got != tt.want {
				t.Errorf("ended: %t, want %t", got, tt.want)
			}
		})
	}
}

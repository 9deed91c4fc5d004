package diagnose

import (
	"math"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
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
				s := newSnapshot(make([]identity.Target, 1))
				end := time.Unix(1e9, 0)
				s.Spans[0].Window = period.Period{From: end.Add(-window), To: end}
				s.Spans[0].Steadiness = segments.Steadiness{Since: window, Moments: 2, LastGap: math.NaN(), LastTTFT: math.NaN()}
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
				s := newSnapshot(make([]identity.Target, 1))
				s.Spans[0].Steadiness = segments.Steadiness{Ttft: 0.35, Since: tt.since, Moments: 3, LastTTFT: math.NaN()}
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
		s := newSnapshot(make([]identity.Target, 1))
		s.Spans[0].Steadiness = segments.Steadiness{Gap: 0.2, Since: time.Minute, Moments: 8, Past: tt.past, LastGap: math.NaN()}
		s.Spans[0].Source = segments.FromHistory
		*s.readings[0].of(indicator.ITLP50) = reading{now: indicator.Known(tt.times * 0.02), normal: indicator.Known(0.02)}
		slower := &catalog.Threshold{Name: "slower", Default: catalog.None, Baseline: &catalog.Relative{Factor: 1.6}}
		if got := catalog.Above(indicator.ITLP50, slower).Certain(view{snapshot: s}) == catalog.True; got != tt.certain {
			t.Errorf("%g times a normal of %s: certain %v, want %v", tt.times, tt.past, got, tt.certain)
		}
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
		s := newSnapshot(make([]identity.Target, 1))
		s.Spans[0].Window = period.Period{From: time.Unix(0, 0), To: time.Unix(60, 0)}
		for sig, v := range map[*indicator.Signal]float64{indicator.ArrivalShare: 2 * tt.share, indicator.Replicas: 2, indicator.FirstTokens: tt.requests} {
			*s.readings[0].of(sig) = reading{now: indicator.Known(v)}
		}
		if got := (view{snapshot: s}).Doubt(indicator.ArrivalShare).Least > tt.above; got != tt.certain {
			t.Errorf("%g of %g requests: beyond %g × the mean is certain %v, want %v", tt.share, tt.requests, tt.above, got, tt.certain)
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
			s := newSnapshot([]identity.Target{{Labels: map[string]string{"instance": "gpu-1:8000"}}, {Labels: map[string]string{"instance": tt.instance}}})
			end := time.Unix(1e9, 0)
			s.Spans[0].Window = period.Period{From: end.Add(-time.Minute), To: end}
			s.Spans[0].Steadiness = segments.Steadiness{Since: time.Minute, Moments: 8, LastGap: 1, LastTTFT: 1}
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
		s := newSnapshot(make([]identity.Target, 1))
		s.Spans[0].Source = segments.FromHistory
		*s.readings[0].of(indicator.AbandonedShare) = reading{indicator.Known(0.6), indicator.Known(tt.share)}
		*s.readings[0].of(indicator.Abandoned) = reading{indicator.Known(600), indicator.Known(tt.share * tt.requests)}
		got := catalog.Above(indicator.AbandonedShare, catalog.AbandonedShare).Certain(view{snapshot: s}) == catalog.True
		if got != tt.beyond {
			t.Errorf("normal %g of %g requests: certain %v, want %v", tt.share, tt.requests, got, tt.beyond)
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
			s := newSnapshot(make([]identity.Target, 1))
			s.Spans[0].Steadiness = segments.Steadiness{LastGap: math.NaN(), LastTTFT: math.NaN()}
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
			s := newSnapshot(make([]identity.Target, 1))
			s.Spans[0].Source = segments.FromLifetime
			s.Spans[0].Steadiness = segments.Steadiness{LastGap: math.NaN(), LastTTFT: math.NaN()}
			*s.readings[0].of(indicator.ITLMean) = reading{now: indicator.Known(tt.now), normal: indicator.Known(0.04)}
			*s.readings[0].of(indicator.ITLP50) = reading{now: indicator.Known(tt.now), normal: indicator.Known(0.01)}
			*s.readings[0].of(indicator.DecodeBatch) = reading{now: indicator.Known(3), normal: indicator.Known(3)}
			j := judgement{view: datedView{view: view{snapshot: s}}}
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
			s := newSnapshot([]identity.Target{{Dialect: tt.engine}})
			*s.readings[0].of(indicator.ITLMean) = reading{now: indicator.Known(tt.gap)}
			*s.readings[0].of(indicator.ComputedTokens) = reading{now: tt.prompt}
			j := judgement{view: datedView{view: view{snapshot: s}}, outcomes: []outcome{{pathology: slow, when: when, status: Unknown, severity: catalog.Ticket}}}
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
			s := newSnapshot(make([]identity.Target, 1))
			s.Spans[0].Source = segments.FromHistory
			normal := catalog.TTFTObjective.Default
			*s.readings[0].of(indicator.TTFTP95) = reading{now: indicator.Known((farLater + 1) * normal), normal: indicator.Known(normal)}
			*s.readings[0].of(indicator.FirstTokens) = reading{now: indicator.Known(tt.requests)}
			j := judgement{view: datedView{view: view{snapshot: s}}, outcomes: tt.outcomes}
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
			j.endUnspecificSymptoms()
			if got := j.outcomes[0].ended; got != tt.want {
				t.Errorf("ended: %t, want %t", got, tt.want)
			}
		})
	}
}

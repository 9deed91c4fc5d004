package sim

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// A simulation ends at a limit only if the percentile of the whole simulation is above the limit.
func TestLimitsEndWhatExceedsThem(t *testing.T) {
	cfg, err := Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks, cfg.MaxNumSeqs = 4096, 4000, 32
	cost := StepCost{Base: 0.01, Mixed: 0.005, PerSeq: 1e-4, PerToken: 5e-5, Knee: 100}
	var requests []Request
	for i := range 200 {
		requests = append(requests, Request{Arrival: time.Duration(i) * 100 * time.Millisecond,
			PromptTokens: 300 + i%7*100, OutputTokens: 20 + i%5*30})
	}
	whole, err := Run(cfg, cost, requests, Options{})
	must.Succeed(t, err)
	s := whole.Summary()
	for _, tt := range []struct {
		limits Limits
		want   Quantity
	}{
		{Limits{TTFT: s.TTFT.P95 + time.Millisecond, ITL: s.ITL.P95 + s.ITL.P95/100, E2E: s.E2E.P95 + time.Millisecond}, ""},
		{Limits{TTFT: s.TTFT.P95 - time.Millisecond}, TTFT},
		{Limits{ITL: s.ITL.P95 - s.ITL.P95/50}, ITL},
		{Limits{E2E: s.E2E.P95 - time.Millisecond}, E2E},
	} {
		res, err := Run(cfg, cost, requests, Options{Limits: tt.limits})
		if err != nil || res.Exceeded != tt.want {
			t.Errorf("%+v: %q exceeded, %v; want %q", tt.limits, res.Exceeded, err, tt.want)
		}
		if tt.want == "" && (res.End != whole.End || res.Summary().TTFT != s.TTFT || res.Summary().ITL != s.ITL) {
			t.Errorf("%+v: another outcome than without limits", tt.limits)
		}
	}
}

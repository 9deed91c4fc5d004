package sim

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestAbsurdInputsEnd runs the simulator on numbers that no server has: it refuses them, or ends.
func TestAbsurdInputsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Most numbers are usual, so that few runs are refused at once.
		number := rapid.SampledFrom([]float64{0, 0, 0, 0, 1e-6, 1e-6, 1e-6, 1e-6, 1e-3, 1e-3, 1, 1e6, 1e18, 1e300,
			math.MaxFloat64, -1, math.NaN(), math.Inf(1)})
		when := rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 1, time.Millisecond, time.Second, time.Hour, 1 << 60,
			math.MaxInt64})
		base := rapid.SampledFrom([]float64{1e-9, 1e-3, 1e-3, 1e-3, 1, 1e6, 1e9, 1e10, 1e18, 1e300, math.MaxFloat64})
		cost := StepCost{
			Base: base.Draw(t, "base"), Mixed: number.Draw(t, "mixed"), PerSeq: number.Draw(t, "seq"),
			PerToken: number.Draw(t, "token"),
			PerKV:    number.Draw(t, "kv"), PerPair: number.Draw(t, "pair"),
			Knee: rapid.SampledFrom([]int{-1, 0, 1, 256, 1 << 60}).Draw(t, "knee"),
		}
		cfg := Config{
			BlockSize:  rapid.SampledFrom([]int{1, 16, 16, 1 << 20}).Draw(t, "block"),
			NumBlocks:  rapid.SampledFrom([]int{1, 2, 20, 1000, 1 << 20}).Draw(t, "blocks"),
			MaxNumSeqs: rapid.SampledFrom([]int{1, 2, 16, 1 << 20}).Draw(t, "seqs"), MaxNumBatchedTokens: 1 << 20,
			MaxModelLen: rapid.SampledFrom([]int{2, 1000, 5000, 1 << 40}).Draw(t, "length"), ChunkedPrefill: true,
			PrefixCaching:   rapid.Bool().Draw(t, "caching"),
			AsyncScheduling: rapid.Bool().Draw(t, "async"),
		}
		requests := make([]Request, rapid.IntRange(0, 5).Draw(t, "requests"))
		for i := range requests {
			requests[i] = Request{
				Arrival:      when.Draw(t, "arrival"),
				PromptTokens: rapid.SampledFrom([]int{1, 100, 100, 5000}).Draw(t, "prompt"),
				OutputTokens: rapid.SampledFrom([]int{1, 100, 1000}).Draw(t, "output"),
				CancelAfter:  when.Draw(t, "patience"), Pause: when.Draw(t, "pause"),
			}
		}
		checks, endless := 0, errors.New("it goes on")
		o := Options{
			Clients: rapid.IntRange(0, 3).Draw(t, "clients"), Until: when.Draw(t, "until"),
			SampleEvery: when.Draw(t, "sample every"),
			Frontend:    Frontend{PerRequest: number.Draw(t, "frontend")},
			Check: func() error {
				if checks++; checks > 1000 { // a quarter of a million steps for at most 5000 tokens
					return endless
				}
				return nil
			},
		}
		res, err := Run(cfg, cost, requests, o)
		if errors.Is(err, endless) {
			t.Fatal(err)
		}
		if err == nil {
			_ = res.Summary()
		}
	})
}

func TestASimulationEndsWithItsCheck(t *testing.T) {
	cfg, err := Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.NumBlocks, cfg.MaxModelLen = 10_000, 2000
	requests := make([]Request, 1000)
	for i := range requests {
		requests[i] = Request{Arrival: time.Duration(i) * time.Second, PromptTokens: 100, OutputTokens: 100}
	}
	stop, asked := errors.New("stop"), 0
	_, err = Run(cfg, StepCost{Base: 1e-2}, requests, Options{StepByStep: true, Check: func() error {
		if asked++; asked > 10 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || asked != 11 {
		t.Errorf("error %v after %d questions", err, asked)
	}
}

package planning

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sixty-dev/sixty/internal/sim"
)

// Long prompts get long answers: running requests hold more tokens than with independent lengths, and no length is
// lost.
func TestRunningRequestsHoldTheMeasuredTokens(t *testing.T) {
	draw := func() (rs []sim.Request) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			r := sim.Request{PromptTokens: 100, OutputTokens: 60}
			if rng.Float64() < 0.4 {
				r.PromptTokens = 2700
			}
			if rng.Float64() < 0.4 {
				r.OutputTokens = 300
			}
			rs = append(rs, r)
		}
		return rs
	}
	sorted := func(rs []sim.Request) (out []int) {
		for _, r := range rs {
			out = append(out, r.OutputTokens)
		}
		slices.Sort(out)
		return out
	}
	loose := draw()
	for want, near := range map[float64]float64{1900: 1900, 500: tokensHeld(loose), 0: tokensHeld(loose)} {
		rs := draw()
		pairLengths(rs, want, rand.New(rand.NewPCG(3, 4)))
		if got := tokensHeld(rs); got < 0.97*near || got > 1.03*near {
			t.Errorf("a request holds %.0f tokens where %.0f were measured, want %.0f (%.0f by chance)", got, want, near, tokensHeld(loose))
		}
		if !slices.Equal(sorted(rs), sorted(loose)) {
			t.Errorf("%.0f: other answers than were drawn", want)
		}
	}
}

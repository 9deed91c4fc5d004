package planning

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sixty-dev/sixty/internal/sim"
)

// pairLengths gives long prompts long answers until running requests hold the measured tokens. It loses no length.
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
	unpaired := draw()
	byChance := tokensHeld(unpaired)
	for measured, want := range map[float64]float64{1900: 1900, 500: byChance, 0: byChance} {
		rs := draw()
		pairLengths(rs, measured, rand.New(rand.NewPCG(3, 4)))
		if got := tokensHeld(rs); got < 0.97*want || got > 1.03*want {
			t.Errorf("a request holds %.0f tokens where %.0f were measured, want %.0f (%.0f by chance)", got, measured,
				want, byChance)
		}
		if !slices.Equal(sorted(rs), sorted(unpaired)) {
			t.Errorf("%.0f: other answers than were drawn", measured)
		}
	}
}

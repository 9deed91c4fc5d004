package perfmodel

import (
	"math/rand/v2"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
)

// BenchmarkFit fits what 200 scrapes saw, with its intervals.
func BenchmarkFit(b *testing.B) {
	rnd := rand.New(rand.NewPCG(3, 4))
	cost := sim.StepCost{Base: 5e-3, Mixed: 1e-3, PerSeq: 3e-5, PerToken: 2e-5, PerKV: 2e-9}
	var obs []Observation
	for range 200 {
		seqs := 1 + rnd.Int64N(60)
		w := sim.Work{Steps: 50, Mixed: rnd.Int64N(20), Seqs: 50 * seqs, KVTokens: 50 * seqs * (500 + rnd.Int64N(1000))}
		w.Excess = w.Mixed * rnd.Int64N(800)
		w.Tokens = w.Seqs + w.Excess
		seconds := float64(w.Steps)*cost.Base + float64(w.Mixed)*cost.Mixed + float64(w.Seqs)*cost.PerSeq + float64(w.Excess)*cost.PerToken + float64(w.KVTokens)*cost.PerKV
		obs = append(obs, Observation{Work: w, Seconds: seconds * (0.95 + 0.1*rnd.Float64())})
	}
	for b.Loop() {
		p, err := solve(obs, 0, nil, nil)
		must.Succeed(b, err)
		if _, err := p.fit(nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

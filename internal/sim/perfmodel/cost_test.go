package perfmodel

import (
	"math"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/sim"
)

func TestAStepReadsTheWeightsAndTheCache(t *testing.T) {
	l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), Settings{Device: device(t, "H100"), TP: 2})
	m := l.Shape(1000)
	// All weights but the embedding, of which a token reads a row; norms on both GPUs.
	if want := 2 * (8030261248.0 - 128256*4096 + 65*4096) / 2; math.Abs(m.dense/want-1) > 1e-6 {
		t.Errorf("%v bytes of weights on each GPU, want %v", m.dense, want)
	}
	if m.kvBytes != 131072/2 || m.attentionWidth != 32*32*128/2 {
		t.Errorf("%v bytes a token, width %v", m.kvBytes, m.attentionWidth)
	}
	// A window of 4096 in half of the layers, at 16,384 tokens of context.
	g := ledger(t, modelconfigtest.Read(t, "gemma-2-9b"), Settings{Device: device(t, "H100")})
	if got, want := g.ReadPerToken(16384), 21*8192.0+21*8192*0.25; got != want {
		t.Errorf("Gemma 2 reads %v bytes for a token, want %v", got, want)
	}
	// Heads of two sizes: 50 layers with a window of 1024 and 16 heads of 256, 10 without one and 4 of 512.
	content := must.ReadFile(t, "../../../research/modelaccuracy/points/models/gemma-4-31b.json")
	gemma, err := modelconfig.Parse(content)
	must.Succeed(t, err)
	two := ledger(t, gemma, Settings{Device: device(t, "H100")})
	if got, want := two.ReadPerToken(16384), 50*16384.0/16+10*8192; got != want {
		t.Errorf("Gemma 4 reads %v bytes for a token, want %v", got, want)
	}
	if got, want := two.Shape(16384).attentionWidth, 32*(50*256.0/8+10*512); got != want {
		t.Errorf("Gemma 4's attention is %v wide, want %v", got, want)
	}
	// A prompt also updates states, of 36 of 48 layers.
	next := ledger(t, modelconfigtest.Read(t, "qwen3-next-80b-a3b"), Settings{Device: device(t, "H100")})
	if got, want := next.Shape(1000).recurrence, 36*8*32*128*128.0; got != want {
		t.Errorf("Qwen3 Next does %v operations on states for a token, want %v", got, want)
	}
	// 8 of 128 experts each.
	q := ledger(t, modelconfigtest.Read(t, "qwen3-30b-a3b"), Settings{Device: device(t, "H100")})
	experts := 48.0 * 128 * 3 * 2048 * 768 * 2
	dense := 2*(30532122624.0-151936*2048) - experts
	if got := q.Shape(1000); math.Abs(got.dense/dense-1) > 1e-6 || got.experts != experts ||
		got.expertShare != 8.0/128 {
		t.Errorf("Qwen3 30B reads %v and %v bytes, want %v and %v", got.dense, got.experts, dense, experts)
	}
}

func TestMoreGPUsAreFasterAndCostAllReduces(t *testing.T) {
	cost := func(tp int, gpu string) sim.StepCost {
		return ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"),
			Settings{Device: device(t, gpu), TP: tp}).StepCost(1000).StepCost
	}
	one, four := cost(1, "H100"), cost(4, "H100")
	if !(four.Base < one.Base && four.PerToken < one.PerToken && four.PerKV < one.PerKV) {
		t.Errorf("TP 1 %+v, TP 4 %+v", one, four)
	}
	if four.Base < one.Base/4 {
		t.Errorf("TP 4 is more than four times as fast: %v, %v", one.Base, four.Base)
	}
	// Without NVLink the all-reduces cost more.
	sxm, pcie := cost(4, "A100 SXM 80GB"), cost(4, "A100 PCIe 80GB")
	if pcie.PerToken <= sxm.PerToken {
		t.Errorf("PCIe %v, NVLink %v for a token", pcie.PerToken, sxm.PerToken)
	}
}

func TestAFitIsCarriedOverByTheDataSheets(t *testing.T) {
	fit := &Fit{Cost: sim.StepCost{Base: 0.01, PerKV: 1e-8}, Draws: []sim.StepCost{{Base: 0.02}}, Observations: 40}
	from, to := sim.StepCost{Base: 0.004, PerKV: 4e-9}, sim.StepCost{Base: 0.002, PerKV: 1e-9}
	got := fit.Transfer(Rough(from), Rough(to))
	if got.Cost.Base != 0.005 || got.Cost.PerKV != 2.5e-9 || got.Draws[0].Base != 0.01 || got.Observations != 40 {
		t.Errorf("%+v", got)
	}
	if fit.Cost.Base != 0.01 || fit.Draws[0].Base != 0.02 {
		t.Error("the fit was changed")
	}
}

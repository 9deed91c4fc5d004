package perfmodel

import (
	"math"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
)

// A request alone waits for its prompt on the one engine, for the transfer, and for a step
// of the other; then nothing but decoding.
func TestPrefillApart(t *testing.T) {
	c, err := sim.Defaults("0.23.0")
	if err != nil {
		t.Fatal(err)
	}
	c.MaxNumSeqs, c.MaxNumBatchedTokens, c.MaxModelLen, c.NumBlocks, c.AsyncScheduling = 64, 2048, 8192, 10000, false
	cost := sim.StepCost{Base: 10e-3, Mixed: 5e-3, PerToken: 100e-6}
	request := sim.Request{Arrival: time.Second, PromptTokens: 1000, OutputTokens: 101}
	d := Deployment{Config: c, Prefill: Prefill{Engines: 1, BytesPerToken: 1e5, Rate: 1e9}}
	p, err := Exactly(cost).Predict(d, []sim.Request{request}, 0, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	prompt, transfer, step := 10e-3+5e-3+1000*100e-6, 1000*1e5/1e9, 10e-3
	for _, x := range []struct {
		name      string
		got, want float64
	}{
		{"TTFT", p.TTFT.Mean.Value, prompt + transfer + step},
		{"TPOT", p.TPOT.Mean.Value, step},
		{"E2E", p.Summary.E2E.P50.Seconds(), prompt + transfer + 101*step},
	} {
		if math.Abs(x.got-x.want) > 0.5e-3 {
			t.Errorf("%s %.4f s, want %.4f", x.name, x.got, x.want)
		}
	}
	if got := p.Result.Records[0].Arrival; got != request.Arrival {
		t.Errorf("it arrived at %v, want %v", got, request.Arrival)
	}
	for _, bad := range []Prefill{{Engines: -1}, {Engines: 1, BytesPerToken: 1}, {Engines: 1, Rate: 1}} {
		d.Prefill = bad
		if d.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
}

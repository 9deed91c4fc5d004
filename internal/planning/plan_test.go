package planning

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// demand is Poisson traffic of log-normal lengths.
func demand(t testing.TB, rate float64, prompt, output string) Demand {
	t.Helper()
	var spec workload.Spec
	var err error
	spec.Prompt, err = workload.ParseLengths(prompt)
	must.Succeed(t, err)
	spec.Output, err = workload.ParseLengths(output)
	must.Succeed(t, err)
	return Demand{
		Rate: rate, MeanPrompt: spec.Prompt.Mean(), MeanOutput: spec.Output.Mean(), MaxTokens: 8192,
		Draw: func(rate float64, replicas, block int) ([]sim.Request, error) {
			g, err := workload.NewGenerator(spec, 1)
			if err != nil {
				return nil, err
			}
			arrivals := workload.Constant(rate / float64(replicas))
			arrivals.CV = 1
			pacer, err := arrivals.Pacer(2)
			if err != nil {
				return nil, err
			}
			return Draw(g, pacer, block, 400, 0)
		},
	}
}

// offer is a model on a GPU as its data sheet has it.
func offer(t testing.TB, model, gpu string, base perfmodel.Settings) *Offer {
	t.Helper()
	base.Device = device(t, gpu)
	base.Release = cmp.Or(base.Release, "0.23")
	return &Offer{Choice: Choice{Device: base.Device}, Model: modelconfigtest.Read(t, model), Base: base,
		Price: ListPrices()[base.Device.Name]}
}

func mustSearch(t testing.TB, p Plan) *Result {
	t.Helper()
	r, err := p.Search()
	must.Succeed(t, err)
	return r
}

func TestSearchFindsAConfigurationThatMeetsItsTargets(t *testing.T) {
	p := Plan{
		Offers:  []*Offer{offer(t, "llama-3.1-8b", "H100", perfmodel.Settings{MaxModelLen: 8192})},
		Targets: Targets{TTFTP95: 500 * time.Millisecond, ITLP95: 50 * time.Millisecond},
		Demand:  demand(t, 10, "lognormal:1000,0.7:50-6000", "lognormal:250,0.6:10-2000"),
	}
	r := mustSearch(t, p)
	if r.Surely == nil || r.Likely == nil || r.Smallest == nil {
		t.Fatalf("surely %+v, likely %+v, smallest %+v: %q", r.Surely, r.Likely, r.Smallest, r.Explain)
	}
	b := r.Surely
	if i := b.Prediction; i.TTFT.P95.High > 0.5 || i.ITL.P95.High > 0.05 {
		t.Errorf("found, and yet its intervals %+v and %+v miss the targets", i.TTFT.P95, i.ITL.P95)
	}
	if b.TTFT > 0.5 || b.ITL > 0.05 || len(b.Misses) > 0 || b.GPUs != b.TP*b.PP*b.DP*b.Replicas {
		t.Errorf("surely %+v", b)
	}
	if r.Likely.GPUs > b.GPUs || r.Smallest.Replicas != 1 || !(r.Smallest.Rate > 0 && r.Smallest.Rate <= 10) {
		t.Errorf("likely %+v, smallest %+v", r.Likely, r.Smallest)
	}
	if !strings.Contains(r.Basis, "data sheet") {
		t.Errorf("basis %q", r.Basis)
	}
	if again := mustSearch(t, p); again.Surely.Knobs != b.Knobs || again.Likely.Knobs != r.Likely.Knobs {
		t.Errorf("the same question has two answers: %+v and %+v", b.Knobs, again.Surely.Knobs)
	}
}

func TestTargetsOutOfReachAreExplained(t *testing.T) {
	if testing.Short() {
		t.Skip("it searches for seconds, as TestSearchFindsAConfigurationThatMeetsItsTargets does once")
	}
	for _, tc := range []struct {
		name    string
		targets Targets
		rate    float64
		gpus    int
		want    string
	}{
		{"no GPU is so fast", Targets{ITLP95: time.Millisecond}, 1, 8, "ITL P95 ≤ 1ms is not attainable: a single request"},
		{"more tokens than anybody asks for", Targets{TokensPerSecond: 1e6}, 1, 8, "below the target of 1000000"},
		{"too few GPUs", Targets{TTFTP95: 300 * time.Millisecond, ITLP95: 30 * time.Millisecond}, 500, 2, "2 GPUs are too few for 500 requests/s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := offer(t, "llama-3.1-8b", "H100", perfmodel.Settings{MaxModelLen: 8192})
			r := mustSearch(t, Plan{Offers: []*Offer{o}, Targets: tc.targets, MaxGPUs: tc.gpus,
				Demand: demand(t, tc.rate, "1000", "200")})
			if r.Likely != nil || r.Nearest == nil {
				t.Fatalf("found %+v", r.Likely)
			}
			if !strings.Contains(strings.Join(r.Explain, "\n"), tc.want) {
				t.Errorf("explanation %q, want %q", r.Explain, tc.want)
			}
		})
	}
}

func TestQuestionsThatCannotBeAnswered(t *testing.T) {
	ok := demand(t, 1, "100", "10")
	of := func(model, gpu string, base perfmodel.Settings) []*Offer { return []*Offer{offer(t, model, gpu, base)} }
	slow := Targets{ITLP95: time.Second}
	unknown := of("llama-3.1-8b", "H100", perfmodel.Settings{})
	unknown[0].Base.Device, unknown[0].Base.Memory = perfmodel.GPU{}, perfmodel.Exact(80*gib)
	for name, p := range map[string]Plan{
		"no target":            {Offers: of("llama-3.1-8b", "H100", perfmodel.Settings{}), Demand: ok},
		"no workload":          {Offers: of("llama-3.1-8b", "H100", perfmodel.Settings{}), Targets: slow},
		"no idea of its speed": {Offers: unknown, Targets: slow, Demand: ok},
		"a model too large":    {Offers: of("deepseek-v3", "T4", perfmodel.Settings{}), Targets: slow, Demand: ok},
		"prompts too long": {Offers: of("llama-3.1-8b", "H100", perfmodel.Settings{MaxModelLen: 64}),
			Targets: slow, Demand: ok},
		"a replica of too many": {Offers: of("llama-3.1-8b", "H100", perfmodel.Settings{TP: 8}), MaxGPUs: 4,
			Targets: slow, Demand: ok},
	} {
		if _, err := p.Search(); err == nil || hint.Of(err) == "" {
			t.Errorf("%s: %v, hint %q", name, err, hint.Of(err))
		}
	}
}

func TestFewPromptsThatAreRefusedDoNotFailTheTargets(t *testing.T) {
	o := offer(t, "llama-3.1-8b", "H100", perfmodel.Settings{MaxModelLen: 4096, TP: 1})
	r := mustSearch(t, Plan{Offers: []*Offer{o}, Targets: Targets{TTFTP95: 30 * time.Second}, MaxGPUs: 1,
		Demand: demand(t, 1, "lognormal:1000,1", "200")})
	if r.Surely == nil || r.Surely.Refused == 0 {
		t.Fatalf("found %+v, explanation %q", r.Surely, r.Explain)
	}
	if len(r.Notes) == 0 || !strings.Contains(r.Notes[0],
		"are rejected: their prompts leave no room below --max-model-len 4096") {
		t.Errorf("notes %q", r.Notes)
	}
}

// A server was measured on one GPU: its step times and its blocks count, and
// another tensor parallelism follows from the data sheets.
func TestAMeasuredServerIsBelieved(t *testing.T) {
	o := offer(t, "llama-3.1-8b", "H100", perfmodel.Settings{MaxModelLen: 8192})
	o.FitSettings = o.Base
	o.FitSettings.TP, o.FitSettings.KVType, o.FitSettings.Utilization = 1, "auto", 0.92
	slow := sim.StepCost{Base: 0.04, PerSeq: 1e-4, PerToken: 1e-5, PerKV: 1e-8, Knee: 256}
	o.Fit = &perfmodel.Calibration{Fit: &perfmodel.Fit{Cost: slow, Low: slow, High: slow}, Basis: perfmodel.Requests,
		Source: "a test"}
	o.FixedKV = &perfmodel.Observed{NumBlocks: 5000, BlockSize: 16}
	p := Plan{Offers: []*Offer{o}, Targets: Targets{ITLP95: 100 * time.Millisecond}, Demand: demand(t, 5, "500", "100")}
	r := mustSearch(t, p)
	if r.Surely == nil || r.Surely.GPUs != 1 || r.Surely.ITL < 0.04 || r.Surely.Ledger.Blocks.Value != 5000 {
		t.Fatalf("surely %+v, %q", r.Surely, r.Explain)
	}
	p.Targets.ITLP95 = 30 * time.Millisecond // faster than a step of the one that was measured
	if r = mustSearch(t, p); r.Surely == nil || r.Surely.TP == 1 {
		t.Errorf("surely %+v, %q", r.Surely, r.Explain)
	}
}

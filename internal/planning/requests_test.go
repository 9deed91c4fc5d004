package planning

import (
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

func generator(t *testing.T, s workload.Spec) workload.Source {
	t.Helper()
	g, err := workload.NewGenerator(s, 1)
	must.Succeed(t, err)
	return g
}

func TestDrawKeepsRateLengthsAndEnd(t *testing.T) {
	a := workload.Constant(10)
	a.CV = 1
	pacer, err := a.Pacer(1)
	must.Succeed(t, err)
	requests, err := Draw(generator(t, workload.Spec{Prompt: workload.Fixed(100), Output: workload.Fixed(7)}), pacer,
		16, 0, 100*time.Second)
	must.Succeed(t, err)
	if n := len(requests); n < 900 || n > 1100 {
		t.Errorf("%d requests in 100 s at 10 a second", n)
	}
	for i, r := range requests {
		if r.PromptTokens != 100 || r.OutputTokens != 7 || r.Arrival >= 100*time.Second || i > 0 &&
			r.Arrival < requests[i-1].Arrival || r.Blocks != nil {
			t.Fatalf("request %d: %+v", i, r)
		}
	}
}

// TestSharedPrefixesReachTheCache draws prompts that have two thirds in common.
func TestSharedPrefixesReachTheCache(t *testing.T) {
	lengths, err := workload.ParseLengths("uniform:300-900")
	must.Succeed(t, err)
	for _, share := range []float64{0, 0.3, 0.66} {
		a := workload.Constant(2)
		a.CV = 1
		pacer, _ := a.Pacer(1)
		requests, err := Draw(generator(t, workload.Spec{Prompt: lengths, Output: workload.Fixed(20),
			PrefixShare: share}), pacer, 16, 500, 0)
		must.Succeed(t, err)
		res, err := sim.Run(roomy(t), truth, requests, sim.Options{})
		must.Succeed(t, err)
		s := res.Replicas[0].Stats
		if hit := float64(s.PrefixAdmittedHit) / float64(s.PrefixAdmittedLookedUp); hit < share-0.04 ||
			hit > share+0.01 {
			t.Errorf("hit ratio %.3f of prompts that share %.2f", hit, share)
		}
	}
}

func TestATracesBlocksAndSessionsAreShared(t *testing.T) {
	trace := `{"timestamp": 0, "input_length": 1100, "output_length": 20, "hash_ids": [1, 2, 3]}
{"timestamp": 5000, "input_length": 1500, "output_length": 20, "hash_ids": [1, 2, 9]}
{"timestamp": 9000, "input_length": 1500, "output_length": 20, "hash_ids": [7, 2, 9]}
`
	tr, err := workload.Read(strings.NewReader(trace))
	must.Succeed(t, err)
	replay, err := workload.NewReplay(tr, 1, 1)
	must.Succeed(t, err)
	requests, err := Draw(replay, nil, 16, 0, 0)
	must.Succeed(t, err)
	res, err := sim.Run(roomy(t), truth, requests, sim.Options{})
	must.Succeed(t, err)
	var cached []int
	for _, r := range res.Requests {
		cached = append(cached, r.CachedTokens)
	}
	must.Equal(t, []int{0, 1024, 0}, cached)

	csv := "arrival,prompt_tokens,output_tokens,session\n0,160,16,a\n5,320,16,a\n9,320,16,b\n"
	tr, err = workload.Read(strings.NewReader(csv))
	must.Succeed(t, err)
	replay, err = workload.NewReplay(tr, 1, 1)
	must.Succeed(t, err)
	requests, err = Draw(replay, nil, 16, 0, 0)
	must.Succeed(t, err)
	res, err = sim.Run(roomy(t), truth, requests, sim.Options{})
	must.Succeed(t, err)
	if got := res.Requests[1].CachedTokens; got < 160 {
		t.Errorf("a second turn found %d tokens, the first had 160 and an answer", got)
	}
	if got := res.Requests[2].CachedTokens; got != 0 {
		t.Errorf("another conversation found %d tokens", got)
	}
}

func TestRequestsThatCannotBeServed(t *testing.T) {
	cfg := roomy(t)
	cfg.NumBlocks, cfg.BlockSize, cfg.MaxModelLen = 101, 16, 2048
	of := func(lengths ...[2]int) *Variant {
		v := &Variant{Deployment: perfmodel.Deployment{Config: cfg}}
		for _, l := range lengths {
			v.Requests = append(v.Requests, sim.Request{PromptTokens: l[0], OutputTokens: l[1]})
		}
		return v
	}
	v := of([2]int{100, 100}, [2]int{2048, 1}, [2]int{3000, 10})
	if err := new(Simulation).checkServable(v); err != nil || len(v.Requests) != 3 || len(v.Workload.Notes) != 1 ||
		!strings.Contains(v.Workload.Notes[0], "2 of 3 requests have prompts that leave no room") {
		t.Errorf("%v, %q", err, v.Workload.Notes)
	}
	large := of([2]int{100, 100}, [2]int{1200, 800}, [2]int{900, 2000})
	err := new(Simulation).checkServable(large)
	if err == nil || !strings.Contains(err.Error(), "2 of 3 requests need more than the 1600 tokens") ||
		!strings.Contains(err.Error(), "129 blocks") {
		t.Errorf("%v", err)
	}
	large.Deployment.Config.NumBlocks = 129
	if err := new(Simulation).checkServable(large); err != nil {
		t.Errorf("129 blocks are said to be enough: %v", err)
	}
}

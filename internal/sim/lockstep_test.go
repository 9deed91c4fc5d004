package sim

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// A rank whose group is otherwise idle gives the results of a single engine.
func TestARankWithIdleOthersIsAnEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rep := Replica{drawConfig(t), propertyCost}
		requests := drawRequests(t, rep.Config.BlockSize)
		alone := mustRun(t, []Replica{rep}, RoundRobin(), requests, Options{})
		grouped := mustRun(t, []Replica{rep, rep, rep}, Weighted([]float64{1, 0, 0}), requests, Options{Lockstep: 3})
		if diff := gocmp.Diff(alone.Requests, grouped.Requests); diff != "" {
			t.Fatalf("(-alone +in a group):\n%s", diff)
		}
	})
}

// A step of a group takes as long as the step of its slowest rank: a rank that decodes waits for the prefill of
// another.
func TestRanksWaitForEachOther(t *testing.T) {
	cfg := Config{MaxNumSeqs: 8, MaxNumBatchedTokens: 512, MaxModelLen: 2048, BlockSize: 16, NumBlocks: 1000,
		ChunkedPrefill: true}
	cost := StepCost{Base: 10e-3, PerToken: 1e-3}
	requests := []Request{
		{PromptTokens: 1, OutputTokens: 50},
		{Arrival: 100 * time.Millisecond, PromptTokens: 400, OutputTokens: 2},
	}
	gap := func(lockstep int) time.Duration {
		res, err := RunReplicas([]Replica{{cfg, cost}, {cfg, cost}}, RoundRobin(), requests,
			Options{Lockstep: lockstep})
		must.Succeed(t, err)
		return res.Requests[0].MaxITL
	}
	if got := gap(0); got != 11*time.Millisecond {
		t.Errorf("by itself a step of one token takes %v", got)
	}
	if got := gap(2); got < 410*time.Millisecond {
		t.Errorf("beside a prefill of 400 tokens a step takes %v", got)
	}
}

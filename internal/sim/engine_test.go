package sim_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/sim"
)

// second is a cost with which every step lasts one second, so that times count steps.
var second = sim.StepCost{Base: 1}

// small is a server of ten usable blocks of four tokens, without asynchronous scheduling, so that its steps can be
// worked out by hand.
func small() sim.Config {
	return sim.Config{
		MaxNumSeqs: 4, MaxNumBatchedTokens: 16, MaxModelLen: 40, BlockSize: 4, NumBlocks: 11,
		ChunkedPrefill: true, PrefixCaching: true, ReserveFullPrompt: true,
	}
}

func at(s int) time.Duration { return time.Duration(s) * time.Second }

func TestStepsWorkedOutByHand(t *testing.T) {
	type want struct{ scheduled, first, finish, preemptions, cached int }
	for name, tc := range map[string]struct {
		change   func(*sim.Config)
		requests []sim.Request
		want     []want
	}{
		"a prompt within the budget gives its first token after one step": {
			requests: []sim.Request{{PromptTokens: 10, OutputTokens: 3}},
			want:     []want{{0, 1, 3, 0, 0}},
		},
		"a prompt of twice the budget and one token takes three steps": {
			requests: []sim.Request{{PromptTokens: 33, OutputTokens: 1}},
			want:     []want{{0, 3, 3, 0, 0}},
		},
		"a long-prefill threshold leaves budget for the next prompt": {
			change:   func(c *sim.Config) { c.LongPrefillTokenThreshold = 8 },
			requests: []sim.Request{{PromptTokens: 16, OutputTokens: 1}, {PromptTokens: 8, OutputTokens: 1}},
			want:     []want{{0, 2, 2, 0, 0}, {0, 1, 1, 0, 0}},
		},
		"a decode goes before a prompt, which gets the rest of the budget": {
			requests: []sim.Request{{PromptTokens: 4, OutputTokens: 4},
				{Arrival: at(1), PromptTokens: 16, OutputTokens: 1}},
			want: []want{{0, 1, 4, 0, 0}, {1, 3, 3, 0, 0}},
		},
		"the third of two sequences waits for the first to end": {
			change: func(c *sim.Config) { c.MaxNumSeqs = 2 },
			requests: []sim.Request{
				{PromptTokens: 4, OutputTokens: 2}, {PromptTokens: 4, OutputTokens: 5}, {PromptTokens: 4, OutputTokens: 1},
			},
			want: []want{{0, 1, 2, 0, 0}, {0, 1, 5, 0, 0}, {2, 3, 3, 0, 0}},
		},
		// Blocks: 2+2 at the prompts; both need the third at token 9 (second step), the fourth at 13 (sixth), the fifth
		// at 17 (tenth): ten in all, then none is left at token 21 (fourteenth step, time 13). The first takes its
		// sixth from the second, which is preempted with 20 tokens known of which 13 output; its full blocks stay
		// findable. The first ends at 16, and frees enough.
		"the newest is preempted when blocks run out, and resumes from its own blocks": {
			requests: []sim.Request{{PromptTokens: 8, OutputTokens: 16}, {PromptTokens: 8, OutputTokens: 16}},
			want:     []want{{0, 1, 16, 0, 0}, {0, 1, 19, 1, 0}},
		},
		"an equal prompt in the same batch hits all full blocks but the last": {
			requests: []sim.Request{
				{PromptTokens: 8, OutputTokens: 1, Blocks: sim.SharedPrefix(7, 8, 4)},
				{PromptTokens: 8, OutputTokens: 1, Blocks: sim.SharedPrefix(7, 8, 4)},
			},
			want: []want{{0, 1, 1, 0, 0}, {0, 1, 1, 0, 4}},
		},
		"a prompt that does not fit whole waits, although its first chunk would fit": {
			requests: []sim.Request{{PromptTokens: 12, OutputTokens: 4}, {PromptTokens: 32, OutputTokens: 1}},
			want:     []want{{0, 1, 4, 0, 0}, {4, 6, 6, 0, 0}},
		},
		"a watermark keeps blocks free while others run": {
			change:   func(c *sim.Config) { c.Watermark = 0.5 }, // five of eleven
			requests: []sim.Request{{PromptTokens: 8, OutputTokens: 3}, {PromptTokens: 16, OutputTokens: 1}},
			want:     []want{{0, 1, 3, 0, 0}, {3, 4, 4, 0, 0}},
		},
		"asynchronous scheduling takes an arrival one step later": {
			change: func(c *sim.Config) { c.AsyncScheduling = true },
			requests: []sim.Request{{PromptTokens: 4, OutputTokens: 6},
				{Arrival: at(1) + 1, PromptTokens: 4, OutputTokens: 1}},
			want: []want{{0, 1, 6, 0, 0}, {2, 4, 4, 0, 0}},
		},
		"the more important overtakes, and the less important is preempted": {
			change: func(c *sim.Config) { c.Policy, c.MaxNumSeqs = sim.Priority, 1 },
			requests: []sim.Request{
				{PromptTokens: 4, OutputTokens: 3}, {PromptTokens: 4, OutputTokens: 1, Priority: 2}, {PromptTokens: 4, OutputTokens: 1, Priority: 1},
			},
			want: []want{{0, 1, 3, 0, 0}, {4, 5, 5, 0, 0}, {3, 4, 4, 0, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small()
			if tc.change != nil {
				tc.change(&cfg)
			}
			res, err := sim.Run(cfg, second, tc.requests, sim.Options{})
			must.Succeed(t, err)
			var got []want
			for i, r := range res.Requests {
				if r.Outcome != sim.Finished {
					t.Fatalf("request %d: %v", i, r.Outcome)
				}
				got = append(got, want{int(r.Scheduled / time.Second), int(r.FirstToken / time.Second),
					int(r.Finish / time.Second), r.Preemptions, r.CachedTokens})
			}
			must.Equal(t, tc.want, got, cmp.AllowUnexported(want{}))
		})
	}
}

func TestRefusedAndCancelledRequests(t *testing.T) {
	cfg := small()
	cfg.MaxNumSeqs, cfg.MaxQueuedRequests = 1, 2
	cfg.MaxModelLen = 60
	requests := []sim.Request{
		{PromptTokens: 4, OutputTokens: 9, CancelAfter: at(3) + 1}, // leaves in its fourth step
		{PromptTokens: 4, OutputTokens: 9, CancelAfter: at(2)},     // leaves while waiting
		{PromptTokens: 4, OutputTokens: 1},                         // two are in the server
		{Arrival: at(2) + 1, PromptTokens: 60, OutputTokens: 1},    // no room for a token
		{Arrival: at(2) + 1, PromptTokens: 30, OutputTokens: 20},   // 49 tokens, the cache has 40
		{Arrival: at(3), PromptTokens: 4, OutputTokens: 1},         // a place is free again
	}
	res, err := sim.Run(cfg, second, requests, sim.Options{})
	must.Succeed(t, err)
	var got []sim.Outcome
	for _, r := range res.Requests {
		got = append(got, r.Outcome)
	}
	want := []sim.Outcome{sim.Cancelled, sim.Cancelled, sim.QueueFull, sim.PromptTooLong, sim.NeverFits, sim.Finished}
	must.Equal(t, want, got)
	if r := res.Requests[0]; r.OutputTokens != 3 {
		t.Errorf("the client that left after 3 s has %d tokens, want 3", r.OutputTokens)
	}
	if r := res.Requests[5]; r.Scheduled != at(4) {
		t.Errorf("the next was scheduled at %v, want when the step of the one that left was over, at 4s", r.Scheduled)
	}
}

func TestQueuedTokensAreLimited(t *testing.T) {
	cfg := small()
	cfg.MaxNumSeqs, cfg.MaxQueuedTokens = 1, 10
	e, err := sim.New(cfg, second)
	must.Succeed(t, err)
	for i, want := range []error{nil, nil, sim.ErrQueueFull} { // 8 are below the limit, 16 are not
		if _, err := e.Add(sim.Request{PromptTokens: 8, OutputTokens: 1}); !errors.Is(err, want) {
			t.Errorf("request %d: %v, want %v", i, err, want)
		}
	}
	if _, wait := e.Schedule(0); !wait {
		t.Fatal("nothing to complete")
	}
	e.Complete(at(1)) // the first has its token: 8 are left
	if _, err := e.Add(sim.Request{PromptTokens: 8, OutputTokens: 1}); err != nil {
		t.Errorf("after a first token: %v", err)
	}
}

func TestRoutersSendRequestsWhereTheySay(t *testing.T) {
	replica := sim.Replica{Config: small(), Cost: second}
	a, b := sim.SharedPrefix(1, 8, 4), sim.SharedPrefix(2, 8, 4)
	requests := []sim.Request{
		{PromptTokens: 9, OutputTokens: 9, Blocks: a},
		{PromptTokens: 9, OutputTokens: 1, Blocks: b},
		{Arrival: at(3), PromptTokens: 9, OutputTokens: 1, Blocks: a},
		{Arrival: at(3), PromptTokens: 9, OutputTokens: 1, Blocks: b},
		{Arrival: at(3), PromptTokens: 9, OutputTokens: 1},
	}
	for name, tc := range map[string]struct {
		router sim.Router
		want   []int
	}{
		"in turn": {sim.RoundRobin(), []int{0, 1, 0, 1, 0}},
		"to the least loaded, waiting times four": {sim.LeastLoaded(), []int{0, 1, 1, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := sim.RunReplicas([]sim.Replica{replica, replica}, tc.router, requests, sim.Options{})
			must.Succeed(t, err)
			var got []int
			for _, r := range res.Requests {
				got = append(got, r.Replica)
			}
			must.Equal(t, tc.want, got)
		})
	}
}

func TestSamplesAreTheStateAtTheirInstant(t *testing.T) {
	res, err := sim.Run(small(), second, []sim.Request{
		{PromptTokens: 8, OutputTokens: 3}, {Arrival: at(1) + at(1)/2, PromptTokens: 4, OutputTokens: 1},
	}, sim.Options{SampleEvery: time.Second / 2})
	must.Succeed(t, err)
	ms := time.Millisecond
	want := []sim.Sample{ // at, running, waiting, blocks
		{At: 0, Running: 1, Waiting: 0, UsedBlocks: 2}, {At: 500 * ms, Running: 1, Waiting: 0, UsedBlocks: 2}, {At: 1000 * ms, Running: 1, Waiting: 0, UsedBlocks: 3}, {At: 1500 * ms, Running: 1, Waiting: 1, UsedBlocks: 3}, {At: 2000 * ms, Running: 2, Waiting: 0, UsedBlocks: 4}, {At: 2500 * ms, Running: 2, Waiting: 0, UsedBlocks: 4},
	}
	must.Equal(t, want, res.Replicas[0].Samples)
}

func TestInvalidInputIsRefused(t *testing.T) {
	for name, change := range map[string]func(*sim.Config){
		"no sequences":                          func(c *sim.Config) { c.MaxNumSeqs = 0 },
		"fewer tokens than sequences":           func(c *sim.Config) { c.MaxNumBatchedTokens = 3 },
		"no blocks":                             func(c *sim.Config) { c.NumBlocks = 1 },
		"prompts longer than an unchunked step": func(c *sim.Config) { c.ChunkedPrefill = false },
		"a watermark of everything":             func(c *sim.Config) { c.Watermark = 1 },
	} {
		cfg := small()
		change(&cfg)
		if _, err := sim.Run(cfg, second, nil, sim.Options{}); err == nil || hint.Of(err) == "" {
			t.Errorf("%s: error %v with hint %q, want both", name, err, hint.Of(err))
		}
	}
	for name, r := range map[string]sim.Request{
		"no prompt":               {OutputTokens: 1},
		"no output":               {PromptTokens: 1},
		"more than was asked for": {PromptTokens: 1, OutputTokens: 3, MaxTokens: 2},
		"a negative arrival":      {Arrival: -1, PromptTokens: 1, OutputTokens: 1},
	} {
		if _, err := sim.Run(small(), second, []sim.Request{r}, sim.Options{}); err == nil ||
			!strings.Contains(err.Error(), "request 0") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, cost := range map[string]sim.StepCost{"free steps": {}, "a negative constant": {Base: 1, PerKV: -1}} {
		if _, err := sim.New(small(), cost); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, release := range []engine.Release{"", "0", "0.x", "0.7.3"} {
		if _, err := sim.Defaults(release); err == nil {
			t.Errorf("release %q: no error", release)
		}
	}
}

func TestRulesDependOnTheRelease(t *testing.T) {
	for release, want := range map[engine.Release][2]bool{ // asynchronous, full prompt reserved
		"0.10.2": {false, false}, "0.14.0": {true, false}, "0.19.0": {true, true}, "0.33.0": {true, true},
		"1.0.0": {true, true},
	} {
		cfg, err := sim.Defaults(release)
		must.Succeed(t, err)
		if got := [2]bool{cfg.AsyncScheduling, cfg.ReserveFullPrompt}; got != want {
			t.Errorf("%s: %v, want %v", release, got, want)
		}
	}
}

func TestASummaryEqualsALoadTests(t *testing.T) {
	res, err := sim.Run(small(), second, []sim.Request{{PromptTokens: 4, OutputTokens: 3},
		{Arrival: at(1), PromptTokens: 4, OutputTokens: 5}}, sim.Options{})
	must.Succeed(t, err)
	s := res.Summary()
	if s.TTFT.Mean != at(1) || s.TPOT.Max != at(1) || s.E2E.P50 != at(3) || s.E2E.Max != at(5) || s.OutputTokens != 8 ||
		s.Duration != at(6) {
		t.Errorf("%+v", s)
	}
	if s.ITL.Count != 6 || s.ITL.P95 < at(1) || s.ITL.P95 > at(1)+at(1)/1000 {
		t.Errorf("gaps %+v, want 6 of a second", s.ITL)
	}
}

func TestASlowerClockHoldsFromTheNextStepOn(t *testing.T) {
	e, err := sim.New(testConfig(), sim.StepCost{Base: 0.01})
	must.Succeed(t, err)
	if err := e.SetCost(sim.StepCost{}); err == nil {
		t.Error("a step without a cost was taken")
	}
	if _, err := e.Add(sim.Request{PromptTokens: 10, OutputTokens: 5}); err != nil {
		t.Fatal(err)
	}
	step := func(now time.Duration) time.Duration {
		for {
			if due, wait := e.Schedule(now); wait {
				e.Complete(due)
				return due
			}
		}
	}
	first := step(0)
	must.Succeed(t, e.SetCost(sim.StepCost{Base: 0.03}))
	second := step(first) // was scheduled ahead
	if third := step(second); second != 20*time.Millisecond || third != 50*time.Millisecond {
		t.Errorf("steps end at %v, %v, %v", first, second, third)
	}
}

package sim

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// A measured time does not change the run: requests that ended within it have the same results as in the whole run,
// others are Unfinished, and all tokens within it are counted. The result is the same if steps are simulated one by
// one.
func TestAMeasuredTimeDoesNotChangeTheRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		requests := drawRequests(t, cfg.BlockSize)
		for i := range requests {
			requests[i].Unanswered = rapid.Bool().Draw(t, "unanswered")
		}
		replicas := []Replica{{cfg, propertyCost}}
		o := Options{Clients: rapid.SampledFrom([]int{0, 8}).Draw(t, "clients")}
		o.Held = rapid.IntRange(0, min(len(requests), 8)).Draw(t, "held")
		whole := mustRun(t, replicas, RoundRobin(), requests, o)
		o.From = time.Millisecond + time.Duration(rapid.Float64Range(0, 1).Draw(t, "from")*float64(whole.End))
		o.To = o.From + max(time.Duration(rapid.Float64Range(0, 1).Draw(t, "to")*float64(whole.End)), 1)
		gaps := int64(0)
		o.Gap = func(_ time.Duration, n int64) { gaps += n }
		res := mustRun(t, replicas, RoundRobin(), requests, o)
		tokens, firsts := int64(0), int64(0)
		for i, r := range res.Requests {
			if r.OutputTokens > 0 && r.FirstToken >= o.From {
				firsts++
			}
			tokens += int64(r.OutputTokens)
			switch w := whole.Requests[i]; {
			case r.Outcome != Unfinished:
				if diff := gocmp.Diff(w, r); diff != "" {
					t.Fatalf("request %d (-whole +measured):\n%s", i, diff)
				}
			case r.LastToken > o.To || r.OutputTokens > w.OutputTokens ||
				w.Finish < o.To && w.Outcome != Cancelled: // a cancellation is seen at the end of a step
				t.Fatalf("request %d is not at its end at %v: %+v, %+v", i, o.To, r, w)
			}
		}
		st := &res.Replicas[0]
		if st.Stats.GenerationTokens != tokens {
			t.Fatalf("%d tokens, and %d of the requests", st.Stats.GenerationTokens, tokens)
		}
		// A token at the very beginning may count or not.
		if n := st.Stats.GenerationTokens - st.Before.GenerationTokens; n > firsts+gaps ||
			n < firsts+gaps-int64(cfg.MaxNumSeqs) {
			t.Fatalf("%d tokens since %v; %d first ones and %d gaps", n, o.From, firsts, gaps)
		}
		slow := o
		slow.StepByStep, slow.Gap = true, nil
		if diff := gocmp.Diff(res, mustRun(t, replicas, RoundRobin(), requests, slow), withoutHistogram); diff != "" {
			t.Fatalf("step by step differs (-fast +slow):\n%s", diff)
		}
	})
}

func TestHeldRequestsRunFromTheBeginning(t *testing.T) {
	cfg := Config{MaxNumSeqs: 3, MaxNumBatchedTokens: 64, MaxModelLen: 256, BlockSize: 4, NumBlocks: 100,
		ChunkedPrefill: true}
	var requests []Request
	for range 6 {
		requests = append(requests, Request{PromptTokens: 100, OutputTokens: 40})
	}
	res, err := Run(cfg, propertyCost, requests, Options{Held: 4, Clients: 5, SampleEvery: time.Millisecond})
	must.Succeed(t, err)
	for i, r := range res.Requests {
		if held := i < 3; held != (r.FirstToken < 10*time.Microsecond) || r.Outcome != Finished {
			t.Errorf("request %d had its first token at %v", i, r.FirstToken)
		}
	}
	if last := res.Requests[5]; last.Arrival != res.Requests[0].Finish {
		t.Errorf("the last came at %v, when a client was free at %v", last.Arrival, res.Requests[0].Finish)
	}
	requests[4].CancelAfter, requests[5].CancelAfter = time.Hour, time.Millisecond
	requests[4].Unanswered, requests[5].Unanswered = true, true
	if res, err = Run(cfg, propertyCost, requests, Options{Held: 4}); err != nil ||
		res.Requests[5].Outcome != Cancelled || res.Requests[4].Outcome != Finished {
		t.Errorf("who waits for an hour: %v, for a millisecond: %v; %v", res.Requests[4].Outcome,
			res.Requests[5].Outcome, err)
	}
	if res, err = Run(cfg, propertyCost, requests, Options{Limits: Limits{Tokens: 60}}); err != nil ||
		res.Exceeded != Generated || res.Replicas[0].Stats.GenerationTokens > 100 {
		t.Errorf("%q exceeded after %d tokens, want about 60; %v", res.Exceeded, res.Replicas[0].Stats.GenerationTokens,
			err)
	}
	for name, o := range map[string]Options{"more than there are": {Held: 7},
		"more than there are clients": {Held: 3, Clients: 2}} {
		if _, err := Run(cfg, propertyCost, requests, o); err == nil {
			t.Errorf("held are %s: no error", name)
		}
	}
	cfg.MaxQueuedRequests = 1
	if res, err = Run(cfg, propertyCost, requests[:3], Options{Clients: 2}); err != nil ||
		res.Requests[2].Arrival != time.Second {
		t.Errorf("the first ended at %v, and after the second, which was refused, the next came at %v; %v",
			res.Requests[0].Finish, res.Requests[2].Arrival, err)
	}
}

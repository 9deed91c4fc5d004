package sim

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func drawConfig(t *rapid.T) Config {
	size := rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "block size")
	cfg := Config{
		BlockSize:                 size,
		NumBlocks:                 rapid.IntRange(6, 80).Draw(t, "KV tokens / 16")*16/size + 1,
		MaxNumSeqs:                rapid.IntRange(1, 12).Draw(t, "max-num-seqs"),
		MaxModelLen:               rapid.IntRange(40, 300).Draw(t, "max-model-len"),
		ChunkedPrefill:            rapid.Bool().Draw(t, "chunked prefill"),
		PrefixCaching:             rapid.Bool().Draw(t, "prefix caching"),
		AsyncScheduling:           rapid.Bool().Draw(t, "async scheduling"),
		ReserveFullPrompt:         rapid.Bool().Draw(t, "reserve full prompt"),
		LongPrefillTokenThreshold: rapid.SampledFrom([]int{0, 0, 20}).Draw(t, "long prefill threshold"),
		Policy:                    rapid.SampledFrom([]Policy{FCFS, FCFS, Priority}).Draw(t, "policy"),
		Watermark:                 rapid.SampledFrom([]float64{0, 0, 0.1}).Draw(t, "watermark"),
		MaxQueuedRequests:         rapid.SampledFrom([]int{0, 0, 10}).Draw(t, "max-num-queued-reqs"),
		MaxQueuedTokens:           rapid.SampledFrom([]int{0, 0, 500}).Draw(t, "max-num-queued-tokens"),
	}
	cfg.MaxNumBatchedTokens = max(rapid.IntRange(4, 120).Draw(t, "max-num-batched-tokens"), cfg.MaxNumSeqs)
	if !cfg.ChunkedPrefill {
		cfg.MaxNumBatchedTokens = max(cfg.MaxNumBatchedTokens, cfg.MaxModelLen)
	}
	return cfg
}

func drawRequests(t *rapid.T, blockSize int) []Request {
	at := time.Duration(0)
	requests := make([]Request, rapid.IntRange(1, 30).Draw(t, "requests"))
	for i := range requests {
		at += time.Duration(rapid.SampledFrom([]int{0, 0, 1, 7, 40, 400}).Draw(t, "gap")) * 100 * time.Microsecond
		r := Request{
			Arrival:      at,
			PromptTokens: rapid.IntRange(1, 250).Draw(t, "prompt"),
			OutputTokens: rapid.IntRange(1, 80).Draw(t, "output"),
			Priority:     rapid.IntRange(0, 2).Draw(t, "priority"),
		}
		if rapid.IntRange(0, 4).Draw(t, "stops early") == 0 {
			r.MaxTokens = r.OutputTokens + 9
		}
		if rapid.IntRange(0, 5).Draw(t, "leaves") == 0 {
			r.CancelAfter = time.Duration(rapid.IntRange(1, 900).Draw(t, "patience")) * 100 * time.Microsecond
		}
		shared := rapid.SampledFrom([]int{0, r.PromptTokens / 2, r.PromptTokens,
			r.PromptTokens + r.OutputTokens}).Draw(t, "shared")
		r.Blocks = SharedPrefix(uint64(rapid.IntRange(0, 1).Draw(t, "group")), shared, blockSize)
		requests[i] = r
	}
	return requests
}

var propertyCost = StepCost{Base: 1e-3, Mixed: 1e-4, PerSeq: 1e-5, PerToken: 1e-5, PerKV: 1e-7, PerPair: 1e-9, Knee: 30}

// Every step of any engine keeps the invariants of the scheduler.
func TestStepsKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		e, err := New(cfg, propertyCost)
		must.Succeed(t, err)
		requests := drawRequests(t, cfg.BlockSize)
		delivered := make(map[int]int)
		accepted := make(map[int]Request)
		ended := 0
		steps := 0
		for now, next := time.Duration(0), 0; next < len(requests) || e.HasWork(); {
			if steps++; steps > 20_000 {
				t.Fatalf("no end: %+v", e.Stats())
			}
			if !e.HasWork() {
				now = max(now, requests[next].Arrival)
			}
			for ; next < len(requests) && requests[next].Arrival <= now; next++ {
				if id, err := e.Add(requests[next]); err == nil {
					accepted[id] = requests[next]
				}
			}
			for id, r := range accepted { // order does not matter to the invariants
				if r.CancelAfter > 0 && r.Arrival+r.CancelAfter <= now && e.Cancel(id, now) != nil {
					ended++
				}
			}
			due, wait := e.Schedule(now)
			checkInvariants(t, e)
			if !wait {
				continue
			}
			now = due
			for _, out := range e.Complete(now) {
				delivered[out.ID]++
				if res := out.Result; res != nil {
					ended++
					r := accepted[out.ID]
					if want := min(r.OutputTokens, cfg.MaxModelLen-r.PromptTokens); delivered[out.ID] != want ||
						res.OutputTokens != want {
						t.Fatalf("request %d got %d tokens, its result says %d, want %d", out.ID, delivered[out.ID],
							res.OutputTokens, want)
					}
				}
			}
			checkInvariants(t, e)
		}
		if ended != len(accepted) {
			t.Fatalf("%d of %d admitted requests ended", ended, len(accepted))
		}
		if s := e.Stats(); s.UsedBlocks != 0 || e.prefillTokens != 0 {
			t.Fatalf("idle with %d blocks in use and %d prompt tokens in prefill", s.UsedBlocks, e.prefillTokens)
		}
	})
}

func checkInvariants(t *rapid.T, e *Engine) {
	held := make([]int32, e.cfg.NumBlocks)
	for _, r := range e.running {
		for _, b := range r.blocks {
			if b == 0 {
				t.Fatal("a request holds the null block")
			}
			held[b]++
		}
		if need := blocksFor(r.computed, e.cfg.BlockSize); len(r.blocks) < need {
			t.Fatalf("request %d computed %d tokens in %d blocks", r.id, r.computed, len(r.blocks))
		}
	}
	used := 0
	for b, n := range held {
		if e.pool.ref[b] != n {
			t.Fatalf("block %d has %d references and %d holders", b, e.pool.ref[b], n)
		}
		if n > 0 {
			used++
		}
	}
	if used != e.usedBlocks() || used > e.cfg.usableBlocks() {
		t.Fatalf("%d blocks held, %d accounted for, %d exist", used, e.usedBlocks(), e.cfg.usableBlocks())
	}
	if len(e.running) > e.cfg.MaxNumSeqs {
		t.Fatalf("%d requests run, limit %d", len(e.running), e.cfg.MaxNumSeqs)
	}
	for _, b := range e.inFlight {
		tokens := 0
		for _, en := range b.entries {
			tokens += en.n
		}
		if tokens > e.cfg.MaxNumBatchedTokens {
			t.Fatalf("a batch of %d tokens, budget %d", tokens, e.cfg.MaxNumBatchedTokens)
		}
	}
}

// Requests of equal priority are first scheduled in the order of their arrival.
func TestFirstComeFirstServedWithinPriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		requests := drawRequests(t, cfg.BlockSize)
		res, err := Run(cfg, propertyCost, requests, Options{})
		must.Succeed(t, err)
		last := make(map[int]time.Duration)
		for i, r := range res.Requests {
			if r.OutputTokens == 0 {
				continue // refused, or left before it was served
			}
			class := 0
			if cfg.Policy == Priority {
				class = requests[i].Priority
			}
			if r.Scheduled < last[class] {
				t.Fatalf("request %d was scheduled at %v, before an earlier one at %v", i, r.Scheduled, last[class])
			}
			last[class] = r.Scheduled
		}
	})
}

// Fast-forwarding changes nothing, and the same input gives the same result.
func TestFastForwardIsStepByStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := make([]Replica, rapid.IntRange(1, 3).Draw(t, "replicas"))
		for i := range replicas {
			replicas[i] = Replica{drawConfig(t), propertyCost}
		}
		requests := drawRequests(t, replicas[0].Config.BlockSize)
		run := func(stepByStep bool) *Result {
			res, err := RunReplicas(replicas, LeastLoaded(), requests,
				Options{SampleEvery: 3 * time.Millisecond, StepByStep: stepByStep})
			must.Succeed(t, err)
			return res
		}
		fast, again, slow := run(false), run(false), run(true)
		opt := gocmp.Options{gocmp.AllowUnexported(Result{}, Record{}),
			gocmp.Comparer((*hdrhistogram.Histogram).Equals)}
		if diff := gocmp.Diff(fast, again, opt); diff != "" {
			t.Fatalf("two runs differ:\n%s", diff)
		}
		if diff := gocmp.Diff(slow, fast, opt); diff != "" {
			t.Fatalf("(-step by step +fast-forward):\n%s", diff)
		}
	})
}

// Tokens are conserved: what the requests got is what the engines counted.
func TestTokensAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		requests := drawRequests(t, cfg.BlockSize)
		res, err := Run(cfg, propertyCost, requests, Options{})
		must.Succeed(t, err)
		stats := res.Replicas[0].Stats
		var output, preemptions, needed int64
		exact := true // nothing was computed in vain
		for i, r := range res.Requests {
			output += int64(r.OutputTokens)
			preemptions += int64(r.Preemptions)
			exact = exact && r.Preemptions == 0 && r.Outcome != Cancelled &&
				(!cfg.AsyncScheduling || requests[i].MaxTokens == 0)
			switch {
			case r.Outcome == Unfinished:
				t.Fatalf("request %d did not end", i)
			case r.Outcome == Finished && r.Preemptions > 0:
				needed += int64(r.OutputTokens) // its prompt may have come from the cache since
			case r.Outcome == Finished:
				needed += int64(r.PromptTokens - r.CachedTokens + r.OutputTokens - 1)
			}
			if r.OutputTokens > 0 &&
				!slices.IsSortedFunc([]time.Duration{r.Arrival, r.Scheduled, r.FirstToken, r.LastToken, r.Finish},
					cmp.Compare) {
				t.Fatalf("request %d's times are out of order: %+v", i, r)
			}
		}
		if output != stats.GenerationTokens || preemptions != stats.Preemptions {
			t.Fatalf("requests got %d tokens and %d preemptions, the engine counted %+v", output, preemptions, stats)
		}
		if got := stats.Work.Tokens; got < needed || exact && got != needed {
			t.Fatalf("%d tokens computed, %d were needed", got, needed)
		}
	})
}

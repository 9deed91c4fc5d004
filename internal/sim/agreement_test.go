package sim

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// A script is what testdata/drive_vllm.py did to vLLM's scheduler classes and what they answered, batch by batch.
type script struct {
	Name   string `json:"name"`
	Config struct {
		MaxNumSeqs                int    `json:"max_num_seqs"`
		MaxNumBatchedTokens       int    `json:"max_num_batched_tokens"`
		MaxModelLen               int    `json:"max_model_len"`
		BlockSize                 int    `json:"block_size"`
		NumBlocks                 int    `json:"num_blocks"`
		ChunkedPrefill            bool   `json:"chunked_prefill"`
		PrefixCaching             bool   `json:"prefix_caching"`
		LongPrefillTokenThreshold int    `json:"long_prefill_token_threshold"`
		Policy                    string `json:"policy"`
		AsyncScheduling           bool   `json:"async_scheduling"`
		ReserveFullPrompt         bool   `json:"reserve_full_prompt"`
	} `json:"config"`
	Requests []struct {
		At        int    `json:"at"` // iteration of the engine's loop
		Prompt    int    `json:"prompt"`
		Output    int    `json:"output"`
		MaxTokens int    `json:"max_tokens"`
		Priority  int    `json:"priority"`
		Cancel    int    `json:"cancel"` // iteration, or -1
		Group     uint64 `json:"group"`
		Shared    int    `json:"shared"` // leading tokens, of prompt and output, that the group shares
	} `json:"requests"`
	Steps []scriptStep `json:"steps"`
}

type scriptStep struct {
	Scheduled [][3]int `json:"scheduled"` // request, tokens, tokens in the cache before
	Running   []int    `json:"running"`
	Waiting   []int    `json:"waiting"`
	Preempted []int    `json:"preempted"`
	Used      int      `json:"used"`
	Finished  []int    `json:"finished"` // by the tokens of this batch
}

func readScripts(t *testing.T, r io.Reader) []script {
	t.Helper()
	var doc struct {
		VLLM  string   `json:"vllm"`
		Cases []script `json:"cases"`
	}
	must.Succeed(t, json.NewDecoder(r).Decode(&doc))
	if len(doc.Cases) == 0 {
		t.Fatal("no cases")
	}
	return doc.Cases
}

func TestEveryStepEqualsVLLMs(t *testing.T) {
	f, err := os.Open("testdata/vllm-0.23.0.json.gz")
	must.Succeed(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.Succeed(t, err)
	compareScripts(t, readScripts(t, z))
}

// compareScripts replays scripts and compares batch by batch. It fails if the scripts lack an event that they must
// cover.
func compareScripts(t *testing.T, scripts []script) {
	var steps, preemptions, hits int
	for _, s := range scripts {
		t.Run(s.Name, func(t *testing.T) {
			got := replay(t, s)
			for i := range min(len(got), len(s.Steps)) {
				if diff := cmp.Diff(s.Steps[i], got[i]); diff != "" {
					t.Fatalf("step %d (-vLLM +simulated):\n%s", i, diff)
				}
			}
			if len(got) != len(s.Steps) {
				t.Fatalf("%d steps, vLLM took %d", len(got), len(s.Steps))
			}
		})
		steps += len(s.Steps)
		fresh := make(map[int]bool)
		for _, step := range s.Steps {
			preemptions += len(step.Preempted)
			for _, sc := range step.Scheduled {
				if !fresh[sc[0]] && sc[2] > 0 {
					hits++
				}
				fresh[sc[0]] = true
			}
		}
	}
	t.Logf("%d steps compared, with %d preemptions and %d prefix cache hits", steps, preemptions, hits)
	if preemptions == 0 || hits == 0 {
		t.Error("the scripts exercise no preemption or no prefix cache hit")
	}
}

// replay runs a script with steps that take one unit of time.
func replay(t *testing.T, s script) []scriptStep {
	t.Helper()
	c := s.Config
	cfg := Config{
		MaxNumSeqs: c.MaxNumSeqs, MaxNumBatchedTokens: c.MaxNumBatchedTokens, MaxModelLen: c.MaxModelLen,
		BlockSize: c.BlockSize, NumBlocks: c.NumBlocks, ChunkedPrefill: c.ChunkedPrefill,
		PrefixCaching: c.PrefixCaching, LongPrefillTokenThreshold: c.LongPrefillTokenThreshold,
		AsyncScheduling: c.AsyncScheduling, ReserveFullPrompt: c.ReserveFullPrompt,
	}
	if c.Policy == Priority.String() {
		cfg.Policy = Priority
	}
	e, err := New(cfg, StepCost{Base: 1})
	must.Succeed(t, err)
	var got []scriptStep
	number := make(map[int]int) // of the script's requests, by the engine's number
	engineID := make(map[int]int)
	var open []int // steps in execution
	for iteration, now := 0, time.Duration(0); ; iteration++ {
		left := false
		for i, r := range s.Requests {
			left = left || r.At >= iteration
			if r.At == iteration {
				id, err := e.Add(Request{
					Arrival: time.Duration(i), PromptTokens: r.Prompt, OutputTokens: r.Output, MaxTokens: r.MaxTokens,
					Priority: r.Priority, Blocks: SharedPrefix(r.Group, r.Shared, c.BlockSize),
				})
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				number[id], engineID[i] = i, id
			}
			if id, ok := engineID[i]; ok && r.Cancel == iteration {
				e.Cancel(id, now)
			}
		}
		if !left && !e.HasWork() {
			return got
		}
		if iteration > 10000 {
			t.Fatal("no end")
		}
		before := snapshot(e)
		batches := len(e.inFlight)
		due, wait := e.Schedule(now)
		if len(e.inFlight) > batches {
			got = append(got, describe(e, before, number))
			open = append(open, len(got)-1)
		}
		if wait {
			now = due
			for _, out := range e.Complete(now) {
				if out.Result != nil {
					got[open[0]].Finished = append(got[open[0]].Finished, number[out.ID])
				}
			}
			slices.Sort(got[open[0]].Finished)
			open = open[1:]
		}
	}
}

func snapshot(e *Engine) map[*request]int {
	before := make(map[*request]int)
	for _, r := range e.requests {
		before[r] = r.result.Preemptions
	}
	return before
}

// describe returns the batch that was just formed in the form of a script.
func describe(e *Engine, before map[*request]int, number map[int]int) scriptStep {
	step := scriptStep{
		Scheduled: [][3]int{}, Running: []int{}, Waiting: []int{}, Preempted: []int{}, Finished: []int{},
		Used: e.usedBlocks(),
	}
	for _, en := range e.inFlight[len(e.inFlight)-1].entries {
		step.Scheduled = append(step.Scheduled, [3]int{number[en.r.id], en.n, en.r.computed - en.n})
	}
	for _, r := range e.running {
		step.Running = append(step.Running, number[r.id])
	}
	q := e.waiting
	if q.policy == Priority {
		q.heap = slices.Clone(q.heap)
	} else {
		q.ring = slices.Clone(q.ring)
	}
	for r := q.peek(); r != nil; r = q.peek() {
		step.Waiting = append(step.Waiting, number[r.id])
		q.pop()
	}
	for r, n := range before {
		for range r.result.Preemptions - n {
			step.Preempted = append(step.Preempted, number[r.id])
		}
	}
	slices.Sort(step.Preempted)
	return step
}

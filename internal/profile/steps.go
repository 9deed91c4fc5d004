package profile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Phase is what a step does.
type Phase uint8

// The phases.
const (
	Unknown Phase = iota
	Prefill
	Decode
	Mixed // prefill and decode in one batch
	Phases
)

func (p Phase) String() string {
	return [...]string{"steps", "prefill", "decode", "mixed"}[min(p, Mixed)]
}

// A Step is one iteration of the engine, or of whatever was profiled.
type Step struct {
	Start, Host int64 // on the host
	Period      int64 // until the next step begins, on the device where it has activities; of the last one 0
	Phase       Phase

	PrefillRequests, PrefillTokens int
	DecodeRequests, DecodeTokens   int

	Launches       int
	Kernels        int
	GPUFrom, GPUTo int64 // of its activities, on all its devices; both 0 where there are none
	Busy           int64 // of its devices, each counted
	Idle           int64 // of them before its activities
	HostLate       int64
	Exposed        int64 // communication
	Group          [Groups]int64
	Count          [Groups]int32   // kernels and copies
	Causes         [Causes]float32 // nanoseconds of Idle, by cause
	process        int64
	thread         int64
	begunOnDevice  bool
}

// Tokens is how many the step computed; 0 is unknown.
func (s *Step) Tokens() int { return s.PrefillTokens + s.DecodeTokens }

// Time is how long the step took: on the device from its first activity to its last,
// where there are any, else on the host.
func (s *Step) Time() int64 {
	if s.GPUTo > s.GPUFrom {
		return s.GPUTo - s.GPUFrom
	}
	return s.Host
}

// batch is what an annotation says of a step.
type batch struct {
	rank                                                         int
	prefillRequests, prefillTokens, decodeRequests, decodeTokens int
	phase                                                        Phase
}

// stepWays are the ways to tell steps apart, the best first. A batch's rank is one of them.
var stepWays = []string{
	byVLLM:      "annotations of batches",
	byTensorRT:  "TensorRT-LLM's annotations",
	byModel:     "calls of execute_model",
	byRunner:    "ranges of vLLM's model runner",
	byRange:     "ranges named after steps",
	byProfiler:  "ProfilerStep annotations",
	byOptimizer: "steps of the optimizer",
}

const (
	byVLLM = iota
	byTensorRT
	byModel
	byRunner
	byRange
	byProfiler
	byOptimizer
)

// stepOf reads what a name says of a step; nil where it is none of a step.
//
// vLLM's worker names its iterations "execute_context_1(512)_generation_8(8)":
// requests and tokens of each phase (vllm/v1/worker/gpu_worker.py, annotate_profile);
// in detail since 0.24 "execute_520_context_1(sq512sk512…)_generation_8(sq8sk900…)".
// Before, its model runner named the parts of a step alone (gpu_model_runner.py).
// TensorRT-LLM's PyExecutor names its "[Executor] _forward_step 12: 1 ctx reqs, 512 ctx
// tokens, 8 gen reqs", in some releases without the number or the tokens.
func stepOf(name string) *batch {
	if strings.HasPrefix(name, "execute_") && strings.Contains(name, "context_") && strings.Contains(name, "generation_") {
		_, rest, _ := strings.Cut(name, "context_")
		b := &batch{}
		var ok1, ok2 bool
		b.prefillRequests, b.prefillTokens, ok1 = countsOf(rest)
		_, rest, _ = strings.Cut(rest, "generation_")
		b.decodeRequests, b.decodeTokens, ok2 = countsOf(rest)
		if !ok1 || !ok2 {
			return nil
		}
		return b.phased()
	}
	if _, counts, ok := strings.Cut(name, ": "); ok && strings.HasPrefix(name, "[Executor] _forward_step") {
		b := &batch{rank: byTensorRT}
		for part := range strings.SplitSeq(counts, ", ") {
			text, what, _ := strings.Cut(part, " ")
			n, err := strconv.Atoi(text)
			switch {
			case err != nil || n < 0:
				return nil
			case what == "ctx reqs":
				b.prefillRequests = n
			case what == "ctx tokens":
				b.prefillTokens = n
			case what == "gen reqs":
				b.decodeRequests = n
			}
		}
		if b.prefillRequests == 0 || b.prefillTokens > 0 {
			b.decodeTokens = b.decodeRequests
		}
		return b.phased()
	}
	switch {
	case strings.HasPrefix(name, "ProfilerStep#"):
		return &batch{rank: byProfiler}
	case strings.HasPrefix(name, "Optimizer.step#"):
		return &batch{rank: byOptimizer}
	case name == "gpu_model_runner: preprocess":
		return &batch{rank: byRunner}
	case strings.HasSuffix(name, ": execute_model") && (strings.Contains(name, "worker.py") || strings.Contains(name, "model_runner.py")), name == "execute_model":
		return &batch{rank: byModel}
	case strings.HasPrefix(name, "step[") || strings.HasPrefix(name, "iteration ") || strings.HasPrefix(name, "iter_") || strings.HasPrefix(name, "Iteration ") ||
		strings.HasPrefix(name, "step_") || strings.HasPrefix(name, "step "):
		return &batch{rank: byRange, phase: phaseIn(name)}
	}
	return nil
}

// phased sets the phase from the requests.
func (b *batch) phased() *batch {
	switch {
	case b.prefillRequests > 0 && b.decodeRequests > 0:
		b.phase = Mixed
	case b.prefillRequests > 0:
		b.phase = Prefill
	case b.decodeRequests > 0:
		b.phase = Decode
	}
	return b
}

// phaseIn reads the phase that a name says.
func phaseIn(name string) Phase {
	switch n := strings.ToLower(name); {
	case strings.Contains(n, "decode"):
		return Decode
	case strings.Contains(n, "prefill"), strings.Contains(n, "extend"):
		return Prefill
	}
	return Unknown
}

// countsOf reads "9(sq8155sk8430…)" or "9(8155)": requests and tokens.
func countsOf(s string) (requests, tokens int, ok bool) {
	n, rest, found := strings.Cut(s, "(")
	requests, err := strconv.Atoi(n)
	if !found || err != nil || requests < 0 {
		return 0, 0, false
	}
	rest = strings.TrimPrefix(rest, "sq")
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end > 0 {
		tokens, err = strconv.Atoi(rest[:end])
	}
	return requests, tokens, end > 0 && err == nil && tokens >= 0
}

// maxSteps bounds what is kept of a trace of steps: an hour of 3 ms steps.
const maxSteps = 1_200_000

// steps finds the steps: of each process those of the one thread that has the most, told
// apart in the best way that the trace has.
func (z *analyzer) steps() {
	best := len(stepWays)
	for i, text := range z.Timeline.Names.Text {
		if b := stepOf(text); b != nil {
			z.info[i].step = b
			best = min(best, b.rank)
		}
	}
	if best == len(stepWays) {
		return
	}
	z.StepsBy = stepWays[best]
	found := map[int64][]Step{}
	for _, h := range z.Timeline.Threads {
		var steps []Step
		for _, class := range []Class{Annotation, Python, Op} { // of old, annotations were operators
			if class == Python && best != byModel {
				continue
			}
			end := int64(0)
			h.Calls[class].All(func(c *Event) bool {
				b := z.info[c.Name].step
				if b == nil || b.rank != best || len(steps) > 0 && c.Start < end {
					return true // of the same step, further in
				}
				end = c.Start + c.Dur
				steps = append(steps, Step{
					Start: c.Start, Host: c.Dur, Phase: b.phase, PrefillRequests: b.prefillRequests, PrefillTokens: b.prefillTokens,
					DecodeRequests: b.decodeRequests, DecodeTokens: b.decodeTokens, process: h.Process, thread: h.ID,
				})
				return len(steps) < maxSteps
			})
			if len(steps) > 0 {
				break
			}
		}
		if len(steps) > len(found[h.Process]) {
			found[h.Process] = steps
		}
	}
	var processes []int64
	for p := range found {
		processes = append(processes, p)
	}
	slices.Sort(processes)
	for _, p := range processes {
		list := found[p]
		slices.SortFunc(list, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
		h := z.host(p)
		for i := range list {
			if i+1 < len(list) {
				list[i].Period = list[i+1].Start - list[i].Start
			}
			h.steps = append(h.steps, int32(len(z.Steps))) //nolint:gosec // at most maxSteps a process
			z.Steps = append(z.Steps, list[i])
		}
	}
}

package profile

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Phase is the kind of a step.
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

// A Step is one iteration of the engine, or of any other profiled loop.
type Step struct {
	Start, Host int64 // on the host
	Period      int64 // until the next step begins, on the device if it has activities; 0 for the last
	Batch
	Launches       int
	Kernels        int
	GPUFrom, GPUTo int64 // activities on all devices; both 0 without activities
	Busy           int64 // sum over its devices
	Idle           int64 // idle time before its activities
	HostLate       int64
	Exposed        int64 // communication
	Group          [Groups]int64
	Count          [Groups]int32   // kernels and copies
	Causes         [Causes]float32 // nanoseconds of Idle, by cause
	begunOnDevice  bool
}

// A Batch is the work of a step. Tokens are 0 if unknown.
type Batch struct {
	Phase                          Phase
	PrefillRequests, PrefillTokens int
	DecodeRequests, DecodeTokens   int
}

// Tokens is the number of tokens that the step computed; 0 is unknown.
func (s *Step) Tokens() int { return s.PrefillTokens + s.DecodeTokens }

// Time is how long the step took: on the device from its first activity to its last, or on the host
// without activities.
func (s *Step) Time() int64 {
	if s.GPUTo > s.GPUFrom {
		return s.GPUTo - s.GPUFrom
	}
	return s.Host
}

type batch struct {
	Batch
	rank int // index in stepWays
}

// stepWays are the ways to detect steps, the best first.
//
// vLLM's worker names its iterations "execute_context_1(512)_generation_8(8)": requests and tokens of each phase
// (vllm/v1/worker/gpu_worker.py, annotate_profile); in detail since 0.24
// "execute_520_context_1(sq512sk512…)_generation_8(sq8sk900…)". Before, its model runner named only the parts of a
// step (gpu_model_runner.py). TensorRT-LLM's PyExecutor names its iterations "[Executor] _forward_step 12: 1 ctx
// reqs, 512 ctx tokens, 8 gen reqs", in some releases without the number or the tokens.
var stepWays = []struct {
	title string
	name  *regexp.Regexp // requests and tokens of prefill, requests and tokens of decode
}{
	byVLLM: {"annotations of batches", regexp.MustCompile(
		`^execute_(?:\w*_)?context_(\d{1,9})\((?:sq)?(\d{1,9}).*generation_(\d{1,9})\((?:sq)?(\d{1,9})`)},
	byTensorRT: {"TensorRT-LLM's annotations", regexp.MustCompile(
		`^\[Executor\] _forward_step[^:]*: (\d{1,9}) ctx reqs(?:, (\d{1,9}) ctx tokens)?, (\d{1,9}) gen reqs`)},
	byModel: {
		"calls of execute_model",
		regexp.MustCompile(`(?:worker|model_runner)\.py.*: execute_model$|^execute_model$`),
	},
	byRunner:    {"ranges of vLLM's model runner", regexp.MustCompile(`^gpu_model_runner: preprocess$`)},
	byRange:     {"ranges named after steps", regexp.MustCompile(`^(?:step[\[_ ]|iter_|[Ii]teration )`)},
	byProfiler:  {"ProfilerStep annotations", regexp.MustCompile(`^ProfilerStep#`)},
	byOptimizer: {"steps of the optimizer", regexp.MustCompile(`^Optimizer\.step#`)},
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

// stepOf reads a step's batch from a name; nil if the name is not a step's.
func stepOf(name string) *batch {
	for rank, way := range stepWays {
		if rank == byModel && !strings.HasSuffix(name, "execute_model") { // the expression alone is slow
			continue
		}
		m := way.name.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		b := &batch{rank: rank}
		for i, to := range []*int{&b.PrefillRequests, &b.PrefillTokens, &b.DecodeRequests, &b.DecodeTokens} {
			if i+1 < len(m) {
				*to, _ = strconv.Atoi(m[i+1]) // digits, or nothing
			}
		}
		if rank == byTensorRT && (b.PrefillRequests == 0 || b.PrefillTokens > 0) {
			b.DecodeTokens = b.DecodeRequests
		}
		switch n := strings.ToLower(name); {
		case b.PrefillRequests > 0 && b.DecodeRequests > 0:
			b.Phase = Mixed
		case b.PrefillRequests > 0, rank == byRange &&
			(strings.Contains(n, "prefill") || strings.Contains(n, "extend")):
			b.Phase = Prefill
		case b.DecodeRequests > 0, rank == byRange && strings.Contains(n, "decode"):
			b.Phase = Decode
		}
		return b
	}
	return nil
}

// maxSteps limits the steps of a trace: an hour of 3 ms steps.
const maxSteps = 1_200_000

// findSteps finds the steps in the best way that the trace allows. From each process, it takes the
// thread with the most steps.
func (z *analyzer) findSteps() {
	best := len(stepWays)
	for i, text := range z.Timeline.Names.Text {
		if b := stepOf(text); b != nil {
			z.infoByName[i].batch = b
			best = min(best, b.rank)
		}
	}
	if best == len(stepWays) {
		return
	}
	z.StepsBy = stepWays[best].title
	found := map[int64][]Step{}
	for _, h := range z.Timeline.Threads {
		var steps []Step
		for _, class := range []Class{Annotation, Python, Op} { // old profilers recorded annotations as operators
			if class == Python && best != byModel {
				continue
			}
			end := int64(0)
			h.Calls[class].All(func(c *Event) bool {
				b := z.infoByName[c.Name].batch
				if b == nil || b.rank != best || len(steps) > 0 && c.Start < end {
					return true // within the same step
				}
				end = c.Start + c.Dur
				steps = append(steps, Step{Start: c.Start, Host: c.Dur, Batch: b.Batch})
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
	for _, p := range slices.Sorted(maps.Keys(found)) {
		list := found[p]
		slices.SortFunc(list, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
		h := z.hostOf(p)
		for i := range list {
			if i+1 < len(list) {
				list[i].Period = list[i+1].Start - list[i].Start
			}
			h.steps = append(h.steps, int32(len(z.Steps))) //nolint:gosec // at most maxSteps a process
			z.Steps = append(z.Steps, list[i])
		}
	}
}

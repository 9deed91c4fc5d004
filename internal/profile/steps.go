package profile

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Phase is a kind of step.
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

// A Step is one iteration of the engine, or of any other profiled loop. The activities that are launched between its
// start and the next step's belong to it, whenever a device gets to them.
type Step struct {
	Start, Host int64 // start and duration on the host
	Period      int64 // until the next step begins, on the device if both have activities; 0 for the last
	Batch
	Launches       int
	Kernels        int   // and copies
	GPUFrom, GPUTo int64 // span of its activities on all devices; both 0 without activities
	// Sums over devices.
	Busy     int64
	Idle     int64           // before its activities
	HostLate int64           // the part of Idle with the causes HostLate and HostWork
	Exposed  int64           // communication without computation
	Group    [Groups]int64   // the part of Busy of each group
	Count    [Groups]int32   // kernels and copies of each group
	Causes   [Causes]float32 // the part of Idle of each cause

	begunOnDevice bool
}

// A Batch says what a step computes. Tokens are 0 if unknown.
type Batch struct {
	Phase                          Phase
	PrefillRequests, PrefillTokens int
	DecodeRequests, DecodeTokens   int
}

// Tokens is the number of tokens that the step computed; 0 is unknown.
func (s *Step) Tokens() int { return s.PrefillTokens + s.DecodeTokens }

// Time is how long the step took: on the device from its first activity to its last, or, without activities, on the
// host.
func (s *Step) Time() int64 {
	if s.GPUTo > s.GPUFrom {
		return s.GPUTo - s.GPUFrom
	}
	return s.Host
}

// A stepName is what the name of a step says.
type stepName struct {
	Batch
	way int // index in stepWays
}

// stepWays are the ways to detect steps, the best first. A trace's steps are detected in one way.
//
// vLLM's worker names its iterations "execute_context_1(512)_generation_8(8)", with the requests and tokens of each
// phase (vllm/v1/worker/gpu_worker.py, annotate_profile); since 0.24, if asked for details,
// "execute_520_context_1(sq512sk512…)_generation_8(sq8sk900…)". Older releases have only the model runner's names for
// the parts of a step (gpu_model_runner.py). TensorRT-LLM's PyExecutor names its iterations "[Executor] _forward_step
// 12: 1 ctx reqs, 512 ctx tokens, 8 gen reqs", in some releases without the number or the tokens.
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

// parseStep reads the name of a step; nil if the name is not a step's.
func parseStep(name string) *stepName {
	for w := range stepWays {
		if w == byModel && !strings.HasSuffix(name, "execute_model") { // the expression alone is slow
			continue
		}
		m := stepWays[w].name.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		s := &stepName{way: w}
		for i, to := range []*int{&s.PrefillRequests, &s.PrefillTokens, &s.DecodeRequests, &s.DecodeTokens} {
			if i+1 < len(m) {
				*to, _ = strconv.Atoi(m[i+1]) // digits, or nothing
			}
		}
		if w == byTensorRT && (s.PrefillRequests == 0 || s.PrefillTokens > 0) {
			s.DecodeTokens = s.DecodeRequests
		}
		s.Phase = s.phaseOf(name)
		return s
	}
	return nil
}

func (s *stepName) phaseOf(name string) Phase {
	says := func(words ...string) bool { return s.way == byRange && holdsAny(strings.ToLower(name), words...) }
	switch {
	case s.PrefillRequests > 0 && s.DecodeRequests > 0:
		return Mixed
	case s.PrefillRequests > 0 || says("prefill", "extend"):
		return Prefill
	case s.DecodeRequests > 0 || says("decode"):
		return Decode
	}
	return Unknown
}

// maxSteps is the most steps of a thread: an hour of steps of 3 ms.
const maxSteps = 1_200_000

// findSteps finds the steps in the best way that the trace allows. For each process, the thread with the most steps
// counts.
func (z *analyzer) findSteps() {
	way := len(stepWays)
	for i := range z.infoByName {
		if s := z.infoByName[i].stepName; s != nil {
			way = min(way, s.way)
		}
	}
	if way == len(stepWays) {
		return
	}
	z.StepsBy = stepWays[way].title
	byProcess := map[int64][]Step{}
	for _, h := range z.Timeline.Threads {
		if steps := z.stepsOf(h, way); len(steps) > len(byProcess[h.Process]) {
			byProcess[h.Process] = steps
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byProcess)) {
		steps := byProcess[id]
		slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
		p := z.processOf(id)
		for i := range steps {
			if i+1 < len(steps) {
				steps[i].Period = steps[i+1].Start - steps[i].Start
			}
			p.steps = append(p.steps, int32(len(z.Steps))) //nolint:gosec // at most maxSteps a process
			z.Steps = append(z.Steps, steps[i])
		}
	}
}

// stepsOf returns the steps of a thread, found in one way. A call within a step of the same way is a part of the step.
func (z *analyzer) stepsOf(h *Thread, way int) (steps []Step) {
	for _, class := range []Class{Annotation, Python, Op} { // old profilers recorded annotations as operators
		if class == Python && way != byModel {
			continue
		}
		end := int64(0)
		h.Calls[class].All(func(c *Event) bool {
			s := z.infoByName[c.Name].stepName
			if s == nil || s.way != way || len(steps) > 0 && c.Start < end {
				return true
			}
			end = c.Start + c.Dur
			steps = append(steps, Step{Start: c.Start, Host: c.Dur, Batch: s.Batch})
			return len(steps) < maxSteps
		})
		if len(steps) > 0 {
			return steps
		}
	}
	return nil
}

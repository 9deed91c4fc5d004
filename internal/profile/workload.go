package profile

import "strings"

// A Workload is the kind of program in a trace. The advice of package finding depends on it.
type Workload uint8

// The workloads, in order of increasing evidence.
const (
	Model    Workload = iota // a model that is called for any purpose
	LLM                      // a model that generates text
	Training                 // with a backward pass or an optimizer

	VLLM // servers of LLMs, by engine
	SGLang
	TensorRTLLM
	workloads
)

func (w Workload) String() string {
	return [...]string{"model", "LLM", "training", "vLLM", "SGLang", "TensorRT-LLM"}[min(w, workloads-1)]
}

// Serves reports whether the program waits for requests.
func (w Workload) Serves() bool { return w >= VLLM }

// Samples reports whether the program samples tokens.
func (w Workload) Samples() bool { return w == LLM || w.Serves() }

// workloadIn returns the workload that a name implies; Model is the default. Engines use
// each other's kernels, so only Python files, operators and annotations imply an engine.
func workloadIn(text string, m Meaning) Workload {
	has := func(words ...string) bool { return holdsAny(text, words...) }
	kernel := strings.HasPrefix(text, "void ") || strings.ContainsAny(text, "<&") // a function of C++
	switch {
	case !kernel && has("sglang/", "sgl_kernel::", "sglang.", "step[DECODE", "step[EXTEND", "sglang::"):
		return SGLang
	case strings.HasPrefix(text, "[Executor] _forward_step") || has("tensorrt_llm/"):
		return TensorRTLLM
	case !kernel && (has("vllm/", "gpu_model_runner: ") || strings.HasPrefix(text, "vllm::") ||
		strings.HasPrefix(text, "execute_context_")):
		return VLLM
	case has("autograd::engine", "Optimizer.step#", "Optimizer.zero_grad#", "run_backward", "Backward0"),
		!strings.Contains(text, ".py(") && has("AdamFunctor", "_backward", "_bwd", "dgrad", "wgrad", "Bwd"):
		return Training
	case m.Group == KVCache && !m.Generic || has("CausalLM", "generation/utils.py", "topk_topp", "paged_attention",
		"rtp_llm::", "fastertransformer::", "ggml_type"):
		return LLM
	}
	return Model
}

// electWorkload chooses the workload by how many names imply each. An engine wins over a model, because an engine runs
// models. Among several engines, the one that uses the others' code wins. Training wins if more names imply it, because
// a program that trains may use a server's operators.
func electWorkload(votes [workloads]int) Workload {
	for _, w := range []Workload{TensorRTLLM, SGLang, VLLM} {
		if votes[w] > 0 && votes[Training] <= votes[w] {
			return w
		}
	}
	switch {
	case votes[Training] > 1:
		return Training
	case votes[LLM] > 0:
		return LLM
	}
	return Model
}

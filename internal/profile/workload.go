package profile

import "strings"

// A Workload is what a trace is of. Advice differs by it.
type Workload uint8

// The workloads. A later one is told by more than an earlier one.
const (
	Model       Workload = iota // a model that is called, whatever it is for
	LLM                         // one that generates text
	Training                    // with a backward pass or an optimizer
	VLLM                        // servers of LLMs, by engine
	SGLang                      //
	TensorRTLLM                 //
	workloads
)

func (w Workload) String() string {
	return [...]string{"model", "LLM", "training", "vLLM", "SGLang", "TensorRT-LLM"}[min(w, workloads-1)]
}

// Serves reports whether the program waits for requests.
func (w Workload) Serves() bool { return w >= VLLM }

// Samples reports whether tokens are sampled in it.
func (w Workload) Samples() bool { return w == LLM || w.Serves() }

// workloadIn is what a name says of the workload; Model is nothing. Kernels of one engine are used by others:
// an engine is told by its Python files, operators and annotations.
func workloadIn(text string, m Meaning) Workload {
	has := func(words ...string) bool { return holdsAny(text, words...) }
	kernel := strings.HasPrefix(text, "void ") || strings.ContainsAny(text, "<&") // a function of C++
	switch {
	case !kernel && has("sglang/", "sgl_kernel::", "sglang.", "step[DECODE", "step[EXTEND", "sglang::"):
		return SGLang
	case strings.HasPrefix(text, "[Executor] _forward_step") || has("tensorrt_llm/"):
		return TensorRTLLM
	case !kernel && (has("vllm/", "gpu_model_runner: ") || strings.HasPrefix(text, "vllm::") || strings.HasPrefix(text, "execute_context_")):
		return VLLM
	case has("autograd::engine", "Optimizer.step#", "Optimizer.zero_grad#", "run_backward", "Backward0"),
		!strings.Contains(text, ".py(") && has("AdamFunctor", "_backward", "_bwd", "dgrad", "wgrad", "Bwd"):
		return Training
	case m.Group == KVCache && !m.How || has("CausalLM", "generation/utils.py", "topk_topp", "paged_attention", "rtp_llm::", "fastertransformer::", "ggml_type"):
		return LLM
	}
	return Model
}

// elect is the workload that names tell. An engine's name says more than what a model is made of, one
// that uses another's code more than that one; but a program that trains may hold a server's operators.
func elect(votes [workloads]int) Workload {
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

package vllm

import "github.com/sixty-dev/sixty/internal/catalog/engine"

// DefaultRelease is the release that is simulated and imitated by default, because the recorded servers ran it.
const DefaultRelease engine.Release = "0.23.0"

// Releases in which vLLM changed something that is simulated or imitated. Flags lists flags by release, and
// families.csv metrics.
const (
	V1ByDefault              engine.Release = "0.8"    // the V1 engine, whose scheduler is simulated
	AsyncSchedulingByDefault engine.Release = "0.14"   // --async-scheduling
	ChatTemplateParsed       engine.Release = "0.11"   // for each request (vllm-project/vllm#25794, 2025-09-27)
	ChatTemplateKept         engine.Release = "0.11.1" // and no more (#26227, 2025-10-04)
	SortsToSample            engine.Release = "0.11.1" // FlashInfer's sampler must be enabled (v1/sample/ops/topk_topp_sampler.py)
	SamplesWithoutSorting    engine.Release = "0.17"   // a Triton kernel for top-k and top-p, from 0.23 on FlashInfer's
	SamplesWithFlashInfer    engine.Release = "0.23"   // by default, and the Triton kernel without it
	MarlinOnTuring           engine.Release = "0.14"   // FP8 and AWQ through Marlin on compute capability 7.5
	FullPromptReserved       engine.Release = "0.19"   // scheduler_reserve_full_isl, by a resolved configuration of 0.19.0
	UtilizationIs92Percent   engine.Release = "0.20"   // --gpu-memory-utilization, 0.9 before
	CUDAGraphsInBudget       engine.Release = "0.21"   // in the memory budget (v1/worker/gpu_worker.py)
	TritonForMXFP4           engine.Release = "0.11"   // Hopper computes MXFP4 experts by Triton: seen at 0.14 (#33155), at 0.10 it was Marlin (#23278)
	CapacityByRequests       engine.Release = "0.23"   // "GPU KV cache size" counts requests of max_model_len
	LargerBatchesFrom160GiB  engine.Release = "0.28"   // GPU memory (engine/arg_utils.py, get_batch_defaults)
	LimitsQueuedRequests     engine.Release = "0.29"   // --max-num-queued-reqs
)

// Utilization returns the default of --gpu-memory-utilization in a release.
func Utilization(r engine.Release) float64 {
	if r.AtLeast(UtilizationIs92Percent) {
		return 0.92
	}
	return 0.9
}

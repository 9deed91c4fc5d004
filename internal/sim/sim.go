// Package sim models the scheduler of vLLM's V1 engine as a discrete-event
// simulation: which requests each step computes, which wait, which are preempted,
// and what the KV cache holds. How long a step takes is a small physical model,
// StepCost, whose constants package perfmodel fits to a server.
//
// The rules are those of vllm/v1/core/sched/scheduler.py, kv_cache_manager.py
// and block_pool.py and of vllm/v1/engine/core.py at tag v0.23.0, read there and
// compared step by step with the real classes (see testdata). Rules that releases
// differ in are fields of Config; Defaults sets them.
//
// Modelled: a token budget per step, running requests first, chunked prefill,
// blocks with reference counts, prefix caching with eviction of the least
// recently freed block, preemption by recomputation, full-prompt reservation,
// the watermark, asynchronous scheduling, limits on admission, clients that
// leave, independent replicas behind a router, and data-parallel ranks that step
// together. Not modelled: speculative
// decoding, sliding windows and state-space layers, encoder inputs, LoRA limits,
// structured output, KV connectors, and pipeline parallelism.
//
// The package is pure: it performs no I/O and knows no clock and no randomness.
// The same input gives the same result. Predictions are made with Run; who needs every
// token, as a server that imitates vLLM does, runs an Engine with a Driver.
package sim

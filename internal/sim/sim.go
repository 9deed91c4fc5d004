// Package sim simulates the scheduler of vLLM's V1 engine step by step: the requests that each step computes, the
// requests that wait or are preempted, and the contents of the KV cache. A small physical model, StepCost, gives the
// duration of a step; package perfmodel fits its constants to a server.
//
// An Engine is one scheduler with its KV cache. Schedule forms a batch, and Complete delivers its tokens; a Driver
// calls both in the order of vLLM's own loop. Run and RunReplicas simulate requests on one engine or on several behind
// a Router: each Request becomes a Record, and each engine a ReplicaResult. Steps in which every request only decodes
// are computed together (fastforward.go), with exactly the results of single steps.
//
// The rules were read in vllm/v1/core/sched/scheduler.py, kv_cache_manager.py and block_pool.py and in
// vllm/v1/engine/core.py at tag v0.23.0, and compared step by step with the real classes (see testdata). Rules that
// differ between releases are fields of Config; Defaults sets them.
//
// Modelled: a token budget per step, running requests first, chunked prefill, blocks with reference counts, prefix
// caching that evicts the least recently freed block, preemption by recomputation, full-prompt reservation, the
// watermark, asynchronous scheduling, limits on admission, clients that leave, independent replicas behind a router,
// and data-parallel ranks that step together. Not modelled: speculative decoding, sliding windows and state-space
// layers, encoder inputs, LoRA limits, structured output, KV connectors, and pipeline parallelism.
//
// The package is pure: it performs no I/O and uses neither a clock nor random numbers. The same input gives the same
// result. Predictions use Run. A server that imitates vLLM needs every token, and runs an Engine with a Driver.
package sim

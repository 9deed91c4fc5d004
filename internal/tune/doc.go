// Package tune finds the configuration of a vLLM deployment: what its memory
// holds, line by line (NewLedger), and which settings meet targets of latency and
// throughput under a workload, at what price (Plan.Search).
//
// The ledger follows vLLM 0.23's own arithmetic: gpu_worker.py for what is left
// for the KV cache, kv_cache_utils.py and kv_cache_interface.py for how layers
// share blocks. What vLLM measures when it starts (activations, CUDA graphs) is
// estimated here with a range, and a start-up log or vllm:cache_config_info tells
// which line was wrong (Ledger.Check). The search simulates with package sim.
//
// The package is pure. sixty tune hands in what it read.
package tune

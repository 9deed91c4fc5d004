// Package perfmodel says how long a server's steps take and how its memory is used: from
// measurements (Calibrate), or from data sheets (GPU, Ledger).
//
// A Prior is the knowledge before any measurement; only Ledger.StepCost makes it, from a model and
// a GPU. A Fit is the knowledge after measurements: constants of sim.StepCost with their intervals,
// from the per-request results of a load test (FromRequests), from a live server's metrics
// (FromScrapes), or from the prior alone (FromPrior). A Calibration is the best of these, with the
// basis that it rests on; its Predict simulates a workload on a deployment.
//
// The fit is robust least squares of logarithmic errors with constants that cannot be negative; its
// intervals come from a bootstrap over blocks of neighbouring observations. Constants that move
// together in all observations cannot be told apart. The prior keeps them physical where the
// observations leave them free.
//
// The Ledger follows vLLM 0.23's own arithmetic: gpu_worker.py for the memory that the KV cache
// gets, kv_cache_utils.py and kv_cache_interface.py for how layers share blocks. vLLM measures
// activations and CUDA graphs when it starts; the ledger estimates them with a range. A start-up
// log or vllm:cache_config_info tells which line was wrong (Ledger.Check).
//
// The package is pure: its random numbers have a constant seed.
package perfmodel

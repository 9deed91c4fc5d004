// Package perfmodel says how long a server's steps take and what its memory holds:
// from what it was seen to do (Calibrate), or from data sheets (GPU, Ledger).
//
// A Prior is what is known before anything was measured; Ledger.StepCost makes it
// of a model and a GPU, and nothing else does. A Fit is what measurements made of
// it: constants of sim.StepCost with their intervals, from the per-request results
// of a load test (FromRequests), from a live server's metrics (FromScrapes), or from
// the prior alone (FromPrior). A Calibration is the best of these, with the basis
// that it rests on; its Predict simulates a workload on a deployment.
//
// The fit is robust least squares of logarithmic errors with constants that cannot
// be negative; its intervals come from a bootstrap over blocks of neighbouring
// observations. Constants that move together in everything that was observed cannot
// be told apart: the prior keeps them physical where the observations leave them
// free.
//
// The Ledger follows vLLM 0.23's own arithmetic: gpu_worker.py for what is left for
// the KV cache, kv_cache_utils.py and kv_cache_interface.py for how layers share
// blocks. What vLLM measures when it starts (activations, CUDA graphs) is estimated
// with a range, and a start-up log or vllm:cache_config_info tells which line was
// wrong (Ledger.Check).
//
// The package is pure: its random numbers have a constant seed.
package perfmodel

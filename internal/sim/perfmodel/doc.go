// Package perfmodel computes how long a server's steps take and what its memory holds: from measurements (Calibrate),
// or from data sheets (GPU, Ledger).
//
// Step times come in this order:
//
//   - A Prior is the cost of a step before any measurement. Ledger.StepCost makes it from a model (Shape), a GPU and
//     the parameters that were fitted to published measurements (Posterior).
//   - A Fit has the constants of sim.StepCost with their intervals: from the per-request results of a load test
//     (FitRequests), from a live server's metrics (FitScrapes), or from the prior alone (FitPrior).
//   - A Calibration is the best of these fits, with its basis. Fit.Predict simulates a workload on a Deployment with
//     the constants and with samples of them; a Prediction has the results with their intervals.
//
// A fit is robust least squares of logarithmic errors with constants that cannot be negative. Its intervals come from a
// bootstrap over blocks of neighbouring observations. Constants that change together in all observations cannot be told
// apart; then the prior determines them.
//
// The Ledger lists the memory of a GPU line by line, as vLLM 0.23 computes it: gpu_worker.py for the memory of the KV
// cache, kv_cache_utils.py and kv_cache_interface.py for how layers share blocks (Layout). vLLM measures activations
// and CUDA graphs when it starts; the ledger estimates them with a range. The start-up log or vllm:cache_config_info
// shows the errors.
//
// The package is pure: its random numbers have a constant seed.
package perfmodel

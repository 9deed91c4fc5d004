// Package planning finds the configuration of a vLLM deployment that meets targets of
// latency and throughput under a workload, at what price (Plan.Search), and draws the
// workload's requests for simulations (Draw, DrawLoop). How long steps take and what
// memory holds is package perfmodel's.
//
// The package is pure: sixty tune and sixty simulate hand in what they read.
package planning

// Package workload describes what users ask of an inference server: when requests arrive, how long prompts and answers
// are, which prompts share prefixes, and which requests belong to one conversation. The load test (package load) and
// the simulator use the same workloads.
//
// A workload comes from one of three sources:
//
//   - A file: Read returns a Trace, in CSV or JSONL, and a Replay gives its sessions.
//   - A description: a Spec has the distributions of made-up requests, and a Generator draws their sessions. Arrivals
//     are their times, which a Pacer gives one by one.
//   - Running servers: Measure reads their metrics. Observed is the part of a Measured that can be drawn again.
//
// Asked is a workload as flags describe it. An option that is not given takes its measured value.
//
// The package sends nothing, holds no text of any prompt, and reads no clock.
package workload

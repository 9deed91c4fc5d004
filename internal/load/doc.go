// Package load is a load test of an OpenAI-compatible inference server: it
// sends a workload at the times that a workload.Pacer says, measures every token's
// arrival, and judges both the server and itself.
//
// The parts, in the order of the data: workload.Source (what to send), its
// Pacer (when), Runner (sends and measures, through package wire), Recording (what
// happened, request by request), Summarize (a Result: steady state, percentiles
// with intervals, goodput, the generator's own errors), and what is made of
// Results: Search, Compare, Merge, Assertions. Everything but the Runner, its
// probe of the server and the observer of the server's metrics is pure.
//
// Latencies are given twice: from the moment a request was scheduled, which is
// what a user waits, and from the moment it was sent, which is what the server
// can be blamed for. A closed loop has no schedule; there a request is
// scheduled when the one before it ended.
//
// The package prints nothing and writes no files: package loadreport renders
// Results, the command line stores them. Prompts are random words, made when
// they are sent; no prompt and no answer is kept, but for the answers that the
// next turn of a conversation must repeat.
package load

// Package load is a load test of an OpenAI-compatible inference server. It sends a workload at the times of a
// workload.Pacer, measures the arrival of every token, and judges both the server and itself.
//
// The parts in the order of the data: workload.Source (what to send), its Pacer (when), Runner (sends and measures,
// through package wire), Recording (the outcome of each request), Summarize (a Result: steady state, percentiles with
// intervals, goodput, the generator's own errors). Search, Compare, Merge and Assertions build on Results. Everything
// but the Runner, its probe of the server and the observer of the server's metrics is pure.
//
// Latencies are given twice: from the moment at which a request was scheduled, which is the user's wait, and from the
// moment at which it was sent, which is the server's share. A closed loop has no schedule; there a request is
// scheduled when its predecessor ended.
//
// The package prints nothing and writes no files: package loadreport renders Results, the command line stores them.
// Prompts are random words, made when they are sent. Prompts and answers are not stored, except answers that the next
// turn of a conversation must repeat.
package load

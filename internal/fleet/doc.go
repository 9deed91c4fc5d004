// Package fleet is a simulated fleet of vLLM servers. Outside, they speak the OpenAI API and expose vLLM's metrics;
// inside, the scheduler simulation of package sim decides which requests run, wait and leave the cache. In scenarios
// every pathology of the catalogue arises from its mechanism.
//
// A core is the fleet in simulated time: replicas (an API server and an engine each), virtual clients (traffic), and
// the faults of the present phase. Two drivers advance a core:
//
//   - Play runs a scenario in simulated time and passes on the pages that scrapes would get.
//   - Start serves in real or accelerated time, behind HTTP on the loopback interface.
//
// Tests, `sixty simulate --serve` and `sixty demo` call them. A Scenario comes from a pathology's YAML (ReadScenario).
//
// The fleet computes no token and holds no text: a stand-in for a tokenizer counts prompts, and answers repeat one
// word. It diagnoses nothing.
package fleet

// ContentType is the content type of the metrics pages.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Package fleet is a simulated fleet of vLLM servers. From outside they speak the OpenAI API and show vLLM's
// metrics; inside, the scheduler simulation of package sim decides which requests run, wait and leave the cache. In
// scenarios every pathology of the catalogue arises from its mechanism.
//
// A core is the fleet in simulated time: replicas (an API server and an engine each), virtual clients (traffic),
// and the faults of the present phase. Play drives a core through a scenario and hands over the pages of its
// scrapes. Start drives one by the clock, in real or accelerated time, behind HTTP on the loopback interface.
// Tests, `sixty simulate --serve` and `sixty demo` call them.
//
// The fleet computes no token and holds no text: a stand-in for a tokenizer counts prompts, and
// answers repeat one word. It diagnoses nothing.
package fleet

// ContentType is the content type of the metrics pages.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Package fleet is a simulated fleet of vLLM servers: from outside they speak
// the OpenAI API and show vLLM's metrics, and inside the scheduler simulation of
// package sim decides what runs, waits and is thrown out of the cache. Scenarios
// let every pathology of the catalogue arise from its mechanism.
//
// Play runs a scenario in simulated time and hands over the pages of its
// scrapes; Start listens on the loopback interface and serves clients in real or
// accelerated time. Tests, `sixty simulate --serve` and `sixty demo` call them.
//
// It computes no token and holds no text: prompts are counted by a stand-in for
// a tokenizer and answers are made of one word. It diagnoses nothing.
package fleet

// ContentType is that of every metrics page of a fleet.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

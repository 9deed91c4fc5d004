// Package openai reads what a measurement needs of the OpenAI-compatible
// protocols: it splits a stream into server-sent events, takes the few fields
// that matter from an event, from an answer and from a request, and counts
// tokens. It walks each JSON object once and allocates nothing per event.
//
// It performs no I/O and keeps no text. The load test, the probe and the gateway
// call it.
package openai

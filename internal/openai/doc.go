// Package openai reads the fields of the OpenAI-compatible protocols that a measurement needs: it splits a stream
// into server-sent events (Events), takes the fields from an event or an answer (Chunk) and from a request
// (Request), and counts tokens (Tokens). It walks each JSON object once and allocates nothing per event.
//
// It performs no I/O and keeps no text. The load test, the probe and the gateway call it.
package openai

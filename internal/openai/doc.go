// Package openai reads the fields of OpenAI-compatible protocols that a measurement needs. Events splits a stream into
// server-sent events, Chunk has the fields of one event or of a whole answer, Tokens counts the tokens of the events,
// and Request has the fields of a request.
//
// It walks each JSON object once and allocates nothing per event. It performs no I/O and keeps no text. Package stream
// measures whole answers with it; the load test, the probe and the gateway use both.
package openai

// Package gateway is a reverse proxy for OpenAI-compatible servers that measures
// what their clients see and changes nothing of it.
//
// Bodies pass byte for byte and are flushed as they arrive. Each request is
// measured from its arrival to its last byte (package stream reads the answer),
// ends in exactly one Status, and is listed while it is open. What is measured is
// exported as Prometheus metrics, an access log and OTLP traces; no prompt, no
// answer and no credential is kept or written.
//
// The data handler and the admin handler belong on different listeners: the
// former passes every path on to the upstreams that were configured, and to no
// other. `sixty gateway` wires it; New is all that another verb needs.
package gateway

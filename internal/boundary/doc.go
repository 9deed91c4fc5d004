// Package boundary reads what a gateway counted at the HTTP boundary, over a span
// of time, and sets it beside what the engines behind it say: the first token as
// clients see it, offered load, percentiles corrected for requests that were
// given up, and the true share of errors. What is wrong there the catalogue's
// pathologies of gateways say.
//
// Which counters of which product mean what is package engine/gateway's. The package
// performs no I/O: the diagnosis hands pages in.
package boundary

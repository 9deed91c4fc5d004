// Package wire is the measuring path of a load test: HTTP/1.1 connections, as a
// client has them, that stamp every read.
//
// It exists because the time at which bytes arrive must be taken when they
// arrive, not after they crossed a goroutine, a channel and a JSON decoder.
// net/http's transport hands every response from one goroutine to another and
// does not tell when a read returned; here the goroutine that waits for a
// response reads the socket itself. Nothing is allocated per read or per event.
//
// It speaks just enough HTTP/1.1 for inference APIs: requests with a known
// length, responses with a length, chunked, or ended by the connection's close.
// There is no HTTP/2, no proxy, no redirect and no content encoding. Bodies
// and heads are bounded. Package load calls it.
package wire

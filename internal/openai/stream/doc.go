// Package stream measures one answer of an OpenAI-compatible server from its
// bytes and the times at which they arrived: the first token, every interval
// between tokens, the token account, how the answer ended. It also takes out of
// a stream the token account that a client did not ask for.
//
// Bytes may come in pieces of any size: an event split over two reads, two in
// one. What is not understood is passed over and said to be unmeasured; it is
// never an error. The package performs no I/O, reads no clock and keeps no text.
package stream

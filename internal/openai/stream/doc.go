// Package stream measures one answer of an OpenAI-compatible server from its bytes and their times
// of arrival: the first token, every interval between tokens, the token account, and how the answer
// ended. It also removes from a stream a token account that the client did not ask for.
//
// Bytes may come in pieces of any size: an event split over two reads, two events in one. Unknown
// content is skipped and reported as unmeasured; it is never an error. The package performs no I/O,
// reads no clock and keeps no text.
package stream

// Package stream measures one answer of an OpenAI-compatible server, by its bytes and their times of arrival: the first
// token, each interval between tokens, the usage, and how the answer ended.
//
// A Meter gets the bytes in pieces of any size (Data), and the end of the answer (End). Content that it does not know
// is skipped, and never an error. The package performs no I/O, reads no clock and keeps no text.
package stream

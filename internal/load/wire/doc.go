// Package wire gives net/http's transport connections that tell when the packets arrived that it
// reads, and when a request's first byte was written: a busy load generator reads late, and what
// it measures is still right. On Linux the kernel tells (SO_TIMESTAMPNS); elsewhere the time is
// that of the read.
//
// Package load has one Transport for each of its streams. The scripted server of load/loadtest
// reads through a Socket too.
package wire

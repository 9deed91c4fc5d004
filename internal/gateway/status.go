package gateway

import (
	"errors"
	"fmt"
)

// Status is how a request ended. Each request has exactly one.
type Status string

const (
	// Success is a complete answer below 400.
	Success Status = "success"
	// ClientError is an answer of 4xx by the upstream.
	ClientError Status = "client_error"
	// UpstreamError is an answer of 5xx, or none: no connection, a broken one, or a malformed or incomplete answer.
	UpstreamError Status = "upstream_error"
	// ErrorEvent is an error inside an answer of 200.
	ErrorEvent Status = "error_event"
	// Timeout is a request that a limit of the gateway ended.
	Timeout Status = "timeout"
	// ClientDisconnect is a client that left, or that stopped reading or sending.
	ClientDisconnect Status = "client_disconnect"
	// Rejected is a request that the gateway itself refused: a body is too large or malformed.
	Rejected Status = "rejected"
)

// An end says why a request failed. It is an error.
type end struct {
	status Status
	code   int    // HTTP status, if nothing was answered yet
	kind   string // the type of the error that the client gets
	err    error
}

func (e *end) Error() string {
	if e.err == nil {
		return e.kind
	}
	return fmt.Sprintf("%s: %v", e.kind, e.err)
}

func (e *end) Unwrap() error { return e.err }

// Ends without a further cause.
var (
	errClientGone   = &end{status: ClientDisconnect, code: 499, kind: "client_gone"}
	errClientStalls = &end{status: ClientDisconnect, code: 408, kind: "client_stalls"}
	errSilence      = &end{status: Timeout, code: 504, kind: "upstream_idle_timeout"}
	errDraining     = &end{status: Timeout, code: 503, kind: "shutdown"}
	errTooMuch      = &end{status: Rejected, code: 503, kind: "too_much_in_bodies"}
)

// asEnd converts an error to an end. Errors of unknown origin are the upstream's.
func asEnd(err error) *end {
	var e *end
	if errors.As(err, &e) {
		return e
	}
	return &end{status: UpstreamError, code: 502, kind: "upstream_broken", err: err}
}

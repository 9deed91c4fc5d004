//go:build !(linux && (amd64 || arm64))

package wire

import "net"

// Socket needs kernel timestamps, which are read on Linux only: elsewhere a
// read is stamped when it returns.
type Socket struct {
	net.Conn
	lags Lags
}

// NewSocket reports that there are no kernel timestamps.
func NewSocket(net.Conn) (*Socket, bool) { return nil, false }

// Arrived returns the present.
func (s *Socket) Arrived(c Clock) int64 { return c.Now() }

func (s *Socket) pump(*Conn, Sink) error { return nil }

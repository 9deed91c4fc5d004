package wire

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// Socket is a TCP connection that notes when the data that it read last arrived, and when a
// request began to be written. It must be read through the Socket only.
//
// The kernel tells the time of the last packet that a read took from, so events
// that one read delivers have the time of the last of them.
type Socket struct {
	net.Conn
	kernel  kernel
	lag     func(time.Duration)
	arrived atomic.Int64 // since base
	sent    atomic.Int64 // the same; 0: nothing was written since Begin
}

// base is what times are kept relative to, on the monotonic clock.
var base = time.Now()

// NewSocket returns a connection as a Socket. lag is called with how long the data of each read
// had lain in the kernel, where that tells.
func NewSocket(nc net.Conn, lag func(time.Duration)) *Socket {
	s := &Socket{Conn: nc, lag: lag}
	s.kernel.open(nc)
	return s
}

// SocketOf returns the Socket beneath a connection of a Transport.
func SocketOf(nc net.Conn) *Socket {
	for {
		tc, ok := nc.(*tls.Conn)
		if !ok {
			return nc.(*Socket)
		}
		nc = tc.NetConn()
	}
}

// Read implements net.Conn.
func (s *Socket) Read(p []byte) (int, error) {
	n, lag, err := s.kernel.read(s.Conn, p)
	if n > 0 {
		if lag > 0 {
			s.lag(lag)
		}
		// The wall clock, which the kernel's times come from, may be set back.
		s.arrived.Store(max(s.arrived.Load(), int64(time.Since(base)-lag)))
	}
	return n, err
}

// Write implements net.Conn.
func (s *Socket) Write(p []byte) (int, error) {
	s.sent.CompareAndSwap(0, int64(time.Since(base)))
	return s.Conn.Write(p)
}

// Begin says that a request is about to be written.
func (s *Socket) Begin() { s.sent.Store(0) }

// Sent returns when the first write since Begin began, the zero time where there was none.
func (s *Socket) Sent() time.Time {
	if at := s.sent.Load(); at > 0 {
		return base.Add(time.Duration(at))
	}
	return time.Time{}
}

// Arrived returns when the data that was read last arrived.
func (s *Socket) Arrived() time.Time { return base.Add(time.Duration(s.arrived.Load())) }

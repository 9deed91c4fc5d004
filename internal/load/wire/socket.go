package wire

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// A Socket is a TCP connection that records when the data of the last read arrived, and when the writing of a request
// began. All reads must go through the Socket. A read may take data from several packets. The last of these packets
// gives its time, and the time of all events in the read.
type Socket struct {
	net.Conn
	kernel  packetReader
	lag     func(time.Duration)
	arrived atomic.Int64 // since base
	sent    atomic.Int64 // since base; 0: nothing was written since Begin
}

// base is the reference of times on the monotonic clock.
var base = time.Now()

// NewSocket wraps a connection. It calls lag with the time that the data of each read waited in the kernel, if the
// kernel tells.
func NewSocket(nc net.Conn, lag func(time.Duration)) *Socket {
	s := &Socket{Conn: nc, lag: lag}
	s.kernel.requestTimestamps(nc)
	return s
}

// SocketOf returns the Socket below a connection of a Transport.
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
	n, lag, err := s.kernel.readTimed(s.Conn, p)
	if n > 0 {
		if lag > 0 {
			s.lag(lag)
		}
		// The kernel's timestamps come from the wall clock, which may be set back.
		s.arrived.Store(max(s.arrived.Load(), int64(time.Since(base)-lag)))
	}
	return n, err
}

// Write implements net.Conn.
func (s *Socket) Write(p []byte) (int, error) {
	s.sent.CompareAndSwap(0, int64(time.Since(base)))
	return s.Conn.Write(p)
}

// Begin announces that a request will be written.
func (s *Socket) Begin() { s.sent.Store(0) }

// Sent returns when the first write since Begin began, or the zero time.
func (s *Socket) Sent() time.Time {
	if at := s.sent.Load(); at > 0 {
		return base.Add(time.Duration(at))
	}
	return time.Time{}
}

// Arrived returns when the data of the last read arrived.
func (s *Socket) Arrived() time.Time { return base.Add(time.Duration(s.arrived.Load())) }

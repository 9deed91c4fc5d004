//go:build linux && (amd64 || arm64)

package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket is a TCP connection that learns from the kernel when the data that it
// reads arrived (SO_TIMESTAMPNS). A busy generator reads late; what it measures
// is then still when the packet came.
//
// The kernel tells the time of the last packet that a read took from, so events
// that one read delivers have the time of the last of them.
type Socket struct {
	*net.TCPConn
	raw  syscall.RawConn
	read func(fd uintptr) bool // receive, bound once so that a read allocates nothing

	at   time.Time     // when the last read returned, with a monotonic reading
	lag  time.Duration // for how long its data had lain in the kernel
	lags Lags

	conn *Conn // while pumping
	sink Sink
	err  error
	step func(fd uintptr) bool // pumpOnce, bound once

	msg     unix.Msghdr
	iov     unix.Iovec
	control [64]byte
	n       int
	errno   syscall.Errno
}

// NewSocket asks the kernel for timestamps; ok is false where it has none. The
// connection must then be read through the Socket only.
func NewSocket(nc net.Conn) (s *Socket, ok bool) {
	tc, isTCP := nc.(*net.TCPConn)
	if !isTCP {
		return nil, false
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil, false
	}
	enabled := false
	err = raw.Control(func(fd uintptr) {
		enabled = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil
	})
	if err != nil || !enabled {
		return nil, false
	}
	s = &Socket{TCPConn: tc, raw: raw}
	s.read, s.step = s.receive, s.pumpOnce
	return s, true
}

// Read implements net.Conn.
func (s *Socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.iov.Base = &p[0]
	s.iov.SetLen(len(p))
	if err := s.raw.Read(s.read); err != nil {
		return 0, err
	}
	switch {
	case s.errno != 0:
		return 0, os.NewSyscallError("recvmsg", s.errno)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// receive tries to read once, and reports whether waiting would not help.
func (s *Socket) receive(fd uintptr) bool {
	for {
		s.msg.Iov, s.msg.Iovlen = &s.iov, 1
		s.msg.Control = &s.control[0]
		s.msg.SetControllen(len(s.control))
		// The descriptor does not block, so the scheduler need not be told.
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.msg)), unix.MSG_DONTWAIT)
		switch errno {
		case unix.EAGAIN:
			return false
		case unix.EINTR:
			continue
		}
		s.n, s.errno = int(n), errno
		s.at, s.lag = time.Now(), 0
		if errno == 0 && n > 0 {
			s.stamp()
		}
		return true
	}
}

// recheck is how long a pump waits before it looks at the socket anyway; see
// pumpOnce.
const recheck = 2 * time.Second

// pump reads the body of c's response and gives it to sink.
func (s *Socket) pump(c *Conn, sink Sink) error {
	s.conn, s.sink, s.err = c, sink, nil
	defer func() { s.conn, s.sink = nil, nil }()
	if err := c.deliver(sink); err != errMore {
		return err
	}
	for {
		until := c.clock.Now() + int64(recheck)
		last := c.deadline != 0 && c.deadline <= until
		if last {
			until = c.deadline
		}
		if err := s.SetReadDeadline(c.clock.epoch.Add(time.Duration(until))); err != nil {
			return err
		}
		if c.interrupted.Load() {
			return os.ErrDeadlineExceeded
		}
		err := s.raw.Read(s.step)
		if err == nil {
			return s.err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		ended := false
		if e := s.raw.Control(func(fd uintptr) { ended = s.pumpOnce(fd) }); e != nil {
			return e
		}
		switch {
		case ended:
			return s.err
		case last || c.interrupted.Load():
			return err
		}
	}
}

// pumpOnce reads and delivers until the socket is empty, and reports whether the
// body has ended. A read that does not fill the buffer has emptied the socket
// (epoll(7), question 9), so the next step is to wait, without the usual second
// read that only says so: the poller stays armed within one call of RawConn.Read
// and tells of whatever comes later. What it may not tell apart is data and the
// end of the connection that came at once; the recheck finds that one.
func (s *Socket) pumpOnce(fd uintptr) bool {
	c := s.conn
	for {
		if s.err = c.growBuffer(); s.err != nil {
			return true
		}
		space := c.buf[c.w:]
		s.iov.Base = &space[0]
		s.iov.SetLen(len(space))
		if !s.receive(fd) {
			return false
		}
		switch {
		case s.errno != 0:
			s.err = os.NewSyscallError("recvmsg", s.errno)
			return true
		case s.n == 0:
			s.err = c.endOfInput()
			return true
		}
		c.stamp()
		c.w += s.n
		if s.err = c.deliver(s.sink); s.err != errMore {
			return true
		}
		if s.n < len(space) {
			return false
		}
	}
}

// maxLag is the longest lag that is believed: beyond it the wall clock was set.
const maxLag = 10 * time.Second

// stamp takes the packet's time from the control message.
func (s *Socket) stamp() {
	const head = unix.SizeofCmsghdr
	if int(s.msg.Controllen) < head+int(unsafe.Sizeof(unix.Timespec{})) {
		return
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&s.control[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SO_TIMESTAMPNS {
		return
	}
	ts := (*unix.Timespec)(unsafe.Pointer(&s.control[head]))
	if lag := time.Duration(s.at.UnixNano() - ts.Nano()); lag >= 0 && lag < maxLag {
		s.lag = lag
		s.lags.add(lag)
	}
}

// Arrived returns when the last read's data arrived.
func (s *Socket) Arrived(c Clock) int64 { return int64(s.at.Sub(c.epoch) - s.lag) }

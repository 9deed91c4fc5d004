//go:build linux && (amd64 || arm64)

package wire

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel reads a TCP socket with the times of its packets.
type kernel struct {
	raw     syscall.RawConn // nil where the kernel tells no times
	receive func(fd uintptr) bool

	msg     unix.Msghdr
	iov     unix.Iovec
	control [64]byte
	n       int
	errno   syscall.Errno
	at      time.Time
}

// open asks for timestamps.
func (k *kernel) open(nc net.Conn) {
	tc, isTCP := nc.(*net.TCPConn)
	if !isTCP {
		return
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return
	}
	enabled := false
	err = raw.Control(func(fd uintptr) {
		enabled = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil
	})
	if err == nil && enabled {
		k.raw, k.receive = raw, k.receiveOnce // bound once, so that a read allocates nothing
	}
}

// read reads, and returns when the read returned and how long its data had lain in the kernel
// until then.
func (k *kernel) read(nc net.Conn, p []byte) (n int, at time.Time, lag time.Duration, err error) {
	if k.raw == nil || len(p) == 0 {
		n, err = nc.Read(p)
		return n, time.Now(), 0, err
	}
	k.iov.Base = &p[0]
	k.iov.SetLen(len(p))
	err = k.raw.Read(k.receive)
	k.iov.Base = nil
	switch {
	case err != nil:
		return 0, k.at, 0, err
	case k.errno != 0:
		return 0, k.at, 0, os.NewSyscallError("recvmsg", k.errno)
	case k.n == 0:
		return 0, k.at, 0, io.EOF
	}
	return k.n, k.at, k.lag(), nil
}

// receiveOnce tries to read once, and reports whether waiting would not help.
func (k *kernel) receiveOnce(fd uintptr) bool {
	for {
		k.msg.Iov, k.msg.Iovlen = &k.iov, 1
		k.msg.Control = &k.control[0]
		k.msg.SetControllen(len(k.control))
		// The descriptor does not block, so the scheduler need not be told.
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&k.msg)), unix.MSG_DONTWAIT)
		switch errno {
		case unix.EAGAIN:
			return false
		case unix.EINTR:
			continue
		}
		k.n, k.errno, k.at = int(n), errno, time.Now()
		return true
	}
}

// maxLag is the longest lag that is believed: beyond it the wall clock was set.
const maxLag = 10 * time.Second

// lag takes the packet's time from the control message.
func (k *kernel) lag() time.Duration {
	const head = unix.SizeofCmsghdr
	if int(k.msg.Controllen) < head+int(unsafe.Sizeof(unix.Timespec{})) {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&k.control[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SO_TIMESTAMPNS {
		return 0
	}
	ts := (*unix.Timespec)(unsafe.Pointer(&k.control[head]))
	if lag := time.Duration(k.at.UnixNano() - ts.Nano()); lag >= 0 && lag < maxLag {
		return lag
	}
	return 0
}

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

	into    [1][]byte
	control [64]byte
	n, told int // bytes of data, and of control
	err     error
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
	_ = raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil {
			k.raw, k.receive = raw, k.receiveOnce // bound once, so that a read allocates nothing
		}
	})
}

// read reads, and returns how long the data had lain in the kernel.
func (k *kernel) read(nc net.Conn, p []byte) (n int, lag time.Duration, err error) {
	if k.raw == nil || len(p) == 0 {
		n, err = nc.Read(p)
		return n, 0, err
	}
	k.into[0] = p
	if err = k.raw.Read(k.receive); err == nil {
		err = os.NewSyscallError("recvmsg", k.err)
	}
	k.into[0] = nil
	switch {
	case err != nil:
		return 0, 0, err
	case k.n == 0:
		return 0, 0, io.EOF
	}
	return k.n, k.lag(time.Now()), nil
}

// receiveOnce tries to read once, and reports whether waiting would not help.
func (k *kernel) receiveOnce(fd uintptr) bool {
	for k.err = unix.EINTR; k.err == unix.EINTR; {
		k.n, k.told, _, _, k.err = unix.RecvmsgBuffers(int(fd), k.into[:], k.control[:], unix.MSG_DONTWAIT)
	}
	return k.err != unix.EAGAIN
}

// maxLag is the longest lag that is believed: beyond it the wall clock was set.
const maxLag = 10 * time.Second

// lag is from the packet's time, which the control message has, to now.
func (k *kernel) lag(now time.Time) time.Duration {
	if k.told < unix.CmsgLen(int(unsafe.Sizeof(unix.Timespec{}))) {
		return 0
	}
	head, data, _, err := unix.ParseOneSocketControlMessage(k.control[:k.told])
	if err != nil || head.Level != unix.SOL_SOCKET || head.Type != unix.SO_TIMESTAMPNS {
		return 0
	}
	if lag := time.Duration(now.UnixNano() - (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()); lag >= 0 && lag < maxLag {
		return lag
	}
	return 0
}

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

// A packetReader reads a TCP socket together with the arrival times of its packets.
type packetReader struct {
	raw     syscall.RawConn // nil if the kernel gives no timestamps
	receive func(fd uintptr) bool

	into    [1][]byte
	control [64]byte
	n, told int // bytes of data, and of control messages
	err     error
}

// requestTimestamps asks the kernel for timestamps.
func (k *packetReader) requestTimestamps(nc net.Conn) {
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

// readTimed reads, and returns how long the data had waited in the kernel.
func (k *packetReader) readTimed(nc net.Conn, p []byte) (n int, lag time.Duration, err error) {
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
	return k.n, k.packetLag(time.Now()), nil
}

// receiveOnce tries to read once, and reports whether it is done: waiting would not help.
func (k *packetReader) receiveOnce(fd uintptr) bool {
	for k.err = unix.EINTR; k.err == unix.EINTR; {
		k.n, k.told, _, _, k.err = unix.RecvmsgBuffers(int(fd), k.into[:], k.control[:], unix.MSG_DONTWAIT)
	}
	return k.err != unix.EAGAIN
}

// maxLag is the longest plausible lag. A longer one means that the wall clock was set.
const maxLag = 10 * time.Second

// packetLag returns the time since the packet's arrival according to the control message.
func (k *packetReader) packetLag(now time.Time) time.Duration {
	if k.told < unix.CmsgLen(int(unsafe.Sizeof(unix.Timespec{}))) {
		return 0
	}
	head, data, _, err := unix.ParseOneSocketControlMessage(k.control[:k.told])
	if err != nil || head.Level != unix.SOL_SOCKET || head.Type != unix.SO_TIMESTAMPNS {
		return 0
	}
	came := (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
	if lag := time.Duration(now.UnixNano() - came); lag >= 0 && lag < maxLag {
		return lag
	}
	return 0
}

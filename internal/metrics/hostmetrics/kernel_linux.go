package hostmetrics

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/nvidia"
)

// kernelLog finds XID errors in the kernel's ring buffer. One goroutine reads it.
type kernelLog struct {
	path   string // of the ring buffer
	opened bool
	fd     int // of the ring buffer, -1 without
	buf    []byte
	last   map[string]int // code by address
}

// mostRecords bounds one reading of the ring buffer, which holds some 10,000 records.
const mostRecords = 200_000

// xids returns the last code of each GPU that had an error, by its address on the bus. An
// error means that nobody can tell.
func (k *kernelLog) xids(ctx context.Context) (map[string]int, error) {
	if !k.opened {
		k.opened, k.last, k.buf = true, map[string]int{}, make([]byte, 16<<10)
		fd, err := unix.Open(k.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			fd = -1
		}
		k.fd = fd
	}
	if k.fd < 0 {
		return nil, fmt.Errorf("this user may not read %s: run as root or with CAP_SYSLOG", k.path)
	}
	return k.last, k.drain(ctx)
}

// drain reads what came since the last time.
func (k *kernelLog) drain(ctx context.Context) error {
	for range mostRecords {
		n, err := unix.Read(k.fd, k.buf)
		switch {
		case err == nil && n == 0 || errors.Is(err, unix.EAGAIN) || ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR): // some were overwritten before they were read
		case err != nil:
			return fmt.Errorf("read %s: %w", k.path, err)
		default:
			if bus, code, ok := nvidia.XID(string(k.buf[:n])); ok {
				k.last[bus] = code
			}
		}
	}
	return nil
}

func (k *kernelLog) close() {
	if k.opened && k.fd >= 0 {
		unix.Close(k.fd)
	}
	k.opened = false
}

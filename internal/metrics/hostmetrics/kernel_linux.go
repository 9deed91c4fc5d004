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
	path string         // of the ring buffer
	fd   int            // of it, -1 where this user may not read it; set once last is
	last map[string]int // code by address
}

// mostRecords bounds one reading of the ring buffer, which holds some 10,000 records.
const mostRecords = 200_000

// xids returns the last code of each GPU that had an error, by its address on the bus. An
// error means that nobody can tell.
func (k *kernelLog) xids(ctx context.Context) (map[string]int, error) {
	if k.last == nil {
		var err error
		if k.fd, err = unix.Open(k.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
			k.fd = -1
		}
		k.last = map[string]int{}
	}
	if k.fd < 0 {
		return nil, fmt.Errorf("this user may not read %s: run as root or with CAP_SYSLOG", k.path)
	}
	buf := make([]byte, 16<<10)
	for range mostRecords {
		n, err := unix.Read(k.fd, buf)
		switch {
		case err == nil && n == 0 || errors.Is(err, unix.EAGAIN) || ctx.Err() != nil:
			return k.last, nil
		case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR): // some were overwritten before they were read
		case err != nil:
			return k.last, fmt.Errorf("read %s: %w", k.path, err)
		default:
			if bus, code, ok := nvidia.XID(string(buf[:n])); ok {
				k.last[bus] = code
			}
		}
	}
	return k.last, nil
}

func (k *kernelLog) close() {
	if k.last != nil && k.fd >= 0 {
		unix.Close(k.fd)
	}
	k.last = nil
}

package hostmetrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/nvidia"
)

// kernelLog finds XID errors in the kernel's log: in its ring buffer or, where this user
// may not read that, in the journal. One goroutine reads it.
type kernelLog struct {
	path    string // of the ring buffer
	opened  bool
	fd      int // of the ring buffer, -1 without
	buf     []byte
	journal journal
	last    map[string]int // code by address
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
	if k.fd >= 0 {
		return k.last, k.drain(ctx)
	}
	return k.last, k.journal.read(ctx, k.addLine)
}

func (k *kernelLog) addLine(line string) {
	if bus, code, ok := nvidia.XID(line); ok {
		k.last[bus] = code
	}
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
			k.addLine(string(k.buf[:n]))
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

// journal reads the kernel's messages of this boot from systemd's journal.
type journal struct {
	cursor string // of the last message, "" before the first
	next   time.Time
	failed error
}

// journalEvery is how often the journal is asked: each time is a process of its own.
const journalEvery = 5 * time.Second

// read calls fn for each new message. An error means that this user may not see any.
func (j *journal) read(ctx context.Context, fn func(line string)) error {
	if j.failed != nil || j.cursor != "" && time.Now().Before(j.next) {
		return j.failed
	}
	j.next = time.Now().Add(journalEvery)
	args := []string{"--dmesg", "--boot", "--quiet", "--no-pager", "--output=cat", "--show-cursor"}
	if j.cursor != "" {
		args = append(args, "--after-cursor="+j.cursor)
	} else {
		args = append(args, "--lines=20000")
	}
	out, _, err := start(ctx, 32<<20, "journalctl", args...)
	if ctx.Err() != nil {
		return nil
	}
	for line := range bytes.Lines(gpu.Text(out)) {
		text := strings.TrimRight(string(line), "\n")
		if c, ok := strings.CutPrefix(text, "-- cursor: "); ok {
			j.cursor = c
			continue
		}
		fn(text)
	}
	if j.cursor == "" { // every boot begins with messages
		j.failed = errors.New("this user may read neither /dev/kmsg nor the kernel's journal; nvidia-smi does not tell them")
		if err != nil && errors.Is(err, errHangs) {
			j.failed = err
		}
	}
	return j.failed
}

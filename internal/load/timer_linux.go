package load

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// preciseTimer waits with the accuracy of the kernel's timers. Go's own timers
// round up to whole milliseconds when the process is otherwise idle, because
// the runtime waits in epoll_wait; a timerfd wakes that very wait on time.
type preciseTimer struct {
	f  *os.File
	fd int
}

func newPreciseTimer() (*preciseTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	return &preciseTimer{os.NewFile(uintptr(fd), "timerfd"), fd}, nil
}

// wait sleeps for d, or until interrupt.
func (t *preciseTimer) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	var b [8]byte
	_, err := t.f.Read(b[:])
	return err
}

// interrupt ends the current and all later waits with an error.
func (t *preciseTimer) interrupt() { _ = t.f.SetReadDeadline(time.Unix(1, 0)) }

func (t *preciseTimer) close() error { return t.f.Close() }

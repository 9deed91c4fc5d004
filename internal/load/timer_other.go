//go:build !linux

package load

import (
	"context"
	"time"
)

// preciseTimer waits with Go's own timers, which are accurate where the runtime
// does not wait in epoll_wait.
type preciseTimer struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func newPreciseTimer() (*preciseTimer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	return &preciseTimer{ctx, cancel}, nil
}

// wait sleeps for d, or until interrupt.
func (t *preciseTimer) wait(d time.Duration) error {
	if d <= 0 {
		return t.ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

// interrupt ends the current and all later waits with an error.
func (t *preciseTimer) interrupt() { t.cancel() }

func (t *preciseTimer) close() error { t.cancel(); return nil }

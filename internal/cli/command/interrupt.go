package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInterrupted is the cause of a context that Ctrl-C or SIGTERM ended.
var ErrInterrupted = errors.New("interrupted")

// grace is how long after an interrupt a command may still print results and remove its temporary files. Then the
// process ends.
const grace = 750 * time.Millisecond

// echo is how long after an interrupt another one counts as the same: programs that run this one (timeout, npm, uvx)
// pass on the signal that the terminal sends to both.
const echo = 100 * time.Millisecond

// interrupts ends commands on Ctrl-C and SIGTERM. The first signal cancels the command's context; a second one, or the
// end of the grace period, ends the process.
type interrupts struct {
	cancel context.CancelCauseFunc
	exit   func() // ends the process

	saving      atomic.Bool // see Saving
	isNormalEnd atomic.Bool // see EndsWhenInterrupted
}

type interruptsKey struct{}

// withInterrupts returns a context that an interrupt cancels. It watches for signals until the process ends.
func withInterrupts(parent context.Context, exit func()) (context.Context, *interrupts) {
	in := &interrupts{exit: exit}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, interruptsKey{}, in))
	in.cancel = cancel
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go in.watch(signals)
	return ctx, in
}

func (in *interrupts) watch(signals <-chan os.Signal) {
	<-signals
	in.cancel(ErrInterrupted)
	for echoEnds := time.After(echo); echoEnds != nil; {
		select {
		case <-signals:
		case <-echoEnds:
			echoEnds = nil
		}
	}
	select {
	case <-signals:
	case <-time.After(grace - echo):
		if in.saving.Load() {
			<-signals
		}
	}
	in.exit()
}

// EndsWhenInterrupted marks that an interrupt is the normal way to end the command, with exit code 0.
func EndsWhenInterrupted(ctx context.Context) {
	if in, ok := ctx.Value(interruptsKey{}).(*interrupts); ok {
		in.isNormalEnd.Store(true)
	}
}

// Saving marks that measurements are being written. Writing may outlast the grace period, because they cannot be
// repeated. A second interrupt ends it too.
func Saving(ctx context.Context) {
	if in, ok := ctx.Value(interruptsKey{}).(*interrupts); ok {
		in.saving.Store(true)
	}
}

// LastWords returns a context for judging the measurements so far: ctx or, if ctx was interrupted, one that lasts for
// a part of the grace period.
func LastWords(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), grace*2/3)
}

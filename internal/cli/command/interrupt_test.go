package command

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// interrupted sends interrupts to a command that does not end by itself and
// returns when each was sent and when the process would have ended.
func interrupted(t *testing.T, prepare func(context.Context), pauses ...time.Duration) (ended time.Duration) {
	t.Helper()
	in := &interrupts{}
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), interruptsKey{}, in))
	in.cancel = cancel
	done := make(chan struct{})
	in.exit = func() { close(done) }
	prepare(ctx)
	signals := make(chan os.Signal, 2)
	began := time.Now()
	go in.watch(signals)
	for _, p := range pauses {
		time.Sleep(p)
		signals <- os.Interrupt
	}
	<-done
	if !errors.Is(context.Cause(ctx), ErrInterrupted) {
		t.Errorf("the context ended by %v", context.Cause(ctx))
	}
	return time.Since(began)
}

func TestAnInterruptEndsWhatDoesNotEndByItself(t *testing.T) {
	nothing := func(context.Context) {}
	if took := interrupted(t, nothing, 0); took < grace {
		t.Errorf("it had %s, want the grace of %s", took, grace)
	}
	if took := interrupted(t, nothing, 0, 0); took >= grace {
		t.Errorf("after a second interrupt it went on for %s", took)
	}
	// What is being saved may take its time, but not against a second interrupt.
	if took := interrupted(t, Saving, 0, grace+300*time.Millisecond); took < grace+300*time.Millisecond {
		t.Errorf("what was being saved had %s", took)
	}
}

package command

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// interrupted sends interrupts, each after a pause, to a command that never ends. It returns the time after which the
// process is ended.
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
		<-time.After(p)
		signals <- os.Interrupt
	}
	<-done
	if !errors.Is(context.Cause(ctx), ErrInterrupted) {
		t.Errorf("the context ended by %v", context.Cause(ctx))
	}
	return time.Since(began)
}

func TestAnInterruptEndsWhatDoesNotEndByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nothing := func(context.Context) {}
		if took := interrupted(t, nothing, 0); took != grace {
			t.Errorf("it had %s, want the grace of %s", took, grace)
		}
		if took := interrupted(t, nothing, 0, grace/2); took != grace/2 {
			t.Errorf("it had %s, want that it ends with the second interrupt, after %s", took, grace/2)
		}
		// A program that runs this one passes on what the terminal sends to both.
		if took := interrupted(t, nothing, 0, echo/2); took != grace {
			t.Errorf("it had %s after an interrupt that came twice at once, want the grace of %s", took, grace)
		}
		// What is being saved may take its time, but not against a second interrupt.
		if took := interrupted(t, Saving, 0, 2*grace); took != 2*grace {
			t.Errorf("what was being saved had %s, want %s", took, 2*grace)
		}
	})
}

package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// diagnoseRecording judges a recording at one of its moments.
func diagnoseRecording(ctx context.Context, stderr io.Writer, f *diagnoseFlags, o diagnose.Options) (d diagnose.Diagnosis, err error) {
	err = withRecording(ctx, stderr, f.recording, func(p *played) error {
		if o.At, err = p.at(f.at); err != nil {
			return err
		}
		o.Interval = p.interval
		if err := f.past(&o, p.span); err != nil {
			return err
		}
		o.First, o.Created, o.Every = p.first, firstCreated(p.Store), true
		d, err = judge(ctx, p, o)
		return err
	})
	return d, err
}

// past sets the window and the baseline that the user asked for.
func (f *diagnoseFlags) past(o *diagnose.Options, s span) error {
	o.Window = f.window
	length := o.Window
	if length == 0 {
		length = diagnose.UsualWindow(o.Interval)
	}
	var err error
	if o.Baseline, err = s.baseline(f.baseline, o.At.Add(-length)); err != nil {
		return err
	}
	if !o.Baseline.To.IsZero() && o.Baseline.To.After(o.At) {
		return fmt.Errorf("--baseline: it ends (%s) after --at (%s)", stamp(o.Baseline.To), stamp(o.At))
	}
	return nil
}

// firstCreated returns when the oldest process of a store began to count, zero
// where none says.
func firstCreated(store *embedded.Store) time.Time {
	var oldest time.Time
	for _, t := range store.Targets() {
		if at, ok := store.FirstCreated(t); ok && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest
}

// firstHint keeps the hint that an error has.
func firstHint(err error, otherwise string) string {
	if h := hint.Of(err); h != "" {
		return h
	}
	return otherwise
}

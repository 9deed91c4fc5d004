package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// diagnoseRecording judges a recording at one of its moments.
func diagnoseRecording(ctx context.Context, stderr io.Writer, f *diagnoseFlags, o diagnose.Options) (d diagnose.Diagnosis, err error) {
	rec, err := recording.Open(f.recording)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	notes(stderr, rec.Warnings())
	var s span
	s.first, s.last = rec.Times()
	if o.At, err = s.at(f.at); err != nil {
		return d, err
	}
	if o.Interval, err = spacing(rec); err != nil {
		return d, err
	}
	if err := f.past(&o, s); err != nil {
		return d, err
	}

	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Load(ctx, rec, nil); err != nil {
		return d, hint.With(err, firstHint(err, "check that the files are answers of /metrics"))
	}
	notes(stderr, store.Warnings())
	o.First, o.Created, o.Every = s.first, firstCreated(store), true
	return diagnose.Run(ctx, store, o)
}

// past sets the window and the baseline that the user asked for.
func (f *diagnoseFlags) past(o *diagnose.Options, s span) error {
	o.Window = f.window
	length := o.Window
	if length == 0 {
		length = max(time.Minute, 20*o.Interval) // where the window begins at the earliest
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

// spacing returns the median time between two scrapes of one target.
func spacing(rec *recording.Recording) (time.Duration, error) {
	last := map[string]time.Time{}
	var gaps []time.Duration
	err := rec.Scrapes(func(sc recording.Scrape) error {
		if before, ok := last[sc.Target]; ok {
			gaps = append(gaps, sc.At.Sub(before))
		}
		last[sc.Target] = sc.At
		return nil
	})
	if err != nil || len(gaps) == 0 {
		return time.Second, err
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2].Round(100 * time.Millisecond), nil
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

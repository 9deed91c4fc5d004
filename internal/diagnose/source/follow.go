package source

import (
	"context"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Follow diagnoses periodically until the context ends; servers are scraped meanwhile. It calls fn with each
// diagnosis or its error. An error of fn, or an address that can never be judged, ends it.
func (s *Source) Follow(ctx context.Context, o diagnose.Options, every time.Duration, each func(*diagnose.Diagnosis, error) error) error {
	o.Memory = &diagnose.Memory{}
	if s.Live == nil {
		return s.followDiagnoses(ctx, o, every, each)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		s.Live.FetchFacts(ctx)
		done <- s.followDiagnoses(ctx, o, every, each)
		stop()
	}()
	s.Live.Run(ctx)
	return <-done
}

func (s *Source) followDiagnoses(ctx context.Context, o diagnose.Options, every time.Duration, each func(*diagnose.Diagnosis, error) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if s.Live != nil && s.Live.neverJudgeable() {
			return s.Live.onlyStrangersError()
		}
		now, err := s.optionsAt(ctx, time.Now(), o)
		var d diagnose.Diagnosis
		if err == nil {
			d, err = s.Diagnose(ctx, now)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := each(&d, err); err != nil {
			return err
		}
	}
}

// optionsAt returns the options of a diagnosis at one time, with the caller's pathologies.
func (s *Source) optionsAt(ctx context.Context, at time.Time, by diagnose.Options) (diagnose.Options, error) {
	o, err := s.Options(ctx, at)
	return mergeOptions(o, by), err
}

// mergeOptions are the options of a source, with what the caller looks for and tells of the servers.
func mergeOptions(o, by diagnose.Options) diagnose.Options {
	o.Pathologies, o.Settings, o.Window, o.Memory = by.Pathologies, by.Settings, by.Window, by.Memory
	facts := o.Annotate
	o.Annotate = func(ts []diagnose.Target) {
		for _, annotate := range []func([]diagnose.Target){facts, by.Annotate} {
			if annotate != nil {
				annotate(ts)
			}
		}
	}
	return o
}

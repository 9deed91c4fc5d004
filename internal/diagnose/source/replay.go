package source

import (
	"context"
	"errors"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Replay diagnoses the past at every step of a span. It calls each with every diagnosis, and an error of each ends the
// replay. The source fills in the options for each time. The samples of a Prometheus server are read once.
func (s *Source) Replay(ctx context.Context, o diagnose.Options, from, to time.Time, step time.Duration,
	each func(*diagnose.Diagnosis) error) error {
	if s.store == nil {
		c, err := s.copyPast(ctx, from, to)
		if err != nil {
			return err
		}
		if c != nil {
			return errors.Join(c.Replay(ctx, o, from, to, step, each), c.Close())
		}
	}
	o.Memory = &diagnose.Memory{}
	for at := to.Add(-to.Sub(from) / step * step); !at.After(to); at = at.Add(step) {
		own, err := s.optionsAt(ctx, at, o)
		if err != nil {
			return err
		}
		d, err := s.Diagnose(ctx, own)
		if err != nil {
			return err
		}
		if err := each(&d); err != nil {
			return err
		}
	}
	return nil
}

// optionsAt returns the options of a diagnosis at one time, with the caller's pathologies.
func (s *Source) optionsAt(ctx context.Context, at time.Time, by diagnose.Options) (diagnose.Options, error) {
	o, err := s.Options(ctx, at)
	return mergeOptions(o, by), err
}

// mergeOptions returns the options of a source, with the caller's pathologies, settings, window, memory and
// annotations.
func mergeOptions(own, by diagnose.Options) diagnose.Options {
	own.Pathologies, own.Settings, own.Window, own.Memory = by.Pathologies, by.Settings, by.Window, by.Memory
	facts := own.Annotate
	own.Annotate = func(ts []diagnose.Target) {
		for _, annotate := range []func([]diagnose.Target){facts, by.Annotate} {
			if annotate != nil {
				annotate(ts)
			}
		}
	}
	return own
}

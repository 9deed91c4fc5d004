package source

import (
	"context"
	"errors"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Replay diagnoses the past at every step of a span. It calls fn with each diagnosis; fn's error ends the replay. The
// source fills in the options of each time. A Prometheus server's samples are read once.
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

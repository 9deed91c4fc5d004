package source

import (
	"context"
	"errors"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Replay diagnoses the past: each moment of a span, a step apart, up to its end. The
// function is called with each diagnosis and ends the replay with its error. What the
// options say of a moment is that of the source. What a Prometheus server holds is read once.
func (s *Source) Replay(ctx context.Context, o diagnose.Options, from, to time.Time, step time.Duration, each func(*diagnose.Diagnosis) error) error {
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
		own, err := s.options(ctx, at, o)
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

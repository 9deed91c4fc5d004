package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// sleepy answers so many questions, and the rest when their context ends.
type sleepy struct {
	metrics.Querier
	left int
}

func (q *sleepy) wait(ctx context.Context) error {
	if q.left--; q.left >= 0 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (q *sleepy) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	if err := q.wait(ctx); err != nil {
		return nil, err
	}
	return q.Querier.Query(ctx, expr, at)
}

func (q *sleepy) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	return nil, nil // no past
}

func (q *sleepy) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	return nil, nil // no past
}

// TestADiagnosisEndsAtItsDeadline: what has no answer by then is unknown, and
// nothing is healthy against it.
func TestADiagnosisEndsAtItsDeadline(t *testing.T) {
	const recording = "../../testdata/recordings/full-but-quiet.tar.zst"
	for name, answers := range map[string]int{"nothing": 0, "the targets": 2} {
		t.Run(name, func(t *testing.T) {
			err := withRecording(t.Context(), t.Output(), recording, func(p *played) error {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errTooLate)
				defer cancel()
				began := time.Now()
				d, err := judge(ctx, &sleepy{Querier: p.Store, left: answers}, diagnose.Options{At: p.last, First: p.first, Interval: p.interval, Every: true, Pathologies: pathologies.All()})
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %s", took)
				}
				if answers == 0 {
					return err
				}
				if err != nil || d.Status != diagnose.Unknown || d.Verdict.ID != diagnose.InsufficientData || d.Verdict.Confidence != 0 {
					t.Errorf("error %v, verdict %+v", err, d.Verdict)
				}
				if len(d.Notes) == 0 || !strings.HasPrefix(d.Notes[0], "partial: ") {
					t.Errorf("notes %q", d.Notes)
				}
				return nil
			})
			if failed := answers == 0; failed != (err != nil) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestAnInterruptIsNoDeadline: then an unanswered question is an error.
func TestAnInterruptIsNoDeadline(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	q := &inTime{next: &sleepy{}}
	if _, err := q.Query(ctx, "up", time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestADiagnosisThatIgnoresItsDeadlineEnds(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errTooLate)
	defer cancel()
	release := make(chan struct{})
	defer close(release)
	began := time.Now()
	_, err := bounded(ctx, func() (diagnose.Diagnosis, error) {
		<-release
		return diagnose.Diagnosis{}, nil
	})
	if took := time.Since(began); !errors.Is(err, errTooLate) || took > 2*overtime {
		t.Errorf("error %v after %s", err, took)
	}
}

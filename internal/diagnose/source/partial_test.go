package source

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var errLate = errors.New("too late")

// sleepy answers while it is awake, and then only when the question's context ends.
type sleepy struct {
	metrics.Querier
	asleep atomic.Bool
}

func (q *sleepy) wait(ctx context.Context) error {
	if !q.asleep.Load() {
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

func (q *sleepy) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	return q.Query(ctx, e.String(), at)
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
	for name, known := range map[string]bool{"nothing": false, "the targets": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endsAtItsDeadline(t, known) })
		})
	}
}

func endsAtItsDeadline(t *testing.T, known bool) {
	p, err := Open(t.Context(), Spec{Recording: "../../../testdata/recordings/full-but-quiet.tar.zst"})
	must.Succeed(t, err)
	defer p.Close()
	o, err := p.Options(t.Context(), p.Span().Last)
	must.Succeed(t, err)
	const deadline = 2 * time.Second
	ctx, cancel := context.WithTimeoutCause(t.Context(), deadline, errLate)
	defer cancel()
	q := &sleepy{Querier: p.Querier}
	q.asleep.Store(!known)
	fallAsleep := func([]diagnose.Target) { q.asleep.Store(true) }
	began := time.Now()
	o.Annotate, o.Pathologies = fallAsleep, pathologies.All()
	d, err := judgeInTime(ctx, q, o)
	if took := time.Since(began); took > deadline {
		t.Errorf("it took %s", took)
	}
	if !known {
		if err == nil {
			t.Error("no error, of nothing that is known")
		}
		return
	}
	if err != nil || d.Status != diagnose.Unknown || d.Verdict.ID != diagnose.InsufficientData || d.Verdict.Confidence != 0 {
		t.Errorf("error %v, verdict %+v", err, d.Verdict)
	}
	if len(d.Notes) == 0 || !strings.HasPrefix(d.Notes[0], "partial: ") {
		t.Errorf("notes %q", d.Notes)
	}
}

// TestAnInterruptIsNoDeadline: then an unanswered question is an error.
func TestAnInterruptIsNoDeadline(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	asleep := &sleepy{}
	asleep.asleep.Store(true)
	q := acceptTimeouts(asleep, new(atomic.Int64), new(atomic.Int64))
	if _, err := q.Query(ctx, "up", time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestADiagnosisThatIgnoresItsDeadlineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errLate)
		defer cancel()
		release := make(chan struct{})
		defer close(release)
		began := time.Now()
		_, err := runBounded(ctx, func() (diagnose.Diagnosis, error) {
			<-release
			return diagnose.Diagnosis{}, nil
		})
		if took := time.Since(began); !errors.Is(err, errLate) || took != time.Minute+overtime {
			t.Errorf("error %v after %s", err, took)
		}
	})
}

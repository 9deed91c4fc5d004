package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// partialConfidence bounds the confidence of a diagnosis that lacks answers.
const partialConfidence = 0.5

// judgeInTime diagnoses the answers that arrive before the context's deadline. If some are missing, the diagnosis is
// marked as partial. If all are, it returns an error.
func judgeInTime(ctx context.Context, q metrics.Querier, o diagnose.Options) (diagnose.Diagnosis, error) {
	var answered, unanswered atomic.Int64
	d, err := runBounded(ctx,
		func() (diagnose.Diagnosis, error) {
			return diagnose.Run(ctx, acceptTimeouts(q, &answered, &unanswered), o)
		})
	if err != nil {
		return d, err
	}
	switch n := unanswered.Load(); {
	case n > 0 && answered.Load() == 0:
		return diagnose.Diagnosis{}, fmt.Errorf("none of %d queries had an answer in time: %w", n, context.Cause(ctx))
	case n > 0:
		d.Notes = slices.Insert(d.Notes, 0,
			fmt.Sprintf("partial: %d queries had no answer in time; checks that need them are unknown", n))
		d.MarkPartial(partialConfidence, "the time limit was reached before all checks")
	case deadlinePassed(ctx) && o.Predict != nil:
		d.Notes = slices.Insert(d.Notes, 0, "partial: the time limit was reached before all fixes were simulated")
	}
	return d, nil
}

// overtime is how long a diagnosis may still run after its context ended.
const overtime = 2 * time.Second

// runBounded returns run's result, or the context's error if run does not return within overtime. The process is then
// about to end, and run with it.
func runBounded(ctx context.Context, run func() (diagnose.Diagnosis, error)) (diagnose.Diagnosis, error) {
	var d diagnose.Diagnosis
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		d, err = run()
	}()
	select {
	case <-done:
		return d, err
	case <-ctx.Done():
	}
	select {
	case <-done:
		return d, err
	case <-time.After(overtime):
		return diagnose.Diagnosis{}, context.Cause(ctx)
	}
}

func deadlinePassed(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// acceptTimeouts returns a Querier that gives an empty answer, not an error, if the deadline comes first. It counts
// both kinds of queries.
func acceptTimeouts(q metrics.Querier, answered, unanswered *atomic.Int64) *lenient {
	return &lenient{q, func(ctx context.Context, err error) error {
		if err != nil && deadlinePassed(ctx) {
			unanswered.Add(1)
			return nil
		}
		if err == nil {
			answered.Add(1)
		}
		return err
	}}
}

// lenient is a Querier that ignores the errors for which handle returns nil.
type lenient struct {
	next   metrics.Querier
	handle func(context.Context, error) error
}

// Query implements metrics.Querier.
func (q *lenient) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	v, err := q.next.Query(ctx, expr, at)
	return v, q.handle(ctx, err)
}

// Evaluate implements metrics.Querier.
func (q *lenient) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	v, err := q.next.Evaluate(ctx, e, at)
	return v, q.handle(ctx, err)
}

// Samples implements metrics.Querier.
func (q *lenient) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix,
	error) {
	m, err := q.next.Samples(ctx, selector, at, span)
	return m, q.handle(ctx, err)
}

// QueryRange implements metrics.Querier.
func (q *lenient) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	m, err := q.next.QueryRange(ctx, expr, r)
	return m, q.handle(ctx, err)
}

// Package metrics declares the Querier, the only source of measurements: every number is the result of PromQL. There
// are two implementations. Package embedded is Prometheus' storage in this process, filled from a plain /metrics URL, a
// recording, or by the monitor. Package api asks any Prometheus-compatible server.
//
// The package performs no I/O itself. Vectors and matrices have the types of prometheus/common/model, which both
// backends use already.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// MaxMagnitude is the largest possible measurement. No counter reaches 10²⁴ of anything, and its twelfth power still
// fits into a float64.
const MaxMagnitude = 1e24

// Arrival is the longest delay between a sample's time and its arrival in a storage: scrapes take seconds, and remote
// writes are late.
const Arrival = time.Minute

// DefaultInterval is the scrape interval of a monitor, and of the configuration that is generated for a Prometheus.
const DefaultInterval = 5 * time.Second

// AtOnce bounds the concurrent queries of a diagnosis: enough to hide a remote server's latency, too few to be an
// incident themselves.
const AtOnce = 8

// ErrTooLarge reports that a server refuses to return so many samples at once.
var ErrTooLarge = errors.New("the answer is too large")

// Range is a range of time evaluated every Step, both ends included.
type Range struct {
	Start, End time.Time
	Step       time.Duration
}

// A Querier evaluates PromQL. Implementations are safe for concurrent use.
//
// An expression that selects nothing returns an empty result and no error. An error means that there is no complete
// answer: the expression does not parse, the server refused or timed out, or it warned that its answer is partial (as
// Thanos and Mimir do). The labels in an answer may be shared with other answers: copy them before changing them.
type Querier interface {
	// Query evaluates an expression of vector or scalar type at one instant. A
	// scalar is returned as one sample without labels.
	Query(ctx context.Context, expr string, at time.Time) (model.Vector, error)

	// Evaluate is Query for the PromQL that a signal's expression prints.
	Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error)

	// QueryRange evaluates an expression at every step of r.
	QueryRange(ctx context.Context, expr string, r Range) (model.Matrix, error)

	// Samples returns the raw samples of the series that a selector matches, within the span that ends at the given
	// time.
	Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error)
}

// RangeSelector writes a selector with a range, in whole milliseconds.
func RangeSelector(selector string, span time.Duration) string {
	return selector + "[" + model.Duration(max(span.Truncate(time.Millisecond), time.Millisecond)).String() + "]"
}

package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/api"
)

// ParseMatchers reads selectors without a metric's name, in PromQL or as label=value,
// as --match takes them.
func ParseMatchers(texts []string) ([]*labels.Matcher, error) {
	var out []*labels.Matcher
	for _, text := range texts {
		m, err := parseMatch(text)
		if err != nil {
			return nil, err
		}
		out = append(out, m...)
	}
	return out, nil
}

func parseMatch(text string) ([]*labels.Matcher, error) {
	const way = `write it as '{namespace="prod",cluster=~"eu-.*"}' or namespace=prod`
	selector := strings.TrimSpace(text)
	if !strings.HasPrefix(selector, "{") {
		at := strings.IndexAny(selector, "=!")
		if at <= 0 {
			return nil, hint.With(fmt.Errorf("--match: %q is not a selector", text), way)
		}
		op := selector[at : at+1]
		if rest := selector[at:]; strings.HasPrefix(rest, "=~") || strings.HasPrefix(rest, "!~") || strings.HasPrefix(rest, "!=") {
			op = rest[:2]
		}
		value := selector[at+len(op):]
		if !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'") {
			value = fmt.Sprintf("%q", value)
		}
		selector = "{" + selector[:at] + op + value + "}"
	}
	matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(selector)
	if err != nil {
		return nil, hint.With(fmt.Errorf("--match: %q: %w", text, err), way)
	}
	for _, m := range matchers {
		if m.Name == labels.MetricName {
			return nil, hint.With(fmt.Errorf("--match: %q names a metric", text), "match labels only; sixty knows the names")
		}
	}
	return matchers, nil
}

// tolerant takes partial answers for what they are worth and remembers what
// they said.
type tolerant struct {
	next metrics.Querier

	mu      sync.Mutex
	seen    map[string]bool
	partial []string
}

// note drops the error of a partial answer and returns any other.
func (q *tolerant) note(err error) error {
	var p *api.PartialError
	if !errors.As(err, &p) {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if text := p.Error(); !q.seen[text] {
		q.seen[text] = true
		q.partial = append(q.partial, text)
	}
	return nil
}

// warnings are those of the partial answers.
func (q *tolerant) warnings() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.partial)
}

// Query implements metrics.Querier.
func (q *tolerant) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	v, err := q.next.Query(ctx, expr, at)
	return v, q.note(err)
}

// Samples implements metrics.Querier.
func (q *tolerant) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	m, err := q.next.Samples(ctx, selector, at, span)
	return m, q.note(err)
}

// QueryRange implements metrics.Querier.
func (q *tolerant) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	m, err := q.next.QueryRange(ctx, expr, r)
	return m, q.note(err)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/api"
)

// How the past is looked for on a server.
const (
	// pulse selects a gauge that every inference server always shows, under all
	// its names: few series, one for each scraped engine.
	pulse = `{__name__=~"(ray_|kserve_)?vllm[:_]num_requests_running|sglang:num_running_reqs"}`

	usualScrape = 15 * time.Second // where the interval cannot be seen
	history     = time.Hour
)

// diagnosePrometheus judges what a Prometheus-compatible server holds.
func diagnosePrometheus(ctx context.Context, stderr io.Writer, f *diagnoseFlags, o diagnose.Options) (d diagnose.Diagnosis, err error) {
	if o.Matchers, err = parseMatches(f.match); err != nil {
		return d, err
	}
	if o.At, err = (span{last: time.Now()}).at(f.at); err != nil {
		return d, err
	}
	err = withPrometheus(stderr, f.prometheus, &f.http, func(q *tolerant) error {
		if o.Interval, err = scrapeInterval(ctx, q, o.Matchers, o.At); err != nil {
			return err
		}
		if o.First, err = firstSample(ctx, q, o.Matchers, o.At); err != nil {
			return err
		}
		if err := f.past(&o, span{last: o.At}); err != nil {
			return err
		}
		d, err = judge(ctx, q, o)
		return err
	})
	return d, err
}

// parseMatch reads a selector without a metric's name, in PromQL or as
// label=value.
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

// within adds matchers to the pulse.
func within(matchers []*labels.Matcher) string {
	s := strings.TrimSuffix(pulse, "}")
	for _, m := range matchers {
		s += "," + m.String()
	}
	return s + "}"
}

// scrapeInterval estimates the time between two samples. Of a series that was
// there all the time their number tells it; of one that came or went meanwhile
// the time between its first and its last. The shorter end is nearer the
// truth, for a gap makes it longer.
func scrapeInterval(ctx context.Context, q metrics.Querier, matchers []*labels.Matcher, at time.Time) (time.Duration, error) {
	const expr = "quantile(0.1, (600 / (count_over_time(%[1]s[10m]) > 1) and %[1]s and %[1]s offset 10m)" +
		" or (max_over_time(timestamp(%[1]s)[10m:5s]) - min_over_time(timestamp(%[1]s)[10m:5s])) / (count_over_time(%[1]s[10m]) - 1 > 0))"
	v, err := q.Query(ctx, fmt.Sprintf(expr, within(matchers)), at)
	if err != nil {
		return 0, fmt.Errorf("find the scrape interval: %w", err)
	}
	if len(v) == 0 || !(float64(v[0].Value) > 0) {
		return usualScrape, nil
	}
	interval := time.Duration(float64(v[0].Value) * float64(time.Second))
	return max(interval.Round(time.Second), time.Second), nil
}

// firstSample returns since when the server holds samples, at most an hour.
func firstSample(ctx context.Context, q metrics.Querier, matchers []*labels.Matcher, at time.Time) (time.Time, error) {
	m, err := q.QueryRange(ctx, fmt.Sprintf("count(%s)", within(matchers)), metrics.Range{Start: at.Add(-history), End: at, Step: time.Minute})
	if err != nil {
		return time.Time{}, fmt.Errorf("find the first sample: %w", err)
	}
	first := at.Add(-history)
	if len(m) > 0 && len(m[0].Values) > 0 {
		first = m[0].Values[0].Timestamp.Time()
	}
	return first, nil
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

// Query implements metrics.Querier.
func (q *tolerant) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	v, err := q.next.Query(ctx, expr, at)
	return v, q.note(err)
}

// QueryRange implements metrics.Querier.
func (q *tolerant) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	m, err := q.next.QueryRange(ctx, expr, r)
	return m, q.note(err)
}

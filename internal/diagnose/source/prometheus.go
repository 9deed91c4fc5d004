package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/base/hint"
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
		if rest := selector[at:]; strings.HasPrefix(rest, "=~") || strings.HasPrefix(rest, "!~") ||
			strings.HasPrefix(rest, "!=") {
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
			return nil, hint.With(fmt.Errorf("--match: %q names a metric", text),
				"match labels only, without a metric name")
		}
	}
	return matchers, nil
}

// partials holds a Prometheus server's warnings of partial answers, each once.
type partials struct {
	mu    sync.Mutex
	texts []string
}

// recordPartial records the error of a partial answer, whose samples are used, and returns any other error.
func (p *partials) recordPartial(_ context.Context, err error) error {
	var partial *api.PartialError
	if !errors.As(err, &partial) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := partial.Error(); !slices.Contains(p.texts, text) {
		p.texts = append(p.texts, text)
	}
	return nil
}

// listWarnings returns the warnings of partial answers.
func (p *partials) listWarnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.texts)
}

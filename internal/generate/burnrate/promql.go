package burnrate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const modelName = "model_name"

// names returns the names of a canonical metric in the fleet's dialects, each
// once.
func (c *Config) names(canonical string) []string {
	var out []string
	for _, metric := range c.Metrics {
		if name := metric(canonical); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// overBase applies a range function over Base to a metric in all dialects. Series that one
// server exposes under several names, as during a deprecation, count once.
func (c *Config) overBase(function, canonical string, ms ...*labels.Matcher) string {
	return c.overWindow(Base, function, canonical, ms...)
}

// overWindow is over another window.
func (c *Config) overWindow(w time.Duration, function, canonical string, ms ...*labels.Matcher) string {
	var parts []string
	for _, name := range c.names(canonical) {
		parts = append(parts, fmt.Sprintf("%s(%s[%s])", function, indicator.Selector(name, slices.Concat(ms, c.Matchers)...), span(w)))
	}
	return strings.Join(parts, " or ")
}

// by writes an aggregation.
func by(operator string, on []string, expr string) string {
	return fmt.Sprintf("%s by (%s) (%s)", operator, list(on), expr)
}

func list(names []string) string { return strings.Join(names, ", ") }

// union returns the names of both, each once, in their order.
func union(a []string, b ...string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// without returns the names but one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == name })
}

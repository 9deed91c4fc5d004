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

// metricNames returns the names of a canonical metric in the fleet's dialects, without duplicates.
func (c *Config) metricNames(canonical string) []string {
	var out []string
	for _, metric := range c.Metrics {
		if exposed := metric(canonical); !slices.Contains(out, exposed) {
			out = append(out, exposed)
		}
	}
	return out
}

// overBase applies a range function over Base to a metric in all dialects. Series that one server exposes under
// several names, as during a deprecation, count once.
func (c *Config) overBase(function, canonical string, ms ...*labels.Matcher) string {
	return c.overWindow(Base, function, canonical, ms...)
}

// overWindow is overBase over another window.
func (c *Config) overWindow(w time.Duration, function, canonical string, ms ...*labels.Matcher) string {
	var parts []string
	for _, name := range c.metricNames(canonical) {
		parts = append(parts, fmt.Sprintf("%s(%s[%s])", function,
			indicator.Selector(name, slices.Concat(ms, c.Matchers)...), formatSpan(w)))
	}
	return strings.Join(parts, " or ")
}

func aggregateBy(operator string, on []string, expr string) string {
	return fmt.Sprintf("%s by (%s) (%s)", operator, joinNames(on), expr)
}

func joinNames(names []string) string { return strings.Join(names, ", ") }

func unionOf(a []string, b ...string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == name })
}

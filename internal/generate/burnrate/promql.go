package burnrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/slo"
)

const modelName = "model_name"

// glob is one matcher of an objective.
type glob struct{ label, pattern string }

// globs lists an objective's matchers that do not match everything.
func globs(o slo.Objective) []glob {
	var out []glob
	for _, g := range []glob{{modelName, o.Model}, {"namespace", o.Namespace}, {"cluster", o.Cluster}, {"service", o.Service}} {
		if g.pattern != "" && g.pattern != "*" {
			out = append(out, g)
		}
	}
	return out
}

func matchesAll(o slo.Objective) bool { return len(globs(o)) == 0 }

// matcher turns a glob into a matcher: equality where it holds no pattern.
func (g glob) matcher() (*labels.Matcher, error) {
	if !strings.ContainsAny(g.pattern, `*?[\`) {
		return labels.NewMatcher(labels.MatchEqual, g.label, g.pattern)
	}
	m, err := labels.NewMatcher(labels.MatchRegexp, g.label, regex(g.pattern))
	if err != nil {
		return nil, fmt.Errorf("matcher %q: %w", g.pattern, err)
	}
	return m, nil
}

// regex translates a pattern as slo.yaml has it (path.Match, but * and ? match
// slashes too) to a regular expression of RE2, which Prometheus anchors.
func regex(pattern string) string {
	var b strings.Builder
	runes := []rune(pattern)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		case '[':
			end := i + 1
			for end < len(runes) && (runes[end] != ']' || end == i+1) {
				if runes[end] == '\\' {
					end++
				}
				end++
			}
			end = max(i+1, min(end, len(runes)-1))
			b.WriteString(class(runes[i+1 : end]))
			i = end
		case '\\':
			if i+1 < len(runes) {
				i++
			}
			b.WriteString(literal(runes[i]))
		default:
			b.WriteString(literal(c))
		}
	}
	return b.String()
}

// class translates what stands between brackets: ranges and a leading ^ are
// the same in both languages.
func class(in []rune) string {
	var b strings.Builder
	b.WriteByte('[')
	if len(in) > 0 && in[0] == '^' {
		b.WriteByte('^')
		in = in[1:]
	}
	for i := 0; i < len(in); i++ {
		c := in[i]
		if c == '-' {
			b.WriteByte('-')
			continue
		}
		if c == '\\' && i+1 < len(in) {
			i++
			c = in[i]
		}
		if strings.ContainsRune(`\]^[-&~`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	b.WriteByte(']')
	return b.String()
}

func literal(c rune) string {
	if strings.ContainsRune(`\.+*?()|[]{}^$`, c) {
		return `\` + string(c)
	}
	return string(c)
}

// matchers returns an objective's matchers; those on the model's name only
// where the metric has one.
func matchers(o slo.Objective, model bool) ([]*labels.Matcher, error) {
	var out []*labels.Matcher
	for _, g := range globs(o) {
		if g.label == modelName && !model {
			continue
		}
		m, err := g.matcher()
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

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

// over applies a range function to a metric in all dialects. Series that one
// server exposes under several names, as during a deprecation, count once.
func (c *Config) over(function, canonical string, ms ...*labels.Matcher) string {
	var parts []string
	for _, name := range c.names(canonical) {
		parts = append(parts, fmt.Sprintf("%s(%s[%s])", function, selector(name, slices.Concat(ms, c.Matchers)), span(Base)))
	}
	return strings.Join(parts, " or ")
}

func selector(name string, ms []*labels.Matcher) string {
	if len(ms) == 0 {
		return name
	}
	var parts []string
	for _, m := range ms {
		parts = append(parts, m.String())
	}
	return name + "{" + strings.Join(parts, ",") + "}"
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

package slo

import (
	"fmt"
	"path"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// labelPatterns lists the objective's patterns by label, without patterns that match everything.
func (o Objective) labelPatterns() []struct{ label, pattern string } {
	var out []struct{ label, pattern string }
	for _, g := range []struct{ label, pattern string }{
		{"model_name", o.Model}, {"namespace", o.Namespace}, {"cluster", o.Cluster}, {"service", o.Service},
	} {
		if g.pattern != "" && g.pattern != "*" {
			out = append(out, g)
		}
	}
	return out
}

// Serves reports whether the objective can apply to a model, whatever the other labels of its targets are.
func (o Objective) Serves(model string) bool { return matchPattern(o.Model, model) }

// Matchers returns Prometheus' matchers of the objective's targets: a pattern becomes a regular expression, and one
// without * ? [ an equality. None means that the objective matches everything.
func (o Objective) Matchers() ([]*labels.Matcher, error) {
	var out []*labels.Matcher
	for _, g := range o.labelPatterns() {
		if _, err := path.Match(g.pattern, ""); err != nil {
			return nil, fmt.Errorf("matcher %q: %w", g.pattern, err)
		}
		kind, value := labels.MatchEqual, g.pattern
		if strings.ContainsAny(g.pattern, `*?[\`) {
			kind, value = labels.MatchRegexp, Regexp(g.pattern)
		}
		m, err := labels.NewMatcher(kind, g.label, value)
		if err != nil {
			return nil, fmt.Errorf("matcher %q: %w", g.pattern, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// Regexp translates a pattern of slo.yaml to the regular expression of RE2 that
// matches the same texts when it is anchored, as Prometheus anchors it.
func Regexp(pattern string) string {
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
			b.WriteString(translateClass(runes[i+1 : end]))
			i = end
		case '\\':
			i = min(i+1, len(runes)-1)
			b.WriteString(quoteLiteral(runes[i]))
		default:
			b.WriteString(quoteLiteral(c))
		}
	}
	return b.String()
}

// translateClass translates a class in brackets: ranges and a leading ^ are the same in both languages.
func translateClass(in []rune) string {
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

func quoteLiteral(c rune) string {
	if strings.ContainsRune(`\.+*?()|[]{}^$`, c) {
		return `\` + string(c)
	}
	return string(c)
}

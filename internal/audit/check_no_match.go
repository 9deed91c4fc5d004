package audit

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var noMatch = Check{
	ID: "no-match", Severity: page, Title: "matchers that no series can satisfy: two values of one label, a pattern behind =",
	Doc: "`=` takes `5..` as it stands.",
	Bad: `sum(rate(gateway_calls_total{code="5.."}[5m]))`, Good: `sum(rate(gateway_calls_total{code=~"5.."}[5m]))`,
	selector: func(p *pass, v *parser.VectorSelector) {
		for i, m := range v.LabelMatchers {
			if strings.Contains(m.Value, "$") || strings.Contains(m.Value, "[[") {
				continue
			}
			if op := map[labels.MatchType]string{labels.MatchEqual: "=~", labels.MatchNotEqual: "!~"}[m.Type]; op != "" && patterns.MatchString(m.Value) {
				p.report(v.PositionRange(), fmt.Sprintf("%s takes %q as it stands, not as a pattern", m.Type, m.Value), advice("write "+m.Name+op))
				return
			}
			for _, o := range v.LabelMatchers[:i] {
				if o.Name == m.Name && o.Name != labels.MetricName && !strings.Contains(o.Value, "$") &&
					(o.Type == labels.MatchEqual && !m.Matches(o.Value) || m.Type == labels.MatchEqual && !o.Matches(m.Value)) {
					p.report(v.PositionRange(), fmt.Sprintf("no series has both %s and %s: nothing is selected", o, m), advice("take one of them out, or write =~ with both"))
					return
				}
			}
		}
	},
}

// patterns are what only =~ understands.
var patterns = regexp.MustCompile(`\.[*+]|^[^{}\s]*\w\|\w|^[1-5]\.\.$|^[1-5]\[0-9\]`)

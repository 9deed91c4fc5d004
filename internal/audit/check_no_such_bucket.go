package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var noSuchBucket = Check{
	ID: "no-such-bucket", Severity: page, Title: "a bucket selected by an edge that the histogram does not have",
	Doc:  "`le=\"3\"` where the edges are 2.5 and 5, or `le=\"5\"` where it is written `5.0`: nothing is selected.",
	Bad:  `sum(rate(vllm:time_to_first_token_seconds_bucket{le="3"}[5m]))`,
	Good: `sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]))`,
	selector: func(p *pass, v *parser.VectorSelector) {
		family, ok := strings.CutSuffix(nameOf(v), "_bucket")
		edges := p.surface.edgesOf(family)
		for _, m := range v.LabelMatchers {
			if !ok || len(edges) == 0 || m.Name != "le" || m.Type != labels.MatchEqual || m.Value == "+Inf" || strings.Contains(m.Value, "$") ||
				slices.ContainsFunc(edges, func(e edge) bool { return e.text == m.Value }) {
				continue
			}
			want, err := strconv.ParseFloat(m.Value, 64)
			if i := slices.IndexFunc(edges, func(e edge) bool { return e.value == want }); err == nil && i >= 0 {
				p.report(v.PositionRange(), fmt.Sprintf("the edge is written %s, not %s: nothing is selected", edges[i].text, m.Value), advice("write "+edges[i].text))
				continue
			}
			var texts []string
			for _, e := range edges {
				texts = append(texts, e.text)
			}
			p.report(v.PositionRange(), fmt.Sprintf("%s has no bucket that ends at %s: nothing is selected", family, m.Value), advice("choose one of "+strings.Join(texts, ", ")))
		}
	},
}

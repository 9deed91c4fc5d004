package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

var missingLe = Check{
	ID: "missing-le", Severity: page, Title: "histogram_quantile without the le label",
	Doc: "An aggregation that drops `le` leaves no buckets: the result is empty.",
	look: on(func(p *pass, c *parser.Call) {
		if c.Func.Name == "histogram_quantile" && len(c.Args) == 2 && p.losesLe(c.Args[1]) {
			p.report(c.Args[1].PositionRange(),
				"the aggregation drops le, which identifies the buckets: the result is empty",
				"group by le too")
		}
	}),
}

// losesLe reports whether an expression, or the recording rule behind it, aggregates classic buckets without le.
func (p *pass) losesLe(e parser.Expr) bool {
	a, ok := p.unfilter(e).(*parser.AggregateExpr)
	if !ok {
		return false
	}
	classic := slices.ContainsFunc(Selectors(a), func(v *parser.VectorSelector) bool {
		return strings.HasSuffix(NameOf(v), "_bucket")
	})
	keepsAll := a.Op == parser.TOPK || a.Op == parser.BOTTOMK
	return classic && !keepsAll && p.dropsLe(a) || p.losesLe(a.Expr)
}

// dropsLe reports whether an aggregation drops le. It is false if variables stand for some of its labels.
func (p *pass) dropsLe(a *parser.AggregateExpr) bool {
	in := a.Expr.PositionRange()
	return a.Without == slices.Contains(a.Grouping, labels.BucketLabel) && !p.Opaque(a.PosRange.Start, in.Start) &&
		!p.Opaque(in.End, a.PosRange.End)
}

var addedBuckets = Check{
	ID: "added-buckets", Severity: page, Title: "the buckets of a histogram summed over le",
	Doc: "Buckets are cumulative: the sum counts an observation once for every edge above it.",
	look: on(func(p *pass, a *parser.AggregateExpr) {
		e, _ := p.unscale(a.Expr)
		v := argumentOf(e, rates...)
		choosesBuckets := func(m *labels.Matcher) bool { return m.Name == labels.BucketLabel }
		t, _ := p.typeOf(NameOf(v))
		if a.Op == parser.SUM && t == engine.Counter && strings.HasSuffix(NameOf(v), "_bucket") && p.dropsLe(a) &&
			!p.insideCall("histogram_quantile") && !slices.ContainsFunc(v.LabelMatchers, choosesBuckets) {
			p.report(a.PositionRange(),
				"each bucket includes those below it: their sum counts an observation several times",
				"take _count, or one bucket")
		}
	}),
}

var averageOfPercentiles = Check{
	ID: "average-of-percentiles", Severity: ticket, Title: "percentiles averaged or summed",
	Doc: "The result is not a percentile of anything, even if a recording rule computed it.",
	look: func(p *pass, n parser.Node) {
		var operand parser.Expr
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if n.Op == parser.AVG || n.Op == parser.SUM {
				operand = n.Expr
			}
		case *parser.Call:
			if !isCall(n, "avg_over_time", "sum_over_time") {
				return
			}
			switch r := n.Args[0].(type) {
			case *parser.MatrixSelector:
				operand = r.VectorSelector
			case *parser.SubqueryExpr:
				operand = r.Expr
			}
		}
		if operand == nil {
			return
		}
		if _, ok := p.quantileOf(operand); ok {
			p.report(n.PositionRange(), "percentiles are averaged or summed, which does not give a percentile",
				"aggregate the buckets by le, and take the percentile of the result")
		}
	},
}

var bucketEdge = Check{
	ID: "bucket-edge", Severity: ticket,
	Title: "a percentile compared with a number below the first bucket or beyond the last",
	Doc: "Queue, prefill, decode and end-to-end times of vLLM begin at 0.3 s, so P99 reads at least 0.297 s " +
		"(vllm-project/vllm#48175). Page if the alert therefore always fires, or never fires because the buckets end " +
		"earlier.",
	look: on(func(p *pass, b *parser.BinaryExpr) {
		c, ok := p.comparedWith(b)
		q, is := p.quantileOf(c.expr)
		edges := p.surface.EdgesOf(q.family)
		if !ok || !is || q.factor == 0 || c.op == parser.EQLC || c.op == parser.NEQ || len(edges) < 2 ||
			p.guards(b, c) {
			return
		}
		limit, first, last := c.limit/q.factor, edges[0].Value, edges[len(edges)-1].Value
		begins := fmt.Sprintf("the first bucket of %s ends at %s: ", q.family, formatShort(first))
		mean := fmt.Sprintf("compare the mean, rate(%[1]s_sum[5m]) / rate(%[1]s_count[5m]), or go to %[2]s or more",
			q.family, formatShort(first))
		switch {
		case limit >= last && c.isAbove():
			ends := fmt.Sprintf("the buckets of %s end at %s: the percentile never reads more, and this never fires",
				q.family, formatShort(last))
			fix := fmt.Sprintf("compare with a bucket edge between %s and %s", formatShort(first), formatShort(last))
			p.report(b.PositionRange(), ends, fix).Severity = page
		case limit < q.q*first && c.isAbove():
			p.report(b.PositionRange(), begins+"the percentile reads at least "+formatShort(q.q*first)+
				", however fast the server is, and this always fires", mean).Severity = page
		case limit < first:
			p.report(b.PositionRange(), begins+"values below it are indistinguishable (vllm-project/vllm#48175)", mean)
		}
	}),
}

var noSuchBucket = Check{
	ID: "no-such-bucket", Severity: page, Title: "a bucket selected by an edge that the histogram does not have",
	Doc: "`le=\"3\"` if the edges are 2.5 and 5, or `le=\"5\"` if it is written `5.0`: nothing is selected.",
	look: on(func(p *pass, v *parser.VectorSelector) {
		family, ok := strings.CutSuffix(NameOf(v), "_bucket")
		edges := p.surface.EdgesOf(family)
		if !ok || len(edges) == 0 {
			return
		}
		for _, m := range v.LabelMatchers {
			isEdge := func(e Edge) bool { return e.Text == m.Value }
			if m.Name != labels.BucketLabel || m.Type != labels.MatchEqual || m.Value == "+Inf" ||
				strings.Contains(m.Value, "$") || slices.ContainsFunc(edges, isEdge) {
				continue
			}
			fix := "choose one of"
			want, err := strconv.ParseFloat(m.Value, 64)
			for _, e := range edges {
				if fix += " " + e.Text; err == nil && e.Value == want {
					fix = "write " + e.Text
					break
				}
			}
			p.report(v.PositionRange(), fmt.Sprintf("%s has no bucket that ends at %s: nothing is selected", family,
				m.Value), fix)
		}
	}),
}

package checks

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

var missingLe = Check{
	ID: "missing-le", Severity: page, Title: "histogram_quantile without the le label",
	Doc: "An aggregation that drops `le` leaves no buckets: the result is empty.",
	call: func(p *pass, c *parser.Call) {
		if c.Func.Name != "histogram_quantile" || len(c.Args) != 2 {
			return
		}
		if p.losesLe(c.Args[1], 0) {
			p.report(c.Args[1].PositionRange(), "the aggregation drops le, which identifies the buckets: the result is empty", "group by le too")
		}
	},
}

// losesLe reports whether an expression aggregates buckets without their edges, perhaps in a recording rule.
func (p *pass) losesLe(e parser.Expr, depth int) bool {
	switch n := value(e).(type) {
	case *parser.AggregateExpr:
		classic := slices.ContainsFunc(Selectors(n), func(v *parser.VectorSelector) bool { return strings.HasSuffix(NameOf(v), "_bucket") })
		all := n.Op == parser.TOPK || n.Op == parser.BOTTOMK || p.Opaque(n.PosRange.Start, n.Expr.PositionRange().Start) || p.Opaque(n.Expr.PositionRange().End, n.PosRange.End)
		return classic && !all && n.Without == slices.Contains(n.Grouping, labels.BucketLabel) || p.losesLe(n.Expr, depth)
	case *parser.BinaryExpr:
		return p.losesLe(n.LHS, depth) || p.losesLe(n.RHS, depth)
	case *parser.VectorSelector:
		r := p.records[NameOf(n)]
		return r != nil && r != p.Query && r.Tree != nil && depth < 4 && p.losesLe(r.Tree, depth+1)
	}
	return false
}

// takenFrom reports whether the node is an operand of a subtraction, such as one of an earlier value.
func (p *pass) takenFrom() bool {
	for _, n := range p.path {
		if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.SUB && b.VectorMatching != nil {
			return true
		}
	}
	return false
}

var addedBuckets = Check{
	ID: "added-buckets", Severity: page, Title: "the buckets of a histogram summed over le",
	Doc: "Buckets are cumulative: the sum counts an observation once for every edge above it.",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		v, _ := rated(a.Expr)
		c, _ := classOf(NameOf(v))
		if a.Op != parser.SUM || v == nil || c != bucket && !ofAmounts.MatchString(NameOf(v)) || p.insideCall("histogram_quantile") || selectsBy(v, "le") {
			return
		}
		if a.Without == slices.Contains(a.Grouping, labels.BucketLabel) && !p.Opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			p.report(a.PositionRange(), "each bucket holds those below it: added up they count an observation several times", "take _count, or one bucket")
		}
	},
}

// ofAmounts are names that only a histogram's buckets have.
var ofAmounts = regexp.MustCompile(`_(seconds|milliseconds|bytes)_bucket$`)

var averageOfPercentiles = Check{
	ID: "average-of-percentiles", Severity: ticket, Title: "percentiles averaged, added or subtracted",
	Doc: "The result is not a percentile of anything, even if a recording rule computed it; nor is P50 of end-to-end time minus P50 of TTFT the P50 of decoding.",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		if a.Op == parser.AVG || a.Op == parser.SUM {
			p.percentile(a, a.Expr)
		}
	},
	call: func(p *pass, c *parser.Call) {
		if isCall(c, "avg_over_time", "sum_over_time") {
			e := c.Args[0]
			if m, ok := e.(*parser.MatrixSelector); ok {
				e = m.VectorSelector
			}
			if s, ok := e.(*parser.SubqueryExpr); ok {
				e = s.Expr
			}
			p.percentile(c, e)
		}
	},
	binary: func(p *pass, b *parser.BinaryExpr) {
		l, ok := p.quantileOf(value(b.LHS))
		r, both := p.quantileOf(value(b.RHS))
		if (b.Op == parser.ADD || b.Op == parser.SUB) && ok && both && l.family != r.family {
			p.report(b.PositionRange(), "the difference or the sum of two percentiles is not a percentile", "take that of a histogram that measures it")
		}
	},
}

func (p *pass) percentile(n, of parser.Expr) {
	if _, ok := p.quantileOf(value(of)); ok {
		p.report(n.PositionRange(), "percentiles are averaged or summed, which does not give a percentile", "aggregate the buckets by le, and take the percentile of that")
	}
}

var bucketEdge = Check{
	ID: "bucket-edge", Severity: ticket, Title: "a percentile compared with a number below the first bucket or beyond the last",
	Doc: "Queue, prefill, decode and end-to-end times of vLLM begin at 0.3 s, so P99 reads at least 0.297 s (vllm-project/vllm#48175). Page " +
		"if the alert therefore always fires, or never fires because the buckets end earlier.",
	binary: func(p *pass, b *parser.BinaryExpr) {
		c, ok := p.comparedWith(b)
		q, is := p.quantileOf(value(c.expr))
		if !ok || !is || q.family == "" || q.factor == 0 || c.op == parser.EQLC || c.op == parser.NEQ || p.guards(b, c) {
			return
		}
		edges := p.surface.EdgesOf(q.family)
		if len(edges) < 2 {
			return
		}
		limit, first, last := c.limit/q.factor, edges[0].Value, edges[len(edges)-1].Value
		canonical, _ := vllm.Canonical(q.family)
		mean := fmt.Sprintf("compare the mean, rate(%s_sum[5m]) / rate(%s_count[5m]), or go to %s or more", q.family, q.family, short(first))
		switch {
		case limit >= last && c.above():
			p.reportAs(page, b.PositionRange(), fmt.Sprintf("the buckets of %s end at %s: the percentile never reads more, and this never fires", q.family, short(last)),
				fmt.Sprintf("compare with a bucket edge between %s and %s", short(first), short(last)))
		case limit >= 100 && q.factor == 1 && slices.Contains(promptly, canonical):
			p.reportAs(page, b.PositionRange(), fmt.Sprintf("%s is in seconds, and %s s is minutes: milliseconds seem to be meant", q.family, short(limit)), "write "+short(limit/1000))
		case limit < q.q*first && c.above():
			p.reportAs(page, b.PositionRange(), fmt.Sprintf("the first bucket of %s ends at %s: the percentile reads at least %s, however fast the server is, and this always fires",
				q.family, short(first), short(q.q*first)), mean)
		case limit < first:
			p.report(b.PositionRange(), fmt.Sprintf("the first bucket of %s ends at %s: values below it are indistinguishable (vllm-project/vllm#48175)", q.family, short(first)), mean)
		}
	},
}

// promptly are the histograms of which a value of minutes would be absurd.
var promptly = []string{
	"vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds", "vllm:request_time_per_output_token_seconds",
}

var noSuchBucket = Check{
	ID: "no-such-bucket", Severity: page, Title: "a bucket selected by an edge that the histogram does not have",
	Doc: "`le=\"3\"` if the edges are 2.5 and 5, or `le=\"5\"` if it is written `5.0`: nothing is selected.",
	selector: func(p *pass, v *parser.VectorSelector) {
		family, ok := strings.CutSuffix(NameOf(v), "_bucket")
		edges := p.surface.EdgesOf(family)
		for _, m := range v.LabelMatchers {
			if !ok || len(edges) == 0 || m.Name != "le" || m.Type != labels.MatchEqual || m.Value == "+Inf" || strings.Contains(m.Value, "$") ||
				slices.ContainsFunc(edges, func(e Edge) bool { return e.Text == m.Value }) {
				continue
			}
			want, err := strconv.ParseFloat(m.Value, 64)
			if i := slices.IndexFunc(edges, func(e Edge) bool { return e.Value == want }); err == nil && i >= 0 {
				p.report(v.PositionRange(), fmt.Sprintf("the edge is written %s, not %s: nothing is selected", edges[i].Text, m.Value), "write "+edges[i].Text)
				continue
			}
			var texts []string
			for _, e := range edges {
				texts = append(texts, e.Text)
			}
			p.report(v.PositionRange(), fmt.Sprintf("%s has no bucket that ends at %s: nothing is selected", family, m.Value), "choose one of "+strings.Join(texts, ", "))
		}
	},
}

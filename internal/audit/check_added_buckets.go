package audit

import (
	"regexp"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

var addedBuckets = Check{
	ID: "added-buckets", Severity: page, Title: "the buckets of a histogram added up over le",
	Doc:  "Each bucket holds those below it: the sum counts an observation once for every edge above it.",
	Bad:  "sum(rate(vllm:e2e_request_latency_seconds_bucket[5m]))",
	Good: "sum(rate(vllm:e2e_request_latency_seconds_count[5m]))",
	aggregate: func(p *pass, a *parser.AggregateExpr) {
		v := rated(a.Expr)
		c, _ := classOf(nameOf(v))
		if a.Op != parser.SUM || v == nil || c != bucket && !ofAmounts.MatchString(nameOf(v)) || p.under("histogram_quantile") || selectsBy(v, "le") {
			return
		}
		if l := p.of(a).labels; l.known && (l.exact || c == bucket) && !slices.Contains(l.names, "le") {
			p.report(a.PositionRange(), "each bucket holds those below it: added up they count an observation several times", advice("take _count, or one bucket"))
		}
	},
}

// ofAmounts are names that only a histogram's buckets have.
var ofAmounts = regexp.MustCompile(`_(seconds|milliseconds|bytes)_bucket$`)

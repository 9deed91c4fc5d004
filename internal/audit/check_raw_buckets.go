package audit

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var rawBuckets = Check{
	ID: "raw-buckets", Severity: ticket, Title: "histogram_quantile over buckets since the server's start",
	Doc:  "Without `rate` it is a percentile over the server's whole life, which hardly moves.",
	Bad:  "histogram_quantile(0.95, sum by (le) (vllm:time_to_first_token_seconds_bucket))",
	Good: "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
	selector: func(p *pass, v *parser.VectorSelector) {
		name := nameOf(v)
		_, recorded := p.records[name]
		if !recorded && strings.HasSuffix(name, "_bucket") && (ours(name) || !strings.Contains(name, ":")) && p.under("histogram_quantile") &&
			!p.under("rate", "irate", "increase", "delta", "idelta", "last_over_time") && v.OriginalOffset == 0 && !p.takenFrom() {
			p.report(v.PositionRange(), name+" counts since the server's start: a percentile over its whole life, which hardly moves", advice("take the rate of the buckets"))
		}
	},
}

// takenFrom reports whether the node is on one side of a subtraction, as of what was there before.
func (p *pass) takenFrom() bool {
	for _, n := range p.path {
		if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.SUB && b.VectorMatching != nil {
			return true
		}
	}
	return false
}

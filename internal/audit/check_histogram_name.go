package audit

import "github.com/prometheus/prometheus/promql/parser"

var histogramName = Check{
	ID: "histogram-name", Severity: page, Title: "a histogram is asked for without _bucket, _sum or _count, or a percentile of what has no buckets",
	Doc: "`vllm:iteration_tokens_total` is a histogram despite its ending.",
	Bad: "histogram_quantile(0.9, rate(vllm:e2e_request_latency_seconds[5m]))", Good: "histogram_quantile(0.9, rate(vllm:e2e_request_latency_seconds_bucket[5m]))",
	selector: func(p *pass, v *parser.VectorSelector) {
		name := nameOf(v)
		c, f := classOf(name)
		_, recorded := p.records[name]
		switch {
		case recorded || f.Kind == "router":
		case p.under("histogram_quantile") && (c == sum || c == count || c == counter || c == gauge) && inside(p.path, v):
			p.report(v.PositionRange(), name+" has no buckets, of which histogram_quantile computes: the result is empty",
				advice("take the _bucket series of a histogram, or quantile_over_time of a gauge"))
		case c != bareHistogram || p.surface.Exposes(name),
			p.under("histogram_avg", "histogram_count", "histogram_sum", "histogram_fraction") && p.surface.Live && !p.surface.Whole: // native ones, where a store makes them
		default:
			p.report(v.PositionRange(), name+" is a histogram: only "+name+"_bucket, _sum and _count exist",
				advice("divide the rate of "+name+"_sum by that of "+name+"_count for a mean, or take histogram_quantile of "+name+"_bucket"))
		}
	},
}

// inside reports whether nothing is calculated between a histogram_quantile and the selector.
func inside(path []parser.Node, v *parser.VectorSelector) bool {
	for i := len(path) - 1; i >= 0; i-- {
		if _, ok := path[i].(*parser.BinaryExpr); ok {
			return false
		}
		if c, ok := path[i].(*parser.Call); ok && c.Func.Name == "histogram_quantile" {
			return c.Args[1].PositionRange().Start <= v.PosRange.Start
		}
	}
	return false
}

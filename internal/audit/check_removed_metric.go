package audit

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/dialect"
)

var removedMetric = Check{
	ID: "removed-metric", Severity: page, Title: "the metric was renamed or removed in the release that is served",
	Doc: "Such as `gpu_cache_usage_perc`, which is `kv_cache_usage_perc` from 0.9.2 on. V0's ratios and throughputs have no successor: the finding says " +
		"what to divide. A server older than the end of a name is told why *it* lacks it.",
	Bad: "max(vllm:gpu_cache_usage_perc)", Good: "max(vllm:kv_cache_usage_perc)",
	selector: func(p *pass, v *parser.VectorSelector) {
		name := nameOf(v)
		n, ok := dialect.Known(name)
		if c, _ := classOf(name); !ok || !p.surface.gone(n) || c == bareHistogram || c == created || !p.missing(v) {
			return
		}
		why := name + " ended with vLLM " + n.Last
		if n.Hidden != "" {
			why = fmt.Sprintf("%s is hidden since vLLM %s and ended with %s", name, n.Hidden, n.Last)
		}
		if to := p.renamed(name); to != "" {
			p.report(v.PositionRange(), why+"; "+to+" carries the same values", p.rename(v, to))
			return
		}
		p.report(v.PositionRange(), why, advice(otherwise(n.Instead, "remove the query: nothing measures it any more")))
	},
}

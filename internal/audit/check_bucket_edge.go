package audit

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

var bucketEdge = Check{
	ID: "bucket-edge", Severity: ticket, Title: "a percentile compared with a number below the first bucket or beyond the last",
	Doc: "Queue, prefill, decode and end-to-end times of vLLM begin at 0.3 s, so P99 reads 0.297 s whatever the truth (vllm-project/vllm#48175). " +
		"Page where the alert always fires by that, or never fires because the buckets end earlier.",
	Bad:   "alert: histogram_quantile(0.95, sum by (le) (rate(vllm:request_queue_time_seconds_bucket[5m]))) > 0.1",
	Good:  "alert: histogram_quantile(0.95, sum by (le) (rate(vllm:request_queue_time_seconds_bucket[5m]))) > 1",
	roles: []role{alertRole, recordRole, panelRole, scalerRole},
	binary: func(p *pass, b *parser.BinaryExpr) {
		c, ok := p.comparedWith(b)
		q, is := p.quantileOf(value(c.expr))
		if !ok || !is || q.family == "" || q.factor == 0 || c.op == parser.EQLC || c.op == parser.NEQ || p.guards(b, c) {
			return
		}
		edges := p.surface.edgesOf(q.family)
		if len(edges) < 2 {
			return
		}
		limit, first, last := c.limit/q.factor, edges[0].value, edges[len(edges)-1].value
		canonical, _ := vllm.Canonical(q.family)
		mean := advice(fmt.Sprintf("compare the mean, rate(%s_sum[5m]) / rate(%s_count[5m]), or go to %s or more", q.family, q.family, short(first)))
		switch {
		case limit >= last && c.above():
			p.reportAs(page, b.PositionRange(), fmt.Sprintf("the buckets of %s end at %s: the percentile never reads more, and this never fires", q.family, short(last)),
				advice(fmt.Sprintf("compare with a bucket edge between %s and %s", short(first), short(last))))
		case limit >= 100 && q.factor == 1 && slices.Contains(promptly, canonical):
			p.reportAs(page, b.PositionRange(), fmt.Sprintf("%s is in seconds, and %s s is minutes: milliseconds seem to be meant", q.family, short(limit)), advice("write "+short(limit/1000)))
		case limit < q.q*first && c.above():
			p.reportAs(page, b.PositionRange(), fmt.Sprintf("the first bucket of %s ends at %s: the percentile reads at least %s, however fast the server is, and this always fires",
				q.family, short(first), short(q.q*first)), mean)
		case limit < first:
			p.report(b.PositionRange(), fmt.Sprintf("the first bucket of %s ends at %s: nothing below it can be told apart (vllm-project/vllm#48175)", q.family, short(first)), mean)
		}
	},
}

// promptly are the histograms of which a value of minutes would be absurd.
var promptly = []string{
	"vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds", "vllm:request_time_per_output_token_seconds",
}

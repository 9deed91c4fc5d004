package audit

import (
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/engine"
)

var sumWithoutCount = Check{
	ID: "sum-without-count", Severity: ticket, Title: "the rate of a histogram's _sum shown as if it were a mean",
	Doc:   "As vLLM's own dashboard shows queue, prefill and decode time: seconds of all requests together, per second. It grows with the traffic and is nobody's latency.",
	Bad:   shownIn("s", "rate(vllm:request_queue_time_seconds_sum[5m])"),
	Good:  shownIn("s", "rate(vllm:request_queue_time_seconds_sum[5m]) / rate(vllm:request_queue_time_seconds_count[5m])"),
	roles: []role{panelRole},
	query: func(p *pass) {
		v := rated(p.tree)
		c, f := classOf(nameOf(v))
		is, limits := p.of(p.tree).unit, strings.Contains(f.Name, "_max_") // what may be asked for is no work done
		shown := panelUnits[p.panel.unit].of == span || slices.Contains([]string{"", "none", "short"}, p.panel.unit)
		if c != sum || f.Type != engine.Histogram || is.of != busy && is.of != span && !limits || !shown {
			return
		}
		p.report(p.tree.PositionRange(), "the sum's rate is the total of all requests together per second: it grows with the traffic and is nobody's latency",
			advice("divide by the rate of "+f.Name+"_count for the mean"))
	},
}

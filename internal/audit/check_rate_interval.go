package audit

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/render"
)

var rateInterval = Check{
	ID: "rate-interval", Severity: info, Title: "a rate over a range that may hold fewer than two scrapes",
	Doc: "`$__interval` is as short as a pixel: zoomed in, the panel is empty. Page for a range below two scrapes, where the servers tell how often they are scraped.",
	Bad: "rate(vllm:prompt_tokens_total[$__interval])", Good: "rate(vllm:prompt_tokens_total[$__rate_interval])",
	matrix: func(p *pass, m *parser.MatrixSelector) {
		at := m.PositionRange()
		if !p.under("rate", "irate", "increase", "delta", "idelta", "deriv") {
			return
		}
		for _, x := range p.mentions {
			if text := p.node.value[x.start:x.end]; x.start >= int(at.Start) && x.end <= int(at.End) && (text == "$__interval" || text == "${__interval}") {
				p.report(at, text+" is as short as a pixel: zoomed in, it holds fewer than two scrapes and the panel is empty", advice("write $__rate_interval"))
				return
			}
		}
		c, _ := classOf(nameOf(m.VectorSelector.(*parser.VectorSelector)))
		if every := p.surface.Interval; every > 0 && p.surface.Whole && m.Range > 0 && m.Range < 2*every && c != unknownClass && !p.opaque(at.Start, at.End) {
			p.reportAs(page, at, fmt.Sprintf("the servers are scraped every %s: %s never holds two scrapes, and the rate is always empty", render.Span(every), render.Span(m.Range)),
				advice("take at least "+render.Span(4*every)))
		}
	},
}

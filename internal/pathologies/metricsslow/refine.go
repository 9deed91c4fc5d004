package metricsslow

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refine(p *catalog.Pass) {
	p.Summary = "/metrics comes late, or not before the scrape's timeout"
	if d, ok := p.Measured(indicator.ScrapeDuration); ok && d > slow.Default {
		p.Summary = fmt.Sprintf("/metrics takes %s; 10 to 40 ms are usual", indicator.FormatNumber(d, indicator.Seconds))
	}
	if p.Failure != "" {
		p.Reason("The last scrape failed: %s.", p.Failure)
	}
	p.Reason("The server is judged by the pages that came. Pages that come between those that fail show that it is there.")
	p.Observe("Meanwhile", indicator.TTFTP95, indicator.FrontendCPU)
	p.Fix(catalog.Fix{
		Summary:  "Ask for the page beside the server and through whatever stands before it (sidecar, mesh, proxy), and give the processor time to the one that takes it",
		Command:  "curl -sS -o /dev/null -w '%{time_total}s\\n' http://TARGET/metrics",
		Tradeoff: "none",
		Verify:   "a page takes tens of milliseconds",
	})
	p.Fix(catalog.Fix{
		Summary:  "Let a scrape wait longer: a timeout of 10 s and an interval of 15 s",
		Tradeoff: "fewer pages, each of which is complete",
		Verify:   "no scrape fails",
	})
}

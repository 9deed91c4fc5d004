package metricsslow

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "/metrics answers late, or not within the scrape timeout"
	if d, ok := p.Measured(indicator.ScrapeDuration); ok && d > slow.Default {
		p.Summary = fmt.Sprintf("/metrics takes %s; 10 to 40 ms are usual",
			indicator.FormatNumber(d, indicator.Seconds))
	}
	if p.Failure != "" {
		p.Reason("The last scrape failed: %s.", p.Failure)
	}
	p.Reason("The verdict uses the scrapes that succeeded. Successful scrapes between failed ones " +
		"show that the server is up.")
	p.Observe("Meanwhile", indicator.TTFTP95, indicator.FrontendCPU)
	p.Fix(catalog.Fix{
		Summary: "Fetch the page on the server itself and through whatever is in front of it (sidecar, mesh, " +
			"proxy), and give CPU time to the slow one",
		Command:  "curl -sS -o /dev/null -w '%{time_total}s\\n' http://TARGET/metrics",
		Tradeoff: "none",
		Verify:   "/metrics takes tens of milliseconds",
	})
	p.Fix(catalog.Fix{
		Summary:  "Scrape with a longer timeout: 10 s, every 15 s",
		Tradeoff: "fewer samples, each of them complete",
		Verify:   "no scrape fails",
	})
}

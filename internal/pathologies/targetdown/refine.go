package targetdown

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

func refine(p *catalog.Pass) {
	p.Summary = "The last scrapes of /metrics failed: the server is down, or unreachable from here"
	if n, ok := p.Measured(indicator.FailedScrapes); ok {
		p.Summary = fmt.Sprintf("The last scrapes of /metrics failed, %s of them lately: the server is down, or unreachable from here", catalog.Whole(n))
	}
	p.Reason("A failed scrape is not yet a dead server: with several API servers /metrics may answer 500 while inference is fine (a shared metrics directory on network storage), and a starved API server may answer after the scrape timed out.")
	if d, ok := p.Measured(indicator.ScrapeDuration); ok && d > 1 {
		p.Reason("Scrapes took %s, where 10 to 40 ms are normal: try a longer timeout.", indicator.FormatNumber(d, indicator.Seconds))
	}
	if n, ok := p.Measured(indicator.Replicas); ok && n > 1 {
		p.Reason("The model has %s replicas: the others carry this one's load.", fmt.Sprint(catalog.Whole(n)))
	}
	p.Fix(catalog.Fix{
		Summary:  "Ask /health and send one request, from the host itself and from here: both fail means that the process is gone, only from here means the network",
		Tradeoff: "none",
		Verify:   "up is 1 again",
	})
	p.Fix(catalog.Fix{
		Summary:  "If the process is gone: read its exit code and last log lines (out of memory, XID error, a failed start), then start it again; loading takes minutes",
		Tradeoff: "the prefix cache begins empty",
		Verify:   "up is 1 and serving_age grows",
	})
}

package targetdown

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "/metrics does not answer: the server is down or unreachable"
	if n, ok := p.Measured(indicator.FailedScrapes); ok {
		p.Summary = fmt.Sprintf("/metrics does not answer, %s recent scrapes failed: the server is down or unreachable",
			catalog.Whole(n))
	}
	if p.Failure != "" {
		p.Summary = "The server does not answer: " + p.Failure
	}
	p.Reason("A failed scrape does not prove a dead server: with several API servers /metrics may answer 500 while " +
		"inference works (a metrics directory on network storage), and an API server without CPU time may " +
		"answer after the timeout.")
	if d, ok := p.Measured(indicator.ScrapeDuration); ok && d > 1 {
		p.Reason("Scrapes took %s; 10 to 40 ms are normal. Try a longer timeout.",
			indicator.FormatNumber(d, indicator.Seconds))
	}
	if n, ok := p.Measured(indicator.Replicas); ok && n > 1 {
		p.Reason("The model has %s replicas; the others carry this one's load.", catalog.Whole(n))
	}
	p.Reroute("Take this replica out of the load balancer, if that has not noticed", "no client gets a connection "+
		"error")
	p.Fix(catalog.Fix{
		Summary: "Request /health on the host itself and from here: if both fail, the process is gone; if only the " +
			"request from here fails, it is the network",
		Command:  "curl -sS -m 5 -i http://TARGET/health",
		Tradeoff: "none",
		Verify:   "/metrics answers again",
	})
	p.Fix(catalog.Fix{
		Summary: "If the process is gone, read its exit code and the end of its log (out of memory, XID error, " +
			"failed start), then start it again; loading takes minutes",
		Tradeoff: "the prefix cache starts empty",
		Verify:   "/metrics answers, and engine uptime grows",
	})
}

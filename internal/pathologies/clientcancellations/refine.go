package clientcancellations

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "the share of abandoned requests returns to normal"

func refineFinding(p *catalog.Pass) {
	p.Summary = "Clients disconnect before their answers are complete"
	if share, ok := p.Measured(indicator.AbandonedShare); ok {
		p.Summary += ": " + indicator.FormatNumber(share, indicator.Ratio) + " of the requests"
		if n, ok := p.Measured(indicator.Abandoned); ok {
			p.Summary += fmt.Sprintf(", about %s in the window", catalog.Whole(n))
		}
	}
	p.Reason("vLLM does not count aborted requests (finished_reason=\"abort\" stays 0), so this is the number of " +
		"HTTP 2xx responses less that of completed requests. Requests for several choices (n above 1) count more " +
		"than once and hide some.")
	p.Reason("E2E, queue and decode times are counted at completion, so they miss abandoned requests and " +
		"look better than users see.")
	p.Observe("What the clients saw", indicator.TTFTP95, indicator.QueueTimeMean, indicator.E2EP95)

	ttft, ok1 := p.Grown(indicator.TTFTP50)
	e2e, ok2 := p.Grown(indicator.E2EMean)
	_, waits := p.Measured(indicator.WaitingFloor)
	switch {
	case waits || ok1 && ttft > 1.5:
		p.Reason("TTFT is high or requests queue, so clients most likely give up while they wait.")
		p.ShedQueue("TTFT P95 returns to normal; " + verify)
		p.Fix(catalog.Fix{
			Summary:  "Shorten the wait: add a replica, or lower the load",
			Replicas: 2,
			Tradeoff: "more GPUs",
			Verify:   "TTFT P95 returns to normal; " + verify,
		})
	case ok2 && e2e > 1.5:
		p.Reason("Answers take %s as long as normally, so a timeout on the way most likely ends them.",
			indicator.FormatNumber(e2e, indicator.Times))
	case ok1 && ok2:
		p.Reason("Latency is near normal, so the server is hardly the reason: look for a new client, a shorter " +
			"timeout, or users who stop answers.")
	}
	arithmetic := []string(nil)
	if v := p.Now(indicator.E2EP95); p.Known(indicator.E2EP95) {
		arithmetic = []string{
			"finished requests take up to " + indicator.Format(v, indicator.Seconds) + " (E2E P95): no timeout on " +
				"the way may be shorter",
		}
	}
	p.Fix(catalog.Fix{
		Summary: "Compare the timeouts of clients, gateway and ingress with the time that answers " +
			"take, and let clients stream",
		Arithmetic: arithmetic,
		Tradeoff:   "a longer timeout keeps resources for clients that are gone",
		Verify:     verify,
	})
}

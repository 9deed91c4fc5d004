package clientcancellations

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

const verify = "abandoned_share returns to normal"

func refine(p *catalog.Pass) {
	p.Summary = "Clients hang up before their answers are complete"
	if share, ok := p.Measured(indicator.AbandonedShare); ok {
		p.Summary += ": " + indicator.FormatNumber(share, indicator.Ratio) + " of the requests"
		if n, ok := p.Measured(indicator.Abandoned); ok {
			p.Summary += fmt.Sprintf(", about %s in the window", catalog.Whole(n))
		}
	}
	p.Reason("vLLM counts an aborted request nowhere (finished_reason=\"abort\" stays 0), so this is HTTP requests that ended well less completed requests. Requests for several choices (n above 1) may count more than one completion, which hides some.")
	p.Reason("End-to-end, queue and decode times are written at completion and miss the requests that took too long: what those show is too good.")
	p.Observe("What the clients saw", indicator.TTFTP95, indicator.QueueTimeMean, indicator.E2EP95)

	ttft, ok1 := p.Grown(indicator.TTFTP50)
	e2e, ok2 := p.Grown(indicator.E2EMean)
	_, waits := p.Measured(indicator.WaitingFloor)
	switch {
	case waits || ok1 && ttft > 1.5:
		p.Reason("First tokens come late or requests queue, so clients most likely give up while they wait.")
		p.Fix(catalog.Fix{
			Summary:  "Remove the wait: lower the load or add a replica, and refuse what cannot be served in time (--max-num-queued-reqs, 0.29 and later)",
			Tradeoff: "some requests are refused at once instead of late",
			Verify:   "ttft_p95 returns to normal; " + verify,
		})
	case ok2 && e2e > 1.5:
		p.Reason("Answers take %s as long as normally, so a timeout in between most likely ends them.", indicator.FormatNumber(e2e, indicator.Times))
	case ok1 && ok2:
		p.Reason("Latency is near normal, so the server is hardly why they leave: a new client, a timeout that was shortened, users who stop answers.")
	}
	arithmetic := []string(nil)
	if v := p.Now(indicator.E2EP95); p.Known(indicator.E2EP95) {
		arithmetic = []string{"finished requests take up to " + indicator.Format(v, indicator.Seconds) + " (" + indicator.E2EP95.Name + "): no timeout on the way may be shorter"}
	}
	p.Fix(catalog.Fix{
		Summary:    "Compare the timeouts of clients, gateway and ingress with what answers take, and let clients stream",
		Arithmetic: arithmetic,
		Tradeoff:   "a longer timeout holds resources for clients that are gone",
		Verify:     verify,
	})
}

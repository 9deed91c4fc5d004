package enginerestart

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

func refine(p *catalog.Pass) {
	age, known := p.Measured(indicator.ServingAge)
	if known {
		p.Summary = fmt.Sprintf("The server began to serve %s ago", indicator.FormatNumber(age, indicator.Seconds))
	}
	if n, ok := p.Measured(indicator.Restarts); ok {
		switch {
		case n >= 1.5:
			p.Summary = fmt.Sprintf("The server restarted %s times within minutes", catalog.Whole(n))
		case known:
			p.Summary = fmt.Sprintf("The server restarted: it has served again for %s", indicator.FormatNumber(age, indicator.Seconds))
		default:
			p.Summary = "The server restarted a moment ago"
		}
	} else if wait, ok := p.Measured(indicator.StartedWhileWatched); ok {
		p.Reason("It was watched for %s before it began to serve; whether it had served before that cannot be told.", indicator.FormatNumber(wait, indicator.Seconds))
	}
	if up, ok := p.Measured(indicator.Uptime); ok && known && up > age {
		p.Reason("From the start of the process to the first request it took %s (loading, compilation, CUDA graphs): %s − %s.",
			indicator.FormatNumber(up-age, indicator.Seconds), indicator.FormatNumber(up, indicator.Seconds), indicator.FormatNumber(age, indicator.Seconds))
	}
	p.Reason("Requests in flight were lost, and the prefix cache is empty: first tokens come late for some minutes, and that is no fault of its own. What is still so two minutes after the start has another cause, and is then named.")
	p.Observe("Since then", indicator.TTFTMean, indicator.PrefixHitRatio)
	p.Fix(catalog.Fix{
		Summary:  "Find out why it ended: exit code and last log lines of the previous container (kubectl logs --previous), OOMKilled, XID errors in dmesg, a rollout, a liveness probe that gave up",
		Tradeoff: "none",
		Verify:   "restarts stays at 0",
	})
	p.Fix(catalog.Fix{
		Summary:  "Send traffic only after a warm-up request with the common prefixes (readiness probe)",
		Tradeoff: "a start takes longer",
		Verify:   "ttft_p95 right after the next start is near normal",
	})
}

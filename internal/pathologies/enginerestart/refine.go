package enginerestart

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	age, known := p.Measured(indicator.ServingAge)
	if known {
		p.Summary = fmt.Sprintf("The server started %s ago", indicator.FormatNumber(age, indicator.Seconds))
	}
	if n, ok := p.Measured(indicator.Restarts); ok {
		switch {
		case n >= 1.5:
			p.Summary = fmt.Sprintf("The server restarted %s times within minutes", catalog.Whole(n))
		case known:
			p.Summary = fmt.Sprintf("The server restarted %s ago", indicator.FormatNumber(age, indicator.Seconds))
		default:
			p.Summary = "The server restarted within the last two minutes"
		}
	} else if wait, ok := p.Measured(indicator.StartedWhileWatched); ok {
		p.Reason("It was watched for %s before that. Whether it served earlier is unknown.",
			indicator.FormatNumber(wait, indicator.Seconds))
	}
	if up, ok := p.Measured(indicator.Uptime); ok && known && up > age {
		p.Reason("The start took %s (loading, compilation, CUDA graphs): process uptime %s − engine uptime %s.",
			indicator.FormatNumber(up-age, indicator.Seconds), indicator.FormatNumber(up, indicator.Seconds),
			indicator.FormatNumber(age, indicator.Seconds))
	}
	p.Reason("Requests in flight were lost, and the prefix cache is empty, so TTFT is high for some minutes. What is " +
		"still wrong two minutes after the start has another cause, which is then reported.")
	p.Observe("Since then", indicator.TTFTMean, indicator.PrefixHitRatio)
	p.Fix(catalog.Fix{
		Summary: "Find out why it ended: exit code and log of the previous container, OOMKilled, XID errors in " +
			"dmesg, a rollout, a failing liveness probe",
		Command:  "kubectl logs --previous POD | tail -n 50",
		Tradeoff: "none",
		Verify:   "no further restart",
	})
	p.Fix(catalog.Fix{
		Summary:  "Send traffic only after a warm-up request with the common prefixes (readiness probe)",
		Tradeoff: "a start takes longer",
		Verify:   "TTFT P95 right after the next start is near normal",
	})
}

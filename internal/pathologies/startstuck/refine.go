package startstuck

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "The server restarts repeatedly and does not stay up"
	if n, ok := p.Measured(indicator.Starts); ok && n > loops.Default {
		p.Summary = fmt.Sprintf("The server started %s times within 15 minutes and does not stay up", catalog.Whole(n))
	} else if d, ok := p.Measured(indicator.Starting); ok {
		p.Summary = fmt.Sprintf("The server was discovered %s ago and has never answered",
			indicator.FormatNumber(d, indicator.Seconds))
	}
	if d, ok := p.Measured(indicator.PoolStart); ok && d > 0 {
		p.Reason("The longest start of a server of its job took %s.", indicator.FormatNumber(d, indicator.Seconds))
	}
	if n, ok := p.Measured(indicator.JobAnswers); ok {
		p.Reason("%s other targets of its job answer.", catalog.Whole(n))
	}
	p.Fix(catalog.Fix{
		Summary:  "Pause the rollout, so that no further replica is replaced",
		Command:  "kubectl rollout pause deployment/NAME",
		Tradeoff: "the change is postponed",
		Verify:   "as many replicas answer as now",
		Stops:    true,
		Others:   true,
	})
	p.Fix(catalog.Fix{
		Summary: "Read the end of its log and its last exit reason (out of memory, no GPU, a model that cannot " +
			"be read, a failing probe)",
		Command:  "kubectl describe pod POD; kubectl logs POD --tail 50; kubectl logs --previous POD --tail 50",
		Tradeoff: "none",
		Verify:   "/metrics answers",
	})
	p.Fix(catalog.Fix{
		Summary:  "Roll back while the other replicas still serve",
		Command:  "kubectl rollout undo deployment/NAME",
		Tradeoff: "the change is postponed",
		Verify:   "as many replicas answer as before",
	})
}

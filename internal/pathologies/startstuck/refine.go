package startstuck

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refine(p *catalog.Pass) {
	p.Summary = "It starts again and again, and does not stay"
	if n, ok := p.Measured(indicator.Starts); ok && n > loops.Default {
		p.Summary = fmt.Sprintf("It started %s times within a quarter of an hour, and does not stay", catalog.Whole(n))
	} else if d, ok := p.Measured(indicator.Starting); ok {
		p.Summary = fmt.Sprintf("It was found %s ago and has never answered", indicator.FormatNumber(d, indicator.Seconds))
	}
	if d, ok := p.Measured(indicator.PoolStart); ok && d > 0 {
		p.Reason("The longest start of its job's servers took %s.", indicator.FormatNumber(d, indicator.Seconds))
	}
	if n, ok := p.Measured(indicator.JobAnswers); ok {
		p.Reason("%s targets of its job answer.", catalog.Whole(n))
	}
	p.Fix(catalog.Fix{
		Summary:  "Read the end of its log and why it was last ended (out of memory, no GPU, a model that cannot be read, a failing probe)",
		Command:  "kubectl describe pod POD; kubectl logs POD --tail 50; kubectl logs --previous POD --tail 50",
		Tradeoff: "none",
		Verify:   "/metrics answers",
	})
	p.Fix(catalog.Fix{
		Summary:  "Stop the rollout and go back to what served, while the others still do",
		Command:  "kubectl rollout undo deployment/NAME",
		Tradeoff: "the change waits",
		Verify:   "as many replicas answer as before",
	})
}

package saturation

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// refineLogged refines the finding for an engine's log, which has the length of the queue, but neither the arrivals nor
// how long they wait.
func refineLogged(p *catalog.Pass) {
	waiting, running := p.Value(indicator.Waiting), p.Value(indicator.Running)
	p.Summary = fmt.Sprintf("%s behind a batch of %s, and the queue never clears", catalog.Waiting(waiting),
		catalog.Whole(running))
	p.Reason("In order of arrival a request waits for %s as long as an answer takes (%s). The log tells neither how "+
		"long that is nor how many requests arrive: it has no line for each (--disable-uvicorn-access-log).",
		p.Text(indicator.LoggedQueue), indicator.LoggedQueue.Title)
	switch kv, known := p.Measured(indicator.KVUsage); {
	case known && kv > 0.9:
		p.Reason("The KV cache is full (%s): requests wait for its blocks.", p.Text(indicator.KVUsage))
	case p.Value(indicator.RunningPinned) > 0.9:
		p.Reason("The batch stays at its highest, %s, with the KV cache at %s: requests wait for a place in the batch.",
			catalog.Whole(p.Value(indicator.RunningPeak)), p.Text(indicator.KVUsage))
	}
	p.Observe("What the engine does meanwhile", indicator.LoggedPrompts, indicator.LoggedOutput)
	limit := math.Max(1, math.Floor(running*halfBatch.Default))
	p.Shed(running+limit, verify, fmt.Sprintf("%s run (%s), and floor(%s × %v) = %s wait for half as long as an "+
		"answer takes", catalog.Whole(running), indicator.Running.Title, catalog.Digits(running), halfBatch.Default,
		catalog.Whole(limit)))
	if running < 1 {
		return
	}
	replicas := math.Ceil((running + waiting) / running / catalog.PlannedLoad)
	p.AddReplicas(replicas, catalog.Fix{
		Arithmetic: []string{fmt.Sprintf("replicas = ceil((%s running + %s waiting) / %s / %v) = %s per present "+
			"replica: at least those that wait are too many",
			catalog.Digits(running), catalog.Digits(waiting), catalog.Digits(running), catalog.PlannedLoad,
			catalog.Whole(replicas))},
		Tradeoff: "more GPUs; a new replica takes minutes to load the model and starts with a cold prefix cache",
		Verify:   verify,
	})
}

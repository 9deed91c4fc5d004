package severedegradation

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	p.Summary = "The engine is slower than normal, and requests queue"
	if p.Known(indicator.ITLP50) {
		p.Summary = "The engine is slower than normal: ITL P50 is " + p.Text(indicator.ITLP50)
	}
	if w, ok := p.Measured(indicator.Waiting); ok {
		p.Summary += ", and " + catalog.Waiting(w)
	}
	shedLoad(p)
	p.SlowSteps()
	p.SlowStepFixes()
}

// shedLoad sizes the load that the slowed engine can carry.
func shedLoad(p *catalog.Pass) {
	const verify = "the queue empties, and TTFT P95 falls to its objective"
	times, ok1 := p.SlowerThanBatch()
	arrivals, served, lines, ok2 := p.Demand()
	if ok1 && times > 1 {
		p.Reason("About %s of the capacity is lost: 1 − 1 / %s, because a step takes %s times as "+
			"long as its batch explains.",
			indicator.FormatNumber(1-1/times, indicator.Ratio), catalog.Digits(times), catalog.Digits(times))
	}
	if _, leaving := p.Leaving(); leaving {
		p.StopRetries()
		return
	}
	if !ok2 {
		p.Reroute(catalog.Drain, verify)
		return
	}
	keep := served * catalog.PlannedLoad
	lines = append(lines, fmt.Sprintf("admit %s served/s × %v = %s/s, so that the queue drains", catalog.Digits(served),
		catalog.PlannedLoad, catalog.Digits(keep)),
		fmt.Sprintf("shed 1 − %s / %s = %s of what arrives", catalog.Digits(keep), catalog.Digits(arrivals),
			indicator.FormatNumber(math.Max(0, 1-keep/arrivals), indicator.Ratio)))
	if w, ok := p.Measured(indicator.Waiting); ok {
		lines = append(lines, fmt.Sprintf("the queue then drains in %s / (%s − %s) = %s", catalog.Digits(w),
			catalog.Digits(served), catalog.Digits(keep), indicator.FormatNumber(w/(served-keep), indicator.Seconds)))
	}
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("Admit at most %s req/s to this replica at the gateway, and reject the "+
			"rest or send it elsewhere", catalog.Digits(keep)),
		Stops:      true,
		Arithmetic: lines,
		Tradeoff:   "until the cause is found, requests are refused or served elsewhere",
		Verify:     verify,
	})
}

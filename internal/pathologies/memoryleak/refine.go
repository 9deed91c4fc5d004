package memoryleak

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

const day = 86400.0

func refine(p *catalog.Pass) {
	what, size, growth := "the API server's memory", indicator.ResidentMemory, indicator.MemoryGrowth
	if a, ok := p.Measured(indicator.ContainerMemoryGrowth); ok {
		if b, known := p.Measured(growth); !known || a > 2*b {
			what, size, growth = "the container's memory", indicator.ContainerMemory, indicator.ContainerMemoryGrowth
		}
	}
	rate, ok := p.Measured(growth)
	if !ok {
		return
	}
	p.Summary = fmt.Sprintf("Memory leaks: %s grows by %s a day", what, indicator.FormatNumber(rate*day, indicator.Bytes))
	lines := []string{fmt.Sprintf("%s (%s) × 86400 s = %s a day", indicator.FormatNumber(rate, indicator.BytesPerSecond), growth.Name, indicator.FormatNumber(rate*day, indicator.Bytes))}
	if now, ok := p.Measured(size); ok {
		p.Summary += fmt.Sprintf(" and doubles from %s in %s", indicator.FormatNumber(now, indicator.Bytes), indicator.FormatNumber(now/rate, indicator.Seconds))
		lines = append(lines, fmt.Sprintf("%s (%s) / %s = %s until it has doubled", indicator.FormatNumber(now, indicator.Bytes), size.Name, indicator.FormatNumber(rate, indicator.BytesPerSecond), indicator.FormatNumber(now/rate, indicator.Seconds)))
	}
	if done, ok := p.Measured(indicator.CompletionRate); ok {
		per := rate / done
		p.Reason("That is %s per request, or %s per million requests.", indicator.FormatNumber(per, indicator.Bytes), indicator.FormatNumber(per*1e6, indicator.Bytes))
		lines = append(lines, fmt.Sprintf("%s / %s (%s) = %s per request", indicator.FormatNumber(rate, indicator.BytesPerSecond), indicator.FormatNumber(done, indicator.RequestsPerSecond), indicator.CompletionRate.Name, indicator.FormatNumber(per, indicator.Bytes)))
	}
	p.Reason("Requests complete and nothing queues, so the memory is not held by work. Caches and allocators fill in the first minutes; a slope that goes on for hours is a leak.")
	if size == indicator.ResidentMemory {
		p.Reason("process_resident_memory_bytes is the API server alone: what EngineCore and the workers hold is seen only from the container or the node.")
	} else {
		p.Reason("The container holds EngineCore and the workers too, whose memory no metric of vLLM shows.")
	}
	p.Observe("On the GPU", indicator.GPUMemGrowth)
	p.Fix(catalog.Fix{
		Summary:    "Restart replicas one at a time, drained, before memory runs out, and set a container memory limit with an alert below it",
		Arithmetic: lines,
		Tradeoff:   "each restart takes minutes and begins with a cold prefix cache",
		Verify:     growth.Name + " stays near 0 for an hour",
	})
	p.Fix(catalog.Fix{
		Summary:  "Find it: compare by process (ps -o rss,args), take two py-spy or memray snapshots, look for clients that hang up, custom middleware, multimodal or grammar caches, and vLLM's open reports for this version",
		Tradeoff: "profiling slows the process a little",
		Verify:   growth.Name + " stays near 0 for an hour",
	})
}

package memoryleak

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const day = 86400.0

func refineFinding(p *catalog.Pass) {
	if stuck, _ := storesStuck.Eval(p); stuck == catalog.True {
		refineStuckStores(p)
		return
	}
	if kept, _ := blocksKept.Eval(p); kept == catalog.True {
		refineKeptBlocks(p)
		return
	}
	leak := leakingMemory(p)
	rate, ok := p.Measured(leak.growth)
	if !ok {
		return
	}
	lines := describeGrowth(p, leak, rate)
	p.Reason("Requests complete and nothing queues, so the memory is not held by work in progress. Caches and " +
		"allocators fill up within minutes; growth for hours is a leak.")
	switch leak.size {
	case indicator.ResidentMemory:
		p.Reason("process_resident_memory_bytes is the API server alone: the memory of EngineCore and the workers " +
			"shows only in the container's or node's metrics.")
	case indicator.ContainerMemory:
		p.Reason("The container includes EngineCore and the workers, whose memory vLLM does not export.")
	}
	p.Observe("On the GPU", indicator.GPUMemGrowth)
	p.Fix(catalog.Fix{
		Summary: "Drain and restart replicas one at a time before memory runs out, and set a container memory " +
			"limit with an alert below it",
		Command:    "kubectl rollout restart deployment/NAME",
		Arithmetic: lines,
		Tradeoff:   "each restart takes minutes and begins with a cold prefix cache",
		Verify:     "the memory stays level for an hour",
	})
	p.Fix(catalog.Fix{
		Summary: "Find the leak: compare processes, take two memray snapshots; suspects are clients that " +
			"disconnect, custom middleware, multimodal and grammar caches, and known issues of this vLLM version",
		Command:  "ps -eo pid,rss,etime,args --sort=-rss | head",
		Tradeoff: "profiling slows the process a little",
		Verify:   "the memory stays level for an hour",
	})
}

// A memory is a memory that may leak.
type memory struct {
	name         string
	size, growth *indicator.Signal // size is nil for a GPU
}

// leakingMemory returns the memory that leaks: a GPU's, the container's if that grows much faster than the API server
// or alone is known, and otherwise the API server's.
func leakingMemory(p *catalog.Pass) memory {
	if grows, _ := gpuGrows.Eval(p); grows == catalog.True {
		return memory{"a GPU's memory", nil, indicator.GPUMemGrowth}
	}
	server := memory{"the API server's memory", indicator.ResidentMemory, indicator.MemoryGrowth}
	if a, ok := p.Measured(indicator.ContainerMemoryGrowth); ok {
		if b, known := p.Measured(server.growth); !known || a > 2*b {
			return memory{"the container's memory", indicator.ContainerMemory, indicator.ContainerMemoryGrowth}
		}
	}
	return server
}

// describeGrowth summarizes a memory that grows by rate bytes per second, and returns the arithmetic.
func describeGrowth(p *catalog.Pass, leak memory, rate float64) []string {
	p.Summary = fmt.Sprintf("Memory leaks: %s grows by %s a day", leak.name,
		indicator.FormatNumber(rate*day, indicator.Bytes))
	lines := []string{
		fmt.Sprintf("%s (%s) × 86400 s = %s a day", indicator.FormatNumber(rate, indicator.BytesPerSecond),
			leak.growth.Title, indicator.FormatNumber(rate*day, indicator.Bytes)),
	}
	if leak.size == nil {
		if used, ok := p.Measured(indicator.GPUMemoryUsed); ok {
			p.Summary += "; " + indicator.FormatNumber(used, indicator.Ratio) + " are in use"
		}
		p.Reason("An engine takes the memory for weights and KV cache when it starts. What comes later is a leak, or " +
			"another process on that GPU.")
	} else if now, ok := p.Measured(leak.size); ok {
		doubled := indicator.FormatNumber(now/rate, indicator.Seconds)
		p.Summary += fmt.Sprintf(" and doubles from %s in %s", indicator.FormatNumber(now, indicator.Bytes), doubled)
		lines = append(lines, fmt.Sprintf("%s (%s) / %s = %s until it has doubled",
			indicator.FormatNumber(now, indicator.Bytes), leak.size.Title,
			indicator.FormatNumber(rate, indicator.BytesPerSecond), doubled))
	}
	if done, ok := p.Measured(indicator.CompletionRate); ok {
		per := rate / done
		p.Reason("That is %s per request, or %s per million requests.", indicator.FormatNumber(per, indicator.Bytes),
			indicator.FormatNumber(per*1e6, indicator.Bytes))
		lines = append(lines, fmt.Sprintf("%s / %s (%s) = %s per request",
			indicator.FormatNumber(rate, indicator.BytesPerSecond),
			indicator.FormatNumber(done, indicator.RequestsPerSecond), indicator.CompletionRate.Title,
			indicator.FormatNumber(per, indicator.Bytes)))
	}
	return lines
}

// refineKeptBlocks refines the finding for a KV cache that fills at the same load.
func refineKeptBlocks(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("The KV cache fills at the same load and is not freed: %s are in use, with %s running",
		indicator.FormatNumber(p.Value(indicator.KVUsage), indicator.Ratio), catalog.Whole(p.Value(indicator.Running)))
	p.Reason("A running request holds %s the blocks that it held on average, and the lowest usage rose by %s: blocks "+
		"of finished requests are still in use.",
		indicator.FormatNumber(p.Value(indicator.KVPerRequest), indicator.Times),
		indicator.FormatNumber(p.Value(indicator.KVFloorRise), indicator.Ratio))
	p.Reason("Conversations that grow look the same: then the prefix cache hit rate is high, and " +
		"usage falls when they end.")
	p.Observe("Meanwhile", indicator.LoggedPrompts, indicator.LoggedOutput, indicator.PrefixHitRatio)
	p.Reroute(catalog.Drain+"; if usage then stays above 0, blocks leak", "KV cache usage is 0 when nothing runs")
	p.Fix(catalog.Fix{
		Summary:  "Restart it once it is drained, if blocks stay in use",
		Tradeoff: "the prefix cache starts empty",
		Verify:   "KV cache usage is 0 when nothing runs",
	})
	p.Fix(catalog.Fix{
		Summary: "Find what keeps the blocks: a KV connector that waits for the other side to fetch them, clients " +
			"that disconnect, and known issues of this release",
		Command:  "grep -iE 'kv.?(connector|transfer)|abort|expired' vllm.log | tail",
		Tradeoff: "none",
		Verify:   "KV cache usage is 0 when nothing runs",
	})
}

// refineStuckStores refines the finding for KV blocks that wait to be offloaded.
func refineStuckStores(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("Offloading is stuck: %s KV blocks wait to be copied out of the GPU, and none has been "+
		"released for ten minutes", catalog.Whole(p.Value(indicator.StoresKept)))
	p.Reason("SimpleCPUOffloadConnector keeps a block in the GPU until its copy ends, also when its request is done. " +
		"Copies end in order, so each later one waits behind the one that is stuck.")
	p.Observe("The KV cache", indicator.KVUsage, indicator.KVFloorRise)
	p.Reroute(catalog.Drain, "KV cache usage is 0 when nothing runs")
	p.Fix(catalog.Fix{
		Summary: "Restart it once it is drained: nothing else gives the blocks back. Before that, look in its log " +
			"for a write that failed, which ends the thread that writes to a disk, and whether the disk is full",
		Command:  "grep -iE 'short write|No space|OSError|simple_kv_offload' vllm.log | tail; df -h",
		Tradeoff: "the prefix cache starts empty",
		Verify:   "vllm:simple_kv_offload_pending_store_blocks falls to 0 again and again",
	})
	p.Fix(catalog.Fix{
		Summary:  "Until the cause is found, start without SimpleCPUOffloadConnector in --kv-transfer-config",
		Tradeoff: "prefixes that host memory or the disk would hold are computed again",
		Verify:   "KV cache usage is 0 when nothing runs",
	})
}

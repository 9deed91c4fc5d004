// Package kvoffloadslow detects offloaded KV caches that take long to come back into the GPU.
package kvoffloadslow

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	slower = &catalog.Threshold{
		Name: "kv_offload_slower", Unit: indicator.Seconds, Default: catalog.None,
		Baseline: &catalog.Relative{Factor: 3},
		Why:      "three times as long as normal for the same bytes: a bus that is shared varies by less",
	}
	some = &catalog.Threshold{
		Name: "kv_offload_loaded", Unit: indicator.Bytes, Default: 1 << 20,
		Why: "something was loaded: below a MiB, starting the copy takes most of the time",
	}
)

// Pathology is offloaded KV caches that load slowly.
var Pathology = &catalog.Pathology{
	ID:                "kv-offload-slow",
	Alert:             "KVOffloadSlow",
	Title:             "Offloaded KV caches take long to load",
	Severity:          catalog.Ticket,
	FollowsObjectives: true,
	When: catalog.All(catalog.Above(indicator.OffloadPace, slower),
		catalog.Guard(catalog.Above(indicator.OffloadBytes, some)), catalog.FirstTokenLate),
	For:         time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung", "kv-cache-thrashing", "engine-restart"},
	Explains:    []string{"prefill-starvation", "saturation", "slow-prefill", "unexplained"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "Loading KV takes longer", When: catalog.Above(indicator.OffloadPace, slower)},
	}, catalog.Late),
	Refine: refineFinding,
}

func refineFinding(p *catalog.Pass) {
	p.Summary = "A GiB of offloaded KV cache takes " + p.Text(indicator.OffloadPace) + " to load"
	if pace, ok := p.Measured(indicator.OffloadPace); ok {
		p.Reason("That is %s/s; PCIe 4.0 with 16 lanes gives some 23 GiB/s, 5.0 twice that, a disk a few.",
			indicator.FormatNumber((1<<30)/pace, indicator.Bytes))
		if n, ok := p.Measured(indicator.OffloadBytes); ok {
			p.Reason("%s were loaded in the window.", indicator.FormatNumber(n, indicator.Bytes))
		}
	}
	p.Observe("The tier", indicator.TierHitRatio)
	const verify = "a GiB loads in as long as before"
	p.ShedQueue("TTFT P95 returns to normal")
	p.Fix(catalog.Fix{
		Summary: "Check the path between host and GPU: the PCIe link's width and speed, the NUMA node of the host " +
			"memory, swapping, other transfers at the same time",
		Command: "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv; " +
			"numastat -p $(pgrep -of vllm)",
		Tradeoff: "none",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary:  "If computing is faster than loading, remove the slowest tier from --kv-transfer-config",
		Tradeoff: "prompts that it would have found are computed again",
		Verify:   "TTFT falls",
	})
}

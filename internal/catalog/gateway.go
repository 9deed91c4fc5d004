package catalog

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Thresholds that several pathologies of gateways share.
var (
	// OneMissing is how many requests wait at a gateway that no engine holds.
	OneMissing = &Threshold{
		Name: "gateway_missing", Unit: indicator.Requests, Default: 0.5,
		Why: "one request that waits for longer than two scrapes of the engine and is not in the engine",
	}
	// NoTokens is the number of tokens below which none came.
	NoTokens = &Threshold{
		Name: "gateway_tokens", Unit: indicator.Tokens, Default: 1e-9,
		Why: "no token",
	}
)

// SlowEngine lists the pathologies of servers that make clients leave and limits be reached.
var SlowEngine = []string{
	"engine-hung", "kv-cache-thrashing", "engine-restart", "prefill-starvation",
	"severe-degradation", "concurrency-limit", "saturation", "slow-decode",
}

// Waiting writes a number of waiting requests as subject and verb: "1 request waits", "5 requests wait".
func Waiting(n float64) string { return chooseForm(n, "waits", "wait") }

// Are writes a number of requests with "is" or "are".
func Are(n float64) string { return chooseForm(n, "is", "are") }

func chooseForm(n float64, one, many string) string {
	text := Requests(n)
	if strings.HasSuffix(text, "request") {
		return text + " " + one
	}
	return text + " " + many
}

// The CPU use, in cores, of a process that runs on one core, as Python does, and has used it up. A process that uses
// more runs on several cores.
const minOneCore, maxOneCore = 0.85, 1.15

// RouterCPU is the fix for a router's process that has used up a core. Requests wait for the process itself, so no
// queue limit helps.
func RouterCPU(p *Pass, verify string) (f Fix, ok bool) {
	used, known := p.Measured(indicator.GatewayCPU)
	if !known || used < minOneCore || used > maxOneCore {
		return f, false
	}
	p.Reason("The router's process uses %s of a core; a process of Python has no more.",
		indicator.FormatNumber(used, indicator.Ratio))
	return Fix{
		Summary:  "Run more processes or replicas of the router (--num_workers of LiteLLM): its process used up a core",
		Tradeoff: "cores, and limits that each process keeps for itself",
		Verify:   verify,
	}, true
}

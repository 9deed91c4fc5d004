package enginehung

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

const verify = "engine_progress is above 0 and in_flight_floor falls"

func refine(p *catalog.Pass) {
	stuck, _ := p.Measured(indicator.StuckEngines)
	held, _ := p.Measured(indicator.InFlightFloor)
	progress, moves := p.Measured(indicator.EngineProgress)
	owed, silentRank := p.Measured(indicator.OwedFirstTokens)
	switch {
	case stuck > 0 && moves && progress > 0:
		p.Summary = "One engine rank hangs: it holds requests and has made not one token for at least ten seconds, while another goes on"
	case stuck > 0:
		p.Summary = fmt.Sprintf("The engine hangs: it holds %s requests and has made not one token for at least ten seconds", catalog.Digits(held))
	case moves && progress > 0 && silentRank:
		p.Summary = fmt.Sprintf("One engine rank hangs: by its share it owes %s first tokens and gave none, while the others go on and clients wait", catalog.Whole(owed))
	default:
		p.Summary = "The engine hangs: clients wait in front of it, and it has made not one token for at least ten seconds; its gauges say idle, for it stopped before it took their requests"
	}
	if unseen, ok := p.Measured(indicator.UnseenClients); ok && unseen >= 1 {
		p.Reason("About %s clients hold a connection without being among the engine's requests.", catalog.Whole(unseen))
	}
	if left, ok := p.Measured(indicator.LeftUnserved); ok && left >= 1 {
		p.Reason("About %s requests ended in the last moments without a first token and without ever having been in the engine: their clients gave up.", catalog.Whole(left))
	}
	if silentRank && stuck == 0 {
		p.Reason("A router may leave a rank without work when traffic is thin; that connections pile up, or requests end without a first token, is what tells it from that.")
	}
	p.Reason("/health and /metrics are answered by the API server, which is alive: they say 200 all the while. Gauges keep their last value and histograms are written only by requests that get on, so no latency looks bad.")
	if now, ok := p.Measured(indicator.OpenFDs); ok {
		text := "The API server has " + p.Text(indicator.OpenFDs) + " open files"
		if usual, ok := p.Usual(indicator.OpenFDs); ok && now > usual+1 {
			text += fmt.Sprintf(": about %s more clients than normally hold a connection and wait", catalog.Whole(now-usual))
		}
		if rate, ok := p.Measured(indicator.FDGrowth); ok && rate > 0.05 {
			text += fmt.Sprintf("; %s more come and get no answer", indicator.FormatNumber(rate, indicator.PerSecond))
		}
		p.Reason("%s.", text)
	}
	p.Reason("A long prompt without chunked prefill stops a small engine for two to four seconds, which is no hang; requests that were all cancelled leave frozen gauges too: then one small request gets through and thaws them.")
	p.Fix(catalog.Fix{
		Summary:  "Now: take this replica out of the load balancer; its health check does not see this",
		Tradeoff: "the other replicas carry its load",
		Verify:   "the other replicas' ttft_p95 holds",
	})
	p.Fix(catalog.Fix{
		Summary:  "Save the evidence, then restart: py-spy dump --pid of VLLM::EngineCore and of each worker, nvidia-smi, dmesg for XID errors, the last lines of the log (a SIGQUIT dumps Python's stacks only where faulthandler is registered for it, and ends the process elsewhere)",
		Tradeoff: "requests in flight are lost; they are lost already",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary:  "Let the liveness probe ask for one token (POST /v1/completions, max_tokens 1, 30 s timeout) rather than for /health",
		Tradeoff: "one token per probe; under overload the probe waits in the queue, so let it fail several times",
		Verify:   "a stopped engine is restarted by itself",
	})
}

package enginehung

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "the engine generates tokens again, and its requests in flight fall"

func refineFinding(p *catalog.Pass) {
	summarizeHang(p)
	explainClients(p)
	if p.Known(indicator.LoggedOutput) {
		p.Reason("The API server is alive, for it writes the log; /health and /metrics answer 200 then, " +
			"and no latency looks bad.")
	} else {
		p.Reason("/health and /metrics answer 200, because the API server is alive. Gauges keep their last value, " +
			"and histograms count only requests that make progress, so no latency looks bad.")
	}
	countOpenFiles(p)
	p.Reason("Two cases look like a hang but are not: a long prompt without chunked prefill stops a small engine for " +
		"two to four seconds; and after all requests are cancelled at once, gauges stay frozen until the next request.")
	p.Reroute(catalog.Drain+", whose health check does not see the hang", "TTFT P95 of the other replicas stays normal")
	p.Fix(catalog.Fix{
		Summary: "Save the evidence, then restart: stacks of VLLM::EngineCore and of each worker, nvidia-smi, XID " +
			"errors in dmesg, the end of the log",
		Command:  "for p in $(pgrep -f 'VLLM::|EngineCore'); do py-spy dump --pid $p; done",
		Tradeoff: "requests in flight are lost; a hung engine does not finish them anyway",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary: "Make the liveness probe request one token instead of /health: POST /v1/completions, " +
			"max_tokens 1, timeout 30 s",
		Tradeoff: "one token per probe; under overload the probe waits in the queue, so allow it several failures",
		Verify:   "a hung engine restarts automatically",
	})
}

// summarizeHang says what stands still: requests outside the scheduler, a rank, the engine, or its acceptance.
func summarizeHang(p *catalog.Pass) {
	stuck, _ := p.Measured(indicator.StuckEngines)
	held, _ := p.Measured(indicator.InFlightFloor)
	progress, moves := p.Measured(indicator.EngineProgress)
	debt, silentRank := p.Measured(indicator.OwedFirstTokens)
	waits, _ := owed.Eval(p)
	outside, _ := lost.Eval(p)
	silence := "10 s or more"
	if s, ok := p.Measured(indicator.RankSilence); ok && s >= 10 {
		silence = indicator.FormatNumber(s, indicator.Seconds)
	}
	switch {
	case outside == catalog.True:
		p.Summary = fmt.Sprintf("Requests hang outside the scheduler: %s open at the server, and in neither "+
			"its queue nor its batch", catalog.Are(p.Value(indicator.HeldOutside)))
	case stuck > 0 && moves && progress > 0:
		p.Summary = fmt.Sprintf("One rank holds requests, and no token for %s, while another rank works", silence)
	case stuck > 0 && held >= 1:
		p.Summary = fmt.Sprintf("%s in flight, no token for %s", catalog.Requests(held), silence)
	case moves && progress > 0 && silentRank && waits == catalog.True:
		p.Summary = fmt.Sprintf("One engine rank hangs: by its share of the traffic, %s first tokens are overdue, "+
			"while the other ranks work", catalog.Whole(debt))
	case moves && progress > 0 && silentRank:
		p.Summary = fmt.Sprintf("One engine rank generates no tokens while the others work: by its share of the "+
			"traffic, %s first tokens are overdue; either it hangs, or one client sends all requests",
			catalog.Whole(debt))
		p.Reason("About %s requests arrived while the working ranks were busy, and the router sends such requests to "+
			"an idle rank. A single client that waits for each answer never meets a busy rank; whether clients wait "+
			"is unknown, because several API servers export no process_* series.",
			catalog.Whole(p.Value(indicator.MetBusyRanks)))
	default:
		p.Summary = fmt.Sprintf("Clients wait, no token for %s; its gauges read idle, because it stopped before it "+
			"accepted their requests", silence)
	}
}

// explainClients tells how clients show that they wait or gave up.
func explainClients(p *catalog.Pass) {
	stuck, _ := p.Measured(indicator.StuckEngines)
	_, silentRank := p.Measured(indicator.OwedFirstTokens)
	waits, _ := owed.Eval(p)
	if unseen, ok := p.Measured(indicator.UnseenClients); ok && unseen >= 1 {
		p.Reason("About %s clients hold a connection whose request the engine does not have.", catalog.Whole(unseen))
	}
	if stranded, ok := p.Measured(indicator.StrandedClients); ok && stranded >= 1 {
		p.Reason("%s connections were opened after its last token and are still open: a connection that is "+
			"only kept was there before.", catalog.Whole(stranded))
	}
	if left, ok := p.Measured(indicator.LeftUnserved); ok && left >= 1 {
		p.Reason("About %s requests ended within the last minute without a first token, and the engine never had "+
			"them: their clients gave up.", catalog.Whole(left))
	}
	if left, ok := p.Measured(indicator.LeftNoQueue); ok && left >= 1 && silentRank {
		p.Reason("About %s clients left in the window without a first token.", catalog.Whole(left))
	}
	if silentRank && stuck == 0 && waits == catalog.True {
		p.Reason("With little traffic a router may leave a rank idle. That is ruled out here: connections pile up, " +
			"or requests end without a first token.")
	}
}

// countOpenFiles tells what the API server's open files say about clients that wait.
func countOpenFiles(p *catalog.Pass) {
	now, ok := p.Measured(indicator.OpenFDs)
	if !ok {
		return
	}
	text := "The API server has " + p.Text(indicator.OpenFDs) + " open files"
	if usual, ok := p.Usual(indicator.OpenFDs); ok && now > usual+1 {
		text += fmt.Sprintf(": about %s clients more than normally hold a connection and wait",
			catalog.Whole(now-usual))
	}
	if rate, ok := p.Measured(indicator.FDGrowth); ok && rate > 0.05 {
		text += fmt.Sprintf("; %s more arrive and get no answer", indicator.FormatNumber(rate, indicator.PerSecond))
	}
	p.Reason("%s.", text)
}

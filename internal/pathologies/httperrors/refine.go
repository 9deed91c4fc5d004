package httperrors

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func refineFinding(p *catalog.Pass) {
	var parts []string
	for _, c := range []struct {
		class        string
		share, count *indicator.Signal
	}{
		{"a server error (5xx)", indicator.ServerErrs, indicator.ServerErrCount},
		{"a refusal (4xx)", indicator.ClientErrs, indicator.ClientErrCount},
	} {
		share, ok := p.Measured(c.share)
		if !ok {
			continue
		}
		part := indicator.FormatNumber(share, indicator.Ratio) + " of the requests end in " + c.class
		if n, ok := p.Measured(c.count); ok {
			part += fmt.Sprintf(", %s in the window", catalog.Whole(n))
		}
		parts = append(parts, part)
	}
	for _, s := range []*indicator.Signal{indicator.EngineErrors, indicator.AdmissionRejections} {
		if _, ok := p.Measured(s); ok {
			parts = append(parts, strings.ToLower(s.Title)+" "+p.Text(s))
		}
	}
	if len(parts) > 0 {
		p.Summary = strings.Join(parts, "; ")
	}
	p.Reason("An error after streaming began still counts as 200, and the gateway's own errors are not seen here: " +
		"compare with its counts. The engine counts no failed requests.")
	explainServerErrors(p)
	explainClientErrors(p)
}

func explainServerErrors(p *catalog.Pass) {
	const verify = "the share of HTTP 5xx falls below the error budget"
	if _, ok := p.Measured(indicator.AdmissionRejections); ok {
		p.Fix(catalog.Fix{
			Summary:  "Let clients that are refused retry later, with a growing delay",
			Tradeoff: "their answers come later",
			Verify:   "fewer admission rejections",
			Stops:    true,
		})
		p.Fix(catalog.Fix{
			Summary:  "Add capacity: admission control refuses what the servers cannot serve in time",
			Replicas: 2,
			Tradeoff: "more GPUs; raising --max-num-queued-reqs instead turns refusals into long waits",
			Verify:   "no more admission rejections",
		})
	}
	_, serverErrors := p.Measured(indicator.ServerErrs)
	_, engineReports := p.Measured(indicator.EngineErrors)
	if !serverErrors && !engineReports {
		return
	}
	p.Reroute(catalog.Drain, "no request fails on the others")
	p.Fix(catalog.Fix{
		Summary: "Look for tracebacks, EngineDeadError, CUDA errors and out-of-memory in the server's log; with a " +
			"dead engine every request fails until a restart",
		Command:  "grep -E 'Traceback|EngineDeadError|CUDA|out of memory' vllm.log | tail",
		Tradeoff: "none",
		Verify:   verify,
	})
	if serverErrors && !engineReports && p.Known(indicator.EngineErrors) {
		p.Reason("The engine reports no error of its own. vLLM counts some bad input as 5xx although the client sees " +
			"400: an empty prompt ([]), token ids outside the vocabulary, several choices (n " +
			"above 1) without sampling.")
		p.Fix(catalog.Fix{
			Summary: "Check at a client, or at the gateway, which status it received: with 400 the requests are " +
				"invalid and the server is fine",
			Tradeoff: "none",
			Verify:   verify,
		})
	}
}

func explainClientErrors(p *catalog.Pass) {
	if _, ok := p.Measured(indicator.ClientErrs); !ok {
		return
	}
	p.Fix(catalog.Fix{
		Summary:  "Limit the client whose requests are refused at the gateway",
		Tradeoff: "its valid requests wait too",
		Verify:   "the share of HTTP 4xx returns to normal",
		Stops:    true,
		MayHurt:  true,
	})
	p.Fix(catalog.Fix{
		Summary: "Find the client and the status code in the access log: 400 malformed or too long, 401 wrong key, " +
			"404 wrong model name, 422 schema, 429 quota",
		Tradeoff: "none",
		Verify:   "the share of HTTP 4xx returns to normal",
	})
}

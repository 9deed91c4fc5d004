package httperrors

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

func refine(p *catalog.Pass) {
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
		part := indicator.FormatNumber(share, indicator.Ratio) + " end in " + c.class
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
		p.Summary = "Of the requests " + strings.Join(parts, "; ")
	}
	p.Reason("Errors after streaming began stay 200, and a gateway's own errors are not seen here: compare its counts. The engine's completions count no failure.")
	server(p)
	client(p)
}

func server(p *catalog.Pass) {
	const verify = "http_5xx_share falls below the error budget"
	if _, ok := p.Measured(indicator.AdmissionRejections); ok {
		p.Fix(catalog.Fix{
			Summary:  "Admission control refuses requests: add capacity, or let clients retry later with a growing delay",
			Tradeoff: "raising --max-num-queued-reqs instead turns refusals into long waits",
			Verify:   "admission_rejection_rate falls to 0",
		})
	}
	_, http := p.Measured(indicator.ServerErrs)
	_, engine := p.Measured(indicator.EngineErrors)
	if !http && !engine {
		return
	}
	if http && !engine && p.Known(indicator.EngineErrors) {
		p.Reason("The engine reports no error of its own, so bad input may be counted as 5xx: an empty prompt ([]) and token ids outside the vocabulary are (the client sees 400).")
	}
	p.Fix(catalog.Fix{
		Summary:  "Read the API server's log for tracebacks and the engine's for EngineDeadError, CUDA errors and out-of-memory; a dead engine makes every new request fail until the process is restarted",
		Tradeoff: "none; take the replica out of the load balancer if it answers nothing else",
		Verify:   verify,
	})
}

func client(p *catalog.Pass) {
	if _, ok := p.Measured(indicator.ClientErrs); !ok {
		return
	}
	p.Fix(catalog.Fix{
		Summary:  "Find the client in the gateway's or API server's access log and the code: 400 malformed or longer than the context, 401 key, 404 wrong model name, 422 schema, 429 quota",
		Tradeoff: "none",
		Verify:   "http_4xx_share returns to normal",
	})
}

package boundary

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// A verdict is something that can be wrong at the boundary: a condition on what a gateway
// counted. The diagnosis evaluates it on two pages, and alert rules are compiled from it.
type verdict struct {
	catalog.Pathology
	seenAs  string // the id in a diagnosis, where it is a pathology of servers as seen from outside; "" for its own
	instead string // the id of a verdict that a diagnosis gives in its place; "" for none
	say     func(*part) string
}

var (
	down = &catalog.Threshold{
		Name: "upstream_down", Unit: indicator.Count, Default: 0.5,
		Why: "two health checks in a row failed, or a connection was refused, and so it was at both of the last scrapes",
	}
	noneUp = &catalog.Threshold{
		Name: "upstreams_up", Unit: indicator.Count, Default: 0.5,
		Why: "not one of the servers passed its health check at either of the last scrapes",
	}
	oneMissing = &catalog.Threshold{
		Name: "gateway_missing", Unit: indicator.Requests, Default: 0.5,
		Why: "one request that waits for longer than two readings of the engine, and that the engine does not hold, is one too many",
	}
	noTokens = &catalog.Threshold{
		Name: "gateway_tokens", Unit: indicator.Tokens, Default: 1e-9,
		Why: "not one token",
	}
	oneWaits = &catalog.Threshold{
		Name: "gateway_waiting", Unit: indicator.Requests, Default: 0.5,
		Why: "somebody waits, and did so at the scrape before",
	}
	noAnswer = &catalog.Threshold{
		Name: "gateway_answered", Unit: indicator.Requests, Default: 1e-9,
		Why: "not one: where requests are answered with errors, these say what is wrong",
	}
	someMet = &catalog.Threshold{
		Name: "gateway_met", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three requests, for the first token of a single long prompt may take a while",
	}
	goesOn = &catalog.Threshold{
		Name: "gateway_failing", Unit: indicator.Count, Default: 1.5,
		Why: "at two scrapes, so that it goes on: a server that dies takes the requests with it that it had, and no more once the gateway knows",
	}
	longOutside = &catalog.Threshold{
		Name: "outside_engine", Unit: indicator.Seconds, Default: 1,
		Why: "a gateway, a network and an API server add 20 to 100 ms to a request; a second more is felt, and no engine's metric shows it",
	}
	someTimeouts = &catalog.Threshold{
		Name: "gateway_timeouts", Unit: indicator.Requests, Default: 2.5,
		Why: "at least three, for small numbers say nothing",
	}
	manyRetries = &catalog.Threshold{
		Name: "gateway_retries", Unit: indicator.Requests, Default: 9.5,
		Why: "at least ten: a connection that breaks is retried once",
	}
	retryLoad = &catalog.Threshold{
		Name: "gateway_retry_share", Unit: indicator.Ratio, Default: 0.1,
		Why: "a tenth of the load; the gateway itself allows a fifth",
	}
	favoured = &catalog.Threshold{
		Name: "busiest_upstream", Unit: indicator.Times, Default: 2,
		Why: "more than twice what the others get on average",
	}
	someAttempts = &catalog.Threshold{
		Name: "gateway_attempts", Unit: indicator.Requests, Default: 39.5,
		Why: "at least forty requests: of fewer, chance alone favours one",
	}
	oneExcess = &catalog.Threshold{
		Name: "gateway_excess", Unit: indicator.Requests, Default: 0.5,
		Why: "one, at every reading: between two readings a request may end here and not there",
	}
	oneLeak = &catalog.Threshold{
		Name: "gateway_leaks", Unit: indicator.Requests, Default: 0.5,
		Why: "one that is open for longer than --leak-age",
	}
	oneShared = &catalog.Threshold{
		Name: "shared_engines", Unit: indicator.Count, Default: 0.5,
		Why: "engines are not born in the same microsecond",
	}
)

// slowEngine are the pathologies of servers by which clients leave and limits are reached.
var slowEngine = []string{
	"engine-hung", "kv-cache-thrashing", "engine-restart", "prefill-starvation",
	"severe-degradation", "concurrency-limit", "saturation", "slow-decode",
}

// verdicts are all of them, causes before symptoms. What explains one may be another or
// a pathology of the servers behind the gateway.
var verdicts = []*verdict{
	{
		Pathology: catalog.Pathology{
			ID: "upstream-down", Alert: "VLLMUpstreamDown", Title: "A server fails the gateway's health check", Severity: catalog.Page,
			When: catalog.Above(indicator.GatewayDown, down), For: 30 * time.Second, Panel: 639,
			ExplainedBy: []string{"target-down"},
		},
		say: func(p *part) string { return fmt.Sprintf("The gateway's health check of %s fails", p.name) },
	},
	{
		Pathology: catalog.Pathology{
			ID: "no-upstream", Alert: "VLLMNoUpstream", Title: "No server behind the gateway passes its health check", Severity: catalog.Page,
			When: catalog.Below(indicator.GatewayUp, noneUp), For: 30 * time.Second, Panel: 639,
			ExplainedBy: []string{"upstream-down"},
		},
		instead: "upstream-down",
		say:     func(*part) string { return "No server behind the gateway passes its health check" },
	},
	{
		Pathology: catalog.Pathology{
			ID: "hang-outside-engine", Alert: "VLLMHangOutsideEngine", Title: "Requests wait at the gateway, and the engine holds none of them", Severity: catalog.Page,
			When: catalog.All(catalog.Above(indicator.GatewayMissing, oneMissing), catalog.Below(indicator.GatewayTokens, noTokens)),
			For:  30 * time.Second, Panel: 636,
			ExplainedBy: []string{"no-upstream", "engine-hung"},
			Explains:    []string{"client-cancellations"},
		},
		say: func(p *part) string {
			return fmt.Sprintf("%.0f requests wait at the gateway, no token came in %.0f s, and the engine holds none of them: the API server hangs, whatever its health check answers", p.missing(), p.span.Seconds())
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "no-token-passes", Alert: "VLLMNoTokenPasses", Title: "Requests are open at the gateway, and no token comes", Severity: catalog.Page,
			When: catalog.All(
				catalog.Above(indicator.GatewayWaiting, oneWaits), catalog.Above(indicator.GatewayMet, someMet),
				catalog.Below(indicator.GatewayTokens, noTokens), catalog.Below(indicator.GatewayAnswered, noAnswer),
				catalog.Below(indicator.GatewayEngineTokens, noTokens),
			),
			For: time.Minute, Panel: 636,
			ExplainedBy: []string{"no-upstream", "hang-outside-engine", "engine-hung", "prefill-starvation"},
		},
		instead: "hang-outside-engine",
		say: func(p *part) string {
			return fmt.Sprintf("%.0f requests are open at the gateway and no token came in %.0f s", p.Open, p.span.Seconds())
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "gateway-errors", Alert: "VLLMGatewayErrors", Title: "Requests fail at the gateway", Severity: catalog.Page,
			When: catalog.All(
				catalog.Above(indicator.GatewayErrors, catalog.ServerErrorShare), catalog.Above(indicator.GatewayFailed, catalog.SomeServerErrors),
				catalog.Above(indicator.GatewayFailing, goesOn),
			),
			For: 75 * time.Second, Panel: 635, // a moment on the edge of two scrapes stays in the window for a minute
			ExplainedBy: []string{"no-upstream", "hang-outside-engine", "no-token-passes", "http-errors", "engine-hung"},
			Explains:    []string{"client-cancellations"},
		},
		seenAs: "http-errors",
		say: func(p *part) string {
			waited := sum(p.Ended) - p.Ended["client_disconnect"]
			return fmt.Sprintf("%.0f of %.0f requests that their clients waited for failed at the gateway (%s): %s", failures(p.Counts), waited, percent(failures(p.Counts)/waited), breakdown(p.Counts))
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "slow-outside-engine", Alert: "VLLMSlowOutsideEngine", Title: "Requests take much longer for clients than in the engine", Severity: catalog.Page,
			When: catalog.Above(indicator.GatewayOutside, longOutside), For: time.Minute, Panel: 640,
			ExplainedBy: []string{"no-upstream", "hang-outside-engine", "engine-hung"},
			Explains:    []string{"client-cancellations"},
		},
		say: func(p *part) string {
			return fmt.Sprintf("A request takes %s longer at the gateway than in the engine, on average", indicator.FormatNumber(p.outside(), indicator.Seconds))
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "not-in-engine", Alert: "VLLMNotInEngine", Title: "Some requests wait at the gateway, and no engine holds them", Severity: catalog.Ticket,
			When: catalog.All(catalog.Above(indicator.GatewayMissing, oneMissing), catalog.Above(indicator.GatewayTokens, noTokens)),
			For:  2 * time.Minute, Panel: 636,
			ExplainedBy: []string{"hang-outside-engine", "engine-hung"},
		},
		say: func(p *part) string {
			return fmt.Sprintf("%.0f requests wait at the gateway for a while, and the engine holds none of them: they are stuck between the API server and the engine", p.missing())
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "gateway-timeouts", Alert: "VLLMGatewayTimeouts", Title: "The gateway's limits end requests", Severity: catalog.Ticket,
			When: catalog.Above(indicator.GatewayTimeouts, someTimeouts), For: 2 * time.Minute, Panel: 638,
			ExplainedBy: append([]string{"no-upstream", "hang-outside-engine", "no-token-passes"}, slowEngine...),
		},
		say: func(p *part) string {
			return fmt.Sprintf("%.0f requests were ended by the gateway's own limits", p.Ended["timeout"])
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "gateway-cancellations", Alert: "VLLMGatewayCancellations", Title: "Clients leave the gateway before their answers are complete", Severity: catalog.Ticket,
			When: catalog.All(catalog.Above(indicator.GatewayGaveUp, catalog.AbandonedShare), catalog.Above(indicator.GatewayGivenUp, catalog.SomeAbandoned)),
			For:  2 * time.Minute, Panel: 635,
			ExplainedBy: append([]string{"no-upstream", "hang-outside-engine", "no-token-passes", "slow-outside-engine", "client-cancellations"}, slowEngine...),
		},
		seenAs: "client-cancellations",
		say: func(p *part) string {
			gaveUp, total := p.Ended["client_disconnect"], sum(p.Ended)
			return fmt.Sprintf("%.0f of %.0f clients left before their answer was complete (%s)%s", gaveUp, total, percent(gaveUp/total), withoutFirst(p.Counts))
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "retry-storm", Alert: "VLLMRetryStorm", Title: "Retries make up a large share of the load", Severity: catalog.Ticket,
			When: catalog.All(catalog.Above(indicator.GatewayRetries, manyRetries), catalog.Above(indicator.GatewayRetryShare, retryLoad)),
			For:  2 * time.Minute, Panel: 638,
			ExplainedBy: []string{"upstream-down", "no-upstream", "gateway-errors", "engine-restart"},
		},
		say: func(p *part) string {
			return fmt.Sprintf("%.0f retries for %.0f requests: each makes an overload worse", p.Retries, sum(p.Ended))
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "held-after-client", Alert: "VLLMHeldAfterClient", Title: "The engine holds requests that are not open at the gateway", Severity: catalog.Ticket,
			When: catalog.Above(indicator.GatewayExcess, oneExcess), For: 5 * time.Minute, Panel: 636,
		},
		say: func(p *part) string {
			return fmt.Sprintf("The engines hold %.0f requests that are not open at the gateway: other clients', or some whose client has gone; GET /requests names candidates", p.excess())
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "suspected-leaks", Alert: "VLLMSuspectedLeaks", Title: "Requests are open for longer than the gateway's limit", Severity: catalog.Ticket,
			When: catalog.Above(indicator.GatewayLeaks, oneLeak), For: time.Minute, Panel: 639,
			ExplainedBy: []string{"hang-outside-engine", "no-token-passes", "engine-hung"},
		},
		say: func(p *part) string {
			return fmt.Sprintf("%.0f requests are open for longer than the gateway's limit; GET /requests lists them", p.Leaks)
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "one-engine-answers", Alert: "VLLMOneEngineAnswers", Title: "One engine answers for several upstreams", Severity: catalog.Ticket,
			When: catalog.Above(indicator.GatewayShared, oneShared), For: 2 * time.Minute, Panel: 641,
		},
		say: func(p *part) string {
			twins := p.twins()
			return fmt.Sprintf("%s and %s are one engine: it answers the health checks of both", twins[0], twins[1])
		},
	},
	{
		Pathology: catalog.Pathology{
			ID: "gateway-imbalance", Alert: "VLLMGatewayImbalance", Title: "One server gets most of what the gateway sends", Severity: catalog.Ticket,
			When: catalog.All(catalog.Above(indicator.GatewayBusiest, favoured), catalog.Above(indicator.GatewayAttempts, someAttempts)),
			For:  2 * time.Minute, Panel: 641,
			ExplainedBy: []string{"upstream-down", "one-engine-answers", "replica-imbalance"},
		},
		seenAs: "replica-imbalance",
		say: func(p *part) string {
			name, share, up := p.busiest()
			return fmt.Sprintf("%s gets %s of the requests of %d upstreams", name, percent(share), up)
		},
	},
}

//go:embed runbooks
var runbooks embed.FS

//go:embed cases
var cases embed.FS

// Cases holds the case files of package history, in a directory for each verdict: its id
// without hyphens.
func Cases() (fs.FS, error) { return fs.Sub(cases, "cases") }

// all are the verdicts with their runbooks.
var all = func() (out []*catalog.Pathology) {
	for _, v := range verdicts {
		page, _ := runbooks.ReadFile("runbooks/" + v.ID + ".md") // one that is missing fails the catalogue's tests
		v.Runbook = string(page)
		out = append(out, &v.Pathology)
	}
	return out
}()

// Verdicts lists what only a gateway can tell, causes before symptoms.
func Verdicts() []*catalog.Pathology { return slices.Clone(all) }

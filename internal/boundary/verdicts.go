package boundary

import "github.com/sixty-dev/sixty/internal/catalog"

// What can be wrong at the boundary and in no engine. These are verdicts of a gateway's
// counts, so they are no conditions on servers; others that View finds (http-errors,
// client-cancellations, replica-imbalance) are the catalogue's, seen from outside.
var (
	hangOutsideEngine = &catalog.Pathology{
		ID: "hang-outside-engine", Severity: catalog.Page, Title: "Requests wait at the gateway, and the engine holds none of them",
		Runbook: `# Requests wait at the gateway, and the engine holds none of them

No token passes the gateway, requests wait there, and the engine's own counts say that it has
nothing to do: the API server or something before it hangs. Its health check may answer all the
same, for it does not ask the engine.

1. GET /requests at the gateway's admin address lists what waits, for how long, and at which server.
2. Look at the API server: its processor use, its log, and py-spy dump of its process. A tokenizer that
   waits for a download, an exhausted thread pool and a broken connection to the engine core look like this.
3. Restart the API server of that replica; take it out of the load balancing before.
`,
	}
	notInEngine = &catalog.Pathology{
		ID: "not-in-engine", Severity: catalog.Ticket, Title: "Some requests wait at the gateway, and no engine holds them",
		Runbook: `# Some requests wait at the gateway, and no engine holds them

Other requests are served, so the server works; these are stuck between its HTTP side and the engine,
or were lost there. Clients wait for them until a limit ends them.

1. GET /requests?min_age=30s at the gateway's admin address names them, with the server that each is at.
2. Look for their ids in the server's log (X-Request-Id is vLLM's request id): an exception after the
   request was accepted, a multimodal input that is being fetched, a router that queues by itself.
3. Set --header-timeout of the gateway to what a client would wait for, so that they end.
`,
	}
	noTokenPasses = &catalog.Pathology{
		ID: "no-token-passes", Severity: catalog.Page, Title: "Requests are open at the gateway, and no token comes",
		Runbook: `# Requests are open at the gateway, and no token comes

Nothing reaches clients. The engine may hold the requests and not progress, or say nothing of itself.

1. Diagnose the server itself: engine-hung, prefill-starvation and saturation have their own signs.
2. Without metrics of the engine, ask it directly for one token, past the gateway and any router.
`,
	}
	upstreamDown = &catalog.Pathology{
		ID: "upstream-down", Severity: catalog.Page, Title: "A server fails the gateway's health check",
		Runbook: `# A server fails the gateway's health check

The gateway sends it no requests while another one is up.

1. Ask its health check from the gateway's machine; the gateway's log has the cause.
2. A server that answers elsewhere is unreachable from here: names, networks, certificates.
3. A server that is loading a model answers late: wait, or raise --health-interval.
`,
	}
	gatewayTimeouts = &catalog.Pathology{
		ID: "gateway-timeouts", Severity: catalog.Ticket, Title: "The gateway's limits end requests",
		Runbook: `# The gateway's limits end requests

Clients get 504, or a stream that breaks off. The engine counts such requests as gone and nothing more.

1. Which limit? The access log has it: upstream_header_timeout, upstream_idle_timeout, request_timeout.
2. Where answers are only slow, diagnose the servers. Where they never come, this is a hang.
3. A limit below what a long prompt needs is too low: --header-timeout bounds the wait of requests that
   are not streamed from end to end.
`,
	}
	retryStorm = &catalog.Pathology{
		ID: "retry-storm", Severity: catalog.Ticket, Title: "Retries make up a large share of the load",
		Runbook: `# Retries make up a large share of the load

Each retry is work that the servers did not take the first time, and makes an overload worse.

1. Why do first attempts fail? sixty_gateway_upstream_failures_total says at which server.
2. Take a server that refuses connections out, or bring it back.
3. Bound retries at one place: sixty gateway allows a fifth of the requests, and clients have their own.
`,
	}
	heldAfterClient = &catalog.Pathology{
		ID: "held-after-client", Severity: catalog.Ticket, Title: "The engine holds requests that are not open at the gateway",
		Runbook: `# The engine holds requests that are not open at the gateway

Either other clients ask the engine past the gateway, or it goes on with requests whose client has left,
and their memory in the cache is lost to others.

1. GET /requests at the gateway's admin address names candidates (possibly_still_held) with the engine's ids.
2. Look for these ids in the engine's log. An abort that never reached it is a fault of what lies between.
3. If others ask the engine directly, let them use the gateway too, or do not read this number.
`,
	}
	suspectedLeaks = &catalog.Pathology{
		ID: "suspected-leaks", Severity: catalog.Ticket, Title: "Requests are open for longer than the gateway's limit",
		Runbook: `# Requests are open for longer than the gateway's limit

--leak-age (300 s) is longer than nearly any answer takes. What is open for longer is stuck, or is a stream
whose client reads very slowly.

1. GET /requests?min_age=300s at the gateway's admin address lists them: what each waits for, and since when
   nothing moved.
2. Those that the engine still holds are in its log; those that it does not are listed as missing.
`,
	}

	oneEngine = &catalog.Pathology{
		ID: "one-engine-answers", Severity: catalog.Ticket, Title: "One engine answers for several upstreams",
		Runbook: `# One engine answers for several upstreams

Two addresses lead to one engine: it answers the health checks of a server that may not run at all, and
gets its load too.

1. Ask each address for /metrics and compare vllm:generation_tokens_created: equal is the same process.
2. Names that resolve to one pod, a Service in place of its pods, a port that is forwarded twice and a
   second server that could not bind its port look like this.
3. Give each server an address of its own.
`,
	}

	// Of the catalogue.
	httpErrors          = &catalog.Pathology{ID: "http-errors", Severity: catalog.Page}
	clientCancellations = &catalog.Pathology{ID: "client-cancellations", Severity: catalog.Ticket}
	replicaImbalance    = &catalog.Pathology{ID: "replica-imbalance", Severity: catalog.Ticket}
)

// Verdicts lists what only a gateway can tell.
func Verdicts() []*catalog.Pathology {
	return []*catalog.Pathology{
		hangOutsideEngine, noTokenPasses, upstreamDown, notInEngine, gatewayTimeouts, retryStorm, oneEngine, heldAfterClient, suspectedLeaks,
	}
}

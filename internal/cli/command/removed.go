package command

// removed says what to use in place of the commands and flags that were, by the words of the command
// line: "sixty VERB [COMMAND]", "sixty VERB [COMMAND] --FLAG", or, of values that are no longer one of a
// few, "sixty VERB [COMMAND] --FLAG VALUE".
var removed = map[string]string{
	"sixty audit --ignore VALUE":          "docs/audit.md lists the checks; what PromQL alone proves is left to pint",
	"sixty audit --output VALUE":          "in place of github, --output sarif, uploaded by github/codeql-action/upload-sarif, annotates pull requests",
	"sixty bench self-test":               "every result of sixty bench says under generator how late it sent and read; go test -bench Accuracy ./internal/load measures its error",
	"sixty gateway --access-log":          "/metrics counts how requests end and /requests lists the open ones; the servers log each request by its X-Request-Id",
	"sixty gateway --ask-usage":           "let clients ask: stream_options {\"include_usage\": true}; without it tokens are counted as they pass",
	"sixty gateway --client-timeout":      "--idle-timeout ends a request of which nothing moves, at its client or upstream",
	"sixty gateway --connect-timeout":     "nothing: a connection may take five seconds; --idle-timeout ends a request of which nothing moves",
	"sixty gateway --hash-tenants":        "name tenants by a header that holds no secret, with --tenant-header",
	"sixty gateway --header-timeout":      "--idle-timeout ends a request of which nothing moves, also before its answer begins",
	"sixty gateway --health-path":         "nothing: /health is asked, and any status below 500 is healthy, such as 404 of a server without it",
	"sixty gateway --knee":                "limit the servers themselves: --max-num-seqs and --max-num-queued-reqs of vLLM, or admission control of the router",
	"sixty gateway --max-concurrent":      "limit the servers themselves: --max-num-seqs and --max-num-queued-reqs of vLLM, or admission control of the router",
	"sixty gateway --max-queued":          "limit the servers themselves: --max-num-queued-reqs of vLLM, or admission control of the router",
	"sixty gateway --max-token-rate":      "limit tokens in a gateway that knows its clients, such as LiteLLM or Envoy AI Gateway",
	"sixty gateway --otlp":                "trace the servers (vLLM: --otlp-traces-endpoint); the gateway passes the trace context on",
	"sixty gateway --prefix-sticky":       "put a router that knows the servers' prefix caches behind the gateway, such as llm-d's or vLLM's",
	"sixty gateway --request-timeout":     "bound answers by max_tokens, or let clients set a timeout; --idle-timeout ends a request of which nothing moves",
	"sixty gateway --retries":             "nothing: a request that could not be sent is sent once more, and no other",
	"sixty generate openmetrics":          "sixty diagnose RECORDING --output html draws a recording, and sixty top RECORDING plays it",
	"sixty profile --folded":              "open the trace itself in speedscope.app or ui.perfetto.dev",
	"sixty profile --trim":                "open the trace itself in ui.perfetto.dev; --full lists its longest gaps",
	"sixty simulate --drop-too-large":     "leave the requests that are too large out of the trace, or bound the lengths: --prompt-tokens lognormal:800,1.2:1-4000",
	"sixty simulate --prefill-engines":    "sixty diagnose finds whether prefill or decode servers are short (pd-imbalance)",
	"sixty simulate --trace-format":       "a trace is CSV (arrival,prompt_tokens,output_tokens) or JSONL, which is told from the file; docs/bench.md says how others become one",
	"sixty simulate --transfer-rate":      "sixty diagnose finds whether prefill or decode servers are short (pd-imbalance)",
	"sixty tune --cpu":                    "give --gpu; the memory of servers on a CPU is not modelled",
	"sixty tune --dp":                     "--engine-args '--data-parallel-size N'",
	"sixty tune --enable-expert-parallel": "--engine-args '--enable-expert-parallel'",
	"sixty tune --load-test-args":         "test a server with the arguments that --engine-args has",
	"sixty tune --load-test-model":        "test the model itself",
	"sixty tune --pp":                     "--engine-args '--pipeline-parallel-size N'",
	"sixty tune --served-model":           "--engine-args 'vllm serve NAME'",
}

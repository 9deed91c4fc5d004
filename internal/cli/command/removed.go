package command

// removed says what to use in place of the commands and flags that were, by the words of the command
// line: "sixty VERB [COMMAND]" or "sixty VERB [COMMAND] --FLAG".
var removed = map[string]string{
	"sixty bench self-test":            "every result of sixty bench says under generator how late it sent and read; go test -bench Accuracy ./internal/load measures its error",
	"sixty generate openmetrics":       "sixty diagnose RECORDING --output html draws a recording, and sixty top RECORDING plays it",
	"sixty profile --folded":           "open the trace itself in speedscope.app or ui.perfetto.dev",
	"sixty profile --trim":             "open the trace itself in ui.perfetto.dev; --full lists its longest gaps",
	"sixty simulate --prefill-engines": "sixty diagnose finds whether prefill or decode servers are short (pd-imbalance)",
	"sixty simulate --trace-format":    "a trace is CSV (arrival,prompt_tokens,output_tokens) or JSONL, which is told from the file; docs/bench.md says how others become one",
	"sixty simulate --transfer-rate":   "it went with --prefill-engines",
}

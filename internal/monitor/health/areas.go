package health

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// An item is a row to be measured.
type item struct {
	signal     *indicator.Signal
	how        How
	lowIsWorst bool
	expr       string // replaces the signal's expression; may be ""
	title      string // replaces the signal's title; may be ""
}

// An area is a question of the person on call, with the items that answer it.
type area struct {
	id, title, asks string
	items           []item
}

// sevenAreas returns the areas of a report, in order.
func sevenAreas() []area {
	return []area{
		{"user-experience", "User experience", "Are first tokens fast enough, and do answers stream smoothly?",
			itemsOf(OfAll,
				indicator.TTFTP50, indicator.TTFTP95, indicator.TTFTP99, indicator.ITLP95,
				indicator.ITLP99, indicator.TPOTP95, indicator.E2EP95,
			)},
		{"offered-load", "Offered load", "How many requests came, and how many were rejected?", slices.Concat(
			itemsOf(Total, indicator.FirstTokens),
			itemsOf(PerSecond, indicator.FirstTokenRate, indicator.HTTPRate),
			itemsOf(Total, indicator.ServerErrCount),
			itemsOf(OfAll, indicator.ServerErrs, indicator.ClientErrs),
			itemsOf(Total, indicator.Abandoned),
		)},
		{"scheduler", "Scheduler pressure", "Do requests wait for the engine?", slices.Concat(
			itemsOf(OfAll, indicator.QueueTimeP95),
			itemsOf(Mean, indicator.Waiting, indicator.Running),
		)},
		{"memory", "Memory pressure", "Does the working set fit the KV cache?", slices.Concat(
			itemsOf(Mean, indicator.KVUsage),
			itemsOf(Total, indicator.Preemptions),
			[]item{{signal: indicator.PrefixHitRatio, how: OfAll, lowIsWorst: true}},
		)},
		{"work", "Useful work", "How many tokens were processed?", slices.Concat(
			itemsOf(PerSecond, indicator.PromptTokenRate, indicator.GenerationTokenRate, indicator.CompletionRate),
			itemsOf(OfAll, indicator.DecodeBatch),
		)},
		{"workload", "Workload shape", "Did the traffic change?", itemsOf(OfAll,
			indicator.PromptTokensP50, indicator.PromptTokensP99, indicator.OutputTokens, indicator.OutputTokensP95,
			indicator.MaxTokens, indicator.ComputedTokens, indicator.CutAnswers,
		)},
		{"infrastructure", "Infrastructure", "Were machines and processes stable?", slices.Concat(
			[]item{
				{signal: indicator.Up, how: Mean, lowIsWorst: true, expr: "avg(avg_over_time(up[5m]))"},
				{signal: indicator.Restarts, how: Total, expr: "sum(resets(vllm:generation_tokens_total[5m]))",
					title: "Engine restarts"},
			},
			itemsOf(Mean, indicator.FrontendCPU, indicator.ResidentMemory, indicator.GPUUtil, indicator.SMActive,
				indicator.GPUMemoryUsed, indicator.GPUPower),
			itemsOf(OfAll, indicator.GPUTemp),
			[]item{{signal: indicator.SMClockRatio, how: Mean, lowIsWorst: true}},
			itemsOf(OfAll, indicator.XID),
			itemsOf(Mean, indicator.NVLinkErrors, indicator.PCIeReplays),
		)},
	}
}

// answering counts the replicas that answer scrapes, for the cost.
var answering = item{signal: indicator.Up, how: PerSecond, expr: "sum(avg_over_time(up[5m]))"}

// itemsOf returns an item for each signal.
func itemsOf(how How, signals ...*indicator.Signal) []item {
	items := make([]item, len(signals))
	for i, s := range signals {
		items[i] = item{signal: s, how: how}
	}
	return items
}

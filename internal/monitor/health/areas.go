package health

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// An item is a row to be measured.
type item struct {
	signal *indicator.Signal
	how    How
	low    bool   // its worst moment has the lowest value
	expr   string // takes the place of the signal's
	title  string // "" for the signal's
}

// An area is a question of the person on call, with what answers it.
type area struct {
	id, title, asks string
	items           []item
}

// areas are the seven.
func areas() []area {
	return []area{
		{"user-experience", "User experience", "Are first tokens fast enough, and do answers stream smoothly?",
			each(OfAll,
				indicator.TTFTP50, indicator.TTFTP95, indicator.TTFTP99, indicator.ITLP95,
				indicator.ITLP99, indicator.TPOTP95, indicator.E2EP95,
			)},
		{"offered-load", "Offered load", "How many requests came, and how many were rejected?", slices.Concat(
			each(Total, indicator.FirstTokens),
			each(PerSecond, indicator.FirstTokenRate, indicator.HTTPRate),
			each(Total, indicator.ServerErrCount),
			each(OfAll, indicator.ServerErrs, indicator.ClientErrs),
			each(Total, indicator.Abandoned),
		)},
		{"scheduler", "Scheduler pressure", "Do requests wait for the engine?", slices.Concat(
			each(OfAll, indicator.QueueTimeP95),
			each(Mean, indicator.Waiting, indicator.Running),
		)},
		{"memory", "Memory pressure", "Does the working set fit the KV cache?", slices.Concat(
			each(Mean, indicator.KVUsage),
			each(Total, indicator.Preemptions),
			[]item{{signal: indicator.PrefixHitRatio, how: OfAll, low: true}},
		)},
		{"work", "Useful work", "How many tokens were processed?", slices.Concat(
			each(PerSecond, indicator.PromptTokenRate, indicator.GenerationTokenRate, indicator.CompletionRate),
			each(OfAll, indicator.DecodeBatch),
		)},
		{"workload", "Workload shape", "Did the traffic change?", each(OfAll,
			indicator.PromptTokensP50, indicator.PromptTokensP99, indicator.OutputTokens, indicator.OutputTokensP95,
			indicator.MaxTokens, indicator.ComputedTokens, indicator.CutAnswers,
		)},
		{"infrastructure", "Infrastructure", "Were machines and processes stable?", slices.Concat(
			[]item{
				{signal: indicator.Up, how: Mean, low: true, expr: "avg(avg_over_time(up[5m]))"},
				{signal: indicator.Restarts, how: Total, expr: "sum(resets(vllm:generation_tokens_total[5m]))",
					title: "Engine restarts"},
			},
			each(Mean, indicator.FrontendCPU, indicator.ResidentMemory, indicator.GPUUtil, indicator.SMActive,
				indicator.GPUMemoryUsed, indicator.GPUPower),
			each(OfAll, indicator.GPUTemp),
			[]item{{signal: indicator.SMClockRatio, how: Mean, low: true}},
			each(OfAll, indicator.XID),
			each(Mean, indicator.NVLinkErrors, indicator.PCIeReplays),
		)},
	}
}

// answering counts the replicas that answer their scrapes, for their cost.
var answering = item{signal: indicator.Up, how: PerSecond, expr: "sum(avg_over_time(up[5m]))"}

// each are quantities whose values are made in one way.
func each(how How, signals ...*indicator.Signal) []item {
	items := make([]item, len(signals))
	for i, s := range signals {
		items[i] = item{signal: s, how: how}
	}
	return items
}

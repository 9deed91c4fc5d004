package health

import (
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// An item is a row to be measured.
type item struct {
	signal *indicator.Signal
	how    How
	low    bool   // its worst moment is that of the lowest value
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
		{"user-experience", "User experience", "Are first tokens fast enough, and do answers stream smoothly?", []item{
			{signal: indicator.TTFTP50, how: OfAll},
			{signal: indicator.TTFTP95, how: OfAll},
			{signal: indicator.TTFTP99, how: OfAll},
			{signal: indicator.ITLP95, how: OfAll},
			{signal: indicator.ITLP99, how: OfAll},
			{signal: indicator.TPOTP95, how: OfAll},
			{signal: indicator.E2EP95, how: OfAll},
		}},
		{"offered-load", "Offered load", "How many requests came, and how many were rejected?", []item{
			{signal: indicator.FirstTokens, how: Total},
			{signal: indicator.FirstTokenRate, how: PerSecond},
			{signal: indicator.HTTPRate, how: PerSecond},
			{signal: indicator.ServerErrCount, how: Total},
			{signal: indicator.ServerErrs, how: OfAll},
			{signal: indicator.ClientErrs, how: OfAll},
			{signal: indicator.Abandoned, how: Total},
		}},
		{"scheduler", "Scheduler pressure", "Do requests wait for the engine?", []item{
			{signal: indicator.QueueTimeP95, how: OfAll}, {signal: indicator.Waiting, how: Mean}, {signal: indicator.Running, how: Mean},
		}},
		{"memory", "Memory pressure", "Does the working set fit the KV cache?", []item{
			{signal: indicator.KVUsage, how: Mean}, {signal: indicator.Preemptions, how: Total}, {signal: indicator.PrefixHitRatio, how: OfAll, low: true},
		}},
		{"work", "Useful work", "How many tokens were processed?", []item{
			{signal: indicator.PromptTokenRate, how: PerSecond},
			{signal: indicator.GenerationTokenRate, how: PerSecond},
			{signal: indicator.CompletionRate, how: PerSecond},
			{signal: indicator.DecodeBatch, how: OfAll},
		}},
		{"workload", "Workload shape", "Did the traffic change?", []item{
			{signal: indicator.PromptTokensP50, how: OfAll},
			{signal: indicator.PromptTokensP99, how: OfAll},
			{signal: indicator.OutputTokens, how: OfAll},
			{signal: indicator.OutputTokensP95, how: OfAll},
			{signal: indicator.MaxTokens, how: OfAll},
			{signal: indicator.ComputedTokens, how: OfAll},
			{signal: indicator.CutAnswers, how: OfAll},
		}},
		{"infrastructure", "Infrastructure", "Were machines and processes stable?", []item{
			{signal: indicator.Up, how: Mean, low: true, expr: "avg(avg_over_time(up[5m]))"},
			{signal: indicator.Restarts, how: Total, expr: "sum(resets(vllm:generation_tokens_total[5m]))", title: "Engine restarts"},
			{signal: indicator.FrontendCPU, how: Mean},
			{signal: indicator.ResidentMemory, how: Mean},
			{signal: indicator.GPUUtil, how: Mean},
			{signal: indicator.SMActive, how: Mean},
			{signal: indicator.GPUMemoryUsed, how: Mean},
			{signal: indicator.GPUPower, how: Mean},
			{signal: indicator.GPUTemp, how: OfAll},
			{signal: indicator.SMClockRatio, how: Mean, low: true},
			{signal: indicator.XID, how: OfAll},
			{signal: indicator.NVLinkErrors, how: Mean},
			{signal: indicator.PCIeReplays, how: Mean},
		}},
	}
}

// answering counts the replicas that answer their scrapes, for their cost.
var answering = item{signal: indicator.Up, how: PerSecond, expr: "sum(avg_over_time(up[5m]))"}

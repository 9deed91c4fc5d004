package health

import (
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// An item is a row to be measured.
type item struct {
	signal *indicator.Signal
	how    How
	// share makes it a share: the total of signal over that of share.
	share *indicator.Signal
	// low says that less is worse; neutral that neither is.
	low, neutral bool
	course       bool // is plotted
	// expr takes the place of the signal's, whose window is another one.
	expr  string
	title string // "" for the signal's
}

// An area is a question of the person on call, with what answers it.
type area struct {
	id, title, asks string
	items           []item
}

// areas are the eight.
func areas() []area {
	return []area{
		{"user-experience", "User experience", "Are first tokens fast enough, and do answers stream smoothly?", []item{
			{signal: indicator.TTFTP50, how: OfAll}, {signal: indicator.TTFTP95, how: OfAll, course: true}, {signal: indicator.TTFTP99, how: OfAll},
			{signal: indicator.ITLP95, how: OfAll, course: true}, {signal: indicator.ITLP99, how: OfAll}, {signal: indicator.TPOTP95, how: OfAll}, {signal: indicator.E2EP95, how: OfAll},
		}},
		{"offered-load", "Offered load", "How many requests came, and how many were rejected?", []item{
			{signal: indicator.FirstTokens, how: Total, neutral: true}, {signal: indicator.FirstTokenRate, how: PerSecond, neutral: true, course: true},
			{signal: indicator.HTTPRate, how: PerSecond, neutral: true}, {signal: indicator.ServerErrCount, how: Total},
			{signal: indicator.ServerErrs, how: Typical, share: indicator.ServerErrCount}, {signal: indicator.ClientErrs, how: Typical, share: indicator.ClientErrCount},
			{signal: indicator.Abandoned, how: Total},
		}},
		{"scheduler", "Scheduler pressure", "Do requests wait for the engine?", []item{
			{signal: indicator.QueueTimeP95, how: OfAll}, {signal: indicator.Waiting, how: Typical, course: true}, {signal: indicator.Running, how: Typical, neutral: true},
		}},
		{"memory", "Memory pressure", "Does the working set fit the KV cache?", []item{
			{signal: indicator.KVUsage, how: Typical, neutral: true, course: true}, {signal: indicator.Preemptions, how: Total},
			{signal: indicator.PrefixHitRatio, how: Typical, low: true},
		}},
		{"work", "Useful work", "How many tokens were processed?", []item{
			{signal: indicator.PromptTokenRate, how: PerSecond, neutral: true}, {signal: indicator.GenerationTokenRate, how: PerSecond, neutral: true, course: true},
			{signal: indicator.CompletionRate, how: PerSecond, neutral: true}, {signal: indicator.DecodeBatch, how: Typical, neutral: true},
		}},
		{"workload", "Workload shape", "Did the traffic change?", []item{
			{signal: indicator.PromptTokensP50, how: OfAll, neutral: true}, {signal: indicator.PromptTokensP99, how: OfAll, neutral: true},
			{signal: indicator.OutputTokens, how: Typical, neutral: true}, {signal: indicator.OutputTokensP95, how: OfAll, neutral: true},
			{signal: indicator.MaxTokens, how: Typical, neutral: true}, {signal: indicator.ComputedTokens, how: Typical, neutral: true},
			{signal: indicator.CutAnswers, how: Typical, neutral: true},
		}},
		{"infrastructure", "Infrastructure", "Were machines and processes stable?", []item{
			{signal: indicator.Up, how: Typical, low: true, expr: "avg by (instance) (avg_over_time(up[5m]))"},
			{signal: indicator.Restarts, how: Total, expr: "sum by (instance, model_name) (resets(vllm:generation_tokens_total[5m]))", title: "Engine restarts"}, {signal: indicator.FrontendCPU, how: Typical, neutral: true},
			{signal: indicator.ResidentMemory, how: Typical}, {signal: indicator.GPUUtil, how: Typical, neutral: true}, {signal: indicator.SMActive, how: Typical, neutral: true},
			{signal: indicator.GPUMemoryUsed, how: Typical, neutral: true}, {signal: indicator.GPUPower, how: Typical, neutral: true}, {signal: indicator.GPUTemp, how: Typical, neutral: true},
			{signal: indicator.SMClockRatio, how: Typical, low: true}, {signal: indicator.XID, how: Typical}, {signal: indicator.NVLinkErrors, how: Typical}, {signal: indicator.PCIeReplays, how: Typical},
		}},
		{"operations", "Operations", "Is it monitored, with which objectives, and how were incidents handled?", nil},
	}
}

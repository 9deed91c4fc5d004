package workload

import (
	"fmt"

	"github.com/spf13/pflag"
)

// Parts are the kinds of workload that a verb takes, beside made-up requests at a rate.
type Parts uint8

const (
	ClosedLoops Parts = 1 << iota
	Traces
	ScaledRates
	NoUsualLengths // lengths must be given if none are measured
)

// Given records which flags were given, even if their value is the default.
func (a *Asked) Given(changed func(flag string) bool) {
	a.SetCV, a.SetConcurrency, a.SetPrefixShare = changed("cv"), changed("concurrency"), changed("prefix-share")
}

// AddFlags adds the flags that describe a workload, with the same names and meaning in bench, simulate and tune. The
// present value of Requests is its default.
func (a *Asked) AddFlags(s *pflag.FlagSet, parts Parts) {
	a.RateScale, a.Speed = 1, 1
	s.StringVar(&a.Rate, "rate", "",
		"requests a second: `10`, ramp:1-50:2m or steps:5,10,20:30s (default: as measured)")
	s.Float64Var(&a.CV, "cv", 1, "coefficient of variation of interarrival times: 0 even, 1 Poisson, above 1 bursty")
	if parts&ScaledRates != 0 {
		s.Float64Var(&a.RateScale, "rate-scale", 1, "multiply the measured or given rate")
		s.Float64Var(&a.PromptScale, "prompt-scale", 1, "multiply the lengths of prompts")
		s.Float64Var(&a.OutputScale, "output-scale", 1, "multiply the lengths of answers")
	}
	if parts&ClosedLoops != 0 {
		s.IntVar(&a.Concurrency, "concurrency", 0,
			"closed loop: number of clients, which send the next request after each answer; 0: none")
	}
	if parts&Traces != 0 {
		s.StringVar(&a.Trace, "trace", "", "replay a trace `file`, CSV or JSONL")
		s.Float64Var(&a.Speed, "speed", 1, "speed of a replay")
	}
	prompt, output := fmt.Sprintf(", else %d", UsualPrompt), fmt.Sprintf(", else %d", UsualOutput)
	if parts&NoUsualLengths != 0 {
		prompt, output = "", ""
	}
	s.StringVar(&a.Prompt, "prompt-tokens", "",
		"prompt `length`: 512, uniform:100-900, normal:512,128 or lognormal:800,1.2 (default: as measured"+prompt+")")
	s.StringVar(&a.Output, "output-tokens", "",
		"answer `length`, written like --prompt-tokens (default: as measured"+output+")")
	s.IntVar(&a.SystemTokens, "system-tokens", 0, "tokens of a system prompt shared by all prompts")
	s.Float64Var(&a.PrefixShare, "prefix-share", 0,
		"share of each prompt that is common to its group, 0 to 1 (default: as measured)")
	s.IntVar(&a.PrefixGroups, "prefix-groups", 1, "number of such groups")
	s.IntVar(&a.Requests, "requests", a.Requests, "stop after this many requests")
	s.DurationVar(&a.Duration, "duration", 0, "stop after this time of traffic")
	s.Uint64Var(&a.Seed, "seed", 1, "random seed; the same seed gives the same requests")
}

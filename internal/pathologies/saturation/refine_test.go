package saturation

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	growing := catalogtest.Readings{
		indicator.FirstTokenRate: 4, indicator.WaitingGrowth: 2, indicator.Waiting: 60,
		indicator.PromptTokens: 500, indicator.GenerationTokenRate: 400,
	}
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"the queue grows": {
			// ceil(6 / 4 / 0.8) = 2 replicas serve 8/s: 60 / (8 − 6) = 30 s.
			View: catalogtest.View{Present: growing, Limits: map[string]float64{"ttft_objective": 0.5}},
			Want: []string{"6 req/s arrive and 4 req/s are served: 60 requests wait", "takes 15 s", "Add 1 replica", "60 / (2 × 4 − 6) = 30 s", "change: --max-num-queued-reqs →2", "bound by decode"},
		},
		"a stricter admission limit stays": {
			View: catalogtest.View{Present: growing}, Args: "--max-num-queued-reqs 5",
			Want: []string{"--max-num-queued-reqs 5 bounds the queue already"},
			Not:  []string{"change:"},
		},
		"a queue that stands is a server at its capacity": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.FirstTokenRate: 4, indicator.Waiting: 10}},
			Want: []string{"at its capacity of 4 req/s", "Add 1 replica"},
			Not:  []string{"bound by"},
		},
		"adapters wait for a slot": {
			View: catalogtest.View{Present: catalogtest.Readings{
				indicator.FirstTokenRate: 3, indicator.Waiting: 60, indicator.DeferredShare: 0.9, indicator.QueueAge: 20,
			}},
			Args: "--max-loras 1 --adapters 3",
			Want: []string{"passes over 90 % of them: 3 adapters share one LoRA slot", "change: --max-loras 1→3"},
			Not:  []string{"Add 1 replica", "Limit the queue"},
		},
		"something else holds them back": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.Waiting: 60, indicator.DeferredShare: 0.9}},
			Args: "--max-loras 3 --adapters 2",
			Want: []string{"Find what they wait for"},
			Not:  []string{"change:"},
		},
		"nobody was served": {
			Want: []string{"capacity cannot be told"}, Not: []string{"fix:"},
		},
	})
}

package workloadshift

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"longer prompts and more requests": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.PromptTokens: 400, indicator.OutputTokens: 50, indicator.FirstTokenRate: 4, indicator.PrefixHitRatio: 0.2},
				Past:    catalogtest.Readings{indicator.PromptTokens: 100, indicator.OutputTokens: 50, indicator.FirstTokenRate: 2, indicator.PrefixHitRatio: 0.7},
			},
			// 2× the rate × 4× the tokens
			Want: []string{"prompts are 4× as long", "requests arrive 2× as often", "the prefix cache hit ratio fell", "at most 8× as many"},
			Not:  []string{"answers are", "lower max_tokens"},
		},
		"longer prompts, which more replicas compute no sooner": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.ComputedTokens: 1300, indicator.FirstTokenRate: 2, indicator.PrefillTimeMean: 0.3},
				Past:    catalogtest.Readings{indicator.ComputedTokens: 40, indicator.FirstTokenRate: 2, indicator.PrefillTimeMean: 0.01},
			},
			Args: "--max-num-batched-tokens 32",
			Want: []string{"not a prompt's own prefill", "change: --max-num-batched-tokens 32→2048", "Ask the clients why prompts grew"},
			Not:  []string{"restore the normal latency"},
		},
		"longer answers": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.OutputTokens: 150, indicator.FirstTokenRate: 2},
				Past:    catalogtest.Readings{indicator.OutputTokens: 50, indicator.FirstTokenRate: 2},
			},
			Want: []string{"answers are 3× as long", "at most 3× as many", "lower max_tokens"},
		},
	})
}

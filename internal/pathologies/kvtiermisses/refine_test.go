package kvtiermisses

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	past := catalogtest.Readings{indicator.TierHitRatio: 0.8, indicator.ComputedTokens: 100}
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"the store is gone": {
			View: catalogtest.View{Past: past, Present: catalogtest.Readings{
				indicator.TierHitRatio: 0, indicator.ComputedTokens: 900, indicator.PromptTokens: 1000, indicator.PrefillTimePerToken: 1e-3, indicator.ServingAge: 1e5,
			}},
			Want: []string{"finds 0 %", "800 tokens less, 800 ms", "Is the store there", "PYTHONHASHSEED"},
			Not:  []string{"Make the tier larger"},
		},
		"it is too small": {
			View: catalogtest.View{Past: past, Present: catalogtest.Readings{indicator.TierHitRatio: 0.2, indicator.ServingAge: 1e5}},
			Want: []string{"Make the tier larger", "25 % of its usual hits"},
			Not:  []string{"Is the store there"},
		},
		"it began empty": {
			View: catalogtest.View{Past: past, Present: catalogtest.Readings{indicator.TierHitRatio: 0, indicator.ServingAge: 60}},
			Want: []string{"started 60 s ago"},
			Not:  []string{"Is the store there"},
		},
	})
}

package prefilllost

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"nothing comes from elsewhere": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.ComputedTokens: 1000, indicator.TransfersPerRequest: 0, indicator.TTFTP95: 2},
				Past:    catalogtest.Readings{indicator.ComputedTokens: 1, indicator.TransfersPerRequest: 1},
			},
			Want: []string{"1000 tokens", "no longer does"},
		},
	})
}

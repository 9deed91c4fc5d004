package severedegradation

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"half of the capacity is lost": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.DecodeBatch: 4, indicator.FirstTokenRate: 5, indicator.WaitingGrowth: 3, indicator.Waiting: 20},
				Past:    catalogtest.Readings{indicator.ITLP50: 0.02, indicator.DecodeBatch: 4},
			},
			// 5 × 0.8 = 4/s of 8/s; 20 / (5 − 4) = 20 s
			Want: []string{"About 50 % of the capacity is lost", "Admit at most 4 req/s", "= 50 % of what arrives", "drains in 20 / (5 − 4) = 20 s"},
		},
		"without rates the load is moved away unsized": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.ITLP50: 0.04}},
			Want: []string{"move traffic to other replicas"},
			Not:  []string{"capacity is lost", "req/s"},
		},
	})
}

package slowdecode

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"a slow machine at the same batch": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.DecodeBatch: 4},
				Past:    catalogtest.Readings{indicator.ITLP50: 0.02, indicator.DecodeBatch: 4},
				Limits:  map[string]float64{"itl_objective": 0.03},
			},
			Want: []string{"factor of 2 is not the load", "GPU clocks are not known"},
			Not:  []string{"--max-num-seqs"},
		},
		"the batch explains it and the objective sizes it": {
			// 1.57 = 2^0.65; floor(16 × 30 / 40) = 12
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.DecodeBatch: 16},
				Past:    catalogtest.Readings{indicator.ITLP50: 0.026, indicator.DecodeBatch: 8},
				Limits:  map[string]float64{"itl_objective": 0.03},
			},
			Args: "--max-num-seqs 64",
			Want: []string{"change: --max-num-seqs 64→12"},
		},
		"lowered clocks and a busy API server are named first": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.SMClockRatio: 0.5, indicator.FrontendCPU: 0.99}},
			Want: []string{"steps take up to 2× as long", "change: --api-server-count →2"},
			Not:  []string{"GPU clocks are not known"},
		},
	})
}

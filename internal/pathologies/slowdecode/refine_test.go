package slowdecode

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/indicator"
)

func TestRefine(t *testing.T) {
	cases := map[string]struct {
		view      catalogtest.View
		args      string
		want, not []string
	}{
		"a slow machine at the same batch": {
			view: catalogtest.View{
				Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.DecodeBatch: 4},
				Past:    catalogtest.Readings{indicator.ITLP50: 0.02, indicator.DecodeBatch: 4},
				Limits:  map[string]float64{"itl_objective": 0.03},
			},
			want: []string{"factor of 2 is not the load", "GPU clocks are not known"},
			not:  []string{"--max-num-seqs"},
		},
		"the batch explains it and the objective sizes it": {
			// 1.57 = 2^0.65; floor(16 × 30 / 40) = 12
			view: catalogtest.View{
				Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.DecodeBatch: 16},
				Past:    catalogtest.Readings{indicator.ITLP50: 0.026, indicator.DecodeBatch: 8},
				Limits:  map[string]float64{"itl_objective": 0.03},
			},
			args: "--max-num-seqs 64",
			want: []string{"change: --max-num-seqs 64→12"},
		},
		"lowered clocks and a busy API server are named first": {
			view: catalogtest.View{Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.SMClockRatio: 0.5, indicator.FrontendCPU: 0.99}},
			want: []string{"steps take up to 2× as long", "change: --api-server-count →2"},
			not:  []string{"GPU clocks are not known"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := catalogtest.Text(catalogtest.Refine(t, Pathology, c.view, c.args))
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("want %q in\n%s", w, got)
				}
			}
			for _, w := range c.not {
				if strings.Contains(got, w) {
					t.Errorf("do not want %q in\n%s", w, got)
				}
			}
		})
	}
}

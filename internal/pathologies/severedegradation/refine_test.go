package severedegradation

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
		"half of the capacity is lost": {
			view: catalogtest.View{
				Present: catalogtest.Readings{indicator.ITLP50: 0.04, indicator.DecodeBatch: 4, indicator.FirstTokenRate: 5, indicator.WaitingGrowth: 3, indicator.Waiting: 20},
				Past:    catalogtest.Readings{indicator.ITLP50: 0.02, indicator.DecodeBatch: 4},
			},
			// 5 × 0.8 = 4/s of 8/s; 20 / (5 − 4) = 20 s
			want: []string{"About 50 % of the capacity is lost", "Admit at most 4 req/s", "= 50 % of what arrives", "drains in 20 / (5 − 4) = 20 s"},
		},
		"without rates the load is moved away unsized": {
			view: catalogtest.View{Present: catalogtest.Readings{indicator.ITLP50: 0.04}},
			want: []string{"move traffic to other replicas"},
			not:  []string{"capacity is lost", "req/s"},
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

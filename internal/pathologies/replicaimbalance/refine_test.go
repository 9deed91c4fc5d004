package replicaimbalance

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
		"nine requests in ten go to one of two": {
			view: catalogtest.View{Present: catalogtest.Readings{indicator.Replicas: 2, indicator.ArrivalShare: 1.8, indicator.LoadShare: 1.9}},
			want: []string{"One of 2 replicas gets 90 % of the traffic", "give this replica 55.6 % of its present weight"},
		},
		"a rank of one server is full": {
			view: catalogtest.View{Present: catalogtest.Readings{indicator.Replicas: 1, indicator.EngineSpread: 1.9}},
			want: []string{"One data-parallel rank holds 1.9×"},
			not:  []string{"replicas gets"},
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

package replicaimbalance

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"nine requests in ten go to one of two": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.Replicas: 2, indicator.ArrivalShare: 1.8, indicator.LoadShare: 1.9}},
			Want: []string{"One of 2 replicas gets 90 % of the traffic", "give this replica 55.6 % of its present weight"},
		},
		"a rank of one server is full": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.Replicas: 1, indicator.EngineSpread: 1.9}},
			Want: []string{"One data-parallel rank holds 1.9×"},
			Not:  []string{"replicas gets"},
		},
	})
}

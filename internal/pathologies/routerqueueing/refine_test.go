package routerqueueing

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"more arrives than the servers do": {
			View: catalogtest.View{Present: catalogtest.Readings{
				indicator.GatewayHeld: 40, indicator.GatewayHeldFor: 20, indicator.GatewayOffered: 4, indicator.GatewayEnded: 2, indicator.GatewayRejected: 5,
			}},
			Want: []string{"40 requests wait at the router", "through in 20 s", "refused 5 requests", "short by a factor of 2"},
		},
		"some waited, and nobody does now": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.GatewayQueueP95: 1.5, indicator.GatewayHeld: 0}},
			Want: []string{"one in twenty for longer than 1.5 s", "queueDepthThreshold"},
			Not:  []string{"short by", "refused"},
		},
	})
}

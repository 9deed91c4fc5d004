package decodelost

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"blocks are held": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.HeldIdle: 0.98, indicator.LeasesExpired: 12}},
			Want: []string{"98 % of the KV cache is held"},
		},
		"leases ended": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.HeldIdle: 0, indicator.LeasesExpired: 64}},
			Want: []string{"64 requests was never fetched"},
		},
	})
}

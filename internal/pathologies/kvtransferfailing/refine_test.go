package kvtransferfailing

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"requests end with errors": {
			View: catalogtest.View{Present: catalogtest.Readings{
				indicator.TransferFailShare: 0.5, indicator.TransfersFailed: 30, indicator.EngineErrors: 2, indicator.TTFTP95: 7,
			}},
			Want: []string{"50 % of the KV transfers fail (30 in the window)", "2 requests a second", "recompute"},
		},
		"they are computed here": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.TransferFailShare: 0.1, indicator.TransfersFailed: 5}},
			Want: []string{"computed here"},
			Not:  []string{"end with an error"},
		},
	})
}

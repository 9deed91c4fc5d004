package corruptedoutputs

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"half of the answers": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.CorruptedRequests: 60, indicator.CorruptedShare: 0.5}},
			Want: []string{"of 60 requests (50 %)", "diagnostics on its GPU"},
		},
	})
}

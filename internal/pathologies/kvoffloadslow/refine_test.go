package kvoffloadslow

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"a fraction of the bus": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.OffloadPace: 4, indicator.OffloadBytes: 1 << 30},
				Past:    catalogtest.Readings{indicator.OffloadPace: 0.05},
			},
			Want: []string{"takes 4 s (normally 50 ms) to load", "256 MiB/s", "1 GiB were loaded"},
		},
	})
}

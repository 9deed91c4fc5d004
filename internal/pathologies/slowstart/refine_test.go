package slowstart

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"four times as long": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.StartTook: 400, indicator.StartAgainst: 4}},
			Want: []string{"took 6.67 min to start, 4× the quickest", "5 min of it", "torch.compile takes", "--enforce-eager"},
		},
	})
}

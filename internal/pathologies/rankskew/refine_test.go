package rankskew

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"one of four": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.RankSkew: 2.5}},
			Want: []string{"has 2.5×", "some 40 %", "--enable-eplb"},
		},
	})
}

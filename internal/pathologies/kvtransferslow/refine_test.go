package kvtransferslow

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"half of the wait is the link": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.TransferTime: 0.5, indicator.TransferBytes: 50e6, indicator.TTFTMean: 1},
				Past:    catalogtest.Readings{indicator.TransferTime: 0.02},
			},
			Want: []string{"takes 500 ms", "50 %"},
		},
	})
}

package misrouting

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"a server is gone": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.PickerBlindNow: 20, indicator.PickerUnanswered: 0.6}},
			Want: []string{"cannot read the metrics of a server", "20 looks a second fail", "60 %"},
			Not:  []string{"count as full"},
		},
		"with flow control": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.PickerBlindNow: 40, indicator.PickerStale: 2}},
			Want: []string{"count as full: 2 of them"},
		},
	})
}

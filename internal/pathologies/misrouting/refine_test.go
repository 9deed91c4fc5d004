package misrouting

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"a server is gone": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.PickerBlind: 20}},
			Want: []string{"cannot read the metrics of a server", "20 looks a second fail"},
			Not:  []string{"counts them as full"},
		},
		"with flow control": {
			View: catalogtest.View{Present: catalogtest.Readings{indicator.PickerStale: 2}},
			Want: []string{"load of 2 of its servers", "counts them as full"},
		},
	})
}

package pdimbalance

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"too few read": {
			View: catalogtest.View{Present: catalogtest.Readings{
				indicator.PrefillServers: 2, indicator.DecodeServers: 4, indicator.PrefillQueue: 9, indicator.DecodeQueue: 0, indicator.DecodeUsage: 0.2, indicator.PrefillBusy: 3,
			}},
			Want: []string{"queue on the prefill servers, 9 on each", "Run 4 prefill and 2 decode servers in place of 2 and 4", "Add a prefill server"},
		},
		"too few write": {
			View: catalogtest.View{Present: catalogtest.Readings{
				indicator.PrefillServers: 3, indicator.DecodeServers: 2, indicator.PrefillQueue: 0, indicator.DecodeQueue: 5, indicator.DecodeUsage: 0.9, indicator.PrefillBusy: 0.2,
			}},
			Want: []string{"queue on the decode servers", "Run 1 prefill and 4 decode servers in place of 3 and 2"},
		},
		"a pair has nothing to move": {
			View: catalogtest.View{Present: catalogtest.Readings{
				indicator.PrefillServers: 1, indicator.DecodeServers: 1, indicator.PrefillQueue: 9, indicator.DecodeUsage: 0.2,
			}},
			Want: []string{"Add a prefill server"},
			Not:  []string{"Run ", "Move "},
		},
	})
}

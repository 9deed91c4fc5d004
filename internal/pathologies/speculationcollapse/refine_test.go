package speculationcollapse

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"no drafts any more": {
			View: catalogtest.View{
				Present: catalogtest.Readings{indicator.SpeculationShare: 0, indicator.TPOTMean: 0.02, indicator.SpeculationDrafts: 0},
				Past:    catalogtest.Readings{indicator.SpeculationShare: 0.8, indicator.TPOTMean: 0.01},
			},
			Want: []string{"2× as long as normal", "No drafts are made", "--speculative-config"},
			Not:  []string{"it loses as soon"},
		},
		"drafts that are refused": {
			View: catalogtest.View{Present: catalogtest.Readings{
				indicator.SpeculationShare: 0.02, indicator.SpeculationDrafts: 40, indicator.SpeculationAccepted: 0.01, indicator.SpeculationLength: 1.05,
			}},
			Want: []string{"gives 1.05 tokens", "more than 1.05 times as long"},
			Not:  []string{"No drafts are made"},
		},
	})
}

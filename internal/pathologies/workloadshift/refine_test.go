package workloadshift

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/indicator"
)

func TestRefine(t *testing.T) {
	cases := map[string]struct {
		view      catalogtest.View
		args      string
		want, not []string
	}{
		"longer prompts and more requests": {
			view: catalogtest.View{
				Present: catalogtest.Readings{indicator.PromptTokens: 400, indicator.OutputTokens: 50, indicator.FirstTokenRate: 4, indicator.PrefixHitRatio: 0.2},
				Past:    catalogtest.Readings{indicator.PromptTokens: 100, indicator.OutputTokens: 50, indicator.FirstTokenRate: 2, indicator.PrefixHitRatio: 0.7},
			},
			// 2× the rate × 4× the tokens
			want: []string{"prompts are 4× as long", "requests arrive 2× as often", "the prefix cache hit ratio fell", "at most 8× as many"},
			not:  []string{"answers are", "lower max_tokens"},
		},
		"longer answers": {
			view: catalogtest.View{
				Present: catalogtest.Readings{indicator.OutputTokens: 150, indicator.FirstTokenRate: 2},
				Past:    catalogtest.Readings{indicator.OutputTokens: 50, indicator.FirstTokenRate: 2},
			},
			want: []string{"answers are 3× as long", "at most 3× as many", "lower max_tokens"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := catalogtest.Text(catalogtest.Refine(t, Pathology, c.view, c.args))
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("want %q in\n%s", w, got)
				}
			}
			for _, w := range c.not {
				if strings.Contains(got, w) {
					t.Errorf("do not want %q in\n%s", w, got)
				}
			}
		})
	}
}

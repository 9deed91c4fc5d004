package saturation

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	growing := catalogtest.Readings{
		indicator.FirstTokenRate: 4, indicator.WaitingGrowth: 2, indicator.Waiting: 60,
		indicator.PromptTokens: 500, indicator.GenerationTokenRate: 400,
	}
	cases := map[string]struct {
		view catalogtest.View
		args string
		want []string
		not  []string
	}{
		"the queue grows": {
			// ceil(6 / 4 / 0.8) = 2 replicas serve 8/s: 60 / (8 − 6) = 30 s.
			view: catalogtest.View{Present: growing, Limits: map[string]float64{"ttft_objective": 0.5}},
			want: []string{"6 req/s arrive and 4 req/s are served: 60 requests wait", "takes 15 s", "Add 1 replica", "60 / (2 × 4 − 6) = 30 s", "change: --max-num-queued-reqs →2", "bound by decode"},
		},
		"a stricter admission limit stays": {
			view: catalogtest.View{Present: growing}, args: "--max-num-queued-reqs 5",
			want: []string{"--max-num-queued-reqs 5 bounds the queue already"},
			not:  []string{"change:"},
		},
		"a queue that stands is a server at its capacity": {
			view: catalogtest.View{Present: catalogtest.Readings{indicator.FirstTokenRate: 4, indicator.Waiting: 10}},
			want: []string{"at its capacity of 4 req/s", "Add 1 replica"},
			not:  []string{"bound by"},
		},
		"adapters wait for a slot": {
			view: catalogtest.View{Present: catalogtest.Readings{
				indicator.FirstTokenRate: 3, indicator.Waiting: 60, indicator.DeferredShare: 0.9, indicator.QueueAge: 20,
			}},
			args: "--max-loras 1 --adapters 3",
			want: []string{"passes over 90 % of them: 3 adapters share one LoRA slot", "change: --max-loras 1→3"},
			not:  []string{"Add 1 replica", "Limit the queue"},
		},
		"something else holds them back": {
			view: catalogtest.View{Present: catalogtest.Readings{indicator.Waiting: 60, indicator.DeferredShare: 0.9}},
			args: "--max-loras 3 --adapters 2",
			want: []string{"Find what they wait for"},
			not:  []string{"change:"},
		},
		"nobody was served": {
			want: []string{"capacity cannot be told"}, not: []string{"fix:"},
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

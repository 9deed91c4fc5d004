package concurrencylimit

import (
	"maps"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// held is a batch of 8 behind which 12 requests wait: 2 req/s are served and 1 req/s joins
// the queue, each taking 1 s of prefill and 3 s of decode.
var held = catalogtest.Readings{
	indicator.RunningPeak: 8, indicator.Running: 8, indicator.Waiting: 12, indicator.WaitingFloor: 10, indicator.KVUsagePeak: 0.2, indicator.KVUsage: 0.2,
	indicator.FirstTokenRate: 2, indicator.WaitingGrowth: 1, indicator.PrefillTimeMean: 1, indicator.DecodeTimeMean: 3, indicator.ITLP50: 0.02,
}

func with(change catalogtest.Readings) catalogtest.Readings {
	r := maps.Clone(held)
	maps.Copy(r, change)
	return r
}

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"the limit is inferred and the cache sizes the batch": {
			// 3/s × 4 s = 12; decode stretched by (12/8)^0.65 to 3.9 s; 3 × 4.9 / 0.8 = 19;
			// the cache holds floor(8 × 0.85 / 0.2) = 34, and 32 are four times eight.
			View: catalogtest.View{Present: held},
			Want: []string{"never more than 8 ran while requests waited", "= 19", "(8 × 0.85 / 0.2) = 34", "change: --max-num-seqs 8→32"},
		},
		"the limit is configured": {
			View: catalogtest.View{Present: held}, Args: "--max-num-seqs 10",
			Want: []string{"change: --max-num-seqs 10→34", "(--engine-args)"},
		},
		"sixteen seats fill a third of the cache, and forty clients wait by design": {
			// What is in flight hardly changes: 12 arrive and 12 are served.
			View: catalogtest.View{Present: with(catalogtest.Readings{
				indicator.RunningPeak: 16, indicator.Running: 16, indicator.Waiting: 24, indicator.WaitingGrowth: 0, indicator.KVUsage: 0.35, indicator.KVUsagePeak: 0.37,
				indicator.FirstTokenRate: 12, indicator.PrefillTimeMean: 0.01, indicator.DecodeTimeMean: 1.2,
			})},
			Args: "--max-num-seqs 16",
			Want: []string{"change: --max-num-seqs 16→38"},
		},
		"the KV cache bounds the batch": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.KVUsage: 0.5})},
			Want: []string{"floor(8 × 0.85 / 0.5) = 13", "change: --max-num-seqs 8→13"},
		},
		"the inter-token objective bounds the batch": {
			// floor(8 × (30/20)^(1/0.65)) = 14
			View: catalogtest.View{Present: held, Limits: map[string]float64{"itl_objective": 0.03}},
			Want: []string{"the ITL objective 30 ms (slo) bounds it", "change: --max-num-seqs 8→14"},
		},
		"an objective that is missed already asks for replicas": {
			View: catalogtest.View{Present: held, Limits: map[string]float64{"itl_objective": 0.01}},
			Want: []string{"fix: Add a replica"},
		},
		"a queue that stands is taken in whole where the cache's room is not known": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.WaitingGrowth: 0, indicator.PrefillTimeMean: 0.1, indicator.DecodeTimeMean: 2, indicator.KVUsage: 0})},
			Want: []string{"change: --max-num-seqs 8→20"},
		},
		"the limit cannot be known": {
			View: catalogtest.View{}, Want: []string{"--engine-args"},
		},
	})
}

package kvcachethrashing

import (
	"maps"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var thrashing = catalogtest.Readings{
	indicator.PromptTokens: 300, indicator.OutputTokens: 200, indicator.Running: 10, indicator.Waiting: 6,
	indicator.RunningPeak: 16, indicator.Preemptions: 40, indicator.PreemptionsPerRequest: 0.8,
	indicator.KVUsage: 0.93, indicator.KVUsagePeak: 1, indicator.WaitingFloor: 4,
}

func with(change catalogtest.Readings) catalogtest.Readings {
	r := maps.Clone(thrashing)
	maps.Copy(r, change)
	return r
}

// Without a prediction what cannot hurt comes first: more memory before fewer seats for
// clients that queue already, and an override before everything.
func TestWhatCannotHurtComesFirst(t *testing.T) {
	for args, first := range map[string]string{
		"--num-gpu-blocks 200 --block-size 16 --max-num-seqs 64 --gpu-memory-utilization 0.9":                               "Keep the KV cache in 8 bits",
		"--num-gpu-blocks 200 --block-size 16 --max-num-seqs 64 --kv-cache-dtype fp8 --gpu-memory-utilization 0.9":          "Raise --gpu-memory-utilization",
		"--num-gpu-blocks 200 --num-gpu-blocks-override 200 --block-size 16 --max-num-seqs 64 --gpu-memory-utilization 0.9": "Remove --num-gpu-blocks-override",
	} {
		p := catalogtest.Refine(t, Pathology, catalogtest.View{Present: thrashing}, args)
		if !strings.HasPrefix(p.Fixes[0].Summary, first) {
			t.Errorf("%s: first %q, want %q", args, p.Fixes[0].Summary, first)
		}
		hurts := false
		for _, f := range p.Fixes {
			if hurts && !f.MayHurt {
				t.Errorf("%s: %q comes after one that may hurt", args, f.Summary)
			}
			hurts = hurts || f.MayHurt
		}
	}
}

func TestRefine(t *testing.T) {
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"blocks and limit are known": {
			View: catalogtest.View{Present: thrashing},
			Args: "--num-gpu-blocks 200 --block-size 16 --max-num-seqs 64 --gpu-memory-utilization 0.9 --kv-cache-dtype auto",
			// 300 + 200/2 = 400 are held on average, with half a block 408;
			// floor(3200 × 0.85 / 408) = 6; needed = 16 × 400 / 0.85 = 7529 tokens.
			Want: []string{"change: --max-num-seqs 64→6", "needed = 16 × 400 / 0.85 = 7529 tokens", "ceil(7529 / 3200) = 3", "--gpu-memory-utilization 0.9→0.93", "--kv-cache-dtype auto→fp8"},
		},
		"one of a fleet of six, with its share of the load": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.Replicas: 6, indicator.ArrivalShare: 1})},
			Args: "--num-gpu-blocks 200 --block-size 16",
			Want: []string{"ceil(7529 / 3200) = 3", "Add 12 replicas to the 6 of now"},
			Not:  []string{"Run 3 replicas"},
		},
		"one of a fleet of six that gets three times its share": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.Replicas: 6, indicator.ArrivalShare: 3})},
			Args: "--num-gpu-blocks 200 --block-size 16",
			Want: []string{"Spread the load evenly over the 6 replicas"},
		},
		"the limit is not known, only that 16 ran": {
			View: catalogtest.View{Present: thrashing},
			Args: "--num-gpu-blocks 200 --block-size 16",
			Want: []string{"change: --max-num-seqs →6", "at least 16 (inferred"},
		},
		"a hybrid model's capacity is not its blocks": {
			View: catalogtest.View{Present: thrashing},
			Args: "--num-gpu-blocks 200 --block-size 16 --kv-cache-size-tokens 6000",
			Want: []string{"floor(6000 × 0.85 / 400) = 12", "not 200 blocks × 16 tokens"},
		},
		"one sequence is longer than the cache": {
			View: catalogtest.View{Present: thrashing},
			Args: "--num-gpu-blocks 10 --block-size 16 --max-num-seqs 8",
			Want: []string{"change: --max-num-seqs 8→1"},
		},
		"without the cache's size the occupancy tells": {
			View: catalogtest.View{Present: thrashing},
			Want: []string{"change: --max-num-seqs →9"}, // floor(10 × 0.85 / 0.93)
		},
		"the mean promises room that evictions disprove": {
			View: catalogtest.View{Present: thrashing},
			Args: "--num-gpu-blocks 2000 --block-size 16",
			Want: []string{"change: --max-num-seqs →8"}, // floor(10 × 0.85)
		},
		"what is on already is not proposed": {
			View: catalogtest.View{Present: thrashing},
			Args: "--num-gpu-blocks 200 --block-size 16 --max-num-seqs 5 --kv-cache-dtype fp8_e4m3 --gpu-memory-utilization 0.96 --watermark 0.1",
			Want: []string{"--max-num-seqs is 5 already"},
			Not:  []string{"change: --max-num-seqs", "change: --kv-cache-dtype", "change: --gpu-memory-utilization", "change: --watermark"},
		},
		"an override is removed rather than memory added": {
			View: catalogtest.View{Present: thrashing},
			Args: "--num-gpu-blocks 200 --num-gpu-blocks-override 200 --gpu-memory-utilization 0.9",
			Want: []string{"change: --num-gpu-blocks-override 200→"},
			Not:  []string{"change: --gpu-memory-utilization"},
		},
		"answers that differ are held for longer": {
			// ln(2) = 1.645 σ − σ²/2: σ = 0.50, cv² = 0.28; 300 + 100 × 1.28 = 428.
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.OutputTokensP95: 400})},
			Args: "--num-gpu-blocks 200 --block-size 16",
			Want: []string{"1 + 0.28 for their spread", "= 428 tokens on average", "floor(3200 × 0.85 / 436) = 6"},
		},
		"nothing is known": {
			Want: []string{"--engine-log"},
			Not:  []string{"change: --max-num-seqs", "evicted and computed again, 0"},
		},
	})
}

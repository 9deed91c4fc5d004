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
	cases := map[string]struct {
		readings catalogtest.Readings
		args     string
		want     []string
		not      []string
	}{
		"blocks and limit are known": {
			readings: thrashing,
			args:     "--num-gpu-blocks 200 --block-size 16 --max-num-seqs 64 --gpu-memory-utilization 0.9 --kv-cache-dtype auto",
			// 300 + 200/2 = 400 are held on average, with half a block 408;
			// floor(3200 × 0.85 / 408) = 6; needed = 16 × 400 / 0.85 = 7529 tokens.
			want: []string{"change: --max-num-seqs 64→6", "needed = 16 × 400 / 0.85 = 7529 tokens", "ceil(7529 / 3200) = 3", "--gpu-memory-utilization 0.9→0.93", "--kv-cache-dtype auto→fp8"},
		},
		"one of a fleet of six, with its share of the load": {
			readings: with(catalogtest.Readings{indicator.Replicas: 6, indicator.ArrivalShare: 1}),
			args:     "--num-gpu-blocks 200 --block-size 16",
			want:     []string{"ceil(7529 / 3200) = 3", "Add 12 replicas to the 6 of now"},
			not:      []string{"Run 3 replicas"},
		},
		"one of a fleet of six that gets three times its share": {
			readings: with(catalogtest.Readings{indicator.Replicas: 6, indicator.ArrivalShare: 3}),
			args:     "--num-gpu-blocks 200 --block-size 16",
			want:     []string{"Spread the load evenly over the 6 replicas"},
		},
		"the limit is not known, only that 16 ran": {
			readings: thrashing,
			args:     "--num-gpu-blocks 200 --block-size 16",
			want:     []string{"change: --max-num-seqs →6", "at least 16 (inferred"},
		},
		"a hybrid model's capacity is not its blocks": {
			readings: thrashing,
			args:     "--num-gpu-blocks 200 --block-size 16 --kv-cache-size-tokens 6000",
			want:     []string{"floor(6000 × 0.85 / 400) = 12", "not 200 blocks × 16 tokens"},
		},
		"one sequence is longer than the cache": {
			readings: thrashing,
			args:     "--num-gpu-blocks 10 --block-size 16 --max-num-seqs 8",
			want:     []string{"change: --max-num-seqs 8→1"},
		},
		"without the cache's size the occupancy tells": {
			readings: thrashing,
			want:     []string{"change: --max-num-seqs →9"}, // floor(10 × 0.85 / 0.93)
		},
		"the mean promises room that evictions disprove": {
			readings: thrashing,
			args:     "--num-gpu-blocks 2000 --block-size 16",
			want:     []string{"change: --max-num-seqs →8"}, // floor(10 × 0.85)
		},
		"what is on already is not proposed": {
			readings: thrashing,
			args:     "--num-gpu-blocks 200 --block-size 16 --max-num-seqs 5 --kv-cache-dtype fp8_e4m3 --gpu-memory-utilization 0.96 --watermark 0.1",
			want:     []string{"--max-num-seqs is 5 already"},
			not:      []string{"change: --max-num-seqs", "change: --kv-cache-dtype", "change: --gpu-memory-utilization", "change: --watermark"},
		},
		"an override is removed rather than memory added": {
			readings: thrashing,
			args:     "--num-gpu-blocks 200 --num-gpu-blocks-override 200 --gpu-memory-utilization 0.9",
			want:     []string{"change: --num-gpu-blocks-override 200→"},
			not:      []string{"change: --gpu-memory-utilization"},
		},
		"answers that differ are held for longer": {
			// ln(2) = 1.645 σ − σ²/2: σ = 0.50, cv² = 0.28; 300 + 100 × 1.28 = 428.
			readings: with(catalogtest.Readings{indicator.OutputTokensP95: 400}),
			args:     "--num-gpu-blocks 200 --block-size 16",
			want:     []string{"1 + 0.28 for their spread", "= 428 tokens on average", "floor(3200 × 0.85 / 436) = 6"},
		},
		"nothing is known": {
			want: []string{"--engine-log"},
			not:  []string{"change: --max-num-seqs", "evicted and computed again, 0"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := catalogtest.Text(catalogtest.Refine(t, Pathology, catalogtest.View{Present: c.readings}, c.args))
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

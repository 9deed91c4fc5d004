package kvcachethrashing

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/indicator"
)

var thrashing = catalogtest.Readings{
	indicator.PromptTokens: 300, indicator.OutputTokens: 200, indicator.Running: 10, indicator.Waiting: 6,
	indicator.RunningPeak: 16, indicator.Preemptions: 40, indicator.PreemptionsPerRequest: 0.8,
	indicator.KVUsage: 0.93, indicator.KVUsagePeak: 1, indicator.WaitingFloor: 4,
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
			// ceil(500/16) = 32 blocks; floor(200 × 0.85 / 32) = 5.
			// needed = 16 × 500 / 0.85 = 9412 tokens; 3200 at hand.
			want: []string{"change: --max-num-seqs 64→5", "needed = 16 × 500 / 0.85 = 9412 tokens", "ceil(9412 / 3200) = 3", "--gpu-memory-utilization 0.9→0.93", "--kv-cache-dtype auto→fp8"},
		},
		"the limit is not known, only that 16 ran": {
			readings: thrashing,
			args:     "--num-gpu-blocks 200 --block-size 16",
			want:     []string{"change: --max-num-seqs →5", "at least 16 (inferred"},
		},
		"a hybrid model's capacity is not its blocks": {
			readings: thrashing,
			args:     "--num-gpu-blocks 200 --block-size 16 --kv-cache-size-tokens 6000",
			want:     []string{"floor(6000 × 0.85 / 500) = 10", "not 200 blocks × 16 tokens"},
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

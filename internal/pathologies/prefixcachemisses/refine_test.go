package prefixcachemisses

import (
	"maps"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefineFindsTheReason(t *testing.T) {
	misses := catalogtest.Readings{
		indicator.PrefixHitRatio: 0.05, indicator.PromptTokens: 400, indicator.OutputTokens: 100,
		indicator.PrefillTimePerToken: 0.001, indicator.FirstTokenRate: 2, indicator.KVUsagePeak: 0.3,
	}
	usual := catalogtest.Readings{indicator.PrefixHitRatio: 0.65, indicator.PromptTokens: 400, indicator.OutputTokens: 100}
	with := func(change catalogtest.Readings) catalogtest.Readings {
		r := maps.Clone(misses)
		maps.Copy(r, change)
		return r
	}
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"caching is off": {
			View: catalogtest.View{Present: misses, Past: usual}, Args: "--no-enable-prefix-caching",
			Want: []string{"change: --enable-prefix-caching false→true", "caching is off"},
		},
		"the server has just started": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.ServingAge: 90})},
			Want: []string{"started 90 s ago"}, Not: []string{"change:"},
		},
		"the baseline is from before the start": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.ServingAge: 90, indicator.StartedWhileWatched: 500}), Past: usual},
			Want: []string{"started 90 s ago"},
		},
		"a young server that was warm already is not cold": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.ServingAge: 280, indicator.StartedWhileWatched: -40}), Past: usual},
			Want: []string{"prompts share less"},
		},
		"the shared part fits no block": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.PromptTokens: 100}), Past: usual}, Args: "--block-size 128",
			Want: []string{"at most 100 tokens) is shorter than a block of 128", "change: --block-size 128→16"},
		},
		"somebody empties the cache": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.PrefixResets: 45, indicator.PrefixHitRatio: 0.3}), Past: usual},
			Want: []string{"emptied 45 times", "fix: Stop the calls of /reset_prefix_cache"}, Not: []string{"not known from these metrics", "fix: Put"},
		},
		"prompts are longer behind what they share": {
			// 0.26 × 1000 = 260 tokens are found, as 0.65 × 400 were.
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.PromptTokens: 1000, indicator.PrefixHitRatio: 0.26}), Past: usual}, Args: "--num-gpu-blocks 1000 --block-size 16",
			Want: []string{"the traffic changed, not the cache", "still finds 260 tokens there (normally 260)"}, Not: []string{"change:", "fix: Put"},
		},
		"random text stands in front of the shared part": {
			// Nothing is found at once, in a cache that is overwritten in seconds: for
			// that by eviction, 32 / −ln(1 − 0.005/0.65) = 4144 prefixes would have to
			// come where 66.7 / −ln(0.35) = 64 did at most.
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.PrefixHitRatio: 0}), Past: usual}, Args: "--num-gpu-blocks 1000 --block-size 16",
			Want: []string{"begin with something unique", "Evictions are ruled out", "fix: Put what all requests share first"}, Not: []string{"change:", "overwritten every", "not known from these metrics"},
		},
		"nothing is found, and the cache would have lost it all the same": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.PrefixHitRatio: 0.005, indicator.PromptTokens: 60000}), Past: usual}, Args: "--num-gpu-blocks 1000 --block-size 16",
			Want: []string{"not known from these metrics", "--kv-cache-metrics"},
		},
		"running requests push prefixes out": {
			View: catalogtest.View{Present: with(catalogtest.Readings{indicator.KVUsagePeak: 0.97}), Past: usual}, Args: "--gpu-memory-utilization 0.9",
			Want: []string{"fill up to 97", "change: --gpu-memory-utilization 0.9→0.93"},
		},
		"prompts overwrite the cache in seconds": {
			// 16000 tokens / (400 × 0.95 + 100) / 2/s = 16.7 s.
			View: catalogtest.View{Present: misses, Past: usual}, Args: "--num-gpu-blocks 1000 --block-size 16",
			Want: []string{"not known from these metrics", "overwrite the KV cache every 16.7 s", "--kv-cache-metrics (0.12.0 and later)", "change: --kv-cache-dtype →fp8", "fix: Put what all requests share first"},
		},
		"nothing is shared any more": {
			// 400 × (0.65 − 0.05) = 240 tokens, at 1 ms each.
			View: catalogtest.View{Present: misses, Past: usual}, Args: "--num-gpu-blocks 100000 --block-size 16",
			Want: []string{"prompts share less", "compute 240 tokens less", "up to 240 ms"},
			Not:  []string{"change:"},
		},
		"nothing is known": {Want: []string{"prompts share less"}},
	})
}

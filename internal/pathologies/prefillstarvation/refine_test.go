package prefillstarvation

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestRefine(t *testing.T) {
	starved := catalogtest.Readings{
		indicator.PromptTokensP99: 6000, indicator.PromptTokensP50: 100, indicator.PromptTail: 60,
		indicator.PrefillTimePerToken: 0.0005, indicator.TTFTP95: 3,
	}
	catalogtest.Run(t, Pathology, map[string]catalogtest.Case{
		"chunked prefill is off": {
			View: catalogtest.View{Present: starved}, Args: "--no-enable-chunked-prefill --max-num-batched-tokens 8192",
			Want: []string{"change: --enable-chunked-prefill false→true", "change: --max-num-batched-tokens 8192→2048", "6000 tokens (Prompt tokens P99) × 500 µs/token (Prefill time per token) = 3 s"},
			Not:  []string{"long-prefill-token-threshold", "Whether chunked prefill is on"},
		},
		"chunked prefill is on: halve the budget": {
			View: catalogtest.View{Present: starved}, Args: "--enable-chunked-prefill --max-num-batched-tokens 4096",
			Want: []string{"change: --max-num-batched-tokens 4096→2048", "change: --long-prefill-token-threshold →512"},
			Not:  []string{"change: --enable-chunked-prefill", "Whether chunked prefill is on"},
		},
		"the budget stays above the number of sequences": {
			View: catalogtest.View{Present: starved}, Args: "--max-num-batched-tokens 1024 --max-num-seqs 700",
			Want: []string{"change: --max-num-batched-tokens 1024→700", "change: --enable-chunked-prefill →true", "Whether chunked prefill is on"},
		},
		"the smallest budget is not lowered": {
			View: catalogtest.View{Present: starved}, Args: "--enable-chunked-prefill --max-num-batched-tokens 512 --long-prefill-token-threshold 256",
			Want: []string{"fix: Route prompts above 512 tokens"},
			Not:  []string{"change:"},
		},
		"nothing is known": {
			Want: []string{"the present budget is not known"},
		},
	})
}

// beyond is a view on prompts that are longer than the histogram can tell.
type beyond struct{ catalogtest.View }

func (v beyond) Now(s *indicator.Signal) indicator.Value {
	out := v.View.Now(s)
	out.AtLeast = s == indicator.PromptTokensP99
	return out
}

func TestPromptsBeyondTheLastBucketAreLongerThanItsBound(t *testing.T) {
	v := beyond{catalogtest.View{Present: catalogtest.Readings{
		indicator.PromptTokensP99: 2000, indicator.PromptTail: 20, indicator.PrefillTimePerToken: 0.0005, indicator.TTFTP95: 3,
	}}}
	got := catalogtest.Text(catalogtest.Refine(t, Pathology, v, ""))
	if strings.Contains(got, "up to 2000") || !strings.Contains(got, "Prompts of over 2000 tokens, over 20× the usual length") || !strings.Contains(got, "= 1 s or more") {
		t.Error(got)
	}
}

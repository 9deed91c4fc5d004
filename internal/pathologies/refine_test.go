package pathologies_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/catalogtest"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestRefineSurvivesAnyReading checks that no explanation divides by what is
// unknown, and that each says something (catalogtest.Refine looks for NaN and
// Inf in the text).
func TestRefineSurvivesAnyReading(t *testing.T) {
	all := func(v float64) catalogtest.Readings {
		r := catalogtest.Readings{}
		for _, s := range indicator.All() {
			r[s] = v
		}
		return r
	}
	cases := map[string]catalogtest.View{
		"nothing is known":             {},
		"all zero":                     {Present: all(0), Past: all(0)},
		"all one":                      {Present: all(1), Past: all(1)},
		"all tiny":                     {Present: all(1e-12), Past: all(1e-12)},
		"all negative":                 {Present: all(-1), Past: all(-1)},
		"all huge":                     {Present: all(1e12), Past: all(1)},
		"all infinite":                 {Present: all(math.Inf(1)), Past: all(math.Inf(1))},
		"no baseline":                  {Present: all(3)},
		"objectives are zero":          {Present: all(3), Limits: map[string]float64{"itl_objective": 0, "ttft_objective": 0}},
		"objectives are small numbers": {Present: all(3), Past: all(2), Limits: map[string]float64{"itl_objective": 1e-9, "ttft_objective": 1e-9}},
	}
	args := []string{
		"",
		"--num-gpu-blocks 0 --block-size 0 --max-num-seqs 0 --max-num-batched-tokens 0 --data-parallel-size 0",
		"--num-gpu-blocks inf --block-size nan --max-num-seqs x --kv-cache-size-tokens -1",
		"--num-gpu-blocks 100 --block-size 16 --max-num-seqs 256 --data-parallel-size 4 --tensor-parallel-size 8 --gpu-memory-utilization 0.9",
	}
	for name, view := range cases {
		t.Run(name, func(t *testing.T) {
			for _, p := range pathologies.All() {
				for _, a := range args {
					pass := catalogtest.Refine(t, p, view, a)
					if pass.Summary == "" {
						t.Errorf("%s with %q: no summary", p.ID, a)
					}
					for _, f := range pass.Fixes {
						if f.Summary == "" || f.Verify == "" || f.Tradeoff == "" {
							t.Errorf("%s with %q: fix %+v lacks a summary, a tradeoff or a verification", p.ID, a, f)
						}
						for _, c := range f.Changes {
							if c.From == c.To {
								t.Errorf("%s with %q: %s changes nothing: %q", p.ID, a, c.Flag, c.To)
							}
							if !vllm.Engine.Flags.Accepts("99.0", strings.TrimPrefix(c.Flag, "--")) {
								t.Errorf("%s with %q: no table says which releases have %s", p.ID, a, c.Flag)
							}
						}
					}
				}
			}
		})
	}
}

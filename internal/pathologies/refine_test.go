package pathologies_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestRefineSurvivesAnyReading holds that no explanation divides by an unknown number, and that each has a text.
// refineOf looks for NaN and Inf in it.
func TestRefineSurvivesAnyReading(t *testing.T) {
	all := func(v float64) literalReadings {
		r := literalReadings{}
		for _, s := range indicator.All() {
			r[s] = v
		}
		return r
	}
	cases := map[string]literalView{
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
					pass := refineOf(t, p, view, a)
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

// A refineCase is what a pathology's Refine says, and never says, for readings by signal name and a server's arguments.
type refineCase struct {
	Case        string
	Now, Normal map[string]float64
	Limits      map[string]float64
	Args        string
	Says, Never []string
}

func readings(t *testing.T, by map[string]float64) literalReadings {
	t.Helper()
	if by == nil {
		return nil
	}
	out := literalReadings{}
	for _, s := range indicator.All() {
		if v, ok := by[s.Name]; ok {
			out[s] = v
		}
	}
	if len(out) < len(by) {
		t.Errorf("%v names signals that do not exist", by)
	}
	return out
}

// TestRefine runs the cases in testdata/refine.yaml of every pathology that has them.
func TestRefine(t *testing.T) {
	for _, p := range pathologies.All() {
		text, err := os.ReadFile(filepath.Join(strings.ReplaceAll(p.ID, "-", ""), "testdata/refine.yaml"))
		if os.IsNotExist(err) {
			continue
		}
		var file struct {
			Readings map[string]any // YAML anchors that cases share
			Cases    []refineCase
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(&file); err != nil || len(file.Cases) == 0 {
			t.Fatalf("%s: %d cases: %v", p.ID, len(file.Cases), err)
		}
		for _, c := range file.Cases {
			t.Run(p.ID+"/"+c.Case, func(t *testing.T) {
				v := literalView{Present: readings(t, c.Now), Past: readings(t, c.Normal), Limits: c.Limits}
				got := textOf(refineOf(t, p, v, c.Args))
				for _, w := range c.Says {
					if !strings.Contains(got, w) {
						t.Errorf("want %q in\n%s", w, got)
					}
				}
				for _, w := range c.Never {
					if strings.Contains(got, w) {
						t.Errorf("do not want %q in\n%s", w, got)
					}
				}
			})
		}
	}
}

// TestWhatCannotHurtComesFirst holds that, without a prediction, more memory comes before a smaller batch while clients
// queue, and the removal of an override before everything.
func TestWhatCannotHurtComesFirst(t *testing.T) {
	view := literalView{Present: literalReadings{indicator.Running: 10, indicator.RunningPeak: 16, indicator.Waiting: 6,
		indicator.WaitingFloor: 4, indicator.PromptTokens: 300, indicator.OutputTokens: 200, indicator.KVUsage: 0.93}}
	for args, first := range map[string]string{
		"":                               "Use an FP8 KV cache",
		" --kv-cache-dtype fp8":          "Raise --gpu-memory-utilization",
		" --num-gpu-blocks-override 200": "Remove --num-gpu-blocks-override",
	} {
		p := refineOf(t, byID("kv-cache-thrashing"), view,
			"--num-gpu-blocks 200 --block-size 16 --max-num-seqs 64 --gpu-memory-utilization 0.9"+args)
		if !strings.HasPrefix(p.Fixes[0].Summary, first) {
			t.Errorf("%s: first %q, want %q", args, p.Fixes[0].Summary, first)
		}
		hurts := false
		for _, f := range p.Fixes {
			if hurts && !f.MayHurt && !f.Stops {
				t.Errorf("%s: %q comes after one that may hurt", args, f.Summary)
			}
			hurts = hurts || f.MayHurt
		}
	}
}

// beyond is a view in which the longest prompts are beyond the histogram's last bound.
type beyond struct{ catalog.View }

func (v beyond) Now(s *indicator.Signal) indicator.Value {
	out := v.View.Now(s)
	out.AtLeast = s == indicator.PromptTokensP99
	return out
}

func TestPromptsBeyondTheLastBucketAreLongerThanItsBound(t *testing.T) {
	v := beyond{literalView{Present: literalReadings{
		indicator.PromptTokensP99: 2000, indicator.PromptTail: 20, indicator.PrefillTimePerToken: 0.0005, indicator.TTFTP95: 3,
	}}}
	got := textOf(refineOf(t, byID("prefill-starvation"), v, ""))
	if strings.Contains(got, "up to 2000") ||
		!strings.Contains(got, "Prompts of over 2000 tokens, over 20× the usual length") ||
		!strings.Contains(got, "= 1 s or more") {
		t.Error(got)
	}
}

// TestCrowdedRanksAreNamed holds that the summary names the data-parallel ranks with the queue, if only some have one.
func TestCrowdedRanksAreNamed(t *testing.T) {
	text := "every 1s for 120s\nlike healthy\nvllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 0x119\n"
	for rank, waits := range []int{1, 117, 108, 0} {
		text += fmt.Sprintf("vllm:num_requests_waiting{model_name=\"m\",engine=\"%[1]d\"} %[2]dx119\nvllm:num_requests_running{model_name=\"m\",engine=\"%[1]d\"} 4x119\nvllm:kv_cache_usage_perc{model_name=\"m\",engine=\"%[1]d\"} 0.%[1]d5x119\n", rank, waits)
	}
	d := diagnoseText(t, text)
	parts := func(s *indicator.Signal) map[string]float64 { return d.Parts(0, s) }
	p := catalog.Pass{Parts: parts}
	if got, want := p.CrowdedRanks(), "; of the 226 that wait, 117 on rank 1 (KV cache at 15 %), 108 on rank 2 (KV cache at 25 %), of 4 ranks"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.Parts = func(s *indicator.Signal) map[string]float64 { return map[string]float64{"0": 50, "1": 60} }
	if got := p.CrowdedRanks(); got != "" {
		t.Errorf("alike: %q", got)
	}
}

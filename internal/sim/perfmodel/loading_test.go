package perfmodel

import (
	"math"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
)

// told returns the ledger of a model on a GPU under vLLM's arguments.
func told(t *testing.T, model, gpu, args string) (*Ledger, error) {
	t.Helper()
	c, err := vllm.Engine.Flags.CheckArgs(args, "--engine-args", "0.23.0")
	if err != nil {
		return nil, err
	}
	s, err := Settings{Release: "0.23.0", Device: device(t, gpu)}.With(c)
	if err != nil {
		return nil, err
	}
	return NewLedger(modelconfigtest.Read(t, model), s)
}

func TestImpossibleCombinationsAreNamed(t *testing.T) {
	for _, tc := range []struct{ model, gpu, args, want string }{
		{"llama-3.1-8b", "T4", "--dtype bfloat16", "bfloat16 needs 8.0"},
		{"llama-3.1-8b", "V100 32GB", "--dtype bfloat16", "bfloat16 needs 8.0"},
		{"llama-3.1-8b", "T4", "--dtype half", ""},
		{"llama-3.1-8b", "T4", "", ""},
		{"llama-3.1-8b", "H100", "--dtype int3", "is not known"},
		{"llama-3.1-8b", "V100 32GB", "--quantization fp8", "compute capability 7.5"},
		{"qwen3-235b-a22b-fp8", "H100", "-tp 8", "blocks of 128"},
		{"qwen3-235b-a22b-fp8", "H100", "-tp 8 -ep", ""},
		{"llama-3.1-8b", "H100", "-ep", "no experts"},
		{"llama-3.1-8b", "H100", "-tp 3", "does not divide"},
		{"llama-3.1-8b", "H100", "-tp 4 -dcp 2", "must divide"},
		{"llama-3.1-8b", "H100", "-tp 16 -dcp 2", ""},
		{"llama-3.1-8b", "H100", "--max-num-seqs 100 --max-num-batched-tokens 50", "less than --max-num-seqs"},
		{"llama-3.1-8b", "H100", "--no-enable-chunked-prefill --max-num-batched-tokens 4096", "must fit into a step"},
		{"llama-3.1-8b", "H100", "--enable-lora --max-lora-rank 20", "--max-lora-rank"},
		{"llama-3.1-8b", "H100", "--cpu-offload-gb much", "want GiB"},
		{"llama-3.1-8b", "H100", "--speculative-config [3", "no JSON object"},
	} {
		_, err := told(t, tc.model, tc.gpu, tc.args)
		said := ""
		if err != nil {
			said = err.Error() + "\n" + hint.Of(err)
		}
		if tc.want == "" && err != nil || !strings.Contains(said, tc.want) {
			t.Errorf("%s on %s with %s: %q, want %q", tc.model, tc.gpu, tc.args, said, tc.want)
		}
	}
}

func TestArgumentsCountInTheLedger(t *testing.T) {
	line := func(l *Ledger, id string) float64 {
		x, _ := l.Line(id)
		return x.Bytes.Value / gib
	}
	plain, err := told(t, "llama-3.1-8b", "H100", "--max-model-len 8192")
	must.Succeed(t, err)
	for _, tc := range []struct {
		args, line string
		want       float64 // GiB of the line
	}{
		{"", LineWeights, 14.96},
		{"--quantization fp8", LineWeights, 8.46},
		{"--cpu-offload-gb 5", LineWeights, 9.96},
		{"--dtype float32", LineWeights, 29.92},
		{"--enable-lora --max-loras 4 --max-lora-rank 64", LineAdapters, 4 * 0.3125}, // 41.9 million parameters of rank 16
		{`--speculative-config {"method":"eagle3","num_speculative_tokens":3}`, LineDraft, 0.47},
		{"--speculative-config.method ngram --speculative-config.num_speculative_tokens 3", LineDraft, 0},
		{"--max-cudagraph-capture-size 8", LineGraphs, 0.14},
		{"--pipeline-parallel-size 2", LineWeights, 7.48},
	} {
		l, err := told(t, "llama-3.1-8b", "H100", "--max-model-len 8192 "+tc.args)
		if err != nil {
			t.Errorf("%s: %v", tc.args, err)
			continue
		}
		if got := line(l, tc.line); math.Abs(got-tc.want) > 0.02+0.02*tc.want {
			t.Errorf("%s: %s %.3f GiB, want %.3f", tc.args, tc.line, got, tc.want)
		}
	}
	eagle, _ := told(t, "llama-3.1-8b", "H100",
		`--max-model-len 8192 --speculative-config {"method":"eagle3","num_speculative_tokens":3}`)
	if got, want := eagle.KV.BytesPerBlock/plain.KV.BytesPerBlock, 33.0/32; got != want {
		t.Errorf("a layer that guesses: blocks of %g times the bytes, want %g", got, want)
	}
	spread, err := told(t, "deepseek-v3", "H200", "-tp 8 -dcp 8 --max-model-len 32768")
	must.Succeed(t, err)
	whole, _ := told(t, "deepseek-v3", "H200", "-tp 8 --max-model-len 32768")
	if got := spread.Tokens.Value / whole.Tokens.Value; math.Abs(got-8) > 0.05 {
		t.Errorf("decode context parallelism of 8 gives %.2f times the tokens, want 8", got)
	}
}

// The stage with the least room decides. Of 61 layers in 4 stages, one stage has the head and the logits, others have
// one more layer.
func TestUnevenStages(t *testing.T) {
	l, err := told(t, "deepseek-v3", "H200", "-tp 4 -pp 4 --max-model-len 32768")
	must.Succeed(t, err)
	s := l.Settings
	least := math.Inf(1)
	for stage := range s.PP {
		one := &Ledger{Model: l.Model, Settings: s, pipelineStage: stage}
		one.KV, err = newLayout(l.Model, &one.Settings, stage)
		must.Succeed(t, err)
		one.fillLines()
		least = min(least, math.Floor(one.Available.Value/one.KV.BytesPerBlock))
	}
	if l.Blocks.Value != least {
		t.Errorf("%.0f blocks, want %.0f", l.Blocks.Value, least)
	}
}

// A key of 128 in FP8 and its scale: 132 bytes for each token and layer beside the 1,152.
func TestIndexerIsInTheCache(t *testing.T) {
	m := modelconfigtest.Read(t, "deepseek-v3")
	plain := ledger(t, m, Settings{Device: device(t, "H200"), TP: 8, MaxModelLen: 32768})
	sparse := *m
	sparse.IndexDim, sparse.IndexHeads = 128, 64
	l := ledger(t, &sparse, Settings{Device: device(t, "H200"), TP: 8, MaxModelLen: 32768})
	if got := (l.KV.BytesPerToken - plain.KV.BytesPerToken) / 61; got != 132 {
		t.Errorf("%g bytes, want 132", got)
	}
}

func TestSamplingByRelease(t *testing.T) {
	for _, tc := range []struct {
		release   engine.Release
		value, of float64 // of a measured one: bytes of a logit
	}{{"0.10.2", 13, 13}, {"0.10.2", 13, 37}, {"0.11.1", 32, 37}, {"0.14.0", 32, 37}, {"0.19.0", 24, 32},
		{"0.32.0", 14, 15.7}} {
		e := perLogit(tc.release)
		if e.Value != tc.value || tc.of < e.Low || tc.of > e.High {
			t.Errorf("%s: %+v, measured %g", tc.release, e, tc.of)
		}
	}
}

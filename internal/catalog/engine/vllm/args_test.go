package vllm

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

func TestArgumentsThatNoServerTakesAreRefused(t *testing.T) {
	for _, tt := range []struct {
		line    string
		release engine.Release
		want    string // in the error or its way out; "" for none
	}{
		{"--max-num-seq 16", "", "--max-num-seqs"},
		{"--max_num_seqz=16", "", "--max-num-seqs"},
		{"--max-model-length 8k", "", "--max-model-len"},
		{"--tensor-parallelsize 2", "", "--tensor-parallel-size"},
		{"--no-enable-prefix-cachin", "", "--enable-prefix-caching"},
		{"--gpu-memory-utilisation .9", "", "--gpu-memory-utilization"},
		{"--quantisation fp8", "", "--quantization"},
		{"--frobnicate 3", "", "--help=all"},
		{"-max-num-seqs 3", "", "write --max-num-seqs"},
		{"--dtype half max-num-seqs 3", "", "write --max-num-seqs"},
		{"--max-num-seqs 16", "0.23.0", ""},
		{"--num-gpu-blocks 16", "0.23.0", ""},
		{"--served-model-name x y --seed 3 --compilation-config {}", "0.23.0", ""},
		{"-tp 2 -dp 2 -ep -q fp8 -sc {} -O3 -O.mode=3 -cc.level 2", "0.32.0", ""},
		{"--num-scheduler-steps 8", "0.9.2", ""},
		{"--num-scheduler-steps 8", "0.23.0", "went after 0.10"},
		{"--max-num-queued-reqs 8", "0.23.0", "came with 0.29"},
		{"--max-num-queued-reqs 8", "0.29.0", ""},
		{"--uds x", "0.15.0", ""}, // between two releases that were read
		{"--max-num-partial-prefills 2", "0.23", ""},
		{"docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.23.0 --model m --max-num-seqs 8", "0.23.0", ""},
		{"CUDA_VISIBLE_DEVICES=0 vllm serve --enforce-eager m --max-num-seqs 8 2>&1 | tee -a log", "0.23.0", ""},
		{"vllm serve m --enforce-eager m2 --max-num-seqs 8", "0.23.0", "\"m2\" is not a flag"},
		{"org/m --max-num-seqs 8", "0.23.0", ""},
		{"--dtype half m", "0.23.0", "\"m\" is not a flag"},
		{`/bin/sh -c "vllm serve m --max-num-seqs 8 --frobnicate"`, "0.23.0", "--frobnicate"},
		{"python -m vllm.entrypoints.openai.api_server --model m", "0.23.0", ""},
	} {
		_, err := flags.CheckArgs(tt.line, "--engine-args", tt.release)
		said := ""
		if err != nil {
			said = err.Error() + "\n" + hint.Of(err)
		}
		if tt.want == "" && err != nil || !strings.Contains(said, tt.want) {
			t.Errorf("%s in %q: %q, want %q", tt.line, tt.release, said, tt.want)
		}
	}
}

func TestWordsOfACommandLine(t *testing.T) {
	c, err := flags.CheckArgs(`bash -c "vllm serve org/m --cudagraph-capture-sizes 1 2 4 --lora-modules a=/x b=/y --max-num-seqs 4 --max-num-seqs 8 && date"`, "here", "0.23.0")
	must.Succeed(t, err)
	for flag, want := range map[string]string{engine.ModelName: "org/m", engine.GraphSizes: "1 2 4", "lora-modules": "a=/x b=/y", engine.MaxNumSeqs: "8"} {
		if c[flag].Value != want {
			t.Errorf("%s: %q, want %q", flag, c[flag].Value, want)
		}
	}
	for line, want := range map[string]engine.Release{
		"docker run vllm/vllm-openai:v0.10.1.1 --model m": "0.10.1", "image: vllm/vllm-openai:latest": "", "vllm serve m": "",
	} {
		if got := engine.ImageRelease(line); got != want {
			t.Errorf("%s: release %q, want %q", line, got, want)
		}
	}
}

func TestArgumentsAsVLLMWritesThem(t *testing.T) {
	c, err := flags.CheckArgs("serve m --speculative-config.method ngram --speculative-config.num-speculative-tokens 3 --enforce-eager -O2 --no-enable-lora -dcp 2", "here", "0.32.0")
	must.Succeed(t, err)
	for flag, want := range map[string]string{
		"speculative-config": `{"method":"ngram","num_speculative_tokens":3}`, "enforce-eager": "true", "compilation-config": "2", "enable-lora": "false",
		"decode-context-parallel-size": "2",
	} {
		if c[flag].Value != want {
			t.Errorf("%s: %q, want %q", flag, c[flag].Value, want)
		}
	}
}

func TestEveryFlagHasAnEffectOrNone(t *testing.T) {
	if len(flags) < 350 {
		t.Fatalf("%d flags", len(flags))
	}
	for name, f := range flags {
		kind, _, ok := strings.Cut(f.Effect, ": ")
		switch {
		case f.Effect == engine.EffectNone || f.Effect == "read":
		case !ok || kind != string(engine.Speed) && kind != string(engine.Memory) && kind != string(engine.Schedule):
			t.Errorf("--%s: effect %q", name, f.Effect)
		}
		if f.Since != "" && !f.Since.Valid() || f.Last != "" && (!f.Last.Valid() || f.Since.Compare(f.Last) > 0) {
			t.Errorf("--%s: from %q to %q", name, f.Since, f.Last)
		}
	}
}

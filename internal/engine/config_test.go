package engine

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/hint"
)

func TestParseArgs(t *testing.T) {
	c := ParseArgs("vllm serve m -tp 4 --max_num_seqs=16 --no-enable-prefix-caching --enforce-eager -ep --max-model-len 8k", "here")
	for flag, want := range map[string]string{
		TensorParallelSize: "4", MaxNumSeqs: "16", PrefixCaching: "false", EnforceEager: "true", ExpertParallel: "true", MaxModelLen: "8k",
	} {
		if c[flag].Value != want {
			t.Errorf("%s is %q, want %q", flag, c[flag].Value, want)
		}
	}
}

func TestCheckArgsNamesMisspeltFlags(t *testing.T) {
	for line, want := range map[string]string{
		"--max-num-seq 16":            "--max-num-seqs",
		"--max_num_seqz=16":           "--max-num-seqs",
		"--max-model-length 8k":       "--max-model-len",
		"--tensor-paralel-size 2":     "--tensor-parallel-size",
		"--no-enable-prefix-cachin":   "--enable-prefix-caching",
		"--gpu-memory-utilisation .9": "--gpu-memory-utilization",
		"--max-num-seqs 16":           "",
		"--num-gpu-blocks 16":         "",
		"--served-model-name x":       "",
		"--compilation-config {}":     "",
		"--kv-cache-dtype-skip-layers 1 --max-num-partial-prefills 2 --seed 3": "",
	} {
		_, err := CheckArgs(line, "--engine-args")
		if want == "" && err != nil || want != "" && !strings.Contains(hint.Of(err), "did you mean "+want+"?") {
			t.Errorf("%s: %v (try: %s), want %q", line, err, hint.Of(err), want)
		}
	}
}

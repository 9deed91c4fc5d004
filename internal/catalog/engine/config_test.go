package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestParseArgsAsAShellDoes(t *testing.T) {
	for name, tt := range map[string]struct {
		line string
		want map[string]string
	}{
		"plain":             {"vllm serve m --max-num-seqs 16 --enforce-eager --no-enable-prefix-caching", map[string]string{"max-num-seqs": "16", "enforce-eager": "true", "enable-prefix-caching": "false"}},
		"equals and quotes": {`--max-num-seqs="16" --dtype='bfloat16'`, map[string]string{"max-num-seqs": "16", "dtype": "bfloat16"}},
		"JSON in quotes":    {`--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}' --block-size 32`, map[string]string{"speculative-config": `{"method": "ngram", "num_speculative_tokens": 3}`, "block-size": "32"}},
		"continued lines":   {"--max-num-seqs 16 \\\n  --block-size 32 \\\r\n --enforce-eager", map[string]string{"max-num-seqs": "16", "block-size": "32", "enforce-eager": "true"}},
		"underscores":       {"--max_num_seqs 16", map[string]string{"max-num-seqs": "16"}},
		"a quote too many":  {`--max-num-seqs 16 --served-model-name "m`, map[string]string{"max-num-seqs": "16", "served-model-name": `"m`}},
		"the last counts":   {"--max-num-seqs 16 --max-num-seqs 8", map[string]string{"max-num-seqs": "8"}},
		"nothing":           {"", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for flag, s := range ParseArgs(tt.line, "--engine-args") {
				got[flag] = s.Value
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

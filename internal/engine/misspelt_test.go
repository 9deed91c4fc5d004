package engine

import (
	"strings"
	"testing"
)

func TestMisspelt(t *testing.T) {
	for line, want := range map[string]string{
		"--max-num-sqs 4": "--max-num-sqs changes nothing: did you mean max-num-seqs?",
		"--max_num_seq=4 --gpu-memory-utilisation 1":                                                               "did you mean gpu-memory-utilization?|--max-num-seq changes nothing: did you mean max-num-seqs?",
		"--max-num-seqs 4 --port 8000 --no-enable-prefix-caching --pipeline-parallel-size 2 --served-model-name x": "",
	} {
		got := strings.Join(ParseArgs(line, "test").Misspelt(), "|")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

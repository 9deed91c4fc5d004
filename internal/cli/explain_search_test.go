package cli

import (
	"strings"
	"testing"
)

// TestExplainFindsWhatIsMeant: the name of an alert, a word, a metric or a verdict leads somewhere.
func TestExplainFindsWhatIsMeant(t *testing.T) {
	for asked, want := range map[string]string{
		"kv-cache-thrashing":               "KV cache thrashing (page)",
		"VLLMKVCacheThrashing":             "KV cache thrashing (page)",
		"LLMEngineHung":                    "Engine hung (page)",
		"thrashing":                        "kv-cache-thrashing",
		"preemption":                       "kv-cache-thrashing",
		"vllm:num_preemptions_total":       "kv-cache-thrashing",
		"leak":                             "memory-leak",
		"HighTTFT":                         "slow-prefill",
		"VLLMPreemptionRelatedDegradation": "severe-degradation",
		"tbt":                              "slow-decode",
		"queue":                            "saturation",
		"idle":                             "A verdict",
		"z-score":                          "sixty.anomalies",
	} {
		out, _, err := runCLI(t, "explain", asked)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("explain %s: %v, want %q in:\n%s", asked, err, want, out)
		}
		if n := strings.Count(out, "\n"); n > 20 {
			t.Errorf("explain %s prints %d lines", asked, n)
		}
	}
	if _, _, err := runCLI(t, "explain", "nonsense"); err == nil {
		t.Error("nonsense is explained")
	}
}

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
		"TBT":                              "time between tokens; write itl.",
		"vllm_tbt_seconds":                 "only sixty gateway does",
		"vllm_decode_batch_size":           "vllm:iteration_tokens_total",
		"vllm_gpu_utilization":             "DCGM_FI_DEV_GPU_UTIL",
		"vllm_output_tokens_total":         "vllm:generation_tokens_total",
		"queue":                            "saturation",
		"idle":                             "A verdict",
		"z-score":                          "sixty.anomalies",
	} {
		out, _, err := sixty(t, "explain", asked)
		if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("explain %s: %v, want %q in:\n%s", asked, err, want, out)
		}
		if n := strings.Count(out, "\n"); n > 26 {
			t.Errorf("explain %s prints %d lines", asked, n)
		}
	}
}

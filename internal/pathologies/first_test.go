package pathologies_test

import (
	"fmt"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// TestWhatCameFirst plays prompts that no longer find their prefix and fill the engine with prefill, and a queue. The
// misses explain the queue only if it came after them.
func TestWhatCameFirst(t *testing.T) {
	const line = "hist vllm:%s{model_name=\"m\",engine=\"0\"} mean=%gx%d,%g rate=2\n"
	for name, tt := range map[string]struct {
		misses, queue int // scrapes after which they begin
		want, by      string
	}{
		"the misses":   {60, 100, "prefix-cache-misses", "prefix-cache-misses"},
		"the queue":    {100, 60, "concurrency-limit", "concurrency-limit"},
		"both at once": {60, 60, "concurrency-limit", "concurrency-limit"},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnoseText(t, "every 1s for 180s\nlike healthy\n"+
				fmt.Sprintf("vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 4x%d 8x%d\n", tt.queue-1,
					179-tt.queue)+
				fmt.Sprintf("vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 0x%d 20x%d\n", tt.queue-1,
					179-tt.queue)+
				fmt.Sprintf("rate vllm:prefix_cache_hits_total{model_name=\"m\",engine=\"0\"} 1000x%d,100\n",
					tt.misses)+
				fmt.Sprintf("rate vllm:prompt_tokens_by_source_total{model_name=\"m\",engine=\"0\",source=\"local_compute\"} 1000x%d,1900\n", tt.misses)+
				fmt.Sprintf("rate vllm:prompt_tokens_by_source_total{model_name=\"m\",engine=\"0\",source=\"local_cache_hit\"} 1000x%d,100\n", tt.misses)+
				fmt.Sprintf(line, "request_prefill_kv_computed_tokens", 500., tt.misses, 950.)+
				fmt.Sprintf(line, "request_prefill_time_seconds", 0.04, tt.misses, 0.075)+
				fmt.Sprintf(line, "time_to_first_token_seconds", 0.06, tt.queue, 5.)+
				fmt.Sprintf(line, "request_queue_time_seconds", 0.001, tt.queue, 4.9)+
				"hist vllm:request_decode_time_seconds{model_name=\"m\",engine=\"0\"} mean=2 rate=2\n")
			queue := finding(t, &d, "saturation")
			if d.Verdict.ID != tt.want || d.Verdict.Severity != catalog.Page || queue.Status != diagnose.Firing ||
				queue.InhibitedBy != tt.by {
				t.Errorf("%s: %s, want %s; saturation %s, explained by %q", d.Verdict.ID, d.Verdict.Summary, tt.want,
					queue.Status, queue.InhibitedBy)
			}
		})
	}
}

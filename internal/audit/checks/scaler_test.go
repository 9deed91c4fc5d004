package checks

import (
	"encoding/json"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestAutoscalers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		exprs []string // one for each trigger
		want  []string
	}{
		{"the queue", []string{"sum(vllm:num_requests_waiting)"}, nil},
		{"KV cache usage alone", []string{"sum(vllm:kv_cache_usage_perc)"}, []string{"doubt scaling-wrong"}},
		{"KV cache usage and the queue", []string{"sum(vllm:kv_cache_usage_perc) * 10 + sum(vllm:num_requests_waiting)"}, nil},
		{"GPU utilization alone", []string{"sum(DCGM_FI_DEV_GPU_UTIL)"}, []string{"ticket scaling-wrong"}},
		{"KV cache usage beside an unknown metric", []string{"max(vllm:kv_cache_usage_perc)", "sum(gateway_waiting)"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var triggers []any
			for _, e := range tc.exprs {
				triggers = append(triggers, map[string]any{"type": "prometheus", "metadata": map[string]string{"query": e}})
			}
			data, err := json.Marshal(map[string]any{
				"kind": "ScaledObject", "metadata": map[string]string{"name": "chat"}, "spec": map[string]any{"triggers": triggers},
			})
			must.Succeed(t, err)
			must.Equal(t, tc.want, found(t, newest(t), File{Name: "s.json", Data: data}))
		})
	}
}

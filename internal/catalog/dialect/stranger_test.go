package dialect

import (
	"strings"
	"testing"
)

func TestStranger(t *testing.T) {
	for _, tc := range []struct{ names, what, try string }{
		{"go_goroutines node_cpu_seconds_total node_load1", "looks like node_exporter", "API port"},
		{"go_goroutines prometheus_build_info prometheus_tsdb_head_series", "looks like a Prometheus server", "--prometheus"},
		{"nginx_up nginx_connections_active", "looks like nginx", "behind it"},
		{"python_info process_start_time_seconds http_requests_total", "looks like a Python program", "--disable-log-stats"},
		{"gen_ai_server_time_to_first_token_seconds_bucket", "looks like OpenTelemetry's gen_ai metrics", "the engine's own /metrics"},
		{"llamacpp:requests_processing llamacpp:prompt_tokens_total", "looks like llama.cpp's server", "Triton, and TensorRT-LLM, and TGI"},
		{"lmcache_mp_lookup_hit_tokens_total lmcache_mp_l1_usage_ratio", "looks like a process of LMCache", "external_prefix_cache"},
		{"go_goroutines shop_orders_total shop_carts other_x", `metrics begin with "shop_"`, "check the port"},
		{"go_goroutines process_cpu_seconds_total", "only generic process metrics", "check the port"},
		{"", "only generic process metrics", "check the port"},
	} {
		what, try := DescribeStranger(strings.Fields(tc.names))
		if !strings.Contains(what, tc.what) || !strings.Contains(try, tc.try) {
			t.Errorf("%s: %q, try %q", tc.names, what, try)
		}
	}
}

// No server that is known is taken for a stranger; a Python process is all that some show.
func TestStrangersAreNoEngines(t *testing.T) {
	for _, s := range strangers {
		for _, known := range s.names {
			for _, f := range Families() {
				if f.Engine != "" && (f.Name == known || strings.ContainsAny(known[len(known)-1:], "_:") && strings.HasPrefix(f.Name, known)) {
					t.Errorf("%s has the metric %s: it is no stranger any more, take %q out of strangers in stranger.go", f.Engine, f.Name, known)
					break
				}
			}
		}
	}
}

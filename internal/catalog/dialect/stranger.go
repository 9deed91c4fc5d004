package dialect

import (
	"fmt"
	"slices"
	"strings"
)

// A stranger is a program whose page was found in place of an inference server's.
type stranger struct {
	names []string // its page has one of them; one that ends in "_" or ":" is a prefix
	what  string
	try   string
}

// Hints for several strangers.
const (
	tryServer = "give the address of the inference server: vLLM serves /metrics on its API port, by default 8000"
	tryQuery  = "this is a monitor, not an inference server: query it with --prometheus URL"
	tryPort   = "check the port: vLLM serves /metrics on its API port, Ray Serve on its metrics export port"
)

// tryEngine is the hint for an unsupported engine.
var tryEngine = func() string {
	known := "vLLM, also under Ray Serve and KServe"
	for _, e := range Others() {
		known += ", and " + e.Title
	}
	return "this engine is not supported; supported are " + known
}()

// strangers are tried in this order. Proxies come late, and libraries that any program may use come last.
var strangers = []stranger{
	{[]string{"node_exporter_build_info", "node_cpu_seconds_total"}, "node_exporter", tryServer},
	{[]string{"prometheus_build_info", "prometheus_tsdb_"}, "a Prometheus server", tryQuery},
	{[]string{"vm_app_version", "vm_rows", "cortex_build_info", "thanos_build_info", "mimir_build_info"}, "a server of the Prometheus family", tryQuery},
	{[]string{"alertmanager_build_info"}, "an Alertmanager", tryServer},
	{[]string{"grafana_build_info"}, "a Grafana", tryServer},
	{[]string{"pushgateway_build_info"}, "a Pushgateway", tryServer},
	{[]string{"blackbox_exporter_build_info", "probe_success"}, "blackbox_exporter", tryServer},
	{[]string{"kube_pod_info", "kube_state_metrics_"}, "kube-state-metrics", tryServer},
	{[]string{"kubelet_", "container_cpu_usage_seconds_total", "cadvisor_version_info"}, "a kubelet or cAdvisor", tryServer},
	{[]string{"nvidia_smi_", "nvidia_gpu_"}, "a GPU exporter other than dcgm-exporter", tryServer},
	{[]string{"llamacpp:"}, "llama.cpp's server", tryEngine},
	{[]string{"lmdeploy:"}, "LMDeploy", tryEngine},
	{[]string{"lmcache:", "lmcache_mp_"}, "a process of LMCache", "give the address of the server that it caches for, whose vllm:external_prefix_cache_* count its hits"},
	{[]string{"litellm_", "dynamo_", "vllm_router_", "llm_d_epp_", "inference_extension_", "router_queueing_delay_seconds", "aibrix_"}, "a router before inference servers", "give the address of a server behind it"},
	{[]string{"ray_"}, "a Ray node without vLLM's metrics", "start vLLM with its Ray metrics, and give the metrics export port of the node that it runs on"},
	{[]string{"gen_ai_server_", "gen_ai_client_"}, "OpenTelemetry's gen_ai metrics, which do not show who waits", "give the engine's own /metrics: a histogram of requests that ended says nothing of those that hang"},
	{[]string{"nginx_", "nginxexporter_build_info"}, "nginx", "give the address of the server behind it"},
	{[]string{"envoy_"}, "Envoy", "give the address of the server behind it"},
	{[]string{"haproxy_"}, "HAProxy", "give the address of the server behind it"},
	{[]string{"traefik_"}, "Traefik", "give the address of the server behind it"},
	{[]string{"istio_"}, "an Istio proxy", "give the address of the server behind it"},
	{
		[]string{"python_info"},
		"a Python program without an inference engine's metrics",
		"check the port; vLLM with --disable-log-stats exposes nothing else",
	},
}

// DescribeStranger names the likely program of a page that no dialect fits, and what to try.
func DescribeStranger(names []string) (what, try string) {
	for _, s := range strangers {
		if slices.ContainsFunc(names, func(n string) bool {
			return slices.ContainsFunc(s.names, func(known string) bool {
				return n == known || strings.ContainsAny(known[len(known)-1:], "_:") && strings.HasPrefix(n, known)
			})
		}) {
			return "looks like " + s.what, s.try
		}
	}
	if most := commonPrefix(names); most != "" {
		return fmt.Sprintf("looks like another program, whose metrics begin with %q", most), tryPort
	}
	return "looks like another program, with only generic process metrics", tryPort
}

// commonPrefix returns the prefix of most names of a program's own metrics; "" if its page has only the metrics of
// its language.
func commonPrefix(names []string) string {
	n := map[string]int{}
	for _, name := range names {
		first, _, _ := strings.Cut(name, "_")
		if !slices.Contains([]string{"go", "process", "promhttp", "http", "jvm", "scrape", "up"}, first) {
			n[first+"_"]++
		}
	}
	best := ""
	for first, k := range n {
		if k > n[best] || k == n[best] && first < best {
			best = first
		}
	}
	return best
}

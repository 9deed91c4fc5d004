package scrapeconfig

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	relabels "github.com/prometheus/prometheus/model/relabel"
)

// TestPodsAreRecognized compares containers, declared as the stacks do, with the resulting targets.
func TestPodsAreRecognized(t *testing.T) {
	type container struct{ name, image, port, portName, init string }
	tests := map[string]struct {
		of     container
		labels map[string]string // of the pod
		more   map[string]string // annotations
		config Config
		want   string // the address; "": dropped
		why    string
	}{
		"vLLM's image, a port by its name":         {of: container{image: "vllm/vllm-openai:v0.23.0", port: "28000", portName: "http"}, labels: map[string]string{"app": "vllm"}, want: "10.0.0.7:28000"},
		"vLLM's image, nothing declared":           {of: container{image: "docker.io/vllm/vllm-openai"}, want: "10.0.0.7:8000"},
		"SGLang's image, nothing declared":         {of: container{image: "lmsysorg/sglang:v0.5.10"}, want: "10.0.0.7:30000"},
		"an image of one's own, by a label":        {of: container{image: "registry.example.com/ml/serving:7", port: "8000"}, labels: map[string]string{"app": "vllm-qwen"}, want: "10.0.0.7:8000"},
		"a sidecar beside it that declares a port": {of: container{name: "istio-proxy", image: "istio/proxyv2:1.24", port: "15090", portName: "http-envoy-prom"}, labels: map[string]string{"app": "vllm"}, why: "proxy"},
		"a sidecar that declares none":             {of: container{name: "logs", image: "fluent-bit:3"}, labels: map[string]string{"app": "vllm"}, why: "Neither"},
		"a port of another protocol":               {of: container{image: "vllm/vllm-openai:v0.23.0", port: "5557", portName: "zmq"}, why: "Its port"},
		"an init container":                        {of: container{image: "vllm/vllm-openai:v0.23.0", init: "true"}, why: "init"},
		"production-stack's server":                {of: container{image: "lmcache/vllm-openai:2026-01-01", port: "8000", portName: "container-port"}, want: "10.0.0.7:8000"},
		"production-stack's router":                {of: container{image: "lmcache/lmstack-router:latest", port: "8000", portName: "router-cport"}, labels: map[string]string{"app": "vllm"}, why: "routes"},
		"llm-d's decode server":                    {of: container{image: "ghcr.io/llm-d/llm-d-cuda:v0.5", port: "8200", portName: "metrics"}, labels: map[string]string{"llm-d.ai/role": "decode"}, want: "10.0.0.7:8200"},
		"llm-d's proxy":                            {of: container{name: "routing-proxy", image: "ghcr.io/llm-d/llm-d-routing-sidecar:v0.5", port: "8000"}, labels: map[string]string{"llm-d.ai/role": "decode"}, why: "proxy"},
		"llm-d's endpoint picker":                  {of: container{name: "epp", image: "ghcr.io/llm-d/llm-d-inference-scheduler:v0.5", port: "9090", portName: "metrics"}, why: "routes"},
		"KServe's runtime":                         {of: container{name: "kserve-container", image: "kserve/huggingfaceserver:v0.16-gpu", port: "8080", portName: "http1"}, want: "10.0.0.7:8080"},
		"KServe's queue proxy":                     {of: container{name: "queue-proxy", image: "gcr.io/knative-releases/queue", port: "8012", portName: "queue-port"}, labels: map[string]string{"app": "vllm"}, why: "proxy"},
		"KServe's runtime of something else":       {of: container{name: "kserve-container", image: "kserve/sklearnserver:v0.16", port: "8080", portName: "http1"}, why: "Neither"},
		"Dynamo's worker":                          {of: container{name: "main", image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1", port: "9090", portName: "system"}, want: "10.0.0.7:9090"},
		"TensorRT-LLM":                             {of: container{image: "nvcr.io/nvidia/tensorrt-llm/release:1.2.1", port: "8000"}, want: "10.0.0.7:8000"},
		"AIBrix, by its label":                     {of: container{image: "registry.example.com/llama:3", port: "8000", portName: "serve"}, labels: map[string]string{"model.aibrix.ai/name": "llama"}, want: "10.0.0.7:8000"},
		"a web server":                             {of: container{image: "nginx:1.29", port: "8080", portName: "http"}, labels: map[string]string{"app": "web"}, why: "Neither"},
		"an annotation names the port":             {of: container{image: "vllm/vllm-openai:v0.23.0", port: "1234", portName: "grpc"}, more: map[string]string{"prometheus.io/port": "8123"}, want: "10.0.0.7:8123"},
		"a selector says what it runs":             {of: container{image: "registry.example.com/ml/serving:7", port: "8000"}, config: Config{Selector: map[string]string{"team": "ml"}}, want: "10.0.0.7:8000"},
	}
	if n := len(reasonsToDrop()); n != 5 {
		t.Fatalf("%d steps drop a pod, want 5", n)
	}
	clean := strings.NewReplacer("/", "_", ".", "_", "-", "_")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := map[string]string{
				"__address__": "10.0.0.7", "__meta_kubernetes_pod_container_init": "false", "__meta_kubernetes_pod_container_image": tt.of.image, "__meta_kubernetes_pod_container_name": tt.of.name,
				"__meta_kubernetes_pod_name": "x-0", "__meta_kubernetes_namespace": "llm", "__meta_kubernetes_pod_phase": "Running",
			}
			if tt.of.port != "" {
				m["__address__"], m["__meta_kubernetes_pod_container_port_number"], m["__meta_kubernetes_pod_container_port_name"] = "10.0.0.7:"+tt.of.port, tt.of.port, tt.of.portName
			}
			if tt.of.init != "" {
				m["__meta_kubernetes_pod_container_init"] = tt.of.init
			}
			for k, v := range tt.labels {
				m["__meta_kubernetes_pod_label_"+clean.Replace(k)] = v
				m["__meta_kubernetes_pod_labelpresent_"+clean.Replace(k)] = "true"
			}
			for k, v := range tt.more {
				m["__meta_kubernetes_pod_annotation_"+clean.Replace(k)] = v
			}
			tt.config.Format = PrometheusKube
			b := labels.NewBuilder(labels.FromMap(m))
			for _, step := range load(t, tt.config).ScrapeConfigs[0].RelabelConfigs {
				if !relabels.ProcessBuilder(b, step) {
					if why := WhyDropped(step.Regex.String(), string(step.Action)); tt.want != "" || !strings.Contains(why, tt.why) {
						t.Errorf("dropped: %q, want %q%q", why, tt.want, tt.why)
					}
					return
				}
			}
			if got := b.Get("__address__"); got != tt.want {
				t.Errorf("scraped at %q, want %q", got, tt.want)
			}
		})
	}
}

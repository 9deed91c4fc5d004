package scrapeconfig

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
)

// Labels that service discovery has of a container's port.
const (
	podImage      = "__meta_kubernetes_pod_container_image"
	podContainer  = "__meta_kubernetes_pod_container_name"
	podInit       = "__meta_kubernetes_pod_container_init"
	podPort       = "__meta_kubernetes_pod_container_port_number"
	podPortName   = "__meta_kubernetes_pod_container_port_name"
	annotatedPort = "__meta_kubernetes_pod_annotation_prometheus_io_port"
)

// podLabels are labels by which stacks mark pods that serve models: app=vllm of the examples of vLLM, SGLang
// and production-stack, and those that llm-d (its model service chart), AIBrix (its model adapters) and Dynamo
// (its operator) set.
var podLabels = []string{
	"__meta_kubernetes_pod_label_app", "__meta_kubernetes_pod_label_app_kubernetes_io_name",
	"__meta_kubernetes_pod_labelpresent_llm_d_ai_inferenceServing", "__meta_kubernetes_pod_labelpresent_llm_d_ai_role",
	"__meta_kubernetes_pod_labelpresent_model_aibrix_ai_name", "__meta_kubernetes_pod_labelpresent_nvidia_com_dynamo_component_type",
}

const (
	// besides are containers beside a server, and images of what routes to servers and manages them.
	besides = "(istio-proxy|queue-proxy|linkerd-proxy|envoy|routing-proxy|.*sidecar.*);.*" +
		"|[^;]*;(.*/)?(epp[^/]*|[^/]*(router|routing|gateway|frontend|scheduler|operator|controller|autoscaler)[^/]*)"
	// portNames are names of the ports of an API and of metrics; portNumbers the usual ones: vLLM and TensorRT-LLM
	// 8000, KServe and Ray 8080, behind llm-d's proxy 8200, Dynamo's system port 9090, SGLang 30000.
	portNames   = "http|https|http1|h2c|http-?api|api|http-?metrics|metrics|openai|openai-?api|vllm|sglang|trtllm|serve|server|serving|model-?server|web|main|uvicorn|user-port|container-?port|system"
	portNumbers = "8000|8080|8200|9090|30000"
)

// recognized keeps the pods that run an inference server, by their images and by what stacks call them, one target
// for each; with a selector those that it selects, whatever they run.
func (c Config) recognized() []relabel {
	images := "[^;]*(" + dialect.Images() + ")[^;]*"
	out := []relabel{
		{SourceLabels: []string{podInit}, Regex: "true", Action: "drop", why: "It is an init container, or a sidecar that is declared as one."},
		{SourceLabels: []string{podContainer, podImage}, Regex: besides, Action: "drop", why: "It is a proxy beside a server, or routes to servers, or manages them; --gateway names a router."},
	}
	if len(c.Selector) == 0 {
		labels := "(;.*)?;(true|" + images + ")(;.*)?"
		out = append(out, relabel{
			SourceLabels: append([]string{podImage, podPort}, podLabels...), Regex: images + ";.*|[^;]*;[0-9]+" + labels, Action: "keep",
			why: "Neither its image nor a label names an inference server; --selector names the pods by their labels.",
		})
	}
	out = append(out,
		relabel{
			SourceLabels: []string{podPortName, podPort, annotatedPort}, Regex: "(" + portNames + ");.*;|.*;(" + portNumbers + ");|;;|.*;.*;[0-9]+", Action: "keep",
			why: "Its port is not one of an API or of metrics by its name or number; annotate the pod with prometheus.io/port.",
		},
		relabel{
			SourceLabels: []string{"__address__", annotatedPort}, Regex: `(\[.+\]|[^:]+)(?::\d+)?;(\d+)`, TargetLabel: "__address__", Replacement: "${1}:${2}",
			why: "The port of the pod's annotation prometheus.io/port.",
		},
		relabel{
			SourceLabels: []string{"__meta_kubernetes_pod_annotation_prometheus_io_path"}, Regex: "(.+)", TargetLabel: "__metrics_path__",
			why: "The path of the pod's annotation prometheus.io/path.",
		})
	for _, e := range dialect.Others() {
		out = append(out, usualPort(".*("+e.Images+").*", e.Port))
	}
	return append(out, usualPort(".*", servers[VLLM].port))
}

// usualPort gives containers without a declared port the usual one of what they run.
func usualPort(images, port string) relabel {
	return relabel{
		SourceLabels: []string{"__address__", podImage}, Regex: `(\[.+\]|[^:]+);` + images, TargetLabel: "__address__", Replacement: "${1}:" + port,
		why: "The usual port, where the manifest declares none.",
	}
}

// WhyDropped is why a step of the relabelling that finds pods drops one, "" for other steps.
func WhyDropped(regex, action string) string {
	for _, r := range append(Config{}.recognized(), podNames...) {
		if r.Regex == regex && r.Action == action {
			return strings.TrimSuffix(r.why, ".")
		}
	}
	return ""
}

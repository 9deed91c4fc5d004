package engine

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Role is a server's part in answering a request.
type Role string

// The roles.
const (
	Router  Role = "router"
	Encode  Role = "encode"
	Prefill Role = "prefill"
	Decode  Role = "decode"
	Serve   Role = "serve" // both prefill and decode
)

// Roles lists all roles, in the order in which a request meets them.
func Roles() []Role { return []Role{Router, Encode, Prefill, Decode, Serve} }

// RoleLabel is the label with a pod's role that `sixty generate scrape` and the monitor give its series.
const RoleLabel = "role"

// A roleLabel is a stack's label for a server's role. Names of Kubernetes labels are in Prometheus' form, with
// underscores for other characters than letters and digits.
type roleLabel struct{ name, origin string }

// podRoles are labels of pods, the most particular first.
var podRoles = []roleLabel{
	{"llm_d_ai_role", "llm-d's router, docs of prefill-filter and decode-filter; KServe's LLMInferenceService sets it too"},
	{"nvidia_com_dynamo_sub_component_type", "Dynamo's operator: of workers whose prefill and decode are apart"},
	{"nvidia_com_dynamo_component_type", "Dynamo's operator"},
	{"nvidia_com_dynamo_component", "Dynamo's operator: the component's name, such as VllmPrefillWorker"},
	{"role_name", "AIBrix, pkg/plugins/gateway/algorithms/pd_disaggregation.go"},
	{"model_aibrix_ai_role", "AIBrix before 0.4, the same file"},
	{"app_kubernetes_io_component", "KServe, llmisvc controller: llminferenceservice-workload-prefill; charts that follow Kubernetes' recommended labels"},
}

// seriesRoles are labels of series themselves.
var seriesRoles = []roleLabel{
	{RoleLabel, "RoleLabel"},
	{"engine_type", "SGLang, python/sglang/srt/observability/scheduler_metrics_mixin.py: unified is both"},
	{"dynamo_component", "Dynamo, docs/observability/metrics.md: the component's name, on the page of its system port"},
}

// PodRoleLabels returns the labels of pods that hold a role, as service discovery names them.
func PodRoleLabels() (names []string) {
	for _, l := range podRoles {
		names = append(names, l.name)
	}
	return names
}

// SeriesRoleLabels returns the labels of series that hold a role: servers' own labels, and pods' labels as a labelmap
// copies them and as kube-state-metrics and most relabelling write them. The list is shared.
func SeriesRoleLabels() []string { return seriesRoleLabels }

var seriesRoleLabels = func() (names []string) {
	for _, l := range seriesRoles {
		names = append(names, l.name)
	}
	for _, name := range PodRoleLabels() {
		names = append(names, name, "label_"+name)
	}
	return names
}()

// RoleRegex matches a role's name in a value of these labels.
const RoleRegex = "((?:encode-)?prefill(?:-decode)?|encode|decode|both)"

// RoleIn returns the role in the labels of a series; "" if they hold none.
func RoleIn(value func(label string) string) Role {
	for _, name := range SeriesRoleLabels() {
		v := strings.ToLower(value(name))
		if v == "" {
			continue // as on most series
		}
		if v == "both" || v == "unified" {
			return Serve
		}
		if role := roleOf(func(word string) bool { return strings.Contains(v, word) }); role != "" {
			return role
		}
	}
	return ""
}

// RoleOfName returns the role in the words of a name, such as a job's or a pod's, or "".
func RoleOfName(name string) Role {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' })
	return roleOf(func(word string) bool {
		return slices.Contains(words, word) || slices.Contains(words, strings.TrimSuffix(word, "e")+"er")
	})
}

func roleOf(says func(word string) bool) Role {
	prefill, decode := says("prefill"), says("decode")
	switch {
	case prefill && decode:
		return Serve
	case prefill: // a name with both may also encode images
		return Prefill
	case decode:
		return Decode
	case says("encode"):
		return Encode
	}
	return ""
}

// Role returns the role in a server's arguments; "" if they say none.
func (c Config) Role() Role {
	switch c[disaggregation].Value { // SGLang, python/sglang/srt/server_args.py
	case "prefill":
		return Prefill
	case "decode":
		return Decode
	}
	var connector struct { // vLLM, vllm/config/kv_transfer.py
		Role string `json:"kv_role"`
	}
	if json.Unmarshal([]byte(c[KVTransferConfig].Value), &connector) != nil {
		return ""
	}
	return map[string]Role{"kv_producer": Prefill, "kv_consumer": Decode}[connector.Role]
}

const disaggregation = "disaggregation-mode"

package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

var unknownLabelValue = Check{
	ID: "unknown-label-value", Severity: page, Title: "the label never has this value",
	Doc: "vLLM counts HTTP statuses by class: `status=\"5xx\"`, never `\"500\"`. `finished_reason=\"abort\"` stays 0 when clients leave " +
		"(vllm-project/vllm#31503). kube-state-metrics writes `true` and not `True`, `nvidia_com_gpu` and not `nvidia.com/gpu`.",
	Bad: `sum(kube_node_status_condition{condition="Ready",status="True"})`, Good: `sum(kube_node_status_condition{condition="Ready",status="true"})`,
	selector: func(p *pass, v *parser.VectorSelector) {
		name, _ := vllm.Canonical(nameOf(v))
		for _, m := range v.LabelMatchers {
			positive := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
			if !positive || m.Value == "" || strings.Contains(m.Value, "$") || strings.Contains(m.Value, "[[") {
				continue
			}
			values := closed[m.Name][name]
			switch {
			case name == "vllm:request_success_total" && m.Name == "finished_reason" && m.Value == "abort":
				p.report(v.PositionRange(), "requests that clients abandon are counted nowhere: abort stays 0 (vllm-project/vllm#31503)",
					advice("count disconnects at the gateway, or compare vllm:time_to_first_token_seconds_count with completions"))
			case values != nil && !slices.ContainsFunc(values, m.Matches):
				p.report(v.PositionRange(), fmt.Sprintf("%s of %s is one of %s, and never %q", m.Name, name, strings.Join(values, ", "), m.Value), advice("write one of them"))
			case m.Name == "resource" && slices.Contains(manifold["resource"], name) && m.Type == labels.MatchEqual && strings.ContainsAny(m.Value, "./-"):
				p.report(v.PositionRange(), fmt.Sprintf("kube-state-metrics writes resources with underscores: resource is never %q", m.Value),
					advice("write "+strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(m.Value)))
			case name == "http_requests_total" && m.Name == "status" && !p.surface.Whole && !slices.ContainsFunc(statusClasses, m.Matches):
				p.statusCode(v, m)
			}
		}
	},
}

var statusClasses = []string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// closed are labels that have no other values, by label and metric.
var closed = map[string]map[string][]string{
	"mode":            {"node_cpu_seconds_total": {"idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"}},
	"phase":           {"kube_pod_status_phase": {"Pending", "Running", "Succeeded", "Failed", "Unknown"}},
	"condition":       {"kube_pod_status_ready": truths, "kube_pod_status_scheduled": truths},
	"status":          {"kube_node_status_condition": truths, "kube_deployment_status_condition": truths},
	"sleep_state":     {"vllm:engine_sleep_state": {"awake", "weights_offloaded", "discard_all"}},
	"finished_reason": {"vllm:request_success_total": {"stop", "length", "abort", "error", "repetition"}},
}

var truths = []string{"true", "false", "unknown"}

// statusCode reports a status asked for by its number, as a doubt where nothing says whose requests these are.
func (p *pass) statusCode(v *parser.VectorSelector, m *labels.Matcher) {
	why, fix := fmt.Sprintf("vLLM counts HTTP statuses by class: status is never %q", m.Value), advice(`ask for a class, such as status="5xx"`)
	others := false
	for _, o := range v.LabelMatchers {
		if strings.Contains(strings.ToLower(o.Value), "vllm") {
			p.report(v.PositionRange(), why, fix)
			return
		}
		others = others || !slices.Contains([]string{labels.MetricName, "status", "method", "handler"}, o.Name)
	}
	switch {
	case p.surface.Live:
		p.report(v.PositionRange(), why, fix)
	case !others:
		p.doubt(v.PositionRange(), why, "nothing here says whose requests these are", fix)
	}
}

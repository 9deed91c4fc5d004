package scrapeconfig

import (
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// A relabel is one relabelling step, with the reason for it.
type relabel struct {
	SourceLabels []string `yaml:"source_labels,omitempty,flow"`
	Regex        string   `yaml:"regex,omitempty"`
	TargetLabel  string   `yaml:"target_label,omitempty"`
	Replacement  string   `yaml:"replacement,omitempty"`
	Action       string   `yaml:"action,omitempty"`

	why string
}

// operatorRelabel is a relabel as the operator's resources spell it.
type operatorRelabel struct {
	SourceLabels []string `yaml:"sourceLabels,omitempty,flow"`
	Regex        string   `yaml:"regex,omitempty"`
	TargetLabel  string   `yaml:"targetLabel,omitempty"`
	Replacement  string   `yaml:"replacement,omitempty"`
	Action       string   `yaml:"action,omitempty"`

	why string
}

// relabelings returns what makes of a discovered target the labels that the
// generated rules and dashboards group by.
func (c Config) relabelings(job string, short bool) (out []relabel) {
	if c.static() {
		out = []relabel{{
			SourceLabels: []string{"__address__"}, Regex: `(.+):\d+`, TargetLabel: "node",
			why: "The host, in a label of its own: what a server and the exporter of its GPUs have in common. \"instance\" stays host:port, so that two servers on one host remain two.",
		}}
		if short {
			out = append(out, relabel{
				SourceLabels: []string{"__address__"}, Regex: "(.+):" + servers[c.Server].port, TargetLabel: "instance",
				why: "The usual port taken off. A server on another port keeps its own, so the label then has two forms, and can no longer be queried as an address. " +
					"Never strip every port (:\\d+): two servers on one host would become one target with doubled samples.",
			})
		}
		return out
	}
	if c.Format == PrometheusKube || c.Format == OpenTelemetry {
		out = c.keptPods(job)
	} else {
		out = append(out, relabel{TargetLabel: "job", Replacement: job, why: "One name for the job, rather than that of this resource."})
	}
	out = append(out,
		relabel{SourceLabels: []string{"__meta_kubernetes_pod_node_name"}, TargetLabel: "node", why: "What a server and the exporter of its GPUs have in common."},
		relabel{
			SourceLabels: []string{"__meta_kubernetes_pod_name", "__address__"}, Regex: `(.+);.*:(\d+)`, TargetLabel: "instance", Replacement: "${1}:${2}",
			why: "The pod's name, which an operator can act on, rather than its address. A pod of a StatefulSet keeps it over a restart, so that its counters are seen to begin again.",
		},
	)
	if job == c.Job {
		out = append(out, relabel{
			SourceLabels: roleLabels(), Regex: "(?i).*?" + engine.RoleRegex + ".*", TargetLabel: engine.RoleLabel,
			why: "What it does where prefill and decode are apart, by the labels of llm-d, KServe, Dynamo or AIBrix.",
		})
	}
	labels := c.labels(false)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		r := relabel{TargetLabel: name, Replacement: strings.ReplaceAll(labels[name], "$", "$$")}
		if name == "cluster" {
			r.why = clusterWhy
		}
		out = append(out, r)
	}
	return out
}

// roleLabels are the labels of a pod that say its role.
func roleLabels() (names []string) {
	for _, name := range engine.PodRoleLabels() {
		names = append(names, "__meta_kubernetes_pod_label_"+name)
	}
	return names
}

const clusterWhy = "A label of the target, for external_labels are not there when rules are evaluated."

// keptPods says which of the pods are targets, and names them as an operator's
// resource would.
func (c Config) keptPods(job string) []relabel {
	if c.Port == "" && job == c.Job {
		return append(c.recognized(), podNames...)
	}
	port, source := c.Port, "__meta_kubernetes_pod_container_port_name"
	if job != c.Job {
		port = "9400"
	}
	if isNumber(port) {
		source = "__meta_kubernetes_pod_container_port_number"
	}
	return append([]relabel{
		{SourceLabels: []string{source}, Regex: port, Action: "keep", why: "One target for each pod: the container's port must be declared in its manifest."},
	}, podNames...)
}

// podNames drops pods that do not run, and names the others.
var podNames = []relabel{
	{SourceLabels: []string{"__meta_kubernetes_pod_phase"}, Regex: "Pending|Succeeded|Failed|Completed", Action: "drop", why: "It has not started, or has ended."},
	{SourceLabels: []string{"__meta_kubernetes_namespace"}, TargetLabel: "namespace"},
	{SourceLabels: []string{"__meta_kubernetes_pod_name"}, TargetLabel: "pod"},
}

// metricRelabelings drops what nothing reads.
func (c Config) metricRelabelings() []relabel {
	if !c.Lean {
		return nil
	}
	return []relabel{
		{
			SourceLabels: []string{"__name__"}, Regex: `(http_.*|(kserve_)?vllm:[^g].*)_created`, Action: "drop",
			why: "Creation times, one series in ten. vllm:generation_tokens_created stays: a restart is told from it, and no other name of the kind begins with g. Do not drop histogram buckets: they are two series in three, and every percentile.",
		},
		{SourceLabels: []string{"__name__"}, Regex: `python_(gc_.*|info)`, Action: "drop", why: "Python's garbage collector. process_* stays: memory, open files and CPU time are read."},
	}
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

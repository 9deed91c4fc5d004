package generate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// What no condition over a server's metrics can tell: that there are none. These alerts
// are no pathologies, and have ids beside theirs.
const (
	WatchdogAlert = "VLLMWatchdog"
	absentAlert   = "VLLMServersAbsent"
	missingAlert  = "VLLMReplicasMissing"
	gatewayDown   = "VLLMGatewayDown"
	gatewayGone   = "VLLMGatewaysAbsent"
)

// Absences lists the ids of the alerts on what is not there.
func Absences() []string {
	return []string{"servers-absent", "replicas-missing", "gateway-down", "gateways-absent", "watchdog"}
}

const (
	// remembered is for how long a server that was scraped is expected to be scraped.
	remembered = time.Hour
	// starting is how long a replica may take to load its model.
	starting = 15 * time.Minute
)

// absences renders the alerts on servers that vanished, and the one that always fires.
func (b *ruleBuilder) absences() ([]rulefmt.Rule, error) {
	for _, id := range b.cfg.Absences {
		if !slices.Contains(Absences(), id) {
			return nil, fmt.Errorf("no alert on missing servers is called %q: there are %s", id, strings.Join(Absences(), ", "))
		}
	}
	d := &b.cfg.Deployment
	up := b.cfg.restrict(b.cfg.Series(indicator.Up))
	past := fmt.Sprintf("last_over_time(%s[%s])", up, duration(remembered))
	fleet := strings.Join(d.Model, ", ")
	replicas, err := b.replicasMissing()
	if err != nil {
		return nil, err
	}
	gateways, err := b.gatewaysAbsent()
	if err != nil {
		return nil, err
	}
	rules := []struct {
		id       string
		severity catalog.Severity
		rule     rulefmt.Rule
		text     map[string]string
	}{
		{"servers-absent", catalog.Page, rulefmt.Rule{
			Alert: absentAlert, For: model.Duration(5 * time.Minute),
			Expr: fmt.Sprintf("count by (%s) (%s) unless on (%s) group by (%s) (%s)", fleet, past, fleet, fleet, up),
		}, map[string]string{
			"summary":     "No server of {{ $labels.model_name }} is scraped; {{ $value }} were within the last hour",
			"description": "The servers disappeared from Prometheus' discovery: they were deleted, no longer match its selectors, or Prometheus cannot find them. VLLMTargetDown covers servers that do not answer.",
		}},
		{"replicas-missing", catalog.Ticket, rulefmt.Rule{
			Alert: missingAlert, For: model.Duration(starting),
			Expr: replicas,
		}, map[string]string{
			"summary":     "{{ $value }} wanted replicas of {{ $labels.created_by_name }} are not scraped ({{ $labels.namespace }})",
			"description": "According to kube-state-metrics, the workload should have more replicas than expose metrics: pods are pending, crash, still load their model after " + duration(starting) + ", or are not discovered. Run kubectl get pods -n {{ $labels.namespace }}.",
		}},
		{"gateway-down", catalog.Page, rulefmt.Rule{
			Alert: gatewayDown,
			Expr:  gateways[0],
		}, map[string]string{
			"summary":     "The gateway {{ $labels.gateway }} does not answer{{ with $labels.model_name }} ({{ . }}){{ end }}",
			"description": "Two scrapes of its metrics failed. Its clients get no answer, and its metrics are unknown.",
		}},
		{"gateways-absent", catalog.Page, rulefmt.Rule{
			Alert: gatewayGone, For: model.Duration(5 * time.Minute),
			Expr: gateways[1],
		}, map[string]string{
			"summary":     "No gateway of job {{ $labels.job }} is scraped; {{ $value }} were within the last hour",
			"description": "The gateways disappeared from Prometheus' discovery: they were deleted, no longer match its selectors, or Prometheus cannot find them.",
		}},
		{"watchdog", catalog.Info, rulefmt.Rule{Alert: WatchdogAlert, Expr: "vector(1)"}, map[string]string{
			"summary":     "Heartbeat: rules are evaluated and reach Alertmanager",
			"description": "Always fires. Route it to an external dead man's switch, which calls when it stops arriving.",
		}},
	}
	var out []rulefmt.Rule
	for _, r := range rules {
		if !slices.Contains(b.cfg.Absences, r.id) || r.rule.Expr == "" {
			continue
		}
		if r.id == "servers-absent" {
			b.recorded[indicator.Up.Name] = true
		}
		r.rule.Expr = pretty(r.rule.Expr)
		r.rule.KeepFiringFor = model.Duration(b.cfg.KeepFiringFor)
		r.rule.Labels = b.labels(r.severity)
		r.rule.Annotations = r.text
		r.rule.Annotations["runbook_url"] = absenceRunbook
		out = append(out, r.rule)
	}
	return out, nil
}

// replicasMissing is the PromQL of how many replicas there should be and are not scraped: of the
// ReplicaSets and StatefulSets that had a server within the hour, as many as kube-state-metrics
// says that somebody asked for. An old ReplicaSet is asked for none.
func (b *ruleBuilder) replicasMissing() (string, error) {
	d := &b.cfg.Deployment
	pods := []string{"namespace", "pod"}
	if slices.Contains(d.Model, "cluster") {
		pods = append([]string{"cluster"}, pods...)
	}
	pod := strings.Join(pods, ", ")
	owner := strings.Join(append(slices.Clone(pods[:len(pods)-1]), "created_by_name"), ", ")
	owned := func(of string) (string, error) {
		scraped, err := d.PromQL("group by (" + pod + ") (" + of + ")")
		return fmt.Sprintf("count by (%s) (last_over_time(kube_pod_info[%s]) and on (%s) (%s))", owner, duration(remembered), pod, scraped), err
	}
	before, err := owned("last_over_time(vllm:num_requests_running[1h])")
	if err != nil {
		return "", err
	}
	now, err := owned("vllm:num_requests_running")
	if err != nil {
		return "", err
	}
	asked := func(metric, label string) string {
		return fmt.Sprintf(`label_replace(%s, "created_by_name", "$1", %q, "(.+)")`, metric, label)
	}
	desired := fmt.Sprintf("max by (%s) (%s or %s)", owner, asked("kube_replicaset_spec_replicas", "replicaset"), asked("kube_statefulset_replicas", "statefulset"))
	return fmt.Sprintf("(%s) - on (%s) (%s or on (%s) 0 * (%s)) > 0 and on (%s) (%s)", desired, owner, now, owner, desired, owner, before), nil
}

// gatewaysAbsent are the PromQL of gateways that do not answer, and of those that vanished;
// empty where the deployment has none.
func (b *ruleBuilder) gatewaysAbsent() (exprs [2]string, err error) {
	d := b.cfg.Deployment
	names, ok := d.Gateway()
	if !ok {
		return exprs, nil
	}
	fleet := append(fleetLabels(&d), "job")
	exprs = [2]string{
		"group by (instance) (max_over_time(up[1m]) == 0) and on (instance) group by (instance) (last_over_time(sixty_gateway_upstream_up[1h]))",
		fmt.Sprintf("count by (%[1]s) (group by (%[1]s, instance) (last_over_time(sixty_gateway_upstream_up[1h]))) unless on (%[1]s) group by (%[1]s) (up and on (instance) group by (instance) (last_over_time(sixty_gateway_upstream_up[1h])))",
			strings.Join(fleet, ", ")),
	}
	for i := range exprs {
		if exprs[i], err = d.PromQLIn(names, exprs[i]); err != nil {
			return exprs, err
		}
	}
	if slices.Contains(b.cfg.Absences, "gateway-down") {
		exprs[0] = b.withFleetLabels(exprs[0], "")
	}
	return exprs, nil
}

// absenceRunbook is what to do when servers are not there.
const absenceRunbook = "https://github.com/sixty-dev/sixty/blob/main/docs/rules.md#when-servers-are-missing"

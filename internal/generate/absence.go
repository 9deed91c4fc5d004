package generate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// watchdogAlert is the name of the alert that always fires, without the engine's prefix: see nameByEngine.
const watchdogAlert = "Watchdog"

// Absences lists the ids of the alerts on missing servers and gateways. A condition over a server's metrics cannot
// detect that there is no server, so these alerts are no pathologies.
func Absences() []string {
	return []string{"servers-absent", "autoscaler-stuck", "gateway-down", "gateways-absent", "watchdog"}
}

// expectedFor is how long a vanished server is still expected.
const expectedFor = time.Hour

// renderAbsences renders the alerts on missing servers and gateways, and the watchdog.
func (b *ruleBuilder) renderAbsences() ([]rulefmt.Rule, error) {
	for _, id := range b.cfg.Absences {
		if !slices.Contains(Absences(), id) {
			return nil, fmt.Errorf("no alert on missing servers is called %q: there are %s", id,
				strings.Join(Absences(), ", "))
		}
	}
	d := &b.cfg.Deployment
	gateways, err := b.gatewaysAbsent()
	if err != nil {
		return nil, err
	}
	stuck, err := b.autoscalerStuck(d)
	if err != nil {
		return nil, err
	}
	var out []rulefmt.Rule
	for _, r := range b.absenceRules(stuck, gateways) {
		if !slices.Contains(b.cfg.Absences, r.id) || r.rule.Expr == "" {
			continue
		}
		if r.id == "servers-absent" {
			b.recorded[indicator.Up.Name] = true
		}
		r.rule.Expr = prettifyPromQL(r.rule.Expr)
		r.rule.KeepFiringFor = model.Duration(b.cfg.KeepFiringFor)
		r.rule.Labels = b.alertLabels(r.severity)
		r.rule.Annotations = r.text
		r.rule.Annotations["runbook_url"] = absenceRunbook
		named, err := b.nameByEngine(r.rule, r.scope, r.compile)
		if err != nil {
			return nil, err
		}
		out = append(out, named...)
	}
	return out, nil
}

// An absence is an alert of Absences.
type absence struct {
	id       string
	severity catalog.Severity
	scope    indicator.Scope
	rule     rulefmt.Rule
	text     map[string]string
	compile  deploymentExpr // see nameByEngine
}

// absenceRules lists the alerts of Absences. The PromQL for kube-state-metrics or gateways is empty if the deployment
// has no such source.
func (b *ruleBuilder) absenceRules(stuck string, gateways [2]string) []absence {
	d := &b.cfg.Deployment
	up := b.cfg.selectRecorded(b.cfg.Series(indicator.Up))
	past := fmt.Sprintf("last_over_time(%s[%s])", up, formatDuration(expectedFor))
	fleet := strings.Join(d.Model, ", ")
	absent := fmt.Sprintf("count by (%s) (%s) unless on (%s) group by (%s) (%s)", fleet, past, fleet, fleet, up)
	return []absence{
		{"servers-absent", catalog.Page, indicator.Model, rulefmt.Rule{
			Alert: "ServersAbsent", For: model.Duration(5 * time.Minute),
			Expr: absent,
		}, map[string]string{
			"summary": "No server of {{ $labels.model_name }} is scraped; {{ $value }} were within the last hour",
			"description": "The servers disappeared from Prometheus' discovery: they were deleted, no longer " +
				"match its selectors, or Prometheus cannot find them. The alert TargetDown covers servers that do " +
				"not answer.",
		}, restrictToServed(absent, d.Model)},
		{"autoscaler-stuck", catalog.Ticket, indicator.Model, rulefmt.Rule{
			Alert: "AutoscalerStuck", For: model.Duration(10 * time.Minute),
			Expr: stuck,
		}, map[string]string{
			"summary": "{{ $value | humanize }} requests wait on each replica of {{ $labels.workload }}, and " +
				"its autoscaler does not ask for more ({{ $labels.namespace }})",
			"description": whyStuck + " kubectl describe hpa -n {{ $labels.namespace }} " +
				"{{ $labels.horizontalpodautoscaler }} has its events.",
		}, b.autoscalerStuck},
		{"gateway-down", catalog.Page, indicator.Gateway, rulefmt.Rule{
			Alert: "Down",
			Expr:  gateways[0],
		}, map[string]string{
			"summary": "The gateway {{ $labels.gateway }} does not answer" +
				"{{ with $labels.model_name }} ({{ . }}){{ end }}",
			"description": "Two scrapes of its metrics failed. Its clients get no answer, and its metrics are unknown.",
		}, nil},
		{"gateways-absent", catalog.Page, indicator.Gateway, rulefmt.Rule{
			Alert: "Absent", For: model.Duration(5 * time.Minute),
			Expr: gateways[1],
		}, map[string]string{
			"summary": "No gateway of job {{ $labels.job }} is scraped; {{ $value }} were within the last hour",
			"description": "The gateways disappeared from Prometheus' discovery: they were deleted, no longer " +
				"match its selectors, or Prometheus cannot find them.",
		}, nil},
		{
			"watchdog", catalog.Info, indicator.Model,
			rulefmt.Rule{Alert: watchdogAlert, Expr: "vector(1)"},
			map[string]string{
				"summary": "Heartbeat: rules are evaluated and reach Alertmanager",
				"description": "Always fires. Route it to an external dead man's switch, which calls when it stops " +
					"arriving.",
			},
			nil,
		},
	}
}

// longQueue is the number of waiting requests on each replica from which on an autoscaler should add replicas.
const longQueue = 5

// autoscalerStuck returns PromQL for the waiting requests on each replica of a workload whose HorizontalPodAutoscaler
// wants no more replicas. KEDA creates such autoscalers too. kube-state-metrics tells which pods belong to a workload;
// the name of a ReplicaSet is its Deployment's name and a hash.
func (b *ruleBuilder) autoscalerStuck(d *dialect.Deployment) (string, error) {
	place := "namespace"
	if slices.Contains(d.Model, "cluster") {
		place = "cluster, namespace"
	}
	waiting, err := d.PromQL("sum by (" + place + ", pod) (min_over_time(vllm:num_requests_waiting[5m]))")
	const (
		replicaSetPods = `label_replace(kube_pod_info{created_by_kind="ReplicaSet"}, "workload", "$1", ` +
			`"created_by_name", "(.+)-[^-]+")`
		statefulSetPods = `label_replace(kube_pod_info{created_by_kind="StatefulSet"}, "workload", "$1", ` +
			`"created_by_name", "(.+)")`
		pods   = replicaSetPods + " or " + statefulSetPods
		scaled = `label_replace(kube_horizontalpodautoscaler_info, "workload", "$1", "scaletargetref_name", "(.+)")`
	)
	queue := fmt.Sprintf("avg by (%[1]s, workload) ((%[2]s) * on (%[1]s, pod) group_left (workload) "+
		"max by (%[1]s, pod, workload) (%[3]s)) >= %[4]d", place, waiting, pods, longQueue)
	autoscaler := place + ", horizontalpodautoscaler"
	steady := fmt.Sprintf("kube_horizontalpodautoscaler_status_desired_replicas <= on (%s) "+
		"kube_horizontalpodautoscaler_status_current_replicas", autoscaler)
	return fmt.Sprintf("(%[1]s) * on (%[2]s, workload) group_right () "+
		"group by (%[2]s, workload, horizontalpodautoscaler) (%[3]s and on (%[4]s) (%[5]s))",
		queue, place, scaled, autoscaler, steady), err
}

// whyStuck explains why the autoscaler wants no more replicas, from its state at that moment.
const whyStuck = "{{ $of := printf `namespace=%q,horizontalpodautoscaler=%q` $labels.namespace " +
	"$labels.horizontalpodautoscaler }}" +
	"{{ with printf `kube_horizontalpodautoscaler_status_condition{condition=\"ScalingActive\"," +
	"status=\"false\",%s} == 1` $of | query }}" +
	"It cannot read its metric (ScalingActive is false).{{ else }}" +
	"{{ with printf `kube_horizontalpodautoscaler_spec_max_replicas{%s} <= " +
	"kube_horizontalpodautoscaler_status_desired_replicas` $of | query }}" +
	"It is at its maximum of {{ . | first | value }}: raise it where there are GPUs.{{ else }}" +
	"What it scales on does not show the queue: sixty audit judges its manifest, sixty generate autoscaling " +
	"writes one.{{ end }}{{ end }}"

// gatewaysAbsent returns PromQL for gateways that do not answer, and for gateways that vanished. Both are empty if
// the deployment has no gateway.
func (b *ruleBuilder) gatewaysAbsent() (exprs [2]string, err error) {
	d := b.cfg.Deployment
	names, ok := d.Gateway()
	if !ok {
		return exprs, nil
	}
	fleet := append(fleetLabels(&d), "job")
	exprs = [2]string{
		"group by (instance) (max_over_time(up[1m]) == 0) and on (instance) group by (instance) " +
			"(last_over_time(sixty_gateway_upstream_up[1h]))",
		fmt.Sprintf("count by (%[1]s) (group by (%[1]s, instance) "+
			"(last_over_time(sixty_gateway_upstream_up[1h]))) unless on (%[1]s) group by (%[1]s) (up and on "+
			"(instance) group by (instance) (last_over_time(sixty_gateway_upstream_up[1h])))",
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

// absenceRunbook is the runbook for missing servers.
const absenceRunbook = "https://github.com/sixty-dev/sixty/blob/main/docs/rules.md#when-servers-are-missing"

package generate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// This file writes alerts that Grafana itself evaluates, as a file for its folder provisioning/alerting
// (pkg/services/provisioning/alerting/rules_types.go of Grafana 13). The signals are still recorded by Prometheus.

// GrafanaDataSource is the environment variable of Grafana that holds the uid of the data source of the recorded
// signals.
const GrafanaDataSource = "SIXTY_DATASOURCE_UID"

// grafanaFolder is the folder of the alerts.
const grafanaFolder = "sixty"

type grafanaFile struct {
	APIVersion int            `yaml:"apiVersion"`
	Groups     []grafanaGroup `yaml:"groups"`
}

type grafanaGroup struct {
	OrgID    int            `yaml:"orgId"`
	Name     string         `yaml:"name"`
	Folder   string         `yaml:"folder"`
	Interval model.Duration `yaml:"interval"`
	Rules    []grafanaRule  `yaml:"rules"`
}

type grafanaRule struct {
	UID           string            `yaml:"uid"`
	Title         string            `yaml:"title"` // unique in the folder; it becomes the label alertname
	Condition     string            `yaml:"condition"`
	Data          []grafanaQuery    `yaml:"data"`
	For           model.Duration    `yaml:"for"`
	KeepFiringFor model.Duration    `yaml:"keepFiringFor"`
	NoDataState   string            `yaml:"noDataState"`
	ExecErrState  string            `yaml:"execErrState"`
	Labels        map[string]string `yaml:"labels,omitempty"`
	Annotations   map[string]string `yaml:"annotations,omitempty"`
}

type grafanaQuery struct {
	RefID             string         `yaml:"refId"`
	RelativeTimeRange map[string]int `yaml:"relativeTimeRange"` // seconds before now
	DatasourceUID     string         `yaml:"datasourceUid"`
	Model             map[string]any `yaml:"model"`
}

const (
	grafanaDefaultInterval = model.Duration(time.Minute)      // for groups without an interval
	grafanaTick            = model.Duration(10 * time.Second) // Grafana's intervals are multiples of it
)

// divideForGrafana divides rules into recording rules for Prometheus and alerts for Grafana.
func divideForGrafana(groups []rulefmt.RuleGroup) (records []rulefmt.RuleGroup, alerts grafanaFile) {
	alerts.APIVersion = 1
	times := map[string]int{}
	for _, g := range groups {
		recording, managed := g, grafanaGroup{OrgID: 1, Name: g.Name, Folder: grafanaFolder}
		recording.Rules = nil
		interval := cmp.Or(g.Interval, grafanaDefaultInterval)
		managed.Interval = (interval + grafanaTick - 1) / grafanaTick * grafanaTick // rounded up
		for i := range g.Rules {
			r := &g.Rules[i]
			if r.Alert == "" {
				recording.Rules = append(recording.Rules, *r)
				continue
			}
			times[r.Alert]++
			managed.Rules = append(managed.Rules, manageAlert(r, times[r.Alert]))
		}
		if len(recording.Rules) > 0 {
			records = append(records, recording)
		}
		if len(managed.Rules) > 0 {
			alerts.Groups = append(alerts.Groups, managed)
		}
	}
	return records, alerts
}

// manageAlert converts the nth alert of a name, from 1. Prometheus fires for every series that the expression returns,
// Grafana only for values other than 0. The condition B is therefore whether query A has a value.
func manageAlert(r *rulefmt.Rule, nth int) grafanaRule {
	out := grafanaRule{
		UID: fmt.Sprintf("sixty-%x", sha256.Sum256([]byte(r.Alert+"\n"+r.Expr)))[:26], Title: r.Alert, Condition: "B",
		For: r.For, KeepFiringFor: r.KeepFiringFor, NoDataState: "OK", ExecErrState: "Error",
		Labels: r.Labels, Annotations: maps.Clone(r.Annotations),
		Data: []grafanaQuery{
			{
				RefID: "A", RelativeTimeRange: map[string]int{"from": 600, "to": 0},
				DatasourceUID: "$" + GrafanaDataSource,
				Model:         map[string]any{"refId": "A", "expr": r.Expr, "instant": true},
			},
			{
				RefID: "B", RelativeTimeRange: map[string]int{"from": 0, "to": 0}, DatasourceUID: "__expr__",
				Model: map[string]any{"refId": "B", "type": "math", "expression": "is_number($A)"},
			},
		},
	}
	if nth > 1 {
		out.Title = fmt.Sprintf("%s (%d)", r.Alert, nth)
	}
	for name, text := range out.Annotations {
		out.Annotations[name] = ruleValue.ReplaceAllString(withoutQueries(text), "$1 $$values.A.Value")
	}
	return out
}

// ruleValue matches an alert's value in a template of Prometheus. In Grafana's templates it is the value of query A.
var ruleValue = regexp.MustCompile(`(\{\{) \$value\b`)

// withoutQueries drops the queries of a template, up to the end of the last one: Grafana's templates have no function
// query. The command to run follows them.
func withoutQueries(annotation string) string {
	if !strings.Contains(annotation, "| query }}") {
		return annotation
	}
	return strings.TrimSpace(annotation[strings.LastIndex(annotation, "{{ end }}")+len("{{ end }}"):])
}

package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// scaler reads the queries by which KEDA's ScaledObject and ScaledJob scale
// (https://keda.sh/docs/latest/scalers/prometheus/), and notes every autoscaler.
func (d *document) scaler(n *node, path string) {
	name := n.at("metadata", "name").str()
	d.scaled = append(d.scaled, n)
	for i, t := range n.at("spec", "triggers").elements() {
		expr := t.at("metadata", "query")
		if t.get("type").str() != "prometheus" || strings.TrimSpace(expr.str()) == "" {
			continue
		}
		d.queries = append(d.queries, &query{
			node: expr, at: fmt.Sprintf("%s/%d/metadata/query", path, i), role: scalerRole, name: name,
			where: "scaler " + name, trigger: t, scaler: n,
		})
	}
}

// target is what an autoscaler scales: its namespace, kind and name; "" where that is not said.
func target(n *node) string {
	ref := n.at("spec", "scaleTargetRef")
	if ref.get("name").str() == "" {
		return ""
	}
	return strings.Join([]string{n.at("metadata", "namespace").str(), otherwise(ref.get("kind").str(), "Deployment"), ref.get("name").str()}, "/")
}

// adapter reads a rule of prometheus-adapter, which makes a metric for autoscalers
// (https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md).
func (d *document) adapter(n *node, path string) {
	expr := n.get("seriesQuery")
	if strings.TrimSpace(expr.str()) == "" {
		return
	}
	name := otherwise(n.at("name", "as").str(), expr.str())
	d.queries = append(d.queries, &query{node: expr, at: path + "/seriesQuery", role: variableRole, name: name, where: "adapter rule " + name, adapter: n})
}

// A managedAlert is how Grafana decides on a query's values.
type managedAlert struct {
	rule      *node
	op, limit string // of the threshold behind it
	direct    bool   // the condition is the query itself
	missing   bool   // nothing has the condition's name
	unreduced *node  // the threshold that looks at a range of values which nothing reduces to one
	hasOthers bool   // there are other steps than the query
	refID     string // the query's letter
}

// managed reads an alert that Grafana manages: its condition is a query with a threshold behind it,
// which together are an alert's expression
// (https://grafana.com/docs/grafana/latest/alerting/fundamentals/alert-rules/queries-conditions/).
func (d *document) managed(r *node, path string) error {
	steps := map[string]*node{}
	for _, s := range r.get("data").elements() {
		steps[s.get("refId").str()] = s
	}
	before := len(d.queries)
	if err := d.dashboardNode(r, path, &panelContext{title: r.get("title").str(), perses: true}, nil); err != nil {
		return err
	}
	for _, q := range d.queries[before:] {
		q.where = fmt.Sprintf("alert %q", r.get("title").str())
		q.managed = &managedAlert{rule: r, hasOthers: len(steps) > 1}
		for id, s := range steps {
			if s.at("model", "expr") == q.node {
				q.managed.refID = id
			}
		}
		q.managed.follow(steps, r.get("condition").str())
		if q.managed.op != "" && q.managed.limit != "" {
			q.asAlert(r)
		}
	}
	return nil
}

// follow goes from the condition to the query.
func (m *managedAlert) follow(steps map[string]*node, condition string) {
	step := steps[condition]
	m.missing = step == nil && condition != ""
	m.direct = condition == m.refID && condition != ""
	asked := steps[m.refID].get("model")
	instant := asked.get("instant").scalar() == "true" && asked.get("range").scalar() != "true"
	var threshold *node
	reduced, op, limit := false, "", ""
	for range len(steps) {
		s := step.get("model")
		switch s.get("type").str() {
		case "threshold", "classic_conditions":
			all := s.get("conditions").elements()
			if len(all) != 1 || op != "" {
				return
			}
			e := all[0].get("evaluator")
			op = map[string]string{"gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "eq": "==", "ne": "!="}[e.get("type").str()]
			if params := e.get("params").elements(); len(params) > 0 {
				limit = params[0].scalar()
			}
			threshold = step
			reduced = reduced || s.get("type").str() == "classic_conditions"
		case "reduce", "resample":
			reduced = reduced || s.get("type").str() == "reduce"
		default:
			return
		}
		next := s.get("expression").str()
		if ps := s.get("conditions").elements(); next == "" && len(ps) == 1 {
			if names := ps[0].at("query", "params").elements(); len(names) > 0 {
				next = names[0].scalar()
			}
		}
		if next == m.refID && op != "" {
			if _, err := strconv.ParseFloat(limit, 64); err == nil {
				m.op, m.limit = op, limit
			}
			if !reduced && !instant {
				m.unreduced = threshold
			}
			return
		}
		step = steps[next]
	}
}

// asAlert makes a query with its threshold an alert's expression, told at the query's place.
func (q *query) asAlert(r *node) {
	whole := "(" + strings.TrimSpace(q.node.value) + "\n) " + q.managed.op + " " + q.managed.limit
	q.node = &node{kind: text, value: whole, offset: -1, line: q.node.line, column: q.node.column}
	q.role, q.rule, q.name, q.panel = alertRole, r, r.get("title").str(), nil
	if hold, err := model.ParseDuration(r.get("for").scalar()); err == nil {
		q.hold = time.Duration(hold)
	}
	q.where = "alert " + q.name
}

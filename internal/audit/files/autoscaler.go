package files

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// addScaler reads the queries by which KEDA's ScaledObject and ScaledJob scale
// (https://keda.sh/docs/latest/scalers/prometheus/).
func (d *Document) addScaler(n *yaml.Node) {
	name, triggers := str(n, "metadata", "name"), items(get(n, "spec", "triggers"))
	alone := !slices.ContainsFunc(triggers, func(t *yaml.Node) bool { return str(t, "type") != "prometheus" })
	for _, t := range triggers {
		if expr := get(t, "metadata", "query"); str(t, "type") == "prometheus" && strings.TrimSpace(str(expr)) != "" {
			d.add(&Query{Role: Scaler, Name: name, Where: "scaler " + name, Alone: alone}, expr)
		}
	}
}

// A ManagedAlert is how Grafana decides on a query's values.
type ManagedAlert struct {
	Direct    bool // the condition is the query itself
	Missing   bool // nothing has the condition's name
	Unreduced bool // the threshold looks at a range of values which nothing reduces to one

	op, limit string // the comparison of its threshold
}

// addManaged reads an alert that Grafana manages: its condition is a query with a threshold behind it,
// which together are an alert's expression
// (https://grafana.com/docs/grafana/latest/alerting/fundamentals/alert-rules/queries-conditions/).
func (d *Document) addManaged(r *yaml.Node) error {
	title, condition := str(r, "title"), str(r, "condition")
	steps := map[string]*yaml.Node{}
	for _, s := range items(get(r, "data")) {
		steps[str(s, "refId")] = s
	}
	before := len(d.Queries)
	if err := d.walk(get(r, "data"), &panel{title}); err != nil {
		return err
	}
	for _, q := range d.Queries[before:] {
		m := &ManagedAlert{Missing: steps[condition] == nil && condition != ""}
		q.Where, q.Managed = fmt.Sprintf("alert %q", title), m
		for id, s := range steps {
			if e := get(s, "model", "expr"); e != nil && e == q.node {
				m.Direct = condition == id && condition != ""
				m.follow(steps, id, condition)
			}
		}
		if m.op != "" && m.limit != "" { // an alert's expression, told at the query's place
			q.Expr, q.node = "("+strings.TrimSpace(q.Expr)+"\n) "+m.op+" "+m.limit, nil
			q.Role, q.Name, q.Where, q.Runbook = Alert, title, "alert "+title, str(r, "annotations", "runbook_url")
		}
	}
	return nil
}

// follow goes from the condition to a query, by its letter.
func (m *ManagedAlert) follow(steps map[string]*yaml.Node, query, condition string) {
	asked := get(steps[query], "model")
	reduced := scalar(get(asked, "instant")) == "true" && scalar(get(asked, "range")) != "true"
	op, limit, step := "", "", steps[condition]
	for range steps {
		s := get(step, "model")
		conditions := items(get(s, "conditions"))
		switch kind := str(s, "type"); kind {
		case "threshold", "classic_conditions":
			if len(conditions) != 1 || op != "" {
				return
			}
			e := get(conditions[0], "evaluator")
			op = map[string]string{"gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "eq": "==",
				"ne": "!="}[str(e, "type")]
			if params := items(get(e, "params")); len(params) > 0 {
				limit = scalar(params[0])
			}
			reduced = reduced || kind == "classic_conditions"
		case "reduce", "resample":
			reduced = reduced || kind == "reduce"
		default:
			return
		}
		next := str(s, "expression")
		if next == "" && len(conditions) == 1 {
			if names := items(get(conditions[0], "query", "params")); len(names) > 0 {
				next = scalar(names[0])
			}
		}
		if next == query && op != "" {
			if _, err := strconv.ParseFloat(limit, 64); err == nil {
				m.op, m.limit = op, limit
			}
			m.Unreduced = !reduced
			return
		}
		step = steps[next]
	}
}

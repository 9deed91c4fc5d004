package files

import (
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// addScaler reads the queries by which KEDA's ScaledObject and ScaledJob scale
// (https://keda.sh/docs/latest/scalers/prometheus/).
func (d *Document) addScaler(n *yaml.Node) error {
	type trigger struct {
		Type     string
		Metadata struct{ Query yaml.Node }
	}
	var s struct {
		Metadata struct{ Name string }
		Spec     struct{ Triggers []trigger }
	}
	if err := n.Decode(&s); err != nil {
		return err
	}
	name, other := s.Metadata.Name, func(t trigger) bool { return t.Type != "prometheus" }
	alone := !slices.ContainsFunc(s.Spec.Triggers, other)
	for _, t := range s.Spec.Triggers {
		if !other(t) {
			d.addText(&Query{Role: Scaler, Name: name, Where: "scaler " + name, Alone: alone}, &t.Metadata.Query)
		}
	}
	return nil
}

// managed is an alert that Grafana manages: its condition is a query with a threshold behind it, which together are an
// alert's expression
// (https://grafana.com/docs/grafana/latest/alerting/fundamentals/alert-rules/queries-conditions/).
type managed struct {
	Title, Condition string
	Data             []step
}

// A step of a managed alert is a query, or an expression over other steps, by their letters.
type step struct {
	RefID string `yaml:"refId"`
	Model struct {
		Expr             yaml.Node
		Type, Expression string
		Instant, Range   bool
		Conditions       []struct {
			Evaluator struct {
				Type   string
				Params []string
			}
			Query struct{ Params []string }
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

// addTo adds the queries of the alert to a document.
func (r managed) addTo(d *Document, runbook string) {
	steps := map[string]step{}
	for _, s := range r.Data {
		steps[s.RefID] = s
	}
	_, there := steps[r.Condition]
	for _, s := range r.Data {
		if s.Model.Expr.IsZero() {
			continue
		}
		m := &ManagedAlert{Missing: !there && r.Condition != "", Direct: there && r.Condition == s.RefID}
		m.follow(steps, s.RefID, r.Condition)
		q := &Query{Role: InPanel, Name: r.Title, Where: "alert " + r.Title, Managed: m, node: &s.Model.Expr}
		q.Expr = str(q.node)
		if m.op != "" { // an alert's expression, told at the query's place
			q.Expr, q.Role, q.Runbook = "("+strings.TrimSpace(q.Expr)+"\n) "+m.op+" "+m.limit, Alert, runbook
		}
		d.Add(q)
	}
}

// comparisons are those of Grafana's thresholds. The two of a range are not among them.
var comparisons = map[string]string{"gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "eq": "==", "ne": "!="}

// follow goes from the condition to a query, by its letter.
func (m *ManagedAlert) follow(steps map[string]step, query, condition string) {
	asked := steps[query].Model
	reduced := asked.Instant && !asked.Range
	op, limit, letter := "", "", condition
	for range steps {
		s := steps[letter].Model
		switch s.Type {
		case "threshold", "classic_conditions":
			if len(s.Conditions) != 1 || op != "" {
				return
			}
			op = comparisons[s.Conditions[0].Evaluator.Type]
			if params := s.Conditions[0].Evaluator.Params; len(params) > 0 {
				limit = params[0]
			}
			reduced = reduced || s.Type == "classic_conditions"
		case "reduce", "resample":
			reduced = reduced || s.Type == "reduce"
		default:
			return
		}
		letter = s.Expression
		if letter == "" && len(s.Conditions) == 1 && len(s.Conditions[0].Query.Params) > 0 {
			letter = s.Conditions[0].Query.Params[0]
		}
		if letter == query && op != "" {
			if _, err := strconv.ParseFloat(limit, 64); err == nil {
				m.op, m.limit = op, limit
			}
			m.Unreduced = !reduced
			return
		}
	}
}

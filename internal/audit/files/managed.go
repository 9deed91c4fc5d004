package files

import (
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// A managedRule is an alert that Grafana manages. Its condition names a threshold on a query: the two together are
// the expression of an alert
// (https://grafana.com/docs/grafana/latest/alerting/fundamentals/alert-rules/queries-conditions/).
type managedRule struct {
	Title, Condition string
	Data             []step
}

// A step of a managed rule is a query, or an expression over another step. Steps have letters as names.
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

// A ManagedAlert says how Grafana decides on a query's values.
type ManagedAlert struct {
	Direct    bool // the condition is the query itself
	Missing   bool // no step has the condition's letter
	Unreduced bool // the threshold is applied to a range of values, which no step reduces to one

	op, limit string // the comparison of the threshold, in PromQL; "" if the query has none
}

// addTo adds the queries of the rule to a document. A query with a threshold becomes an alert with the comparison in
// its expression; others count as panels.
func (r managedRule) addTo(d *Document, runbook string) {
	steps := map[string]step{}
	for _, s := range r.Data {
		steps[s.RefID] = s
	}
	_, exists := steps[r.Condition]
	for _, s := range r.Data {
		if s.Model.Expr.IsZero() {
			continue
		}
		m := &ManagedAlert{Missing: !exists && r.Condition != "", Direct: exists && r.Condition == s.RefID}
		m.readThreshold(steps, s.RefID, r.Condition)
		q := &Query{Role: InPanel, Name: r.Title, Where: "alert " + r.Title, Managed: m, node: &s.Model.Expr}
		q.Expr = str(q.node)
		if m.op != "" { // the line break keeps a comment at the query's end from hiding the comparison
			q.Expr, q.Role, q.Runbook = "("+strings.TrimSpace(q.Expr)+"\n) "+m.op+" "+m.limit, Alert, runbook
		}
		d.Add(q)
	}
}

// comparisons maps Grafana's thresholds to PromQL. within_range and outside_range have no single operator.
var comparisons = map[string]string{"gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "eq": "==", "ne": "!="}

// readThreshold walks the steps from the condition to a query. If they are one threshold on it, perhaps with a reduce
// or resample step between, it sets the comparison, and whether the query's values are reduced to one.
func (m *ManagedAlert) readThreshold(steps map[string]step, query, condition string) {
	model := steps[query].Model
	reduced := model.Instant && !model.Range
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
			reduced = reduced || s.Type == "classic_conditions" // it has a reducer of its own
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

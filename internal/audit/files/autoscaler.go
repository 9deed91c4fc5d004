package files

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// scaler reads the queries by which KEDA's ScaledObject and ScaledJob scale
// (https://keda.sh/docs/latest/scalers/prometheus/).
func (d *Document) scaler(n *Node, path string) {
	name := n.At("metadata", "name").Str()
	for i, t := range n.At("spec", "triggers").Items() {
		expr := t.At("metadata", "query")
		if t.Get("type").Str() != "prometheus" || strings.TrimSpace(expr.Str()) == "" {
			continue
		}
		d.Queries = append(d.Queries, &Query{
			Node: expr, Pointer: fmt.Sprintf("%s/%d/metadata/query", path, i), Role: Scaler, Name: name,
			Where: "scaler " + name, Scaler: n,
		})
	}
}

// adapter reads a rule of prometheus-adapter, which makes a metric for autoscalers
// (https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md).
func (d *Document) adapter(n *Node, path string) {
	expr := n.Get("seriesQuery")
	if strings.TrimSpace(expr.Str()) == "" {
		return
	}
	name := cmp.Or(n.At("name", "as").Str(), expr.Str())
	d.Queries = append(d.Queries, &Query{Node: expr, Pointer: path + "/seriesQuery", Role: InVariable, Name: name, Where: "adapter rule " + name})
}

// A ManagedAlert is how Grafana decides on a query's values.
type ManagedAlert struct {
	Rule      *Node
	Direct    bool  // the condition is the query itself
	Missing   bool  // nothing has the condition's name
	Unreduced *Node // the threshold that looks at a range of values which nothing reduces to one
	HasOthers bool  // there are other steps than the query

	op, limit string // of the threshold behind it
	refID     string // the query's letter
}

// managed reads an alert that Grafana manages: its condition is a query with a threshold behind it,
// which together are an alert's expression
// (https://grafana.com/docs/grafana/latest/alerting/fundamentals/alert-rules/queries-conditions/).
func (d *Document) managed(r *Node, path string) error {
	steps := map[string]*Node{}
	for _, s := range r.Get("data").Items() {
		steps[s.Get("refId").Str()] = s
	}
	before := len(d.Queries)
	if err := d.dashboardNode(r, path, &panel{title: r.Get("title").Str()}, nil); err != nil {
		return err
	}
	for _, q := range d.Queries[before:] {
		q.Where = fmt.Sprintf("alert %q", r.Get("title").Str())
		q.Managed = &ManagedAlert{Rule: r, HasOthers: len(steps) > 1}
		for id, s := range steps {
			if s.At("model", "expr") == q.Node {
				q.Managed.refID = id
			}
		}
		q.Managed.follow(steps, r.Get("condition").Str())
		if q.Managed.op != "" && q.Managed.limit != "" {
			q.asAlert(r)
		}
	}
	return nil
}

// follow goes from the condition to the query.
func (m *ManagedAlert) follow(steps map[string]*Node, condition string) {
	step := steps[condition]
	m.Missing = step == nil && condition != ""
	m.Direct = condition == m.refID && condition != ""
	asked := steps[m.refID].Get("model")
	instant := asked.Get("instant").Scalar() == "true" && asked.Get("range").Scalar() != "true"
	var threshold *Node
	reduced, op, limit := false, "", ""
	for range len(steps) {
		s := step.Get("model")
		switch s.Get("type").Str() {
		case "threshold", "classic_conditions":
			all := s.Get("conditions").Items()
			if len(all) != 1 || op != "" {
				return
			}
			e := all[0].Get("evaluator")
			op = map[string]string{"gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "eq": "==", "ne": "!="}[e.Get("type").Str()]
			if params := e.Get("params").Items(); len(params) > 0 {
				limit = params[0].Scalar()
			}
			threshold = step
			reduced = reduced || s.Get("type").Str() == "classic_conditions"
		case "reduce", "resample":
			reduced = reduced || s.Get("type").Str() == "reduce"
		default:
			return
		}
		next := s.Get("expression").Str()
		if ps := s.Get("conditions").Items(); next == "" && len(ps) == 1 {
			if names := ps[0].At("query", "params").Items(); len(names) > 0 {
				next = names[0].Scalar()
			}
		}
		if next == m.refID && op != "" {
			if _, err := strconv.ParseFloat(limit, 64); err == nil {
				m.op, m.limit = op, limit
			}
			if !reduced && !instant {
				m.Unreduced = threshold
			}
			return
		}
		step = steps[next]
	}
}

// asAlert makes a query with its threshold an alert's expression, told at the query's place.
func (q *Query) asAlert(r *Node) {
	whole := "(" + strings.TrimSpace(q.Node.Value) + "\n) " + q.Managed.op + " " + q.Managed.limit
	q.Node = &Node{kind: text, Value: whole, offset: q.Node.offset, aside: true}
	q.Role, q.Rule, q.Name = Alert, r, r.Get("title").Str()
	q.Where = "alert " + q.Name
}

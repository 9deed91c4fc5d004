package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// adapter reads a rule of prometheus-adapter, which makes a metric for autoscalers
// (https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md): what it looks for
// is judged as a query, and what it asks beside it.
func (d *document) adapter(n *node, path string) {
	expr := n.get("seriesQuery")
	if strings.TrimSpace(expr.str()) == "" {
		return
	}
	name := n.at("name", "as").str()
	if name == "" {
		name = expr.str()
	}
	d.queries = append(d.queries, &query{node: expr, path: path + "/seriesQuery", role: variableRole, name: name, where: "adapter rule " + name, adapter: n})
}

// checkAdapter finds rules of prometheus-adapter that hand a counter on as it is.
func (p *pass) rawAdapter() {
	if p.adapter == nil {
		return
	}
	ask := p.adapter.get("metricsQuery")
	v, ok := unparen(p.tree).(*parser.VectorSelector)
	if !ok || ask.str() == "" || slices.ContainsFunc(slices.Concat(rates, harmless), func(f string) bool { return strings.Contains(ask.value, f+"(") }) {
		return
	}
	class, _ := classOf(nameOf(v))
	if class.cumulative() || class == unknownClass && strings.HasSuffix(nameOf(v), "_total") {
		p.reportText(ask, 0, len(ask.value), nameOf(v)+" counts since the server's start: once past the target the replicas stay", "take its rate: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)")
	}
}

// checkScalerSeries finds KEDA's queries that give a series for each replica: it takes one alone, and
// fails where there are several.
func checkScalerSeries(p *pass) {
	if p.role != scalerRole {
		return
	}
	by, why := p.severalSeries(p.tree)
	if by != "" {
		p.report(p.tree.PositionRange(), fmt.Sprintf("KEDA takes one series, and %s: with two replicas it fails (\"prometheus query returned multiple elements\")", why),
			advice("write sum(…), without "+by))
	}
}

// severalSeries returns by what an expression tells replicas apart, and says so; "" where it does not.
func (p *pass) severalSeries(e parser.Expr) (by, why string) {
	switch n := value(e).(type) {
	case *parser.AggregateExpr:
		if n.Without {
			return "", ""
		}
		for _, l := range n.Grouping {
			fixed := slices.ContainsFunc(selectors(n.Expr), func(v *parser.VectorSelector) bool {
				return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
					return m.Name == l && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp && literal(m.Value))
				})
			})
			if slices.Contains(ofReplicas, l) && !fixed {
				return "by (" + l + ")", "by (" + l + ") there is one for each " + l
			}
		}
	case *parser.BinaryExpr:
		if by, why = p.severalSeries(n.LHS); by == "" && n.RHS.Type() == parser.ValueTypeVector {
			if _, scalar := constant(n.LHS); scalar {
				return p.severalSeries(n.RHS)
			}
		}
		return by, why
	case *parser.Call:
		for _, a := range n.Args {
			if t := a.Type(); n.Func.Name != "scalar" && !strings.HasPrefix(n.Func.Name, "absent") && n.Func.Name != "vector" && (t == parser.ValueTypeVector || t == parser.ValueTypeMatrix) {
				return p.severalSeries(a)
			}
		}
	case *parser.MatrixSelector:
		return p.severalSeries(n.VectorSelector)
	case *parser.VectorSelector:
		if ours(nameOf(n)) && known(nameOf(n)) && p.records[nameOf(n)] == nil && !p.pinnedTarget(n) && p.object.at("spec", "maxReplicaCount").scalar() != "1" {
			return "labels", "without an aggregation there is one for each replica"
		}
	}
	return "", ""
}

// ofReplicas are labels of which each replica of a deployment has its own value.
var ofReplicas = []string{"pod", "instance", "pod_name", "kubernetes_pod_name", "exported_pod", "container_id", "replica", "host", "hostname", "node"}

// managed reads an alert that Grafana manages: its condition is a query with a threshold behind it,
// which together are an alert's expression.
func (d *document) managed(r *node, path string) error {
	steps := map[string]*node{}
	for _, s := range r.get("data").elements() {
		steps[s.get("refId").str()] = s
	}
	before := len(d.queries)
	err := d.dashboardNode(r, path, &panelContext{title: r.get("title").str(), perses: true}, nil)
	if err != nil || len(d.queries) != before+1 {
		return err
	}
	q := d.queries[before]
	condition := r.get("condition").str()
	step := steps[condition]
	q.managed = &managedAlert{rule: r, direct: step.at("model", "expr") == q.node, conditioned: len(steps) > 1}
	if step == nil && condition != "" {
		q.managed.missing = condition
	}
	asked := ""
	for id, s := range steps {
		if s.at("model", "expr") == q.node {
			asked = id
		}
	}
	for range len(steps) { // from the condition to the query
		m := step.get("model")
		switch m.get("type").str() {
		case "threshold", "classic_conditions":
			all := m.get("conditions").elements()
			if len(all) != 1 || q.managed.op != "" {
				return nil
			}
			e := all[0].get("evaluator")
			q.managed.op = map[string]string{"gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "eq": "==", "ne": "!="}[e.get("type").str()]
			if params := e.get("params").elements(); len(params) > 0 {
				q.managed.limit = params[0].scalar()
			}
		case "reduce":
		default:
			return nil
		}
		next := m.get("expression").str()
		if ps := m.get("conditions").elements(); next == "" && len(ps) == 1 {
			if names := ps[0].at("query", "params").elements(); len(names) > 0 {
				next = names[0].scalar()
			}
		}
		if next == asked && q.managed.op != "" {
			if _, err := strconv.ParseFloat(q.managed.limit, 64); err != nil {
				return nil
			}
			d.asAlert(q, r)
			return nil
		}
		step = steps[next]
	}
	return nil
}

// A managedAlert is how Grafana decides on a query's values.
type managedAlert struct {
	rule        *node
	op, limit   string // of the threshold behind it
	direct      bool   // the condition is the query itself
	conditioned bool   // there are other steps than the query
	missing     string // the condition, where nothing has its name
}

// asAlert makes a query with its threshold an alert's expression, told at the query's place.
func (d *document) asAlert(q *query, r *node) {
	expr := strings.TrimSpace(q.node.value)
	whole := "(" + expr + "\n) " + q.managed.op + " " + q.managed.limit
	at := &node{kind: text, value: whole, offset: -1, line: q.node.line, column: q.node.column}
	q.node, q.role, q.rule, q.name, q.panel, q.hold = at, alertRole, r, r.get("title").str(), nil, r.get("for").scalar()
	q.where = "alert " + q.name
}

// checkManaged finds alerts that Grafana decides by the query itself, so that every value but 0 fires,
// while a threshold stands beside it.
func (p *pass) decidedByQuery() {
	switch m := p.managed; {
	case m == nil:
	case m.missing != "":
		n := m.rule.get("condition")
		p.reportText(n, 0, len(n.value), "no query or expression has this letter: Grafana refuses the rule", "name the one that decides")
	case m.direct && m.conditioned && !comparesOrAbsent(p.tree):
		n := m.rule.get("condition")
		p.reportText(n, 0, len(n.value), "the condition is the query itself, and every value but 0 fires: the threshold beside it decides nothing", "name the threshold's letter")
	case m.direct && !comparesOrAbsent(p.tree):
		n := m.rule.get("condition")
		p.reportText(n, 0, len(n.value), "the condition is a query without a comparison: every value but 0 fires", "add a threshold, and name its letter")
	}
}

func comparesOrAbsent(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			found = found || n.Op.IsComparisonOperator() || n.Op == parser.LUNLESS
		case *parser.Call:
			found = found || strings.HasPrefix(n.Func.Name, "absent")
		}
		return nil
	})
	return found
}

package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Rules are recording rules and alerts that write to a store and read from it,
// evaluated by Prometheus' own code when somebody says so.
type Rules struct {
	groups []*rules.Group
	alerts []*rules.AlertingRule
	all    []rules.Rule
}

// Alert is one active alert.
type Alert struct {
	Name        string
	Labels      map[string]string // alertname included
	Annotations map[string]string
	Firing      bool // false: pending, it waits for its "for"
	Since       time.Time
}

// Rules loads rule groups over the store.
func (s *Store) Rules(groups []rulefmt.RuleGroup) (*Rules, error) {
	opts := &rules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation,
		QueryFunc:            rules.EngineQueryFunc(s.engine, s.db),
		NotifyFunc:           func(context.Context, string, ...*rules.Alert) {},
		Appendable:           s.Observe(s.db), Queryable: s.db,
		Context: context.Background(),
		Logger:  promslog.NewNopLogger(),
		Parser:  parser.NewParser(parser.Options{}),
	}
	opts.Metrics = rules.NewGroupMetrics(nil)
	out := &Rules{}
	for _, g := range groups {
		loaded, err := out.load(g, opts.Parser)
		if err != nil {
			return nil, fmt.Errorf("rule group %s: %w", g.Name, err)
		}
		out.all = append(out.all, loaded...)
		out.groups = append(out.groups, rules.NewGroup(rules.GroupOptions{Name: g.Name, File: "rules", Interval: time.Duration(g.Interval), Rules: loaded, Opts: opts}))
	}
	return out, nil
}

func (r *Rules) load(g rulefmt.RuleGroup, p parser.Parser) ([]rules.Rule, error) {
	var out []rules.Rule
	for _, rule := range g.Rules {
		expr, err := p.ParseExpr(rule.Expr)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", rule.Record, rule.Alert, err)
		}
		if rule.Record != "" {
			out = append(out, rules.NewRecordingRule(rule.Record, expr, labels.FromMap(rule.Labels)))
			continue
		}
		a := rules.NewAlertingRule(rule.Alert, expr, time.Duration(rule.For), time.Duration(rule.KeepFiringFor),
			labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, promslog.NewNopLogger())
		r.alerts = append(r.alerts, a)
		out = append(out, a)
	}
	return out, nil
}

// Eval evaluates every group once, one rule after the other. Its error joins
// those of single rules.
func (r *Rules) Eval(ctx context.Context, at time.Time) error {
	for _, g := range r.groups {
		g.Eval(ctx, at)
	}
	var errs []error
	for _, rule := range r.all {
		if err := rule.LastError(); err != nil {
			errs = append(errs, fmt.Errorf("rule %s: %w", rule.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// Alerts returns the alerts that were active at the last evaluation.
func (r *Rules) Alerts() []Alert {
	var out []Alert
	for _, rule := range r.alerts {
		for _, a := range rule.ActiveAlerts() {
			out = append(out, Alert{Name: rule.Name(), Labels: a.Labels.Map(), Annotations: a.Annotations.Map(), Firing: a.State == rules.StateFiring, Since: a.ActiveAt})
		}
	}
	return out
}

// RuleQuery returns what rules ask: of the samples that evaluations hold where it can be told from them, and of
// the last ones in the storage; all else of the engine, over what is given. Nothing is held for a rule.
func (s *Store) RuleQuery(all storage.Queryable) rules.QueryFunc {
	engine := rules.EngineQueryFunc(s.engine, all)
	var known sync.Map // by text
	return func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
		q, ok := known.Load(text)
		if !ok {
			q, _ = known.LoadOrStore(text, writtenOf(text))
		}
		if w := q.(written); w.expr != nil {
			if v, err := s.recent.evaluateRule(ctx, w, at.UnixMilli()); err == nil {
				return v, nil
			}
		}
		return engine(ctx, text, at)
	}
}

// written is PromQL as an expression, nil where that has no words for it, and the label that is set of its values.
type written struct {
	expr  indicator.Expr
	label *change
}

func writtenOf(text string) (w written) {
	tree, err := promQL.ParseExpr(text)
	if err != nil {
		return w
	}
	if c, ok := tree.(*parser.Call); ok && c.Func.Name == "label_replace" {
		var args []string
		for _, a := range c.Args[1:] {
			text, ok := a.(*parser.StringLiteral)
			if !ok { // in parentheses
				return w
			}
			args = append(args, text.Val)
		}
		matches, err := regexp.Compile("^(?s:" + args[3] + ")$")
		if err != nil {
			return w
		}
		w.label, tree = &change{replace: &replacement{to: args[0], template: args[1], from: args[2], matches: matches}}, c.Args[0]
	}
	w.expr = exprOf(tree)
	return w
}

// exprOf returns PromQL as an expression, nil where it says what those do not.
func exprOf(tree parser.Expr) indicator.Expr {
	switch n := tree.(type) {
	case *parser.ParenExpr:
		return exprOf(n.Expr)
	case *parser.NumberLiteral:
		return indicator.Number(n.Val)
	case *parser.VectorSelector:
		return samplesOf(n, "", 0, 0)
	case *parser.AggregateExpr:
		op := n.Op.String()
		if of := exprOf(n.Expr); of != nil && n.Param == nil && slices.Contains([]string{"sum", "avg", "min", "max", "count", "group"}, op) {
			return indicator.Aggregate{Op: op, Labels: n.Grouping, Without: n.Without, Of: of}
		}
	case *parser.BinaryExpr:
		return binaryOf(n)
	case *parser.Call:
		return callOf(n)
	}
	return nil
}

// samplesOf returns a function of the samples of a selector.
func samplesOf(n *parser.VectorSelector, function string, param float64, span time.Duration) indicator.Expr {
	if n.Name == "" || n.OriginalOffset != 0 || n.OriginalOffsetExpr != nil || n.Timestamp != nil || n.StartOrEnd != 0 || n.Anchored || n.Smoothed {
		return nil
	}
	where := slices.DeleteFunc(slices.Clone(n.LabelMatchers), func(m *labels.Matcher) bool { return m.Name == labels.MetricName })
	return indicator.Samples{Func: function, Param: param, Metric: n.Name, Where: where, Span: span}
}

func binaryOf(n *parser.BinaryExpr) indicator.Expr {
	out := indicator.Binary{Op: n.Op.String(), A: exprOf(n.LHS), B: exprOf(n.RHS), Bool: n.ReturnBool}
	if m := n.VectorMatching; m != nil {
		if len(m.Include) > 0 || m.FillValues != (parser.VectorMatchFillValues{}) {
			return nil
		}
		out.Labels = m.MatchingLabels
		switch {
		case m.On:
			out.By = "on"
		case len(m.MatchingLabels) > 0:
			out.By = "ignoring"
		}
		out.Group = map[parser.VectorMatchCardinality]string{parser.CardManyToOne: "left", parser.CardOneToMany: "right"}[m.Card]
	}
	if out.A == nil || out.B == nil || !slices.Contains(comparisons, out.Op) && !slices.Contains([]string{"+", "-", "*", "/", "%", "and", "or", "unless"}, out.Op) {
		return nil
	}
	return out
}

func callOf(n *parser.Call) indicator.Expr {
	var of parser.Expr // the argument that is no number
	param := 0.0
	for _, a := range n.Args {
		if number, ok := a.(*parser.NumberLiteral); ok {
			param = number.Val
		} else if of != nil {
			return nil
		} else {
			of = a
		}
	}
	if m, ok := of.(*parser.MatrixSelector); ok && m.RangeExpr == nil {
		return samplesOf(m.VectorSelector.(*parser.VectorSelector), n.Func.Name, param, m.Range)
	}
	if q, ok := of.(*parser.SubqueryExpr); ok && n.Func.Name == "min_over_time" {
		seen, ok := q.Expr.(*parser.Call)
		if !ok || seen.Func.Name != "timestamp" || q.Step != indicator.Step || q.OriginalOffset != 0 || q.Timestamp != nil || q.StartOrEnd != 0 || q.RangeExpr != nil {
			return nil
		}
		if v, ok := seen.Args[0].(*parser.VectorSelector); ok {
			return samplesOf(v, indicator.FirstSeen, 0, q.Range)
		}
		return nil
	}
	switch n.Func.Name {
	case indicator.Time:
		return indicator.Apply{Func: n.Func.Name}
	case "floor", "clamp_min", "clamp_max", indicator.Percentile:
		if e := exprOf(of); e != nil {
			return indicator.Apply{Func: n.Func.Name, Of: e, Param: param}
		}
	}
	return nil
}

// evaluateRule is evaluate for a rule.
func (r *recent) evaluateRule(ctx context.Context, w written, at int64) (promql.Vector, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.borrows = true
	defer func() { r.borrows = false }()
	v, err := r.value(ctx, w.expr, at)
	if err == nil && w.label != nil {
		v.vec = r.relabel(w.label, v.vec)
	}
	if err != nil || r.hasDuplicates(v.vec) {
		return nil, errEngine
	}
	if v.scalar {
		return promql.Vector{{T: at, F: v.f}}, nil
	}
	out := make(promql.Vector, len(v.vec))
	for i, e := range v.vec {
		out[i] = promql.Sample{T: at, F: e.f, Metric: r.sets.sets[e.id]}
	}
	return out, nil
}

// last returns what an instant query sees of a selector, of the storage.
func (r *recent) last(ctx context.Context, s indicator.Samples, at int64) ([]element, error) {
	q, err := r.db.Querier(at-r.lookback+1, at)
	if err != nil {
		return nil, errEngine
	}
	defer q.Close()
	var out []element
	set := q.Select(ctx, false, nil, append(s.Where[:len(s.Where):len(s.Where)], indicator.Is(labels.MetricName, s.Metric))...)
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		f, kind := math.Float64frombits(value.StaleNaN), it.Next()
		for ; kind == chunkenc.ValFloat; kind = it.Next() {
			_, f = it.At()
		}
		if kind != chunkenc.ValNone || it.Err() != nil {
			return nil, errEngine
		}
		if !value.IsStaleNaN(f) {
			out = append(out, element{r.sets.id(set.At().Labels()), f})
		}
	}
	return out, set.Err()
}

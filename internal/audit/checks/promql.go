package checks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/beside"
	"github.com/sixty-dev/sixty/internal/catalog/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// unparen strips parentheses.
func unparen(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// keepers are functions that hand their first argument's values on, perhaps bounded.
var keepers = []string{
	"clamp_min", "clamp_max", "clamp", "sort", "sort_desc", "sort_by_label", "sort_by_label_desc", "label_replace",
	"label_join",
}

// value sees through what filters, bounds or relabels a vector and keeps its values:
// parentheses, comparisons, the left side of set operators, clamp_min and the like.
func value(e parser.Expr) parser.Expr {
	for {
		switch n := e.(type) {
		case *parser.ParenExpr:
			e = n.Expr
		case *parser.BinaryExpr:
			if !(isFilter(n) || n.Op.IsSetOperator() || isJoin(n)) || n.LHS.Type() != parser.ValueTypeVector {
				return e
			}
			e = n.LHS
		case *parser.Call:
			if !slices.Contains(keepers, n.Func.Name) || len(n.Args) == 0 {
				return e
			}
			e = n.Args[0]
		default:
			return e
		}
	}
}

// isJoin reports whether an operator only adds labels: a multiplication with an _info metric or group(…).
func isJoin(b *parser.BinaryExpr) bool {
	if b.Op != parser.MUL || b.VectorMatching == nil {
		return false
	}
	switch n := unparen(b.RHS).(type) {
	case *parser.VectorSelector:
		return strings.HasSuffix(NameOf(n), "_info")
	case *parser.AggregateExpr:
		v, ok := unparen(n.Expr).(*parser.VectorSelector)
		return n.Op == parser.GROUP || ok && n.Op == parser.MAX && strings.HasSuffix(NameOf(v), "_info")
	}
	return false
}

// isFilter reports whether an operator drops the values for which it does not hold.
func isFilter(b *parser.BinaryExpr) bool { return b.Op.IsComparisonOperator() && !b.ReturnBool }

// unscale strips the numbers that a vector is multiplied with or divided by, and returns their product.
func unscale(e parser.Expr) (inner parser.Expr, by float64) {
	b, ok := value(e).(*parser.BinaryExpr)
	if !ok {
		return value(e), 1
	}
	l, left := constant(b.LHS)
	r, right := constant(b.RHS)
	switch {
	case b.Op == parser.MUL && right:
		inner, by = unscale(b.LHS)
		return inner, by * r
	case b.Op == parser.DIV && right && r != 0:
		inner, by = unscale(b.LHS)
		return inner, by / r
	case b.Op == parser.MUL && left:
		inner, by = unscale(b.RHS)
		return inner, by * l
	}
	return b, 1
}

// constant returns the value of an expression of numbers alone.
func constant(e parser.Expr) (float64, bool) {
	switch n := unparen(e).(type) {
	case *parser.NumberLiteral:
		return n.Val, true
	case *parser.UnaryExpr:
		v, ok := constant(n.Expr)
		if n.Op == parser.SUB {
			v = -v
		}
		return v, ok
	case *parser.BinaryExpr:
		l, left := constant(n.LHS)
		r, right := constant(n.RHS)
		op, arithmetic := map[parser.ItemType]float64{parser.ADD: l + r, parser.SUB: l - r, parser.MUL: l * r,
			parser.DIV: l / r}[n.Op]
		return op, left && right && arithmetic
	}
	return 0, false
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// class says how the values of a series behave.
type class uint8

const (
	unknownClass class = iota
	gauge
	counter
	bucket
	sum
	count
	created
	bareHistogram // a histogram's name without a suffix: no series has it
)

// cumulative reports whether the values only grow.
func (c class) cumulative() bool { return c == counter || c == bucket || c == sum || c == count }

// classOf returns the class of a series by its name, as the catalogue of engines
// and NVIDIA's fields has it: a suffix alone proves nothing.
func classOf(name string) (class, engine.Family) {
	n, ok := dialect.Known(name)
	if !ok {
		if f, field := dcgm.FieldOf(name); field {
			c := map[string]class{"counter": counter, "gauge": gauge, "code": gauge}[f.Type]
			return c, engine.Family{Name: name, Engine: dialect.DCGM, Labels: []string{"*"}}
		}
		return unknownClass, n
	}
	canonical, _ := vllm.Canonical(name)
	rest := strings.TrimPrefix(canonical, n.Name)
	switch {
	case n.Type == engine.Gauge:
		return gauge, n
	case strings.HasSuffix(canonical, "_created"):
		return created, n
	case n.Type == engine.Counter:
		return counter, n
	case rest == "_bucket":
		return bucket, n
	case rest == "_sum":
		return sum, n
	case rest == "_count":
		return count, n
	case n.Type == engine.Histogram:
		return bareHistogram, n
	case n.Type == engine.Summary:
		return gauge, n // a quantile
	}
	return unknownClass, n
}

// isEngineName reports whether a name is in the name space of an inference server, or of a program beside it.
func isEngineName(name string) bool {
	_, prefix := vllm.Canonical(name)
	_, other := dialect.OtherOf(name)
	_, near := beside.Of(name)
	return prefix != "" || other || near
}

// NameOf returns the name that a selector asks for, "" where it is no single one.
func NameOf(v *parser.VectorSelector) string {
	if v == nil {
		return ""
	}
	for _, m := range v.LabelMatchers {
		if v.Name == "" && m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return v.Name
}

// Selectors returns the selectors under a node.
func Selectors(n parser.Node) []*parser.VectorSelector {
	var out []*parser.VectorSelector
	parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			out = append(out, v)
		}
		return nil
	})
	return out
}

// selectsBy reports whether a selector asks for a value of a label.
func selectsBy(v *parser.VectorSelector, label string) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == label })
}

// rates are the functions that are for counters.
var rates = []string{"rate", "irate", "increase"}

func isCall(n parser.Node, names ...string) bool {
	c, ok := n.(*parser.Call)
	return ok && c != nil && slices.Contains(names, c.Func.Name)
}

// contains reports whether there is a node of a kind under another one, or itself.
func contains(e parser.Node, is func(parser.Node) bool) (found bool) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		found = found || is(n)
		return nil
	})
	return found
}

// calls reports whether something under a node calls one of the functions.
func calls(e parser.Node, names ...string) bool {
	return contains(e, func(n parser.Node) bool { return isCall(n, names...) })
}

// insideCall reports whether a call of one of the functions encloses the node.
func (p *pass) insideCall(names ...string) bool {
	return slices.ContainsFunc(p.path, func(n parser.Node) bool { return isCall(n, names...) })
}

// rated returns the selector of a rate, perhaps aggregated, and the factor of its values; nil if the expression is no
// rate.
func rated(e parser.Expr) (*parser.VectorSelector, float64) {
	e, outer := unscale(e)
	if a, ok := e.(*parser.AggregateExpr); ok {
		e = a.Expr
	}
	e, inner := unscale(e)
	c, _ := e.(*parser.Call)
	return ranged(c, rates...), outer * inner
}

// ranged returns the selector over whose range one of some functions is called; nil where none is.
func ranged(c *parser.Call, names ...string) *parser.VectorSelector {
	if isCall(c, names...) {
		if m, ok := unparen(c.Args[0]).(*parser.MatrixSelector); ok {
			return m.VectorSelector.(*parser.VectorSelector)
		}
	}
	return nil
}

// A comparison is an expression against a number, the number on the right.
type comparison struct {
	expr  parser.Expr
	op    parser.ItemType
	limit float64
}

var mirrored = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LSS, parser.LSS: parser.GTR, parser.GTE: parser.LTE, parser.LTE: parser.GTE,
	parser.EQLC: parser.EQLC, parser.NEQ: parser.NEQ,
}

// comparedWith splits a comparison with a number. ok is false for other expressions, and if the number is a variable.
func (p *pass) comparedWith(b *parser.BinaryExpr) (c comparison, ok bool) {
	if !b.Op.IsComparisonOperator() {
		return c, false
	}
	limit := b.RHS
	c.expr, c.op = b.LHS, b.Op
	if c.limit, ok = constant(limit); !ok {
		limit, c.expr, c.op = b.LHS, b.RHS, mirrored[b.Op]
		c.limit, ok = constant(limit)
	}
	at := limit.PositionRange()
	return c, ok && !p.Opaque(at.Start, at.End)
}

func (c comparison) above() bool { return c.op == parser.GTR || c.op == parser.GTE }

// A quantile is a histogram_quantile taken apart.
type quantile struct {
	q      float64
	family string  // metric of the only selector, "" otherwise
	factor float64 // of the result
}

// quantileOf takes apart a histogram_quantile, perhaps scaled by a number, also one that a recording rule made.
func (p *pass) quantileOf(e parser.Expr) (quantile, bool) {
	if v, ok := unparen(e).(*parser.VectorSelector); ok {
		if r := p.records[NameOf(v)]; r != nil && r != p.Query && r.Tree != nil {
			return quantileIn(r.Tree)
		}
	}
	return quantileIn(e)
}

func quantileIn(e parser.Expr) (out quantile, ok bool) {
	e, by := unscale(e)
	switch n := e.(type) {
	case *parser.Call:
		if n.Func.Name != "histogram_quantile" || len(n.Args) != 2 {
			return out, false
		}
		out.factor, ok = by, true
		out.q, _ = constant(n.Args[0])
		if all := Selectors(n.Args[1]); len(all) == 1 {
			out.family = strings.TrimSuffix(NameOf(all[0]), "_bucket")
		}
	case *parser.AggregateExpr:
		if n.Op == parser.MAX || n.Op == parser.MIN {
			out, ok = quantileIn(n.Expr)
			out.factor *= by
		}
	}
	return out, ok
}

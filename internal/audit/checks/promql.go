package checks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
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

// unfilter strips what keeps a vector's values: parentheses, comparisons, "and" and "unless", of which the left side
// remains, and the names of recording rules that read no other recording rule.
func (p *pass) unfilter(e parser.Expr) parser.Expr {
	for {
		switch n := e.(type) {
		case *parser.ParenExpr:
			e = n.Expr
		case *parser.BinaryExpr:
			filters := n.Op.IsComparisonOperator() && !n.ReturnBool || n.Op == parser.LAND || n.Op == parser.LUNLESS
			if !filters || n.LHS.Type() != parser.ValueTypeVector {
				return e
			}
			e = n.LHS
		case *parser.VectorSelector:
			r := p.records[NameOf(n)]
			if r == nil || r.Tree == nil || slices.ContainsFunc(Selectors(r.Tree),
				func(v *parser.VectorSelector) bool { return p.isRecorded(NameOf(v)) }) {
				return e
			}
			e = r.Tree
		default:
			return e
		}
	}
}

// unscale strips filters and the numbers that a vector is multiplied with or divided by. It returns their product too.
func (p *pass) unscale(e parser.Expr) (inner parser.Expr, by float64) {
	b, ok := p.unfilter(e).(*parser.BinaryExpr)
	if !ok {
		return p.unfilter(e), 1
	}
	l, left := constant(b.LHS)
	r, right := constant(b.RHS)
	switch {
	case b.Op == parser.MUL && right:
		inner, by = p.unscale(b.LHS)
		return inner, by * r
	case b.Op == parser.DIV && right && r != 0:
		inner, by = p.unscale(b.LHS)
		return inner, by / r
	case b.Op == parser.MUL && left:
		inner, by = p.unscale(b.RHS)
		return inner, by * l
	}
	return b, 1
}

// constant returns the value of a number, perhaps with a sign; ok is false for other expressions.
func constant(e parser.Expr) (value float64, ok bool) {
	switch n := unparen(e).(type) {
	case *parser.NumberLiteral:
		return n.Val, true
	case *parser.UnaryExpr:
		v, ok := constant(n.Expr)
		if n.Op == parser.SUB {
			v = -v
		}
		return v, ok
	}
	return 0, false
}

// formatShort writes a number with at most six digits.
func formatShort(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// typeOf returns the type and family of a series by its name, as the catalogue of engines or NVIDIA's list of fields
// has it; a suffix alone proves nothing. The parts of a histogram are counters; its bare name is a histogram, though
// no series has it. The type is "" for unknown names, names of recording rules, and _created.
func (p *pass) typeOf(name string) (engine.Type, engine.Family) {
	f, known := dialect.Known(name)
	canonical, _ := vllm.Canonical(name)
	field, ofGPU := dcgm.FieldOf(name)
	switch {
	case p.isRecorded(name) || f.Type != engine.Gauge && strings.HasSuffix(canonical, "_created"):
		return "", f
	case !known && ofGPU && field.Type == "code": // the number identifies something, such as an error
		return engine.Gauge, engine.Family{Name: name, Engine: dialect.DCGM}
	case !known && ofGPU:
		return engine.Type(field.Type), engine.Family{Name: name, Engine: dialect.DCGM, Unit: field.Unit}
	case slices.Contains(engine.HistogramSuffixes, strings.TrimPrefix(canonical, f.Name)):
		return engine.Counter, f
	case f.Type == engine.Summary: // its bare name has the quantiles
		return engine.Gauge, f
	}
	return f.Type, f
}

// NameOf returns the metric's name that a selector asks for; "" if it may match several.
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

// rates are the functions for counters.
var rates = []string{"rate", "irate", "increase"}

// isCall reports whether a node calls one of the functions.
func isCall(n parser.Node, functions ...string) bool {
	c, ok := n.(*parser.Call)
	return ok && c != nil && slices.Contains(functions, c.Func.Name)
}

// contains reports whether a node, or one below it, satisfies a condition.
func contains(e parser.Node, is func(parser.Node) bool) (found bool) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		found = found || is(n)
		return nil
	})
	return found
}

// calls reports whether a node, or one below it, calls one of the functions.
func calls(e parser.Node, functions ...string) bool {
	return contains(e, func(n parser.Node) bool { return isCall(n, functions...) })
}

// insideCall reports whether a call of one of the functions encloses the present node.
func (p *pass) insideCall(functions ...string) bool {
	return slices.ContainsFunc(p.path, func(n parser.Node) bool { return isCall(n, functions...) })
}

// argumentOf returns the range selector, without its range, that one of the functions is called with; nil for other
// expressions.
func argumentOf(e parser.Expr, functions ...string) *parser.VectorSelector {
	if isCall(e, functions...) {
		if m, ok := unparen(e.(*parser.Call).Args[0]).(*parser.MatrixSelector); ok {
			return m.VectorSelector.(*parser.VectorSelector)
		}
	}
	return nil
}

// A comparison compares an expression with a number, turned round so that the number is on the right.
type comparison struct {
	expr  parser.Expr
	op    parser.ItemType
	limit float64
}

var mirrored = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LSS, parser.LSS: parser.GTR, parser.GTE: parser.LTE, parser.LTE: parser.GTE,
	parser.EQLC: parser.EQLC, parser.NEQ: parser.NEQ,
}

// comparedWith takes a comparison with a number apart. ok is false for other expressions, and if the number is a
// variable.
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

// isAbove reports whether values above the limit pass.
func (c comparison) isAbove() bool { return c.op == parser.GTR || c.op == parser.GTE }

// A quantile is a histogram_quantile taken apart.
type quantile struct {
	q      float64 // 0.95 for P95
	family string  // the histogram; "" if the expression has several selectors
	factor float64 // by which the result is multiplied
}

// quantileOf takes a histogram_quantile apart, perhaps scaled, filtered, or aggregated by max or min.
func (p *pass) quantileOf(e parser.Expr) (out quantile, ok bool) {
	e, by := p.unscale(e)
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
			out, ok = p.quantileOf(n.Expr)
			out.factor *= by
		}
	}
	return out, ok
}

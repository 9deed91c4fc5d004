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

// value sees through what filters or records a vector and keeps its values: parentheses, comparisons, the left side of
// and and unless, and recording rules of the files that read no other.
func (p *pass) value(e parser.Expr) parser.Expr {
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
				func(v *parser.VectorSelector) bool { return p.recorded(NameOf(v)) }) {
				return e
			}
			e = r.Tree
		default:
			return e
		}
	}
}

// unscale strips the numbers that a vector is multiplied with or divided by, and returns their product.
func (p *pass) unscale(e parser.Expr) (inner parser.Expr, by float64) {
	b, ok := p.value(e).(*parser.BinaryExpr)
	if !ok {
		return p.value(e), 1
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

// constant returns the value of a number.
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
	}
	return 0, false
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// typeOf returns the type of a series by its name, as the catalogue of engines and NVIDIA's fields has it: a suffix
// alone proves nothing. The parts of a histogram are counters, and its bare name, which no series has, is a histogram.
// It is "" for a recording rule's name and for _created.
func (p *pass) typeOf(name string) (engine.Type, engine.Family) {
	f, known := dialect.Known(name)
	canonical, _ := vllm.Canonical(name)
	field, ofGPU := dcgm.FieldOf(name)
	switch {
	case p.recorded(name) || f.Type != engine.Gauge && strings.HasSuffix(canonical, "_created"):
		return "", f
	case !known && ofGPU && field.Type == "code": // a number that is no amount
		return engine.Gauge, engine.Family{Name: name, Engine: dialect.DCGM}
	case !known && ofGPU:
		return engine.Type(field.Type), engine.Family{Name: name, Engine: dialect.DCGM, Unit: field.Unit}
	case slices.Contains(engine.HistogramSuffixes, strings.TrimPrefix(canonical, f.Name)):
		return engine.Counter, f
	case f.Type == engine.Summary: // a quantile
		return engine.Gauge, f
	}
	return f.Type, f
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

// ranged returns the selector over whose range an expression calls one of some functions; nil where it does not.
func ranged(e parser.Expr, names ...string) *parser.VectorSelector {
	if isCall(e, names...) {
		if m, ok := unparen(e.(*parser.Call).Args[0]).(*parser.MatrixSelector); ok {
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

// quantileOf takes apart a histogram_quantile, perhaps scaled by a number.
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

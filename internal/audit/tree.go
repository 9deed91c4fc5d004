package audit

import (
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
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
	"clamp_min", "clamp_max", "clamp", "sort", "sort_desc", "sort_by_label", "sort_by_label_desc",
	"label_replace", "label_join",
}

// value sees through what filters, bounds or relabels a vector and keeps its values:
// parentheses, comparisons, the left side of set operators, clamp_min and the like.
func value(e parser.Expr) parser.Expr {
	for {
		switch n := e.(type) {
		case *parser.ParenExpr:
			e = n.Expr
		case *parser.BinaryExpr:
			switch {
			case isJoin(n) && ones(n.LHS):
				e = n.RHS
			case (isFilter(n) || n.Op.IsSetOperator() || isJoin(n)) && n.LHS.Type() == parser.ValueTypeVector:
				e = n.LHS
			default:
				return e
			}
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

// isJoin reports whether an operator only adds labels: a multiplication with a vector
// of ones, as * on (pod) group_left (node) kube_pod_info is.
func isJoin(b *parser.BinaryExpr) bool {
	return b.Op == parser.MUL && b.VectorMatching != nil && (ones(b.RHS) || ones(b.LHS))
}

// ones reports whether all values of a vector are 1, by the way it is written:
// x * 0 + 1, group(x), or the name of an _info metric.
func ones(e parser.Expr) bool {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		return strings.HasSuffix(nameOf(n), "_info")
	case *parser.AggregateExpr:
		return n.Op == parser.GROUP || n.Op != parser.SUM && n.Op != parser.COUNT && ones(n.Expr)
	case *parser.Call:
		return slices.Contains(keepers, n.Func.Name) && len(n.Args) > 0 && ones(n.Args[0])
	case *parser.BinaryExpr:
		one, _, added := number(n.RHS)
		zeros, ok := unparen(n.LHS).(*parser.BinaryExpr)
		if n.Op != parser.ADD {
			return isFilter(n) && ones(n.LHS)
		}
		if !added {
			one, _, added = number(n.LHS)
			zeros, ok = unparen(n.RHS).(*parser.BinaryExpr)
		}
		return added && one == 1 && ok && isZeros(zeros)
	}
	return false
}

// isZeros reports whether a vector is multiplied with 0.
func isZeros(b *parser.BinaryExpr) bool {
	l, _, onLeft := number(b.LHS)
	r, _, onRight := number(b.RHS)
	return b.Op == parser.MUL && (onLeft && l == 0 || onRight && r == 0)
}

// isFilter reports whether an operator drops the values for which it does not hold.
func isFilter(b *parser.BinaryExpr) bool { return b.Op.IsComparisonOperator() && !b.ReturnBool }

// factor is the number that a vector's values are multiplied with, NaN where they are
// part of another calculation.
func factor(e parser.Expr) float64 {
	switch n := value(e).(type) {
	case *parser.AggregateExpr:
		return factor(n.Expr)
	case *parser.BinaryExpr:
		l, _, onLeft := number(n.LHS)
		r, _, onRight := number(n.RHS)
		switch {
		case onRight && n.Op == parser.MUL:
			return factor(n.LHS) * r
		case onRight && n.Op == parser.DIV:
			return factor(n.LHS) / r
		case onLeft && n.Op == parser.MUL:
			return l * factor(n.RHS)
		}
		return math.NaN()
	}
	return 1
}

// unscaled strips the numbers that a vector is multiplied with or divided by.
func unscaled(e parser.Expr) parser.Expr {
	for {
		b, ok := value(e).(*parser.BinaryExpr)
		if !ok || b.Op != parser.MUL && b.Op != parser.DIV {
			return value(e)
		}
		_, _, onLeft := number(b.LHS)
		_, _, onRight := number(b.RHS)
		switch {
		case onRight:
			e = b.LHS
		case onLeft && b.Op == parser.MUL:
			e = b.RHS
		default:
			return b
		}
	}
}

// number returns the value of a literal, perhaps negated.
func number(e parser.Expr) (v float64, lit *parser.NumberLiteral, ok bool) {
	switch n := unparen(e).(type) {
	case *parser.NumberLiteral:
		return n.Val, n, true
	case *parser.UnaryExpr:
		if v, lit, ok := number(n.Expr); ok {
			if n.Op == parser.SUB {
				v = -v
			}
			return v, lit, true
		}
	}
	return 0, nil, false
}

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

// classOf returns the class of a series by its name.
func classOf(name string) (class, engine.Family) {
	n, ok := dialect.Known(name)
	if !ok {
		n, ok = exporterFamily(name)
	}
	if !ok {
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

// nameOf returns the name that a selector asks for, "" where it is no single
// one.
func nameOf(v *parser.VectorSelector) string {
	if v.Name != "" {
		return v.Name
	}
	for _, m := range v.LabelMatchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// selectors returns the selectors under a node.
func selectors(n parser.Node) []*parser.VectorSelector {
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

// ofVLLM reports whether a selector asks for one of vLLM's metrics.
func ofVLLM(v *parser.VectorSelector) bool {
	_, f := classOf(nameOf(v))
	return f.Engine == vllm.ID
}

func isCall(n parser.Node, names ...string) bool {
	c, ok := n.(*parser.Call)
	return ok && c != nil && slices.Contains(names, c.Func.Name)
}

// under reports whether a call of one of the functions encloses a node.
func under(path []parser.Node, names ...string) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool { return isCall(n, names...) })
}

// quantile takes apart a histogram_quantile, perhaps scaled by a number.
type quantile struct {
	call   *parser.Call
	q      float64
	family string  // of the only selector beneath, "" otherwise
	factor float64 // what the result is multiplied with
}

func quantileIn(e parser.Expr) (quantile, bool) {
	switch n := unparen(e).(type) {
	case *parser.Call:
		if n.Func.Name != "histogram_quantile" || len(n.Args) != 2 {
			return quantile{}, false
		}
		out := quantile{call: n, factor: 1}
		out.q, _, _ = number(n.Args[0])
		families := map[string]bool{}
		for _, v := range selectors(n.Args[1]) {
			families[strings.TrimSuffix(nameOf(v), "_bucket")] = true
		}
		if len(families) == 1 {
			for f := range families {
				out.family = f
			}
		}
		return out, true
	case *parser.BinaryExpr:
		if v, _, ok := number(n.RHS); ok && (n.Op == parser.MUL || n.Op == parser.DIV && v != 0) {
			if out, ok := quantileIn(n.LHS); ok {
				if n.Op == parser.DIV {
					v = 1 / v
				}
				out.factor *= v
				return out, true
			}
		}
		if v, _, ok := number(n.LHS); ok && n.Op == parser.MUL {
			if out, ok := quantileIn(n.RHS); ok {
				out.factor *= v
				return out, true
			}
		}
	case *parser.AggregateExpr:
		if n.Op == parser.MAX || n.Op == parser.MIN {
			return quantileIn(n.Expr)
		}
	}
	return quantile{}, false
}

// A labelSet is what is known of the labels of a vector.
type labelSet struct {
	known bool
	exact bool // these and no others; otherwise the target's labels are beside them
	names []string
}

func (l labelSet) without(drop ...string) labelSet {
	l.names = slices.DeleteFunc(slices.Clone(l.names), func(n string) bool { return slices.Contains(drop, n) })
	return l
}

// labelsOf infers the labels of an expression's result.
func (p *pass) labelsOf(e parser.Expr) labelSet {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		return p.selectorLabels(n)
	case *parser.MatrixSelector:
		return p.labelsOf(n.VectorSelector)
	case *parser.SubqueryExpr:
		return p.labelsOf(n.Expr)
	case *parser.AggregateExpr:
		return p.aggregateLabels(n)
	case *parser.UnaryExpr:
		return p.labelsOf(n.Expr)
	case *parser.Call:
		switch n.Func.Name {
		case "absent", "absent_over_time":
			return ofAbsent(n.Args[0])
		case "label_replace", "label_join", "info", "histogram_quantiles":
			return labelSet{}
		case "vector":
			return labelSet{known: true, exact: true}
		case "histogram_quantile":
			return p.labelsOf(n.Args[1]).without("le")
		}
		for _, a := range n.Args {
			if t := a.Type(); t == parser.ValueTypeVector || t == parser.ValueTypeMatrix {
				return p.labelsOf(a)
			}
		}
		return labelSet{known: true, exact: true}
	case *parser.BinaryExpr:
		return p.binaryLabels(n)
	}
	return labelSet{}
}

// ofAbsent returns the labels of what absent gives: those that its selector sets to one value.
func ofAbsent(e parser.Expr) labelSet {
	l := labelSet{known: true, exact: true}
	if m, ok := unparen(e).(*parser.MatrixSelector); ok {
		e = m.VectorSelector
	}
	if v, ok := unparen(e).(*parser.VectorSelector); ok {
		for _, m := range v.LabelMatchers {
			if m.Type == labels.MatchEqual && m.Name != labels.MetricName {
				l.names = append(l.names, m.Name)
			}
		}
	}
	return l
}

// selectorLabels are those of the series that a selector takes: of recorded ones, what their rule leaves
// and adds.
func (p *pass) selectorLabels(v *parser.VectorSelector) labelSet {
	r := p.records[nameOf(v)]
	if r == nil || p.several[nameOf(v)] {
		return p.seriesLabels(nameOf(v))
	}
	if r.tree == nil || r == p.query || p.depth >= deepest {
		return labelSet{}
	}
	one := *p
	one.query, one.depth = r, p.depth+1
	l := one.labelsOf(r.tree)
	if !l.known || !l.exact {
		return labelSet{}
	}
	for _, f := range r.rule.get("labels").all() {
		l.names = append(slices.Clone(l.names), f.key)
	}
	slices.Sort(l.names)
	l.names = slices.Compact(l.names)
	return l
}

func (p *pass) seriesLabels(name string) labelSet {
	class, n := classOf(name)
	if class == unknownClass || n.Engine == "" && class != counter && !isExporters(n) || slices.Contains(n.Labels, "*") {
		return labelSet{}
	}
	l := labelSet{known: true, names: slices.Sorted(slices.Values(n.Labels))}
	if class == bucket {
		l.names = append(l.names, "le")
	}
	return l
}

func (p *pass) aggregateLabels(n *parser.AggregateExpr) labelSet {
	at := n.PositionRange()
	inner := n.Expr.PositionRange()
	if p.opaque(at.Start, inner.Start) || p.opaque(inner.End, at.End) {
		return labelSet{}
	}
	switch n.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		return p.labelsOf(n.Expr)
	case parser.COUNT_VALUES:
		return labelSet{}
	}
	if n.Without {
		return p.labelsOf(n.Expr).without(n.Grouping...)
	}
	return labelSet{known: true, exact: true, names: slices.Sorted(slices.Values(n.Grouping))}
}

func (p *pass) binaryLabels(n *parser.BinaryExpr) labelSet {
	if n.VectorMatching == nil {
		if n.LHS.Type() == parser.ValueTypeScalar {
			return p.labelsOf(n.RHS)
		}
		return p.labelsOf(n.LHS)
	}
	switch {
	case n.Op == parser.LAND || n.Op == parser.LUNLESS:
		return p.labelsOf(n.LHS)
	case n.Op == parser.LOR, n.VectorMatching.Card != parser.CardOneToOne:
		return labelSet{}
	case n.VectorMatching.On:
		return labelSet{known: true, exact: true, names: slices.Sorted(slices.Values(n.VectorMatching.MatchingLabels))}
	}
	return p.labelsOf(n.LHS).without(n.VectorMatching.MatchingLabels...)
}

// literal reports whether a regular expression matches one text only.
func literal(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && re.Op == syntax.OpLiteral
}

// tokens of a range of the expression, as PromQL's lexer sees them.
func (p *pass) tokens(start, end posrange.Pos) []parser.Item {
	text := []byte(p.node.value)
	for _, m := range p.mentions { // the lexer knows no variables
		copy(text[m.start:m.end], filling(p.node.value, m, true))
	}
	lexer := parser.Lex(string(text))
	var out []parser.Item
	for range len(text) + 1 {
		var item parser.Item
		lexer.NextItem(&item)
		if item.Typ == parser.EOF || item.Typ == parser.ERROR {
			break
		}
		if item.Pos >= start && item.Pos < end {
			out = append(out, item)
		}
	}
	return out
}

// groupBy is the edit that adds a label to an aggregation's "by"; ok is false
// for "without" and where a variable stands.
func (p *pass) groupBy(n *parser.AggregateExpr, label string) ([]edit, bool) {
	at, inner := n.PositionRange(), n.Expr.PositionRange()
	if n.Without || p.opaque(at.Start, inner.Start) || p.opaque(inner.End, at.End) {
		return nil, false
	}
	items := slices.Concat(p.tokens(at.Start, inner.Start), p.tokens(inner.End, at.End))
	for i, item := range items {
		if item.Typ == parser.BY && i+1 < len(items) {
			open := int(items[i+1].Pos) + 1
			if len(n.Grouping) > 0 {
				label += ", "
			}
			return []edit{{p.node, open, open, label}}, true
		}
	}
	if len(items) == 0 {
		return nil, false
	}
	end := int(items[0].Pos) + len(items[0].Val)
	gap := ""
	if end < len(p.node.value) && p.node.value[end] == '(' {
		gap = " "
	}
	return []edit{{p.node, end, end, " by (" + label + ")" + gap}}, true
}

// matcherEdit returns edits of a matcher's label or value inside a selector.
func (p *pass) matcherEdit(v *parser.VectorSelector, label, newLabel, newValue string) []edit {
	items := p.tokens(v.PosRange.Start, v.PosRange.End)
	for i := 0; i+2 < len(items); i++ {
		if items[i].Val != label || items[i+2].Typ != parser.STRING {
			continue
		}
		name, value := items[i], items[i+2]
		if newLabel != "" {
			return []edit{{p.node, int(name.Pos), int(name.Pos) + len(name.Val), newLabel}}
		}
		return []edit{{p.node, int(value.Pos) + 1, int(value.Pos) + len(value.Val) - 1, newValue}}
	}
	return nil
}

// rename is the edit that gives a selector another name.
func (p *pass) rename(v *parser.VectorSelector, to string) []edit {
	start := int(v.PosRange.Start)
	if v.Name == "" || !strings.HasPrefix(p.node.value[start:], v.Name) {
		return nil
	}
	return []edit{{p.node, start, start + len(v.Name), to}}
}

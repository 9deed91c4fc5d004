package embedded

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// A plan is a part of an expression, with what is known of it beforehand.
type plan struct {
	expr  parser.Expr
	parts []*plan // operands, arguments
	hash  uint64  // of the whole of it
	memo  bool    // it is worth remembering

	// Of selectors: which series, and how far back, in ms; 0 for an instant.
	matchers  []*labels.Matcher
	name      *labels.Matcher
	instances *labels.Matcher // by a regular expression, nil where there is none
	key       string          // of all but the instances
	span      int64

	call promql.FunctionCall
	// How labels change, as keys of labelSets.changes.
	change, match *change
}

// mostPlans is how many plans are remembered at the least; twice as many at most. They are as long
// as what they plan, and soon made.
const mostPlans = 400

// quickFunctions are those whose result has no other labels than their argument, but for
// the name.
var quickFunctions = map[string]bool{
	"rate": true, "increase": true, "delta": true, "irate": true, "idelta": true, "deriv": true,
	"resets": true, "changes": true,
	"avg_over_time": true, "min_over_time": true, "max_over_time": true, "sum_over_time": true, "count_over_time": true,
	"last_over_time": true, "quantile_over_time": true, "stddev_over_time": true, "present_over_time": true,
	"clamp_min": true, "clamp_max": true, "abs": true, "floor": true, "ceil": true, "sqrt": true, "exp": true, "ln": true,
	"histogram_quantile": true, "time": true, "timestamp": true, "label_replace": true,
}

// quickAggregations and quickOperators are known here.
var (
	quickAggregations = []parser.ItemType{parser.SUM, parser.AVG, parser.MIN, parser.MAX, parser.COUNT, parser.GROUP}
	quickOperators    = []parser.ItemType{
		parser.ADD, parser.SUB, parser.MUL, parser.DIV, parser.MOD, parser.POW,
		parser.EQLC, parser.NEQ, parser.GTR, parser.LSS, parser.GTE, parser.LTE, parser.LAND, parser.LOR, parser.LUNLESS,
	}
)

// planOf prepares an expression; nil where the engine must answer.
func planOf(e parser.Expr) *plan {
	p := &plan{expr: e}
	add := func(es ...parser.Expr) bool {
		for _, e := range es {
			part := planOf(e)
			if part == nil {
				return false
			}
			p.parts = append(p.parts, part)
		}
		return true
	}
	ok := true
	switch n := e.(type) {
	case *parser.NumberLiteral:
	case *parser.ParenExpr:
		return planOf(n.Expr)
	case *parser.VectorSelector:
		ok = p.selects(n, 0)
	case *parser.MatrixSelector:
		vs, plain := n.VectorSelector.(*parser.VectorSelector)
		ok = plain && n.RangeExpr == nil && p.selects(vs, n.Range)
	case *parser.SubqueryExpr:
		ok = n.OriginalOffset == 0 && n.Offset == 0 && n.Timestamp == nil && n.StartOrEnd == 0 &&
			n.RangeExpr == nil && n.StepExpr == nil && n.OriginalOffsetExpr == nil && n.Step > 0 && add(n.Expr)
	case *parser.Call:
		p.call = promql.FunctionCalls[n.Func.Name]
		ok = quickFunctions[n.Func.Name]
		if n.Func.Name == "label_replace" {
			ok = add(n.Args[0]) && p.replaces(n.Args[1:])
		} else {
			ok = ok && add(n.Args...)
		}
		for _, arg := range n.Args {
			_, steps := arg.(*parser.SubqueryExpr)
			ok = ok && (!steps || strings.HasSuffix(n.Func.Name, "_over_time")) // others look at the selector
		}
		p.memo = true
	case *parser.AggregateExpr:
		ok = slices.Contains(quickAggregations, n.Op) && n.Param == nil && add(n.Expr)
		p.change = &change{keep: !n.Without, names: slices.Sorted(slices.Values(n.Grouping))}
		if n.Without {
			p.change.names = append(p.change.names, labels.MetricName)
		}
		p.memo = true
	case *parser.BinaryExpr:
		ok = slices.Contains(quickOperators, n.Op) && add(n.LHS, n.RHS) && p.matches(n)
	default:
		return nil
	}
	if !ok {
		return nil
	}
	p.sum()
	return p
}

var seed = maphash.MakeSeed()

// sum makes a number of an expression that no other one has.
func (p *plan) sum() {
	var h maphash.Hash
	h.SetSeed(seed)
	word := func(n uint64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	switch n := p.expr.(type) {
	case *parser.NumberLiteral:
		word(math.Float64bits(n.Val))
	case *parser.Call:
		h.WriteString(n.Func.Name)
	case *parser.AggregateExpr:
		word(uint64(n.Op))
	case *parser.BinaryExpr:
		word(uint64(n.Op))
		word(uint64(number(n.ReturnBool)))
		if n.VectorMatching != nil {
			word(uint64(n.VectorMatching.Card))
		}
	case *parser.SubqueryExpr:
		word(uint64(n.Range))
		word(uint64(n.Step))
	}
	h.WriteString(p.key)
	if p.instances != nil {
		h.WriteString(p.instances.Value)
	}
	word(uint64(p.span))
	for _, c := range []*change{p.change, p.match} {
		if c != nil {
			h.WriteString(c.key())
		}
		h.WriteByte(0xfe)
	}
	for _, part := range p.parts {
		word(part.hash)
	}
	p.hash = h.Sum64()
}

// replaces prepares label_replace.
func (p *plan) replaces(args parser.Expressions) bool {
	var texts []string
	for _, a := range args {
		s, ok := a.(*parser.StringLiteral)
		if !ok {
			return false
		}
		texts = append(texts, s.Val)
	}
	re, err := regexp.Compile("^(?s:" + texts[3] + ")$")
	if err != nil || !model.UTF8Validation.IsValidLabelName(texts[0]) || texts[0] == labels.MetricName {
		return false
	}
	p.change = &change{names: texts, replace: re}
	return true
}

// selects prepares a selector.
func (p *plan) selects(n *parser.VectorSelector, span time.Duration) bool {
	if n.OriginalOffset != 0 || n.Offset != 0 || n.Timestamp != nil || n.StartOrEnd != 0 || n.OriginalOffsetExpr != nil ||
		n.Anchored || n.Smoothed {
		return false
	}
	var b strings.Builder
	for _, m := range n.LabelMatchers {
		switch {
		case m.Name == labels.MetricName && p.name == nil && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp):
			p.name = m
		case m.Name == model.InstanceLabel && p.instances == nil && m.Type == labels.MatchRegexp:
			p.instances = m
			continue
		default:
			p.matchers = append(p.matchers, m)
		}
		b.WriteString(m.Name + "\xfe" + m.Type.String() + "\xfe" + m.Value + "\xff")
	}
	p.key, p.span = b.String(), span.Milliseconds()
	return p.name != nil
}

// matches prepares how the two sides of an operator find each other.
func (p *plan) matches(n *parser.BinaryExpr) bool {
	m := n.VectorMatching
	arithmetic := !n.Op.IsComparisonOperator() && !n.Op.IsSetOperator()
	result := change{metadata: arithmetic || n.ReturnBool}
	if m != nil {
		if m.FillValues.LHS != nil || m.FillValues.RHS != nil || len(m.Include) > 0 {
			return false
		}
		p.match = &change{keep: m.On, names: slices.Sorted(slices.Values(m.MatchingLabels))}
		if !m.On {
			p.match.names = append(p.match.names, labels.MetricName)
		}
		if m.Card == parser.CardOneToOne {
			result.keep, result.names = m.On, slices.Clone(m.MatchingLabels)
		}
	}
	p.change = &result
	return true
}

package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// bounds are the least and the greatest value that an expression can have, NaN aside.
type bounds struct {
	low, high float64
	whole     bool // whole numbers alone
	one       bool // what is there at all has this one value, as absent(…) has
}

// anything is what nothing is known of, amount what is never negative.
var (
	anything  = bounds{low: math.Inf(-1), high: math.Inf(1)}
	amount    = bounds{low: 0, high: math.Inf(1)}
	zeroOrOne = bounds{low: 0, high: 1, whole: true}
)

func exactly(v float64) bounds { return bounds{low: v, high: v, whole: v == math.Trunc(v)} }

func (b bounds) empty() bool { return b.low > b.high }

// lookback is how old a sample may be that an instant selector returns, unless Prometheus is started
// with another --query.lookback-delta.
const lookback = 300

// clocks are what PromQL's functions of dates return
// (https://prometheus.io/docs/prometheus/latest/querying/functions/).
var clocks = map[string]bounds{
	"minute": {0, 59, true, false}, "hour": {0, 23, true, false}, "day_of_week": {0, 6, true, false},
	"day_of_month": {1, 31, true, false}, "day_of_year": {1, 366, true, false}, "days_in_month": {28, 31, true, false},
	"month": {1, 12, true, false}, "year": {2000, 9999, true, false}, "time": {1e9, 1e11, false, false},
}

// boundsOf infers what values an expression can have.
func (p *pass) boundsOf(e parser.Expr) bounds { return p.boundsWithin(e, 0) }

func (p *pass) boundsWithin(e parser.Expr, depth int) bounds {
	of := func(e parser.Expr) bounds { return p.boundsWithin(e, depth) }
	if at := e.PositionRange(); depth == 0 && p.query != nil && len(p.mentions) > 0 && p.opaque(at.Start, at.End) &&
		len(selectors(e)) == 0 {
		return anything
	}
	switch n := unparen(e).(type) {
	case *parser.NumberLiteral:
		return exactly(n.Val)
	case *parser.UnaryExpr:
		if b := of(n.Expr); n.Op == parser.SUB {
			return bounds{low: -b.high, high: -b.low, whole: b.whole}
		}
		return of(n.Expr)
	case *parser.VectorSelector:
		r := p.records[nameOf(n)]
		if r == nil || r.tree == nil {
			return boundsOfSeries(nameOf(n))
		}
		b, known := p.bounded[r]
		if !known && depth < deepest {
			p.bounded[r] = anything // should it read itself
			b = p.boundsWithin(r.tree, depth+1)
			p.bounded[r] = b
		} else if !known {
			b = anything
		}
		return b
	case *parser.MatrixSelector:
		return of(n.VectorSelector)
	case *parser.SubqueryExpr:
		return of(n.Expr)
	case *parser.AggregateExpr:
		return of(n.Expr).aggregated(n.Op)
	case *parser.Call:
		return p.boundsOfCall(n, of)
	case *parser.BinaryExpr:
		return p.boundsOfBinary(n, of)
	}
	return anything
}

func boundsOfSeries(name string) bounds {
	canonical, _ := vllm.Canonical(name)
	c, _ := classOf(name)
	switch {
	case name == "ALERTS":
		return bounds{low: 1, high: 1, whole: true, one: true}
	case slices.Contains(states, canonical), oneOfMany.MatchString(name):
		return zeroOrOne
	case c.cumulative():
		return amount
	}
	if of := ofSeries(name).of; of.counted() || slices.Contains([]dimension{size, flow, power}, of) {
		return bounds{low: 0, high: math.Inf(1), whole: of == requests}
	}
	return anything
}

// aggregated returns the bounds of an aggregation of values within b.
func (b bounds) aggregated(op parser.ItemType) bounds {
	switch op {
	case parser.SUM:
		out := bounds{low: math.Inf(-1), high: math.Inf(1), whole: b.whole}
		if b.low >= 0 {
			out.low = b.low
		}
		if b.high <= 0 {
			out.high = b.high
		}
		return out
	case parser.COUNT, parser.COUNT_VALUES:
		return bounds{low: 1, high: math.Inf(1), whole: true}
	case parser.GROUP:
		return bounds{low: 1, high: 1, whole: true, one: true}
	case parser.STDDEV, parser.STDVAR:
		return amount
	case parser.AVG, parser.QUANTILE:
		b.whole = b.whole && b.low == b.high
	}
	return b
}

// overSamples are aggregations over time by the names of their functions.
var overSamples = map[string]parser.ItemType{
	"sum_over_time": parser.SUM, "count_over_time": parser.COUNT, "avg_over_time": parser.AVG, "max_over_time": parser.MAX,
	"min_over_time": parser.MIN, "quantile_over_time": parser.QUANTILE, "last_over_time": parser.MAX,
	"stddev_over_time": parser.STDDEV, "stdvar_over_time": parser.STDVAR, "present_over_time": parser.GROUP,
}

func (p *pass) boundsOfCall(n *parser.Call, of func(parser.Expr) bounds) bounds {
	name := n.Func.Name
	if b, ok := clocks[name]; ok {
		return b
	}
	if op, ok := overSamples[name]; ok {
		return of(n.Args[len(n.Args)-1]).aggregated(op)
	}
	switch name {
	case "absent", "absent_over_time":
		return bounds{low: 1, high: 1, whole: true, one: true}
	case "rate", "irate", "increase", "sqrt", "exp":
		return amount
	case "changes", "resets":
		return bounds{low: 0, high: math.Inf(1), whole: true}
	case "sgn":
		return bounds{low: -1, high: 1, whole: true}
	case "vector", "scalar", "sort", "sort_desc", "label_replace", "label_join":
		return of(n.Args[0])
	case "abs":
		b := of(n.Args[0])
		if b.low >= 0 {
			return b
		}
		return bounds{low: 0, high: max(-b.low, b.high), whole: b.whole}
	case "ceil", "floor", "round":
		if b := of(n.Args[0]); len(n.Args) == 1 {
			return bounds{low: math.Floor(b.low), high: math.Ceil(b.high), whole: true}
		}
	case "clamp", "clamp_min", "clamp_max":
		b := of(n.Args[0])
		for i, a := range n.Args[1:] {
			limit := of(a)
			if name == "clamp_max" || i == 1 {
				b = bounds{low: min(b.low, limit.low), high: min(b.high, limit.high)}
			} else {
				b = bounds{low: max(b.low, limit.low), high: max(b.high, limit.high)}
			}
		}
		return b
	}
	return anything
}

func (p *pass) boundsOfBinary(n *parser.BinaryExpr, of func(parser.Expr) bounds) bounds {
	if b, ok := ageOfSamples(n); ok {
		return b
	}
	l, r := of(n.LHS), of(n.RHS)
	switch {
	case n.ReturnBool:
		return zeroOrOne
	case n.Op.IsComparisonOperator():
		if n.LHS.Type() == parser.ValueTypeScalar {
			return r.where(mirrored[n.Op], l)
		}
		return l.where(n.Op, r)
	case n.Op == parser.LOR:
		return bounds{low: min(l.low, r.low), high: max(l.high, r.high), whole: l.whole && r.whole}
	case n.Op.IsSetOperator():
		return l
	}
	whole := l.whole && r.whole
	switch n.Op {
	case parser.ADD:
		return bounds{low: l.low + r.low, high: l.high + r.high, whole: whole}.sane()
	case parser.SUB:
		return bounds{low: l.low - r.high, high: l.high - r.low, whole: whole}.sane()
	case parser.MUL:
		return spanned(l.low*r.low, l.low*r.high, l.high*r.low, l.high*r.high, whole)
	case parser.DIV:
		if r.low > 0 {
			return spanned(l.low/r.low, l.low/r.high, l.high/r.low, l.high/r.high, false)
		}
		if l.low >= 0 && r.low >= 0 {
			return amount
		}
	}
	return anything
}

// spanned are the bounds of four products; 0 times infinity is 0 here.
func spanned(a, b, c, d float64, whole bool) bounds {
	all := []float64{a, b, c, d}
	for i, v := range all {
		if math.IsNaN(v) {
			all[i] = 0
		}
	}
	return bounds{low: slices.Min(all), high: slices.Max(all), whole: whole}
}

// sane widens bounds that came out as no numbers.
func (b bounds) sane() bounds {
	if math.IsNaN(b.low) {
		b.low = math.Inf(-1)
	}
	if math.IsNaN(b.high) {
		b.high = math.Inf(1)
	}
	return b
}

// where are the bounds of what is left behind a comparison with values within o.
func (b bounds) where(op parser.ItemType, o bounds) bounds {
	b.one = false
	switch op {
	case parser.GTR, parser.GTE:
		b.low = max(b.low, o.low)
	case parser.LSS, parser.LTE:
		b.high = min(b.high, o.high)
	case parser.EQLC:
		b.low, b.high = max(b.low, o.low), min(b.high, o.high)
	}
	return b
}

// ageOfSamples returns what time() - timestamp(x) can be: no sample that a selector returns is older
// than the lookback, and what is computed has the time at which it is.
func ageOfSamples(n *parser.BinaryExpr) (bounds, bool) {
	if n.Op != parser.SUB || !isCall(unparen(n.LHS), "time") {
		return bounds{}, false
	}
	if seen, ok := unwrapped(n.RHS).(*parser.VectorSelector); ok && strings.HasSuffix(nameOf(seen), "_last_seen") && seen.OriginalOffset == 0 {
		return bounds{low: 0, high: lookback}, true // the time of the scrape itself
	}
	c, ok := unwrapped(n.RHS).(*parser.Call)
	if !ok {
		return bounds{}, false
	}
	if v := plainSelector(c.Args[0]); isCall(c, "max_over_time", "last_over_time") && v != nil && strings.HasSuffix(nameOf(v), "_last_seen") && reach(c) >= lookback*time.Second {
		return bounds{low: 0, high: reach(c).Seconds()}, true
	}
	if c.Func.Name != "timestamp" {
		return bounds{}, false
	}
	v, ok := unparen(c.Args[0]).(*parser.VectorSelector)
	switch {
	case !ok:
		return exactly(0), true
	case v.Timestamp != nil || v.StartOrEnd != 0:
		return bounds{}, false
	}
	back := v.OriginalOffset.Seconds()
	return bounds{low: back, high: back + lookback}, true
}

// never reports whether a comparison of values within l and r cannot hold.
func never(l bounds, op parser.ItemType, r bounds) bool {
	switch op {
	case parser.GTR:
		return l.high <= r.low
	case parser.GTE:
		return l.high < r.low
	case parser.LSS:
		return l.low >= r.high
	case parser.LTE:
		return l.low > r.high
	case parser.EQLC:
		return l.high < r.low || l.low > r.high || l.whole && r.low == r.high && r.low != math.Trunc(r.low)
	case parser.NEQ:
		return l.low == l.high && l == r
	}
	return false
}

// negated are the comparisons that hold where another one does not.
var negated = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LTE, parser.LSS: parser.GTE, parser.GTE: parser.LSS, parser.LTE: parser.GTR,
	parser.EQLC: parser.NEQ, parser.NEQ: parser.EQLC,
}

// said tells people the values that are possible.
func (b bounds) said() string {
	switch {
	case b.low == b.high:
		return "is " + short(b.low) + " or not there"
	case math.IsInf(b.high, 1):
		return "is never below " + short(b.low)
	case math.IsInf(b.low, -1):
		return "is never above " + short(b.high)
	}
	return "is between " + short(b.low) + " and " + short(b.high)
}

// outOfBounds reports comparisons that the values of PromQL's functions and of states cannot meet,
// and those of times of the day that leave nothing out.
func (p *pass) outOfBounds() {
	p.comparisons(func(c comparison) {
		l, limit := p.boundsOf(c.expr), exactly(c.limit)
		call, isFunction := unparen(c.expr).(*parser.Call)
		switch {
		case isCountOf(c.expr), p.quantityOf(c.expr).of == share: // count-is-zero, and the other half of this check
		case l.empty() || never(l, c.op, limit):
			p.report(c.at, fmt.Sprintf("%s %s: this never holds", p.text(unparen(c.expr)), l.said()), p.withinBounds(c, l))
		case isFunction && clocks[call.Func.Name].high > 0 && call.Func.Name != "time" && never(l, negated[c.op], limit):
			p.report(c.at, fmt.Sprintf("%s %s: this always holds", p.text(call), l.said()), p.withinBounds(c, l))
		}
	})
	p.contradictions()
}

// withinBounds says what to write instead of a number that is never reached.
func (p *pass) withinBounds(c comparison, l bounds) suggestion {
	switch call, _ := unparen(c.expr).(*parser.Call); {
	case call != nil && call.Func.Name == "day_of_week" && c.limit == 7:
		return suggestion{"write 0, which is Sunday", []edit{p.replace(c.lit.PosRange, "0")}}
	case call != nil && strings.HasPrefix(call.Func.Name, "absent"):
		return advice("leave out the comparison: absent gives 1 where nothing is there, and nothing otherwise")
	case l.high == 1 && c.above() && len(selectors(c.expr)) == 1:
		return advice("count the series that say so: count(" + p.text(unparen(c.expr)) + " == 1)")
	case l.high == lookback:
		return advice("compare up with 0, and wait with for")
	}
	return advice("compare with a number that it can have")
}

// isCountOf reports whether series or samples are counted.
func isCountOf(e parser.Expr) bool {
	a, ok := unparen(e).(*parser.AggregateExpr)
	return ok && a.Op == parser.COUNT || isCall(unparen(e), "count_over_time")
}

// contradictions reports two conditions on one expression of which both have to hold and cannot, of
// which one always holds, or of which the second takes out all that the first lets through.
func (p *pass) contradictions() {
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || !b.Op.IsSetOperator() || p.opaque(b.PositionRange().Start, b.PositionRange().End) {
			return
		}
		if b.Op == parser.LUNLESS {
			for _, l := range conditions(b.LHS, parser.LAND) {
				r := conditions(b.RHS, 0)
				if len(r) == 1 && l.expr.String() == r[0].expr.String() && l.holds().within(r[0].holds()) && sameSeries(b, l.expr) {
					p.report(b.PositionRange(), "whatever the first condition lets through, the second takes out: this never holds", advice("correct one of the numbers"))
				}
			}
			return
		}
		if outer, ok := outside(path).(*parser.BinaryExpr); ok && outer.Op == b.Op {
			return // looked at from there
		}
		p.chain(b)
	})
}

// outside is the node around another one, parentheses aside.
func outside(path []parser.Node) parser.Node {
	for i := len(path) - 1; i >= 0; i-- {
		if _, parens := path[i].(*parser.ParenExpr); !parens {
			return path[i]
		}
	}
	return nil
}

// chain looks at the conditions that one operator joins, by what they are on.
func (p *pass) chain(b *parser.BinaryExpr) {
	seen := map[string][]interval{} // what meets all so far (and); below some, above some (or)
	for _, c := range conditions(b, b.Op) {
		key, i := c.expr.String(), c.holds()
		before := seen[key]
		if len(before) == 0 {
			seen[key] = []interval{i, i}
			continue
		}
		what := p.text(unparen(c.expr))
		switch {
		case b.Op == parser.LAND && before[0].and(i).empty():
			if joinedBy(b, c.expr) {
				p.report(b.PositionRange(), "no value of "+what+" meets both: this never holds", advice("write or, or correct one of the numbers"))
			}
			return
		case b.Op == parser.LOR && (before[0].or(i) || before[1].or(i)):
			if joinedBy(b, c.expr) {
				p.report(b.PositionRange(), "every value of "+what+" meets one of the two: this always holds", advice("write and, or correct one of the numbers"))
			}
			return
		case b.Op == parser.LAND:
			seen[key] = []interval{before[0].and(i), i}
		case math.IsInf(i.low, -1) && (!math.IsInf(before[0].low, -1) || i.high > before[0].high):
			seen[key] = []interval{i, before[1]}
		case math.IsInf(i.high, 1) && (!math.IsInf(before[1].high, 1) || i.low < before[1].low):
			seen[key] = []interval{before[0], i}
		}
	}
}

// joinedBy reports whether all operators of a chain hold an expression against itself.
func joinedBy(b *parser.BinaryExpr, e parser.Expr) bool {
	if !sameSeries(b, e) {
		return false
	}
	for _, side := range []parser.Expr{b.LHS, b.RHS} {
		if inner, ok := unparen(side).(*parser.BinaryExpr); ok && inner.Op == b.Op && !joinedBy(inner, e) {
			return false
		}
	}
	return true
}

// sameSeries reports whether a set operator holds an expression against itself: by all of its labels,
// or where it has none.
func sameSeries(b *parser.BinaryExpr, e parser.Expr) bool {
	if len(selectors(e)) == 0 || b.VectorMatching == nil || !b.VectorMatching.On && len(b.VectorMatching.MatchingLabels) == 0 {
		return true
	}
	a, ok := unparen(e).(*parser.AggregateExpr)
	return ok && !a.Without && !slices.ContainsFunc(a.Grouping, func(l string) bool {
		return slices.Contains(b.VectorMatching.MatchingLabels, l) != b.VectorMatching.On
	})
}

// conditions are the comparisons with numbers that an operator joins: all of them have to hold (and), or
// one of them (or).
func conditions(e parser.Expr, joined parser.ItemType) []comparison {
	b, ok := unparen(e).(*parser.BinaryExpr)
	switch {
	case !ok:
		return nil
	case b.Op == joined:
		return append(conditions(b.LHS, joined), conditions(b.RHS, joined)...)
	case !isFilter(b):
		return nil
	}
	if v, ok := constant(b.RHS); ok {
		return []comparison{{expr: b.LHS, op: b.Op, limit: v}}
	}
	if v, ok := constant(b.LHS); ok {
		return []comparison{{expr: b.RHS, op: mirrored[b.Op], limit: v}}
	}
	return nil
}

// An interval is the values that meet a comparison.
type interval struct {
	low, high         float64
	openLow, openHigh bool
}

func (c comparison) holds() interval {
	i := interval{math.Inf(-1), math.Inf(1), false, false}
	switch c.op {
	case parser.GTR, parser.GTE:
		i.low, i.openLow = c.limit, c.op == parser.GTR
	case parser.LSS, parser.LTE:
		i.high, i.openHigh = c.limit, c.op == parser.LSS
	case parser.EQLC:
		i.low, i.high = c.limit, c.limit
	case parser.NEQ: // all but one: never empty, and never all
		i.low, i.high, i.openLow, i.openHigh = math.NaN(), math.NaN(), true, true
	}
	return i
}

func (i interval) and(o interval) interval {
	if o.low > i.low || o.low == i.low && o.openLow {
		i.low, i.openLow = o.low, o.openLow
	}
	if o.high < i.high || o.high == i.high && o.openHigh {
		i.high, i.openHigh = o.high, o.openHigh
	}
	return i
}

func (i interval) empty() bool {
	return i.low > i.high || i.low == i.high && (i.openLow || i.openHigh)
}

// or reports whether every number is in one of two.
func (i interval) or(o interval) bool {
	if math.IsInf(o.low, -1) {
		i, o = o, i
	}
	return math.IsInf(i.low, -1) && math.IsInf(o.high, 1) &&
		(o.low < i.high || o.low == i.high && (!o.openLow || !i.openHigh))
}

// within reports whether every number of one is in the other.
func (i interval) within(o interval) bool {
	return (o.low < i.low || o.low == i.low && (!o.openLow || i.openLow)) &&
		(i.high < o.high || i.high == o.high && (!o.openHigh || i.openHigh))
}

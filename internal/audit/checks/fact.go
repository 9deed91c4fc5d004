package checks

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
)

// A fact is what is known of an expression: what its values are amounts of, which they
// can be, and the labels of its series.
type fact struct {
	unit   unit
	bounds bounds
	labels labelSet
}

var nothingKnown = fact{bounds: anything}

// inferFact infers what is known of a part of the query.
func (p *pass) inferFact(e parser.Expr) fact { return p.infer(p.Query, e) }

// infer infers what is known of a part of a query, each part once; what rules that read one
// another record is not known.
func (all *set) infer(q *files.Query, e parser.Expr) fact {
	e = unparen(e)
	if f, ok := all.facts[e]; ok {
		return f
	}
	all.facts[e] = nothingKnown
	f := all.derive(q, e)
	all.facts[e] = f
	return f
}

func (all *set) derive(q *files.Query, e parser.Expr) fact {
	of := func(e parser.Expr) fact { return all.infer(q, e) }
	switch n := e.(type) {
	case *parser.NumberLiteral:
		if q.Opaque(n.PosRange.Start, n.PosRange.End) {
			return fact{bounds: anything, labels: noLabels}
		}
		return fact{bounds: exactly(n.Val), labels: noLabels}
	case *parser.UnaryExpr:
		f := of(n.Expr)
		if b := f.bounds; n.Op == parser.SUB {
			f.bounds = bounds{low: -b.high, high: -b.low, whole: b.whole}
		}
		return f
	case *parser.VectorSelector:
		return all.ofSelector(q, n)
	case *parser.MatrixSelector:
		return of(n.VectorSelector)
	case *parser.SubqueryExpr:
		return of(n.Expr)
	case *parser.AggregateExpr:
		return all.ofAggregate(q, n)
	case *parser.Call:
		return ofCall(n, of)
	case *parser.BinaryExpr:
		return all.ofBinary(q, n)
	}
	return nothingKnown
}

// ofSelector is what is known of the series that a selector takes.
func (all *set) ofSelector(q *files.Query, v *parser.VectorSelector) fact {
	f, name := all.ofSeries(q, v), NameOf(v)
	if !all.recorded(name) && (!strings.Contains(name, ":") || isEngineName(name) && strings.Count(name, ":") == 1) && name != "ALERTS" {
		f.labels.series = name
	}
	f.labels.values = map[string]string{}
	for _, m := range v.LabelMatchers {
		if m.Type == labels.MatchEqual && m.Name != labels.MetricName && m.Value != "" && !strings.ContainsAny(m.Value, "$[") {
			f.labels.values[m.Name] = m.Value
		}
	}
	return f
}

// ofSeries is what is known of series by their name: of recorded ones, what their rule makes.
func (all *set) ofSeries(q *files.Query, v *parser.VectorSelector) fact {
	name := NameOf(v)
	r, recorded := all.records[name]
	switch {
	case !recorded:
		return fact{unit: unitOf(name, v), bounds: boundsOf(name, v), labels: labelsOf(name)}
	case r == nil || r.Tree == nil || r == q:
		return nothingKnown
	}
	f := all.infer(r, r.Tree)
	if !f.labels.exact {
		f.labels = labelSet{}
		return f
	}
	for _, l := range r.Rule.Get("labels").Fields() {
		f.labels = f.labels.with(l.Key)
	}
	return f
}

func (all *set) ofAggregate(q *files.Query, n *parser.AggregateExpr) fact {
	inner := all.infer(q, n.Expr)
	out := fact{bounds: inner.bounds.aggregated(n.Op)}
	switch n.Op {
	case parser.SUM, parser.AVG, parser.MAX, parser.MIN, parser.TOPK, parser.BOTTOMK, parser.QUANTILE, parser.LIMITK, parser.LIMIT_RATIO:
		out.unit = inner.unit
	}
	if inner.unit == (unit{cores, 1}) && n.Op == parser.AVG && rated(n.Expr) != nil && NameOf(rated(n.Expr)) == "node_cpu_seconds_total" {
		out.unit = ratio // of the time of one processor, in a mode
	}
	switch {
	case q.Opaque(n.PosRange.Start, n.Expr.PositionRange().Start) || q.Opaque(n.Expr.PositionRange().End, n.PosRange.End),
		n.Op == parser.COUNT_VALUES:
	case slices.Contains([]parser.ItemType{parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO}, n.Op):
		out.labels = inner.labels
	case n.Without:
		out.labels = inner.labels.without(n.Grouping...)
	default:
		out.labels = inner.labels.by(n.Grouping...)
	}
	return out
}

func ofCall(n *parser.Call, of func(parser.Expr) fact) fact {
	name := n.Func.Name
	out := fact{bounds: anything, labels: noLabels}
	var arg fact
	for _, a := range n.Args {
		if t := a.Type(); t == parser.ValueTypeVector || t == parser.ValueTypeMatrix {
			arg = of(a)
			out.labels = arg.labels
		}
	}
	if b, ok := clocks[name]; ok {
		out.bounds = b
		return out
	}
	op, overTime := overSamples[name]
	switch {
	case overTime:
		out.bounds = arg.bounds.aggregated(op)
		if op != parser.SUM && op != parser.COUNT && op != parser.GROUP && op != parser.STDDEV {
			out.unit = arg.unit
		}
		return out
	case slices.Contains(rates, name):
		out.bounds = amount
		if c, _ := classOf(NameOf(ranged(n, rates...))); c.cumulative() {
			out.unit = arg.unit.rate(name)
		}
		return out
	}
	switch name {
	case "absent", "absent_over_time":
		return fact{bounds: exactly(1), labels: ofAbsent(n.Args[0])}
	case "histogram_quantile":
		q, _ := quantileIn(n)
		return fact{unit: unitOfFamily(q.family), bounds: anything, labels: arg.labels.without(labels.BucketLabel)}
	case "vector":
		out.bounds = of(n.Args[0]).bounds
	case "changes", "resets":
		out.bounds = bounds{low: 0, high: math.Inf(1), whole: true}
	case "sort", "sort_desc", "label_replace", "label_join", "scalar":
		out.unit, out.bounds = arg.unit, arg.bounds
	case "ceil", "floor", "round":
		out.unit, out.bounds = arg.unit, bounds{low: math.Floor(arg.bounds.low), high: math.Ceil(arg.bounds.high)}
	case "abs", "delta", "idelta", "predict_linear":
		out.unit = arg.unit
	case "clamp", "clamp_min", "clamp_max":
		out.unit, out.bounds = arg.unit, arg.bounds
		for i, a := range n.Args[1:] {
			if limit := of(a).bounds; name == "clamp_max" || i == 1 {
				out.bounds = bounds{low: min(out.bounds.low, limit.low), high: min(out.bounds.high, limit.high)}
			} else {
				out.bounds = bounds{low: max(out.bounds.low, limit.low), high: max(out.bounds.high, limit.high)}
			}
		}
	}
	switch name {
	case "label_replace", "label_join", "info", "histogram_quantiles":
		out.labels = labelSet{}
	case "scalar":
		out.labels = noLabels
	}
	return out
}

func (all *set) ofBinary(q *files.Query, n *parser.BinaryExpr) fact {
	l, r := all.infer(q, n.LHS), all.infer(q, n.RHS)
	out := fact{unit: unitOfBinary(n, l.unit, r.unit), bounds: boundsOfBinary(n, l.bounds, r.bounds)}
	if out.unit == ratio && n.Op == parser.DIV && (!l.unit.known() || l.unit.counted()) {
		out.bounds = bounds{low: 0, high: 1} // a part of the whole
	}
	m := n.VectorMatching
	switch {
	case m == nil && n.LHS.Type() == parser.ValueTypeScalar:
		out.labels = r.labels
	case m == nil || n.Op == parser.LAND || n.Op == parser.LUNLESS:
		out.labels = l.labels
	case n.Op == parser.LOR:
		if l.labels.known && r.labels.known {
			out.labels = labelSet{known: l.labels.exact && r.labels.exact, exact: true}.with(slices.Concat(l.labels.names, r.labels.names)...)
		}
	case m.Card == parser.CardManyToOne:
		out.labels = l.labels.with(m.Include...)
	case m.Card == parser.CardOneToMany:
		out.labels = r.labels.with(m.Include...)
	case m.On:
		out.labels = l.labels.by(m.MatchingLabels...)
	default:
		out.labels = l.labels.without(m.MatchingLabels...)
	}
	return out
}

// A labelSet is what is known of the labels of a vector.
type labelSet struct {
	known bool
	exact bool     // these and no others; otherwise the target's labels are beside them
	names []string // sorted

	values map[string]string // of labels that the selectors set to one
	series string            // whose labels these are, as they were scraped; "" where something changes them
}

var noLabels = labelSet{known: true, exact: true}

func (l labelSet) without(drop ...string) labelSet {
	l.names = slices.DeleteFunc(slices.Clone(l.names), func(n string) bool { return slices.Contains(drop, n) })
	l.values, l.series = maps.Clone(l.values), ""
	maps.DeleteFunc(l.values, func(n, _ string) bool { return slices.Contains(drop, n) })
	return l
}

func (l labelSet) with(more ...string) labelSet {
	l.names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(l.names, more))))
	l.values, l.series = nil, ""
	return l
}

// by are the labels that are left of an aggregation by some.
func (l labelSet) by(keep ...string) labelSet {
	out := noLabels.with(keep...)
	out.values = maps.Clone(l.values)
	maps.DeleteFunc(out.values, func(n, _ string) bool { return !slices.Contains(keep, n) })
	return out
}

func (l labelSet) String() string {
	text := "{" + strings.Join(l.names, ", ") + "}"
	if !l.exact {
		text = "of its target and " + text
	}
	return text
}

// labelsOf returns the labels of a series of the catalogue.
func labelsOf(name string) labelSet {
	c, f := classOf(name)
	if c == unknownClass || slices.Contains(f.Labels, "*") {
		return labelSet{}
	}
	l := labelSet{known: true}.with(f.Labels...)
	if c == bucket {
		l = l.with(labels.BucketLabel)
	}
	return l
}

// ofAbsent returns the labels of what absent gives: those that its selector sets to one value.
func ofAbsent(e parser.Expr) labelSet {
	out := noLabels
	if all := Selectors(e); len(all) == 1 {
		for _, m := range all[0].LabelMatchers {
			if m.Type == labels.MatchEqual && m.Name != labels.MetricName {
				out = out.with(m.Name)
			}
		}
	}
	return out
}

// bounds are the least and the greatest value that an expression can have, NaN aside.
type bounds struct {
	low, high float64
	whole     bool // whole numbers alone
}

// anything is what nothing is known of, amount what is never negative.
var (
	anything  = bounds{low: math.Inf(-1), high: math.Inf(1)}
	amount    = bounds{low: 0, high: math.Inf(1)}
	zeroOrOne = bounds{low: 0, high: 1, whole: true}
)

func exactly(v float64) bounds { return bounds{low: v, high: v, whole: v == math.Trunc(v)} }

// clocks are what PromQL's functions of dates return
// (https://prometheus.io/docs/prometheus/latest/querying/functions/).
var clocks = map[string]bounds{
	"minute": {0, 59, true}, "hour": {0, 23, true}, "day_of_week": {0, 6, true}, "day_of_month": {1, 31, true},
	"day_of_year": {1, 366, true}, "days_in_month": {28, 31, true}, "month": {1, 12, true}, "year": {1970, 9999, true},
}

func boundsOf(name string, v *parser.VectorSelector) bounds {
	c, _ := classOf(name)
	switch u := unitOf(name, v); {
	case name == "ALERTS":
		return exactly(1)
	case isState(name):
		return zeroOrOne
	case strings.HasSuffix(name, "_hit_rate"): // V0's is −1 where nothing was asked
		return bounds{low: -1, high: 1}
	case c == gauge && u.of == share:
		return bounds{low: 0, high: math.Round(1 / u.scale)}
	case c.cumulative() || u.counted() || u.of == size || u.of == flow || u.of == power:
		return amount
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
		return exactly(1)
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
	"stddev_over_time": parser.STDDEV, "stdvar_over_time": parser.STDDEV, "present_over_time": parser.GROUP,
}

func boundsOfBinary(n *parser.BinaryExpr, l, r bounds) bounds {
	switch {
	case n.ReturnBool:
		return zeroOrOne
	case n.Op.IsComparisonOperator() && n.LHS.Type() == parser.ValueTypeScalar:
		return r.restrict(mirrored[n.Op], l)
	case n.Op.IsComparisonOperator():
		return l.restrict(n.Op, r)
	case n.Op == parser.LOR:
		return bounds{low: min(l.low, r.low), high: max(l.high, r.high), whole: l.whole && r.whole}
	case n.Op.IsSetOperator():
		return l
	}
	whole := l.whole && r.whole
	switch n.Op {
	case parser.ADD:
		return spanned(whole, l.low+r.low, l.high+r.high)
	case parser.SUB:
		return spanned(whole, l.low-r.high, l.high-r.low)
	case parser.MUL:
		if l == exactly(0) || r == exactly(0) { // zeros that stand for what is not measured
			return anything
		}
		return spanned(whole, l.low*r.low, l.low*r.high, l.high*r.low, l.high*r.high)
	case parser.DIV:
		if r.low > 0 {
			return spanned(false, l.low/r.low, l.low/r.high, l.high/r.low, l.high/r.high)
		}
		if l.low >= 0 && r.low >= 0 {
			return amount
		}
	}
	return anything
}

// spanned are the bounds of some numbers; 0 times infinity is 0 here.
func spanned(whole bool, all ...float64) bounds {
	for i, v := range all {
		if math.IsNaN(v) {
			all[i] = 0
		}
	}
	return bounds{low: slices.Min(all), high: slices.Max(all), whole: whole}
}

// restrict are the bounds of what is left behind a comparison with values within o.
func (b bounds) restrict(op parser.ItemType, o bounds) bounds {
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

// neverHolds reports whether a comparison of values within b with a number cannot hold.
func (b bounds) neverHolds(op parser.ItemType, v float64) bool {
	switch op {
	case parser.GTR:
		return b.high <= v
	case parser.GTE:
		return b.high < v
	case parser.LSS:
		return b.low >= v
	case parser.LTE:
		return b.low > v
	case parser.EQLC:
		return b.high < v || b.low > v || b.whole && v != math.Trunc(v)
	case parser.NEQ:
		return b.low == b.high && b.low == v
	}
	return false
}

// negated are the comparisons that hold where another one does not.
var negated = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LTE, parser.LSS: parser.GTE, parser.GTE: parser.LSS, parser.LTE: parser.GTR,
	parser.EQLC: parser.NEQ, parser.NEQ: parser.EQLC,
}

// describe tells people the values that are possible.
func (b bounds) describe() string {
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

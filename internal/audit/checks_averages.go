package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
)

// averages calls fn with every average over series, and not over time.
func (p *pass) averages(fn func(a *parser.AggregateExpr, path []parser.Node)) {
	p.walk(func(n parser.Node, path []parser.Node) {
		if a, ok := n.(*parser.AggregateExpr); ok && a.Op == parser.AVG && !p.opaque(a.PosRange.Start,
			a.Expr.PositionRange().Start) {
			fn(a, path)
		}
	})
}

// checkAverageOfMeans finds averages over quotients of counters: a replica that answers
// one request then weighs as much as one that answers a thousand.
func checkAverageOfMeans(p *pass) {
	p.averages(func(a *parser.AggregateExpr, path []parser.Node) {
		b := p.meanIn(a.Expr)
		if groups := p.averageIn(a.Expr); b == nil && groups != nil {
			p.reportAs(catalog.Info, a.PositionRange(), "the mean of the means of groups by "+strings.Join(groups,
				", ")+": a group of one weighs as much as one of ten",
				advice("average what the groups are made of"))
			return
		}
		if b == nil || perTarget(a) || slices.ContainsFunc(selectors(b), p.pinnedTarget) {
			return
		}
		p.report(a.PositionRange(),
			"the mean of the replicas' means: one that serves a request an hour weighs as much as one that serves ten a second", p.sumOverSum(a, b, path))
	})
	p.walk(func(n parser.Node, path []parser.Node) {
		a, ok := n.(*parser.AggregateExpr)
		if !ok || a.Op != parser.SUM || p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start) || averaged(path, a) {
			return
		}
		if b := p.meanIn(a.Expr); b != nil && p.quantityOf(b).of == span && !perTarget(a) && !slices.ContainsFunc(selectors(b), p.pinnedTarget) {
			p.report(a.PositionRange(), "the replicas' means are added up: of four replicas as fast as one, four times the time", p.sumOverSum(a, b, path))
		}
	})
}

// averageIn returns the labels by which a vector, or the recording rule behind it, averages groups
// of servers; nil where it does not, or where each group is one server or GPU.
func (p *pass) averageIn(e parser.Expr) []string {
	e = unscaled(e)
	if b, ok := e.(*parser.BinaryExpr); ok && b.Op == parser.SUB {
		if _, _, ok := number(b.LHS); ok {
			e = unscaled(b.RHS)
		}
	}
	switch n := e.(type) {
	case *parser.VectorSelector:
		if r := p.records[nameOf(n)]; r != nil && r != p.query && r.tree != nil && nameOf(n) != p.name {
			one := *p
			one.query, one.records = r, maps.Clone(p.records)
			delete(one.records, nameOf(n)) // rules that read one another
			return one.averageIn(r.tree)
		}
	case *parser.AggregateExpr:
		if n.Op == parser.AVG && !n.Without && len(n.Grouping) > 0 && !perTarget(n) && !oneGPU(n.Grouping) &&
			!p.opaque(n.PosRange.Start, n.Expr.PositionRange().Start) {
			return n.Grouping
		}
	}
	return nil
}

// meanIn returns the quotient of counters' rates that makes a vector's values, also one
// that a recording rule made; nil where there is none.
func (p *pass) meanIn(e parser.Expr) *parser.BinaryExpr {
	switch n := unscaled(e).(type) {
	case *parser.BinaryExpr:
		if n.Op != parser.DIV || n.VectorMatching == nil {
			return nil
		}
		l, r := selectors(n.LHS), selectors(n.RHS)
		if len(l) != 1 || len(r) != 1 || !p.ratedBy(n, l[0], rates...) || !p.ratedBy(n, r[0], rates...) ||
			!counts(nameOf(l[0])) || !counts(nameOf(r[0])) {
			return nil
		}
		return n
	case *parser.VectorSelector:
		if r := p.records[nameOf(n)]; r != nil && r != p.query && r.tree != nil && p.labelsOf(r.tree).perTarget() {
			return p.meanIn(r.tree)
		}
	}
	return nil
}

// perTarget reports whether there is a series for every target, as far as is known.
func (l labelSet) perTarget() bool {
	return !l.exact || slices.ContainsFunc(l.names, func(n string) bool { return isTargetLabel(n, []string{"model_name"}) })
}

// counts reports whether a series only grows, by what is known of it or else by its name.
func counts(name string) bool {
	if class, _ := classOf(name); class != unknownClass {
		return class.cumulative()
	}
	return slices.ContainsFunc([]string{"_total", "_sum", "_count"},
		func(s string) bool { return strings.HasSuffix(name, s) })
}

// sumOverSum is the repair of an average over rate(x) / rate(y): the sums are divided.
func (p *pass) sumOverSum(a *parser.AggregateExpr, b *parser.BinaryExpr, path []parser.Node) suggestion {
	const words = "divide the sums: sum(rate(…)) / sum(rate(…))"
	if a.Without || unparen(a.Expr) != parser.Expr(b) || plainSelector(b.LHS) == nil || plainSelector(b.RHS) == nil ||
		len(b.VectorMatching.MatchingLabels) > 0 {
		return advice(words)
	}
	by := "sum("
	if len(a.Grouping) > 0 {
		by = "sum by (" + strings.Join(a.Grouping, ", ") + ") ("
	}
	text := by + p.text(unparen(b.LHS)) + ") / " + by + p.text(unparen(b.RHS)) + ")"
	if len(path) > 0 {
		text = "(" + text + ")"
	}
	return suggestion{words, []edit{p.replace(a.PositionRange(), text)}}
}

// partLabels divide what one server counts into parts.
var partLabels = []string{
	"finished_reason", "source", "reason", "position", "transfer_type", "status", "handler",
	"method", "stage", "outcome",
}

// checkAverageOfParts finds averages over the parts of a count: by finished_reason or by
// status, the average has no meaning.
func checkAverageOfParts(p *pass) {
	p.averages(func(a *parser.AggregateExpr, _ []parser.Node) {
		v := plainSelector(value(a.Expr))
		if v == nil || a.Without {
			return
		}
		class, family := classOf(nameOf(v))
		if class != counter || family.Engine == "" {
			return
		}
		for _, part := range family.Labels {
			if !slices.Contains(partLabels, part) || slices.Contains(a.Grouping, part) ||
				slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
					return m.Name == part && m.Type == labels.MatchEqual
				}) {
				continue
			}
			at := a.PositionRange()
			p.report(at, fmt.Sprintf("%s is counted by %s: the average over its parts is a fraction of what a server does", nameOf(v), part),
				suggestion{"write sum, or keep " + part, []edit{{
					p.node, int(at.Start), int(at.Start) + len("avg"),
					"sum",
				}}})
			return
		}
	})
}

// checkPartsAsWhole finds counters that are split into parts, such as finished_reason, shown
// under one name that tells none of them apart: no line is what the panel says.
func checkPartsAsWhole(p *pass) {
	if p.role != panelRole {
		return
	}
	shown := value(unscaled(p.tree))
	v := plainSelector(shown)
	auto := p.panel.legend == "" || p.panel.legend == "__auto" // Grafana writes all labels
	if v == nil || auto && !slices.Contains([]string{"stat", "gauge", "bargauge"}, p.panel.kind) {
		return
	}
	if class, f := classOf(nameOf(v)); class != counter || f.Engine == "" {
		return
	}
	parts := p.partsOf(nameOf(v))
	apart := slices.DeleteFunc(slices.Clone(parts), func(part string) bool {
		return selectsBy(v, part)
	})
	if len(apart) == 0 || slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(p.panel.legend, part) }) {
		return
	}
	by, at := strings.Join(apart, ", "), shown.PositionRange()
	sum := "sum without (" + by + ") ("
	p.report(at, fmt.Sprintf("%s is counted by %s: each has a value of its own under this name, and none of them is all", nameOf(v), by),
		suggestion{"write " + sum + "…), or {{" + apart[0] + "}} in the legend", []edit{p.replace(at, sum+p.text(shown)+")")}})
}

// checkComparisonAsShare finds comparisons whose values are taken for 0 and 1: without
// bool they keep what was compared.
func checkComparisonAsShare(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.SUB {
			return
		}
		if one, _, ok := number(b.LHS); !ok || one != 1 && one != 100 {
			return
		}
		a, ok := unparen(b.RHS).(*parser.AggregateExpr)
		if !ok || a.Op != parser.AVG {
			return
		}
		c, ok := unparen(a.Expr).(*parser.BinaryExpr)
		if !ok || !isFilter(c) || p.quantityOf(c.LHS).of == share {
			return
		}
		if _, _, ok := number(c.RHS); !ok {
			return
		}
		fix := advice("write bool behind the comparison")
		if op := p.tokens(c.LHS.PositionRange().End, c.RHS.PositionRange().Start); len(op) > 0 {
			end := int(op[0].Pos) + len(op[0].Val)
			fix = suggestion{"write " + op[0].Val + " bool", []edit{{p.node, end, end, " bool"}}}
		}
		p.report(c.PositionRange(),
			"a comparison keeps the values for which it holds and drops the others: the average is no share of time or of servers", fix)
	})
}

// checkSumOverTime finds samples added up over time: the result is as many times too
// large as the range holds scrapes.
func checkSumOverTime(p *pass) {
	p.sumsOfRates()
	p.walk(func(n parser.Node, _ []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || c.Func.Name != "sum_over_time" || len(c.Args) != 1 {
			return
		}
		v := plainSelector(c.Args[0])
		if v == nil {
			return
		}
		at := c.PositionRange()
		switch class, family := classOf(nameOf(v)); {
		case class == gauge && family.Engine != "":
			p.report(at, "samples are added up: scraped twice as often, the number is twice as large",
				suggestion{"write avg_over_time", []edit{{
					p.node, int(at.Start), int(at.Start) + len(c.Func.Name),
					"avg_over_time",
				}}})
		case class.cumulative() && family.Engine != "":
			p.report(at, nameOf(v)+" is a counter, and each of its samples holds all before it: added up they mean nothing", suggestion{"write increase", []edit{{p.node, int(at.Start), int(at.Start) + len(c.Func.Name), "increase"}}})
		}
	})
}

// checkFloor finds shares whose divisor is a rate that is kept from falling below a
// number which idle and slow servers do fall below: clamp_min(rate(x), 1) makes one
// failure in 20 s, of one request in 20 s, a share of 5 %. A rate of tokens is
// that small only where hardly anything is asked.
func checkFloor(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV {
			return
		}
		c, ok := unparen(b.RHS).(*parser.Call)
		if !ok || c.Func.Name != "clamp_min" || p.opaque(c.Args[1].PositionRange().Start, c.Args[1].PositionRange().End) {
			return
		}
		floor, lit, ok := number(c.Args[1])
		l, r := selectors(b.LHS), selectors(c.Args[0])
		if ok && floor < 0.1 && len(l) == 1 && len(r) == 1 && p.zeroIsBad(b, l[0], r[0]) {
			p.report(c.PosRange, "where nothing is asked this reads 0, the worst that there is, and not nothing",
				advice("leave clamp_min out: 0 / 0 is NaN, which compares with nothing and is not drawn"))
			return
		}
		if !ok || floor < 0.1 || len(l) == 0 || len(r) == 0 || !p.ratedBy(b, l[0], "rate", "irate") ||
			!p.ratedBy(b, r[0], "rate", "irate") {
			return
		}
		severity := p.check.Severity
		if countsTokens(nameOf(r[0])) {
			severity = catalog.Info
		}
		p.reportAs(severity, c.PosRange,
			fmt.Sprintf("below %s per second the divisor stays at %s, and the quotient is too small: "+
				"at one request in 20 s it is %.2g of what it should be", short(floor), short(floor), min(1, 0.05/floor)),
			suggestion{"write 1e-9", []edit{p.replace(lit.PosRange, "1e-9")}})
	})
}

// zeroIsBad reports whether a quotient is a share of what went well, which nothing limits to times with
// requests: an alert on low values, or a series that is recorded.
func (p *pass) zeroIsBad(b *parser.BinaryExpr, l, r *parser.VectorSelector) bool {
	lc, lf := classOf(nameOf(l))
	rc, rf := classOf(nameOf(r))
	good := lc == bucket && selectsBy(l, "le") && rc == count && lf.Name == rf.Name || leaningOfSeries(l) == fine && isPart(l, r)
	if c, ok := p.decisive(); p.role == alertRole && (!ok || c.op != parser.LSS && c.op != parser.LTE || !sameNode(value(c.expr), b) || isSet(p.tree)) {
		return false
	}
	return good && (p.role == alertRole || p.role == recordRole)
}

func sameNode(a, b parser.Expr) bool { return unparen(a) == unparen(b) }

// isSet reports whether an expression joins conditions.
func isSet(e parser.Expr) bool {
	b, ok := unparen(e).(*parser.BinaryExpr)
	return ok && b.Op.IsSetOperator()
}

func countsTokens(name string) bool {
	return !strings.HasSuffix(name, "_count") && (strings.Contains(name, "token") || strings.Contains(name, "prefix_cache"))
}

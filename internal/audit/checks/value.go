package checks

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

var ratioSummed = Check{
	ID: "ratio-summed", Severity: ticket, Title: "shares of several servers or GPUs summed",
	Doc: "KV-cache usage is a share: 40 % on each of two replicas is not 80 %. Take `max` for the fullest, `avg` for " +
		"the fleet.",
	look: on(func(p *pass, a *parser.AggregateExpr) {
		v, by := p.passedOn(a.Expr)
		_, f := p.typeOf(NameOf(v))
		if a.Op != parser.SUM || by == 0 || !p.isShare(NameOf(v)) || f.Kind == "EPP" || p.Role == files.Scaler ||
			p.isOperand() || p.Opaque(a.PosRange.Start, a.Expr.PositionRange().Start) || groupsByPart(a) {
			return
		}
		p.report(a.PositionRange(), "shares cannot be added up: 40 on each of two replicas becomes 80",
			"write max for the highest, or avg for the fleet")
	}),
}

// groupsByPart reports whether an aggregation has a group for each GPU or engine, so that each sums one series.
func groupsByPart(a *parser.AggregateExpr) bool {
	byTarget := slices.ContainsFunc(a.Grouping, func(l string) bool { return slices.Contains(targetLabels, l) })
	parts := []string{"UUID", "device", "engine", "WorkerId", "replica"}
	return !a.Without && slices.ContainsFunc(a.Grouping, func(l string) bool {
		return slices.Contains(parts, l) || l == "gpu" && byTarget
	})
}

// targetLabels are labels that tell one server or host from another.
var targetLabels = []string{
	"instance", "pod", "pod_name", "kubernetes_pod_name", "exported_pod", "exported_instance", "replica", "host",
	"hostname", "Hostname", "node", "container_id", "server",
}

// isOperand reports whether the present node is an operand of a difference or a quotient of vectors, such as a mean
// that divides a sum by a count.
func (p *pass) isOperand() bool {
	return slices.ContainsFunc(p.path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && (b.Op == parser.DIV || b.Op == parser.SUB) && b.VectorMatching != nil
	})
}

// isShare reports whether a series is a gauge of the catalogue whose values are shares of a whole.
func (p *pass) isShare(name string) bool {
	t, f := p.typeOf(name)
	return t == engine.Gauge && (f.Unit == "%" || f.Unit == "ratio" || f.Unit == "" && shareName.MatchString(f.Name))
}

// shareName matches the names of gauges without a unit that are shares.
var shareName = regexp.MustCompile(`(_ratio|_usage_perc|_hit_rate)$`)

// passedOn returns the selector whose values an expression passes on, perhaps filtered, averaged or scaled, and the
// factor by which it scales them; nil for an expression that does more.
func (p *pass) passedOn(e parser.Expr) (v *parser.VectorSelector, by float64) {
	e, scale := p.unscale(e)
	by = 1
	switch n := e.(type) {
	case *parser.VectorSelector:
		v = n
	case *parser.AggregateExpr:
		if slices.Contains(passing, n.Op) {
			v, by = p.passedOn(n.Expr)
		}
	case *parser.Call:
		v = argumentOf(n, "avg_over_time", "max_over_time", "min_over_time", "last_over_time")
	}
	return v, by * scale
}

// passing are the aggregations whose results lie between the lowest and the highest value.
var passing = []parser.ItemType{parser.MAX, parser.MIN, parser.AVG, parser.QUANTILE, parser.TOPK, parser.BOTTOMK}

var impossibleThreshold = Check{
	ID: "impossible-threshold", Severity: page, Title: "a comparison that can never hold, or always does",
	Doc: "A share compared with 90, GPU utilization (0–100) with 0.9, `up` with 2, a rate with `>= 0`, " +
		"`count(up == 1) == 0` (the count of nothing is empty). Only where the catalogue has the range of the values.",
	look: on(func(p *pass, b *parser.BinaryExpr) {
		c, ok := p.comparedWith(b)
		low, high, known := p.rangeOf(c.expr)
		if !ok || !known || p.guards(b, c) {
			return
		}
		bounds := fmt.Sprintf("the value is between %s and %s", formatShort(low), formatShort(high))
		if math.IsInf(high, 1) {
			bounds = "the value is never below " + formatShort(low)
		}
		fix := "compare with a number that it can have"
		if a, ok := unparen(c.expr).(*parser.AggregateExpr); ok && a.Op == parser.COUNT {
			fix = "a count of nothing is empty, not 0: write absent(…), or (… or vector(0)) before the comparison"
		}
		isBounded := low == 0 || !math.IsInf(high, 1)
		switch {
		case neverHolds(low, high, c.op, c.limit):
			p.report(b.PositionRange(), bounds+": this never holds", fix)
		case p.Role == files.Alert && isBounded && neverHolds(low, high, negated[c.op], c.limit):
			p.report(b.PositionRange(), bounds+": this always holds", fix)
		case high == 100 && c.isAbove() && c.limit > 0 && c.limit < 1:
			p.report(b.PositionRange(), "the value is in percent, from 0 to 100: it is nearly always above "+
				formatShort(c.limit), "write "+formatShort(c.limit*100))
		}
	}),
}

// rangeOf returns the lowest and the highest possible value of an expression. They are known for shares, states,
// counters, rates and counts of series.
func (p *pass) rangeOf(e parser.Expr) (low, high float64, known bool) {
	if v, by := p.passedOn(e); v != nil && by > 0 {
		high, known = p.highestOf(NameOf(v))
		return 0, high * by, known
	}
	e, by := p.unscale(e)
	a, _ := e.(*parser.AggregateExpr)
	switch {
	case a == nil: // a rate is never below 0
		known = argumentOf(e, rates...) != nil
	case a.Op == parser.COUNT:
		low, known = 1, true
	case a.Op == parser.SUM:
		low, _, known = p.rangeOf(a.Expr)
		known = known && low == 0
	}
	return low * by, math.Inf(1), known && by > 0
}

// highestOf returns the highest possible value of a series whose lowest is 0.
func (p *pass) highestOf(name string) (high float64, known bool) {
	t, f := p.typeOf(name)
	canonical, _ := vllm.Canonical(name)
	switch {
	case p.isShare(name) && f.Unit == "%":
		return 100, true
	case p.isShare(name) && !strings.HasSuffix(name, "_hit_rate"): // V0's is −1 before the first look-up
		return 1, true
	case slices.Contains(states, canonical):
		return 1, true
	case t == engine.Counter:
		return math.Inf(1), true
	}
	return 0, false
}

// states are gauges of 0 and 1.
var states = []string{"up", "probe_success", "vllm:healthy_pods_total", "vllm:engine_sleep_state"}

// negated maps each comparison to the one that holds if it does not.
var negated = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LTE, parser.LSS: parser.GTE, parser.GTE: parser.LSS, parser.LTE: parser.GTR,
	parser.EQLC: parser.NEQ, parser.NEQ: parser.EQLC,
}

// neverHolds reports whether no value from low to high passes a comparison with limit.
func neverHolds(low, high float64, op parser.ItemType, limit float64) bool {
	switch op {
	case parser.GTR:
		return high <= limit
	case parser.GTE:
		return high < limit
	case parser.LSS:
		return low >= limit
	case parser.LTE:
		return low > limit
	case parser.EQLC:
		return high < limit || low > limit
	}
	return false
}

// guards reports whether a comparison decides nothing by itself but filters NaN or idle series, as in
// (… > -Inf) or vector(0).
func (p *pass) guards(b *parser.BinaryExpr, c comparison) bool {
	isInner := slices.ContainsFunc(p.path, func(n parser.Node) bool {
		_, parens := n.(*parser.ParenExpr)
		return !parens
	})
	return b.ReturnBool || math.IsInf(c.limit, -1) || (isInner || p.Role != files.Alert) && c.limit == 0 && c.isAbove()
}

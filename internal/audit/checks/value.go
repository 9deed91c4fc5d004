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
		v, by := p.gaugeIn(a.Expr)
		_, f := p.typeOf(NameOf(v))
		if a.Op != parser.SUM || by == 0 || !p.isShare(NameOf(v)) || f.Kind == "EPP" || p.Role == files.Scaler ||
			p.combined() || p.Opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			return
		}
		host := slices.ContainsFunc(a.Grouping, func(l string) bool { return slices.Contains(ofTargets, l) })
		one := []string{"UUID", "device", "engine", "WorkerId", "replica"}
		if !a.Without && slices.ContainsFunc(a.Grouping, func(l string) bool {
			return slices.Contains(one, l) || l == "gpu" && host
		}) {
			return // one series for each server or GPU
		}
		p.report(a.PositionRange(), "shares cannot be added up: 40 on each of two replicas becomes 80",
			"write max for the highest, or avg for the fleet")
	}),
}

// ofTargets are labels that tell one server from another.
var ofTargets = []string{
	"instance", "pod", "pod_name", "kubernetes_pod_name", "exported_pod", "exported_instance", "replica", "host",
	"hostname", "Hostname", "node", "container_id", "server",
}

// combined reports whether the node is an operand of a difference or a quotient of vectors: a change, or a mean made by
// hand.
func (p *pass) combined() bool {
	return slices.ContainsFunc(p.path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && (b.Op == parser.DIV || b.Op == parser.SUB) && b.VectorMatching != nil
	})
}

// isShare reports whether a series is a gauge of the catalogue whose values are shares of a whole.
func (p *pass) isShare(name string) bool {
	t, f := p.typeOf(name)
	return t == engine.Gauge && (f.Unit == "%" || f.Unit == "ratio" || f.Unit == "" && shareNamed.MatchString(f.Name))
}

// shareNamed matches the names of gauges that are shares.
var shareNamed = regexp.MustCompile(`(_ratio|_usage_perc|_hit_rate)$`)

// gaugeIn returns the only selector whose values an expression passes on, perhaps filtered, averaged or scaled by a
// factor; nil if it does more.
func (p *pass) gaugeIn(e parser.Expr) (v *parser.VectorSelector, by float64) {
	e, scale := p.unscale(e)
	by = 1
	switch n := e.(type) {
	case *parser.VectorSelector:
		v = n
	case *parser.AggregateExpr:
		if slices.Contains(passing, n.Op) {
			v, by = p.gaugeIn(n.Expr)
		}
	case *parser.Call:
		v = ranged(n, "avg_over_time", "max_over_time", "min_over_time", "last_over_time")
	}
	return v, by * scale
}

// passing are the aggregations whose results are among the values, or between them.
var passing = []parser.ItemType{parser.MAX, parser.MIN, parser.AVG, parser.QUANTILE, parser.TOPK, parser.BOTTOMK}

var impossibleThreshold = Check{
	ID: "impossible-threshold", Severity: page, Title: "a comparison that can never hold, or always does",
	Doc: "A share compared with 90, GPU utilization (0–100) with 0.9, `up` with 2, a rate with `>= 0`, `count(up == 1) == 0` (the " +
		"count of nothing is empty). Only where the catalogue has the range of the values.",
	look: on(func(p *pass, b *parser.BinaryExpr) {
		c, ok := p.comparedWith(b)
		low, high, known := p.rangeOf(c.expr)
		if !ok || !known || p.guards(b, c) {
			return
		}
		is := fmt.Sprintf("the value is between %s and %s", short(low), short(high))
		if math.IsInf(high, 1) {
			is = "the value is never below " + short(low)
		}
		fix := "compare with a number that it can have"
		if a, ok := unparen(c.expr).(*parser.AggregateExpr); ok && a.Op == parser.COUNT {
			fix = "where there is nothing to count there is no result, not 0: write absent(…), or (… or vector(0)) before " +
				"the comparison"
		}
		switch {
		case neverHolds(low, high, c.op, c.limit):
			p.report(b.PositionRange(), is+": this never holds", fix)
		case p.Role == files.Alert && (low == 0 || !math.IsInf(high, 1)) && neverHolds(low, high, negated[c.op],
			c.limit):
			p.report(b.PositionRange(), is+": this always holds", fix)
		case high == 100 && c.above() && c.limit > 0 && c.limit < 1:
			p.report(b.PositionRange(), "the value is percent from 0 to 100: above "+short(c.limit)+" is nearly always",
				"write "+short(c.limit*100))
		}
	}),
}

// rangeOf returns the minimum and maximum of an expression's values if the catalogue knows them. It knows shares,
// states, counts, and what only grows.
func (p *pass) rangeOf(e parser.Expr) (low, high float64, known bool) {
	if v, by := p.gaugeIn(e); v != nil && by > 0 {
		high, known = p.highestOf(NameOf(v))
		return 0, high * by, known
	}
	e, by := p.unscale(e)
	a, _ := e.(*parser.AggregateExpr)
	switch {
	case a == nil: // rates never fall below 0
		known = ranged(e, rates...) != nil
	case a.Op == parser.COUNT:
		low, known = 1, true
	case a.Op == parser.SUM:
		low, _, known = p.rangeOf(a.Expr)
		known = known && low == 0
	}
	return low * by, math.Inf(1), known && by > 0
}

// highestOf returns the maximum of a series of which the catalogue knows that its values begin at 0.
func (p *pass) highestOf(name string) (high float64, known bool) {
	t, f := p.typeOf(name)
	canonical, _ := vllm.Canonical(name)
	switch {
	case p.isShare(name) && f.Unit == "%":
		return 100, true
	case p.isShare(name) && !strings.HasSuffix(name, "_hit_rate"): // V0's is −1 where nothing was asked
		return 1, true
	case slices.Contains(states, canonical):
		return 1, true
	case t == engine.Counter:
		return math.Inf(1), true
	}
	return 0, false
}

// states are gauges of 0 and 1: a target that is down has a series too.
var states = []string{"up", "probe_success", "vllm:healthy_pods_total", "vllm:engine_sleep_state"}

// negated are the comparisons that hold where another one does not.
var negated = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LTE, parser.LSS: parser.GTE, parser.GTE: parser.LSS, parser.LTE: parser.GTR,
	parser.EQLC: parser.NEQ, parser.NEQ: parser.EQLC,
}

// neverHolds reports whether a comparison of values between two numbers with a third cannot hold.
func neverHolds(low, high float64, op parser.ItemType, v float64) bool {
	switch op {
	case parser.GTR:
		return high <= v
	case parser.GTE:
		return high < v
	case parser.LSS:
		return low >= v
	case parser.LTE:
		return low > v
	case parser.EQLC:
		return high < v || low > v
	}
	return false
}

// guards reports whether a comparison only filters NaN or idle series, like (… > -Inf) or vector(0). Such a
// comparison decides nothing by itself.
func (p *pass) guards(b *parser.BinaryExpr, c comparison) bool {
	within := slices.ContainsFunc(p.path, func(n parser.Node) bool {
		_, parens := n.(*parser.ParenExpr)
		return !parens
	})
	return b.ReturnBool || math.IsInf(c.limit, -1) || (within || p.Role != files.Alert) && c.limit == 0 && c.above()
}

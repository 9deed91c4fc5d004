package checks

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
)

var impossibleThreshold = Check{
	ID: "impossible-threshold", Severity: page, Title: "a comparison that can never hold, or always does",
	Doc: "A share compared with 90, GPU utilization (0–100) with 0.9, `ALERTS` with 2, `day_of_week() == 7`, `count(up == 1) == 0` (the " +
		"count of nothing is empty), `sum(x == 0) > 0`. Every expression has bounds, which are propagated through PromQL's operators and " +
		"recording rules.",
	Bad: "alert: max(vllm:kv_cache_usage_perc) > 90", Good: "alert: max(vllm:kv_cache_usage_perc) > 0.9",
	query: func(p *pass) {
		limit, err := strconv.ParseFloat(p.Trigger.At("metadata", "threshold").Scalar(), 64)
		if f := p.inferFact(p.Tree); p.Role == files.Scaler && err == nil && f.bounds.high <= 1 && limit > f.bounds.high && f.unit == ratio {
			p.reportText(p.Trigger.At("metadata", "threshold"), "the value is between 0 and 1: it never comes near this threshold, and nothing scales", "write it between 0 and 1")
		}
	},
	binary: func(p *pass, b *parser.BinaryExpr) {
		c, ok := p.comparedWith(b)
		if !ok || p.guards(b, c) {
			return
		}
		f := p.inferFact(c.expr)
		what := p.text(unparen(c.expr))
		if len(what) > 60 {
			what = "the value"
		}
		fix := "compare with a number that it can have"
		call, _ := unparen(c.expr).(*parser.Call)
		a, _ := unparen(c.expr).(*parser.AggregateExpr)
		bounded := f.unit.of == share && !math.IsInf(f.bounds.high, 1) || call != nil && clocks[call.Func.Name].high > 0 || isCall(call, "vector")
		switch {
		case f.bounds.low > f.bounds.high || f.bounds.neverHolds(c.op, c.limit):
			if a != nil && a.Op == parser.COUNT {
				fix = "where there is nothing to count there is no result, not 0: write absent(…), or (… or vector(0)) before the comparison"
			} else if call != nil && strings.HasPrefix(call.Func.Name, "absent") {
				fix = "remove the comparison: absent returns 1 if there is no series, and nothing otherwise"
			}
			p.report(b.PositionRange(), fmt.Sprintf("%s %s: this never holds", what, f.bounds.describe()), fix)
		case bounded && f.bounds.neverHolds(negated[c.op], c.limit) && (p.Role == files.Alert || c.limit != 0):
			p.report(b.PositionRange(), fmt.Sprintf("%s %s: this always holds", what, f.bounds.describe()), fix)
		case f.unit == percent && c.above() && c.limit > 0 && c.limit < 1 && f.bounds.high == 100:
			p.report(b.PositionRange(), fmt.Sprintf("the value is percent from 0 to 100: above %s is nearly always", short(c.limit)), "write "+short(c.limit*100))
		}
	},
}

// guards reports whether a comparison only takes out NaN, or what is idle, as (… > -Inf) or vector(0) does:
// it decides nothing by itself.
func (p *pass) guards(b *parser.BinaryExpr, c comparison) bool {
	decides := p.Role == files.Alert
	for _, n := range p.path {
		if _, parens := n.(*parser.ParenExpr); !parens {
			decides = false
		}
	}
	return b.ReturnBool || math.IsInf(c.limit, -1) || !decides && c.limit == 0 && c.above()
}

var noComparison = Check{
	ID: "no-comparison", Severity: page, Title: "an alert that fires as long as the series exists",
	Doc: "An alert fires for every series that its expression returns, even with value 0. Only metrics of the catalogue.",
	Bad: "alert: sum(vllm:num_requests_waiting)", Good: "alert: sum(vllm:num_requests_waiting) > 10",
	roles: []files.Role{files.Alert},
	query: func(p *pass) {
		if p.Managed != nil {
			return
		}
		unsure := func(v *parser.VectorSelector) bool { // which may hold the comparison
			c, _ := classOf(NameOf(v))
			return p.recorded(NameOf(v)) || c == unknownClass && !isState(NameOf(v))
		}
		all := Selectors(p.Tree) // vector(1) is to fire always: a dead man's switch
		if len(all) > 0 && !slices.ContainsFunc(all, unsure) && !decides(p.Tree, true) {
			p.report(p.Tree.PositionRange(), "an alert fires for every series that its expression returns, also for one of value 0: this one always does", "compare it with a threshold, such as > 10")
		}
	},
}

// decides reports whether an expression compares, or looks for what is absent. Where a value of 0 fires too, as
// everything does in Prometheus, a comparison with bool decides nothing.
func decides(e parser.Expr, zeroFires bool) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			found = found || n.Op.IsComparisonOperator() && !(zeroFires && n.ReturnBool) || n.Op == parser.LUNLESS
		case *parser.Call:
			found = found || strings.HasPrefix(n.Func.Name, "absent")
		}
		return nil
	})
	return found
}

package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

var labelMismatch = Check{
	ID: "label-mismatch", Severity: page, Title: "two sides of an operator whose labels differ: nothing matches",
	Doc: "The panel is empty, the alert never fires. Also one label with two values, labels that a recording rule dropped, and aggregated " +
		"series combined with those of a target. Ticket for `… or vector(0)` in a calculation: the zero has no labels and matches none.",
	Bad:  "sum by (pod) (vllm:num_requests_waiting) / sum by (model_name) (vllm:num_requests_running)",
	Good: "sum by (pod) (vllm:num_requests_waiting) / sum by (pod) (vllm:num_requests_running)",
	binary: func(p *pass, b *parser.BinaryExpr) {
		m := b.VectorMatching
		if m == nil || b.Op == parser.LOR {
			return
		}
		l, r := p.inferFact(b.LHS).labels, p.inferFact(b.RHS).labels
		for _, label := range slices.Sorted(maps.Keys(l.values)) {
			if other, both := r.values[label]; both && l.values[label] != other && slices.Contains(m.MatchingLabels, label) == m.On {
				p.report(b.PositionRange(), fmt.Sprintf("the left side has %s=%q, the right side %q: no pair matches, and the result is always empty", label, l.values[label], other),
					fmt.Sprintf("match with ignoring (%s), or aggregate both sides without it", label))
				return
			}
		}
		if m.On {
			for _, label := range m.MatchingLabels {
				for _, sides := range [][2]labelSet{{l, r}, {r, l}} {
					if sides[0].known && (sides[0].exact || label == "model_name") && !slices.Contains(sides[0].names, label) && sides[1].known && slices.Contains(sides[1].names, label) {
						p.report(b.PositionRange(), fmt.Sprintf("one side has the labels %s, and this matches by %s: no pair matches", sides[0], label), "match by labels that both sides have")
						return
					}
				}
			}
			return
		}
		if m.Card != parser.CardOneToOne && !b.Op.IsSetOperator() {
			return
		}
		p.lostAlternative(b)
		beside := len(m.MatchingLabels) == 0 && !p.surface.Whole && (l.besideTarget(b.Op, r) || r.besideTarget(b.Op, l))
		programs := len(m.MatchingLabels) == 0 && !p.surface.Whole && otherPrograms(l, r)
		l, r = l.without(m.MatchingLabels...), r.without(m.MatchingLabels...)
		why, empty := "", "the result is always empty"
		if b.Op == parser.LUNLESS {
			empty = "nothing is ever taken out"
		}
		switch {
		case l.known && r.known && l.exact && r.exact && !slices.Equal(l.names, r.names),
			l.known && r.known && !l.exact && !r.exact && !slices.Equal(l.names, r.names) && !p.surface.Whole,
			l.known && r.known && l.exact != r.exact:
			why = fmt.Sprintf("the left side has the labels %s, the right side %s: no pair matches, and %s", l, r, empty)
		case beside:
			side := l
			if !l.exact {
				side = r
			}
			why = fmt.Sprintf("one side has the labels %s and no others, and the series of the other have those of their target, such as instance and job: no pair matches", side)
		case programs:
			why = "one side is of NVIDIA's exporter and the other of an engine: their series have other labels, such as another instance, and no pair matches"
		}
		if why != "" {
			p.report(b.PositionRange(), why, "aggregate both sides by the same labels, such as sum by (model_name), or match with on (…)")
		}
	},
}

// lostAlternative reports an "or" in a calculation whose sides have different labels, as a zero without any has:
// where one of them matches the other side of the operator, the other one does not, and is left out.
func (p *pass) lostAlternative(b *parser.BinaryExpr) {
	for _, sides := range [][2]parser.Expr{{b.LHS, b.RHS}, {b.RHS, b.LHS}} {
		or, ok := unparen(sides[0]).(*parser.BinaryExpr)
		if !ok || or.Op != parser.LOR || b.Op.IsSetOperator() || b.Op.IsComparisonOperator() {
			continue
		}
		has, instead, other := p.inferFact(or.LHS).labels, p.inferFact(or.RHS).labels, p.inferFact(sides[1]).labels
		zero := isCall(unparen(or.RHS), "vector") && has.known && len(has.names) > 0 && other.known && len(other.names) > 0
		if zero || has.exact && instead.exact && len(has.names) > 0 && len(instead.names) > 0 && !slices.Equal(has.names, instead.names) {
			p.reportAs(ticket, or.PositionRange(), fmt.Sprintf("the left of \"or\" has the labels %s, the right %s: not both match the other side, and what does not is left out", has, instead),
				"give both the same labels; a zero is … or 0 * (the other side)")
			return
		}
	}
}

// otherPrograms reports whether labels are those of series of two programs of the catalogue, as they were scraped.
func otherPrograms(one, two labelSet) bool {
	_, l := classOf(one.series)
	_, r := classOf(two.series)
	return l.Engine != "" && r.Engine != "" && l.Engine != r.Engine
}

// besideTarget reports whether labels are those of an aggregation that drops what a scraper adds, while the
// other side has those of series as they were scraped.
func (l labelSet) besideTarget(op parser.ItemType, other labelSet) bool {
	return l.known && l.exact && !slices.Contains(l.names, "instance") && other.series != "" && !(op.IsSetOperator() && len(l.names) == 0)
}

var ratioOfItself = Check{
	ID: "ratio-of-itself", Severity: page, Title: "a series divided by itself, or subtracted from itself",
	Doc:  "Without aggregation `rate(x{reason=\"error\"}) / rate(x)` matches each series with itself: always 1.",
	Bad:  `rate(vllm:request_success_total{finished_reason="error"}[5m]) / rate(vllm:request_success_total[5m])`,
	Good: `sum(rate(vllm:request_success_total{finished_reason="error"}[5m])) / sum(rate(vllm:request_success_total[5m]))`,
	binary: func(p *pass, b *parser.BinaryExpr) {
		m := b.VectorMatching
		if m == nil || b.Op != parser.DIV && b.Op != parser.SUB || m.On || len(m.MatchingLabels) > 0 || m.Card != parser.CardOneToOne {
			return
		}
		l, r := plainOf(b.LHS), plainOf(b.RHS)
		switch {
		case strings.Join(strings.Fields(p.text(b.LHS)), "") == strings.Join(strings.Fields(p.text(b.RHS)), "") && len(Selectors(b)) > 0:
			p.report(b.PositionRange(), "both sides are the same: always 1, or 0", "correct one of them")
		case b.Op == parser.DIV && l != nil && r != nil && NameOf(l) != "" && NameOf(l) == NameOf(r) && len(l.LabelMatchers) != len(r.LabelMatchers) && l.OriginalOffset == r.OriginalOffset:
			p.report(b.PositionRange(), "without aggregation every series is divided by itself: the quotient is 1, whatever happens", "aggregate both sides: sum(…) / sum(…)")
		}
	},
}

// plainOf returns the selector of a series or its rate, nil where an expression does more.
func plainOf(e parser.Expr) *parser.VectorSelector {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		return n
	case *parser.MatrixSelector:
		return plainOf(n.VectorSelector)
	case *parser.Call:
		if isCall(n, rates...) {
			return plainOf(n.Args[0])
		}
	}
	return nil
}

package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// checkConstant finds comparisons of a number with a number: vector(0) < 1 behind "or" binds
// before it.
func checkConstant(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || !b.Op.IsComparisonOperator() {
			return
		}
		c, ok := unparen(b.LHS).(*parser.Call)
		if _, number := constant(b.RHS); !number || !ok || c.Func.Name != "vector" {
			return
		}
		if _, fixed := constant(c.Args[0]); !fixed {
			return
		}
		if len(path) > 0 {
			if or, ok := path[len(path)-1].(*parser.BinaryExpr); ok && or.Op == parser.LOR {
				p.report(b.PositionRange(), "a comparison binds before \"or\": only the number behind it is compared, which always, or never, holds",
					advice("write parentheses: ("+oneLine(p.text(or.LHS))+" or "+p.text(b.LHS)+") "+b.Op.String()+" "+p.text(b.RHS)))
			}
		}
	})
}

// checkScalar finds scalar(…) of what may be several series, of which it makes NaN.
func checkScalar(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || c.Func.Name != "scalar" {
			return
		}
		l := p.labelsOf(c.Args[0])
		v, selects := unparen(value(c.Args[0])).(*parser.VectorSelector)
		class, _ := classOf(nameOfOrNone(v))
		if l.known && l.exact && len(l.names) > 0 || selects && class != unknownClass && !p.pinnedTarget(v) {
			p.report(c.PositionRange(), "scalar of several series is NaN, with which nothing compares: as soon as there are two of them this is empty, or never holds",
				advice("aggregate to one series: scalar(sum(…))"))
		}
	})
}

// calendar are functions whose values are numbers of days, hours and the like.
var calendar = []string{"day_of_week", "day_of_month", "day_of_year", "hour", "minute", "month", "year", "days_in_month"}

// calendarFilter reports whether a vector is a number of the calendar that a comparison without bool let
// through.
func (p *pass) calendarFilter(e parser.Expr, depth int) bool {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		r := p.records[nameOf(n)]
		return r != nil && r.tree != nil && depth < deepest && p.calendarFilter(r.tree, depth+1)
	case *parser.BinaryExpr:
		switch {
		case n.Op == parser.LAND || n.Op == parser.LOR || n.Op == parser.LUNLESS:
			return p.calendarFilter(n.LHS, depth)
		case isFilter(n):
			return isCall(unparen(n.LHS), calendar...) || p.calendarFilter(n.LHS, depth)
		}
	}
	return false
}

// checkCalendar finds numbers of the calendar taken for 0 and 1: recorded as a signal, multiplied with, or
// compared with 1.
func checkCalendar(p *pass) {
	const why = "without bool a comparison keeps the number of the day or the hour, and drops the series where it does not hold: this is not 1 and 0"
	fix := advice("write bool behind the comparisons, and * in place of and")
	if p.role == recordRole && p.calendarFilter(p.tree, 0) {
		p.report(p.tree.PositionRange(), why, fix)
		return
	}
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok {
			return
		}
		one, _, isOne := number(b.RHS)
		switch {
		case b.Op == parser.MUL && b.VectorMatching != nil && (p.calendarFilter(b.LHS, 0) || p.calendarFilter(b.RHS, 0)),
			(b.Op == parser.EQLC) && isOne && one == 1 && p.calendarFilter(b.LHS, 0) && !isCall(unparen(b.LHS), calendar...):
			p.report(b.PositionRange(), why, fix)
		}
	})
}

// checkPresence finds rates behind "and" and "unless" that nothing compares: a rate is there at 0 too.
func checkPresence(p *pass) {
	if p.role != alertRole {
		return
	}
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LAND && b.Op != parser.LUNLESS {
			return
		}
		for _, side := range []parser.Expr{b.LHS, b.RHS} {
			inner := unparen(side)
			if a, ok := inner.(*parser.AggregateExpr); ok && a.Op != parser.GROUP && a.Op != parser.COUNT {
				inner = unparen(a.Expr)
			}
			v := plainSelector(inner)
			if v == nil {
				continue
			}
			class, f := classOf(nameOf(v))
			gauge := class == gauge && f.Engine != "" && ofSeries(nameOf(v)).known() && p.records[nameOf(v)] == nil && b.Op == parser.LAND
			if isCall(inner, rates...) || gauge {
				p.report(side.PositionRange(), "it is there at 0 too: without a comparison this condition always holds", advice("compare it, as in > 0"))
			}
		}
	})
}

// lastPart are expressions of label_replace that begin in the middle of a value.
var lastPart = regexp.MustCompile(`^[/:]\(|^[/:]\[|^:\d|^:\\d`)

// hostNames are labels that hold a host's name, without a port.
var hostNames = []string{"node", "host", "hostname", "nodename", "Hostname", "kubernetes_node"}

// checkReplace finds label_replace whose expression never matches, since it has to match the whole value, or
// that keeps the port of an address that is to be a host's name.
func checkReplace(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || c.Func.Name != "label_replace" || len(c.Args) != 5 {
			return
		}
		arg := func(i int) string {
			s, _ := unparen(c.Args[i]).(*parser.StringLiteral)
			if s == nil {
				return ""
			}
			return s.Val
		}
		to, from, pattern := arg(1), arg(3), arg(4)
		switch {
		case lastPart.MatchString(pattern):
			p.report(c.Args[4].PositionRange(), fmt.Sprintf("the expression has to match the whole value of %s, and begins in its middle: the label is never set", from),
				advice("begin it with .*, as in .*"+pattern))
		case from == "instance" && slices.Contains(hostNames, to) && (pattern == "(.*)" || pattern == "(.+)") && slices.ContainsFunc(path, func(n parser.Node) bool {
			b, ok := n.(*parser.BinaryExpr)
			return ok && b.VectorMatching != nil && slices.Contains(b.VectorMatching.MatchingLabels, to)
		}):
			p.report(c.Args[4].PositionRange(), "instance holds the port too, and "+to+" on the other side does not: no pair matches", advice(`write "(.*):.*"`))
		}
	})
}

// checkTakenName finds recording rules under a name that a server exposes itself.
func checkTakenName(p *pass) {
	if p.role == recordRole && p.surface.Exposes(p.name) {
		if v, ok := unparen(p.tree).(*parser.VectorSelector); !ok || nameOf(v) != p.name {
			p.add(Finding{
				Severity: p.check.Severity, Fragment: p.name, Why: "servers expose a metric of this name themselves: whoever asks for it gets both",
				Fix: "record it under a name of its own, such as model:" + strings.ReplaceAll(p.name, ":", "_"),
			}, p.node, 0)
		}
	}
}

package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// severities are how severe alerts are by the values of their label severity or priority.
var severities = map[string]int{
	"info": 1, "informational": 1, "information": 1, "notice": 1, "low": 1, "none": 1, "p4": 1,
	"warning": 2, "warn": 2, "ticket": 2, "medium": 2, "minor": 2, "p3": 2,
	"critical": 3, "crit": 3, "page": 3, "high": 3, "major": 3, "emergency": 3, "fatal": 3, "p1": 3, "disaster": 3,
}

// rank is how severe an alert is, 0 where nobody can tell.
func (q *query) rank() int {
	said := q.rule.at("labels", "severity").str()
	if said == "" {
		said = q.rule.at("labels", "priority").str()
	}
	return severities[strings.ToLower(said)]
}

// A rung is an alert on one comparison with a number.
type rung struct {
	*query
	comparison
}

// rungs are the alerts of a file by what they compare.
func (p *pass) rungs() map[string][]rung {
	if p.beside.rungs == nil {
		p.beside.rungs = map[string][]rung{}
		for _, q := range p.beside.alerts {
			other := *p
			other.query = q
			if c, ok := other.decisive(); ok && len(q.mentions) == 0 {
				key := c.expr.String() + " | " + restOf(q.tree)
				p.beside.rungs[key] = append(p.beside.rungs[key], rung{q, c})
			}
		}
	}
	return p.beside.rungs
}

// restOf is what an alert's expression joins to its first condition.
func restOf(e parser.Expr) string {
	b, ok := unparen(e).(*parser.BinaryExpr)
	if !ok || !b.Op.IsSetOperator() {
		return ""
	}
	return restOf(b.LHS) + " " + b.Op.String() + " " + b.RHS.String()
}

// checkLadder finds alerts of one quantity that do not fit one another: the warning comes after the
// critical one, two that say the opposite hold at once, one stands there twice.
func checkLadder(p *pass) {
	c, ok := p.decisive()
	if !ok {
		return
	}
	steps := p.rungs()[c.expr.String()+" | "+restOf(p.tree)]
	const most = 50 // of one quantity
	steps = steps[:min(len(steps), most)]
	if slices.ContainsFunc(steps, func(o rung) bool { return o.op == c.op && o.limit != c.limit && o.rank() == p.rank() }) {
		p.otherRank()
	}
	for _, o := range steps {
		if o.query == p.query {
			return // each pair once, at its second
		}
		here, there := p.rank(), o.rank()
		milder, worse, mild, bad := o.comparison, c, o.query, p.query
		if there > here {
			milder, worse, mild, bad = c, o.comparison, p.query, o.query
		}
		switch {
		case c.above() && o.above() || c.below() && o.below():
			beyond := worse.above() && milder.limit > worse.limit || worse.below() && milder.limit < worse.limit
			switch {
			case here == 0 || there == 0 || bad.waits() > mild.waits():
			case here != there && beyond:
				p.report(c.at, fmt.Sprintf("%s is the milder one and compares with %s, beyond the %s of %s: whenever it fires, the more severe one fires too",
					mild.name, short(milder.limit), short(worse.limit), bad.name), advice("exchange the numbers, or correct one of them"))
			case here != there && milder.limit == worse.limit && milder.op == worse.op && bad.waits() == mild.waits() && sameLabels(mild, bad):
				p.report(c.at, fmt.Sprintf("%s and %s have one condition: they always fire together", mild.name, bad.name), advice("give the milder one a lower threshold"))
			case here == there && milder.limit == worse.limit && milder.op == worse.op && bad.waits() == mild.waits() && sameLabels(mild, bad):
				p.report(c.at, fmt.Sprintf("%s and %s are one alert, written twice", o.name, p.name), advice("leave one out"))
			}
		case min(c.limit, o.limit) > 0 && (c.above() && o.below() && c.limit < o.limit || c.below() && o.above() && o.limit < c.limit):
			p.report(c.at, fmt.Sprintf("%s and %s overlap: every value fires one of the two, and between %s and %s both fire", o.name, p.name,
				short(min(c.limit, o.limit)), short(max(c.limit, o.limit))), advice("exchange the numbers: nothing is to fire between them"))
		}
	}
}

// sameLabels reports whether two alerts have the same labels but for how severe they are.
func sameLabels(a, b *query) bool {
	of := func(q *query) (out []string) {
		for _, f := range q.rule.get("labels").all() {
			if f.key != "severity" && f.key != "priority" {
				out = append(out, f.key+"="+f.value.scalar())
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(of(a), of(b))
}

// otherRank reports a step of a ladder whose name says another severity than its label.
func (p *pass) otherRank() {
	words := labelWords(p.name)
	last := words[len(words)-1]
	if said := severities[last]; slices.Contains([]string{"critical", "crit", "warning", "warn", "info", "page"}, last) && said != p.rank() && p.rank() != 0 {
		p.report(p.tree.PositionRange(), fmt.Sprintf("another step of this ladder has the same severity, and the name of %s says %s", p.name, last), advice("correct the label or the name"))
	}
}

// windowsJoined are words of alerts on objectives over several windows.
var windowsJoined = regexp.MustCompile(`(?i)burn|budget|\bslos?\b|objective|and still|both windows|multi-?window`)

// checkWindows finds the conditions of two windows joined by "or" where both have to hold: the long
// one alone keeps the alert up for hours.
func checkWindows(p *pass) {
	if p.role != alertRole || !windowsJoined.MatchString(p.words()) {
		return
	}
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LOR {
			return
		}
		l, r := conditions(b.LHS, 0), conditions(b.RHS, 0)
		if len(l) != 1 || len(r) != 1 || l[0].limit != r[0].limit || l[0].op != r[0].op || l[0].expr.String() == r[0].expr.String() {
			return
		}
		if a, b := withoutRanges(l[0].expr), withoutRanges(r[0].expr); a != b {
			return
		}
		p.report(b.PositionRange(), "a long and a short window with one threshold, joined by or: the long one alone fires, and stays for hours after the end", advice("write and"))
	})
}

// inRanges are the ranges of an expression, and the windows in the names of recorded series.
var inRanges = regexp.MustCompile(`\[[^\]]*\]|\d+[smhdw]\b`)

func withoutRanges(e parser.Expr) string { return inRanges.ReplaceAllString(e.String(), "") }

// checkNotRecorded finds recorded series that are asked for and that nothing records, beside one of
// nearly the same name that is recorded and that nobody asks for.
func checkNotRecorded(p *pass) {
	for _, v := range selectors(p.tree) {
		name := nameOf(v)
		if parts := strings.Count(name, ":"); parts == 0 || parts == 1 && ours(name) || p.records[name] != nil || known(name) {
			continue
		}
		for _, recorded := range p.unasked() {
			if twins(name, recorded) {
				p.report(v.PositionRange(), "nothing here records it, and "+recorded+" is recorded and asked for by nobody: this is empty",
					suggestion{"write " + recorded, p.rename(v, recorded)})
				break
			}
		}
	}
}

// unasked are series that the file records and that no expression asks for, a few hundred at most.
func (p *pass) unasked() []string {
	if p.beside.unasked == nil {
		p.beside.unasked = []string{}
		for _, name := range slices.Sorted(maps.Keys(p.records)) {
			if p.records[name].file == p.file && !p.asked[name] && len(p.beside.unasked) < 300 {
				p.beside.unasked = append(p.beside.unasked, name)
			}
		}
	}
	return p.beside.unasked
}

// twins reports whether two names of recorded series differ in one of their parts only, and little.
func twins(a, b string) bool {
	l, r := strings.Split(a, ":"), strings.Split(b, ":")
	if len(l) != len(r) {
		return false
	}
	differ, last := 0, 0
	for i := range l {
		if l[i] != r[i] {
			differ, last = differ+1, i
		}
	}
	if differ != 1 {
		return false
	}
	x, y := operationOf(l[last]), operationOf(r[last])
	return x == y || alike(wordsOf(l[last]), wordsOf(r[last])) >= 0.5
}

// operationOf is the last part of a recorded series' name without "rate" and underscores, by which
// people differ.
func operationOf(part string) string {
	return strings.NewReplacer("_", "", "rate", "", "avg", "mean").Replace(part)
}

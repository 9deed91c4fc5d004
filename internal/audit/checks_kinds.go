package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/render"
)

// checkMixedQuantities finds what cannot be added, subtracted or compared: a time and a
// share, one less seconds, percent and ratios.
func checkMixedQuantities(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok {
			return
		}
		if whole, lit, ok := number(b.LHS); ok && b.Op == parser.SUB && !p.opaque(lit.PosRange.Start, lit.PosRange.End) {
			p.restOfNoShare(b, whole)
			return
		}
		sides := b.Op == parser.ADD || b.Op == parser.SUB || b.Op.IsComparisonOperator() || b.Op == parser.LOR &&
			!p.decides(b, path)
		if b.VectorMatching == nil || !sides || forBothScales(b) {
			return
		}
		l, r := p.quantityOf(b.LHS), p.quantityOf(b.RHS)
		if !l.known() || !r.known() || l.is(r) || l.of.counted() && r.of.counted() {
			return
		}
		p.report(b.PositionRange(), fmt.Sprintf("on the left of %s stand %s, on the right %s", b.Op, l, r),
			advice("bring both to one unit"))
	})
}

// forBothScales reports whether an "or" is written for values of either of two scales: a series beside itself, of
// which one side is multiplied where a comparison tells that it is of the other scale.
func forBothScales(b *parser.BinaryExpr) bool {
	l, r := factor(b.LHS), factor(b.RHS)
	return b.Op == parser.LOR && len(namesIn(b)) > 0 && slices.Equal(namesIn(b.LHS), namesIn(b.RHS)) && l > 0 && r > 0 &&
		l != r && (compares(b.LHS) || compares(b.RHS))
}

// compares reports whether something in an expression is left out by a comparison.
func compares(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		b, ok := n.(*parser.BinaryExpr)
		found = found || ok && isFilter(b)
		return nil
	})
	return found
}

// restOfNoShare reports what is subtracted from 1 or 100 and is no share of it.
func (p *pass) restOfNoShare(b *parser.BinaryExpr, whole float64) {
	q := p.quantityOf(b.RHS)
	switch {
	case !q.known() || whole != 1 && whole != 100 || q.of == requests || q.of == tokens:
	case q.of == cores: // of one processor
		if a := aggregation(b.RHS); a != nil && a.Op == parser.SUM && !slices.Contains(a.Grouping, "cpu") {
			p.report(b.PositionRange(), "the time of all processors together is more than 1 where there are several: this falls below 0",
				advice("write avg in place of sum"))
		}
	case q.of != share:
		p.report(b.PositionRange(), fmt.Sprintf("%s less %s is no share of anything", short(whole), q),
			advice("for the share of requests above a time divide buckets: 1 - sum(rate(…_bucket{le=\"2.5\"}[5m])) / sum(rate(…_count[5m]))"))
	case whole == 1 && q == percent, whole == 100 && q == ratio:
		p.report(b.PositionRange(), fmt.Sprintf("%s less %s", short(whole), q),
			advice("write "+map[float64]string{1: "100", 100: "1"}[whole]))
	}
}

// decides reports whether an "or" joins two conditions of an alert.
func (p *pass) decides(b *parser.BinaryExpr, path []parser.Node) bool {
	decide := func(e parser.Expr) bool {
		c, ok := unparen(e).(*parser.BinaryExpr)
		return ok && (isFilter(c) || c.Op.IsSetOperator())
	}
	return p.role == alertRole && (decide(b.LHS) || decide(b.RHS)) || compared(path)
}

// ofCounts are words of a panel for how many there are.
var ofCounts = regexp.MustCompile(`(?i)\bcounts?\b|number of|\btotal\b|次数|总数`)

// checkCode finds codes that are taken for amounts: added up, averaged, or shown as a count;
// and bits that say "idle" among those that say "slowed down".
func checkCode(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		what := ""
		var of parser.Expr
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if slices.Contains([]parser.ItemType{parser.SUM, parser.AVG, parser.QUANTILE, parser.STDDEV}, n.Op) &&
				(n.Without || !oneGPU(n.Grouping)) {
				what, of = n.Op.String(), n.Expr
			}
		case *parser.Call:
			if n.Func.Name == "sum_over_time" || n.Func.Name == "avg_over_time" {
				what, of = n.Func.Name, n.Args[0]
			}
		}
		if what != "" && p.quantityOf(of).of == code {
			p.report(n.PositionRange(), strings.Join(namesIn(n),
				", ")+" is a code, such as 79 for a GPU that fell off the bus: "+what+" of codes means nothing",
				advice("count those that are not 0: count(… > 0)"))
		}
		if c, ok := n.(*parser.Call); ok {
			p.changesWithin(c)
		}
	})
	p.countAsCode()
	p.comparisons(func(c comparison) {
		v, ok := value(c.expr).(*parser.VectorSelector)
		if ok && strings.HasPrefix(nameOf(v), "DCGM_") && strings.HasSuffix(nameOf(v), "_REASONS") && p.role == alertRole &&
			(c.limit == 0 && (c.op == parser.GTR || c.op == parser.NEQ) || c.limit == 1 && c.op == parser.GTE) {
			p.report(c.at, "the bits hold 1 for a GPU that is idle: this fires on every idle GPU",
				advice("compare with more than 1, or with the bits that are meant"))
		}
	})
	if v, ok := unwrapped(p.tree).(*parser.VectorSelector); ok && p.role == panelRole && ofSeries(nameOf(v)).of == code &&
		ofCounts.MatchString(labelsLegends.ReplaceAllString(p.panel.title+" "+p.panel.legend, "")) &&
		!isCount([]parser.Node{p.tree}) &&
		p.quantityOf(p.tree).of == code {
		if a := aggregation(p.tree); a == nil || a.Op != parser.SUM && a.Op != parser.AVG {
			p.report(p.tree.PositionRange(), nameOf(v)+" is the code of the last error, and the panel says a count",
				advice("count those that are not 0: count(… > 0), or call it a code"))
		}
	}
}

// changesWithin reports functions that look for a change within a series of which each code has one of its own, where
// nothing beside them speaks of the label.
func (p *pass) changesWithin(c *parser.Call) {
	if !isCall(c, "changes", "delta", "idelta", "deriv", "resets") { // rates of it are rate-on-gauge
		return
	}
	m, ok := unparen(c.Args[0]).(*parser.MatrixSelector)
	if !ok || strings.Contains(p.node.value, "err_code") || !p.byCode(nameOf(m.VectorSelector.(*parser.VectorSelector))) {
		return
	}
	v := m.VectorSelector.(*parser.VectorSelector)
	p.report(c.PositionRange(), nameOf(v)+" has the code as its label err_code, since dcgm-exporter 3.3.6-3.4.2 (NVIDIA/dcgm-exporter#309): "+
		"a new code is a new series, which begins with its value, and within a series nothing changes",
		advice("write "+c.Func.Name+"(max without (err_code, err_msg) ("+oneLine(p.text(v))+")[10m:]), or compare the codes that are there"))
}

// byCode reports whether a metric has a series for each of its codes.
func (p *pass) byCode(name string) bool {
	if name != xidErrors {
		return false
	}
	has, known := p.surface.hasLabel(name, "err_code")
	return !p.surface.Live || !known || has
}

// xidErrors is the code of the last error of a GPU.
const xidErrors = "DCGM_FI_DEV_XID_ERRORS"

// valueAsCode is a text that calls an alert's value a code.
var valueAsCode = regexp.MustCompile(`(?i)\b(?:xid|errno|(?:error|exit|status|xid) code)(?: (?:error|code|number|event))?(?: (?:is|was|of))?\s*[:=#"'(]*\s*\{\{[^}]*(?:\$value|\.Value)\b[^}]*\}\}`)

// countAsCode reports texts that call a number of changes or of series a code. Of conditions joined by "and" the value is
// that of the first.
func (p *pass) countAsCode() {
	if p.role != alertRole {
		return
	}
	a, counted := unscaled(p.tree).(*parser.AggregateExpr)
	c, ok := unwrapped(unscaled(p.tree)).(*parser.Call)
	if !(counted && a.Op == parser.COUNT) && !(ok && isCall(c, "changes", "increase", "delta", "resets", "rate", "count_over_time")) {
		return
	}
	for _, n := range p.texts() {
		if at := valueAsCode.FindStringIndex(n.value); at != nil {
			p.reportText(n, at[0], at[1], "the text calls the value a code, and it is how many there were: of conditions joined by and it is that of the first",
				"put the condition with the code first, or name the label that holds it")
		}
	}
}

// mentioned is a variable in a string or an expression: $name, ${name}, ${name:format} or [[name]].
var mentioned = regexp.MustCompile(`\$\{(\w+)(?:[:.][^}]*)?\}|\$([A-Za-z_]\w*)|\[\[(\w+)(?::\w+)?\]\]`)

// checkMultiValue finds variables of several values behind = or !=: with two of them, or with
// All, Grafana writes (a|b), which no label equals.
func checkMultiValue(p *pass) {
	for _, v := range selectors(p.tree) {
		for _, m := range v.LabelMatchers {
			to := map[labels.MatchType]string{labels.MatchEqual: "=~", labels.MatchNotEqual: "!~"}[m.Type]
			found := mentioned.FindStringSubmatch(m.Value)
			if to == "" || found == nil || found[0] != m.Value {
				continue
			}
			name := found[1] + found[2] + found[3]
			if x, declared := p.vars[name]; !declared || !x.multi || p.repeats(name) {
				continue
			}
			fix := advice("write " + to)
			items := p.tokens(v.PosRange.Start, v.PosRange.End)
			for i := 0; i+2 < len(items); i++ {
				if items[i].Val == m.Name && items[i+2].Typ == parser.STRING {
					op := items[i+1]
					fix.edits = []edit{{p.node, int(op.Pos), int(op.Pos) + len(op.Val), to}}
				}
			}
			p.report(v.PositionRange(), fmt.Sprintf("$%s may stand for several values, or for all: %s%q then selects nothing",
				name,
				m.Name+m.Type.String(), m.Value), fix)
		}
	}
}

// checkUnknownVariable finds variables that a dashboard does not declare: their names are sent
// as they stand.
func checkUnknownVariable(p *pass) {
	if p.role != panelRole || len(p.vars) == 0 || p.panel.perses {
		return
	}
	for _, m := range mentioned.FindAllStringSubmatchIndex(p.node.value, -1) {
		name := ""
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 {
				name = p.node.value[m[i]:m[i+1]]
			}
		}
		if _, declared := p.vars[name]; declared || strings.HasPrefix(name, "__") || name[0] >= '0' && name[0] <= '9' {
			continue
		}
		p.add(Finding{
			Severity: catalog.Page, Fragment: p.node.value[m[0]:m[1]],
			Why: "the dashboard has no variable " + name + ": its name is sent as it stands, and nothing is selected",
			Fix: "declare the variable under templating, or write the value",
		}, p.node, m[0])
		return
	}
}

// checkUnusedVariable finds variables that people can choose and that nothing asks for.
func checkUnusedVariable(p *pass) {
	p.newVariables(func(v variable) {
		if v.kind != "query" && v.kind != "custom" {
			return
		}
		used := regexp.MustCompile(`\$\{?` + v.name + `\b|\[\[` + v.name + `\b|repeat\\?"?\s*:\s*\\?"?` + v.name + `\b|var-` + v.name + `\b|includeVars\\?"?\s*:\s*true`)
		if used.Match(p.file.Data) {
			return
		}
		p.add(Finding{
			Severity: p.check.Severity, Fragment: v.name,
			Why: "nothing asks for $" + v.name + ": whoever chooses one of its values sees the same", Fix: "select by it in the queries, or take it out",
		}, v.node, 0)
	})
	if p.role == panelRole {
		p.unusedRepeat()
	}
}

// apartFromLabels is what a legend says by itself.
func apartFromLabels(legend string) string {
	return strings.TrimFunc(labelsLegends.ReplaceAllString(legend, ""),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// checkOnesAsValue finds group(…) shown or compared as if it were what is grouped: it is 1.
func checkOnesAsValue(p *pass) {
	if p.role == panelRole {
		p.infoAsValue()
	}
	if a, ok := unscaled(p.tree).(*parser.AggregateExpr); ok && a.Op == parser.GROUP && p.role == panelRole &&
		!strings.Contains(strings.ToLower(p.panel.kind), "table") && ofAmount(namesIn(a)) {
		p.report(a.PositionRange(), "group gives 1 for each group, whatever the values are", advice("write sum, max or avg"))
	}
}

// ofAmount reports whether some series are known for amounts, and not for being there.
func ofAmount(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return ofSeries(n).known() || ofCounter(n).known() })
}

// checkRepeatedQuery finds panels that show one query twice under two names.
func checkRepeatedQuery(p *pass) {
	if p.role != panelRole || p.panel.legend == "" || p.panel.kind == "table" {
		return
	}
	same := func(q *query) string { return strings.Join(strings.Fields(q.node.value), "") }
	for _, q := range p.mates() {
		if q == p.query {
			return
		}
		if same(q) == same(p.query) && q.panel.legend != "" &&
			apartFromLabels(q.panel.legend) != apartFromLabels(p.panel.legend) && apartFromLabels(q.panel.legend) != "" &&
			apartFromLabels(p.panel.legend) != "" {
			p.report(p.tree.PositionRange(), fmt.Sprintf("%q and %q of this panel are the same query: one line is drawn twice",
				q.panel.legend, p.panel.legend),
				advice("correct the one, or take it out"))
			return
		}
	}
}

// Spans of time in the texts of an alert, and in the names of recording rules.
var (
	heldNamed     = regexp.MustCompile(`(?i)\bfor\s+(?:more than|over|at least|longer than|>|≥)?\s*(\d+)\s*\+?\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b|持续(?:了)?\s*(\d+)\s*(秒|分钟|小时)`)
	windowOfNames = regexp.MustCompile(`(?:^|[:_])(?:rate|increase|delta|avg|max)_?(\d+[mhd])$`)
)

// checkOtherHold finds texts that say how long a condition has held, and alerts that wait for
// another time.
func checkOtherHold(p *pass) {
	if p.role != alertRole {
		return
	}
	ranges, unknown := p.ranges()
	hold, err := model.ParseDuration(otherwise(p.hold, "0s"))
	if unknown || err != nil {
		return
	}
	spans := []time.Duration{time.Duration(hold)}
	for _, r := range ranges {
		spans = append(spans, r, r+time.Duration(hold))
	}
	for _, f := range p.rule.get("annotations").all() {
		if strings.Contains(f.key, "url") || strings.Contains(f.key, "runbook") || strings.Contains(f.key, "action") {
			continue
		}
		m := heldNamed.FindStringSubmatchIndex(f.value.str())
		if m == nil {
			continue
		}
		text, at := f.value.str(), 2
		if m[2] < 0 {
			at = 6
		}
		n, _ := strconv.Atoi(text[m[at]:m[at+1]])
		unit := []rune(strings.ToLower(text[m[at+2]:m[at+3]]))[0]
		said := time.Duration(n) * map[rune]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour,
			'秒': time.Second, '分': time.Minute, '小': time.Hour}[unit]
		if slices.Contains(spans, said) || p.comparesWith(said.Seconds()) {
			continue
		}
		waits := "waits for " + render.Span(time.Duration(hold))
		if hold == 0 {
			waits = "has no for"
		}
		p.reportText(f.value, m[0], m[1], "the text says how long it has held, and the alert "+waits,
			"correct the one or the other")
		return
	}
}

// comparesWith reports whether an expression has a number, in seconds or milliseconds.
func (p *pass) comparesWith(v float64) bool {
	found := false
	p.walk(func(n parser.Node, _ []parser.Node) {
		l, ok := n.(*parser.NumberLiteral)
		found = found || ok && (l.Val == v || l.Val == v*1000)
	})
	return found
}

// ranges returns the ranges of an expression; unknown where a variable stands in one.
func (p *pass) ranges() (all []time.Duration, unknown bool) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			all = append(all, n.Range)
			unknown = unknown || p.opaque(n.PositionRange().Start, n.PositionRange().End)
		case *parser.SubqueryExpr:
			all = append(all, n.Range)
			unknown = unknown || p.opaque(n.PositionRange().Start, n.PositionRange().End)
		}
	})
	return all, unknown
}

// manifold are series that each object has for every phase, condition or resource, and the label that
// tells them apart.
var manifold = map[string]string{
	"kube_pod_status_phase": "phase", "kube_pod_container_resource_limits": "resource",
	"kube_pod_container_resource_requests": "resource", "kube_node_status_allocatable": "resource", "kube_node_status_capacity": "resource",
	"kube_pod_status_ready": "condition", "kube_pod_status_scheduled": "condition", "kube_node_status_condition": "condition",
}

// allParts reports what was aggregated over phases, conditions or resources.
func (p *pass) allParts() {
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		label := manifold[nameOfOrNone(v)]
		if !ok || label == "" || p.role == variableRole || selectsBy(v, label) || p.opaqueGrouping(path) {
			return
		}
		over := false
		for _, n := range path {
			if a, ok := n.(*parser.AggregateExpr); ok && a.Op != parser.GROUP && a.Op != parser.COUNT && !a.Without {
				over = !slices.Contains(a.Grouping, label)
			}
		}
		if over {
			p.report(v.PositionRange(), "there is a series for every "+label+", and all of them are thrown together", advice("select one "+label+", or group by it"))
		}
	})
}

// opaqueGrouping reports whether a variable stands in what an aggregation groups by.
func (p *pass) opaqueGrouping(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		a, ok := n.(*parser.AggregateExpr)
		return ok && p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start)
	})
}

// checkAllModes finds processor time of all modes together, which is as long as time itself.
func checkAllModes(p *pass) {
	p.allParts()
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok || nameOf(v) != "node_cpu_seconds_total" || p.role == variableRole || !under(path, rates...) ||
			selectsBy(v, "mode") {
			return
		}
		whole := false
		for _, n := range path {
			switch n := n.(type) {
			case *parser.AggregateExpr:
				whole = !slices.Contains(n.Grouping, "mode") && !n.Without
			case *parser.BinaryExpr:
				if n.Op == parser.DIV && contains(n.RHS, v) {
					return // all of which a mode is a share
				}
			}
		}
		if whole {
			p.report(v.PositionRange(),
				"without a mode this adds up idle time too: as many seconds per second as there are processors, whatever they do",
				advice(`select mode!="idle", or take 1 - avg(rate(…{mode="idle"}[5m]))`))
		}
	})
}

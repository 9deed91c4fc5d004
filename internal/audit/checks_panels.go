package audit

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/render"
)

// A statistic is a way to make few values of many: what it is called, and the operators and
// reducers that give it.
type statistic struct {
	name  string
	words *regexp.Regexp
	given []string
}

var statistics = []statistic{
	{
		"the highest",
		regexp.MustCompile(
			`\b(fullest|busiest|hottest|slowest|worst|most loaded|longest|highest|largest|maximum|max|peak)\b`,
		),
		[]string{"max", "topk", "quantile"},
	},
	{
		"the lowest",
		regexp.MustCompile(`\b(emptiest|idlest|coolest|lowest|smallest|fastest|minimum)\b`),
		[]string{"min", "bottomk", "quantile"},
	},
	{"the average", regexp.MustCompile(`\b(average|avg|mean)\b`), []string{"avg", "mean", "median", "quantile"}},
	{"the total", regexp.MustCompile(`\b(total|sum|combined)\b`), []string{"sum", "count", "count_values", "group"}},
}

// moments are words for what is at the moment.
var moments = regexp.MustCompile(`\b(current(ly)?|right now|now|at the moment|latest)\b`)

// checkOtherStatistic finds texts that say the highest, the lowest, the average or the total, and
// queries and reducers that give another of them.
func checkOtherStatistic(p *pass) {
	if p.role != panelRole {
		return
	}
	p.peak()
	p.addedUp()
	p.largestOfSeveral()
	ops, of := statisticsOf(p.tree)
	v, bare := of.(*parser.VectorSelector)
	if c, ok := of.(*parser.Call); ok && slices.Contains(rates, c.Func.Name) && len(ops) > 0 {
		v = plainSelector(c)
	}
	text := p.claims()
	if v == nil || len(ops) == 0 || strings.Contains(strings.ToLower(nameOf(v)), "max") {
		return
	}
	calcs, _ := p.panel.calcs()
	has := slices.Concat(ops, calcs)
	said := ""
	for _, s := range statistics {
		if !s.words.MatchString(text) {
			continue
		}
		if said != "" || slices.ContainsFunc(has, func(op string) bool { return slices.Contains(s.given, op) }) {
			return // of several, or of this
		}
		said = s.name
	}
	other := slices.Contains(ops, "avg") || slices.Contains(ops, "min") && said != "the total" ||
		slices.Contains(ops, "max")
	if said == "the average" && bare && ops[0] == "sum" && len(ops) == 1 && ofSeries(nameOf(v)).of == requests {
		other = true
	}
	if said == "the total" &&
		(strings.Contains(strings.ToLower(nameOf(v)), "total") && bare || p.quantityOf(p.tree).of == share) {
		return // as a part of the name
	}
	if said == "" || !other || said == "the average" && !bare {
		return
	}
	p.report(
		p.tree.PositionRange(),
		fmt.Sprintf("beside it stands %s, and the query takes %s", said, strings.Join(ops, " of ")),
		advice("correct the one or the other"),
	)
}

// overTheRange are words for all the time that a dashboard shows.
var overTheRange = regexp.MustCompile(
	`\b(in|over|during|for|within|of|across) (the |this )?(selected|dashboard|chosen|visible|displayed|whole|entire|time)? ?(time )?(range|period)\b|\bselected (time )?(range|window|period)\b`,
)

// highestSaid are words for the highest value of a span of time.
var highestSaid = regexp.MustCompile(`\b(peak|max(imum)?|highest)\b`)

// peak reports a number that is called a peak, or that of some span of time, and is the last value, or
// the present one and is not the last.
func (p *pass) peak() {
	calcs, at := p.panel.calcs()
	if len(calcs) == 0 {
		return
	}
	text, last := p.claims(), slices.Contains(calcs, "lastNotNull") || slices.Contains(calcs, "last")
	ops, _ := statisticsOf(p.tree)
	highest := highestSaid.MatchString(text)
	switch {
	case last && highest && overTheRange.MatchString(text) && !p.looksBack():
		p.reportText(
			at,
			0,
			len(at.value),
			"the panel says the highest value over a span of time, and shows the last one",
			"reduce by max",
		)
	case last && strings.Contains(text, "peak") && !slices.Contains(ops, "max") && !slices.Contains(ops, "topk") && !p.looksBack():
		p.reportText(at, 0, len(at.value), "the panel says peak, and shows the last value", "reduce by max")
	case !last && len(calcs) == 1 && slices.Contains([]string{"mean", "max", "min", "sum"}, calcs[0]) && moments.MatchString(text) &&
		!slices.ContainsFunc(statistics, func(s statistic) bool {
			return slices.Contains(s.given, calcs[0]) && s.words.MatchString(text)
		}):
		p.reportText(
			at,
			0,
			len(at.value),
			"the panel says the present value, and shows the "+calcs[0]+" of all that the dashboard shows",
			"reduce by lastNotNull",
		)
	}
}

// looksBack reports whether some range or subquery of an expression is more than what a rate needs.
func (p *pass) looksBack() bool {
	found := false
	p.walk(func(n parser.Node, _ []parser.Node) {
		c, ok := n.(*parser.Call)
		found = found || ok && strings.HasSuffix(c.Func.Name, "_over_time")
	})
	return found || strings.Contains(p.node.value, "$__range") || strings.Contains(p.node.value, "${__range")
}

// addedUp reports samples that a panel adds up: as many times too many as there are.
func (p *pass) addedUp() {
	calcs, at := p.panel.calcs()
	if !slices.Contains(calcs, "sum") {
		return
	}
	c, ok := unwrapped(unscaled(p.tree)).(*parser.Call)
	if ok && c.Func.Name == "increase" && !strings.Contains(p.text(c), "range") {
		return // one increase behind the other
	}
	if _, fixed := p.ranges(); ok && c.Func.Name == "increase" && (fixed && !strings.Contains(p.text(c), "$__range") ||
		p.panel.target.get("interval").str() != "" || p.panel.node.get("interval").str() != "") {
		return
	}
	if !p.quantityOf(p.tree).known() && !ok {
		return
	}
	p.reportText(
		at,
		0,
		len(at.value),
		"the panel adds up its points: the number grows with how many of them are drawn",
		"take increase over $__range, and the last value",
	)
}

// windowOfRange reports what is said to be of the whole time range and is of a short span, and what is drawn
// over time and is the same at each moment, or nearly.
func (p *pass) windowOfRange() {
	whole := strings.Contains(p.node.value, "$__range") || strings.Contains(p.node.value, "${__range")
	if p.panel.drawnOverTime() {
		p.constantOverTime()
		p.rateOverRange()
		return
	}
	calcs, _ := p.panel.calcs()
	single := p.panel.isInstant() && slices.Contains(oneNumber, p.panel.kind) ||
		len(calcs) == 1 && calcs[0] == "lastNotNull"
	if ranges, _ := p.ranges(); whole || !single || len(ranges) == 0 || !overTheRange.MatchString(p.claims()) ||
		p.panel.node.get("timeFrom").str() != "" {
		return
	}
	p.report(
		p.tree.PositionRange(),
		"the panel says the range that the dashboard shows, and the query looks at a shorter one",
		advice("write [$__range]"),
	)
}

// rateOverRange reports rates drawn over time of which each looks at as long a time as the dashboard shows. Of what is
// rare people count how often it came in all of it.
func (p *pass) rateOverRange() {
	text := p.claims()
	if overTheRange.MatchString(text) || strings.Contains(text, "range") {
		return
	}
	p.walk(func(n parser.Node, path []parser.Node) {
		m, ok := n.(*parser.MatrixSelector)
		smeared := under(path, "rate", "irate") || under(path, "increase") &&
			(moments.MatchString(text) || under(path, "histogram_quantile")) ||
			under(path, "avg_over_time") && !meanNamed.MatchString(text)
		if !ok || !smeared {
			return
		}
		for _, at := range p.mentions {
			if at.start >= int(m.PositionRange().Start) && at.end <= int(m.PositionRange().End) &&
				strings.Contains(p.node.value[at.start:at.end], "__range") {
				p.report(
					m.PositionRange(),
					"each point looks at as long a time as the dashboard shows: the line hardly moves, and changes with the zoom",
					suggestion{"write $__rate_interval", []edit{{p.node, at.start, at.end, "$__rate_interval"}}},
				)
			}
		}
	})
}

// constantOverTime reports expressions of which every selector is evaluated at one moment.
func (p *pass) constantOverTime() {
	all := selectors(p.tree)
	if len(all) > 0 &&
		!slices.ContainsFunc(
			all,
			func(v *parser.VectorSelector) bool { return v.StartOrEnd == 0 && v.Timestamp == nil },
		) {
		p.report(
			p.tree.PositionRange(),
			"@ evaluates every point at the same moment: the panel draws a flat line",
			advice("take @ out"),
		)
	}
}

// addends are series by those that hold them already.
var addends = map[string][]string{
	"vllm:num_requests_waiting": {"vllm:num_requests_waiting_by_reason"},
	"vllm:prompt_tokens_total": {
		"vllm:prompt_tokens_cached_total",
		"vllm:prompt_tokens_by_source_total",
	},
	"vllm:prefix_cache_queries_total":         {"vllm:prefix_cache_hits_total"},
	"vllm:gpu_prefix_cache_queries_total":     {"vllm:gpu_prefix_cache_hits_total"},
	"vllm:generation_tokens_total":            {"vllm:spec_decode_num_accepted_tokens_total"},
	"vllm:spec_decode_num_draft_tokens_total": {"vllm:spec_decode_num_accepted_tokens_total"},
	"DCGM_FI_DEV_FB_TOTAL":                    {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"},
	"node_memory_MemTotal_bytes":              {"node_memory_MemAvailable_bytes", "node_memory_MemFree_bytes"},
}

// checkPartAndWhole finds parts added to the whole that holds them: by an operator or by stacking.
func checkPartAndWhole(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			if n.Op != parser.ADD || len(path) > 0 && isAddition(path[len(path)-1]) || inQuotient(path) {
				return
			}
			if l, r := wholeOf(n.LHS), wholeOf(n.RHS); l != "" && r != "" && l != r {
				p.report(n.PositionRange(), fmt.Sprintf("shares of two wholes, %s and %s, do not add up to a share of anything", l, r),
					advice("divide the sum of the parts by one whole, such as vllm:prompt_tokens_cached_total by vllm:prompt_tokens_total"))
			}
			names := canonicals(n)
			for _, whole := range names {
				for _, part := range addends[whole] {
					if slices.Contains(names, part) {
						p.report(n.PositionRange(), part+" is a part of "+whole+", which holds it already: it is counted twice", advice("leave out the one or the other"))
					}
				}
			}
		}
	})
	if p.role != panelRole || !p.panel.stacked() {
		return
	}
	own := canonicals(p.tree)
	for _, q := range p.mates() {
		if q.tree == nil || q == p.query || len(own) != 1 {
			continue
		}
		if whole := canonicals(q.tree); len(whole) == 1 && slices.Contains(addends[whole[0]], own[0]) {
			p.report(
				p.tree.PositionRange(),
				own[0]+" is a part of "+whole[0]+", on which it is stacked: it is counted twice",
				advice("do not stack them"),
			)
		}
	}
}

// wholeOf returns the series of which an expression is a share; "" where it is none that is known.
func wholeOf(e parser.Expr) string {
	b, ok := unscaled(e).(*parser.BinaryExpr)
	if !ok || b.Op != parser.DIV {
		return ""
	}
	l, r := canonicals(b.LHS), canonicals(b.RHS)
	if len(l) != 1 || len(r) != 1 || wholes[l[0]] != r[0] {
		return ""
	}
	return r[0]
}

// isAddition reports whether a node adds two vectors.
func isAddition(n parser.Node) bool {
	for {
		paren, ok := n.(*parser.ParenExpr)
		if !ok {
			break
		}
		n = paren.Expr
	}
	b, ok := n.(*parser.BinaryExpr)
	return ok && b.Op == parser.ADD
}

// newVariables calls fn with the variables of a dashboard, once for each.
func (p *pass) newVariables(fn func(v variable)) {
	if p.role != panelRole {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.vars)) {
		v := p.vars[name]
		if v.node != nil && (p.before == nil || p.before.role != panelRole || p.before.vars[name].node != v.node) {
			fn(v)
		}
	}
}

// checkAllValue finds what a variable stands for where all are chosen, and which is no regular expression, and variables that
// stand for nothing.
func checkAllValue(p *pass) {
	p.newVariables(func(v variable) {
		if v.kind == "query" && v.silent {
			p.add(Finding{
				Severity: p.check.Severity, Fragment: v.name, Why: "the variable has no query: there is nothing to choose from, whatever its definition says", Fix: "write the definition as its query too",
			}, v.node, 0)
			return
		}
		if _, err := syntax.Parse(v.all.str(), syntax.Perl); err != nil && v.multi {
			p.reportText(
				v.all,
				0,
				len(v.all.value),
				"no regular expression: behind =~ the query fails where all are chosen",
				`write ".*", or leave it out`,
			)
		}
	})
}

// unusedRepeat reports panels that are drawn once for each value of a variable, and that show the same
// in each.
func (p *pass) unusedRepeat() {
	n := p.panel.node.get("repeat")
	if n.str() == "" || p.mates()[0] != p.query {
		return
	}
	used := regexp.MustCompile(`\$\{?` + regexp.QuoteMeta(n.str()) + `\b|\[\[` + regexp.QuoteMeta(n.str()) + `\b`)
	source := func(n *node) string { return n.at("datasource", "uid").str() + n.get("datasource").str() }
	if used.MatchString(source(p.panel.node)) || slices.ContainsFunc(p.mates(), func(q *query) bool {
		return used.MatchString(q.node.value) || used.MatchString(source(q.panel.target))
	}) || len(p.panel.node.get("targets").elements()) != len(p.mates()) {
		return
	}
	p.reportAs(
		catalog.Ticket,
		p.tree.PositionRange(),
		"the panel is drawn once for each $"+n.str()+", and no query asks for it: all of them show the same",
		advice("select by $"+n.str()+" in the query"),
	)
}

// checkLongLookback finds what no longer is shown as if it were: the last sample of a long time ago.
func checkLongLookback(p *pass) {
	c, ok := unwrapped(p.tree).(*parser.Call)
	if p.role != panelRole || !ok || c.Func.Name != "last_over_time" || len(c.Args) != 1 {
		return
	}
	m, ok := c.Args[0].(*parser.MatrixSelector)
	if !ok || m.Range < 15*time.Minute || p.opaque(m.PositionRange().Start, m.PositionRange().End) {
		return
	}
	name, _ := vllm.Canonical(nameOf(plainSelector(m)))
	if slices.Contains(states, name) || moments.MatchString(p.claims()) {
		p.report(
			c.PositionRange(),
			fmt.Sprintf("targets that have gone are found for %s with what they last said", render.Span(m.Range)),
			advice("take the selector alone"),
		)
	}
}

// ofObjects are kube-state-metrics' series of how many replicas something has, by what it is.
var ofObjects = regexp.MustCompile(
	`^kube_(deployment|statefulset|daemonset|replicaset|horizontalpodautoscaler)_(spec|status)_\w*replicas\w*$`,
)

// largestOfSeveral reports the replicas of the largest of several objects shown as those of all.
func (p *pass) largestOfSeveral() {
	a, ok := unwrappedOnce(p.tree).(*parser.AggregateExpr)
	if !ok || a.Without || a.Op != parser.MAX && a.Op != parser.MIN && a.Op != parser.AVG {
		return
	}
	v := plainSelector(a.Expr)
	m := ofObjects.FindStringSubmatch(nameOfOrNone(v))
	if m == nil || slices.Contains(a.Grouping, m[1]) || slices.ContainsFunc(statistics, func(s statistic) bool {
		return slices.Contains(s.given, a.Op.String()) && s.words.MatchString(p.claims())
	}) {
		return
	}
	for _, matcher := range v.LabelMatchers {
		if matcher.Name == m[1] && !p.fixes(matcher) && strings.Contains(matcher.Value, "$") {
			p.report(
				a.PositionRange(),
				fmt.Sprintf(
					"of several %ss this shows the %s one alone",
					m[1],
					map[parser.ItemType]string{parser.MAX: "largest", parser.MIN: "smallest", parser.AVG: "average"}[a.Op],
				),
				suggestion{
					"write sum, or group by " + m[1],
					[]edit{{p.node, int(a.PosRange.Start), int(a.PosRange.Start) + len(a.Op.String()), "sum"}},
				},
			)
		}
	}
}

func unwrappedOnce(e parser.Expr) parser.Expr { return value(unscaled(e)) }

// zeroBeside reports a zero that stands beside every value of a panel.
func (p *pass) zeroBeside() {
	or, ok := scaledVector(p.tree).(*parser.BinaryExpr)
	if !ok || or.Op != parser.LOR || !isCall(unparen(or.RHS), "vector") || or.VectorMatching.On {
		return
	}
	if c := unparen(or.RHS).(*parser.Call); p.isEmptySet(or.LHS) || len(selectors(c)) > 0 {
		return
	}
	p.reportAs(
		catalog.Ticket,
		or.RHS.PositionRange(),
		"the zero has no labels, and the series beside it have: it is always there too, as a line or a number of its own",
		advice("aggregate the left side to one series, or set the panel's noValue"),
	)
}

// scaledVector strips parentheses and the numbers that a vector is multiplied with or divided by.
func scaledVector(e parser.Expr) parser.Expr {
	for {
		e = unparen(e)
		b, ok := e.(*parser.BinaryExpr)
		if !ok || b.VectorMatching != nil || b.Op != parser.MUL && b.Op != parser.DIV {
			return e
		}
		if e = b.LHS; e.Type() != parser.ValueTypeVector {
			e = b.RHS
		}
	}
}

// isEmptySet reports whether a vector's series have no labels, as far as is known.
func (p *pass) isEmptySet(e parser.Expr) bool {
	switch n := value(e).(type) {
	case *parser.AggregateExpr:
		return p.labelsOf(n).exact && len(p.labelsOf(n).names) == 0 || !p.labelsOf(n).known
	case *parser.Call:
		if n.Func.Name == "histogram_quantile" {
			has := p.labelsOf(n.Args[1]).without(labels.BucketLabel)
			_, aggregated := value(n.Args[1]).(*parser.AggregateExpr)
			return aggregated && (!has.known || len(has.names) == 0)
		}
		if v := plainSelector(n); v != nil && (slices.Contains(rates, n.Func.Name) || strings.HasSuffix(n.Func.Name, "_over_time")) {
			return p.isEmptySet(v)
		}
		return true
	case *parser.BinaryExpr:
		if _, ok := constant(n.RHS); ok || n.VectorMatching != nil && !n.VectorMatching.On {
			return p.isEmptySet(n.LHS)
		}
		return true
	case *parser.VectorSelector:
		name := nameOf(n)
		return name == "" || p.records[name] != nil || looksRecorded(name) || strings.Contains(name, ":") && !ours(name)
	}
	return true
}

// description is what a panel says of itself at length, in lower case.
func (c *panelContext) description() string {
	return strings.ToLower(c.node.get("description").str() + c.long)
}

var totalSaid = regexp.MustCompile(`\btotal\b`)

// totalOfWindow reports a total that is of a span of time which nothing names.
func (p *pass) totalOfWindow() {
	c, ok := unwrapped(unscaled(p.tree)).(*parser.Call)
	if !ok || c.Func.Name != "increase" || !slices.Contains(oneNumber, p.panel.kind) ||
		!totalSaid.MatchString(p.claims()) {
		return
	}
	ranges, unknown := p.ranges()
	if unknown || len(ranges) != 1 || spanWords.MatchString(p.claims()) || overTheRange.MatchString(p.claims()) {
		return
	}
	p.reportAs(
		catalog.Info,
		c.PosRange,
		"the panel says total, and the query looks at "+render.Span(ranges[0])+" alone",
		advice("name the span, or write [$__range]"),
	)
}

// spanWords is a span of time in a text.
var spanWords = regexp.MustCompile(
	`\b\d+\s*(s|m|min|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\b|\b(today|daily|hourly|weekly|hour|day|week|month|recent|window)\b`,
)

// guardOfNothing reports a number behind the "or" of a divisor, which is there only where the divisor is not: it keeps no
// division by zero away.
func (p *pass) guardOfNothing(b *parser.BinaryExpr) {
	or, ok := unparen(b.RHS).(*parser.BinaryExpr)
	if !ok || b.Op != parser.DIV || or.Op != parser.LOR || !isCall(unparen(or.RHS), "vector") {
		return
	}
	if v, ok := constant(unparen(or.RHS).(*parser.Call).Args[0]); ok && v != 0 {
		p.reportAs(
			catalog.Info,
			or.PositionRange(),
			"the number stands in where there is no divisor, and not where it is 0: it keeps no division by zero away",
			advice("write (… > 0), or clamp_min with a small number"),
		)
	}
}

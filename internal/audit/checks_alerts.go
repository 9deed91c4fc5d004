package audit

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

func checkNoComparison(p *pass) {
	p.decidedByQuery()
	if p.role != alertRole {
		return
	}
	decides := len(selectors(p.tree)) == 0 // vector(1) is to fire always: a dead man's switch
	p.walk(func(n parser.Node, path []parser.Node) {
		if v, ok := n.(*parser.VectorSelector); ok {
			class, f := classOf(nameOf(v))
			_, field := dcgm.FieldOf(nameOf(v))
			always := field || isState(nameOf(v)) || ours(nameOf(v)) || class != unknownClass && isExporters(f) || f.Engine != "" || under(path, rates...)
			if r := p.records[nameOf(v)]; r != nil || !always && class == unknownClass {
				decides = true // it may hold the comparison
			}
		}
		switch n := n.(type) {
		case *parser.BinaryExpr:
			decides = decides || n.Op.IsComparisonOperator() && !n.ReturnBool || n.Op == parser.LUNLESS
		case *parser.Call:
			decides = decides || n.Func.Name == "absent" || n.Func.Name == "absent_over_time"
		}
	})
	if !decides {
		p.report(p.tree.PositionRange(),
			"an alert fires for every series that its expression returns, also for one of value 0: this one always does", advice("compare it with a threshold, such as > 10"))
	}
}

func checkNoFor(p *pass) {
	if p.role != alertRole || p.hold != "" && p.hold != "0" && p.hold != "0s" && p.hold != "0m" ||
		p.rule.get("data") != nil {
		return
	}
	longest := time.Duration(0)
	windows := 0
	relevant := false
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			longest = max(longest, n.Range)
			windows++
		case *parser.VectorSelector:
			relevant = relevant || ours(nameOf(n)) || known(nameOf(n))
		}
	})
	if !relevant || longest >= 10*time.Minute || windows >= 4 { // long windows hold by themselves, as burn rates do
		return
	}
	if c, ok := p.decisive(); ok && c.above() && c.limit == 0 && (isCall(unwrapped(c.expr), "changes", "resets") ||
		isCall(unwrapped(c.expr), "increase") && onceIsEnough.MatchString(strings.Join(namesIn(c.expr), " "))) {
		return
	}
	p.report(p.tree.PositionRange(),
		"without for, one evaluation is enough: a burst or a single slow scrape pages somebody",
		advice("add for: 5m, or what you can wait"))
}

// onceIsEnough are names of what is counted when something has failed for good.
var onceIsEnough = regexp.MustCompile(`oom|restart|crash|panic|xid|fatal|_dead`)

// labelsNamed are the labels that an annotation's template asks for, and those that a
// panel's legend does.
var (
	labelsNamed   = regexp.MustCompile(`(?:\$labels|\.Labels)\.([a-zA-Z_]\w*)|index \$labels "([a-zA-Z_]\w*)"`)
	labelsLegends = regexp.MustCompile(`\{\{\s*([a-zA-Z_]\w*)\s*\}\}`)
)

// ruleFields are those of a rule, and the two more of VictoriaMetrics.
var ruleFields = []string{"record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations", "debug", "update_entries_limit"}

// checkRefused finds what makes Prometheus refuse a file of rules, and all that stand in it.
func checkRefused(p *pass) {
	if p.role != alertRole && p.role != recordRole || p.managed != nil {
		return
	}
	r := rulefmt.Rule{
		Record: p.rule.get("record").str(), Alert: p.rule.get("alert").str(), Expr: "vector(1)",
		Labels: map[string]string{}, Annotations: map[string]string{},
	}
	for _, f := range p.rule.all() {
		if !slices.Contains(ruleFields, f.key) && !strings.HasPrefix(f.key, "x-") {
			p.report(p.tree.PositionRange(), "rules have no field "+f.key+": Prometheus refuses the whole file", advice("take it out, or make it an annotation"))
		}
	}
	for part, into := range map[string]map[string]string{"labels": r.Labels, "annotations": r.Annotations} {
		for _, f := range p.rule.get(part).all() {
			into[f.key] = f.value.scalar()
		}
	}
	if p.hold != "" {
		r.For, _ = model.ParseDuration(p.hold)
	}
	var wrong []string
	for _, err := range r.Validate(rulefmt.RuleNode{}, model.UTF8Validation, parser.NewParser(parser.Options{})) {
		wrong = append(wrong, strings.ReplaceAll(err.Unwrap().Error(), "template: __alert_"+r.Alert+":", "line "))
	}
	slices.Sort(wrong)
	for _, why := range wrong {
		p.report(p.tree.PositionRange(), why+": Prometheus refuses the whole file", advice("correct it: promtool check rules reads it as Prometheus does"))
	}
}

// halfTemplates are what was meant as a template.
var halfTemplates = regexp.MustCompile(`(?:^|[^{])(\{\s*\$(?:labels\.\w+|value)[^{}]*\})(?:[^}]|$)`)

// halfTemplate reports texts with one brace where a template has two.
func (p *pass) halfTemplate() {
	for _, f := range p.rule.get("annotations").all() {
		if at := halfTemplates.FindStringSubmatchIndex(f.value.str()); at != nil {
			p.reportText(f.value, at[2], at[3], "with one brace it is no template: whoever is woken reads it as it stands here", "write it with two, as {{ $value }}")
			return
		}
	}
}

// checkLostLabel finds annotations and legends that name a label which the expression
// has aggregated away: they are empty where the name should stand.
func checkLostLabel(p *pass) {
	if p.role == alertRole {
		p.halfTemplate()
	}
	if p.role == panelRole {
		p.valueInLegend()
	}
	has := p.labelsOfAny(p.tree)
	if !has.known || !has.exact {
		return
	}
	kept := "no labels"
	if len(has.names) > 0 {
		kept = "only " + strings.Join(has.names, ", ")
	}
	if p.role == panelRole {
		if lost := lostIn(p.panel.legend, labelsLegends, has); len(lost) > 0 {
			p.reportAs(catalog.Info, p.tree.PositionRange(),
				fmt.Sprintf("the legend names %s, and the series have %s: it is empty there", strings.Join(lost, ", "),
					kept), advice("group by it too, or take it out of the legend"))
		}
		return
	}
	if p.role != alertRole {
		return
	}
	for _, part := range []string{"annotations", "labels"} {
		for _, f := range p.rule.get(part).all() {
			if lost := lostIn(f.value.str(), labelsNamed, has); len(lost) > 0 {
				at := labelsNamed.FindStringIndex(f.value.str())
				p.reportText(f.value, at[0], at[1],
					fmt.Sprintf("%s names %s, and the alert has %s: whoever is woken reads nothing there", f.key,
						strings.Join(lost, ", "), kept), "group the expression by it too, or take it out of the text")
				return
			}
		}
	}
}

// labelsOfAny returns the labels that the series of an expression may have: with "or",
// those of either side.
func (p *pass) labelsOfAny(e parser.Expr) labelSet {
	b, ok := unparen(e).(*parser.BinaryExpr)
	if !ok || b.Op != parser.LOR {
		return p.labelsOf(e)
	}
	l, r := p.labelsOfAny(b.LHS), p.labelsOfAny(b.RHS)
	names := slices.Concat(l.names, r.names)
	slices.Sort(names)
	return labelSet{known: l.known && r.known, exact: l.exact && r.exact, names: slices.Compact(names)}
}

// lostIn returns the labels that a text names and a vector lacks.
func lostIn(text string, named *regexp.Regexp, has labelSet) []string {
	var out []string
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		label := strings.Join(m[1:], "")
		if !slices.Contains(has.names, label) && !slices.Contains(out, label) && label != labels.MetricName {
			out = append(out, label)
		}
	}
	return out
}

// checkCountIsZero finds counts of series compared with zero: of nothing there is no
// count, so that the comparison never holds.
func checkCountIsZero(p *pass) {
	p.countOfNone()
	p.comparisons(func(c comparison) {
		if a, ok := unparen(c.expr).(*parser.AggregateExpr); ok && p.role == alertRole && a.Op == parser.COUNT && c.limit > 1 &&
			(c.op == parser.LSS || c.op == parser.LTE) && !p.absent {
			if f, ok := unparen(a.Expr).(*parser.BinaryExpr); ok && isFilter(f) {
				p.reportAs(catalog.Ticket, c.at, "where none is left there is nothing to count, and no result: this is silent when all are down",
					advice("add up what is 0 or 1: sum("+oneLine(p.text(f.LHS))+"), or add: or vector(0)"))
				return
			}
		}
		never := c.limit == 0 && (c.op == parser.EQLC || c.op == parser.LTE) || c.limit > 0 && c.limit <= 1 &&
			c.op == parser.LSS || c.limit > 0 && c.limit < 1 && c.op == parser.LTE
		if !never {
			return
		}
		switch n := unparen(c.expr).(type) {
		case *parser.AggregateExpr:
			if n.Op != parser.COUNT || slices.ContainsFunc(alternatives(n.Expr),
				func(*parser.BinaryExpr) bool { return true }) {
				return
			}
		case *parser.Call:
			if n.Func.Name != "count_over_time" {
				return
			}
		default:
			return
		}
		p.report(c.at, "where there is nothing to count there is no result, not 0: this never holds",
			advice("write absent(…), or (… or vector(0)) before the comparison"))
	})
}

// countOfNone reports counts of those for which a comparison holds, shown or recorded: where it holds for none there is no
// 0, but nothing, or what was there before.
func (p *pass) countOfNone() {
	switch {
	case p.role == panelRole && (!slices.Contains(oneNumber, p.panel.kind) || p.panel.defaults.get("noValue").str() != ""):
		return
	case p.role != panelRole && p.role != recordRole:
		return
	}
	p.walk(func(n parser.Node, path []parser.Node) {
		a, ok := n.(*parser.AggregateExpr)
		if !ok || a.Op != parser.COUNT || slices.ContainsFunc(path, notCalculated) {
			return
		}
		f, ok := unparen(a.Expr).(*parser.BinaryExpr)
		if !ok || !isFilter(f) {
			return
		}
		v, _ := unparen(f.LHS).(*parser.VectorSelector)
		limit, _, number := number(f.RHS)
		if !number || v == nil {
			return
		}
		shows := "the panel shows nothing, or what it was before"
		if p.role == recordRole {
			shows = "nothing is recorded"
		}
		if slices.Contains(states, nameOf(v)) && (limit == 1 && (f.Op == parser.EQLC || f.Op == parser.GTE) || limit == 0 && (f.Op == parser.NEQ || f.Op == parser.GTR)) {
			p.reportAs(catalog.Ticket, a.PositionRange(), "where none is left there is nothing to count, and no 0: "+shows,
				advice("add up what is 0 or 1: sum("+oneLine(p.text(f.LHS))+"), or add: or vector(0)"))
		} else if len(a.Grouping) == 0 && !a.Without {
			p.reportAs(catalog.Info, a.PositionRange(), "where it holds for none there is nothing to count, and no 0: "+shows,
				advice("write bool behind the comparison and sum for count, or add: or vector(0)"))
		}
	})
}

// notCalculated reports whether a node does something else with values than to calculate.
func notCalculated(n parser.Node) bool {
	switch n := n.(type) {
	case *parser.ParenExpr:
		return false
	case *parser.BinaryExpr:
		return n.Op.IsSetOperator() || n.Op.IsComparisonOperator()
	}
	return true
}

// asksForAbsence reports whether an expression has a result where nothing is there, or where a target is down.
func asksForAbsence(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			found = found || strings.HasPrefix(n.Func.Name, "absent")
		case *parser.BinaryExpr:
			v, _ := unparen(n.LHS).(*parser.VectorSelector)
			zero, _, ok := number(n.RHS)
			found = found || ok && zero == 0 && n.Op == parser.EQLC && nameOfOrNone(v) == "up"
		}
		return nil
	})
	return found
}

// states are gauges of 0 and 1 for which people count series. Of those of kube-state-metrics
// there is one series for each phase or condition, whatever holds.
var (
	states    = []string{"up", "probe_success", "vllm:healthy_pods_total", "vllm:engine_sleep_state"}
	oneOfMany = regexp.MustCompile(`^kube_\w+_status_(phase|condition|ready|scheduled|reason)$|^kube_pod_container_status_(ready|running|waiting|terminated)$`)
)

// checkCountOfStates finds series counted, whatever they say, where those are meant that
// say 1: a target that is down has a series too.
func checkCountOfStates(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		a, ok := n.(*parser.AggregateExpr)
		if !ok || a.Op != parser.COUNT {
			return
		}
		counted := unparen(a.Expr)
		if b, ok := counted.(*parser.BinaryExpr); ok && b.Op == parser.MUL && b.VectorMatching != nil {
			counted = unparen(b.LHS) // times what each asks for
		}
		v, ok := counted.(*parser.VectorSelector)
		name, _ := vllm.Canonical(nameOfOrNone(v))
		meant := slices.Contains(states, name) && p.says("healthy", "available", "alive", "running", "ready", " up", "active")
		if ok && (meant || oneOfMany.MatchString(name) && len(v.LabelMatchers) > 1) {
			at := a.PositionRange()
			why := "count counts the series of those that are down too"
			if !meant {
				why = "every object has a series for each of its phases and conditions, of value 0 where it does not hold: count counts them all"
			}
			p.report(at, why, suggestion{"write sum", []edit{{p.node, int(at.Start), int(at.Start) + len("count"), "sum"}}})
		}
	})
}

// checkStatesAsFilter finds states that filter by their mere presence: the series of a pod
// that does not run, or of a target that is down, is there as well.
func checkStatesAsFilter(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LAND && b.Op != parser.LUNLESS {
			return
		}
		v, ok := unparen(b.RHS).(*parser.VectorSelector)
		if name := nameOfOrNone(v); ok && (oneOfMany.MatchString(name) || name == "up" || name == "probe_success") {
			at := v.PositionRange()
			p.report(at, name+" has a series of value 0 where it does not hold: \""+b.Op.String()+"\" looks at its presence alone, and this filters nothing that is meant",
				suggestion{"write " + p.text(v) + " == 1", []edit{{p.node, int(at.End), int(at.End), " == 1"}}})
		}
	})
}

// isState reports whether a series is there with value 0 where what it says does not hold.
func isState(name string) bool {
	canonical, _ := vllm.Canonical(name)
	return slices.Contains(states, canonical) || oneOfMany.MatchString(name)
}

func nameOfOrNone(v *parser.VectorSelector) string {
	if v == nil {
		return ""
	}
	return nameOf(v)
}

// alternatives returns the "or" operators under a node.
func alternatives(n parser.Node) []*parser.BinaryExpr {
	var out []*parser.BinaryExpr
	parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
		if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.LOR {
			out = append(out, b)
		}
		return nil
	})
	return out
}

// work are counters of what is done, which stand still where nobody asks.
var work = []string{
	"vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:request_success_total",
	"vllm:iteration_tokens_total_sum", "vllm:avg_generation_throughput_toks_per_s",
	"vllm:avg_prompt_throughput_toks_per_s",
}

// checkFiresWhenIdle finds alerts on low throughput that nothing limits to times with
// requests.
func checkFiresWhenIdle(p *pass) {
	if p.role != alertRole {
		return
	}
	tree, ok := unparen(p.tree).(*parser.BinaryExpr)
	if !ok {
		return
	}
	p.belowItsPast(tree)
	p.nothingDiffers()
	p.comparisons(func(c comparison) {
		if c.at != tree.PositionRange() || c.op != parser.LSS && c.op != parser.LTE || c.limit <= 0 ||
			slices.ContainsFunc(conditions(c.expr, parser.LAND), comparison.above) { // 0 < … < 100
			return
		}
		all := selectors(c.expr)
		if len(all) == 1 {
			if r := p.records[nameOf(all[0])]; r != nil && r.tree != nil {
				all = selectors(r.tree)
			}
		}
		if len(all) != 1 {
			return
		}
		name, _ := vllm.Canonical(nameOf(all[0]))
		if slices.Contains(work, name) {
			p.report(c.at, "nothing is done where nobody asks: this fires at night, and on every idle server",
				advice("add: and on (instance) vllm:num_requests_running > 0, grouped as the left side is"))
		}
	})
}

// nothingDiffers reports quotients of rates that are compared by "!=": where nothing comes they are 0/0,
// which differs from every number.
func (p *pass) nothingDiffers() {
	p.comparisons(func(c comparison) {
		if c.op != parser.NEQ || len(alternatives(c.expr)) > 0 {
			return
		}
		parser.Inspect(c.expr, func(n parser.Node, _ []parser.Node) error {
			if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.DIV && rateIn(b.LHS) != nil && rateIn(b.RHS) != nil {
				p.report(c.at, "where nobody asks the quotient is 0/0, NaN, which differs from every number: this fires on what is idle", advice("write < or >"))
			}
			return nil
		})
	})
}

// belowItsPast reports throughput that is compared with its own of before or of longer, and
// nothing that says requests are there: whenever fewer come, it is less.
func (p *pass) belowItsPast(tree *parser.BinaryExpr) {
	op, now, past := tree.Op, tree.LHS, tree.RHS
	if op == parser.GTR || op == parser.GTE {
		op, now, past = mirrored[op], past, now
	}
	l, r := selectors(now), selectors(past)
	if op != parser.LSS && op != parser.LTE || len(l) != 1 || len(r) != 1 || nameOf(l[0]) != nameOf(r[0]) ||
		!countsTokens(nameOf(l[0])) || reach(now) >= reach(past) || p.says("traffic", "demand", "流量") {
		return
	}
	if name, _ := vllm.Canonical(nameOf(l[0])); slices.Contains(work, name) {
		p.report(tree.PositionRange(), "fewer tokens are made whenever less is asked: this fires each time that a busy hour ends",
			advice("add: and on (instance) vllm:num_requests_waiting > 0, grouped as the left side is"))
	}
}

// reach is how far back an expression looks: by its longest range and offset.
func reach(e parser.Expr) (back time.Duration) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			back += n.OriginalOffset
		case *parser.MatrixSelector:
			back += n.Range
		}
		return nil
	})
	return back
}

// ofTotals reports whether an autoscaler takes the query's value for a total over its
// replicas: KEDA's metricType is AverageValue where nothing else is said, and the replicas
// wanted are the value divided by the threshold.
func (p *pass) ofTotals() bool {
	t := p.scaler.get("metricType").str()
	return p.role == scalerRole && (t == "" || t == "AverageValue")
}

// checkScalerAverage finds autoscalers that are given what each replica has, or a
// percentile, where they take the value for a total: however many replicas there are,
// the same number of them is wanted.
func checkScalerAverage(p *pass) {
	if !p.ofTotals() {
		return
	}
	what := ""
	switch n := unscaled(p.tree).(type) {
	case *parser.AggregateExpr:
		if n.Op == parser.AVG || n.Op == parser.MAX || n.Op == parser.MIN || n.Op == parser.QUANTILE {
			what = n.Op.String()
		}
		if _, ok := quantileIn(n.Expr); ok {
			what = "a percentile"
		}
	case *parser.Call:
		if _, ok := quantileIn(n); ok {
			what = "a percentile"
		}
	case *parser.BinaryExpr:
		by := n.RHS
		if c, ok := unparen(by).(*parser.Call); ok && c.Func.Name == "scalar" {
			by = c.Args[0]
		}
		over, ok := value(by).(*parser.AggregateExpr)
		if ok && n.Op == parser.DIV && (over.Op == parser.SUM || over.Op == parser.COUNT) && len(selectors(n.LHS)) > 0 {
			what = "a quotient of totals"
		}
	}
	if what == "" {
		return
	}
	p.report(p.tree.PositionRange(), "KEDA divides the value by the threshold for the number of replicas (metricType AverageValue, the default): "+
		what+" does not grow with them, and the same number is wanted whatever each of them has",
		advice("write metricType: Value, or scale by a sum"))
}

// checkIdlePart finds alerts on no traffic over a counter that is split into parts: a part
// that never occurs, as no server's requests that end in an error, stands still for ever.
func checkIdlePart(p *pass) {
	if p.role != alertRole {
		return
	}
	p.comparisons(func(c comparison) {
		none := c.limit == 0 && (c.op == parser.EQLC || c.op == parser.LTE) || c.limit > 0 && (c.op == parser.LSS || c.op == parser.LTE)
		call, ok := value(c.expr).(*parser.Call)
		if !none || !ok || !slices.Contains(rates, call.Func.Name) {
			return
		}
		v := plainSelector(call)
		if v == nil {
			return
		}
		for _, part := range p.partsOf(nameOf(v)) {
			if selectsBy(v, part) {
				continue
			}
			p.report(c.at, fmt.Sprintf("%s is counted by %s, and each part is compared by itself: one that does not occur stands still, and this fires while all is well", nameOf(v), part),
				advice("write sum around it"))
			return
		}
	})
}

// startsWith reports whether a pattern matches at the start of a text.
func startsWith(re *regexp.Regexp, text string) bool {
	at := re.FindStringIndex(text)
	return at != nil && at[0] == 0
}

// oneOfWhich are the labels that tell apart the series of which one holds.
var oneOfWhich = map[string]string{
	"kube_pod_status_ready": "condition", "kube_pod_status_scheduled": "condition", "kube_pod_status_phase": "phase",
	"kube_node_status_condition": "status", "kube_deployment_status_condition": "status",
	"vllm:engine_sleep_state": "sleep_state",
}

// checkOneOfMany finds states compared with 0 or 1 whatever the condition: of the series of each object
// one is 1 and all others are 0.
func checkOneOfMany(p *pass) {
	p.comparisons(func(c comparison) {
		v, ok := value(c.expr).(*parser.VectorSelector)
		zero := c.limit == 0 && (c.op == parser.EQLC || c.op == parser.LTE) || c.limit == 1 && (c.op == parser.LSS || c.op == parser.NEQ)
		one := c.limit == 1 && (c.op == parser.EQLC || c.op == parser.GTE) || c.limit >= 0 && c.limit < 1 && c.op == parser.GTR
		by := statedBy(v)
		if !ok || by == "" || !zero && !one || p.role != alertRole {
			return
		}
		such := map[string]string{"sleep_state": "awake", "phase": "Failed"}[by]
		p.report(c.at, fmt.Sprintf("every object has a series for each %s, of which one is 1 and all others are 0: this always fires", by),
			advice(fmt.Sprintf("select one, such as %s=%q", by, otherwise(such, "true"))))
	})
}

// partsOf returns the labels by which a counter is split within one server: those that are
// known, and of another program's those by which some query selects.
func (p *pass) partsOf(name string) []string {
	_, f := classOf(name)
	var out []string
	for _, part := range partLabels {
		if slices.Contains(f.Labels, part) || f.Engine == "" && p.beside.parts[name][part] {
			out = append(out, part)
		}
	}
	return out
}

// A threshold in a text: what is said to be above or below it, and its unit.
var (
	thresholdNamed = regexp.MustCompile(`(?i)(>=?|<=?|above|over|exceed(?:s|ed|ing)?|greater than|higher than|more than|below|under|less than|fewer than|lower than|超过|低于|大于|小于)\s*(?:threshold\s*\(?\s*)?(\d+(?:\.\d+)?)\s*([A-Za-z%°]*)`)
	durations      = regexp.MustCompile(`(?i)^(m|min|mins|minutes?|h|hrs?|hours?|d|days?)$`)
)

// checkOtherThreshold finds texts that name another threshold than the expression's.
func checkOtherThreshold(p *pass) {
	if p.role != alertRole {
		return
	}
	var limits []float64
	scales := []float64{1, 100, 1000, 1e6, 1e9, 60, 3600, 86400, 1024, 1 << 20, 1 << 30}
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.NumberLiteral:
			limits = append(limits, math.Abs(n.Val))
		case *parser.MatrixSelector: // "more than 3 in 15 minutes" of a rate
			scales = append(scales, n.Range.Seconds())
		}
	})
	if compared := 0; len(limits) > 0 {
		p.comparisons(func(c comparison) {
			if state := c.op == parser.EQLC && c.at != p.tree.PositionRange(); c.limit != 0 && !state {
				compared++
			}
		})
		if compared != 1 {
			return
		}
	}
	decides, single := p.decisive()
	matches := func(said float64, unit string) bool {
		if call, ok := unwrapped(decides.expr).(*parser.Call); single && ok && slices.Contains([]string{"increase", "changes", "resets"}, call.Func.Name) &&
			unit != "%" && strings.ToLower(unit) != "k" && !strings.HasPrefix(unit, "M") && saidUnits[unit].of == "" && unscaledFully(decides.expr) {
			return near(said, decides.limit) || decides.op == parser.GTE && near(said, decides.limit-1) || decides.op == parser.GTR && near(said, decides.limit+1)
		}
		if is := p.quantityOf(decides.expr); single && is.known() {
			if exact, told := sameAmount(said, unit, decides.limit, is); told {
				scale := saidScale(unit, is)
				if is.of == cores && unit == "%" {
					scale = 0.01
				}
				return exact || (is.of == share || is.of == cores) && near(said*scale, 1-decides.limit*is.scale)
			}
		}
		for _, l := range limits {
			for _, by := range scales {
				const near = 0.01 // 1 a minute is written as 0.0167 a second
				if math.Abs(said-l*by) <= near*said || math.Abs(said*by-l) <= near*l || math.Abs(said-(100-l*by)) <= near*said ||
					by == 100 && math.Abs(said-math.Abs(l-1)*by) <= near*said { // 10 % more is a factor of 1.1
					return true
				}
			}
		}
		return false
	}
	for _, f := range p.rule.get("annotations").all() {
		if strings.Contains(f.key, "url") || f.key == "runbook" {
			continue
		}
		text := f.value.str()
		found := thresholdNamed.FindAllStringSubmatchIndex(text, -1)
		var wrong []int
		for i, m := range found {
			said, err := strconv.ParseFloat(text[m[4]:m[5]], 64)
			before := strings.ToLower(strings.TrimSpace(text[:m[0]]))
			switch {
			case err != nil, startsWith(growthNamed, text[m[4]:]), durations.MatchString(text[m[6]:m[7]]), strings.HasSuffix(before, "for"), strings.HasSuffix(before, "持续"):
			case matches(said, text[m[6]:m[7]]):
				if single {
					p.otherDirectionSaid(f.value, m, said, decides, found)
				}
				return
			case said != 0:
				wrong = append(wrong, i)
			}
		}
		if len(wrong) == 1 { // several explain what which value means
			m := found[wrong[0]]
			p.reportText(f.value, m[0], m[1], "the text names another threshold than the expression compares with", "correct the one or the other")
			return
		}
	}
}

// saidUnits are units as texts write them behind a number.
var saidUnits = map[string]quantity{
	"%": percent, "s": seconds, "sec": seconds, "seconds": seconds, "second": seconds, "ms": milliseconds, "milliseconds": milliseconds,
	"°C": {temperature, 1}, "°c": {temperature, 1}, "C": {temperature, 1}, "W": {power, 1}, "watts": {power, 1}, "watt": {power, 1},
	"kW": {power, 1000}, "GB": {size, 1 << 30}, "GiB": {size, 1 << 30}, "MB": {size, mebi}, "MiB": {size, mebi},
}

// unscaledFully reports whether a value is not multiplied with a number.
func unscaledFully(e parser.Expr) bool { return unscaled(e) == value(e) }

func near(a, b float64) bool {
	const part = 0.01
	return math.Abs(a-b) <= part*math.Max(math.Abs(a), math.Abs(b))
}

// saidScale is how much of a quantity's first unit a number in a text stands for.
func saidScale(unit string, is quantity) float64 {
	if u, ok := saidUnits[unit]; ok && u.of == is.of {
		return u.scale
	}
	return is.scale
}

// sameAmount reports whether a text names the amount that an expression is compared with; told is
// false where its unit does not say.
func sameAmount(said float64, unit string, limit float64, is quantity) (same, told bool) {
	u, ok := saidUnits[unit]
	switch {
	case is == ratio && limit > 1: // impossible-threshold
		return false, false
	case ok && u.of == is.of && is.of == size:
		return quantity{size, said * u.scale}.is(quantity{size, limit * is.scale}), true
	case ok && u.of == is.of, is.of == cores && ok && u.of == share:
		return near(said*u.scale, limit*is.scale), true
	case ok || unit == "k" || unit == "K" || unit == "M" || durations.MatchString(unit):
		return false, false
	case is.of == requests || is.of == temperature || is.of == power:
		return near(said, limit), true
	}
	return false, false
}

// Words for the two directions of a comparison.
var (
	upwards   = regexp.MustCompile(`(?i)^(>|above|over|exceed|greater|higher|more|超过|大于)`)
	downwards = regexp.MustCompile(`(?i)^(<|below|under|less|fewer|lower|低于|小于)`)
)

// otherDirectionSaid reports a text that says "below" of an alert that fires above, or the reverse.
func (p *pass) otherDirectionSaid(n *node, m []int, said float64, c comparison, all [][]int) {
	text := n.value
	if saysAim.MatchString(text) {
		return // how it should be
	}
	for _, o := range all {
		if upwards.MatchString(text[o[0]:]) != upwards.MatchString(text[m[0]:]) {
			return // when it fires, and when it ends
		}
	}
	above := c.op == parser.GTR || c.op == parser.GTE
	below := c.op == parser.LSS || c.op == parser.LTE
	is := p.quantityOf(c.expr)
	if is.of == share && (near(c.limit*is.scale, 0.5) || !near(said*saidScale(text[m[6]:m[7]], is), c.limit*is.scale)) {
		return // of what is left
	}
	if !slices.ContainsFunc([]float64{1, 100, 1000, 1e6, 1e9, 60, 3600}, func(by float64) bool { return near(said, c.limit*by) || near(said*by, c.limit) }) {
		return // of what is left, in another unit
	}
	if upwards.MatchString(text[m[0]:]) && below || downwards.MatchString(text[m[0]:]) && above {
		p.reportText(n, m[0], m[1], "the text says the other direction than the expression compares in", "correct the one or the other")
	}
}

// checkScaleFromZero finds autoscalers that go down to no replica and look only at what the
// replicas themselves expose: where there is none, nothing says that requests wait.
func checkScaleFromZero(p *pass) {
	if p.role != scalerRole || p.object.at("spec", "idleReplicaCount") == nil && cmp.Or(p.object.at("spec", "minReplicaCount").scalar(), "0") != "0" {
		return
	}
	for _, t := range p.object.at("spec", "triggers").elements() {
		if t.get("type").str() != "prometheus" {
			return
		}
	}
	for _, q := range p.beside.scalers[p.object] {
		if q.tree == nil || len(selectors(q.tree)) == 0 ||
			slices.ContainsFunc(selectors(q.tree), func(v *parser.VectorSelector) bool {
				_, f := classOf(nameOf(v))
				return f.Engine == "" && !(strings.HasPrefix(nameOf(v), "DCGM_FI_") && hasMatcher(v, "pod", "exported_pod"))
			}) {
			return
		}
	}
	p.report(p.tree.PositionRange(), "with no replica left nothing exposes "+strings.Join(namesIn(p.tree), ", ")+": this never scales up from 0",
		advice("write minReplicaCount: 1, or add a trigger on what waits at the gateway"))
}

// namesIn returns the names that are selected under a node.
func namesIn(n parser.Node) []string {
	var out []string
	for _, v := range selectors(n) {
		out = append(out, nameOf(v))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

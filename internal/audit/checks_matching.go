package audit

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/render"
)

// oneToOne calls fn with every operator between two vectors that match by all
// of their labels.
func (p *pass) oneToOne(fn func(b *parser.BinaryExpr)) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if ok && b.VectorMatching != nil && b.Op != parser.LOR && !b.VectorMatching.On &&
			(b.VectorMatching.Card == parser.CardOneToOne || b.Op.IsSetOperator()) {
			fn(b)
		}
	})
}

func checkLabelMismatch(p *pass) {
	p.disjoint()
	if p.role == panelRole {
		p.zeroBeside()
	}
	p.matchedBy()
	p.oneToOne(func(b *parser.BinaryExpr) {
		p.lostZero(b)
		ignored := b.VectorMatching.MatchingLabels
		l, r := p.labelsOf(b.LHS).without(ignored...), p.labelsOf(b.RHS).without(ignored...)
		if why := p.ofOtherPrograms(b, l, r); why != "" {
			p.report(b.PositionRange(), why,
				advice("match with on (…), as on (pod), and aggregate both sides by the same labels"))
			return
		}
		if !l.known || !r.known || l.exact == r.exact && slices.Equal(sorted(l.names), sorted(r.names)) {
			return
		}
		if l.exact == r.exact && !l.exact && p.surface.Whole {
			return // what a store really holds may have been relabelled
		}
		why := fmt.Sprintf("the left side has the labels %s, the right side %s: no pair matches, and the result is always empty", l, r)
		p.report(b.PositionRange(), why, p.align(b, l, r))
	})
}

// lostZero reports a zero beside an aggregation with labels, in a calculation with another one: it
// has no labels, so that it matches none of them, and what it was to replace is left out.
func (p *pass) lostZero(b *parser.BinaryExpr) {
	if b.Op.IsSetOperator() || b.Op.IsComparisonOperator() {
		return
	}
	for _, sides := range [][2]parser.Expr{{b.LHS, b.RHS}, {b.RHS, b.LHS}} {
		or, ok := unparen(sides[0]).(*parser.BinaryExpr)
		if !ok || or.Op != parser.LOR || !isCall(unparen(or.RHS), "vector") {
			continue
		}
		if has, other := p.labelsOf(or.LHS), p.labelsOf(sides[1]); has.known && len(has.names) > 0 && other.known &&
			len(other.names) > 0 {
			p.reportAs(catalog.Ticket, or.PositionRange(),
				fmt.Sprintf("the zero has no labels, and the other side has %s: where the left of \"or\" is missing nothing matches, and the result is left out", other),
				advice("take the zero from the other side: … or 0 * (the other side)"))
			return
		}
	}
}

// ofOtherPrograms says why a series as it was scraped cannot match the other side: an aggregation
// without the labels of targets, or a series of another program; "" where it may.
func (p *pass) ofOtherPrograms(b *parser.BinaryExpr, l, r labelSet) string {
	if p.surface.Whole || len(b.VectorMatching.MatchingLabels) > 0 {
		return ""
	}
	left, right := p.scraped(b.LHS), p.scraped(b.RHS)
	for _, side := range []struct {
		exact labelSet
		other string
	}{{l, right}, {r, left}} {
		class, _ := classOf(side.other)
		if side.exact.known && side.exact.exact && side.other != "" && !slices.Contains(side.exact.names, "instance") &&
			!(b.Op.IsSetOperator() && len(side.exact.names) == 0 && class == unknownClass) { // which may have none either
			return fmt.Sprintf("one side has the labels %s and no others, and the series of the other have those of their target, such as instance and job: no pair matches", side.exact)
		}
	}
	if lp, rp := program(left), program(right); lp != "" && rp != "" && lp != rp {
		return fmt.Sprintf("the one side is of %s, the other of %s: their series have different labels, so no pair matches",
			lp, rp)
	}
	for _, sides := range [][2]string{{left, right}, {right, left}} {
		if _, f := classOf(sides[0]); f.Engine != "" && program(sides[0]) != "" && isElsewhere(sides[1]) {
			return sides[1] + " is no engine's metric: its series have another instance, and not the labels of the other side, such as model_name: no pair matches"
		}
	}
	return ""
}

// isElsewhere reports whether a series is another program's than an inference server's, by its name.
func isElsewhere(name string) bool {
	class, f := classOf(name)
	switch {
	case name == "" || name != strings.ToLower(name) || ofAnyProcess.MatchString(name) || strings.Contains(name, "vllm"):
		return false
	case isExporters(f):
		return f.Kind != "Prometheus"
	}
	return class == unknownClass && f.Engine == "" && strings.Contains(name, "_") && !strings.HasPrefix(name, "http_")
}

// identities are the labels that tell apart the series of families of which a join takes one each.
var identities = map[string]string{
	"kube_pod_info": "pod", "kube_pod_labels": "pod", "kube_pod_owner": "pod", "kube_pod_container_info": "pod", "kube_pod_annotations": "pod",
	"kube_pod_status_phase": "pod", "kube_pod_container_resource_limits": "pod", "kube_pod_container_resource_requests": "pod",
}

// matchedBy reports operators that match by labels which one side does not have, whose values are others on
// each side, or which do not tell the series of the one side apart.
func (p *pass) matchedBy() {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.VectorMatching == nil || !b.VectorMatching.On {
			return
		}
		by := b.VectorMatching.MatchingLabels
		for _, sides := range [][2]parser.Expr{{b.LHS, b.RHS}, {b.RHS, b.LHS}} {
			for _, label := range by {
				if p.lacks(sides[0], label) && p.certainlyHas(sides[1], label) {
					p.report(b.PositionRange(), fmt.Sprintf("the series of one side have no label %s, by which this matches: no pair matches", label),
						advice("match by labels that both sides have"))
					return
				}
			}
		}
		if lp, rp := program(p.sourceOf(b.LHS, "instance")), program(p.sourceOf(b.RHS, "instance")); slices.Contains(by, "instance") &&
			lp != "" && rp != "" && lp != rp && !p.surface.Live {
			p.report(b.PositionRange(), fmt.Sprintf("instance is the address of what is scraped, with its port: that of %s on one side, of %s on the other", lp, rp),
				advice("match by the node or the pod, with label_replace where the labels have other names"))
			return
		}
		one := b.RHS
		switch b.VectorMatching.Card {
		case parser.CardManyToOne:
		case parser.CardOneToMany:
			one = b.LHS
		default:
			return
		}
		v, ok := value(one).(*parser.VectorSelector)
		if id := identities[nameOfOrNone(v)]; ok && id != "" && !slices.Contains(by, id) && !selectsBy(v, id) {
			p.report(b.PositionRange(), fmt.Sprintf("there is a series of %s for each %s, and several of them match one on the other side: Prometheus refuses to evaluate it", nameOf(v), id),
				advice("write max by ("+strings.Join(slices.Concat(by, b.VectorMatching.Include), ", ")+") ("+nameOf(v)+")"))
		}
	})
}

// lacks reports whether the series of an expression certainly do not have a label.
func (p *pass) lacks(e parser.Expr, label string) bool {
	if l := p.labelsOf(e); l.known && l.exact {
		return !slices.Contains(l.names, label)
	}
	v, ok := unparen(value(e)).(*parser.VectorSelector)
	if !ok || p.records[nameOf(v)] != nil {
		return false
	}
	_, sure := p.mistakenFor(nameOf(v), label)
	return sure == yes
}

// certainlyHas reports whether the series of an expression have a label of which nobody can say otherwise.
func (p *pass) certainlyHas(e parser.Expr, label string) bool {
	l := p.labelsOf(e)
	return l.known && slices.Contains(l.names, label)
}

// sourceOf returns the name of the only series of an expression that hands a label of its target on as it
// is; "" where something may change it.
func (p *pass) sourceOf(e parser.Expr, label string) string {
	all := selectors(e)
	if len(all) == 0 || len(slices.Compact(namesIn(e))) != 1 || p.records[nameOf(all[0])] != nil {
		return ""
	}
	changed := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			changed = changed || strings.HasPrefix(n.Func.Name, "label_")
		case *parser.AggregateExpr:
			changed = changed || n.Without == slices.Contains(n.Grouping, label)
		case *parser.BinaryExpr:
			changed = changed || n.VectorMatching != nil
		}
		return nil
	})
	if changed {
		return ""
	}
	return nameOf(all[0])
}

// program returns which program a series is of, by its name; "" where it does not say.
func program(name string) string {
	for _, p := range [][2]string{
		{"DCGM_", "dcgm-exporter"}, {"node_", "node_exporter"}, {"kube_", "kube-state-metrics"}, {"container_", "cAdvisor"},
	} {
		if strings.HasPrefix(name, p[0]) {
			return p[1]
		}
	}
	if ours(name) && strings.Count(name, ":") == 1 {
		return "the engine"
	}
	return ""
}

// scraped returns the name of the series whose labels a vector has as they were scraped; "" where
// something changes them, or a recording rule made them.
func (p *pass) scraped(e parser.Expr) string {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		name := nameOf(n)
		if p.records[name] == nil && (!strings.Contains(name, ":") || ours(name)) && !looksRecorded(name) {
			return name
		}
	case *parser.MatrixSelector:
		return p.scraped(n.VectorSelector)
	case *parser.Call:
		if len(n.Args) > 0 && n.Func.Name != "label_replace" && n.Func.Name != "label_join" &&
			n.Func.Name != "histogram_quantile" &&
			!strings.HasPrefix(n.Func.Name, "absent") && n.Args[len(n.Args)-1].Type() != parser.ValueTypeScalar {
			return p.scraped(n.Args[len(n.Args)-1])
		}
	case *parser.BinaryExpr:
		if (n.VectorMatching == nil || n.Op == parser.LAND || n.Op == parser.LUNLESS) && n.LHS.Type() == parser.ValueTypeVector {
			return p.scraped(n.LHS)
		}
	}
	return ""
}

// disjoint reports operators between two vectors whose selectors fix one label to
// two values: no pair of their series can match.
func (p *pass) disjoint() {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.VectorMatching == nil || b.Op == parser.LOR {
			return
		}
		l, r := fixed(b.LHS), fixed(b.RHS)
		for _, label := range slices.Sorted(maps.Keys(l)) {
			other, both := r[label]
			if !both || l[label] == other || slices.Contains(b.VectorMatching.MatchingLabels,
				label) != b.VectorMatching.On {
				continue
			}
			p.report(b.PositionRange(),
				fmt.Sprintf("the left side has %s=%q, the right side %q: no pair matches, and the result is always empty", label, l[label], other),
				advice(fmt.Sprintf("match with ignoring (%s), or aggregate both sides without it", label)))
			return
		}
	})
}

// fixed returns the labels of a vector that its selectors set to one value, variables
// aside.
func fixed(e parser.Expr) map[string]string {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		out := map[string]string{}
		for _, m := range n.LabelMatchers {
			if m.Type == labels.MatchEqual && m.Name != labels.MetricName && m.Value != "" &&
				!strings.ContainsAny(m.Value, "$[") {
				out[m.Name] = m.Value
			}
		}
		return out
	case *parser.MatrixSelector:
		return fixed(n.VectorSelector)
	case *parser.SubqueryExpr:
		return fixed(n.Expr)
	case *parser.AggregateExpr:
		out := fixed(n.Expr)
		maps.DeleteFunc(out, func(l, _ string) bool { return slices.Contains(n.Grouping, l) == n.Without })
		return out
	case *parser.Call:
		if n.Func.Name == "label_replace" || n.Func.Name == "label_join" || strings.HasPrefix(n.Func.Name, "absent") {
			return nil
		}
		for _, a := range n.Args {
			if t := a.Type(); t == parser.ValueTypeVector || t == parser.ValueTypeMatrix {
				out := fixed(a)
				if n.Func.Name == "histogram_quantile" {
					delete(out, labels.BucketLabel)
				}
				return out
			}
		}
	case *parser.BinaryExpr:
		return fixedIn(n)
	}
	return nil
}

func fixedIn(n *parser.BinaryExpr) map[string]string {
	switch {
	case n.VectorMatching == nil && n.LHS.Type() == parser.ValueTypeVector:
		return fixed(n.LHS)
	case n.VectorMatching == nil:
		return fixed(n.RHS)
	case n.Op == parser.LOR || n.VectorMatching.Card != parser.CardOneToOne && !n.Op.IsSetOperator():
		return nil
	}
	out := fixed(n.LHS)
	if !n.Op.IsSetOperator() {
		maps.DeleteFunc(out, func(l, _ string) bool {
			return slices.Contains(n.VectorMatching.MatchingLabels, l) != n.VectorMatching.On
		})
	}
	return out
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

func (l labelSet) String() string {
	text := "{" + strings.Join(l.names, ", ") + "}"
	if !l.exact {
		text = "of its target and " + text
	}
	return text
}

// align repairs a mismatch where one side is an aggregation by a subset of the
// other's labels, also an aggregation.
func (p *pass) align(b *parser.BinaryExpr, l, r labelSet) suggestion {
	words := "aggregate both sides by the same labels, such as sum by (model_name), or match with on (…)"
	la, lok := unparen(b.LHS).(*parser.AggregateExpr)
	ra, rok := unparen(b.RHS).(*parser.AggregateExpr)
	if !lok || !rok || la.Without || ra.Without || !l.exact || !r.exact {
		return advice(words)
	}
	narrow, wide := ra, l
	if len(r.names) > len(l.names) {
		narrow, wide = la, r
	}
	var edits []edit
	for _, label := range wide.names {
		if slices.Contains(narrow.Grouping, label) {
			continue
		}
		for _, v := range selectors(narrow) {
			if has, known := p.surface.hasLabel(nameOf(v), label); known && !has && !isScraped(label) {
				return advice(words) // the other side cannot have it
			}
		}
		if len(edits) > 0 {
			return advice(words)
		}
		edits, _ = p.groupBy(narrow, label)
	}
	if len(edits) == 0 {
		return advice(words)
	}
	return suggestion{"aggregate both sides by (" + strings.Join(wide.names, ", ") + ")", edits}
}

// isScraped reports whether a label is one that the scraper adds.
func isScraped(label string) bool {
	return slices.Contains([]string{"instance", "job", "pod", "namespace", "cluster", "service", "container", "node"}, label)
}

func checkRatioOfItself(p *pass) {
	p.oneToOne(func(b *parser.BinaryExpr) {
		if b.Op != parser.DIV || len(b.VectorMatching.MatchingLabels) > 0 {
			return
		}
		l, r := plainSelector(b.LHS), plainSelector(b.RHS)
		if l == nil || r == nil || nameOf(l) == "" || nameOf(l) != nameOf(r) || len(l.LabelMatchers) == len(r.LabelMatchers) || l.OriginalOffset != r.OriginalOffset {
			return
		}
		by := "instance"
		if has, _ := p.surface.hasLabel(nameOf(l), "model_name"); has {
			by = "model_name"
		}
		edits := []edit{
			p.replace(b.LHS.PositionRange(), "sum by ("+by+") ("+p.text(b.LHS)+")"),
			p.replace(b.RHS.PositionRange(), "sum by ("+by+") ("+p.text(b.RHS)+")"),
		}
		p.report(b.PositionRange(), "without aggregation every series is divided by itself: the quotient is 1, whatever happens", suggestion{"aggregate both sides by (" + by + ")", edits})
	})
}

// checkPrecedence finds sums and quotients that parentheses would have made a share:
// a - b / a is a less a share, and a / a + b is 1 and b.
func checkPrecedence(p *pass) {
	same := func(a, b parser.Node) bool {
		return strings.Join(strings.Fields(p.text(a)), "") == strings.Join(strings.Fields(p.text(b)), "")
	}
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.SUB && b.Op != parser.ADD || b.VectorMatching == nil {
			return
		}
		if d, ok := b.RHS.(*parser.BinaryExpr); ok && d.Op == parser.DIV && same(b.LHS, d.RHS) {
			p.report(b.PositionRange(), "/ binds before "+b.Op.String()+": this is the one less, or plus, a quotient, and no share",
				advice("write ("+oneLine(p.text(b.LHS))+" "+b.Op.String()+" "+oneLine(p.text(d.LHS))+") / "+oneLine(p.text(d.RHS))))
		}
		if d, ok := b.LHS.(*parser.BinaryExpr); ok && d.Op == parser.DIV && same(d.LHS, d.RHS) {
			p.report(b.PositionRange(), "/ binds before "+b.Op.String()+": a number divided by itself is 1, and the rest is added to that",
				advice("write parentheses around the divisor"))
		}
	})
}

// plainSelector returns the selector of a rate, or of a plain series.
func plainSelector(e parser.Expr) *parser.VectorSelector {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		return n
	case *parser.MatrixSelector:
		return plainSelector(n.VectorSelector)
	case *parser.Call:
		if len(n.Args) == 1 && slices.Contains(rates, n.Func.Name) {
			return plainSelector(n.Args[0])
		}
	}
	return nil
}

func plainSelectorOrNone(c *parser.Call) *parser.VectorSelector {
	if c == nil {
		return nil
	}
	return plainSelector(c)
}

// canonicalOf returns the canonical name that a side of an operator reads
// alone, "" where it reads several.
func canonicalOf(e parser.Expr) (string, *parser.VectorSelector) {
	all := selectors(e)
	if len(all) != 1 {
		return "", nil
	}
	name, _ := vllm.Canonical(nameOf(all[0]))
	return name, all[0]
}

func checkTokensPerCompletion(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV {
			return
		}
		tokens, _ := canonicalOf(b.LHS)
		requests, v := canonicalOf(b.RHS)
		if requests != "vllm:request_success_total" {
			return
		}
		const why = "abandoned requests are in the tokens and not in the completions: the mean rises when clients leave (vllm-project/vllm#31503)"
		switch tokens {
		case "vllm:prompt_tokens_total":
			to := strings.Replace(nameOf(v), "request_success_total", "time_to_first_token_seconds_count", 1)
			edits := p.rename(v, to)
			if selectsBy(v, "finished_reason") {
				edits = nil
			}
			p.report(b.PositionRange(), why, suggestion{"divide by " + to + ", which is counted with the prompt", edits})
		case "vllm:generation_tokens_total":
			p.report(b.PositionRange(), why, advice("divide the rate of vllm:request_generation_tokens_sum by that of _count"))
		}
	})
}

// says reports whether a panel's or a rule's words hold one of some.
func (p *pass) says(words ...string) bool { return holds(p.words(), words) }

func holds(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// metricNames are names of metrics in texts, whose words say nothing of what people mean.
var metricNames = regexp.MustCompile(`[a-z_]*(?:vllm|sglang)[:_]\w+`)

// words are what a panel or a rule says of its values, in lower case.
func (p *pass) words() string {
	text := p.name
	if p.panel != nil {
		text += " " + p.panel.title + " " + p.panel.legend + " " + p.panel.unit
	}
	if p.rule != nil {
		for _, f := range p.rule.get("annotations").all() {
			text += " " + f.value.str()
		}
	}
	return strings.ToLower(text)
}

// all returns a node's fields, none of a nil node.
func (n *node) all() []field {
	if n == nil {
		return nil
	}
	return n.fields
}

func checkStepsAsTokens(p *pass) {
	if p.panel == nil && p.role != recordRole || !p.says("tps", "token") {
		return
	}
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok || arithmetic(path) {
			return
		}
		if name, _ := vllm.Canonical(nameOf(v)); name == "vllm:iteration_tokens_total_count" && under(path, rates...) {
			to := strings.TrimSuffix(nameOf(v), "_count") + "_sum"
			p.report(v.PositionRange(), "_count counts the engine's steps, not their tokens", suggestion{"write " + to, p.rename(v, to)})
		}
	})
}

// finishedCounts are the histograms that are observed once for every finished request:
// their _count and request_success_total count the same (vllm/v1/metrics/loggers.py).
var finishedCounts = []string{
	"vllm:e2e_request_latency_seconds_count", "vllm:request_queue_time_seconds_count",
	"vllm:request_inference_time_seconds_count",
	"vllm:request_prefill_time_seconds_count", "vllm:request_decode_time_seconds_count",
	"vllm:request_prompt_tokens_count",
	"vllm:request_generation_tokens_count", "vllm:request_params_n_count", "vllm:request_params_max_tokens_count",
	"vllm:request_max_num_generation_tokens_count",
}

func checkAvailability(p *pass) {
	fix := advice(`take HTTP statuses, of the gateway or of http_requests_total: sum(rate(http_requests_total{status!="5xx"}[5m])) / sum(rate(http_requests_total[5m]))`)
	const finished = "vllm:request_success_total"
	p.cutAsFailed()
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV && b.Op != parser.SUB {
			return
		}
		l, lv := canonicalOf(b.LHS)
		r, rv := canonicalOf(b.RHS)
		if l == finished && wholly(lv) && slices.Contains(finishedCounts, r) || r == finished && wholly(rv) &&
			slices.Contains(finishedCounts, l) {
			constant := "the quotient is always 1"
			if b.Op == parser.SUB {
				constant = "the difference is always 0"
			}
			p.reportAs(catalog.Page, b.PositionRange(),
				"both sides count the finished requests, failed ones among them: "+constant+", whatever fails (vllm-project/vllm#9346)", fix)
			return
		}
		if b.Op != parser.DIV || l != finished || r != l && !countsRequests(r) && !slices.Contains(finishedCounts, r) {
			return
		}
		switch reasons := reasonsOf(lv); {
		case slices.Equal(reasons, []string{"abort"}): // a share of aborts, which is another fault
			return
		case slices.Equal(reasons, []string{"error"}) && p.says("in the engine", "inside the engine", "finished requests"): // it says so
			return
		case len(reasons) > 0 && slices.Contains(reasons, "error") != (slices.Contains(reasons, "stop") &&
			slices.Contains(reasons, "length")) && !holds(metricNames.ReplaceAllString(p.words(),
			""), []string{"abnormal finish", "finish reason"}):
		case !holds(metricNames.ReplaceAllString(p.words(), ""), []string{"availab", "error", "success rate", "slo"}):
			return
		}
		p.report(b.PositionRange(),
			"request_success_total counts finished requests, failed ones among them, and misses those that were refused, that failed before the engine or that clients left (vllm-project/vllm#9346, #31503)", fix)
	})
}

// countsRequests reports whether a counter is one of requests: a gateway's, an application's, or
// that of those that got a first token.
func countsRequests(name string) bool {
	return strings.Contains(name, "requests_total") || strings.Contains(name, "requests_count") ||
		strings.HasSuffix(name, "request_total") || name == "vllm:time_to_first_token_seconds_count"
}

// cutAsFailed reports finished requests other than those that stopped, called errors: most of
// them are answers that reached their length.
func (p *pass) cutAsFailed() {
	for _, v := range selectors(p.tree) {
		name, _ := vllm.Canonical(nameOf(v))
		reasons := reasonsOf(v)
		if name == "vllm:request_success_total" && slices.Contains(reasons, "length") && !slices.Contains(reasons, "stop") &&
			p.says("error", "fail") && slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name == "finished_reason" && m.Type != labels.MatchEqual
		}) {
			p.report(v.PositionRange(), "answers that reach their length are no errors: finished_reason=\"length\" is selected as well",
				advice(`ask for finished_reason="error" (0.14), and for statuses at the gateway or in http_requests_total`))
		}
	}
}

// wholly reports whether a selector is of all reasons for which requests finish.
func wholly(v *parser.VectorSelector) bool { return reasonsOf(v) == nil }

// reasonsOf returns the reasons that a selector is limited to, nil where it is to none.
func reasonsOf(v *parser.VectorSelector) []string {
	for _, m := range v.LabelMatchers {
		if m.Name == "finished_reason" {
			return slices.DeleteFunc([]string{"stop", "length", "abort", "error", "repetition"},
				func(r string) bool { return !m.Matches(r) })
		}
	}
	return nil
}

// checkTotalAndSuccess finds panels that show the finished requests twice, once as all of
// them and once as those that succeeded: the two lines lie on each other.
func checkTotalAndSuccess(p *pass) {
	if p.role != panelRole {
		return
	}
	name, v := canonicalOf(p.tree)
	if !slices.Contains(finishedCounts, name) || !legendSays(p.query, "total", "all", "incoming", "received") {
		return
	}
	for _, q := range p.mates() {
		if q.tree == nil {
			continue
		}
		if other, ov := canonicalOf(q.tree); other == "vllm:request_success_total" && wholly(ov) && legendSays(q,
			"success", "succe", "complet") {
			p.report(v.PositionRange(),
				nameOf(v)+" counts the finished requests, as "+nameOf(ov)+" beside it does: failed ones are in both, refused ones in neither (vllm-project/vllm#9346)",
				advice("count what comes in at the gateway, or with http_requests_total"))
			return
		}
	}
}

func legendSays(q *query, words ...string) bool {
	legend := strings.ToLower(q.panel.legend)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(legend, w) })
}

// panelPath is where a query's panel stands.
func panelPath(path string) string {
	at := max(strings.LastIndex(path, "/targets/"), strings.LastIndex(path, "/queries/"), 0)
	return path[:at]
}

// notShares are quotients that are taken for shares and are none, by what they divide.
var notShares = []struct{ part, by, why, fix string }{
	{
		"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE",
		"used divided by free is no share of the whole: 0.9 is 47 % full, and it has no upper bound",
		"divide by their sum: DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
	},
	{
		"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits_total vllm:prefix_cache_queries_total",
		"the queries hold the hits already: added to them, every hit counts twice in the divisor, and 100 % reads 50 %",
		"divide by the queries alone",
	},
	{
		"vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_drafts_total",
		"a draft holds several tokens: accepted tokens over drafts is a length and goes above 1",
		"for a share divide by vllm:spec_decode_num_draft_tokens_total",
	},
	{
		"vllm:spec_decode_num_accepted_tokens_per_pos_total", "vllm:spec_decode_num_draft_tokens_total",
		"a draft has one token at each position: divided by all of its tokens every position reads as many times too low as a draft is long",
		"divide by vllm:spec_decode_num_drafts_total",
	},
}

// checkPartOverPart finds quotients taken for shares that are none, as what is used
// divided by what is free is.
func checkPartOverPart(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV {
			return
		}
		l, _ := canonicalOf(b.LHS)
		var by []string
		for _, v := range selectors(b.RHS) {
			name, _ := vllm.Canonical(nameOf(v))
			by = append(by, name)
		}
		slices.Sort(by)
		p.guardOfNothing(b)
		if l == "vllm:spec_decode_num_accepted_tokens_total" && strings.Join(by, " ") == "vllm:spec_decode_num_drafts_total" {
			p.bonusForgotten(b, path)
		}
		for _, s := range notShares {
			if l != s.part || strings.Join(by, " ") != s.by || strings.HasSuffix(s.by, "_drafts_total") &&
				(!p.says("rate", "ratio", "percent") || p.says("length", "per draft", "mean accepted")) {
				continue
			}
			p.report(b.PositionRange(), s.why, advice(s.fix))
		}
	})
}

// A wording is the words by which people call a quantity, and those that go with it
// though they name another.
type wording struct {
	metrics []string // without the prefix and a histogram's suffix
	words   *regexp.Regexp
	goes    string // names of other wordings that may stand for it
}

// unmistakable are names of wordings by which nothing else is called.
var unmistakable = []string{"time to first token", "time between tokens", "cache hits", "preemptions"}

// wordings are quantities that are taken for one another, by name.
var wordings = map[string]wording{
	"prompt tokens":    {[]string{"prompt_tokens_total", "request_prompt_tokens"}, regexp.MustCompile(`\b(prompt|input|prefill)`), "prefill"},
	"generated tokens": {[]string{"generation_tokens_total", "request_generation_tokens"}, regexp.MustCompile(`\b(generat|output|decode)|\bcompletion.?tok`), "decode"},
	"time to first token": {
		[]string{"time_to_first_token_seconds"},
		regexp.MustCompile(`\bttft\b|first.token`), "prefill",
	},
	"time between tokens": {
		[]string{"inter_token_latency_seconds", "time_per_output_token_seconds", "request_time_per_output_token_seconds"},
		regexp.MustCompile(`\b(tpot|itl|tbt)\b|inter.token|per.output.token`), "decode generated tokens",
	},
	"end-to-end time": {
		[]string{"e2e_request_latency_seconds"}, regexp.MustCompile(`\be2e\b|end.to.end`), "",
	},
	"queue time": {
		[]string{"request_queue_time_seconds"}, regexp.MustCompile(`\bqueue`), "waiting",
	},
	"prefill": {[]string{"request_prefill_time_seconds"}, regexp.MustCompile(`\bprefill`), "prompt tokens"},
	"decode":  {[]string{"request_decode_time_seconds"}, regexp.MustCompile(`\bdecod`), "generated tokens"},
	"running": {[]string{"num_requests_running"}, regexp.MustCompile(`\b(running|active)\b`), ""},
	"waiting": {[]string{"num_requests_waiting"}, regexp.MustCompile(`\b(waiting|queued?|pending)\b`), "queue time"},
	"cache usage": {
		[]string{"kv_cache_usage_perc", "gpu_cache_usage_perc"}, regexp.MustCompile(`\bkv\b|cache us|cache util`), "",
	},
	"preemptions": {[]string{"num_preemptions_total", "request_num_preemptions"}, regexp.MustCompile(`\bpreempt`), ""},
	"host memory": {nil, regexp.MustCompile(`\brss\b|resident|host.?mem|system.?mem|\bram\b|node.?mem|container.?mem`), ""},
	"GPU memory":  {nil, regexp.MustCompile(`gpu.?(mem|oom)|vram|显存`), ""}, // of which the KV cache is a part that is always taken

	"cache hits": {
		[]string{"prefix_cache_hits_total", "prefix_cache_queries_total", "prompt_tokens_cached_total"},
		regexp.MustCompile(`hit.(rate|ratio)|cache hits?\b`), "",
	},
}

// hostMemory are names of other memory than a GPU's.
var hostMemory = regexp.MustCompile(`^(process_(resident|virtual)|container|node)_memory_\w*bytes$|^container_oom_events_total$`)

// ofAll are words for prompts' and generated tokens together.
var ofAll = regexp.MustCompile(`total|\ball\b`)

// ofWorkers are words for servers, which are called after what they do.
var ofWorkers = regexp.MustCompile(`\b(workers?|nodes?|pods?|servers?|instances?|role)\b`)

// checkOtherQuantity finds legends, titles where there is no legend, and names of alerts,
// that name another quantity than the query asks for.
func checkOtherQuantity(p *pass) {
	p.otherDimension()
	if p.role != panelRole && p.role != alertRole && (p.role != recordRole || len(selectors(p.tree)) > 2) {
		return
	}
	p.capability()
	p.saidAtLength()
	if p.role == panelRole {
		p.misnamed()
		p.saidUpsideDown()
		p.everybodys()
		p.oneReason()
		p.gpusAsNodes()
	}
	families := map[string]bool{}
	counted := slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool { return !strings.HasSuffix(nameOf(v), "_count") })
	for _, v := range selectors(p.tree) {
		name, _ := vllm.Canonical(nameOf(v))
		class, f := classOf(nameOf(v))
		if class == count && (counted || p.role == recordRole) {
			continue // how many there were
		}
		if f.Engine != vllm.ID && !hostMemory.MatchString(name) {
			return
		}
		if f.Type == engine.Histogram {
			name = f.Name
		}
		families[strings.TrimPrefix(name, engine.Canonical)] = true
	}
	text := strings.Join(labelWords(strings.ReplaceAll(p.name, ":", "_")), " ")
	switch summary := p.rule.at("annotations", "summary").str(); {
	case p.role == panelRole:
		if legend := labelsLegends.ReplaceAllString(p.panel.legend, " "); namesSome(legend) && p.saysOther("legend", legend, families) {
			return
		}
		if !p.severalNames() {
			p.saysOther("title", p.panel.title, families)
		}
	case p.role == alertRole && !namesSome(text) && summary != "":
		p.saysOther("text", labelsNamed.ReplaceAllString(summary, " "), families)
	default:
		p.saysOther("name", text, families)
	}
}

// saysOther reports a text that names another quantity than those of some families.
func (p *pass) saysOther(from, text string, families map[string]bool) bool {
	text = strings.ToLower(text)
	if strings.HasSuffix(text, ": requests") {
		return false // how many a percentile beside it rests on
	}
	said, is := "", ""
	for _, name := range slices.Sorted(maps.Keys(wordings)) {
		w := wordings[name]
		if w.words.MatchString(text) && (said == "" || !strings.Contains(wordings[said].goes, name) || p.quantityOf(p.tree).of != span) {
			if said != "" && (!strings.Contains(w.goes, said) || p.quantityOf(p.tree).of != span || ofWorkers.MatchString(text)) {
				return false // of several
			}
			said = name
		}
		if slices.ContainsFunc(w.metrics, func(m string) bool { return families[m] }) ||
			name == "host memory" && slices.ContainsFunc(slices.Collect(maps.Keys(families)), hostMemory.MatchString) {
			if is != "" {
				return false
			}
			is = name
		}
	}
	if said != "" && is == "" && p.role == panelRole && slices.Contains(unmistakable, said) && !slices.ContainsFunc(namesIn(p.tree), func(name string) bool {
		return wordings[said].words.MatchString(strings.ReplaceAll(strings.ReplaceAll(name, "_", " "), ":", " "))
	}) {
		is = "something else"
	}
	if said == "" || is == "" || said == is || wordings[is].goes != "" && strings.Contains(wordings[is].goes, said) ||
		(said == "prompt tokens" || said == "generated tokens") && ofAll.MatchString(text) {
		return false
	}
	if p.role == alertRole && slices.ContainsFunc(p.rule.get("annotations").all(),
		func(f field) bool { return wordings[is].words.MatchString(strings.ToLower(f.value.str())) }) {
		return false // the text says what it is
	}
	p.report(p.tree.PositionRange(), fmt.Sprintf("the %s says %s, and the query asks for something else: %s", from, said,
		strings.Join(slices.Sorted(maps.Keys(families)), ", ")), advice("correct the one or the other"))
	return true
}

// capability reports how many lanes a GPU's link can have, and how fast they can be, taken for
// what they are: that never changes.
func (p *pass) capability() {
	names := namesIn(p.tree)
	for _, name := range names {
		now := strings.Replace(name, "_PCIE_MAX_LINK_", "_PCIE_LINK_", 1)
		if strings.HasPrefix(name, "DCGM_FI_DEV_") && now != name && !slices.Contains(names, now) && !p.says("max", "最大") {
			p.report(p.tree.PositionRange(), name+" is what the GPU is capable of: it stays the same when the link falls back", advice("take "+now))
		}
	}
}

// dimensionWords are the words by which people call what GPUs have.
var dimensionWords = map[dimension]*regexp.Regexp{
	power: regexp.MustCompile(`\bpower\b|\bwatt`), temperature: regexp.MustCompile(`\btemp(erature)?\b`), frequency: regexp.MustCompile(`\bclock`),
	size: regexp.MustCompile(`\b(memory|vram|framebuffer)\b`),
}

// processor is the word for what is no GPU.
var processor = regexp.MustCompile(`\bcpu\b`)

// ofCompute are fields that say how busy a GPU is, and utilWords words for it.
var (
	ofCompute = []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"}
	utilWords = regexp.MustCompile(`util|comput|busy|\bsm\b|engine|activ|load|idle`)
)

// memoryTaken are words for how much of a GPU's memory is taken.
var memoryTaken = regexp.MustCompile(`\b(memory|mem|vram)\s*(used|usage|full|allocat|high|pressure)`)

// otherDimension reports a panel of GPUs whose legend, or else title, names another quantity than
// the query asks for.
func (p *pass) otherDimension() {
	if p.role == scalerRole || p.role == variableRole ||
		!slices.ContainsFunc(namesIn(p.tree), func(n string) bool { return strings.HasPrefix(n, "DCGM_FI_") }) {
		return
	}
	text, title := strings.Join(labelWords(strings.ReplaceAll(p.name, ":", "_")), " "), ""
	if p.role == panelRole {
		text, title = strings.ToLower(labelsLegends.ReplaceAllString(p.panel.legend, " ")), strings.ToLower(p.panel.title)
	}
	if all := text + " " + title; processor.MatchString(all) && !strings.Contains(all, "gpu") {
		p.report(p.tree.PositionRange(), fmt.Sprintf("beside it stands %q, and %s is of a GPU", strings.TrimSpace(all),
			strings.Join(namesIn(p.tree), ", ")),
			advice("correct the one or the other"))
		return
	}
	said := dimensionsSaid(text)
	if len(said) == 0 && title != "" && !p.severalNames() {
		text = title
		said = dimensionsSaid(text)
	}
	is := p.quantityOf(p.tree)
	if names := namesIn(p.tree); len(names) == 1 && slices.Contains(ofCompute, names[0]) &&
		dimensionWords[size].MatchString(text+" "+title) && !utilWords.MatchString(text+" "+title) {
		p.report(p.tree.PositionRange(), fmt.Sprintf("beside it stands %q, and %s says how busy the GPU is",
			strings.TrimSpace(text), names[0]),
			advice("divide DCGM_FI_DEV_FB_USED by DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE"))
		return
	}
	if p.otherDirection(text + " " + title) {
		return
	}
	wrong := len(said) == 1 && !slices.Contains(dimensionsSaid(title), is.of) && !slices.Contains(said, is.of) &&
		dimensionWords[is.of] != nil
	if names := namesIn(p.tree); len(names) == 1 && names[0] == "DCGM_FI_DEV_MEM_COPY_UTIL" &&
		memoryTaken.MatchString(text) {
		p.report(p.tree.PositionRange(),
			names[0]+" is the share of time in which memory was read or written, not how much of it is taken",
			advice("divide DCGM_FI_DEV_FB_USED by DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE"))
	} else if wrong {
		p.report(p.tree.PositionRange(), fmt.Sprintf("beside it stands %q, and the query asks for %s",
			strings.TrimSpace(text), is.of), advice("correct the one or the other"))
	}
}

// Words for the directions of data, in names of metrics and in texts.
var (
	sent     = regexp.MustCompile(`\b(tx|transmit(ted)?|sent|send|outbound|egress)\b`)
	received = regexp.MustCompile(`\b(rx|receiv(e|ed|ing)|inbound|ingress)\b`)
)

// otherDirection reports what is sent where the text says received, and the reverse.
func (p *pass) otherDirection(text string) bool {
	names := strings.ReplaceAll(strings.ToLower(strings.Join(namesIn(p.tree), " ")), "_", " ")
	for _, d := range [][2]*regexp.Regexp{{sent, received}, {received, sent}} {
		if d[0].MatchString(names) && !d[1].MatchString(names) && d[1].MatchString(text) && !d[0].MatchString(text) {
			p.report(p.tree.PositionRange(), fmt.Sprintf("beside it stands %q, and the query asks for the other direction: %s",
				strings.TrimSpace(text), strings.Join(namesIn(p.tree), ", ")), advice("correct the one or the other"))
			return true
		}
	}
	return false
}

// dimensionsSaid returns what a text calls quantities of GPUs.
func dimensionsSaid(text string) []dimension {
	var out []dimension
	for d, words := range dimensionWords {
		if words.MatchString(text) {
			out = append(out, d)
		}
	}
	return out
}

// namesSome reports whether a text names a quantity.
func namesSome(text string) bool {
	text = strings.ToLower(text)
	for _, w := range wordings {
		if w.words.MatchString(text) {
			return true
		}
	}
	return false
}

// severalNames reports whether the query's panel has others beside it that ask for other metrics.
func (p *pass) severalNames() bool {
	names := namesIn(p.tree)
	return slices.ContainsFunc(p.mates(), func(q *query) bool {
		return q.tree == nil ||
			!slices.Equal(namesIn(q.tree), names)
	})
}

// severalQueries reports whether the query's panel has others beside it.
func (p *pass) severalQueries() bool { return len(p.mates()) > 1 }

// percentileNamed are the ways in which people write a percentile; the number is in the
// first group that matched.
var percentileNamed = regexp.MustCompile(`(?i)\bp(50|75|9[0-9](?:\.?9)?)\b|\b(50|75|9[0-9](?:\.9)?)(?:th|\s?%-?ile)`)

// meanNamed are words for a mean.
var meanNamed = regexp.MustCompile(`(?i)\b(avg|average|mean)\b`)

// checkOtherPercentile finds texts that name one percentile beside a query for another, or
// for a mean, and those that call a percentile a mean.
func checkOtherPercentile(p *pass) {
	q, ok := quantileIn(value(p.tree))
	is, at := short(q.q), p.tree.PositionRange()
	switch {
	case ok && (q.q <= 0 || q.q >= 1 || p.opaque(q.call.Args[0].PositionRange().Start, q.call.Args[0].PositionRange().End)):
		return
	case ok:
		at = q.call.Args[0].PositionRange()
	case isMean(unscaled(p.tree)):
		is = "mean"
	default:
		return
	}
	texts := []string{p.name}
	switch p.role {
	case recordRole:
		texts = []string{strings.Join(labelWords(strings.ReplaceAll(p.name, ":", "_")), " ")}
	case panelRole:
		texts = []string{labelsLegends.ReplaceAllString(p.panel.legend, " ")}
		if !p.severalQueries() {
			texts = append(texts, p.panel.title)
		}
	case alertRole:
		for _, f := range p.rule.get("annotations").all() {
			texts = append(texts, f.value.str())
		}
	}
	for _, text := range texts {
		found, mean := percentileNamed.FindAllStringSubmatch(text, -1), meanNamed.FindString(text)
		if len(found) == 0 && mean == "" {
			continue
		}
		said := mean
		for _, m := range found {
			named, err := strconv.ParseFloat("0."+strings.ReplaceAll(m[1]+m[2], ".", ""), 64)
			if said = strings.TrimSpace(m[0]); err != nil || ok && math.Abs(named-q.q) < 1e-9 {
				return
			}
		}
		if mean != "" && (!ok || len(found) > 0) {
			return
		}
		p.report(at, fmt.Sprintf("%q is written beside it, and the query asks for the %s", said,
			map[bool]string{true: "quantile " + is, false: "mean"}[ok]), advice("correct the one or the other"))
		return
	}
}

// isMean reports whether a vector is a histogram's sum divided by its count.
func isMean(e parser.Expr) bool {
	b, ok := e.(*parser.BinaryExpr)
	if !ok || b.Op != parser.DIV {
		return false
	}
	l, r := selectors(b.LHS), selectors(b.RHS)
	if len(l) != 1 || len(r) != 1 {
		return false
	}
	family, ok := strings.CutSuffix(nameOf(l[0]), "_sum")
	return ok && nameOf(r[0]) == family+"_count"
}

// windowNamed is a span of time in a text.
var windowNamed = regexp.MustCompile(`(?i)\b(?:last|past|previous)\s+(\d+)\s*(m|min|minutes?|h|hours?|d|days?)\b|[(\[](\d+)\s*(m|min|h|d)\b[^)\]]*[)\]]`)

// trendNamed are words for what is drawn over the time that the dashboard shows.
var trendNamed = regexp.MustCompile(`(?i)\btrend|history|over time`)

// checkOtherWindow finds texts that name another span of time than the query's.
func checkOtherWindow(p *pass) {
	checkOtherHold(p)
	if p.role == panelRole {
		p.windowOfRange()
		p.totalOfWindow()
	}
	ranges, unknown := p.ranges()
	if len(ranges) == 0 || unknown || p.role != panelRole && p.role != recordRole {
		return
	}
	if p.role == recordRole {
		m := windowOfNames.FindStringSubmatch(p.name)
		if m == nil {
			return
		}
		if named, err := model.ParseDuration(m[1]); err == nil && !slices.Contains(ranges, time.Duration(named)) {
			p.report(p.tree.PositionRange(), fmt.Sprintf("the name says %s, and the expression looks at %s", m[1],
				render.Span(ranges[0])),
				advice("correct the one or the other"))
		}
		return
	}
	for _, text := range []string{p.panel.legend, p.panel.title} {
		m := windowNamed.FindStringSubmatch(text)
		if m == nil || trendNamed.MatchString(text) {
			continue
		}
		n, _ := strconv.Atoi(m[1] + m[3])
		of := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[strings.ToLower(m[2] + m[4])[0]]
		if !slices.Contains(ranges, time.Duration(n)*of) {
			p.report(p.tree.PositionRange(), fmt.Sprintf("%q is written beside it, and the query looks at %s", strings.TrimSpace(m[0]), render.Span(ranges[0])),
				advice("correct the one or the other"))
		}
		return
	}
}

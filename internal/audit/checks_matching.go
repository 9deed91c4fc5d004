package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
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
	p.oneToOne(func(b *parser.BinaryExpr) {
		ignored := b.VectorMatching.MatchingLabels
		l, r := p.labelsOf(b.LHS).without(ignored...), p.labelsOf(b.RHS).without(ignored...)
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
		if b.Op != parser.DIV {
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
			if slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "finished_reason" }) {
				edits = nil
			}
			p.report(b.PositionRange(), why, suggestion{"divide by " + to + ", which is counted with the prompt", edits})
		case "vllm:generation_tokens_total":
			p.report(b.PositionRange(), why, advice("divide the rate of vllm:request_generation_tokens_sum by that of _count"))
		}
	})
}

// says reports whether a panel's or a rule's words hold one of some.
func (p *pass) says(words ...string) bool {
	text := p.name
	if p.panel != nil {
		text += " " + p.panel.title + " " + p.panel.legend + " " + p.panel.unit
	}
	if p.rule != nil {
		for _, f := range p.rule.get("annotations").all() {
			text += " " + f.value.str()
		}
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
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

func checkAvailability(p *pass) {
	const fix = `take HTTP statuses, of the gateway or of http_requests_total: sum(rate(http_requests_total{status!="5xx"}[5m])) / sum(rate(http_requests_total[5m]))`
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV {
			return
		}
		l, lv := canonicalOf(b.LHS)
		r, _ := canonicalOf(b.RHS)
		if l != "vllm:request_success_total" {
			return
		}
		reasons := slices.ContainsFunc(lv.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name == "finished_reason" && (m.Matches("error") || m.Matches("abort")) != (m.Matches("stop") && m.Matches("length"))
		})
		if !reasons && !p.says("availab", "error", "success rate", "slo") {
			return
		}
		if r != l && r != "http_requests_total" && !strings.HasSuffix(r, "time_to_first_token_seconds_count") {
			return
		}
		p.report(b.PositionRange(), "request_success_total counts finished requests, failed ones among them, and misses those that were refused, that failed before the engine or that clients left (vllm-project/vllm#9346, #31503)", advice(fix))
	})
}

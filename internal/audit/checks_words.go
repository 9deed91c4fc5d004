package audit

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// Words of texts that say of how many servers something is true, and how long.
const servers = `(?:replicas?|instances?|pods?|servers?|engines?|nodes?|gpus?|workers?|ranks?|targets?|backends?|endpoints?)`

var (
	saysAny = regexp.MustCompile(`(?i)\b(?:any|at least one|one or more|(?:some|one) of)\b(?:\s+of)?(?:\s+(?:the|its|our))?(?:\s+[\w./-]+)?\s+` + servers +
		`\b|\ban?\s+(?:[\w./-]+\s+)?(?:replica|instance|pod|engine|rank|worker) (?:has|is|was|does|did|went|stopped|disappeared|vanished|crashed|cannot)\b`)
	saysAll = regexp.MustCompile(`(?i)\b(?:all|every)\b(?:\s+of)?(?:\s+(?:the|its|our))?(?:\s+[\w./-]+)?\s+` + servers +
		`\b(?:\s+(?:of|for|in)\s+(?:\{\{[^}]*\}\}|\S+))?\s+(?:is|are|has|have|down|full|went|stopped|unreachable|unavailable|wait|busy|saturated)\b` +
		`|\b(?:none of (?:the|its)|no)(?:\s+[\w./-]+)?\s+` + servers + `\b(?:\s+of\s+(?:\{\{[^}]*\}\}|\S+))?\s+(?:is|are|left|remains?|answers?|works?)\b`)
	saysAlways = regexp.MustCompile(`(?i)\bha(?:s|ve)(?: not|n't| never)(?: once)? (?:been|gone|fallen|dropped|come)\b|\ball the time\b|\bthe (?:whole|entire)\b(?: \w+)? ?(?:time|period|window|hour|day|night|quarter|\d)|\bthroughout\b|\b(?:constantly|continuously|permanently)\b|` +
		`\bnever (?:once )?(?:drains?|empt\w+|falls?|fell|drops?|dropped|goes|went|recover\w*)\b`)
	saysOnce = regexp.MustCompile(`(?i)\bpeak(?:s|ed)?\b|\bat any (?:time|moment|point)\b|\bat least once\b|\beven once\b|\bmomentar\w+|\bspik\w+|\bbursts?\b|\bbrief\w*|\bat some (?:time|moment|point)\b`)
	negation = regexp.MustCompile(`(?i)\b(?:not|no longer|never|cannot|without)\b|n't\b`)
)

// texts are what people read of an alert, one text in each.
func (p *pass) texts() []*node {
	var out []*node
	for _, f := range p.rule.get("annotations").all() {
		if f.value.str() != "" && !strings.Contains(f.key, "url") && !strings.Contains(f.key, "runbook") && !strings.Contains(f.key, "action") {
			out = append(out, f.value)
		}
	}
	return out
}

// saying returns where the first text says something, nil where none does.
func (p *pass) saying(what *regexp.Regexp) (n *node, at []int) {
	for _, n := range p.texts() {
		if at := what.FindStringIndex(n.value); at != nil {
			return n, at
		}
	}
	return nil, nil
}

// checkOtherExtent finds texts that speak of one server where the expression needs all of them, or
// the other way round, and of all the time where one moment is enough.
func checkOtherExtent(p *pass) {
	if p.role != alertRole {
		return
	}
	anyNode, anyAt := p.saying(saysAny)
	allNode, allAt := p.saying(saysAll)
	if anyNode == nil != (allNode == nil) {
		if why := p.otherServers(anyNode != nil); why != "" && anyNode != nil {
			p.reportText(anyNode, anyAt[0], anyAt[1], why, "correct the one or the other: max for \"one is above\", min for \"one is below\", no aggregation for each")
		} else if why != "" {
			p.reportText(allNode, allAt[0], allAt[1], why, "correct the one or the other: min for \"all are above\", max for \"all are below\"")
		}
	}
	c, ok := p.decisive()
	if !ok {
		return
	}
	always, alwaysAt := p.saying(saysAlways)
	once, onceAt := p.saying(saysOnce)
	calls := functionsIn(c.expr)
	has := func(name string) bool { return slices.Contains(calls, name) }
	onlyOne := (always == nil) != (once == nil)
	switch {
	case !onlyOne || has("max_over_time") && has("min_over_time"):
	case always != nil && (c.above() && has("max_over_time") || c.below() && has("min_over_time")):
		name, other := "max_over_time", "min_over_time"
		if c.below() {
			name, other = other, name
		}
		p.reportText(always, alwaysAt[0], alwaysAt[1], "the text says all the time, and with "+name+" one moment of the range is enough", "write "+other)
	case once != nil && c.above() && (has("min_over_time") || has("avg_over_time")) && !has("max_over_time") && !negation.MatchString(once.value):
		p.reportText(once, onceAt[0], onceAt[1], "the text speaks of a moment, and the expression looks at the least or the mean of the range", "write max_over_time")
	}
}

// functionsIn are the names of the functions under a node.
func functionsIn(e parser.Expr) (out []string) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if c, ok := n.(*parser.Call); ok {
			out = append(out, c.Func.Name)
		}
		return nil
	})
	return out
}

// otherServers says why a condition is not about one server (anyOne), or about all of them; "" where
// it may well be.
func (p *pass) otherServers(anyOne bool) string {
	if call, ok := unparen(p.tree).(*parser.Call); ok && (call.Func.Name == "absent" || call.Func.Name == "absent_over_time") {
		if anyOne && !slices.ContainsFunc(selectors(call), p.pinnedTarget) {
			return call.Func.Name + " is there only where no series at all is: one server of several is not seen"
		}
		return ""
	}
	c, ok := p.decisive()
	if !ok {
		return ""
	}
	a, ok := unscaled(c.expr).(*parser.AggregateExpr)
	switch {
	case !ok:
		v, plain := unscaled(c.expr).(*parser.VectorSelector)
		if plain && !anyOne && nameOf(v) == "up" && !p.pinnedTarget(v) && c.below() {
			return "each server is looked at by itself, and one of them is enough"
		}
		return ""
	case a.Without || perTarget(a) || len(selectors(a.Expr)) == 0 || slices.ContainsFunc(selectors(a.Expr), p.pinnedTarget):
		return ""
	case a.Op == parser.MAX && c.below() && anyOne, a.Op == parser.MIN && c.above() && anyOne,
		a.Op == parser.SUM && anyOne && c.limit == 0 && c.below():
		return a.Op.String() + " is that only where all servers are: one of them is not seen"
	case a.Op == parser.MIN && c.below() && !anyOne, a.Op == parser.MAX && c.above() && !anyOne,
		a.Op == parser.COUNT && c.above() && c.limit <= 1 && !anyOne && filtered(a.Expr) && (c.limit == 0 || c.op == parser.GTE):
		return "for this " + a.Op.String() + " one server is enough"
	}
	return ""
}

func filtered(e parser.Expr) bool {
	b, ok := unparen(e).(*parser.BinaryExpr)
	return ok && isFilter(b)
}

// Words of names and texts that say on which side of its threshold a value is.
var (
	saysLow  = regexp.MustCompile(`(?i)\b(?:only|low|little|lower|too (?:few|little|slow)|below|under|drop(?:s|ped)?|fell|falls?|fallen|poor(?:ly)?|degrad\w+|less than|fewer than|ineffective|insufficient|starv\w+|collaps\w+|declin\w+)\b`)
	saysHigh = regexp.MustCompile(`(?i)\b(?:high|higher|too (?:much|long|hot|high)|above|over|exceed\w*|more than|greater than|spik\w+|surg\w+|elevated|excessive|slow|saturat\w+|full|exhaust\w+|overload\w*|backlog|growing|hot|over-?heat\w*|thrash\w*|pressure|storm|congest\w+)\b`)
)

// hurtsBelow are what is better the more there is of it, by the part of a metric's canonical name;
// hurtsAbove is what is worse.
var (
	hurtsBelow = []string{
		"prefix_cache_hits_total", "mm_cache_hits_total", "spec_decode_num_accepted_tokens_total", "cache_hit_rate", "prefix_cache_hit_rate",
		"spec_decode_draft_acceptance_rate", "generation_throughput_toks_per_s", "prompt_throughput_toks_per_s", "gen_throughput",
		"generation_tokens_total",
	}
	hurtsAbove = []string{
		"num_requests_waiting", "num_queue_reqs", "kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage", "num_preemptions_total",
		"num_requests_swapped", "time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds",
		"e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
		"request_inference_time_seconds", "request_time_per_output_token_seconds", "GPU_TEMP", "MEMORY_TEMP",
	}
)

// hurts reports on which side an expression's values are bad: −1 below, +1 above, 0 where nobody can
// tell: a difference, another quotient, several quantities.
func (p *pass) hurts(e parser.Expr) int {
	switch leaningOf(e) {
	case failed, inUse:
		return 1
	case fine, notInUse:
		return -1
	}
	e = unwrapped(e)
	if b, ok := e.(*parser.BinaryExpr); ok {
		l, r := unwrapped(b.LHS), unwrapped(b.RHS)
		_, scaledBy := constant(b.RHS)
		switch {
		case scaledBy && (b.Op == parser.MUL || b.Op == parser.DIV):
			return p.hurts(b.LHS)
		case b.Op != parser.DIV:
			return 0
		}
		part, v := canonicalOf(l)
		whole, w := canonicalOf(r)
		if v == nil || w == nil {
			return 0
		}
		if of := wholes[part]; of == whole || strings.HasSuffix(part, "_sum") && strings.TrimSuffix(part, "_sum") == strings.TrimSuffix(whole, "_count") {
			return sideOf(part)
		}
		return 0
	}
	names := namesIn(e)
	if len(names) != 1 || len(selectors(e)) != 1 {
		return 0
	}
	if r := p.records[names[0]]; r != nil && r.tree != nil && r != p.query {
		if len(namesIn(r.tree)) > 0 && p.records[namesIn(r.tree)[0]] == nil {
			return p.hurts(r.tree)
		}
		return 0
	}
	name, _ := vllm.Canonical(names[0])
	return sideOf(name)
}

func sideOf(name string) int {
	for side, table := range map[int][]string{-1: hurtsBelow, 1: hurtsAbove} {
		for _, part := range table {
			family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if strings.HasSuffix(family, part) || strings.HasSuffix(name, part) {
				return side
			}
		}
	}
	return 0
}

// checkOtherSide finds alerts that fire on the other side of their threshold than their name and text
// say.
func checkOtherSide(p *pass) {
	c, ok := p.decisive()
	if !ok || !c.above() && !c.below() || p.guards(c) {
		return
	}
	text := strings.Join(labelWords(p.name), " ")
	low, high := saysLow.MatchString(text), saysHigh.MatchString(text)
	if whole := text + ". " + templates.ReplaceAllString(strings.Join(writtenIn(p.texts()), ". "), " "); saysSpare.MatchString(whole) {
		return
	} else if !low && !high {
		low, high = saysLow.MatchString(whole), saysHigh.MatchString(whole)
	}
	switch p.hurts(c.expr) {
	case -1:
		if c.above() && low && !high {
			p.report(c.at, "the alert speaks of too little, and it fires where all is well: above "+short(c.limit), advice("turn the comparison round"))
		}
	case 1:
		if c.below() && c.limit > 0 && high && !low {
			p.report(c.at, "the alert speaks of too much, and it fires where all is well: below "+short(c.limit), advice("turn the comparison round"))
		}
	}
}

// guards reports whether a comparison is one of two that hold a series between two numbers: none of them
// says alone what the alert is about.
func (p *pass) guards(c comparison) bool {
	found := false
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LAND {
			return
		}
		found = found || slices.ContainsFunc(conditions(b, parser.LAND), func(o comparison) bool {
			return slices.Equal(namesIn(o.expr), namesIn(c.expr)) && (o.above() && c.below() || o.below() && c.above())
		})
	})
	return found
}

// saysSpare are words of alerts on servers that are not needed.
var saysSpare = regexp.MustCompile(`(?i)\b(?:idle|unused|under-?us\w+|under-?utili\w+|over-?provision\w*|wast\w+|remove|scale[- ](?:in|down)|too many (?:replicas?|servers?|pods?|instances?|gpus?|nodes?)|recover\w*|resolved|spare)\b`)

// templates are what is filled in.
var templates = regexp.MustCompile(`\{\{[^}]*\}\}`)

// saysAim are words of texts that tell how it should be.
var saysAim = regexp.MustCompile(`(?i)\b(?:should|must|target|objective|slo|aim|goal|keep|until|recover\w*|normal(?:ly)?|healthy|expected|usual(?:ly)?|budget)\b`)

// statedBy is the label by whose values a series tells the states of one thing, "" where one of them is
// selected.
func statedBy(v *parser.VectorSelector) string {
	if v == nil {
		return ""
	}
	name, _ := vllm.Canonical(nameOf(v))
	by := oneOfWhich[name]
	if by == "" || selectsBy(v, by) {
		return ""
	}
	return by
}

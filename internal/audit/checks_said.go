package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// countedWords are words for what a quotient divides.
var countedWords = map[dimension]*regexp.Regexp{
	tokens: regexp.MustCompile(`\btokens?\b`), requests: regexp.MustCompile(`\b(requests?|completions?|answers?)\b`),
}

// perNamed is a quotient in a text.
var perNamed = regexp.MustCompile(`^(.*)\bper\b(.*)$`)

// saidUpsideDown reports quotients whose text says that they were divided the other way round.
func (p *pass) saidUpsideDown() {
	said := perNamed.FindStringSubmatch(p.claims())
	if b, ok := unscaled(p.tree).(*parser.BinaryExpr); ok && b.Op == parser.DIV && said != nil {
		base := map[dimension]dimension{requestRate: requests, requests: requests, tokenRate: tokens, tokens: tokens}
		l, r := base[p.quantityOf(b.LHS).of], base[p.quantityOf(b.RHS).of]
		if l != "" && r != "" && l != r && countedWords[l].MatchString(said[2]) &&
			countedWords[r].MatchString(said[1]) {
			p.report(
				b.PositionRange(),
				fmt.Sprintf("the text says %s per %s, and the query divides them the other way round", r, l),
				advice("turn the quotient round"),
			)
		}
	}
	if p.mates()[0] != p.query {
		return
	}
	for _, t := range p.panel.node.get("transformations").elements() {
		calc := t.at("options", "binary")
		per := perNamed.FindStringSubmatch(strings.ToLower(otherwise(t.at("options", "alias").str(), p.panel.title)))
		if t.get("id").str() != "calculateField" || calc.get("operator").str() != "/" || per == nil {
			continue
		}
		left, right := strings.ToLower(side(calc.get("left"))), strings.ToLower(side(calc.get("right")))
		for of, words := range countedWords {
			if words.MatchString(left) && words.MatchString(per[2]) && !words.MatchString(per[1]) &&
				!words.MatchString(right) {
				n := calc.get("left")
				if n.kind != text {
					n = p.node
				}
				p.reportText(
					n,
					0,
					len(n.value),
					fmt.Sprintf("the text says something per %s, and the transformation divides the %s", of, of),
					"turn left and right round",
				)
				return
			}
		}
	}
}

// side is the field that a calculation of Grafana's takes, in its former form and in that of today.
func side(n *node) string {
	if n.str() != "" {
		return n.str()
	}
	return n.at("matcher", "options").str()
}

// A misnomer is what texts call a metric, and which it is not.
type misnomer struct {
	says, unless *regexp.Regexp // in lower case
	metrics      []string       // canonical, without a histogram's suffix
	apart        string         // a label by which the metric would be what the text says
	with         string         // how a word of some expression of the file begins
	why, fix     string
}

// finished are counts and histograms to which a request is added when it ends.
var finished = []string{
	"vllm:request_success_total", "vllm:e2e_request_latency_seconds", "vllm:request_prompt_tokens", "vllm:request_generation_tokens",
}

// misnomers are taken from what vLLM counts when, in vllm/v1/metrics/loggers.py and stats.py.
var misnomers = []misnomer{
	{
		says: regexp.MustCompile(
			`\b(incoming|arriv\w*|inbound|offered|submitted)\b`,
		), unless: regexp.MustCompile(`tokens?\b|finish|complet`), metrics: finished,
		why: "it counts requests when they finish, and aborted ones hardly ever: a server that is stuck seems to get none",
		fix: "count them with http_requests_total or at the gateway, or call them finished",
	},
	{
		says: regexp.MustCompile(
			`\b(clients?|end.?users?|network)\b`,
		), unless: regexp.MustCompile(`without|exclud|server|not |before`),
		metrics: []string{
			"vllm:time_to_first_token_seconds",
			"vllm:e2e_request_latency_seconds",
			"vllm:inter_token_latency_seconds",
		},
		why: "the server's time ends before detokenization, HTTP and the network: clients see more", fix: "measure at the gateway or with a client, or call it the server's",
	},
	{
		says: regexp.MustCompile(
			`\b(computed|uncached|non.?cached)\b|cache hits left out|(without|excluding|minus) (prefix.)?cache`,
		),
		metrics: []string{"vllm:prompt_tokens_total", "vllm:request_prompt_tokens"}, apart: "source",
		why: "it counts whole prompts, with the tokens that the cache held", fix: `take vllm:prompt_tokens_by_source_total{source="local_compute"}, or vllm:request_prefill_kv_computed_tokens`,
	},
	{
		says: regexp.MustCompile(
			`\b(live|real.?time|instantaneous|in.?flight|current(ly)?|right now)\b`,
		), metrics: []string{"vllm:request_prompt_tokens", "vllm:request_generation_tokens"},
		why: "it is observed when a request finishes: it lags by as long as requests take, and jumps", fix: "take vllm:prompt_tokens_total or vllm:generation_tokens_total",
	},
	{
		says: regexp.MustCompile(
			`\bgenerat|\boutput|\bcompletion`,
		), unless: regexp.MustCompile(`max|limit|param|requested|allow|ask|budget|cap`),
		metrics: []string{"vllm:request_params_max_tokens"},
		why:     "it is what clients allow, not what is generated", fix: "take vllm:request_generation_tokens",
	},
	{
		says: regexp.MustCompile(
			`per.(output.)?token|\btpot\b`,
		), unless: regexp.MustCompile(`inter.?token|\bitl\b|between`), with: "spec_decode_",
		metrics: []string{"vllm:inter_token_latency_seconds"},
		why:     "with speculative decoding it is observed once for each step, which gives several tokens", fix: "take vllm:request_time_per_output_token_seconds",
	},
	{
		says: regexp.MustCompile(
			`\b(hits?|quer(y|ies)|lookups?|misses)\s*(/|per)\s*s(ec(ond)?)?\b`,
		), unless: regexp.MustCompile(`tok`),
		metrics: []string{
			"vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total", "vllm:external_prefix_cache_hits_total",
			"vllm:external_prefix_cache_queries_total",
		},
		why: "it counts tokens, not lookups", fix: "call them tokens per second",
	},
	{
		says: regexp.MustCompile(
			`\bmem(ory)?\b`,
		), unless: regexp.MustCompile(`cache|total`), metrics: []string{"container_memory_usage_bytes"},
		why: "it holds the page cache, where the model's files lie, and which is given back when memory is needed", fix: "take container_memory_working_set_bytes",
	},
	{
		says: regexp.MustCompile(
			`\buptime\b`,
		), unless: regexp.MustCompile(`since|start`), metrics: []string{"process_start_time_seconds"},
		why: "it is the Unix time of the start", fix: "write time() - process_start_time_seconds",
	},
}

// asksFor reports whether some expression of the file has a word that begins so.
func (p *pass) asksFor(prefix string) bool {
	for w := range p.beside.words {
		if strings.HasPrefix(w, prefix) {
			return true
		}
	}
	return false
}

// misnamed reports a metric under words that do not fit it.
func (p *pass) misnamed() {
	text := p.claims()
	for _, m := range misnomers {
		if !m.says.MatchString(text) || m.unless != nil && m.unless.MatchString(text) ||
			m.with != "" && !p.asksFor(m.with) {
			continue
		}
		all := selectors(p.tree)
		fits := func(v *parser.VectorSelector) bool {
			name, _ := vllm.Canonical(nameOf(v))
			_, f := classOf(nameOf(v))
			known := slices.Contains(m.metrics, name) ||
				f.Type == engine.Histogram && slices.Contains(m.metrics, f.Name)
			return known &&
				!slices.ContainsFunc(v.LabelMatchers, func(l *labels.Matcher) bool { return l.Name == m.apart })
		}
		if len(all) == 0 || slices.ContainsFunc(all, func(v *parser.VectorSelector) bool { return !fits(v) }) ||
			slices.ContainsFunc(p.groupings(), func(l string) bool { return l == m.apart }) {
			continue
		}
		if _, ok := unwrapped(p.tree).(*parser.VectorSelector); !ok && p.quantityOf(all[0]).of == moment {
			continue // how long ago it was
		}
		p.report(
			p.tree.PositionRange(),
			fmt.Sprintf("beside it stands %q, and %s is something else: %s", strings.TrimSpace(m.says.FindString(text)),
				strings.Join(namesIn(p.tree), ", "), m.why),
			advice(m.fix),
		)
		return
	}
}

// saidOfReason are words for each reason for which a request is finished.
var saidOfReason = map[string]*regexp.Regexp{
	"stop":       regexp.MustCompile(`\b(stop\w*|eos|natural\w*|reason\w*|by (itself|themselves))\b|success|complet|finish`),
	"length":     regexp.MustCompile(`length|truncat|\bcut\b|max|limit|\blong|reason`),
	"error":      regexp.MustCompile(`error|fail|reason`),
	"abort":      regexp.MustCompile(`abort|cancel|client|disconnect|left|timeout|timed|interrupt|drop|kill|reason|\bgave up\b`),
	"repetition": regexp.MustCompile(`repe|loop|reason`),
}

// saidOfAll are words for all of the requests that are finished.
var saidOfAll = regexp.MustCompile(`\b(total|all|success\w*|finished|completed|completions)\b`)

// oneReason reports requests that finished for one reason, under words for all of them.
func (p *pass) oneReason() {
	text := labelsLegends.ReplaceAllString(p.panel.legend, "reason")
	if text == "__auto" || len(p.panel.legend) == 0 {
		text = "reason" // Grafana writes all labels
	}
	if len(p.mates()) == 1 {
		if p.panel.legend == "" || p.panel.legend == "__auto" {
			text = ""
		}
		text += " " + p.panel.title + " " + p.panel.description()
	}
	text = strings.ToLower(text)
	all := selectors(p.tree)
	if len(all) != 1 || !saidOfAll.MatchString(text) {
		return
	}
	if name, _ := vllm.Canonical(nameOf(all[0])); name != "vllm:request_success_total" {
		return
	}
	for _, m := range all[0].LabelMatchers {
		if m.Name != "finished_reason" || m.Type == labels.MatchNotEqual || m.Type == labels.MatchNotRegexp || !p.fixes(m) {
			continue
		}
		if words := saidOfReason[m.Value]; words != nil && !words.MatchString(text) {
			p.report(all[0].PositionRange(),
				fmt.Sprintf("beside it stands %q, and these are the requests that finished for one reason alone, %s", saidOfAll.FindString(text), m.Value),
				advice("name the reason, or take the others too"))
		}
	}
}

// ofNodes are words for nodes themselves, and perNode those for what each of them has.
var ofNodes, perNode = regexp.MustCompile(`\bnodes\b`), regexp.MustCompile(`\bgpus\b|\b(per|by|each|of|on|across|in|from) (the |all )?(\w+ )?nodes?\b`)

// gpusAsNodes reports the GPUs that nodes have under a title that speaks of nodes.
func (p *pass) gpusAsNodes() {
	v := plainSelector(unwrapped(p.tree))
	title := strings.ToLower(p.panel.title)
	if a, ok := scaledVector(p.tree).(*parser.AggregateExpr); ok && a.Op == parser.COUNT || v == nil || !ofNodes.MatchString(title) ||
		perNode.MatchString(title) || !strings.HasPrefix(nameOf(v), "kube_node_status_") {
		return
	}
	for _, m := range v.LabelMatchers {
		if m.Name == "resource" && m.Type == labels.MatchEqual && m.Value == "nvidia_com_gpu" {
			p.report(v.PositionRange(), "the title speaks of nodes, and each node says how many GPUs it has: these are GPUs",
				advice("write count(… > 0) or vector(0), or call them GPUs"))
		}
	}
}

// A misconception is what texts say at length of a metric, and what is not so.
type misconception struct {
	says, unless *regexp.Regexp // in lower case
	metric       string         // canonical
	apart        string         // a label by which it would be so
	why, fix     string
}

var misconceptions = []misconception{
	{
		says: regexp.MustCompile(
			`\b(prompt|input) tokens?\b[^.;\n]{0,40}\b(prefill (work|comput\w*|load|cost)|computed (by|on|in) (a |the |each |every )?(gpus?|prefill|engine|model)|prefilled)\b|\b(work|comput\w*) (of|in|by|during) (the )?prefill\b`,
		),
		unless: regexp.MustCompile(`cache|hits|by_source|whole prompt`), metric: "vllm:prompt_tokens_total", apart: "source",
		why: "it counts whole prompts, with the tokens that the cache held and nobody computes",
		fix: `take vllm:prompt_tokens_by_source_total{source="local_compute"}, or say that cached tokens are in it`,
	},
	{
		says: regexp.MustCompile(
			`\babort\w*\b[^.;,\n]{0,30}\b(client|user|caller|consumer)s?\b[^.;,\n]{0,20}\b(left|leav\w*|gone|goes|went|cancel\w*|disconnect\w*|hung|hang\w*|gave|giv\w*|drop\w*|clos\w*|abandon\w*)\b|` +
				`\b(client|user|caller|consumer)s?\b[^.;,\n]{0,10}\b(left|leav\w*|gone|went|cancel\w*|disconnect\w*|hung|hang\w*|gave|drop\w*|clos\w*|abandon\w*)\b[^.;,\n]{0,20}\babort`,
		),
		unless: regexp.MustCompile(`31503|\bnever\b|\bnot\b|n't\b|hardly|rarely|stays 0`), metric: "vllm:request_success_total",
		why: "finished_reason=abort stays 0 when clients leave (vllm-project/vllm#31503)",
		fix: "count those that leave at the gateway, or compare the HTTP requests with those that finish",
	},
}

// saidAtLength reports descriptions and texts that say of a metric what is not so.
func (p *pass) saidAtLength() {
	text := ""
	switch p.role {
	case panelRole:
		text = p.panel.description() + "\n" + strings.ToLower(p.panel.title) + "\n" + strings.ToLower(p.panel.legend)
	case alertRole:
		text = strings.ToLower(strings.Join(writtenIn(p.texts()), "\n"))
	}
	for _, m := range misconceptions {
		said := m.says.FindString(text)
		if said == "" || m.unless.MatchString(text) {
			continue
		}
		for _, v := range selectors(p.tree) {
			if name, _ := vllm.Canonical(nameOf(v)); name != m.metric || selectsBy(v, m.apart) {
				continue
			}
			p.report(v.PositionRange(), fmt.Sprintf("beside it stands %q: %s", said, m.why), advice(m.fix))
			break
		}
	}
}

// acceptanceLength are words for how many tokens a step gives.
var acceptanceLength = regexp.MustCompile(`\bbonus\b|\baccept(ance)? len|\btokens per (engine )?step`)

// bonusForgotten reports accepted tokens for each draft called what a step gives.
func (p *pass) bonusForgotten(b *parser.BinaryExpr, path []parser.Node) {
	added := slices.ContainsFunc(
		path,
		func(n parser.Node) bool { o, ok := n.(*parser.BinaryExpr); return ok && o.Op == parser.ADD },
	)
	if !added && acceptanceLength.MatchString(p.words()) {
		p.reportAs(
			catalog.Ticket,
			b.PositionRange(),
			"each draft gives one token more than those that are accepted: the one that the model itself adds",
			advice("add 1"),
		)
	}
}

// checkSameName finds lines of a panel that have one name: nobody can tell which is which.
func checkSameName(p *pass) {
	if p.role != panelRole || !slices.Contains(overTime, p.panel.kind) && !slices.Contains(oneNumber, p.panel.kind) ||
		p.panel.isTable() ||
		len(p.panel.node.get("transformations").elements()) > 0 ||
		slices.ContainsFunc(p.panel.overrides.elements(), func(o *node) bool {
			return o.at("matcher", "id").str() == "byFrameRefID"
		}) {
		return
	}
	for _, q := range p.mates() {
		if q == p.query {
			break
		}
		if q.tree == nil || !p.namedAlike(q) {
			continue
		}
		name := otherwise(p.panel.legend, "no legend")
		p.report(
			p.tree.PositionRange(),
			fmt.Sprintf(
				"another query of this panel gives its lines the same names (%s): nobody can tell which is which",
				name,
			),
			advice("say in the legend what each of them is"),
		)
		return
	}
	p.oneNameForMany()
}

// namedAlike reports whether another query's series have the names of this one's.
func (p *pass) namedAlike(q *query) bool {
	if program(firstOf(canonicals(p.tree))) != program(firstOf(canonicals(q.tree))) || replaced(p.tree) ||
		replaced(q.tree) ||
		strings.Join(strings.Fields(q.node.value), "") == strings.Join(strings.Fields(p.node.value), "") {
		return false // alternatives of which one is there
	}
	a, b := strings.TrimSpace(p.panel.legend), strings.TrimSpace(q.panel.legend)
	if a != b {
		return false
	}
	one := *p
	one.query = q
	l, r := p.labelsOf(p.tree), one.labelsOf(q.tree)
	named := l.names
	if a != "" && a != "__auto" {
		named = nil
		for _, m := range labelsLegends.FindAllStringSubmatch(a, -1) {
			named = append(named, m[1])
		}
		if len(named) == 0 && len(l.names)+len(r.names) > 0 && (l.exact || r.exact) && !slices.Equal(l.names, r.names) {
			return false
		}
	} else if !l.known || !l.exact || !r.known || !r.exact || len(l.names) == 0 || !slices.Equal(sorted(l.names), sorted(r.names)) {
		return false
	}
	return !slices.ContainsFunc(
		named,
		func(label string) bool { return valuesOf(p.tree, label) != valuesOf(q.tree, label) },
	)
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// replaced reports whether a name that some release has no more is asked for.
func replaced(n parser.Node) bool {
	return slices.ContainsFunc(namesIn(n), func(name string) bool {
		f, ok := dialect.Known(name)
		return ok && (f.Replacement != "" || f.Last != "")
	})
}

// valuesOf is what an expression's selectors ask of a label, as text.
func valuesOf(n parser.Node, label string) string {
	var out []string
	for _, v := range selectors(n) {
		for _, m := range v.LabelMatchers {
			if m.Name == label {
				out = append(out, m.String())
			}
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// oneNameForMany reports one name for the series of several servers or models, where other panels of the file
// tell them apart.
func (p *pass) oneNameForMany() {
	if p.panel.legend == "" || strings.ContainsAny(p.panel.legend, "{$[") || strings.HasPrefix(p.panel.legend, "__") ||
		!unaggregated(p.tree) {
		return
	}
	_, f := classOf(nameOf(selectors(p.tree)[0]))
	for _, label := range slices.Sorted(maps.Keys(p.beside.apart)) {
		if !slices.Contains(f.Labels, label) && !isTargetLabel(label, nil) && !labelSays(label, groupLabels) {
			continue
		}
		if slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool {
			return !slices.ContainsFunc(
				v.LabelMatchers,
				func(m *labels.Matcher) bool { return p.fixes(m) && m.Name == label },
			) &&
				!p.pinnedTarget(v)
		}) {
			p.reportAs(
				catalog.Info,
				p.tree.PositionRange(),
				fmt.Sprintf(
					"there is a series for each %s, as other panels have it, and all of them are called %q",
					label,
					p.panel.legend,
				),
				advice("aggregate them, or write {{"+label+"}} in the legend"),
			)
			return
		}
	}
}

// unaggregated reports whether an expression gives a series for each of an engine's.
func unaggregated(e parser.Expr) bool {
	out := len(selectors(e)) > 0
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			out = false
		case *parser.Call:
			out = out && !slices.Contains([]string{"absent", "scalar", "vector", "absent_over_time"}, n.Func.Name)
		case *parser.VectorSelector:
			_, f := classOf(nameOf(n))
			out = out && f.Engine == vllm.ID
		}
		return nil
	})
	return out
}

// engineSaid are words for an inference server.
var engineSaid = regexp.MustCompile(`\b(vllm|sglang|engine|inference)\b`)

// ofAnyProcess are the metrics that every program exposes.
var ofAnyProcess = regexp.MustCompile(`^(process|python|go)_\w+$`)

// everybodys reports a program's metrics by a name that all programs have, and without a selection.
func (p *pass) everybodys() {
	if !engineSaid.MatchString(p.claims()) {
		return
	}
	for _, v := range selectors(p.tree) {
		if ofAnyProcess.MatchString(nameOf(v)) && len(v.LabelMatchers) == 1 {
			p.reportAs(
				catalog.Info,
				v.PositionRange(),
				"every program that is scraped has "+nameOf(v)+", Prometheus itself too: they are all in it",
				advice(`select the job: {job="vllm"}`),
			)
			return
		}
	}
}

// selectsName reports whether a selector's patterns of names match a name.
func selectsName(v *parser.VectorSelector, name string) bool {
	named := false
	for _, m := range v.LabelMatchers {
		if m.Name == labels.MetricName {
			if !m.Matches(name) {
				return false
			}
			named = true
		}
	}
	return named
}

// createdToo returns a family of vLLM's of which a pattern of names selects both what is counted and when counting began; ""
// where there is none.
func createdToo(v *parser.VectorSelector) string {
	for _, f := range dialect.Families() {
		base, _ := strings.CutSuffix(f.Name, "_total")
		if f.Engine != vllm.ID || f.Type == engine.Gauge || !selectsName(v, base+"_created") {
			continue
		}
		for _, suffix := range []string{"_total", "_count", "_sum", "_bucket"} {
			if selectsName(v, base+suffix) {
				return base
			}
		}
	}
	return ""
}

// checkNamesCollide finds rates over several metrics, selected by a pattern of their names: a rate drops the name, and
// what then has the same labels is refused.
func checkNamesCollide(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok || nameOf(v) != "" || !under(path, rates...) || selectsName(v, "up") {
			return
		}
		by := map[string]string{}
		for _, f := range dialect.Families() {
			if f.Engine != vllm.ID || f.Type == engine.Gauge || f.Last != "" {
				continue
			}
			suffixes := []string{""}
			if f.Type == engine.Histogram {
				suffixes = []string{"_sum", "_count"}
			}
			for _, suffix := range suffixes {
				name, has := f.Name+suffix, strings.Join(sorted(f.Labels), ",")
				if !selectsName(v, name) {
					continue
				}
				if other := by[has]; other != "" {
					p.report(
						v.PositionRange(),
						fmt.Sprintf(
							"the pattern selects %s and %s, a rate drops their names, and their labels are the same: "+
								"Prometheus refuses the query",
							other,
							name,
						),
						advice("name one metric, or write a query for each"),
					)
					return
				}
				by[has] = name
			}
		}
	})
}

// valueInLegend reports legends that write {{value}}: Grafana writes labels there, and no series has one of this name.
func (p *pass) valueInLegend() {
	for _, m := range labelsLegends.FindAllStringSubmatch(p.panel.legend, -1) {
		if strings.EqualFold(m[1], "value") && !slices.Contains(p.labelsOfAny(p.tree).names, m[1]) {
			p.reportAs(
				catalog.Info,
				p.tree.PositionRange(),
				"the legend writes "+m[0]+", and Grafana writes labels there, not values: it is empty there",
				advice("take it out: a panel can show the last value beside the name"),
			)
			return
		}
	}
}

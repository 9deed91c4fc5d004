package audit

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
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
	{"the highest", regexp.MustCompile(`\b(fullest|busiest|hottest|slowest|worst|most loaded|longest|highest|largest|maximum|max|peak)\b`), []string{"max", "topk", "quantile"}},
	{"the lowest", regexp.MustCompile(`\b(emptiest|idlest|coolest|lowest|smallest|fastest|minimum)\b`), []string{"min", "bottomk", "quantile"}},
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
	other := slices.Contains(ops, "avg") || slices.Contains(ops, "min") && said != "the total" || slices.Contains(ops, "max")
	if said == "the average" && bare && ops[0] == "sum" && len(ops) == 1 && ofSeries(nameOf(v)).of == requests {
		other = true
	}
	if said == "the total" && (strings.Contains(strings.ToLower(nameOf(v)), "total") && bare || p.quantityOf(p.tree).of == share) {
		return // as a part of the name
	}
	if said == "" || !other || said == "the average" && !bare {
		return
	}
	p.report(p.tree.PositionRange(), fmt.Sprintf("beside it stands %s, and the query takes %s", said, strings.Join(ops, " of ")),
		advice("correct the one or the other"))
}

// overTheRange are words for all the time that a dashboard shows.
var overTheRange = regexp.MustCompile(`\b(in|over|during|for|within|of|across) (the |this )?(selected|dashboard|chosen|visible|displayed|whole|entire|time)? ?(time )?(range|period)\b|\bselected (time )?(range|window|period)\b`)

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
		p.reportText(at, 0, len(at.value), "the panel says the highest value over a span of time, and shows the last one", "reduce by max")
	case last && strings.Contains(text, "peak") && !slices.Contains(ops, "max") && !slices.Contains(ops, "topk") && !p.looksBack():
		p.reportText(at, 0, len(at.value), "the panel says peak, and shows the last value", "reduce by max")
	case !last && len(calcs) == 1 && slices.Contains([]string{"mean", "max", "min", "sum"}, calcs[0]) && moments.MatchString(text) &&
		!slices.ContainsFunc(statistics, func(s statistic) bool {
			return slices.Contains(s.given, calcs[0]) && s.words.MatchString(text)
		}):
		p.reportText(at, 0, len(at.value), "the panel says the present value, and shows the "+calcs[0]+" of all that the dashboard shows",
			"reduce by lastNotNull")
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
	p.reportText(at, 0, len(at.value), "the panel adds up its points: the number grows with how many of them are drawn", "take increase over $__range, and the last value")
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
	single := p.panel.isInstant() && slices.Contains(oneNumber, p.panel.kind) || len(calcs) == 1 && calcs[0] == "lastNotNull"
	if ranges, _ := p.ranges(); whole || !single || len(ranges) == 0 || !overTheRange.MatchString(p.claims()) ||
		p.panel.node.get("timeFrom").str() != "" {
		return
	}
	p.report(p.tree.PositionRange(), "the panel says the range that the dashboard shows, and the query looks at a shorter one",
		advice("write [$__range]"))
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
		if !ok || !under(path, "rate", "irate") && (!under(path, "increase") || !moments.MatchString(text)) {
			return
		}
		for _, at := range p.mentions {
			if at.start >= int(m.PositionRange().Start) && at.end <= int(m.PositionRange().End) && strings.Contains(p.node.value[at.start:at.end], "__range") {
				p.report(m.PositionRange(), "each point looks at as long a time as the dashboard shows: the line hardly moves, and changes with the zoom",
					suggestion{"write $__rate_interval", []edit{{p.node, at.start, at.end, "$__rate_interval"}}})
			}
		}
	})
}

// constantOverTime reports expressions of which every selector is evaluated at one moment.
func (p *pass) constantOverTime() {
	all := selectors(p.tree)
	if len(all) > 0 && !slices.ContainsFunc(all, func(v *parser.VectorSelector) bool { return v.StartOrEnd == 0 && v.Timestamp == nil }) {
		p.report(p.tree.PositionRange(), "@ evaluates every point at the same moment: the panel draws a flat line", advice("take @ out"))
	}
}

// checkTopOfEachStep finds topk drawn over time: it chooses anew at every step.
func checkTopOfEachStep(p *pass) {
	if p.role != panelRole || !p.panel.drawnOverTime() {
		return
	}
	a, ok := value(p.tree).(*parser.AggregateExpr)
	if !ok || a.Op != parser.TOPK && a.Op != parser.BOTTOMK ||
		slices.ContainsFunc(selectors(a), func(v *parser.VectorSelector) bool { return v.StartOrEnd != 0 }) {
		return
	}
	p.report(a.PositionRange(), a.Op.String()+" chooses anew at every step: the panel shows all series that ever were among them, with gaps",
		advice("show a table or bars of one moment (instant), or choose by topk(…, … @ end())"))
}

// ranks are colours by how good what they mark is; of other colours nobody knows.
var ranks = []struct {
	colour *regexp.Regexp
	rank   int
}{
	{regexp.MustCompile(`(?i)green|#(73bf69|56a64b|37872d|299c46|19730e|96d98d|32ac2d|508642)|rgba?\(\s*50,\s*172,\s*45`), 2},
	{regexp.MustCompile(`(?i)yellow|orange|#(eab839|fade2a|ff9830|f2cc0c|ef843c|ed8128)|rgba?\(\s*237,\s*129,\s*40`), 1},
	{regexp.MustCompile(`(?i)red|#(f2495c|c4162a|e02f44|d44a3a|bf1b00|f53636|e24d42)|rgba?\(\s*245,\s*54,\s*54`), 0},
}

func rankOf(colour string) int {
	for _, r := range ranks {
		if r.colour.MatchString(colour) {
			return r.rank
		}
	}
	return -1
}

// checkWrongWayRound finds steps that colour good values red and bad ones green, and texts of values
// that say up for what is down.
func checkWrongWayRound(p *pass) {
	if p.role != panelRole || p.panel.defaults == nil || p.mates()[0] != p.query {
		return
	}
	for _, q := range p.mates() {
		if q.tree == nil || p.directionOf(q.tree) != p.directionOf(p.tree) {
			return
		}
	}
	p.mappedWrong()
	steps := p.panel.defaults.at("thresholds", "steps").elements()
	d := p.directionOf(p.tree)
	if len(steps) > 1 && p.panel.coloured() && !p.panel.otherColours() && isWork(p.tree) {
		first, last := rankOf(steps[0].get("color").str()), rankOf(steps[len(steps)-1].get("color").str())
		n := steps[0].get("color")
		if v, err := strconv.ParseFloat(steps[1].get("value").scalar(), 64); first == 0 || first == 2 && last == 0 && err == nil && v != 80 && !slices.Contains(ofWork, canonicals(p.tree)[0]) {
			p.reportText(n, 0, len(n.value), map[bool]string{
				true: "a server of which nobody asks anything is red", false: "a server that does much is red, and one that does nothing green",
			}[first == 0], "start with a colour that says nothing, such as blue")
		}
		return
	}
	if n := p.panel.defaults.at("thresholds", "steps"); d == highIsBad && len(steps) > 1 && p.panel.coloured() && !p.panel.otherColours() &&
		rankOf(steps[0].get("color").str()) == 1 && rankOf(steps[len(steps)-1].get("color").str()) == 0 {
		p.reportText(n.elements()[0].get("color"), 0, len(steps[0].get("color").value), "the best of these values has a warning's colour", "start with green")
		return
	}
	if d == undirected || len(steps) < 2 || !p.panel.coloured() || p.panel.otherColours() {
		return
	}
	first, last := rankOf(steps[0].get("color").str()), rankOf(steps[len(steps)-1].get("color").str())
	if first < 0 || last < 0 || first+last != 2 || first == last || (first > last) == (d == highIsBad) {
		return
	}
	if v, err := strconv.ParseFloat(steps[1].get("value").scalar(), 64); err == nil && len(steps) == 2 && v == 80 && p.quantityOf(p.tree) != percent {
		return // as Grafana writes it by itself
	}
	if v, err := strconv.ParseFloat(steps[1].get("value").scalar(), 64); err == nil && len(steps) == 2 && first == 0 && v <= 1 &&
		p.quantityOf(p.tree) != ratio {
		return // red for what is not there
	}
	n := steps[0].get("color")
	good := map[direction]string{highIsGood: "high", highIsBad: "low"}[d]
	p.reportText(n, 0, len(n.value), fmt.Sprintf("of these values the %s ones are the good ones, and they are coloured %q", good,
		map[direction]string{highIsGood: steps[len(steps)-1].get("color").str(), highIsBad: n.value}[d]), "turn the colours round")
}

// ofWork are the gauges of what servers do for their clients.
var ofWork = []string{"vllm:num_requests_running", "sglang:num_running_reqs", "sglang:gen_throughput"}

// isWork reports whether an expression says how much servers do for their clients: how fast they count it, or how much
// they are at.
func isWork(e parser.Expr) bool {
	names := canonicals(e)
	if len(names) != 1 {
		return false
	}
	if slices.Contains(ofWork, names[0]) || ofSeries(names[0]).of == tokenRate {
		_, ok := unwrapped(unscaled(e)).(*parser.VectorSelector)
		return ok
	}
	c, ok := unwrapped(unscaled(e)).(*parser.Call)
	return ok && (c.Func.Name == "rate" || c.Func.Name == "irate") &&
		(slices.Contains(work, names[0]) || slices.Contains(cachedTokens, strings.TrimSuffix(names[0], "_total")))
}

// otherColours reports whether the panel does not take its colours from the steps.
func (c *panelContext) otherColours() bool {
	mode := c.defaults.at("color", "mode").str()
	return mode != "" && mode != "thresholds" && !slices.Contains([]string{"gauge", "bargauge"}, c.kind) ||
		c.node.at("options", "colorMode").str() == "none"
}

// Texts for states.
var (
	saysUp   = regexp.MustCompile(`(?i)^\W*(up|ok|okay|healthy|online|ready|alive|running|available|yes|true|connected|active|serving)\W*$`)
	saysDown = regexp.MustCompile(`(?i)^\W*(down|not ok|unhealthy|offline|not ready|dead|stopped|unavailable|no|false|failed|fail|critical|disconnected|inactive|error)\W*$`)
)

// mappedWrong reports texts for 0 and 1 that are the wrong way round.
func (p *pass) mappedWrong() {
	v, ok := unwrapped(p.tree).(*parser.VectorSelector)
	if !ok || p.directionOf(v) != highIsGood || p.quantityOf(v).known() {
		return
	}
	texts := map[string]*node{}
	for _, m := range p.panel.defaults.get("mappings").elements() {
		if m.get("type").str() == "value" {
			for _, f := range m.get("options").all() {
				texts[f.key] = f.value.get("text")
			}
		} else if value := m.get("value").scalar(); value != "" {
			texts[value] = m.get("text") // the panel of old
		}
	}
	if saysUp.MatchString(texts["0"].str()) && saysDown.MatchString(texts["1"].str()) ||
		texts["1"] == nil && saysUp.MatchString(texts["0"].str()) || texts["0"] == nil && saysDown.MatchString(texts["1"].str()) {
		n := texts["0"]
		if n == nil {
			n = texts["1"]
		}
		p.reportText(n, 0, len(n.value), nameOf(v)+" is 1 where it is up, and the text says the reverse", "turn the texts round")
	}
}

// infoAsValue reports a metric whose value is always 1 shown for its value: what it tells stands in its
// labels.
func (p *pass) infoAsValue() {
	v, ok := unwrapped(p.tree).(*parser.VectorSelector)
	if !ok || !strings.HasSuffix(nameOf(v), "_info") || strings.HasSuffix(nameOf(v), "lora_requests_info") || p.panel.isTable() {
		return
	}
	if a := aggregation(p.tree); a != nil && a.Op == parser.SUM {
		return // how many there are
	}
	kind, mode := p.panel.kind, p.panel.node.at("options", "textMode").str()
	if !slices.Contains(oneNumber, kind) && !p.panel.drawnOverTime() || mode == "name" || len(p.panel.defaults.get("mappings").elements()) > 0 ||
		mode != "value" && labelsLegends.MatchString(p.panel.legend) || holds(p.claims(), []string{"up", "present", "status", "alive", "count", "number"}) {
		return
	}
	if fields := p.panel.node.at("options", "reduceOptions", "fields").str(); fields != "" {
		return // a label's
	}
	p.report(p.tree.PositionRange(), nameOf(v)+" is always 1: what it tells stands in its labels",
		advice("show a label: in the legend with the text mode Name, or as a column of a table"))
}

func (c *panelContext) isTable() bool {
	return strings.Contains(strings.ToLower(c.kind), "table") || c.target.get("format").str() == "table"
}

// addends are series by those that hold them already.
var addends = map[string][]string{
	"vllm:num_requests_waiting":               {"vllm:num_requests_waiting_by_reason"},
	"vllm:prompt_tokens_total":                {"vllm:prompt_tokens_cached_total", "vllm:prompt_tokens_by_source_total"},
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
			p.report(p.tree.PositionRange(), own[0]+" is a part of "+whole[0]+", on which it is stacked: it is counted twice", advice("do not stack them"))
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

// stacked reports whether lines are drawn on top of one another, so that the uppermost is their sum.
func (c *panelContext) stacked() bool {
	if slices.ContainsFunc(c.overrides.elements(), func(o *node) bool {
		return slices.ContainsFunc(o.get("properties").elements(), func(n *node) bool { return n.get("id").str() == "custom.stacking" })
	}) {
		return false
	}
	fields := c.defaults
	if fields == nil {
		fields = c.node.at("fieldConfig", "defaults")
	}
	mode := fields.at("custom", "stacking", "mode").str()
	return slices.Contains(overTime, c.kind) && (mode == "normal" || mode == "percent") ||
		c.kind == "graph" && c.node.get("stack").scalar() == "true"
}

// checkStackedValues finds values stacked that do not add up: percentiles, means, shares of capacity.
func checkStackedValues(p *pass) {
	if p.role != panelRole || !p.panel.stacked() || p.mates()[0] != p.query {
		return
	}
	if has := p.labelsOf(p.tree); !p.severalQueries() && has.known && has.exact && len(has.names) == 0 {
		return // one line
	}
	is, what := p.quantityOf(p.tree), ""
	_, of := statisticsOf(p.tree)
	_, plain := of.(*parser.VectorSelector)
	switch {
	case p.isPercentile(p.tree):
		what = "percentiles"
	case is.of == span && isMean(unscaled(p.tree)) && !p.severalNames(): // those of a request's stages add up
		what = "means"
	case plain && is.known() && !is.of.additive():
		what = string(is.of) + " of several servers or GPUs"
	default:
		return
	}
	p.report(p.tree.PositionRange(), "the panel stacks its lines, and "+what+" do not add up: each is drawn at the sum of those below it", advice("switch stacking off"))
}

// checkRoundedAway finds values below 1 shown without decimals.
func checkRoundedAway(p *pass) {
	if p.role != panelRole || p.panel.defaults.get("decimals").scalar() != "0" || !slices.Contains([]string{"", "none", "short"}, p.panel.unit) {
		return
	}
	q, ok := p.quantileOf(p.tree)
	name := q.family
	if !ok && isMean(unscaled(p.tree)) {
		name, _ = strings.CutSuffix(nameOf(selectors(p.tree)[0]), "_sum")
	}
	canonical, _ := vllm.Canonical(name)
	is := p.quantityOf(p.tree)
	if is == ratio || is == seconds && slices.Contains(promptly, strings.TrimPrefix(canonical, engine.Canonical)) {
		n := p.panel.defaults.get("decimals")
		p.reportText(n, 0, len(n.value), fmt.Sprintf("the values are %s, mostly below 1: without decimals the panel shows 0", is), "leave decimals out, or set the unit")
	}
}

// checkCumulativeBuckets finds buckets taken for counts of their own: each holds all below it.
func checkCumulativeBuckets(p *pass) {
	if p.role != panelRole || !slices.Contains([]string{"heatmap", "bargauge", "barchart"}, p.panel.kind) || p.panel.target.get("format").str() == "heatmap" ||
		p.panel.isTable() || p.panel.node.at("options", "calculate").scalar() == "true" || len(p.panel.node.get("transformations").elements()) > 0 {
		return
	}
	v := plainSelector(unwrapped(p.tree))
	if v == nil || !p.isBuckets(nameOf(v)) || slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == labels.BucketLabel }) {
		return
	}
	if a := aggregation(p.tree); a != nil && slices.Contains(a.Grouping, labels.BucketLabel) == a.Without {
		return // above
	}
	p.report(p.tree.PositionRange(), "each bucket holds all below it, and only with the format heatmap Grafana takes them apart", advice(`set the query's format to heatmap`))
}

// checkDeadOverride finds overrides of fields that a panel does not have.
func checkDeadOverride(p *pass) {
	if p.role != panelRole || p.panel.perses || p.mates()[0] != p.query || len(p.panel.node.get("transformations").elements()) > 0 ||
		p.panel.isTable() || len(p.panel.node.get("targets").elements()) != len(p.mates()) {
		return
	}
	names := []string{"Time", "Value"}
	for _, q := range p.mates() {
		legend := q.panel.legend
		if legend == "" || strings.Contains(legend, "{{") || strings.Contains(legend, "$") || strings.HasPrefix(legend, "__") || strings.Contains(legend, "[[") {
			return
		}
		names = append(names, legend)
	}
	for _, o := range p.panel.overrides.elements() {
		option := o.at("matcher", "options")
		if o.at("matcher", "id").str() != "byName" || option.str() == "" || slices.Contains(names, option.str()) || len(o.get("properties").elements()) == 0 {
			continue
		}
		p.reportText(option, 0, len(option.value), fmt.Sprintf("the panel has no series %q, only %s: what is set for it applies to nothing", option.str(),
			strings.Join(names[2:], ", ")), "write the name as the legend has it")
		return
	}
}

// newVariables calls fn with the variables of a dashboard, once for each.
func (p *pass) newVariables(fn func(v variable)) {
	if p.role != panelRole || p.panel.perses {
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
			p.reportText(v.all, 0, len(v.all.value), "no regular expression: behind =~ the query fails where all are chosen", `write ".*", or leave it out`)
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
	p.reportAs(catalog.Ticket, p.tree.PositionRange(), "the panel is drawn once for each $"+n.str()+", and no query asks for it: all of them show the same",
		advice("select by $"+n.str()+" in the query"))
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
		p.report(c.PositionRange(), fmt.Sprintf("targets that have gone are found for %s with what they last said", render.Span(m.Range)),
			advice("take the selector alone"))
	}
}

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
		if l != "" && r != "" && l != r && countedWords[l].MatchString(said[2]) && countedWords[r].MatchString(said[1]) {
			p.report(b.PositionRange(), fmt.Sprintf("the text says %s per %s, and the query divides them the other way round", r, l), advice("turn the quotient round"))
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
			if words.MatchString(left) && words.MatchString(per[2]) && !words.MatchString(per[1]) && !words.MatchString(right) {
				n := calc.get("left")
				if n.kind != text {
					n = p.node
				}
				p.reportText(n, 0, len(n.value), fmt.Sprintf("the text says something per %s, and the transformation divides the %s", of, of), "turn left and right round")
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
	with         string         // a word that some expression of the file holds
	why, fix     string
}

// finished are counts and histograms to which a request is added when it ends.
var finished = []string{
	"vllm:request_success_total", "vllm:e2e_request_latency_seconds", "vllm:request_prompt_tokens", "vllm:request_generation_tokens",
}

// misnomers are taken from what vLLM counts when, in vllm/v1/metrics/loggers.py and stats.py.
var misnomers = []misnomer{
	{
		says: regexp.MustCompile(`\b(incoming|arriv\w*|inbound|offered|submitted)\b`), unless: regexp.MustCompile(`tokens?\b|finish|complet`), metrics: finished,
		why: "it counts requests when they finish, and aborted ones hardly ever: a server that is stuck seems to get none",
		fix: "count them with http_requests_total or at the gateway, or call them finished",
	},
	{
		says: regexp.MustCompile(`\b(clients?|end.?users?|network)\b`), unless: regexp.MustCompile(`without|exclud|server|not |before`),
		metrics: []string{"vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds", "vllm:inter_token_latency_seconds"},
		why:     "the server's time ends before detokenization, HTTP and the network: clients see more", fix: "measure at the gateway or with a client, or call it the server's",
	},
	{
		says:    regexp.MustCompile(`\b(computed|uncached|non.?cached)\b|cache hits left out|(without|excluding|minus) (prefix.)?cache`),
		metrics: []string{"vllm:prompt_tokens_total", "vllm:request_prompt_tokens"}, apart: "source",
		why: "it counts whole prompts, with the tokens that the cache held", fix: `take vllm:prompt_tokens_by_source_total{source="local_compute"}, or vllm:request_prefill_kv_computed_tokens`,
	},
	{
		says: regexp.MustCompile(`\b(live|real.?time|instantaneous|in.?flight|current(ly)?|right now)\b`), metrics: []string{"vllm:request_prompt_tokens", "vllm:request_generation_tokens"},
		why: "it is observed when a request finishes: it lags by as long as requests take, and jumps", fix: "take vllm:prompt_tokens_total or vllm:generation_tokens_total",
	},
	{
		says: regexp.MustCompile(`\bgenerat|\boutput|\bcompletion`), unless: regexp.MustCompile(`max|limit|param|requested|allow|ask|budget|cap`),
		metrics: []string{"vllm:request_params_max_tokens"},
		why:     "it is what clients allow, not what is generated", fix: "take vllm:request_generation_tokens",
	},
	{
		says: regexp.MustCompile(`per.(output.)?token|\btpot\b`), unless: regexp.MustCompile(`inter.?token|\bitl\b|between`), with: "spec_decode_num_drafts_total",
		metrics: []string{"vllm:inter_token_latency_seconds"},
		why:     "with speculative decoding it is observed once for each step, which gives several tokens", fix: "take vllm:request_time_per_output_token_seconds",
	},
	{
		says: regexp.MustCompile(`\b(hits?|quer(y|ies)|lookups?|misses)\s*(/|per)\s*s(ec(ond)?)?\b`), unless: regexp.MustCompile(`tok`),
		metrics: []string{
			"vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total", "vllm:external_prefix_cache_hits_total",
			"vllm:external_prefix_cache_queries_total",
		},
		why: "it counts tokens, not lookups", fix: "call them tokens per second",
	},
	{
		says: regexp.MustCompile(`\bmem(ory)?\b`), unless: regexp.MustCompile(`cache|total`), metrics: []string{"container_memory_usage_bytes"},
		why: "it holds the page cache, where the model's files lie, and which is given back when memory is needed", fix: "take container_memory_working_set_bytes",
	},
	{
		says: regexp.MustCompile(`\buptime\b`), unless: regexp.MustCompile(`since|start`), metrics: []string{"process_start_time_seconds"},
		why: "it is the Unix time of the start", fix: "write time() - process_start_time_seconds",
	},
}

// misnamed reports a metric under words that do not fit it.
func (p *pass) misnamed() {
	text := p.claims()
	for _, m := range misnomers {
		if !m.says.MatchString(text) || m.unless != nil && m.unless.MatchString(text) || m.with != "" && !p.beside.words[m.with] {
			continue
		}
		all := selectors(p.tree)
		fits := func(v *parser.VectorSelector) bool {
			name, _ := vllm.Canonical(nameOf(v))
			_, f := classOf(nameOf(v))
			known := slices.Contains(m.metrics, name) || f.Type == engine.Histogram && slices.Contains(m.metrics, f.Name)
			return known && !slices.ContainsFunc(v.LabelMatchers, func(l *labels.Matcher) bool { return l.Name == m.apart })
		}
		if len(all) == 0 || slices.ContainsFunc(all, func(v *parser.VectorSelector) bool { return !fits(v) }) ||
			slices.ContainsFunc(p.groupings(), func(l string) bool { return l == m.apart }) {
			continue
		}
		if _, ok := unwrapped(p.tree).(*parser.VectorSelector); !ok && p.quantityOf(all[0]).of == moment {
			continue // how long ago it was
		}
		p.report(p.tree.PositionRange(), fmt.Sprintf("beside it stands %q, and %s is something else: %s", strings.TrimSpace(m.says.FindString(text)),
			strings.Join(namesIn(p.tree), ", "), m.why), advice(m.fix))
		return
	}
}

// acceptanceLength are words for how many tokens a step gives.
var acceptanceLength = regexp.MustCompile(`\bbonus\b|\baccept(ance)? len|\btokens per (engine )?step`)

// bonusForgotten reports accepted tokens for each draft called what a step gives.
func (p *pass) bonusForgotten(b *parser.BinaryExpr, path []parser.Node) {
	added := slices.ContainsFunc(path, func(n parser.Node) bool { o, ok := n.(*parser.BinaryExpr); return ok && o.Op == parser.ADD })
	if !added && acceptanceLength.MatchString(p.words()) {
		p.reportAs(catalog.Ticket, b.PositionRange(), "each draft gives one token more than those that are accepted: the one that the model itself adds", advice("add 1"))
	}
}

// binaryUnits are Grafana's names of units of powers of 1024, and those of 1000 that people take for them.
var binaryUnits = map[string]string{"kbytes": "deckbytes", "mbytes": "decmbytes", "gbytes": "decgbytes", "tbytes": "dectbytes"}

// powersOfTen reports a division by 1e9 under a unit that says gibibytes, and the reverse.
func (p *pass) powersOfTen() {
	b, ok := unparen(p.tree).(*parser.BinaryExpr)
	is := p.quantityOf(p.tree)
	if !ok || b.Op != parser.DIV || is.of != size {
		return
	}
	by, ok := constant(b.RHS)
	shown := panelUnits[p.panel.unit]
	if !ok || math.Abs(by-is.scale) > 1e-9*by || shown.of != size || !shown.is(is) || math.Abs(shown.scale-is.scale) < 1e-9*is.scale {
		return
	}
	for binary, decimal := range binaryUnits {
		if to := map[string]string{binary: decimal, decimal: binary}[p.panel.unit]; to != "" && math.Abs(panelUnits[to].scale-is.scale) < 1e-9*is.scale {
			p.add(Finding{
				Severity: catalog.Info, Fragment: p.panel.unit, Why: fmt.Sprintf("divided by %s, and the unit %s is another: %.2g %% off", short(by), p.panel.unit, 100*math.Abs(shown.scale/is.scale-1)),
				Fix: "write " + to,
			}, p.node, 0)
		}
	}
}

// checkSameName finds lines of a panel that have one name: nobody can tell which is which.
func checkSameName(p *pass) {
	if p.role != panelRole || !slices.Contains(overTime, p.panel.kind) && !slices.Contains(oneNumber, p.panel.kind) || p.panel.isTable() ||
		len(p.panel.node.get("transformations").elements()) > 0 || slices.ContainsFunc(p.panel.overrides.elements(), func(o *node) bool {
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
		p.report(p.tree.PositionRange(), fmt.Sprintf("another query of this panel gives its lines the same names (%s): nobody can tell which is which", name),
			advice("say in the legend what each of them is"))
		return
	}
	p.oneNameForMany()
}

// namedAlike reports whether another query's series have the names of this one's.
func (p *pass) namedAlike(q *query) bool {
	if program(firstOf(canonicals(p.tree))) != program(firstOf(canonicals(q.tree))) || replaced(p.tree) || replaced(q.tree) ||
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
	return !slices.ContainsFunc(named, func(label string) bool { return valuesOf(p.tree, label) != valuesOf(q.tree, label) })
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
	if p.panel.legend == "" || strings.ContainsAny(p.panel.legend, "{$[") || strings.HasPrefix(p.panel.legend, "__") || !unaggregated(p.tree) {
		return
	}
	_, f := classOf(nameOf(selectors(p.tree)[0]))
	for _, label := range slices.Sorted(maps.Keys(p.beside.apart)) {
		if !slices.Contains(f.Labels, label) && !isTargetLabel(label, nil) && !labelSays(label, groupLabels) {
			continue
		}
		if slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool {
			return !slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return p.fixes(m) && m.Name == label }) && !p.pinnedTarget(v)
		}) {
			p.reportAs(catalog.Info, p.tree.PositionRange(), fmt.Sprintf("there is a series for each %s, as other panels have it, and all of them are called %q", label, p.panel.legend),
				advice("aggregate them, or write {{"+label+"}} in the legend"))
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

// misplaced are options that a panel does not have, and where those are that it reads.
var misplaced = map[string]string{
	"thresholds": "fieldConfig.defaults.thresholds", "unit": "fieldConfig.defaults.unit", "decimals": "fieldConfig.defaults.decimals",
	"min": "fieldConfig.defaults.min", "max": "fieldConfig.defaults.max", "minVizValue": "fieldConfig.defaults.min",
	"maxVizValue": "fieldConfig.defaults.max", "noDataText": "fieldConfig.defaults.noValue", "mappings": "fieldConfig.defaults.mappings",
}

// checkMisplacedOption finds options at a place where the panel does not look for them.
func checkMisplacedOption(p *pass) {
	options := p.panelOptions()
	if options == nil || options.get("fieldOptions") != nil || options.get("valueOptions") != nil {
		return // as they were in former releases
	}
	for _, f := range options.all() {
		to := misplaced[f.key]
		if to == "" || f.value.kind == null || len(f.value.elements()) == 0 && f.value.kind == list {
			continue
		}
		n := f.value
		if n.kind == object || n.kind == list {
			n = p.node
		}
		p.reportText(n, 0, len(n.value), "options."+f.key+" is where no panel of today looks for it: it changes nothing", "move it to "+to)
	}
}

func (p *pass) panelOptions() *node {
	if p.role != panelRole || p.panel.perses || p.mates()[0] != p.query ||
		!slices.Contains([]string{"stat", "gauge", "bargauge", "timeseries", "table", "piechart"}, p.panel.kind) {
		return nil
	}
	return p.panel.node.get("options")
}

// ofObjects are kube-state-metrics' series of how many replicas something has, by what it is.
var ofObjects = regexp.MustCompile(`^kube_(deployment|statefulset|daemonset|replicaset|horizontalpodautoscaler)_(spec|status)_\w*replicas\w*$`)

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
			p.report(a.PositionRange(), fmt.Sprintf("of several %ss this shows the %s one alone", m[1], map[parser.ItemType]string{parser.MAX: "largest", parser.MIN: "smallest", parser.AVG: "average"}[a.Op]),
				suggestion{"write sum, or group by " + m[1], []edit{{p.node, int(a.PosRange.Start), int(a.PosRange.Start) + len(a.Op.String()), "sum"}}})
		}
	}
}

func unwrappedOnce(e parser.Expr) parser.Expr { return value(unscaled(e)) }

// zeroBeside reports a zero that stands beside every value of a panel of numbers.
func (p *pass) zeroBeside() {
	or, ok := unparen(p.tree).(*parser.BinaryExpr)
	if !ok || or.Op != parser.LOR || !isCall(unparen(or.RHS), "vector") || !slices.Contains(oneNumber, p.panel.kind) || or.VectorMatching.On {
		return
	}
	if c := unparen(or.RHS).(*parser.Call); p.isEmptySet(or.LHS) || len(selectors(c)) > 0 {
		return
	}
	p.reportAs(catalog.Ticket, or.RHS.PositionRange(), "the zero has no labels, and the series beside it have: it is always there too, as a number of its own",
		advice("aggregate the left side to one series, or set the panel's noValue"))
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
		if slices.Contains(rates, n.Func.Name) || strings.HasSuffix(n.Func.Name, "_over_time") {
			return plainSelector(n) == nil
		}
		return true
	case *parser.BinaryExpr:
		if _, ok := constant(n.RHS); ok || n.VectorMatching != nil && !n.VectorMatching.On {
			return p.isEmptySet(n.LHS)
		}
		return true
	case *parser.VectorSelector:
		return p.records[nameOf(n)] != nil
	}
	return true
}

// checkSeriesInTable finds tables of what is drawn over time: one series' moments, and not a row for each series.
func checkSeriesInTable(p *pass) {
	if p.role != panelRole || p.panel.kind != "table" || p.panel.isTabular() || len(p.panel.node.get("transformations").elements()) > 0 {
		return
	}
	p.report(p.tree.PositionRange(), "without the format table the panel lists the moments of one series, and not the series", advice("set the query to the format table and to instant"))
}

// isTabular reports whether a query gives rows and not lines.
func (c *panelContext) isTabular() bool {
	return slices.Contains([]string{"table", "logs"}, c.target.get("format").str()) || c.target.get("instant").scalar() == "true" || c.perses
}

// coarse are times that are mostly shorter than their histogram's first edge.
var coarse = []string{"request_queue_time_seconds"}

// lastOfHTTP is where the buckets of http_request_duration_seconds end, in seconds, as prometheus-fastapi-instrumentator makes
// them by itself.
const lastOfHTTP = 1.0

// edgesOfPanel reports percentiles that a panel shows and that their histogram's buckets do not reach: mostly below the first
// edge, with no mean beside them, or above the last.
func (p *pass) edgesOfPanel() {
	q, ok := p.quantileOf(unwrapped(p.tree))
	if p.role != panelRole || !ok || q.q <= 0 || q.q >= 1 {
		return
	}
	edges := p.surface.edgesOf(q.family)
	canonical, _ := vllm.Canonical(q.family)
	description := p.panel.description()
	last := lastOfHTTP
	if len(edges) > 0 {
		last = edges[len(edges)-1].value
	}
	switch {
	case canonical == "http_request_duration_seconds" && last <= lastOfHTTP && q.q >= 0.9 && p.ofEngine(q.family):
		p.reportAs(catalog.Ticket, p.tree.PositionRange(), fmt.Sprintf("the buckets of %s end at %s s: an answer takes longer, and the percentile never reads more", q.family,
			short(last)), advice("take http_request_duration_highr_seconds, or vllm:e2e_request_latency_seconds"))
	case slices.Contains(coarse, strings.TrimPrefix(canonical, engine.Canonical)) && len(edges) > 0 && edges[0].value >= 0.3:
		if strings.Contains(description, "edge") || strings.Contains(description, "bucket") || slices.ContainsFunc(p.mates(), func(o *query) bool {
			return o.tree != nil && slices.Contains(namesIn(o.tree), q.family+"_sum")
		}) {
			return
		}
		p.reportAs(catalog.Info, p.tree.PositionRange(), fmt.Sprintf("the first bucket ends at %s s, and mostly it takes less: the percentile reads %s s where nobody waits (vllm-project/vllm#48175)",
			short(edges[0].value), short(q.q*edges[0].value)), advice("show the mean beside it: "+q.family+"_sum over "+q.family+"_count"))
	}
}

// ofEngine reports whether a histogram of HTTP is an engine's, as far as the file tells.
func (p *pass) ofEngine(family string) bool {
	return p.ofServers() && slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool {
		return strings.HasPrefix(nameOf(v), family) && p.isEngines(v) != no
	})
}

// description is what a panel says of itself at length, in lower case.
func (c *panelContext) description() string {
	return strings.ToLower(c.node.get("description").str() + c.long)
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
			p.reportAs(catalog.Info, v.PositionRange(), "every program that is scraped has "+nameOf(v)+", Prometheus itself too: they are all in it", advice(`select the job: {job="vllm"}`))
			return
		}
	}
}

var totalSaid = regexp.MustCompile(`\btotal\b`)

// totalOfWindow reports a total that is of a span of time which nothing names.
func (p *pass) totalOfWindow() {
	c, ok := unwrapped(unscaled(p.tree)).(*parser.Call)
	if !ok || c.Func.Name != "increase" || !slices.Contains(oneNumber, p.panel.kind) || !totalSaid.MatchString(p.claims()) {
		return
	}
	ranges, unknown := p.ranges()
	if unknown || len(ranges) != 1 || spanSaid.MatchString(p.claims()) || overTheRange.MatchString(p.claims()) {
		return
	}
	p.reportAs(catalog.Info, c.PosRange, "the panel says total, and the query looks at "+render.Span(ranges[0])+" alone", advice("name the span, or write [$__range]"))
}

// spanSaid is a span of time in a text.
var spanSaid = regexp.MustCompile(`\b\d+\s*(s|m|min|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\b|\b(today|daily|hourly|weekly|hour|day|week|month|recent|window)\b`)

// guardOfNothing reports a number behind the "or" of a divisor, which is there only where the divisor is not: it keeps no
// division by zero away.
func (p *pass) guardOfNothing(b *parser.BinaryExpr) {
	or, ok := unparen(b.RHS).(*parser.BinaryExpr)
	if !ok || b.Op != parser.DIV || or.Op != parser.LOR || !isCall(unparen(or.RHS), "vector") {
		return
	}
	if v, ok := constant(unparen(or.RHS).(*parser.Call).Args[0]); ok && v != 0 {
		p.reportAs(catalog.Info, or.PositionRange(), "the number stands in where there is no divisor, and not where it is 0: it keeps no division by zero away", advice("write (… > 0), or clamp_min with a small number"))
	}
}

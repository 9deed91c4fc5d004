package audit

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

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
	p.report(
		a.PositionRange(),
		a.Op.String()+" chooses anew at every step: the panel shows all series that ever were among them, with gaps",
		advice("show a table or bars of one moment (instant), or choose by topk(…, … @ end())"),
	)
}

// ranks are colours by how good what they mark is; of other colours nobody knows.
var ranks = []struct {
	colour *regexp.Regexp
	rank   int
}{
	{
		regexp.MustCompile(
			`(?i)green|#(73bf69|56a64b|37872d|299c46|19730e|96d98d|32ac2d|508642)|rgba?\(\s*50,\s*172,\s*45`,
		),
		2,
	},
	{
		regexp.MustCompile(`(?i)yellow|orange|#(eab839|fade2a|ff9830|f2cc0c|ef843c|ed8128)|rgba?\(\s*237,\s*129,\s*40`),
		1,
	},
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
		if v, err := strconv.ParseFloat(steps[1].get("value").scalar(), 64); first == 0 ||
			first == 2 && last == 0 && err == nil && v != 80 && !slices.Contains(ofWork, canonicals(p.tree)[0]) {
			p.reportText(n, 0, len(n.value), map[bool]string{
				true: "a server of which nobody asks anything is red", false: "a server that does much is red, and one that does nothing green",
			}[first == 0], "start with a colour that says nothing, such as blue")
		}
		return
	}
	if n := p.panel.defaults.at("thresholds", "steps"); d == highIsBad && len(steps) > 1 && p.panel.coloured() &&
		!p.panel.otherColours() &&
		rankOf(steps[0].get("color").str()) == 1 &&
		rankOf(steps[len(steps)-1].get("color").str()) == 0 {
		p.reportText(
			n.elements()[0].get("color"),
			0,
			len(steps[0].get("color").value),
			"the best of these values has a warning's colour",
			"start with green",
		)
		return
	}
	if d == undirected || len(steps) < 2 || !p.panel.coloured() || p.panel.otherColours() {
		return
	}
	first, last := rankOf(steps[0].get("color").str()), rankOf(steps[len(steps)-1].get("color").str())
	if first < 0 || last < 0 || first+last != 2 || first == last || (first > last) == (d == highIsBad) {
		return
	}
	if v, err := strconv.ParseFloat(steps[1].get("value").scalar(), 64); err == nil && len(steps) == 2 && v == 80 &&
		p.quantityOf(p.tree) != percent {
		return // as Grafana writes it by itself
	}
	if v, err := strconv.ParseFloat(steps[1].get("value").scalar(), 64); err == nil && len(steps) == 2 && first == 0 &&
		v <= 1 &&
		p.quantityOf(p.tree) != ratio {
		return // red for what is not there
	}
	n := steps[0].get("color")
	good := map[direction]string{highIsGood: "high", highIsBad: "low"}[d]
	p.reportText(
		n,
		0,
		len(n.value),
		fmt.Sprintf(
			"of these values the %s ones are the good ones, and they are coloured %q",
			good,
			map[direction]string{highIsGood: steps[len(steps)-1].get("color").str(), highIsBad: n.value}[d],
		),
		"turn the colours round",
	)
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
	saysUp = regexp.MustCompile(
		`(?i)^\W*(up|ok|okay|healthy|online|ready|alive|running|available|yes|true|connected|active|serving)\W*$`,
	)
	saysDown = regexp.MustCompile(
		`(?i)^\W*(down|not ok|unhealthy|offline|not ready|dead|stopped|unavailable|no|false|failed|fail|critical|disconnected|inactive|error)\W*$`,
	)
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
		texts["1"] == nil &&
			saysUp.MatchString(texts["0"].str()) || texts["0"] == nil && saysDown.MatchString(texts["1"].str()) {
		n := texts["0"]
		if n == nil {
			n = texts["1"]
		}
		p.reportText(
			n,
			0,
			len(n.value),
			nameOf(v)+" is 1 where it is up, and the text says the reverse",
			"turn the texts round",
		)
	}
}

// infoAsValue reports a metric whose value is always 1 shown for its value: what it tells stands in its
// labels.
func (p *pass) infoAsValue() {
	v, ok := unwrapped(p.tree).(*parser.VectorSelector)
	if !ok || !strings.HasSuffix(nameOf(v), "_info") || strings.HasSuffix(nameOf(v), "lora_requests_info") ||
		p.panel.isTable() {
		return
	}
	if a := aggregation(p.tree); a != nil && a.Op == parser.SUM {
		return // how many there are
	}
	kind, mode := p.panel.kind, p.panel.node.at("options", "textMode").str()
	if !slices.Contains(oneNumber, kind) && !p.panel.drawnOverTime() || mode == "name" ||
		len(p.panel.defaults.get("mappings").elements()) > 0 ||
		mode != "value" && labelsLegends.MatchString(p.panel.legend) ||
		holds(p.claims(), []string{"up", "present", "status", "alive", "count", "number"}) {
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

// stacked reports whether lines are drawn on top of one another, so that the uppermost is their sum.
func (c *panelContext) stacked() bool {
	if slices.ContainsFunc(c.overrides.elements(), func(o *node) bool {
		return slices.ContainsFunc(
			o.get("properties").elements(),
			func(n *node) bool { return n.get("id").str() == "custom.stacking" },
		)
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
	p.report(
		p.tree.PositionRange(),
		"the panel stacks its lines, and "+what+" do not add up: each is drawn at the sum of those below it",
		advice("switch stacking off"),
	)
}

// checkRoundedAway finds values below 1 shown without decimals.
func checkRoundedAway(p *pass) {
	if p.role != panelRole || p.panel.defaults.get("decimals").scalar() != "0" ||
		!slices.Contains([]string{"", "none", "short"}, p.panel.unit) {
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
		p.reportText(
			n,
			0,
			len(n.value),
			fmt.Sprintf("the values are %s, mostly below 1: without decimals the panel shows 0", is),
			"leave decimals out, or set the unit",
		)
	}
}

// distributionSaid are words for how often each of some values came.
var distributionSaid = regexp.MustCompile(`\b(distribution|histogram)\b`)

// checkCumulativeBuckets finds buckets taken for counts of their own: each holds all below it.
func checkCumulativeBuckets(p *pass) {
	if p.role == panelRole && p.panel.kind == "heatmap" && !p.severalQueries() && p.isPercentile(p.tree) {
		p.report(
			p.tree.PositionRange(),
			"a heatmap draws buckets, and the query gives one percentile of them",
			advice("ask for the buckets, sum by (le) (increase(…_bucket[$__rate_interval])), with the format heatmap"),
		)
		return
	}
	if p.role != panelRole ||
		!(slices.Contains([]string{"heatmap", "bargauge", "barchart"}, p.panel.kind) || p.panel.drawnOverTime() && distributionSaid.MatchString(p.claims())) ||
		p.panel.target.get("format").str() == "heatmap" ||
		p.panel.isTable() ||
		p.panel.node.at("options", "calculate").scalar() == "true" ||
		len(p.panel.node.get("transformations").elements()) > 0 {
		return
	}
	v := plainSelector(unwrapped(p.tree))
	if v == nil || !p.isBuckets(nameOf(v)) ||
		selectsBy(v, labels.BucketLabel) {
		return
	}
	if a := aggregation(p.tree); a != nil && slices.Contains(a.Grouping, labels.BucketLabel) == a.Without {
		return // above
	}
	p.report(
		p.tree.PositionRange(),
		"each bucket holds all below it, and only with the format heatmap Grafana takes them apart",
		advice(`set the query's format to heatmap`),
	)
}

// checkDeadOverride finds overrides of fields that a panel does not have.
func checkDeadOverride(p *pass) {
	if p.role != panelRole || p.panel.perses || p.mates()[0] != p.query ||
		len(p.panel.node.get("transformations").elements()) > 0 ||
		p.panel.isTable() ||
		len(p.panel.node.get("targets").elements()) != len(p.mates()) {
		return
	}
	names := []string{"Time", "Value"}
	for _, q := range p.mates() {
		legend := q.panel.legend
		if legend == "" || strings.Contains(legend, "{{") || strings.Contains(legend, "$") ||
			strings.HasPrefix(legend, "__") ||
			strings.Contains(legend, "[[") {
			return
		}
		names = append(names, legend)
	}
	for _, o := range p.panel.overrides.elements() {
		option := o.at("matcher", "options")
		if o.at("matcher", "id").str() != "byName" || option.str() == "" || slices.Contains(names, option.str()) ||
			len(o.get("properties").elements()) == 0 {
			continue
		}
		p.reportText(
			option,
			0,
			len(option.value),
			fmt.Sprintf("the panel has no series %q, only %s: what is set for it applies to nothing", option.str(),
				strings.Join(names[2:], ", ")),
			"write the name as the legend has it",
		)
		return
	}
}

// binaryUnits are Grafana's names of units of powers of 1024, and those of 1000 that people take for them.
var binaryUnits = map[string]string{
	"kbytes": "deckbytes",
	"mbytes": "decmbytes",
	"gbytes": "decgbytes",
	"tbytes": "dectbytes",
}

// powersOfTen reports gibibytes under a unit that says gigabytes, and the reverse.
func (p *pass) powersOfTen() {
	is, shown := p.quantityOf(p.tree), panelUnits[p.panel.unit]
	same := func(a, b float64) bool { return math.Abs(a-b) < 1e-9*b }
	if is.of != size || shown.of != size || !shown.is(is) || same(shown.scale, is.scale) {
		return
	}
	for binary, decimal := range binaryUnits {
		to := map[string]string{binary: decimal, decimal: binary}[p.panel.unit]
		if to == "" || !same(panelUnits[to].scale, is.scale) {
			continue
		}
		n := p.panel.unitNode
		if n == nil {
			n = p.node
		}
		p.add(Finding{
			Severity: catalog.Info, Fragment: p.panel.unit, Why: fmt.Sprintf("1 stands for %.0f bytes, and in the unit %s for %.0f: %.2g %% off",
				is.scale, p.panel.unit, shown.scale, 100*math.Abs(shown.scale/is.scale-1)),
			Fix: "write " + to,
		}, n, 0)
	}
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
		p.reportText(
			n,
			0,
			len(n.value),
			"options."+f.key+" is where no panel of today looks for it: it changes nothing",
			"move it to "+to,
		)
	}
}

func (p *pass) panelOptions() *node {
	if p.role != panelRole || p.panel.perses || p.mates()[0] != p.query ||
		!slices.Contains([]string{"stat", "gauge", "bargauge", "timeseries", "table", "piechart"}, p.panel.kind) {
		return nil
	}
	return p.panel.node.get("options")
}

// checkSeriesInTable finds tables of what is drawn over time: one series' moments, and not a row for each series.
func checkSeriesInTable(p *pass) {
	if p.role != panelRole || p.panel.kind != "table" || p.panel.isTabular() ||
		len(p.panel.node.get("transformations").elements()) > 0 {
		return
	}
	p.report(
		p.tree.PositionRange(),
		"without the format table the panel lists the moments of one series, and not the series",
		advice("set the query to the format table and to instant"),
	)
}

// isTabular reports whether a query gives rows and not lines.
func (c *panelContext) isTabular() bool {
	return slices.Contains([]string{"table", "logs"}, c.target.get("format").str()) ||
		c.target.get("instant").scalar() == "true" ||
		c.perses
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
	if p.role != panelRole || !ok || q.q <= 0 || q.q >= 1 || !slices.Contains(namesIn(p.tree), q.family+"_bucket") {
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
		p.reportAs(
			catalog.Ticket,
			p.tree.PositionRange(),
			fmt.Sprintf(
				"the buckets of %s end at %s s: an answer takes longer, and the percentile never reads more",
				q.family,
				short(last),
			),
			advice("take http_request_duration_highr_seconds, or vllm:e2e_request_latency_seconds"),
		)
	case slices.Contains(coarse, strings.TrimPrefix(canonical, engine.Canonical)) && len(edges) > 0 && edges[0].value >= 0.3:
		if strings.Contains(description, "edge") || strings.Contains(description, "bucket") ||
			slices.ContainsFunc(p.mates(), func(o *query) bool {
				return o.tree != nil && slices.Contains(namesIn(o.tree), q.family+"_sum")
			}) {
			return
		}
		p.reportAs(
			catalog.Info,
			p.tree.PositionRange(),
			fmt.Sprintf(
				"the first bucket ends at %s s, and mostly it takes less: the percentile reads %s s where nobody waits (vllm-project/vllm#48175)",
				short(
					edges[0].value,
				),
				short(q.q*edges[0].value),
			),
			advice("show the mean beside it: "+q.family+"_sum over "+q.family+"_count"),
		)
	}
}

// ofEngine reports whether a histogram of HTTP is an engine's, as far as the file tells.
func (p *pass) ofEngine(family string) bool {
	return p.ofServers() && slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool {
		return strings.HasPrefix(nameOf(v), family) && p.isEngines(v) != no
	})
}

package audit

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/render"
)

// comparison is an expression against a number, the number on the right.
type comparison struct {
	expr  parser.Expr
	op    parser.ItemType
	limit float64
	lit   *parser.NumberLiteral
	at    posrange.PositionRange
}

var mirrored = map[parser.ItemType]parser.ItemType{
	parser.GTR: parser.LSS, parser.LSS: parser.GTR, parser.GTE: parser.LTE, parser.LTE: parser.GTE, parser.EQLC: parser.EQLC, parser.NEQ: parser.NEQ,
}

func (p *pass) comparisons(fn func(c comparison)) {
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || !b.Op.IsComparisonOperator() {
			return
		}
		c := comparison{expr: b.LHS, op: b.Op, at: b.PositionRange()}
		if c.limit, c.lit, ok = number(b.RHS); !ok {
			c.expr, c.op = b.RHS, mirrored[b.Op]
			if c.limit, c.lit, ok = number(b.LHS); !ok {
				return
			}
		}
		if at := c.lit.PosRange; !p.opaque(at.Start, at.End) && !p.isGuard(c, path) {
			fn(c)
		}
	})
}

// isGuard reports whether a comparison only takes out NaN, or what is idle, as
// (… > -Inf) or vector(0) does: it decides nothing by itself.
func (p *pass) isGuard(c comparison, path []parser.Node) bool {
	decides := p.role == alertRole && !slices.ContainsFunc(path,
		func(n parser.Node) bool { _, parens := n.(*parser.ParenExpr); return !parens })
	return math.IsInf(c.limit, -1) || !decides && c.limit == 0 && (c.op == parser.GTE || c.op == parser.GTR)
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func checkImpossible(p *pass) {
	p.outOfBounds()
	if p.role == scalerRole {
		n := p.scaler.at("metadata", "threshold")
		if limit, err := strconv.ParseFloat(n.scalar(), 64); err == nil && limit > 1 && p.quantityOf(p.tree) == ratio &&
			!isSum(p.tree) {
			p.reportText(n, 0, len(n.value), "the value is between 0 and 1: it never comes near this threshold, and nothing scales", "write it between 0 and 1")
		}
	}
	p.comparisons(func(c comparison) {
		if c.op == parser.GTE && c.limit == 0 && minusOne(c.expr) || p.tellsScale(c) {
			return
		}
		top := 1.0
		switch p.quantityOf(c.expr) {
		case ratio:
		case percent:
			top = 100
		default:
			return
		}
		above := c.op == parser.GTR || c.op == parser.GTE
		below := c.op == parser.LSS || c.op == parser.LTE
		switch {
		case above && c.limit < 10*top && c.limit >= top && p.holdsSizes(c.expr): // more may be asked for than there is
		case above && (c.limit > top || c.limit == top && c.op == parser.GTR):
			fix := advice(fmt.Sprintf("compare with a number below %s", short(top)))
			if top == 1 && c.limit > 1 && c.limit <= 100 {
				to := short(c.limit / 100)
				fix = suggestion{"write " + to, []edit{p.replace(c.lit.PosRange, to)}}
			}
			p.report(c.at, fmt.Sprintf("the value is between 0 and %s: it is never above %s", short(top), short(c.limit)), fix)
		case above && top == 100 && c.limit > 0 && c.limit < 1:
			to := short(c.limit * 100)
			p.report(c.at, fmt.Sprintf("the value is percent from 0 to 100: above %s is nearly always", short(c.limit)), suggestion{"write " + to, []edit{p.replace(c.lit.PosRange, to)}})
		case below && c.limit > top && top == 1 && c.limit <= 100:
			to := short(c.limit / 100)
			p.report(c.at, fmt.Sprintf("the value is between 0 and 1: it is always below %s", short(c.limit)), suggestion{"write " + to, []edit{p.replace(c.lit.PosRange, to)}})
		case above && (c.limit < 0 || c.limit == 0 && c.op == parser.GTE), below && (c.limit < 0 || c.limit == 0 && c.op == parser.LSS):
			p.report(c.at, "the value is between 0 and "+short(top)+": this always, or never, holds", advice("compare with a number in between"))
		}
	})
}

// tellsScale reports whether a comparison only tells of which of two scales a value is.
func (p *pass) tellsScale(c comparison) bool {
	found := false
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		found = found || ok && forBothScales(b) && b.PositionRange().Start <= c.at.Start && c.at.End <= b.PositionRange().End
	})
	return found
}

// isSum reports whether a vector is added up, so that it has no upper bound.
func isSum(e parser.Expr) bool {
	a, ok := unscaled(e).(*parser.AggregateExpr)
	return ok && a.Op == parser.SUM
}

// minusOne reports whether a value is −1 where there is none, as V0's hit rates
// are.
func minusOne(e parser.Expr) bool {
	return slices.ContainsFunc(selectors(e), func(v *parser.VectorSelector) bool { return strings.HasSuffix(nameOf(v), "_hit_rate") })
}

// promptly are the histograms of which a value of minutes would be absurd.
var promptly = []string{"time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds", "request_time_per_output_token_seconds"}

func checkBucketEdge(p *pass) {
	p.edgesOfPanel()
	p.comparisons(func(c comparison) {
		q, ok := p.quantileOf(c.expr)
		if !ok || q.family == "" || q.factor == 0 || c.op == parser.EQLC || c.op == parser.NEQ {
			return
		}
		edges := p.surface.edgesOf(q.family)
		if all := selectors(c.expr); q.family == "http_request_duration_seconds" && len(edges) == 0 && len(all) == 1 && p.isEngines(all[0]) == yes && !ofOtherJob(all[0]) {
			edges = []edge{{0.1, "0.1"}, {0.5, "0.5"}, {1, "1.0"}} // prometheus-fastapi-instrumentator's
		}
		if len(edges) < 2 {
			return
		}
		limit := c.limit / q.factor
		first, last := edges[0].value, edges[len(edges)-1].value
		above := c.op == parser.GTR || c.op == parser.GTE
		canonical, _ := vllm.Canonical(q.family)
		absurd := limit >= 100 && q.factor == 1 && slices.Contains(promptly, strings.TrimPrefix(canonical, "vllm:"))
		switch {
		case limit >= last && above, absurd:
			why := fmt.Sprintf("the buckets of %s end at %s: the percentile never reads more, and this never fires", q.family, short(last))
			if limit < last {
				why = fmt.Sprintf("%s is in seconds, and %s s is minutes: milliseconds seem to be meant", q.family, short(limit))
			}
			p.reportAs(catalog.Page, c.at, why, p.thousandth(c, q, limit, first, last))
		case limit < q.q*first && above:
			p.reportAs(catalog.Page, c.at, fmt.Sprintf("the first bucket of %s ends at %s: the percentile reads at least %s, however fast the server is, and this always fires", q.family, short(first), short(q.q*first)), p.firstEdge(q, first))
		case limit < first:
			p.reportAs(catalog.Ticket, c.at, fmt.Sprintf("the first bucket of %s ends at %s: nothing below it can be told apart (vllm-project/vllm#48175)", q.family, short(first)), p.firstEdge(q, first))
		default:
			p.betweenEdges(c, q, limit, edges)
		}
	})
}

// ofOtherJob reports whether a selector asks for a job that is no inference server, by its name.
func ofOtherJob(v *parser.VectorSelector) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name == "job" && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp) && !strings.Contains(m.Value, "$") && !speaksOfEngine(m.Value)
	})
}

// quantileOf takes apart a histogram_quantile, also one that a recording rule made.
func (p *pass) quantileOf(e parser.Expr) (quantile, bool) {
	if v, ok := value(e).(*parser.VectorSelector); ok {
		if r := p.records[nameOf(v)]; r != nil && r != p.query && r.tree != nil {
			return quantileIn(r.tree)
		}
	}
	return quantileIn(e)
}

// thousandth repairs milliseconds where seconds are meant.
func (p *pass) thousandth(c comparison, q quantile, limit, first, last float64) suggestion {
	if to := limit / 1000; ofFamily(q.family) == seconds && q.factor == 1 && limit >= 100 && to < last {
		return suggestion{"write " + short(to) + ", if milliseconds are meant", []edit{p.replace(c.lit.PosRange, short(to))}}
	}
	return advice(fmt.Sprintf("compare with a bucket edge between %s and %s", short(first), short(last)))
}

func (p *pass) firstEdge(q quantile, first float64) suggestion {
	return advice(fmt.Sprintf("compare the mean, rate(%s_sum[5m]) / rate(%s_count[5m]), or go to %s or more", q.family, q.family, short(first)))
}

func (p *pass) betweenEdges(c comparison, q quantile, limit float64, edges []edge) {
	for i, e := range edges {
		switch {
		case e.value == limit:
			return
		case e.value > limit && i > 0:
			low, high := edges[i-1].value, e.value
			if high/low < 1.5 && i > 1 { // fine buckets: the guess is a good one
				return
			}
			p.report(c.at, fmt.Sprintf("between the bucket edges %s and %s the percentile is interpolated, a guess: requests of %s and of %s read alike", short(low*q.factor), short(high*q.factor), short(low*q.factor), short(high*q.factor)),
				advice(fmt.Sprintf("compare with %s or %s, or alert on the share of requests above an edge", short(low*q.factor), short(high*q.factor))))
			return
		}
	}
}

func checkNoSuchBucket(p *pass) {
	for _, v := range selectors(p.tree) {
		family, ok := strings.CutSuffix(nameOf(v), "_bucket")
		edges := p.surface.edgesOf(family)
		if !ok || len(edges) == 0 {
			continue
		}
		for _, m := range v.LabelMatchers {
			if m.Name != "le" || m.Type != labels.MatchEqual || m.Value == "+Inf" || strings.Contains(m.Value, "$") {
				continue
			}
			want, err := strconv.ParseFloat(m.Value, 64)
			if slices.ContainsFunc(edges, func(e edge) bool { return e.text == m.Value }) {
				continue
			}
			if i := slices.IndexFunc(edges, func(e edge) bool { return e.value == want }); err == nil && i >= 0 {
				to := edges[i].text
				p.report(v.PositionRange(), fmt.Sprintf("the edge is written %s, not %s: nothing is selected", to, m.Value), suggestion{"write " + to, p.matcherEdit(v, "le", "", to)})
				continue
			}
			var texts []string
			for _, e := range edges {
				texts = append(texts, e.text)
			}
			p.report(v.PositionRange(), fmt.Sprintf("%s has no bucket that ends at %s: nothing is selected", family, m.Value), advice("choose one of "+strings.Join(texts, ", ")))
		}
	}
}

func checkUnit(p *pass) {
	is := p.quantityOf(p.tree)
	if twice := is.twice(); twice != "" && p.role != variableRole {
		p.report(p.tree.PositionRange(), "the values are "+twice, advice("leave out one of the factors"))
		return
	}
	if p.role == alertRole {
		p.unitOfText(is)
		return
	}
	if p.role == recordRole {
		p.unitOfName(is)
		return
	}
	if p.panel == nil || p.role != panelRole {
		return
	}
	p.powersOfTen()
	shown, ok := panelUnits[p.panel.unit]
	if shown.of == calls {
		if is.of == tokenRate || is.of == cores || is.of == flow {
			p.reportAs(catalog.Info, p.tree.PositionRange(), fmt.Sprintf("the values are %s, and the panel's unit writes operations behind them", is.of), advice("write short, and the unit in the title"))
		}
		return
	}
	switch {
	case !ok && is.of == size && is.scale >= 1<<40 && smallSizes.MatchString(p.panel.title+" "+p.panel.legend):
		p.report(p.tree.PositionRange(),
			"the values are tebibytes, of mebibytes by the metric's name, and the panel says less", advice("leave out the factors"))
	case !is.known():
		if c := p.pureRate(); c != nil && strings.HasSuffix(nameOf(plainSelector(c)), "_count") && (shown.of == size || shown.of == flow || shown.of == span) {
			p.report(c.PosRange, fmt.Sprintf("_count says how many there were, and the panel's unit is for %s", shown.of), advice("take _sum"))
		} else if c != nil && shown.of == share {
			p.reportUnit(fmt.Sprintf("the values are a %s of a counter, per second or range, and the panel's unit is %s",
				c.Func.Name, shown),
				advice("divide by the rate of what it is a share of"))
		}
	case ok && !shown.is(is) && shown.of == is.of:
		fix := advice("multiply or divide in the query")
		for _, w := range unitWords {
			to := w.grafana
			if p.panel.perses {
				to = w.perses
			}
			if to == "" || !w.is(is) {
				continue
			}
			fix = advice("write " + to)
			if n := p.panel.unitNode; n != nil && panelUnits[to].is(is) {
				fix.edits = []edit{{n, 0, len(n.value), to}}
			}
			break
		}
		p.reportUnit(fmt.Sprintf("the values are %s and the panel's unit is %s: off by a factor of %s", is, shown,
			times(is, shown)), fix)
	case is.of == cores && shown.of == share:
		if is.scale != shown.scale {
			p.reportUnit(fmt.Sprintf("the values are %s and the panel's unit is %s: off by a factor of 100", is, shown),
				advice("multiply or divide by 100 in the query"))
		}
	case ok && shown.of != is.of && shown.of != perSecond[is.of]: // else per-time
		p.reportUnit(fmt.Sprintf("the values are %s and the panel's unit is for %s", is, shown),
			advice("correct the unit, or the query"))
	case !ok && is == seconds && p.mentionsMilliseconds():
		p.reportUnit("the panel says milliseconds and the values are seconds", advice("set the unit to s, or multiply by 1000"))
	case !ok && slices.Contains([]string{"", "none", "short"}, p.panel.unit) && is == ratio && strings.ContainsAny(p.panel.title+p.panel.legend, "%"):
		p.reportUnit("the panel says percent and the values are ratios from 0 to 1",
			advice("set the unit to percentunit, or multiply by 100"))
	}
}

// smallSizes are units of sizes in texts.
var smallSizes = regexp.MustCompile(`\b[MG]i?B\b`)

// unitOfName judges the unit that a recording rule's name says by its ending.
func (p *pass) unitOfName(is quantity) {
	if !is.known() || is.of == code {
		return
	}
	for part := range strings.SplitSeq(p.name, ":") {
		part = operationInName.ReplaceAllString(part, "")
		for ending, said := range recordedUnits {
			if strings.HasSuffix(part, ending) && !said.is(is) && !strings.HasSuffix(part, "_per"+ending) {
				p.report(p.tree.PositionRange(), fmt.Sprintf("the name ends in %s, and the values are %s", ending, is),
					advice("multiply or divide, or give it another name"))
				return
			}
		}
	}
}

// checkLevel finds recording rules whose name says a level that labels left by "without" are beneath.
func checkLevel(p *pass) {
	level, _, ok := strings.Cut(p.name, ":")
	a, is := unscaled(p.tree).(*parser.AggregateExpr)
	targets := []string{"instance", "pod"}
	if !ok || p.role != recordRole || !is || !a.Without || level != "model" && level != "cluster" && level != "fleet" && level != "global" {
		return
	}
	left := slices.DeleteFunc(targets, func(l string) bool { return slices.Contains(a.Grouping, l) })
	if len(left) > 0 && len(left) < 2 {
		p.report(a.PositionRange(), fmt.Sprintf("the name says %s, and without leaves %s, of which each replica has its own", level, strings.Join(left, ", ")),
			advice("write sum by (model_name)"))
	}
}

// operationWords are what the last part of a recorded name says was done.
var operationWords = map[string]parser.ItemType{
	"sum": parser.SUM, "avg": parser.AVG, "mean": parser.AVG, "max": parser.MAX, "min": parser.MIN, "count": parser.COUNT,
}

// checkOperation finds recording rules whose name says another aggregation than the expression's.
func checkOperation(p *pass) {
	at := strings.LastIndexByte(p.name, ':')
	if p.role == recordRole && at >= 0 {
		p.operationOverTime(p.name[at+1:])
	}
	a, ok := unscaled(p.tree).(*parser.AggregateExpr)
	if p.role != recordRole || at < 0 || !ok || strings.Contains(p.node.value, "_over_time") {
		return
	}
	var said []string
	for _, w := range labelWords(p.name[at+1:]) {
		if operationWords[w] != 0 {
			said = append(said, w)
		}
	}
	if len(said) == 1 && operationWords[said[0]] != a.Op && (a.Op == parser.SUM || a.Op == parser.AVG || a.Op == parser.MAX || a.Op == parser.MIN) {
		p.report(a.PositionRange(), fmt.Sprintf("the name says %s, and the expression takes %s", said[0], a.Op), advice("correct the one or the other"))
	}
}

// extremeNamed is the largest or the least over a time in a recorded name.
var extremeNamed = regexp.MustCompile(`(?:^|_)(max|min|avg|mean|peak)_?\d+[smhdw]$`)

// operationOverTime finds names that say the largest, the least or the mean over a time of what takes
// another one.
func (p *pass) operationOverTime(last string) {
	m := extremeNamed.FindStringSubmatch(last)
	if m == nil {
		return
	}
	used, other := map[parser.ItemType]bool{}, ""
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			used[n.Op] = true
		case *parser.Call:
			if op, ok := overSamples[n.Func.Name]; ok && n.Func.Name != "last_over_time" {
				used[op], other = true, n.Func.Name
			}
		}
	})
	said := map[string]parser.ItemType{"max": parser.MAX, "peak": parser.MAX, "min": parser.MIN, "avg": parser.AVG, "mean": parser.AVG}[m[1]]
	if other != "" && !used[said] && (used[parser.MAX] || used[parser.MIN] || used[parser.AVG]) {
		p.report(p.tree.PositionRange(), fmt.Sprintf("the name says %s, and the expression takes %s", m[1], other), advice("correct the one or the other"))
	}
}

// operationInName is how people end the name of a recorded series: what was done, and over which time.
var operationInName = regexp.MustCompile(`(_(avg|mean|max|min|peak|sum|total|p\d+|rate\d*\w?|\d+[smhd]))+$`)

// recordedUnits are what the endings of names say (https://prometheus.io/docs/practices/naming/).
var recordedUnits = map[string]quantity{
	"_bytes": {size,
		1}, "_seconds": seconds, "_milliseconds": milliseconds, "_ms": milliseconds, "_ratio": ratio, "_percent": percent,
	"_celsius": {temperature, 1}, "_watts": {power, 1}, "_joules": {energy, 1}, "_hertz": {frequency, 1},
}

// pureRate returns the rate or increase of a counter that an expression is, added up perhaps and
// not divided; nil where it is none, or one of seconds, which is a share.
func (p *pass) pureRate() *parser.Call {
	e := unwrapped(p.tree)
	if b, ok := e.(*parser.BinaryExpr); ok {
		e = unwrapped(unscaled(b))
	}
	c, ok := e.(*parser.Call)
	v := plainSelectorOrNone(c)
	if !ok || v == nil || !slices.Contains(rates, c.Func.Name) || !counts(nameOf(v)) ||
		strings.Contains(nameOf(v), "seconds") {
		return nil
	}
	return c
}

// valueNamed is how an annotation writes the value, as it is or through a function.
const valueNamed = `\{\{-?\s*(?:printf\s+"[^"]*"\s+|humanize\s+)?\$value[^}]*\}\}`

// unitsOfText are ways in which an annotation writes a value in a unit.
var unitsOfText = []struct {
	quantity
	as *regexp.Regexp
}{
	{percent, regexp.MustCompile(valueNamed + `\s*%|printf\s+"[^"]*%%"\s+\$value|\$value\s*\|\s*printf\s+"[^"]*%%"`)},
	{ratio, regexp.MustCompile(`\$value\s*\|\s*humanizePercentage|humanizePercentage\s+\$value`)},
	{milliseconds, regexp.MustCompile(valueNamed + `\s*ms\b`)},
	{seconds, regexp.MustCompile(valueNamed + `\s*s(?:ec(?:onds)?)?\b`)},
	{seconds, regexp.MustCompile(`\$value\s*\|\s*humanizeDuration|humanizeDuration\s+\$value`)},
	{quantity{temperature, 1}, regexp.MustCompile(valueNamed + `\s*(?:°\s*C|℃)`)},
	{quantity{power, 1}, regexp.MustCompile(valueNamed + `\s*W\b`)},
	{quantity{size, mebi}, regexp.MustCompile(valueNamed + `\s*Mi?B\b`)},
	{quantity{size, 1 << 30}, regexp.MustCompile(valueNamed + `\s*Gi?B\b`)},
	{quantity{size, 1}, regexp.MustCompile(`\$value\s*\|\s*humanize1024\s*\}\}\s*B`)},
}

// howToWrite are the templates that write a quantity as it is.
var howToWrite = map[quantity]string{
	ratio: "write {{ $value | humanizePercentage }}", percent: "write {{ $value | humanize }}%",
	seconds: "write {{ $value | humanizeDuration }}", milliseconds: "write {{ $value | humanize }}ms",
}

// unitOfText judges the unit that an alert's annotations give its value.
func (p *pass) unitOfText(is quantity) {
	if !is.known() {
		is = p.unitOfQuotientCompared()
	}
	if is.of == cores {
		is.of = share // of one processor
	}
	if c := p.pureRate(); c != nil {
		p.rateAsPercent(c)
		return
	}
	if !is.known() || is.of == code {
		return
	}
	for _, f := range p.rule.get("annotations").all() {
		for _, u := range unitsOfText {
			at := u.as.FindStringIndex(f.value.str())
			if at == nil || u.is(is) || strings.Contains(f.value.str()[at[0]:at[1]], "mul") {
				continue
			}
			p.reportText(f.value, at[0], at[1], fmt.Sprintf("the value is %s, and the text writes it as %s", is, u.quantity),
				otherwise(howToWrite[is], "write {{ $value | humanize }} and the unit that it has"))
		}
	}
}

// percentNamed is a share in a text.
var percentNamed = regexp.MustCompile(`(\d+(?:\.\d+)?)\s*%`)

// rateAsPercent reports a rate that an alert's text calls percent: of the value, or of the number
// that it is compared with.
func (p *pass) rateAsPercent(c *parser.Call) {
	var limits []float64
	p.comparisons(func(c comparison) { limits = append(limits, c.limit) })
	for _, f := range p.rule.get("annotations").all() {
		text := f.value.str()
		at := unitsOfText[0].as.FindStringIndex(text)
		if at == nil {
			at = unitsOfText[1].as.FindStringIndex(text)
		}
		if m := percentNamed.FindStringSubmatchIndex(text); at == nil && m != nil {
			said, err := strconv.ParseFloat(text[m[2]:m[3]], 64)
			if err == nil && slices.ContainsFunc(limits, func(l float64) bool { return math.Abs(l*100-said) < 1e-9 && l < 1 }) {
				at = m[:2]
			}
		}
		if at != nil {
			p.reportText(f.value, at[0], at[1],
				fmt.Sprintf("the value is a %s, so many per second or range, and no share of anything", c.Func.Name),
				"divide by the rate of all, or write what it is")
			return
		}
	}
}

// unitOfQuotientCompared is the unit that a quotient of metrics that nobody knows
// has by the number that it is compared with: a share by one below 1, and percent
// by one above 1 where it is multiplied by 100.
func (p *pass) unitOfQuotientCompared() quantity {
	decides := unparen(p.tree)
	for b, ok := decides.(*parser.BinaryExpr); ok && b.Op.IsSetOperator(); b, ok = decides.(*parser.BinaryExpr) {
		decides = unparen(b.LHS)
	}
	u := quantity{}
	p.comparisons(func(c comparison) {
		quotient, hundred := false, false
		parser.Inspect(value(c.expr), func(n parser.Node, _ []parser.Node) error {
			switch n := n.(type) {
			case *parser.NumberLiteral:
				hundred = hundred || n.Val == 100
			case *parser.BinaryExpr:
				ofVectors := n.LHS.Type() == parser.ValueTypeVector && n.RHS.Type() == parser.ValueTypeVector
				quotient = quotient || n.Op == parser.DIV && ofVectors
			}
			return nil
		})
		switch {
		case !quotient || c.at != decides.PositionRange():
		case !hundred && c.limit > 0 && c.limit < 1:
			u = ratio
		case hundred && c.limit > 1:
			u = percent
		}
	})
	return u
}

func (p *pass) mentionsMilliseconds() bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(p.panel.title+" "+p.panel.legend), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if word == "ms" || word == "millis" || word == "milliseconds" {
			return true
		}
	}
	return false
}

func checkRateInterval(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		m, ok := n.(*parser.MatrixSelector)
		if !ok || !under(path, "rate", "irate", "increase", "delta", "idelta", "deriv") {
			return
		}
		v, ok := m.VectorSelector.(*parser.VectorSelector)
		if !ok {
			return
		}
		at := m.PositionRange()
		if under(path, "irate") && under(path, "histogram_quantile") {
			p.report(at, "irate looks at the last two scrapes alone: a percentile of the few requests between them", advice("take rate"))
		}
		for _, mention := range p.mentions {
			text := p.node.value[mention.start:mention.end]
			if mention.start >= int(at.Start) && mention.end <= int(at.End) && (text == "$__interval" || text == "${__interval}") {
				p.report(at, text+" is as short as a pixel: zoomed in, it holds fewer than two scrapes and the panel is empty", suggestion{"write $__rate_interval", []edit{{p.node, mention.start, mention.end, "$__rate_interval"}}})
				return
			}
		}
		if p.opaque(at.Start, at.End) || m.Range <= 0 || !ours(nameOf(v)) && !known(nameOf(v)) {
			return
		}
		switch interval := p.surface.Interval; {
		case p.scrapedEvery(v) > 0 && m.Range < 2*p.scrapedEvery(v):
			p.reportAs(catalog.Page, at, fmt.Sprintf("the file says that this is scraped every %s: %s never holds two scrapes for sure, and there is no rate", render.Span(p.scrapedEvery(v)), render.Span(m.Range)),
				advice("take at least "+render.Span(4*p.scrapedEvery(v))))
		case interval > 0 && m.Range < 2*interval && p.surface.Whole:
			p.reportAs(catalog.Page, at, fmt.Sprintf("the servers are scraped every %s: %s never holds two scrapes, and the rate is always empty", interval, render.Span(m.Range)), advice("take at least "+render.Span(4*interval)))
		case interval == 0 && m.Range < 30*time.Second:
			p.doubt(at, render.Span(m.Range)+" holds fewer than two scrapes at the usual 15 s or more: the rate is empty",
				"nothing here says how often the servers are scraped", advice("take at least 1m"))
		}
	})
}

// checkSteps finds steps of a panel's colours, and its highest value, that its values never
// reach, or always have: percent for ratios, ratios for percent, milliseconds for seconds.
func checkSteps(p *pass) {
	if p.role != panelRole || p.panel.defaults == nil {
		return
	}
	p.unorderedSteps()
	is := p.quantityOf(p.tree)
	if n := p.panel.defaults.get("max"); is == (quantity{cores, 0.01}) && n.scalar() == "100" {
		p.reportAs(catalog.Info, p.tree.PositionRange(), "100 is one processor, and a process may keep several busy: the panel ends at 100", advice("leave the highest value out"))
	}
	if is.of != share && is.of != span && is.of != code {
		return
	}
	if shown, ok := panelUnits[p.panel.unit]; ok && shown != is {
		return // wrong-unit
	}
	wrong, why, fix := func(float64) bool { return false }, "", ""
	switch is {
	case ratio:
		wrong, why, fix = func(v float64) bool { return v > 1 }, "the values are ratios from 0 to 1: they never reach it", "write it between 0 and 1"
	case percent:
		wrong, why, fix = func(v float64) bool { return v <= 1 }, "the values are percent from 0 to 100: nearly all are above it", "write it between 0 and 100"
	case seconds:
		q, ok := p.quantileOf(p.tree)
		canonical, _ := vllm.Canonical(q.family)
		if ok && slices.Contains(promptly, strings.TrimPrefix(canonical, engine.Canonical)) {
			wrong, why, fix = func(v float64) bool { return v >= 100 }, "the values are seconds, and this is minutes: milliseconds seem to be meant", "divide it by 1000"
		}
	}
	d := p.panel.defaults
	over := func(n *node) bool {
		v, err := strconv.ParseFloat(n.scalar(), 64)
		return err == nil && v > 0 && wrong(v)
	}
	steps := d.at("thresholds", "steps").elements()
	isDefault := len(steps) == 2 && steps[1].get("value").scalar() == "80" // as Grafana writes it by itself
	if d.at("thresholds", "mode").str() == "percentage" || !p.panel.coloured() || isDefault {
		steps = nil
	}
	all := stepsAboveZero(steps)
	if is.of == code && len(all) > 1 {
		p.reportText(all[1].get("value"), 0, len(all[1].get("value").value),
			strings.Join(namesIn(p.tree), ", ")+" is a code: a higher one is not worse",
			"keep one step, at 1")
	}
	for i, s := range all {
		if n := s.get("value"); over(n) && (is != percent || i == len(all)-1 &&
			(i > 0 || n.scalar() != "1")) { // one low step of percent may be meant
			p.reportText(n, 0, len(n.value), why+", and the colour says nothing", fix)
			return
		}
	}
	if n := d.get("max"); over(n) {
		p.reportText(n, 0, len(n.value), "the highest value that is drawn: "+why, fix)
	}
}

// coloured reports whether a panel's steps colour what it shows.
func (c *panelContext) coloured() bool {
	drawn := c.defaults.at("custom", "thresholdsStyle", "mode").str()
	return slices.Contains([]string{"stat", "gauge", "bargauge", "table"}, c.kind) || drawn != "" && drawn != "off"
}

// unorderedSteps reports steps that do not rise. Grafana looks for the last one before the first
// that is above the value, in the order in which they are written.
func (p *pass) unorderedSteps() {
	last := math.Inf(-1)
	for i, s := range p.panel.defaults.at("thresholds", "steps").elements() {
		n := s.get("value")
		v, err := strconv.ParseFloat(n.scalar(), 64)
		if err != nil {
			continue
		}
		if i > 0 && v < last && p.panel.coloured() && p.mates()[0] == p.query {
			p.reportText(n, 0, len(n.value), "the steps have to rise: behind a higher one this colour comes at the wrong values, or never",
				"write them in the order of their values; where low values are bad, the first step is the red one")
			return
		}
		last = v
	}
}

func stepsAboveZero(steps []*node) []*node {
	return slices.DeleteFunc(slices.Clone(steps), func(s *node) bool {
		v, err := strconv.ParseFloat(s.get("value").scalar(), 64)
		return err != nil || v == 0
	})
}

// Units of panels and words of texts that say per second or per minute.
var (
	perSecondUnits = []string{"reqps", "ops", "rps", "wps", "cps", "iops", "Bps", "binBps"}
	perMinuteWords = regexp.MustCompile(`(?i)\bper minute\b|/ ?min(ute)?\b|\b[rt]pm\b`)
	perSecondWords = regexp.MustCompile(`(?i)(per second\b|/ ?s(ec(ond)?)?\b|\brps\b|\bqps\b|\btps\b)`)
)

// lastSpan is a span of time in which something happened so many times.
var lastSpan = regexp.MustCompile(`(?i)\b(count|total|number|restarts|requests|errors|tokens)?\b.*\b(in|over|during)? ?(the )?(last|past) (hour|day|24 ?h|minute|\d+ ?(m|h|d)\w*)\b`)

// eventsIn reports whether a rate is of a counter of events, not of time or data.
func eventsIn(c *parser.Call) bool {
	v := plainSelector(c)
	q := quantity{}
	if v != nil {
		q = ofCounter(nameOf(v))
	}
	return v != nil && counts(nameOf(v)) && q.of != cores && q.of != size && q.of != span
}

// checkPerTime finds an increase over a range shown as if it were per second, and a rate,
// which is per second, shown as if it were per minute.
func checkPerTime(p *pass) {
	if p.role == alertRole {
		p.perHour()
	}
	if p.role == alertRole || p.role == recordRole {
		p.otherTime()
	}
	if p.role != panelRole {
		return
	}
	p.gaugePerSecond()
	c, ok := unwrapped(p.tree).(*parser.Call)
	if !ok || len(c.Args) != 1 {
		return
	}
	m, ok := unparen(c.Args[0]).(*parser.MatrixSelector)
	if !ok || p.opaque(c.PosRange.Start, c.PosRange.Start) {
		return
	}
	text := p.panel.title + " " + labelsLegends.ReplaceAllString(p.panel.legend, " ")
	second := slices.Contains(perSecondUnits, p.panel.unit) || perSecondWords.MatchString(text)
	switch {
	case c.Func.Name == "increase" && second && !perMinuteWords.MatchString(text) && m.Range != time.Second:
		p.report(c.PosRange, "the panel says per second, and increase is over the whole range",
			suggestion{"write rate", []edit{{p.node, int(c.PosRange.Start), int(c.PosRange.Start) + len("increase"), "rate"}}})
	case c.Func.Name == "rate" && lastSpan.MatchString(text) && !second && !perMinuteWords.MatchString(text) && c == value(unwrapped(p.tree)) && eventsIn(c):
		p.report(c.PosRange, "the panel says how many there were in a span of time, and a rate is per second",
			suggestion{"write increase", []edit{{p.node, int(c.PosRange.Start), int(c.PosRange.Start) + len("rate"), "increase"}}})
	case (c.Func.Name == "rate" || c.Func.Name == "irate") && perMinuteWords.MatchString(text) && !second:
		p.report(c.PosRange, "the panel says per minute, and a rate is per second", advice("multiply by 60"))
	}
}

// gaugePerSecond reports how many requests there are, shown as if it were how many come.
func (p *pass) gaugePerSecond() {
	text := p.panel.title + " " + labelsLegends.ReplaceAllString(p.panel.legend, " ")
	if v, ok := unwrapped(p.tree).(*parser.VectorSelector); ok && ofSeries(nameOf(v)).of == requests &&
		perSecondWords.MatchString(text) && !p.severalNames() {
		p.report(v.PositionRange(), nameOf(v)+" is how many there are at the moment, and the panel says per second",
			advice("show rate(vllm:request_success_total[5m]), or another title"))
	}
}

// growthNamed is an amount per hour or minute in a text.
var growthNamed = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*(?:([kmgt])i?b)?\s*(?:/|per )\s*(h|m)(?:ours?|r|in(?:utes?)?)?\b`)

// perHour finds slopes, which are per second, compared with what the alert's text says of
// an hour or a minute.
func (p *pass) perHour() {
	p.comparisons(func(c comparison) {
		call, ok := unwrapped(c.expr).(*parser.Call)
		if v := plainSelectorOrNone(call); v != nil && isCall(call, "rate", "irate") &&
			strings.Contains(nameOf(v), "restarts") &&
			c.limit >= 0.1 && (c.op == parser.GTR || c.op == parser.GTE) {
			p.report(c.at, "a rate is per second: nothing restarts "+short(c.limit)+" times a second",
				advice("compare increase("+p.text(call.Args[0])+")"))
			return
		}
		if !ok || !slices.Contains([]string{"rate", "irate", "deriv"}, call.Func.Name) || c.limit == 0 {
			return
		}
		for _, f := range p.rule.get("annotations").all() {
			m := growthNamed.FindStringSubmatch(f.value.str())
			if m == nil {
				continue
			}
			n, _ := strconv.ParseFloat(m[1], 64)
			for _, base := range []float64{1000, 1024} {
				amount := n * math.Pow(base, float64(strings.Index("kmgt", strings.ToLower(m[2]))+1))
				if m[2] == "" {
					amount = n
				}
				if math.Abs(c.limit-amount) <= 0.01*amount {
					p.report(c.at, fmt.Sprintf("the text says %q, and %s is per second", m[0], call.Func.Name),
						advice("divide the threshold by "+map[string]string{"h": "3600", "m": "60"}[strings.ToLower(m[3])]))
					return
				}
			}
		}
	})
}

// unwrapped sees through aggregations too, which keep a rate a rate.
func unwrapped(e parser.Expr) parser.Expr {
	for {
		a, ok := value(e).(*parser.AggregateExpr)
		if !ok || a.Op == parser.COUNT || a.Op == parser.GROUP || a.Op == parser.COUNT_VALUES {
			return value(e)
		}
		e = a.Expr
	}
}

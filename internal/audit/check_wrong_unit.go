package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var wrongUnit = Check{
	ID: "wrong-unit", Severity: ticket, Title: "a unit that the values are not in: seconds under milliseconds, a ratio under percent",
	Doc: "Grafana takes `percent` for values from 0 to 100 and `percentunit` for those from 0 to 1. Also `humanizePercentage` and `humanizeDuration` in an " +
		"alert's text, which take ratios and seconds. Only where the catalogue proves the unit.",
	Bad: shownIn("percent", "max(vllm:kv_cache_usage_perc)"), Good: shownIn("percentunit", "max(vllm:kv_cache_usage_perc)"),
	roles: []role{panelRole, alertRole},
	query: func(p *pass) {
		is := p.of(p.tree).unit
		if p.role == alertRole {
			p.unitOfText(is)
			return
		}
		shown, ok := panelUnits[p.panel.unit]
		switch {
		case !ok || !is.known() || shown.is(is) || is.of == tokens || is.of == busy || is.of == requests && shown.of == requestRate && !p.range1s():
		case is.of == cores && shown.of == share && is.scale == shown.scale, is.of == cores && shown.of == span:
		case is.of == share && shown.of == requestRate: // a rate by its name
		case shown.of == is.of, is.of == cores && shown.of == share:
			p.reportText(p.panel.unitNode, fmt.Sprintf("the values are %s and the panel's unit is %s: off by a factor of %s", is, shown, times(is, shown)), p.panel.inUnit(is, p.mates(), p))
		default:
			p.reportText(p.panel.unitNode, fmt.Sprintf("the values are %s and the panel's unit is for %s", is, shown), advice("correct the unit, or the query"))
		}
	},
}

// range1s reports whether an increase is over one second, which makes it a rate.
func (p *pass) range1s() bool { return strings.Contains(p.node.value, "[1s]") }

// inUnit is the repair that gives a panel the unit of its values, where all of its queries have it.
func (c *panelContext) inUnit(is unit, mates []*query, p *pass) suggestion {
	for _, w := range unitWords {
		to := w.grafana
		if c.perses {
			to = w.perses
		}
		if to == "" || !w.is(is) {
			continue
		}
		fix := advice("write " + to)
		others := slices.ContainsFunc(mates, func(q *query) bool { return q.tree == nil || p.infer(q, q.tree).unit != is })
		if n := c.unitNode; n != nil && !others && panelUnits[to].is(is) {
			fix.edit = &edit{n, 0, len(n.value), to}
		}
		return fix
	}
	return advice("multiply or divide in the query")
}

// unitsOfText are functions and signs by which an annotation writes a value in a unit.
var unitsOfText = []struct {
	unit
	as *regexp.Regexp
}{
	{percent, regexp.MustCompile(`\{\{-?\s*(?:printf\s+"[^"]*"\s+|humanize\s+)?\$value(?:\s*\|\s*(?:printf\s+"[^"]*"|humanize))?\s*-?\}\}\s*%|printf\s+"[^"]*%%"\s+\$value|\$value\s*\|\s*printf\s+"[^"]*%%"`)},
	{ratio, regexp.MustCompile(`\$value\s*\|\s*humanizePercentage|humanizePercentage\s+\$value`)},
	{seconds, regexp.MustCompile(`\$value\s*\|\s*humanizeDuration|humanizeDuration\s+\$value`)},
}

// unitOfText judges the unit that an alert's annotations give its value.
func (p *pass) unitOfText(is unit) {
	if !is.known() || is.of == code || is.of == cores || is.of == busy || is.of == moment {
		return
	}
	for _, f := range p.rule.get("annotations").all() {
		for _, u := range unitsOfText {
			if u.as.MatchString(f.value.str()) && !u.is(is) {
				p.reportText(f.value, fmt.Sprintf("the value is %s, and the text writes it as %s", is, u.unit),
					advice(otherwise(map[unit]string{ratio: "write {{ $value | humanizePercentage }}", percent: "write {{ $value | humanize }}%", seconds: "write {{ $value | humanizeDuration }}"}[is],
						"write {{ $value | humanize }} and the unit that it has")))
			}
		}
	}
}

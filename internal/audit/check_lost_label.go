package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var lostLabel = Check{
	ID: "lost-label", Severity: ticket, Title: "an annotation or a legend that names a label which was aggregated away",
	Doc:   "`{{ $labels.instance }}` behind `sum(…)` is empty, also where a recording rule dropped it. Info for a legend that leaves lines without a name.",
	Bad:   alerting("sum(vllm:num_requests_waiting) > 10", "    annotations: {summary: 'on {{ $labels.instance }}'}"),
	Good:  alerting("sum by (instance) (vllm:num_requests_waiting) > 10", "    annotations: {summary: 'on {{ $labels.instance }}'}"),
	roles: []role{alertRole, panelRole},
	query: func(p *pass) {
		has := p.of(p.tree).labels
		if !has.known || !has.exact || p.managed != nil {
			return
		}
		kept := "no labels"
		if len(has.names) > 0 {
			kept = "only " + strings.Join(has.names, ", ")
		}
		if p.role == panelRole {
			named := func(l string) bool { return strings.Contains(p.panel.legend, l) }
			if lost := lostIn(p.panel.legend, labelsLegends, has); len(lost) > 0 && len(has.names) > 0 && !slices.ContainsFunc(has.names, named) {
				p.reportAs(info, p.tree.PositionRange(), fmt.Sprintf("the legend names %s, and the series have %s: all lines have one name", strings.Join(lost, ", "), kept),
					advice("name "+has.names[0]+" in the legend"))
			}
			return
		}
		for _, part := range []string{"annotations", "labels"} {
			for _, f := range p.rule.get(part).all() {
				if lost := lostIn(f.value.str(), labelsNamed, has); len(lost) > 0 {
					p.reportText(f.value, fmt.Sprintf("%s names %s, and the alert has %s: whoever is woken reads nothing there", f.key, strings.Join(lost, ", "), kept),
						advice("group the expression by it too, or take it out of the text"))
					return
				}
			}
		}
	},
}

// The labels that an annotation's template asks for, and those that a panel's legend does.
var (
	labelsNamed   = regexp.MustCompile(`(?:\$labels|\.Labels)\.([a-zA-Z_]\w*)|index \$labels "([a-zA-Z_]\w*)"`)
	labelsLegends = regexp.MustCompile(`\{\{\s*([a-zA-Z_]\w*)\s*\}\}`)
)

// lostIn returns the labels that a text names and a vector lacks. Texts that ask by themselves name labels of their answers.
func lostIn(text string, named *regexp.Regexp, has labelSet) []string {
	var out []string
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		label := strings.Join(m[1:], "")
		if !slices.Contains(has.names, label) && !slices.Contains(out, label) && label != "__name__" && label != "alertname" && !strings.Contains(text, "query ") {
			out = append(out, label)
		}
	}
	return out
}

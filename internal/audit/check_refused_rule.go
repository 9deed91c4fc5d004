package audit

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

var refusedRule = Check{
	ID: "refused-rule", Severity: page, Title: "a rule that Prometheus does not load, and with it the whole file",
	Doc:   "A field that rules do not have (`severity:` beside `labels:`), a recording rule with `for` or annotations, a template that does not parse or calls what templates do not have.",
	Bad:   alerting("up == 0", "    severity: page"),
	Good:  alerting("up == 0", "    labels: {severity: page}"),
	roles: []role{alertRole, recordRole},
	query: func(p *pass) {
		if p.managed != nil {
			return
		}
		r := rulefmt.Rule{Record: p.rule.get("record").str(), Alert: p.rule.get("alert").str(), Expr: "vector(1)", Labels: map[string]string{}, Annotations: map[string]string{}, For: model.Duration(p.hold)}
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
		var wrong []string
		for _, err := range r.Validate(rulefmt.RuleNode{}, model.UTF8Validation, parser.NewParser(parser.Options{})) {
			wrong = append(wrong, strings.ReplaceAll(err.Unwrap().Error(), "template: __alert_"+r.Alert+":", "line "))
		}
		slices.Sort(wrong)
		for _, why := range wrong {
			p.report(p.tree.PositionRange(), why+": Prometheus refuses the whole file", advice("correct it: promtool check rules reads it as Prometheus does"))
		}
	},
}

// ruleFields are those of a rule, and the two more of VictoriaMetrics.
var ruleFields = []string{"record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations", "debug", "update_entries_limit"}

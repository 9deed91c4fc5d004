package checks

import (
	"errors"
	"regexp"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

var syntaxCheck = Check{
	ID: "syntax", Severity: page, Title: "the expression is not valid PromQL",
	Doc: "Info, and the query is not checked, if a dashboard's variables may be the reason, or a function is specific to VictoriaMetrics.",
	Bad: "sum(rate(vllm:prompt_tokens_total[5m])", Good: "sum(rate(vllm:prompt_tokens_total[5m]))",
	query: func(p *pass) {
		var at posrange.PositionRange
		text := p.Err.Error()
		var list parser.ParseErrors
		if errors.As(p.Err, &list) && len(list) > 0 {
			at, text = list[0].PositionRange, list[0].Err.Error()
		}
		name, unknown := strings.CutPrefix(text, "unknown function with name ")
		switch {
		case len(p.Mentions) > 0:
			p.reportAs(info, at, "not PromQL with the variables filled in: "+text, "check the query in the dashboard; this one was not judged")
		case unknown && metricsQL.MatchString(strings.Trim(name, `"`)):
			p.reportAs(info, at, "a function of VictoriaMetrics' MetricsQL, which Prometheus does not have",
				"nothing, if VictoriaMetrics answers; this query was not judged")
		default:
			p.report(at, text, "correct the expression; extensions such as MetricsQL's cannot be judged here")
		}
	},
}

// metricsQL are names of functions that MetricsQL adds to PromQL's
// (https://docs.victoriametrics.com/victoriametrics/metricsql/).
var metricsQL = regexp.MustCompile(`^(label_(set|del|keep|copy|move|map|value|match|mismatch|transform|uppercase|lowercase)|labels_equal|alias|(default_)?rollup\w*|aggr_over_time|(range|running|remove|smooth|ascent|descent|tmin|tmax|tfirst|tlast)_\w+|` +
	`(top|bottom)k_\w+|\w+_(prometheus|pure)|\w+_over_time|keep_(last|next)_value|interpolate|prometheus_buckets|buckets_limit|histogram_share|` +
	`any|median|distinct|limit_offset|lag|lifetime|scrape_interval|share|outliersk|sum2|union|ru|ttf|now|step|start|end)$`)

var alertCondition = Check{
	ID: "alert-condition", Severity: page, Title: "a Grafana-managed alert whose condition decides nothing, or is rejected",
	Doc: "The condition is the query itself, and every value except 0 fires; or it names no step; or a threshold is applied to a range of " +
		"values without a reduce step. Query and threshold are checked as one expression, like any alert.",
	Bad:  managedExample("false"),
	Good: managedExample("true"),
	query: func(p *pass) {
		m := p.Managed
		if m == nil {
			return
		}
		all := posrange.PositionRange{End: posrange.Pos(len(p.Expr))}
		switch {
		case m.Missing:
			p.report(all, "no query or expression has this letter: Grafana refuses the rule", "name the one that decides")
		case m.Unreduced:
			p.report(all, "the threshold looks at a range of values, and only one can be compared: Grafana fails with \"looks like time series data\"",
				"put a reduce before it, or make the query instant")
		case m.Direct && !decides(p.Tree) && m.HasOthers:
			p.report(all, "the condition is the query itself, and every value but 0 fires: the threshold beside it decides nothing", "name the threshold's letter")
		case m.Direct && !decides(p.Tree):
			p.report(all, "the condition is a query without a comparison: every value but 0 fires", "add a threshold, and name its letter")
		}
	},
}

// decides reports whether an expression compares, or looks for what is absent.
func decides(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			found = found || n.Op.IsComparisonOperator() || n.Op == parser.LUNLESS
		case *parser.Call:
			found = found || strings.HasPrefix(n.Func.Name, "absent")
		}
		return nil
	})
	return found
}

func managedExample(instant string) string {
	return "groups:\n- name: g\n  rules:\n  - title: A\n    condition: C\n    data:\n    - {refId: A, datasourceUid: prometheus, model: {expr: 'sum(vllm:num_requests_waiting)', instant: " + instant + "}}\n" +
		"    - {refId: C, datasourceUid: __expr__, model: {type: threshold, expression: A, conditions: [{evaluator: {type: gt, params: [5]}}]}}\n"
}

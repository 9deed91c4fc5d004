package audit

import (
	"errors"
	"regexp"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

var syntaxCheck = Check{
	ID: "syntax", Severity: page, Title: "the expression is no PromQL",
	Doc: "Info, and the query was not judged, where a dashboard's variables may be why, or a function is VictoriaMetrics' own.",
	Bad: "sum(rate(vllm:prompt_tokens_total[5m])", Good: "sum(rate(vllm:prompt_tokens_total[5m]))",
	query: func(p *pass) {
		var at posrange.PositionRange
		text := p.err.Error()
		var list parser.ParseErrors
		if errors.As(p.err, &list) && len(list) > 0 {
			at, text = list[0].PositionRange, list[0].Err.Error()
		}
		name, unknown := strings.CutPrefix(text, "unknown function with name ")
		switch {
		case len(p.mentions) > 0:
			p.reportAs(info, at, "not PromQL with the variables filled in: "+text, advice("check the query in the dashboard; this one was not judged"))
		case unknown && metricsQL.MatchString(strings.Trim(name, `"`)):
			p.reportAs(info, at, "a function of VictoriaMetrics' MetricsQL, which Prometheus does not have",
				advice("nothing, if VictoriaMetrics answers; this query was not judged"))
		default:
			p.report(at, text, advice("correct the expression; extensions such as MetricsQL's cannot be judged here"))
		}
	},
}

// metricsQL are names of functions that MetricsQL adds to PromQL's
// (https://docs.victoriametrics.com/victoriametrics/metricsql/).
var metricsQL = regexp.MustCompile(`^(label_(set|del|keep|copy|move|map|value|match|mismatch|transform|uppercase|lowercase)|labels_equal|alias|(default_)?rollup\w*|aggr_over_time|(range|running|remove|smooth|ascent|descent|tmin|tmax|tfirst|tlast)_\w+|` +
	`(top|bottom)k_\w+|\w+_(prometheus|pure)|\w+_over_time|keep_(last|next)_value|interpolate|prometheus_buckets|buckets_limit|histogram_share|` +
	`any|median|distinct|limit_offset|lag|lifetime|scrape_interval|share|outliersk|sum2|union|ru|ttf|now|step|start|end)$`)

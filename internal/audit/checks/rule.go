package checks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/template"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
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

var refusedRule = Check{
	ID: "refused-rule", Severity: page, Title: "a rule that makes Prometheus reject the whole file",
	Doc:   "An unknown field (`severity:` next to `labels:`), a recording rule with `for` or annotations, a template that does not parse or calls an unknown function.",
	Bad:   alerting("up == 0", "    severity: page"),
	Good:  alerting("up == 0", "    labels: {severity: page}"),
	roles: []files.Role{files.Alert, files.Record},
	query: func(p *pass) {
		if p.Managed != nil {
			return
		}
		r := rulefmt.Rule{Record: p.Rule.Get("record").Str(), Alert: p.Rule.Get("alert").Str(), Expr: "vector(1)", Labels: map[string]string{}, Annotations: map[string]string{}, For: model.Duration(p.Hold)}
		for _, f := range p.Rule.Fields() {
			if !slices.Contains(ruleFields, f.Key) && !strings.HasPrefix(f.Key, "x-") {
				p.report(p.Tree.PositionRange(), "rules have no field "+f.Key+": Prometheus refuses the whole file", "take it out, or make it an annotation")
			}
		}
		for part, into := range map[string]map[string]string{"labels": r.Labels, "annotations": r.Annotations} {
			for _, f := range p.Rule.Get(part).Fields() {
				into[f.Key] = f.Value.Scalar()
			}
		}
		var wrong []string
		for _, err := range r.Validate(rulefmt.RuleNode{}, model.UTF8Validation, parser.NewParser(parser.Options{})) {
			wrong = append(wrong, strings.ReplaceAll(err.Unwrap().Error(), "template: __alert_"+r.Alert+":", "line "))
		}
		slices.Sort(wrong)
		for _, why := range wrong {
			p.report(p.Tree.PositionRange(), why+": Prometheus refuses the whole file", "correct it: promtool check rules reads it as Prometheus does")
		}
	},
}

// ruleFields are those of a rule, and the two more of VictoriaMetrics.
var ruleFields = []string{"record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations", "debug", "update_entries_limit"}

var brokenText = Check{
	ID: "broken-text", Severity: ticket, Title: "a template that fails, or prints a Go formatting error",
	Doc:   "The templates of an alert's texts are run on a value, as in Prometheus: `%!d(float64=12)`, a query that is not PromQL.",
	Bad:   alerting("up == 0", `    annotations: {summary: '{{ printf "%d" $value }}'}`),
	Good:  alerting("up == 0", `    annotations: {summary: '{{ printf "%.0f" $value }}'}`),
	roles: []files.Role{files.Alert},
	query: func(p *pass) {
		if p.Managed != nil || strings.Contains(string(p.Doc.Data), "kind: VMRule") {
			return // Grafana's and VictoriaMetrics' templates know other fields
		}
		for _, part := range []string{"annotations", "labels"} {
			for _, f := range p.Rule.Get(part).Fields() {
				p.template(f.Value, f.Value.Str())
			}
		}
	},
}

// badVerbs are what fmt writes of a value that a verb is not for.
var badVerbs = regexp.MustCompile(`%!\(?[^\s)]*\)?`)

func (p *pass) template(n *files.Node, text string) {
	if !runnable(text) {
		return
	}
	out, queries, err := expand(text, 12.375)
	switch {
	case err != nil && strings.Contains(err.Error(), "error parsing template"): // refused-rule
	case err != nil:
		why := err.Error()
		if at := strings.LastIndex(why, ">: "); at >= 0 {
			why = why[at+3:]
		}
		p.reportText(n, "the template fails, and the text is \"error expanding template\": "+why, "correct it: the value is a float64, labels are strings, query gives a list of samples")
	case badVerbs.MatchString(out):
		p.reportText(n, fmt.Sprintf("printf cannot write this so: the text reads %q", badVerbs.FindString(out)), `the value is a float64: write %.0f, or {{ $value | humanize }}`)
	}
	for _, q := range queries {
		if _, err := indicator.Parse(q); err != nil {
			p.reportText(n, fmt.Sprintf("the template queries %q, which is not PromQL: the text is \"error expanding template\"", q), "correct the query")
			return
		}
	}
}

// definitions are what Prometheus puts before the templates of an alert.
const definitions = `{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}`

// unbounded are templates that are not run: loops over anything but the answer of a query, templates
// within templates, and fields of thousands of characters.
var unbounded = regexp.MustCompile(`\{\{-?\s*(?:template|define|block)\b|%[-+# 0]*(?:\d{3}|\*)`)

// loops are the loops of a template, with what they go over.
var loops = regexp.MustCompile(`\{\{-?\s*range\b([^}]*)`)

func runnable(text string) bool {
	if !strings.Contains(text, "{{") || len(text) > 8<<10 || unbounded.MatchString(text) {
		return false
	}
	for _, m := range loops.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "query") {
			return false
		}
	}
	return true
}

// A sample is what a template sees of a query's answer.
type sample struct {
	Labels map[string]string
	Value  float64
}

// expand runs a template as Prometheus does, for a value, and returns what it writes and the queries
// that it asks. Each is answered with one sample.
func expand(text string, value float64) (out string, queries []string, err error) {
	has := map[string]string{}
	for _, m := range labelsNamed.FindAllStringSubmatch(text, -1) {
		has[m[1]+m[2]] = "1" // may be a text and a number
	}
	server := &url.URL{Scheme: "http", Host: "prometheus:9090"}
	data := struct {
		Labels, ExternalLabels map[string]string
		ExternalURL            string
		Value                  any
	}{has, nil, server.String(), value}
	t := template.NewTemplateExpander(context.Background(), definitions+text, "text", data, model.Time(1_700_000_000_000), nil,
		server, []string{"missingkey=zero"})
	t.Funcs(map[string]any{
		"query": func(q string) []*sample {
			queries = append(queries, q)
			return []*sample{{Labels: has, Value: value}}
		},
		"first":       func(all []*sample) *sample { return all[0] },
		"value":       func(s *sample) float64 { return s.Value },
		"strvalue":    func(*sample) string { return "" },
		"label":       func(name string, s *sample) string { return s.Labels[name] },
		"sortByLabel": func(_ string, all []*sample) []*sample { return all },
	})
	out, err = t.Expand()
	return out, queries, err
}

var valueInLabel = Check{
	ID: "value-in-label", Severity: page, Title: "a label that contains the value, so that each evaluation makes a new alert",
	Doc:   "With `for` it starts over each time, and never fires. Ticket without `for`.",
	Bad:   alerting("vllm:num_requests_waiting > 9", "    for: 5m\n    labels: {waiting: '{{ $value }}'}"),
	Good:  alerting("vllm:num_requests_waiting > 9", "    for: 5m\n    annotations: {waiting: '{{ $value }}'}"),
	roles: []files.Role{files.Alert},
	query: func(p *pass) {
		for _, f := range p.Rule.Get("labels").Fields() {
			text := f.Value.Str()
			if p.Managed != nil || !runnable(text) || !strings.Contains(text, "alue") {
				continue
			}
			seen := map[string]bool{}
			values := []float64{3.125, 17.5, 170.25, 1700.5}
			for _, v := range values {
				if out, _, err := expand(text, v); err == nil {
					seen[out] = true
				}
			}
			if len(seen) == len(values) {
				why, sev := "each evaluation with another value makes another alert, and for begins anew: it never fires", page
				if p.Hold == 0 {
					why, sev = "each evaluation with another value ends the alert and makes a new one", ticket
				}
				p.add(Problem{Severity: sev, Fragment: text, Why: "the label " + f.Key + " holds the value: " + why, Fix: "make it an annotation"}, p.Node, 0)
			}
		}
	},
}

package audit

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/template"

	"github.com/sixty-dev/sixty/internal/indicator"
)

var brokenText = Check{
	ID: "broken-text", Severity: ticket, Title: "a template that fails, or that writes what Go prints of a value",
	Doc:   "The templates of an alert's texts are run on a value, as Prometheus does: `%!d(float64=12)`, an address in memory, a query that is no PromQL. One brace is no template.",
	Bad:   alerting("up == 0", `    annotations: {summary: '{{ printf "%d" $value }}'}`),
	Good:  alerting("up == 0", `    annotations: {summary: '{{ printf "%.0f" $value }}'}`),
	roles: []role{alertRole},
	query: func(p *pass) {
		if p.managed != nil || strings.Contains(string(p.file.Data), "kind: VMRule") {
			return // Grafana's and VictoriaMetrics' templates know other fields
		}
		for _, part := range []string{"annotations", "labels"} {
			for _, f := range p.rule.get(part).all() {
				p.template(f.value, f.value.str())
			}
		}
	},
}

// What a broken template writes.
var (
	halfTemplates = regexp.MustCompile(`(?:^|[^{])\{\s*\$(?:labels\.\w+|value)[^{}]*\}(?:[^}]|$)`)
	badVerbs      = regexp.MustCompile(`%!\(?[^\s)]*\)?`)
	addresses     = regexp.MustCompile(`0x[0-9a-f]{8,}|\{map\[`)
	unitTwice     = regexp.MustCompile(`humanizePercentage\b[^}]*\}\}\s*%|humanizeDuration\b[^}]*\}\}\s*(?:m?s|seconds?|minutes?)\b`)
)

func (p *pass) template(n *node, text string) {
	if halfTemplates.MatchString(text) {
		p.reportText(n, "with one brace it is no template: whoever is woken reads it as it stands here", advice("write it with two, as {{ $value }}"))
	}
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
		p.reportText(n, "the template fails, and the text is \"error expanding template\": "+why, advice("correct it: the value is a float64, labels are strings, query gives a list of samples"))
	case badVerbs.MatchString(out):
		p.reportText(n, fmt.Sprintf("printf cannot write this so: the text reads %q", badVerbs.FindString(out)), advice(`the value is a float64: write %.0f, or {{ $value | humanize }}`))
	case unitTwice.MatchString(text):
		p.reportText(n, "the function writes the unit by itself: it stands there twice", advice("leave out the one behind it"))
	case addresses.MatchString(out):
		p.reportText(n, "query gives a list of samples, and what is printed of them is for programmers: an address in memory, or all fields", advice("write {{ . | first | value }}"))
	}
	for _, q := range queries {
		if _, err := indicator.Parse(q); err != nil {
			p.reportText(n, fmt.Sprintf("the template asks %q, which is no PromQL: the text is \"error expanding template\"", q), advice("correct the query"))
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

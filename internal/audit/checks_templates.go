package audit

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

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

// sampleOf is a value that an alert's expression may well have: no whole number.
func (p *pass) sampleOf() float64 {
	if p.quantityOf(p.tree) == ratio {
		return 0.9375
	}
	return 12.375
}

// What a broken template writes.
var (
	badVerbs   = regexp.MustCompile(`%!\(?[^\s)]*\)?`)
	addresses  = regexp.MustCompile(`0x[0-9a-f]{8,}|\{map\[`)
	twiceNamed = regexp.MustCompile(`humanizePercentage\b[^}]*\}\}\s*(?:%|percent\b)|humanizeDuration\b[^}]*\}\}\s*(?:m?s|sec(?:ond)?s?|min(?:ute)?s?|hours?)\b`)
)

// checkTemplates runs the templates of an alert's texts on a value and looks at what they write.
func checkTemplates(p *pass) {
	if p.role != alertRole || p.rule.get("data") != nil || p.beside.vmRules {
		return // Grafana's and VictoriaMetrics' templates know other fields
	}
	for _, part := range []string{"annotations", "labels"} {
		for _, f := range p.rule.get(part).all() {
			if text := f.value.str(); runnable(text) {
				p.template(f.value, text)
			}
		}
	}
}

func (p *pass) template(n *node, text string) {
	out, queries, err := expand(text, p.sampleOf())
	whole := func(why, fix string) { p.reportText(n, 0, len(n.value), why, fix) }
	switch {
	case err != nil && strings.Contains(err.Error(), "error parsing template"): // refused-rule
		return
	case err != nil:
		whole("the template fails, and the text is \"error expanding template\": "+causeOf(err), "correct it: the value is a float64, labels are strings, query gives a list of samples")
		return
	case badVerbs.MatchString(out):
		whole(fmt.Sprintf("printf cannot write this so: the text reads %q", badVerbs.FindString(out)), `the value is a float64: write %.0f, or {{ $value | humanize }}`)
	case addresses.MatchString(out):
		whole("query gives a list of samples, and what is printed of them is for programmers: an address in memory, or all fields", "write {{ . | first | value }}")
	}
	for _, q := range queries {
		if _, err := indicator.Parse(q); err != nil {
			whole(fmt.Sprintf("the template asks %q, which is no PromQL: the text is \"error expanding template\"", q), "correct the query")
			return
		}
	}
	if at := twiceNamed.FindStringIndex(text); at != nil {
		p.reportText(n, at[0], at[1], "the function writes the unit by itself: it stands there twice", "leave out the one behind it")
	}
}

// causeOf is what a template's error says, without where.
func causeOf(err error) string {
	text := err.Error()
	if at := strings.LastIndex(text, ">: "); at >= 0 {
		return text[at+3:]
	}
	return text
}

// checkValueInLabel finds labels that are written with the value: each evaluation makes another alert
// of it, which begins to wait anew.
func checkValueInLabel(p *pass) {
	if p.role != alertRole || p.rule.get("data") != nil {
		return
	}
	for _, f := range p.rule.get("labels").all() {
		text := f.value.str()
		if !runnable(text) || !strings.Contains(text, "alue") {
			continue
		}
		seen := map[string]bool{}
		values := []float64{3.125, 17.5, 170.25, 1700.5}
		for _, v := range values {
			if out, _, err := expand(text, v); err == nil {
				seen[out] = true
			}
		}
		if len(seen) < len(values) {
			continue
		}
		severity, why := catalog.Ticket, "each evaluation with another value ends the alert and makes a new one"
		if p.waits() > 0 {
			severity, why = catalog.Page, "each evaluation with another value makes another alert, and for begins anew: it never fires"
		}
		p.add(Finding{Severity: severity, Fragment: text, Why: "the label " + f.key + " holds the value: " + why, Fix: "make it an annotation"}, p.textNode(f.value), 0)
	}
}

// textNode is the node at which a finding about a rule's text is told.
func (p *pass) textNode(n *node) *node {
	if p.node.offset < 0 {
		return p.node
	}
	return n
}

// waits is how long an alert waits before it fires.
func (q *query) waits() time.Duration {
	d, err := model.ParseDuration(otherwise(q.hold, "0s"))
	if err != nil {
		return 0
	}
	return time.Duration(d)
}

// decisive is the comparison that makes an alert fire: the expression itself, or the first of those
// joined by "and"; ok is false where it is none with a number, or one of several.
func (p *pass) decisive() (c comparison, ok bool) {
	if p.role != alertRole {
		return c, false
	}
	e := unparen(p.tree)
	for b, is := e.(*parser.BinaryExpr); is && (b.Op == parser.LAND || b.Op == parser.LUNLESS); b, is = e.(*parser.BinaryExpr) {
		e = unparen(b.LHS)
	}
	all := conditions(e, parser.LAND)
	if len(all) != 1 {
		return c, false
	}
	all[0].at = e.PositionRange()
	return all[0], true
}

// above and below tell which side of its limit a comparison is about.
func (c comparison) above() bool { return c.op == parser.GTR || c.op == parser.GTE }

func (c comparison) below() bool {
	return c.op == parser.LSS || c.op == parser.LTE || c.op == parser.EQLC && c.limit == 0
}

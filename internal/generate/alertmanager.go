package generate

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// An inhibitRule is an entry of Alertmanager's inhibit_rules.
type inhibitRule struct {
	SourceMatchers []string `yaml:"source_matchers,flow"`
	TargetMatchers []string `yaml:"target_matchers,flow"`
	Equal          []string `yaml:"equal,flow,omitempty"`
}

// Inhibitions renders the causes and symptoms of the catalogue as inhibit_rules, for alertmanager.yml. An alert never
// inhibits a more severe one: a ticket cannot silence a page.
func Inhibitions(cfg RulesConfig) ([]byte, error) {
	var doc struct {
		Rules []inhibitRule `yaml:"inhibit_rules"`
	}
	d := &cfg.Deployment
	for _, p := range cfg.Pathologies {
		var links []link
		symptoms := map[string][]*catalog.Pathology{}
		for _, symptom := range p.Symptoms(cfg.Pathologies) {
			l := cfg.linkOf(p, symptom)
			if symptoms[l.key()] == nil {
				links = append(links, l)
			}
			symptoms[l.key()] = append(symptoms[l.key()], symptom)
		}
		for _, l := range links {
			for _, severity := range p.Severities() {
				if r, ok := cfg.newInhibition(p, severity, symptoms[l.key()], l); ok {
					doc.Rules = append(doc.Rules, r)
				}
			}
		}
	}
	// A budget that burns fast also meets the condition of the slow burn.
	burns := "alertname=~" + quote(strings.Join(alertNames(d, indicator.Model, "ErrorBudgetBurn.*"), "|"))
	doc.Rules = append(doc.Rules, inhibitRule{
		SourceMatchers: []string{burns, "severity=" + quote(cfg.SeverityName(catalog.Page))},
		TargetMatchers: []string{burns, "severity=" + quote(cfg.SeverityName(catalog.Ticket))},
		Equal:          append([]string{"slo"}, d.Model...),
	})
	return YAML("", doc)
}

// newInhibition returns the rule by which an alert of a severity inhibits symptoms with the same link to it. ok is
// false if all of them are more severe.
func (cfg *RulesConfig) newInhibition(
	p *catalog.Pathology, severity catalog.Severity, symptoms []*catalog.Pathology, l link,
) (r inhibitRule, ok bool) {
	var targets []string
	mayExceed := false // a symptom can also be more severe
	for _, symptom := range symptoms {
		possible := symptom.Severities() // the most severe first
		if possible[len(possible)-1] > severity {
			continue
		}
		mayExceed = mayExceed || possible[0] > severity
		targets = append(targets, AlertNames(&cfg.Deployment, symptom)...)
	}
	if len(targets) == 0 {
		return r, false
	}
	r = inhibitRule{
		SourceMatchers: []string{matchNames(AlertNames(&cfg.Deployment, p))},
		TargetMatchers: []string{"alertname=~" + quote(strings.Join(targets, "|"))},
		Equal:          l.equal,
	}
	for _, name := range l.guard {
		r.SourceMatchers = append(r.SourceMatchers, name+`!=""`)
	}
	if len(p.Severities()) > 1 {
		r.SourceMatchers = append(r.SourceMatchers, "severity="+quote(cfg.SeverityName(severity)))
	}
	if mayExceed {
		var names []string
		for s := severity; ; s-- {
			names = append(names, cfg.SeverityName(s))
			if s == catalog.Info {
				break
			}
		}
		r.TargetMatchers = append(r.TargetMatchers, "severity=~"+quote(strings.Join(names, "|")))
	}
	return r, true
}

func matchNames(names []string) string {
	if len(names) == 1 {
		return "alertname=" + quote(names[0])
	}
	return "alertname=~" + quote(strings.Join(names, "|"))
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

//go:embed route.yaml.tmpl
var routeTemplate string

// Routing renders an example of Alertmanager's route and receivers. It groups the alerts of one model into one
// notification: the symptoms that users feel, the error budget that burns, and the cause arrive together.
func Routing(cfg RulesConfig) ([]byte, error) {
	return render(routeTemplate, map[string]any{
		"GroupBy":  cfg.Deployment.Model,
		"Watchdog": matchNames(alertNames(&cfg.Deployment, indicator.Model, watchdogAlert)),
		"Page":     "severity=" + quote(cfg.SeverityName(catalog.Page)),
		"Ticket":   "severity=" + quote(cfg.SeverityName(catalog.Ticket)),
	})
}

// render fills a template of a YAML file.
func render(templateText string, data map[string]any) ([]byte, error) {
	t, err := template.New("yaml").Funcs(template.FuncMap{
		"single": func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" },
		"join":   func(list []string) string { return strings.Join(list, ", ") },
	}).Parse(templateText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

package dashboard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
)

// readingPathologies returns the pathologies whose condition reads a signal of the panel, and those that use one only
// as evidence.
func (b *builder) readingPathologies(p panel) (alerts, evidence []*catalog.Pathology) {
	reads := func(c catalog.Cond) bool {
		found := false
		c.Signals(func(s *indicator.Signal) {
			found = found || slices.ContainsFunc(p.queries, func(q query) bool { return q.signal == s && !q.right })
		})
		return found
	}
	for _, c := range b.cfg.Pathologies {
		switch {
		case reads(c.When) || c.Panel == p.id:
			alerts = append(alerts, c)
		case slices.ContainsFunc(c.Supports, reads):
			evidence = append(evidence, c)
		}
	}
	return alerts, evidence
}

// describePanel writes a panel's description: its purpose, the meaning and traps of each signal, the thresholds, and
// the alerts.
func (b *builder) describePanel(p panel, built Panel, alerting, supporting []*catalog.Pathology) string {
	var paragraphs []string
	if p.doc != "" {
		paragraphs = append(paragraphs, p.doc)
	}
	// Percentiles of one family share one text.
	var docs []string
	titles := map[string][]string{}
	for _, q := range p.queries {
		if q.signal == nil || q.right {
			continue
		}
		if !slices.Contains(docs, q.signal.Doc) {
			docs = append(docs, q.signal.Doc)
		}
		if !slices.Contains(titles[q.signal.Doc], q.signal.Title) {
			titles[q.signal.Doc] = append(titles[q.signal.Doc], q.signal.Title)
		}
	}
	for _, d := range docs {
		paragraphs = append(paragraphs, "**"+strings.Join(titles[d], ", ")+"**: "+d)
	}
	if slices.ContainsFunc(p.queries, func(q query) bool { return q.right }) {
		paragraphs = append(paragraphs, "The bars are the number of requests behind the percentiles: with fewer "+
			"than ten, percentiles mean nothing.")
	}
	for _, s := range built.Lines() {
		paragraphs = append(paragraphs,
			fmt.Sprintf("Line at %s: %s.", indicator.FormatNumber(s.Value, built.Unit), s.Why))
	}
	for _, r := range []struct {
		what string
		by   []*catalog.Pathology
	}{{"Alerts that use it: ", alerting}, {"Evidence for: ", supporting}} {
		var links []string
		for _, p := range r.by {
			for _, name := range generate.AlertNames(&b.cfg.Deployment, p) {
				links = append(links, fmt.Sprintf("[%s](%s)", name, b.cfg.Runbooks.PageURL(p.ID)))
			}
		}
		if len(links) > 0 {
			paragraphs = append(paragraphs, r.what+strings.Join(links, ", ")+".")
		}
	}
	if len(alerting)+len(supporting) == 0 {
		why := "No alert uses it: it helps to distinguish causes"
		if slices.ContainsFunc(p.queries, func(q query) bool { return q.level == perObjective }) {
			why = "The error budget alerts, " + strings.Join(b.budgetAlerts(), ", ") + "…, use the same series"
		}
		paragraphs = append(paragraphs, fmt.Sprintf("%s ([runbooks](%s)).", why, b.cfg.Runbooks.URL))
	}
	return strings.Join(append(paragraphs, "Empty? "+built.NoData), "\n\n")
}

// explainNoData says why a panel may be empty: how to get the metric of its first signal with a hint, or that there
// were no requests.
func explainNoData(p panel) string {
	if p.noData != "" {
		return "No data because " + p.noData + "."
	}
	for _, q := range p.queries {
		if q.signal != nil && q.signal.Hint != "" {
			return "No data because the metric is missing, or nothing matches the variables: " + q.signal.Hint + "."
		}
	}
	return "No data because no request got that far in the time range, or nothing matches the variables."
}

// buildEvents returns the annotations of a dashboard: firing alerts and, on dashboards of servers, restarts and
// changes of configuration and version.
func (b *builder) buildEvents(l layout) []Event {
	switch {
	case l.gpuOnly:
		return b.firingEvents(b.placeMatchers(b.gpu))
	case l.hosts:
		return b.firingEvents(b.placeMatchers(b.host))
	}
	return slices.Concat(b.firingEvents(b.placeMatchers(b.vars)), b.restartEvents(), b.changeEvents())
}

// placeMatchers returns matchers of cluster and namespace, which alerts and Kubernetes' metrics have too.
func (b *builder) placeMatchers(vars []Variable) []*labels.Matcher {
	var out []*labels.Matcher
	for _, v := range vars {
		if slices.Contains(b.labelsButModel(), v.Label) {
			out = append(out, v.newMatcher())
		}
	}
	return out
}

func (b *builder) firingEvents(place []*labels.Matcher) []Event {
	if len(b.cfg.Pathologies) == 0 {
		return nil
	}
	var alerts []string
	for _, p := range b.cfg.Pathologies {
		alerts = append(alerts, generate.AlertNames(&b.cfg.Deployment, p)...)
	}
	if b.cfg.Period > 0 {
		for _, name := range b.budgetAlerts() {
			alerts = append(alerts, name+".+")
		}
	}
	matchers := append([]*labels.Matcher{
		labels.MustNewMatcher(labels.MatchRegexp, "alertname", strings.Join(alerts, "|")),
		labels.MustNewMatcher(labels.MatchEqual, "alertstate", "firing"),
	}, place...)
	found := append([]*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, "status", "firing"),
		labels.MustNewMatcher(labels.MatchEqual, "explained_by", ""),
	}, place...)
	text := "{{severity}} {{" + b.serverLabel() + "}} {{model_name}}"
	return []Event{{
		Name: "Findings", Expr: indicator.Selector("ALERTS", matchers...),
		Title: "{{alertname}}", Text: text, Tags: []string{"alertname", "severity"}, Colour: "red",
	}, {
		Name: "Findings of sixty serve", Expr: indicator.Selector("sixty_finding", found...),
		Title: "{{pathology}}", Text: text, Tags: []string{"pathology", "severity"}, Colour: "red",
	}}
}

func (b *builder) restartEvents() []Event {
	expr, err := b.compileQuery(query{level: perServer, signal: indicator.Restarts})
	if err != nil {
		return nil
	}
	return []Event{{
		Name: "Restarts", Expr: withVariables(expr) + " > 0",
		Title: "Restart", Text: "{{" + b.serverLabel() + "}}", Tags: []string{b.serverLabel()}, Colour: "purple",
	}}
}

// configInfo is the metric that exposes the configuration, which not every engine has. configLabels are the settings
// that change the engine's behaviour.
const (
	configInfo   = "vllm:cache_config_info"
	configLabels = "instance, block_size, cache_dtype, enable_prefix_caching, gpu_memory_utilization, num_gpu_blocks"
)

func (b *builder) changeEvents() []Event {
	var out []Event
	config := "group by (" + configLabels + ") (" + configInfo + ")"
	before := "group by (" + configLabels + ") (" + configInfo + " offset 10m)"
	telling := b.levels[perServer]
	telling.Dialects = slices.DeleteFunc(slices.Clone(telling.Dialects),
		func(d dialect.Dialect) bool { return !d.Exposes(d.Metric(configInfo)) })
	if expr, err := telling.PromQL("(" + config + " unless " + before +
		") and on (instance) group by (instance) (up offset 10m)"); err == nil {
		out = append(out, Event{
			Name: "Configuration changes", Expr: expr, Title: "Engine configuration changed",
			Text: "{{" + b.serverLabel() + "}}: {{num_gpu_blocks}} blocks of {{block_size}}, " +
				"gpu_memory_utilization {{gpu_memory_utilization}}, prefix caching {{enable_prefix_caching}}",
			Tags: []string{b.serverLabel()}, Colour: "blue",
		})
	}
	// vLLM does not export its version. On Kubernetes the image reveals it (kube-state-metrics).
	image := dialect.Deployment{
		Dialects: b.levels[perServer].Dialects[:1],
		Matchers: append(slices.Clone(b.cfg.Deployment.Matchers), b.placeMatchers(b.vars)...),
	}
	images := `group by (cluster, namespace, image) (kube_pod_container_info{image=~".*(` + dialect.Images() + `).*"}`
	if expr, err := image.PromQL(images + ") unless " + images + " offset 10m)"); err == nil {
		out = append(out, Event{
			Name: "Version changes", Expr: expr, Title: "New image", Text: "{{image}} in {{namespace}}",
			Tags: []string{"image"}, Colour: "blue",
		})
	}
	return out
}

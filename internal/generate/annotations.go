package generate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func summarize(p *catalog.Pathology) string {
	if atGateway(p) {
		where := "{{ with $labels.model_name }}{{ . }}, {{ end }}gateway {{ $labels.gateway }}"
		if p.Per() == indicator.PerUpstream {
			where = "{{ $labels.instance }}, " + where
		}
		return p.Title + " (" + where + ")"
	}
	if !readsModel(p) {
		return p.Title + " ({{ $labels.instance }})"
	}
	return p.Title + " ({{ $labels.model_name }} on {{ $labels.instance }})"
}

// maxValues bounds the values in a description. Each costs a query, and people read descriptions on a phone.
const maxValues = 3

// describeAlert returns the description annotation: the current values that the condition reads, the active causes, and
// the command to run next.
func (b *ruleBuilder) describeAlert(p *catalog.Pathology, thresholds []resolved) string {
	var out strings.Builder
	var seen []string
	ids, values := b.cfg.Deployment.Instance, ""
	isAtGateway, per := atGateway(p), p.Per()
	switch {
	case isAtGateway: // the label instance may name a server, so the label gateway gives its value
		values = Arguments(withPartLabel(append(slices.Clone(ids[:len(ids)-1]), gatewayLabel), per))
		ids = withPartLabel(ids, per)
	case readsModel(p):
		ids = b.targetLabels()
	}
	fmt.Fprintf(&out, "{{ $of := printf `%s` %s }}", Placeholders(ids), cmp.Or(values, Arguments(ids)))
	for _, r := range thresholds {
		s := r.cond.Signal
		if len(seen) == maxValues || slices.Contains(seen, s.Name) || r.text == "" ||
			readsModel(p) && s.Scope == indicator.GPU {
			continue
		}
		seen = append(seen, s.Name)
		fmt.Fprintf(&out, "{{ with printf `%s{%%s}` $of | query }}%s {{ . | first | value%s }}. {{ end }}",
			b.cfg.Series(s), s.Title, humanizeFunc(s.Unit))
	}
	out.WriteString(b.explainByCauses(p))
	switch {
	case isAtGateway:
		out.WriteString("Full diagnosis: sixty diagnose SERVER --gateway {{ $labels.gateway }}")
	case readsModel(p):
		out.WriteString("Computed fix: sixty diagnose {{ $labels.instance }}")
	}
	return strings.TrimSpace(out.String())
}

// explainByCauses returns the part of a description that names the firing and pending causes of a symptom. A page is
// never inhibited by a ticket, so it names its cause itself. The template's $of selects the server.
func (b *ruleBuilder) explainByCauses(p *catalog.Pathology) string {
	byLink := map[string][]string{}
	var links []link
	for _, cause := range p.Causes(b.cfg.Pathologies) {
		l := b.cfg.linkOf(cause, p)
		if byLink[l.key()] == nil {
			links = append(links, l)
		}
		byLink[l.key()] = append(byLink[l.key()], AlertNames(&b.cfg.Deployment, cause)...)
	}
	slices.SortStableFunc(links, func(a, b link) int { return cmp.Compare(len(b.equal), len(a.equal)) })
	var parts, values []string
	for _, l := range links {
		names := strings.Join(byLink[l.key()], "|")
		if slices.Equal(l.equal, b.cfg.Deployment.Instance) {
			parts = append(parts, fmt.Sprintf(`group by (alertname) (ALERTS{alertname=~"%s",%%s})`, names))
			values = append(values, "$of")
			continue
		}
		parts = append(parts, fmt.Sprintf(`group by (alertname) (ALERTS{alertname=~"%s",%s})`, names,
			Placeholders(l.equal)))
		values = append(values, Arguments(l.equal))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("{{ with printf `%s` %s | query }}Explained by {{ range $i, $a := . }}{{ if $i }}, {{ end "+
		"}}{{ $a | label `alertname` }}{{ end }}. {{ end }}",
		strings.Join(parts, " or "), strings.Join(values, " "))
}

// AnyOf returns a PromQL matcher of the alerts of pathologies; "" without pathologies.
func AnyOf(d *dialect.Deployment, all []*catalog.Pathology) string {
	var names []string
	for _, p := range all {
		names = append(names, AlertNames(d, p)...)
	}
	if len(names) == 0 {
		return ""
	}
	return `alertname=~"` + strings.Join(names, "|") + `"`
}

// Placeholders returns PromQL matchers of labels whose values are arguments of printf in a template.
func Placeholders(labels []string) string {
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = l + "=%q"
	}
	return strings.Join(parts, ",")
}

// Arguments returns the arguments of printf for Placeholders: the alert's labels. In vmalert a label that the alert
// lacks has no value, so each has a default.
func Arguments(labels []string) string {
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = `(or $labels.` + l + ` "")`
	}
	return strings.Join(parts, " ")
}

// humanizeFunc returns the template function for a unit, with a pipe before it.
func humanizeFunc(u indicator.Unit) string {
	switch u {
	case indicator.Seconds:
		return " | humanizeDuration"
	case indicator.Ratio:
		return " | humanizePercentage"
	case indicator.Bytes:
		return " | humanize1024"
	}
	return " | humanize"
}

func listThresholds(thresholds []resolved) string {
	var parts []string
	for _, r := range thresholds {
		if r.text == "" {
			continue
		}
		line := fmt.Sprintf("%s %s (%s)", r.cond.Signal.Name, r.text, r.source)
		if !slices.Contains(parts, line) {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

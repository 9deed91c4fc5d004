package generate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// gatewayLabel names the gateway in alerts on gateways. Their label instance names the gateway too, except in alerts
// on one upstream, where it names the server.
const gatewayLabel = "gateway"

// atGateway reports whether a gateway measures the signals of a condition.
func atGateway(p *catalog.Pathology) bool { return p.Scope() == indicator.Gateway }

// AppliesTo reports whether the deployment can have a pathology: one at a gateway needs a gateway.
func AppliesTo(d *dialect.Deployment, p *catalog.Pathology) bool {
	_, hasGateway := d.Gateway()
	return hasGateway || !atGateway(p)
}

// withPartLabel adds the label that separates the parts of a signal to the labels of a target.
func withPartLabel(instance []string, per string) []string {
	if per == "" {
		return instance
	}
	return append(slices.Clone(instance), per)
}

// identityLabel returns the label that names a target: the last identifying label, except for labels by which the
// deployment is selected or joined with its GPU exporter.
func identityLabel(d *dialect.Deployment) string {
	for _, l := range slices.Backward(d.Instance) {
		if !slices.Contains(d.GPU, l) &&
			!slices.ContainsFunc(d.Matchers, func(m *labels.Matcher) bool { return m.Name == l }) {
			return l
		}
	}
	return d.Instance[len(d.Instance)-1]
}

// fleetLabels returns the labels of a model except its name: the location of its fleet.
func fleetLabels(d *dialect.Deployment) []string {
	return slices.DeleteFunc(slices.Clone(d.Model), func(l string) bool { return l == "model_name" })
}

// gatewaySegment returns the segment of alerts at gateways. It has the objective for all models, because one gateway
// may serve several.
func (cfg *RulesConfig) gatewaySegment() segment {
	var seg segment
	if o, ok := cfg.Objectives.For(nil); ok {
		seg.objective = &o
	}
	return seg
}

// Recorded series whose label model_name is the engine's name of the model behind a gateway: one for each gateway, and
// one for each name that requests use. If the gateway does not know the engine's name, requests' name is taken.
const (
	servedByGateway = "instance:vllm_gateway_serves:info"
	servedAsModel   = "instance_model:vllm_gateway_serves:info"
)

// servedRules returns the rules that record servedByGateway and servedAsModel, as far as alerts read them.
func (b *ruleBuilder) servedRules() (served []rulefmt.Rule, err error) {
	if len(b.serves) == 0 {
		return nil, nil
	}
	d := b.cfg.Deployment
	names, _ := d.Gateway()
	on := strings.Join(d.Instance, ", ")
	renamed := func(expr string) string {
		return fmt.Sprintf(`label_replace(%s, "model_name", "$1", "model", "(.+)")`, expr)
	}
	const (
		engines = "group by (instance, model) (last_over_time(sixty_gateway_upstream_engine_output_tokens_total[1h]))"
		asked   = "group by (instance, model) (last_over_time(sixty_gateway_requests_offered_total[1h]))"
	)
	whole := fmt.Sprintf(`group by (instance, the_model) (%s and on (instance) (count by (instance) (%s) == 1)) `+
		`or on (instance) group by (instance) (last_over_time(sixty_gateway_upstream_up[1h]) or `+
		`last_over_time(llm_d_epp_info[1h]))`,
		strings.ReplaceAll(renamed(engines), "model_name", "the_model"), engines)
	exprs := []string{whole, asked}
	for i, expr := range exprs {
		// PromQLIn would expand model_name to all labels of a fleet.
		if exprs[i], err = d.PromQLIn(names, expr); err != nil {
			return nil, err
		}
	}
	served = append(served, rulefmt.Rule{
		Record: servedByGateway, Expr: prettifyPromQL(strings.ReplaceAll(exprs[0], "the_model", "model_name")),
	})
	if !b.serves[servedAsModel] {
		return served, nil
	}
	byModel := fmt.Sprintf("%[1]s * on (%[2]s) group_left (model_name) %[3]s or on (%[2]s, model) %[4]s",
		exprs[1], on, b.cfg.selectServed(labels.MustNewMatcher(labels.MatchNotEqual, "model_name", "")),
		renamed(exprs[1]))
	return append(served, rulefmt.Rule{Record: servedAsModel, Expr: prettifyPromQL(byModel)}), nil
}

// selectServed selects gateways by the model that they serve.
func (cfg *RulesConfig) selectServed(ms ...*labels.Matcher) string {
	return indicator.Selector(servedByGateway, append(ms, cfg.Deployment.Matchers...)...)
}

// withFleetLabels adds labels for routing and inhibition to an alert at a gateway: the model that it serves, the
// gateway, and the server if the alert is about one upstream.
func (b *ruleBuilder) withFleetLabels(expr, per string) string {
	d := &b.cfg.Deployment
	on, info := d.Instance, servedByGateway
	if per == indicator.PerModel {
		on, info = withPartLabel(d.Instance, per), servedAsModel
	}
	b.serves[info] = true
	id := identityLabel(d)
	expr = fmt.Sprintf(`label_replace((%s) * on (%s) group_left (model_name) %s, %q, "$1", %q, "(.+)")`, expr,
		strings.Join(on, ", "), b.cfg.selectRecorded(info), gatewayLabel, id)
	if per == indicator.PerUpstream && id == "instance" {
		expr = fmt.Sprintf(`label_replace(%s, "instance", "$1", %q, "(.+)")`, expr, per)
	}
	return prettifyPromQL(expr)
}

// A link lists the labels in which the alerts of a cause and of its symptom agree. Alertmanager takes a label that both
// lack as equal, so those in guard must be present.
type link struct{ equal, guard []string }

// linkOf returns the link of a cause and a symptom.
func (cfg *RulesConfig) linkOf(cause, symptom *catalog.Pathology) link {
	d := &cfg.Deployment
	switch {
	case atGateway(cause) && atGateway(symptom):
		return link{append(fleetLabels(d), gatewayLabel), []string{gatewayLabel}}
	case atGateway(symptom) && symptom.Per() == indicator.PerUpstream && readsModel(cause):
		// The gateway and the server may be in different namespaces.
		cluster := slices.DeleteFunc(fleetLabels(d), func(l string) bool { return l != "cluster" })
		return link{append(cluster, "instance"), []string{"instance"}}
	case atGateway(symptom), atGateway(cause), symptom.Across, cause.Everywhere:
		return link{slices.Clone(d.Model), []string{"model_name"}}
	case !readsModel(cause):
		// The exporter is another target. An alert without these labels would silence the whole fleet.
		return link{cfg.gpuLabels(), cfg.gpuLabels()}
	}
	return link{slices.Clone(d.Instance), nil}
}

func (l link) key() string { return cmp.Or(strings.Join(l.equal, ","), "-") }

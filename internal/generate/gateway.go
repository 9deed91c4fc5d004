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

// gatewayLabel names the gateway in the alerts on what a gateway sees. Their instance is
// the gateway too, but for those on one upstream, where it is that server.
const gatewayLabel = "gateway"

// atGateway reports whether a condition is about what a gateway sees.
func atGateway(p *catalog.Pathology) bool { return p.Scope() == indicator.Gateway }

// AppliesTo reports whether the deployment has what a pathology is about: a gateway, where it
// is one at a gateway.
func AppliesTo(d *dialect.Deployment, p *catalog.Pathology) bool {
	_, there := d.Gateway()
	return there || !atGateway(p)
}

// withPartLabel adds the label by which a signal's parts are told apart to those of a target.
func withPartLabel(instance []string, per string) []string {
	if per == "" {
		return instance
	}
	return append(slices.Clone(instance), per)
}

// identity is the label that names a target: the last of those that identify it, but for
// those by which it is selected or meets its GPU exporter.
func identity(d *dialect.Deployment) string {
	for _, l := range slices.Backward(d.Instance) {
		if !slices.Contains(d.GPU, l) && !slices.ContainsFunc(d.Matchers, func(m *labels.Matcher) bool { return m.Name == l }) {
			return l
		}
	}
	return d.Instance[len(d.Instance)-1]
}

// fleetLabels is where a fleet is: the labels of a model without its name.
func fleetLabels(d *dialect.Deployment) []string {
	return slices.DeleteFunc(slices.Clone(d.Model), func(l string) bool { return l == "model_name" })
}

// gatewaySegment is what alerts at gateways are judged by: the objective of everybody, for
// one gateway may stand before several models.
func (cfg *RulesConfig) gatewaySegment() segment {
	var seg segment
	if o, ok := cfg.Objectives.For(nil); ok {
		seg.objective = &o
	}
	return seg
}

// Recorded series that say which model's engine is behind a gateway, as the engine names
// it: by gateway, and by the name that requests give. Where an engine says nothing, as
// behind a router, it is the latter.
const (
	servedByGateway = "instance:vllm_gateway_serves:info"
	servedAsModel   = "instance_model:vllm_gateway_serves:info"
)

// servedRules are the recording rules of these that alerts read.
func (b *ruleBuilder) servedRules() (rules []rulefmt.Rule, err error) {
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
	whole := fmt.Sprintf(`group by (instance, the_model) (%s and on (instance) (count by (instance) (%s) == 1)) or on (instance) group by (instance) (last_over_time(sixty_gateway_upstream_up[1h]) or last_over_time(llm_d_epp_info[1h]))`,
		strings.ReplaceAll(renamed(engines), "model_name", "the_model"), engines)
	exprs := []string{whole, asked}
	for i, expr := range exprs {
		// model_name would be taken for the labels of a fleet.
		if exprs[i], err = d.PromQLIn(names, expr); err != nil {
			return nil, err
		}
	}
	rules = append(rules, rulefmt.Rule{Record: servedByGateway, Expr: pretty(strings.ReplaceAll(exprs[0], "the_model", "model_name"))})
	if !b.serves[servedAsModel] {
		return rules, nil
	}
	byModel := fmt.Sprintf("%[1]s * on (%[2]s) group_left (model_name) %[3]s or on (%[2]s, model) %[4]s",
		exprs[1], on, b.cfg.selectServed(labels.MustNewMatcher(labels.MatchNotEqual, "model_name", "")), renamed(exprs[1]))
	return append(rules, rulefmt.Rule{Record: servedAsModel, Expr: pretty(byModel)}), nil
}

// selectServed selects gateways by the model behind them.
func (cfg *RulesConfig) selectServed(ms ...*labels.Matcher) string {
	return indicator.Selector(servedByGateway, append(ms, cfg.Deployment.Matchers...)...)
}

// withFleetLabels gives an alert at a gateway the labels by which it is routed and inhibited: the
// model behind it, the gateway, and of one upstream the server.
func (b *ruleBuilder) withFleetLabels(expr, per string) string {
	d := &b.cfg.Deployment
	on, info := d.Instance, servedByGateway
	if per == indicator.PerModel {
		on, info = withPartLabel(d.Instance, per), servedAsModel
	}
	b.serves[info] = true
	id := identity(d)
	expr = fmt.Sprintf(`label_replace((%s) * on (%s) group_left (model_name) %s, %q, "$1", %q, "(.+)")`, expr, strings.Join(on, ", "), b.cfg.restrict(info), gatewayLabel, id)
	if per == indicator.PerUpstream && id == "instance" {
		expr = fmt.Sprintf(`label_replace(%s, "instance", "$1", %q, "(.+)")`, expr, per)
	}
	return pretty(expr)
}

// A link says by which labels a cause and its symptom are of one fault. Labels that
// neither has are equal as well, so that those of guard must be there.
type link struct{ equal, guard []string }

// linked returns the link of a cause and a symptom.
func (cfg *RulesConfig) linked(cause, symptom *catalog.Pathology) link {
	d := &cfg.Deployment
	causeOutside, outside := atGateway(cause), atGateway(symptom)
	switch {
	case causeOutside && outside:
		return link{append(fleetLabels(d), gatewayLabel), []string{gatewayLabel}}
	case outside && symptom.Per() == indicator.PerUpstream && readsModel(cause): // the gateway may be in another namespace
		return link{append(slices.DeleteFunc(fleetLabels(d), func(l string) bool { return l != "cluster" }), "instance"), []string{"instance"}}
	case outside:
		return link{slices.Clone(d.Model), []string{"model_name"}}
	case causeOutside:
		return link{slices.Clone(d.Model), []string{"model_name"}}
	case symptom.Across, cause.Everywhere:
		return link{slices.Clone(d.Model), []string{"model_name"}}
	case !readsModel(cause):
		// The exporter is another target. An alert without these labels would silence the
		// whole fleet.
		return link{cfg.gpuLabels(), cfg.gpuLabels()}
	}
	return link{slices.Clone(d.Instance), nil}
}

func (l link) key() string { return cmp.Or(strings.Join(l.equal, ","), "-") }

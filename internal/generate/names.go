package generate

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// AlertNames returns the names of a pathology's alerts: one for each engine of the deployment that is judged by it,
// beginning with the engine.
func AlertNames(d *dialect.Deployment, p *catalog.Pathology) []string {
	return alertNames(d, p.Scope(), p.Alert)
}

// alertNames returns the names of an alert on a scope, one for each engine. alert is the part after the engine.
func alertNames(d *dialect.Deployment, scope indicator.Scope, alert string) []string {
	names, _ := d.Subjects(scope)
	for i := range names {
		names[i] += alert
	}
	return names
}

// nameByEngine returns an alert on a scope once for each engine of the deployment. The engine's prefix goes before
// the name: people route by alert names, so another engine in the fleet must not rename existing alerts. compile
// returns the PromQL for the part of the deployment that runs one engine; nil means the rule's own for all.
func (b *ruleBuilder) nameByEngine(
	r rulefmt.Rule, scope indicator.Scope, compile deploymentExpr,
) ([]rulefmt.Rule, error) {
	prefixes, parts := b.cfg.Deployment.Subjects(scope)
	var out []rulefmt.Rule
	for i, prefix := range prefixes {
		one := r
		one.Alert = prefix + r.Alert
		if len(prefixes) > 1 && compile != nil {
			expr, err := compile(&parts[i])
			if err != nil {
				return nil, err
			}
			one.Expr = prettifyPromQL(expr)
		}
		out = append(out, one)
	}
	return out, nil
}

// A deploymentExpr returns PromQL for a part of the deployment.
type deploymentExpr func(*dialect.Deployment) (string, error)

// restrictToServed restricts PromQL to the models that a part of the deployment serves, by labels that both have.
func restrictToServed(expr string, by []string) deploymentExpr {
	return func(d *dialect.Deployment) (string, error) {
		served, err := Served(d, by)
		return "(" + expr + ")" + served, err
	}
}

// Served returns PromQL that restricts the expression before it to the models of a deployment, by labels that both
// have.
func Served(d *dialect.Deployment, by []string) (string, error) {
	served, err := d.PromQL("group by (instance, model_name) (last_over_time(vllm:num_requests_running[1h]))")
	on := strings.Join(by, ", ")
	return fmt.Sprintf(" and on (%s) group by (%s) (%s)", on, on, served), err
}

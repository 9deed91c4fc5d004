package generate

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// AlertNames are the names of a pathology's alerts: one for each engine of the deployment that it is
// judged on, after that engine.
func AlertNames(d *dialect.Deployment, p *catalog.Pathology) []string {
	return namesOf(d, p.Scope(), p.Alert)
}

// namesOf are the names of alerts on a scope, of which alert is what follows the engine's part.
func namesOf(d *dialect.Deployment, scope indicator.Scope, alert string) []string {
	names, _ := d.Subjects(scope)
	for i := range names {
		names[i] += alert
	}
	return names
}

// named names an alert on a scope after what it is about. Where that is servers of several engines there
// is one for each, whose PromQL is what of returns of their part of the deployment; nil: it is the same of
// all. People route by names, and another engine beside theirs takes none of them away.
func (b *ruleBuilder) named(r rulefmt.Rule, scope indicator.Scope, of func(*dialect.Deployment) (string, error)) ([]rulefmt.Rule, error) {
	prefixes, parts := b.cfg.Deployment.Subjects(scope)
	var out []rulefmt.Rule
	for i, prefix := range prefixes {
		one := r
		one.Alert = prefix + r.Alert
		if len(prefixes) > 1 && of != nil {
			expr, err := of(&parts[i])
			if err != nil {
				return nil, err
			}
			one.Expr = pretty(expr)
		}
		out = append(out, one)
	}
	return out, nil
}

// servedBy restricts PromQL to what a part of the deployment serves, by labels that both have.
func servedBy(expr string, by []string) func(*dialect.Deployment) (string, error) {
	return func(d *dialect.Deployment) (string, error) {
		served, err := Served(d, by)
		return "(" + expr + ")" + served, err
	}
}

// Served is what restricts PromQL before it to what a deployment serves, by labels that both have.
func Served(d *dialect.Deployment, by []string) (string, error) {
	served, err := d.PromQL("group by (instance, model_name) (last_over_time(vllm:num_requests_running[1h]))")
	on := strings.Join(by, ", ")
	return fmt.Sprintf(" and on (%s) group by (%s) (%s)", on, on, served), err
}

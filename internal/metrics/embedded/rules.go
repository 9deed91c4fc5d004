package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

// Rules are recording rules and alerts over a store. Prometheus' own code evaluates them, when Eval is
// called.
type Rules struct {
	ruleGroups []*rules.Group
	alerts     []*rules.AlertingRule
	all        []rules.Rule
}

// Alert is one active alert.
type Alert struct {
	Name        string
	Labels      map[string]string // alertname included
	Annotations map[string]string
	Firing      bool // false: pending, it waits for its "for"
	Since       time.Time
}

// Rules loads rule groups over the store.
func (s *Store) Rules(groups []rulefmt.RuleGroup) (*Rules, error) {
	opts := &rules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation,
		QueryFunc:            rules.EngineQueryFunc(s.engine, s.db),
		NotifyFunc:           func(context.Context, string, ...*rules.Alert) {},
		AppendableV2:         s.Observe(s.db), Queryable: s.db,
		Context: context.Background(),
		Logger:  promslog.NewNopLogger(),
		Parser:  parser.NewParser(parser.Options{}),
	}
	opts.Metrics = rules.NewGroupMetrics(nil)
	out := &Rules{}
	for _, g := range groups {
		loaded, err := out.loadGroup(g, opts.Parser)
		if err != nil {
			return nil, fmt.Errorf("rule group %s: %w", g.Name, err)
		}
		out.all = append(out.all, loaded...)
		out.ruleGroups = append(out.ruleGroups,
			rules.NewGroup(rules.GroupOptions{
				Name: g.Name, File: "rules", Interval: time.Duration(g.Interval), Rules: loaded, Opts: opts,
			}))
	}
	return out, nil
}

func (r *Rules) loadGroup(g rulefmt.RuleGroup, p parser.Parser) ([]rules.Rule, error) {
	var out []rules.Rule
	for _, rule := range g.Rules {
		expr, err := p.ParseExpr(rule.Expr)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", rule.Record, rule.Alert, err)
		}
		if rule.Record != "" {
			out = append(out, rules.NewRecordingRule(rule.Record, expr, labels.FromMap(rule.Labels)))
			continue
		}
		a := rules.NewAlertingRule(rule.Alert, expr, time.Duration(rule.For), time.Duration(rule.KeepFiringFor),
			labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true,
			promslog.NewNopLogger())
		r.alerts = append(r.alerts, a)
		out = append(out, a)
	}
	return out, nil
}

// Eval evaluates every group once, one rule after the other. It joins the errors of the rules.
func (r *Rules) Eval(ctx context.Context, at time.Time) error {
	for _, g := range r.ruleGroups {
		g.Eval(ctx, at)
	}
	var errs []error
	for _, rule := range r.all {
		if err := rule.LastError(); err != nil {
			errs = append(errs, fmt.Errorf("rule %s: %w", rule.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// Alerts returns the alerts that were active at the last evaluation.
func (r *Rules) Alerts() []Alert {
	var out []Alert
	for _, rule := range r.alerts {
		for _, a := range rule.ActiveAlerts() {
			out = append(out, Alert{
				Name: rule.Name(), Labels: a.Labels.Map(), Annotations: a.Annotations.Map(),
				Firing: a.State == rules.StateFiring, Since: a.ActiveAt,
			})
		}
	}
	return out
}

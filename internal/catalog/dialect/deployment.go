package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Deployment describes the queries of one deployment's metrics: names, labels, durations.
type Deployment struct {
	// Dialects are the names in use: one, or several where versions are mixed.
	Dialects []Dialect

	// Instance, Model and GPU are the labels that identify a scraped target, the replicas of one model, and what a
	// model server and its GPU exporter have in common. Labels without series do no harm. An empty Instance, unlike a
	// nil one, adds up over replicas.
	Instance, Model, GPU []string

	// Matchers restrict every selector.
	Matchers []*labels.Matcher

	// Window, Short and Past replace the durations of indicator's expressions.
	Window, Short, Past time.Duration

	// Recorded returns the recorded series of a signal that other signals use; nil means that none is recorded.
	Recorded func(*indicator.Signal) string
}

// Usual values of a Deployment.
var (
	UsualInstance = []string{"cluster", "namespace", "job", "instance"}
	UsualModel    = []string{"cluster", "namespace", "model_name"}
)

var errNoDialect = errors.New("the deployment has no dialect that it could be asked in")

// rewritingFor returns the deployment's part of a rewriting in one dialect.
func (d *Deployment) rewritingFor(dia Dialect) indicator.Rewriting {
	rw := dia.Rewriting()
	rw.Window, rw.Short, rw.Past = d.Window, d.Short, d.Past
	rw.Instance, rw.Model, rw.Matchers = d.Instance, d.Model, d.Matchers
	if len(dia.Identity) > 0 && len(d.Instance) > 0 {
		rw.Instance = slices.Concat(d.Instance, dia.Identity)
	}
	return rw
}

// Expr returns a signal's PromQL for all dialects of the deployment, without values from too few observations. For a
// server with several dialects, such as one with old and new names during a deprecation, the first dialect counts.
func (d *Deployment) Expr(s *indicator.Signal) (string, error) {
	return d.mergeDialects(s, func(dia Dialect) (string, error) { return d.guardedPromQL(s, dia), nil })
}

// Unguarded is Expr with all values, for panels that show how many observations there are beside them.
func (d *Deployment) Unguarded(s *indicator.Signal) (string, error) {
	return d.mergeDialects(s, func(dia Dialect) (string, error) {
		return d.compilePromQL(s, ruleExpr(s, dia), dia), nil
	})
}

// PromQL returns an expression in canonical names for all dialects of the deployment.
func (d *Deployment) PromQL(expr string) (string, error) {
	return d.mergeDialects(nil, func(dia Dialect) (string, error) { return d.PromQLIn(dia, expr) })
}

// HasSignal reports whether any server of the deployment is of a release with the signal's metrics.
func (d *Deployment) HasSignal(s *indicator.Signal) bool {
	return slices.ContainsFunc(d.Dialects, func(dia Dialect) bool { return dia.Answers(s) && !dia.Predates(s) })
}

// Subjects returns the parts of the deployment that have alerts of their own on a scope, and the prefixes of these
// alerts: see AlertPrefixes.
func (d *Deployment) Subjects(scope indicator.Scope) (prefixes []string, parts []Deployment) {
	of := func(x Dialect) []string {
		return AlertPrefixes(scope, func(id engine.ID) bool { return id == x.Engine })
	}
	prefixes = AlertPrefixes(scope, func(id engine.ID) bool {
		return slices.ContainsFunc(d.Dialects, func(x Dialect) bool { return x.Engine == id })
	})
	for _, prefix := range prefixes {
		part := *d
		part.Dialects = slices.DeleteFunc(slices.Clone(d.Dialects),
			func(x Dialect) bool { return !slices.Contains(of(x), prefix) })
		parts = append(parts, part)
	}
	return prefixes, parts
}

// Gateway returns the dialect of sixty gateway, if the deployment has one. Other products get no alerts, because their
// counters cover everything behind them.
func (d *Deployment) Gateway() (Dialect, bool) {
	i := slices.IndexFunc(d.Dialects, func(x Dialect) bool { return x.Engine == Gateway && len(x.Exprs) == 0 })
	if i < 0 {
		return Dialect{}, false
	}
	return d.Dialects[i], true
}

// mergeDialects merges the dialects' expressions of a signal. It skips dialects of another kind of endpoint (a model
// server's for a GPU signal), and releases without the signal if others have it.
func (d *Deployment) mergeDialects(s *indicator.Signal, render func(Dialect) (string, error)) (string, error) {
	var exprs []string
	told := s != nil && d.HasSignal(s)
	for _, dia := range d.Dialects {
		if s == nil && !dia.Serves() || s != nil && (!dia.Answers(s) || told && dia.Predates(s)) {
			continue
		}
		expr, err := render(dia)
		if err != nil {
			return "", err
		}
		if !slices.Contains(exprs, expr) {
			exprs = append(exprs, expr)
		}
	}
	if len(exprs) == 0 {
		return "", errNoDialect
	}
	return Merge(exprs)
}

// ruleExpr returns the signal's expression for rules, which apply to servers with any options. It distinguishes roles
// if the signal has them.
func ruleExpr(s *indicator.Signal, dia Dialect) indicator.Expr {
	if s.OfRoles != nil && dia.Exprs[s.Name] == nil {
		return s.Expr
	}
	return dia.Expr(s)
}

// guardedPromQL returns a signal's PromQL in one dialect. A trend counts only after the target has been there for a
// while.
func (d *Deployment) guardedPromQL(s *indicator.Signal, dia Dialect) string {
	expr := ruleExpr(s, dia)
	out := d.compilePromQL(s, expr, dia)
	if s.Counted() {
		out = s.Guard(out, d.compilePromQL(s, s.Observations(), dia))
	}
	if s.Censored {
		out = s.Censor(out, d.recordedPromQL(indicator.UnansweredWait, dia),
			d.recordedPromQL(indicator.UnansweredShare, dia))
	}
	if s.Held && len(dia.Missing(indicator.StaleGauges)) == 0 {
		out = fmt.Sprintf("(%s) unless on (%s) ((%s) > 0)",
			out, strings.Join(d.Instance, ", "), d.recordedPromQL(indicator.StaleGauges, dia))
	}
	if s.MinPast > 0 {
		// The targets that exposed the signal's first metric MinPast ago.
		then := indicator.Now(indicator.Reads(expr)[0])
		then.Offset = s.MinPast
		there := d.compilePromQL(s, indicator.Aggregate{Op: "group", Labels: []string{"instance"}, Of: then}, dia)
		out = fmt.Sprintf("(%s) and on (%s) (%s)", out, strings.Join(d.Instance, ", "), there)
	}
	return out
}

// recordedPromQL returns a signal's recorded series, if any, else its PromQL in one dialect.
func (d *Deployment) recordedPromQL(s *indicator.Signal, dia Dialect) string {
	if d.Recorded != nil {
		return d.Recorded(s)
	}
	return d.guardedPromQL(s, dia)
}

// compilePromQL returns the PromQL of one of a signal's expressions.
func (d *Deployment) compilePromQL(s *indicator.Signal, expr indicator.Expr, dia Dialect) string {
	rw := d.rewritingFor(dia)
	return rw.Compile(expr, s.Scope).String()
}

// PromQLIn returns PromQL in one dialect, for any kind of endpoint.
func (d *Deployment) PromQLIn(dia Dialect, expr string) (string, error) {
	tree, err := indicator.Rewrite(expr, d.rewritingFor(dia))
	if err != nil {
		return "", err
	}
	return tree.String(), nil
}

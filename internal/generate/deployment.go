// Package generate renders the catalogue for the monitoring that a team has:
// Prometheus rules with their unit tests, Alertmanager inhibit rules. Packages
// beneath it render dashboards, scrape configuration, runbook pages and
// burn-rate alerts.
//
// It is pure: values in, files out. It asks nobody for samples and writes
// nothing; package cli does both.
package generate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// A File is one generated file; its path is relative, with slashes.
type File struct {
	Path    string
	Content []byte
}

// A Deployment says how one deployment's metrics are asked for: in which names,
// with which labels, over which durations.
type Deployment struct {
	// Dialects are the names in use: one, or several where versions are mixed.
	Dialects []dialect.Dialect

	// Instance, Model and GPU are the labels that identify a scraped target, the
	// replicas of one model, and what a model server and its GPU exporter have
	// in common. Labels that no series has do no harm. An empty Instance, as
	// against a nil one, adds up over replicas.
	Instance, Model, GPU []string

	// Matchers restrict every selector.
	Matchers []*labels.Matcher

	// Window, Short and Past replace the durations of indicator's expressions.
	Window, Short, Past time.Duration

	series func(*indicator.Signal) string // by which signals that others are made of are recorded; nil: they are not
}

// MinWindow returns the shortest window over which a rate can be trusted at a
// scrape interval: four of them, so that two samples remain when one scrape
// fails and the window's ends fall badly.
func MinWindow(interval time.Duration) time.Duration { return 4 * interval }

// Windows returns the Window and the Short of alerts on servers that are scraped
// every interval. Both are as short as their content allows, because a fault
// counts once it fills them and goes on counting until it has left them. The
// window has a minute's requests for percentiles. Short holds two scrapes wherever
// its ends fall, with a little for scrapes that are late, so that an engine that
// stops shows at the second page; ten seconds without progress are no hiccup.
func Windows(interval time.Duration) (window, short time.Duration) {
	return max(time.Minute, MinWindow(interval)), max(10*time.Second, (2*interval + interval/10).Round(time.Second))
}

// Usual values of a Deployment.
var (
	UsualInstance = []string{"cluster", "namespace", "job", "instance"}
	UsualModel    = []string{"cluster", "namespace", "model_name"}
)

var errNoDialect = errors.New("the deployment has no dialect that it could be asked in")

// rewriting returns the deployment's part of a rewriting in one dialect.
func (d *Deployment) rewriting(dia dialect.Dialect) indicator.Rewriting {
	rw := indicator.Rewriting{
		Window: d.Window, Short: d.Short, Past: d.Past,
		Instance: d.Instance, Model: d.Model, Matchers: d.Matchers, Metric: dia.Metric,
	}
	if len(dia.Identity) > 0 && len(d.Instance) > 0 {
		rw.Instance = slices.Concat(d.Instance, dia.Identity)
	}
	return rw
}

// Expr returns a signal's PromQL: without values that rest on too few
// observations, for all dialects of the deployment. Of a server that answers to
// several dialects, as one that exposes old and new names during a
// deprecation, the first counts.
func (d *Deployment) Expr(s *indicator.Signal) (string, error) {
	return d.each(s, func(dia dialect.Dialect) (string, error) { return d.guarded(s, dia), nil })
}

// Unguarded is Expr with all values, for panels that show how many
// observations there are beside them.
func (d *Deployment) Unguarded(s *indicator.Signal) (string, error) {
	return d.each(s, func(dia dialect.Dialect) (string, error) {
		expr, own := dia.Expr(s)
		return d.compile(s, expr, own, dia), nil
	})
}

// PromQL returns an expression in canonical names for all dialects of the
// deployment.
func (d *Deployment) PromQL(expr string) (string, error) {
	return d.each(nil, func(dia dialect.Dialect) (string, error) { return d.rewrite(expr, dia) })
}

// Tells reports whether a signal can be asked for at all: some servers of the deployment
// are of a release that has what it needs.
func (d *Deployment) Tells(s *indicator.Signal) bool {
	return slices.ContainsFunc(d.Dialects, func(dia dialect.Dialect) bool { return dia.Answers(s) && !dia.Predates(s) })
}

// each merges what the dialects make of a signal.
// Dialects of another kind of endpoint, a model server's for a GPU signal, are
// passed over, as are those of releases that cannot tell it where others can.
func (d *Deployment) each(s *indicator.Signal, render func(dialect.Dialect) (string, error)) (string, error) {
	var exprs []string
	told := s != nil && d.Tells(s)
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

// guarded returns a signal's PromQL in one dialect. A trend is not believed
// before the target has been there for a while.
func (d *Deployment) guarded(s *indicator.Signal, dia dialect.Dialect) string {
	expr, own := dia.Expr(s)
	out := d.compile(s, expr, own, dia)
	if s.Counted() {
		out = s.Guard(out, d.compile(s, s.Observations(), false, dia))
	}
	if s.Censored {
		out = s.Censor(out, d.known(indicator.UnansweredWait, dia), d.known(indicator.UnansweredShare, dia))
	}
	if s.MinPast > 0 {
		// The targets that exposed the signal's first metric MinPast ago.
		then := indicator.Now(indicator.Reads(expr)[0])
		then.Offset = s.MinPast
		there := d.compile(s, indicator.Aggregate{Op: "group", Labels: []string{"instance"}, Of: then}, own, dia)
		out = fmt.Sprintf("(%s) and on (%s) (%s)", out, strings.Join(d.Instance, ", "), there)
	}
	return out
}

// known returns a signal's series where one is recorded, else its PromQL in one dialect.
func (d *Deployment) known(s *indicator.Signal, dia dialect.Dialect) string {
	if d.series != nil {
		return d.series(s)
	}
	return d.guarded(s, dia)
}

// compile returns PromQL of an expression of a signal.
func (d *Deployment) compile(s *indicator.Signal, expr indicator.Expr, own bool, dia dialect.Dialect) string {
	rw := d.rewriting(dia)
	if own {
		rw.Metric = nil
	}
	return rw.Compile(expr, s.Scope).String()
}

func (d *Deployment) rewrite(expr string, dia dialect.Dialect) (string, error) {
	tree, err := indicator.Rewrite(expr, d.rewriting(dia))
	if err != nil {
		return "", err
	}
	return tree.String(), nil
}

// number writes a number as PromQL reads it back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// duration writes a duration as PromQL has it: "5m", "1d".
func duration(d time.Duration) string { return model.Duration(d).String() }

// Package burnrate renders objectives as Prometheus rules: the share of bad events in several windows, the error
// budget that is left, and alerts on its burn rate over several windows at several rates, after chapter 5 of the
// Google SRE workbook ("Alerting on SLOs"). Every alert comes with unit tests in promtool's format.
//
// The rules build on two recorded series for each objective: events and bad events per second over five minutes,
// recorded once a minute. Longer windows sum these up. A long window then costs two series instead of the histograms
// of a fleet, and keeps the counts of replicas that are gone.
//
// A latency can only be counted at an edge of its histogram's buckets. The target moves to the nearest edge, with a
// warning; a target far from any edge is an error (edges.go). Levels that no incident can reach are left out
// (window.go).
//
// The package is pure: values in, rules out. Package slo reads slo.yaml, and package cli, the only caller, asks the
// servers for their bucket edges and writes files.
package burnrate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// Config holds the objectives, and how to query the deployment's metrics.
type Config struct {
	// Objectives are the entries of slo.yaml in order. The first entry that matches a target applies to it.
	Objectives []slo.Objective

	// Period is the period of an error budget, slo.DefaultPeriod when 0.
	Period time.Duration

	// By lists the labels by which objectives are judged, {cluster, namespace, model_name} when empty. Labels that
	// objectives match are added. Instance lists the labels that identify a scraped target, {job, instance} when
	// empty. Labels that no series has do no harm.
	By, Instance []string

	// Matchers restrict every selector, http_requests_total's too.
	Matchers []*labels.Matcher

	// Metrics has a function for each dialect of the fleet, the preferred one first. It returns the dialect's name of a
	// canonical metric. Without functions the names are canonical.
	Metrics []func(canonical string) string

	// Subjects are the engines of the deployment, after which alerts are named; vLLM when empty.
	Subjects []Subject

	// Edges are the bucket edges of the servers in seconds, by canonical family such as
	// "vllm:time_to_first_token_seconds". In a mixed fleet all servers must have them: see EdgesOf and CommonEdges. A
	// missing family gets vLLM's default edges, with a warning.
	Edges map[string][]float64

	// Interval is the evaluation interval, one minute when 0.
	Interval time.Duration

	// Fast is the window of the fastest level, DefaultFast when 0. It should hold four scrapes.
	Fast time.Duration

	// Severities are the values of the label severity, if they are not page and ticket. KeepFiringFor is how long an
	// alert outlasts its condition.
	Severities    map[catalog.Severity]string
	KeepFiringFor time.Duration

	// Causes are PromQL matchers of the alerts that a burn alert names as possible causes; "" for none.
	Causes string

	// Runbook is the alerts' runbook_url; Labels and Annotations are added to every alert.
	Runbook             string
	Labels, Annotations map[string]string
}

// A Subject is an engine after which alerts are named.
type Subject struct {
	Prefix string // first part of the alert names
	Served string // PromQL to append, which restricts an alert to the models of this engine; "" if there is one engine
}

// Rules is the result of Groups.
type Rules struct {
	// Groups holds two groups for each promise of an objective: the share of bad events with its alerts, and the error
	// budget of the whole period.
	Groups []rulefmt.RuleGroup
	// Scopes names the objective of each group; "" for an objective without a name that matches everything.
	Scopes []string

	// Warnings are sentences that say how the rules differ from the request.
	Warnings []string
}

// Groups renders the objectives. If one of them cannot be judged, it returns an error and no rules.
func Groups(cfg Config) (out Rules, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return Rules{}, err
	}
	all, err := cfg.newIndicators(&out)
	if err != nil {
		return Rules{}, err
	}
	for _, s := range all {
		g, err := s.newGroup()
		if err != nil {
			return Rules{}, fmt.Errorf("objective %s: %w", s.id, err)
		}
		out.Groups = append(out.Groups, g, s.newBudgetGroup())
		out.Scopes = append(out.Scopes, scopeOf(s.objective), scopeOf(s.objective))
	}
	slices.Sort(out.Warnings)
	out.Warnings = slices.Compact(out.Warnings)
	return out, nil
}

// newIndicators returns the service level indicators of all objectives.
func (c *Config) newIndicators(rules *Rules) (all []*sli, err error) {
	levels, err := Levels(c.Period)
	if err != nil {
		return nil, err
	}
	levels = append([]Level{Fast(c.Period, c.Fast)}, levels...)
	ids := map[string]int{}
	for i, o := range c.Objectives {
		if j := slices.IndexFunc(c.Objectives[:i], matchesEveryTarget); j >= 0 {
			rules.addWarning("objective %d is never used: objective %d before it matches everything", i+1, j+1)
			continue
		}
		for _, p := range o.Promises() {
			s := &sli{
				cfg: c, objective: o, earlier: c.Objectives[:i], promise: p, levels: levels,
				budget: roundOff(1 - p.Share),
			}
			s.id = makeUnique(ids, identifierOf(o, p))
			if err := s.chooseBucket(rules); err != nil {
				return nil, fmt.Errorf("objective %d: %w", i+1, err)
			}
			s.dropUnreachable(rules)
			all = append(all, s)
		}
	}
	return all, nil
}

func (r *Rules) addWarning(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// withDefaults returns the configuration with defaults, or an error.
func (c Config) withDefaults() (Config, error) {
	if len(c.Objectives) == 0 {
		return c, hint.With(errors.New("no objectives"), "set a use case, or write slo.yaml: see docs/slo.md")
	}
	if err := c.checkBudgets(); err != nil {
		return c, err
	}
	if c.Period == 0 {
		c.Period = slo.DefaultPeriod
	}
	if err := checkPeriod(c.Period); err != nil {
		return c, err
	}
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	if c.Interval < time.Second || c.Interval > Base/2 {
		return c, fmt.Errorf("an evaluation interval of %s: want from 1s to %s, half of the shortest window",
			formatSpan(c.Interval), formatSpan(Base/2))
	}
	if c.Fast == 0 {
		c.Fast = DefaultFast
	}
	if c.Fast < 2*c.Interval || c.Fast > time.Hour/2 {
		return c, fmt.Errorf("a window of %s for the fastest page: want from two evaluations, %s, to 30m",
			formatSpan(c.Fast), formatSpan(2*c.Interval))
	}
	if len(c.Metrics) == 0 {
		c.Metrics = []func(string) string{func(name string) string { return name }}
	}
	if len(c.Subjects) == 0 {
		c.Subjects = []Subject{{Prefix: dialect.AlertPrefixes(indicator.Model,
			func(engine.ID) bool { return false })[0]}}
	}
	if err := c.completeLabels(); err != nil {
		return c, err
	}
	for _, m := range []map[string]string{c.Labels, c.Annotations} {
		for name := range maps.Keys(m) {
			if !model.LegacyValidation.IsValidLabelName(name) {
				return c, fmt.Errorf("%q is not a label name", name)
			}
		}
	}
	return c, nil
}

// checkBudgets refuses an objective without a target or without an error budget.
func (c *Config) checkBudgets() error {
	for i, o := range c.Objectives {
		if len(o.Promises()) == 0 {
			return fmt.Errorf("objective %d has no target", i+1)
		}
		for _, p := range o.Promises() {
			if !(p.Share > 0 && roundOff(1-p.Share) > 0) {
				err := fmt.Errorf("objective %d: %s of %s leaves no error budget", i+1, p.Quantity,
					formatPercent(p.Share))
				return hint.With(err, "use less than 100%, such as 99.9%")
			}
		}
	}
	return nil
}

// completeLabels fills in By and Instance.
func (c *Config) completeLabels() error {
	c.By = slices.Clone(c.By)
	if len(c.By) == 0 {
		c.By = []string{"cluster", "namespace", modelName}
	}
	for i, o := range c.Objectives {
		ms, err := o.Matchers()
		if err != nil {
			return fmt.Errorf("objective %d: %w", i+1, err)
		}
		for _, m := range ms {
			c.By = unionOf(c.By, m.Name)
		}
	}
	if len(c.Instance) == 0 {
		c.Instance = []string{"job", "instance"}
	}
	return nil
}

// matchesEveryTarget reports whether an objective matches every target, so that later ones never apply.
func matchesEveryTarget(o slo.Objective) bool {
	ms, err := o.Matchers()
	return err == nil && len(ms) == 0
}

// makeUnique returns an identifier that was not returned before; it numbers duplicates. counts counts the requests for
// each.
func makeUnique(counts map[string]int, id string) string {
	counts[id]++
	if n := counts[id]; n > 1 {
		return makeUnique(counts, fmt.Sprintf("%s-%d", id, n))
	}
	return id
}

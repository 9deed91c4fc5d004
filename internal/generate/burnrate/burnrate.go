// Package burnrate renders objectives as Prometheus rules: the share of bad
// events per window, the error budget that is left, and alerts on how fast it
// burns, over several windows at several rates, as the Google SRE workbook has
// it (chapter 5). Every alert comes with unit tests in promtool's format.
//
// It is pure: values in, rules out. It reads no slo.yaml (package slo does), asks
// no server which bucket edges it has, and writes no file: package cli does, and
// it alone calls this one.
//
// The rules build on rates over five minutes, recorded once a minute for each
// objective: events and bad events. Every longer window adds those up, so that
// it costs two series instead of a fleet's histograms, and keeps what replicas
// counted that are gone since.
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

// Config says what was promised and how the deployment's metrics are asked for.
type Config struct {
	// Objectives are the entries of slo.yaml, in its order: the first one that
	// matches a target is the target's.
	Objectives []slo.Objective

	// Period is how long a budget lasts, DefaultPeriod when 0.
	Period time.Duration

	// By lists the labels by which objectives are held, {cluster, namespace,
	// model_name} when empty; labels that an objective matches are added.
	// Instance lists those that identify a scraped target, {job, instance} when
	// empty. Labels that no series has do no harm.
	By, Instance []string

	// Matchers restrict every selector, those of http_requests_total included.
	Matchers []*labels.Matcher

	// Metrics return the name under which a deployment exposes a canonical metric
	// name, one function for each dialect of the fleet, the preferred one first;
	// none means canonical names.
	Metrics []func(canonical string) string

	// Subjects are what the alerts are about and named after: one for each engine of the deployment. None
	// means vLLM.
	Subjects []Subject

	// Edges are the bucket edges that the servers have, by canonical name of the
	// family such as "vllm:time_to_first_token_seconds", in seconds. For a mixed
	// fleet they are those that all have: see EdgesOf and CommonEdges. A family
	// that is missing has vLLM's own, with a warning.
	Edges map[string][]float64

	// Interval is how often the rules are evaluated, one minute when 0.
	Interval time.Duration

	// Fast is the window of the fastest level, DefaultFast when 0: four scrapes at least.
	Fast time.Duration

	// Severities are the values of the label severity, where they are others than page and
	// ticket. KeepFiringFor is how long an alert goes on after its condition ended.
	Severities    map[catalog.Severity]string
	KeepFiringFor time.Duration

	// Causes selects the alerts that an alert on a budget names, as PromQL matchers; ""
	// names none.
	Causes string

	// Runbook is the alerts' runbook_url; Labels and Annotations are added to
	// every alert.
	Runbook             string
	Labels, Annotations map[string]string
}

// A Subject is what alerts are named after.
type Subject struct {
	Prefix string // of their names
	Served string // restricts PromQL before it to the models that it serves; "" where there is no other
}

// Rules is what Groups returns.
type Rules struct {
	// Groups holds two groups for each objective: the share of bad events with
	// the alerts on it, and the error budget of the whole period.
	Groups []rulefmt.RuleGroup
	// Of names, for each group, the objective that it is of: "" for one that matches
	// everything and has no name.
	Of []string

	// Warnings says, one sentence each, what differs from what was asked for.
	Warnings []string
}

// Groups renders the objectives. It is an error when one of them cannot be
// kept watch over; then there are no rules at all.
func Groups(cfg Config) (out Rules, err error) {
	cfg, err = cfg.checked()
	if err != nil {
		return Rules{}, err
	}
	all, err := cfg.promises(&out)
	if err != nil {
		return Rules{}, err
	}
	for _, s := range all {
		g, err := s.group()
		if err != nil {
			return Rules{}, fmt.Errorf("objective %s: %w", s.id, err)
		}
		out.Groups = append(out.Groups, g, s.budgetGroup())
		out.Of = append(out.Of, subject(s.objective), subject(s.objective))
	}
	slices.Sort(out.Warnings)
	out.Warnings = slices.Compact(out.Warnings)
	return out, nil
}

// promises are the indicators of all objectives that can be kept watch over.
func (c *Config) promises(out *Rules) (all []*sli, err error) {
	levels, err := Levels(c.Period)
	if err != nil {
		return nil, err
	}
	levels = append([]Level{Fast(c.Period, c.Fast)}, levels...)
	ids := map[string]int{}
	for i, o := range c.Objectives {
		if j := slices.IndexFunc(c.Objectives[:i], matchesAll); j >= 0 {
			out.warn("objective %d is never used: objective %d before it matches everything", i+1, j+1)
			continue
		}
		for _, p := range o.Promises() {
			s := &sli{cfg: c, objective: o, earlier: c.Objectives[:i], promise: p, levels: levels, budget: rounded(1 - p.Share)}
			s.id = unique(ids, identifier(o, p))
			if err := s.chooseBucket(out); err != nil {
				return nil, fmt.Errorf("objective %d: %w", i+1, err)
			}
			s.dropUnreachable(out)
			all = append(all, s)
		}
	}
	return all, nil
}

func (r *Rules) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// checked returns the configuration with its defaults filled in.
func (c Config) checked() (Config, error) {
	if len(c.Objectives) == 0 {
		return c, hint.With(errors.New("no objectives"), "set a use case, or write slo.yaml: see docs/slo.md")
	}
	for i, o := range c.Objectives {
		if len(o.Promises()) == 0 {
			return c, fmt.Errorf("objective %d has no target", i+1)
		}
		for _, p := range o.Promises() {
			if !(p.Share > 0 && rounded(1-p.Share) > 0) {
				return c, hint.With(fmt.Errorf("objective %d: %s of %s leaves no error budget", i+1, p.Quantity, percent(p.Share)), "use less than 100%, such as 99.9%")
			}
		}
	}
	if c.Period == 0 {
		c.Period = DefaultPeriod
	}
	if err := checkPeriod(c.Period); err != nil {
		return c, err
	}
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	if c.Interval < time.Second || c.Interval > Base/2 {
		return c, fmt.Errorf("an evaluation interval of %s: want from 1s to %s, half of the shortest window", span(c.Interval), span(Base/2))
	}
	if c.Fast == 0 {
		c.Fast = DefaultFast
	}
	if c.Fast < 2*c.Interval || c.Fast > time.Hour/2 {
		return c, fmt.Errorf("a window of %s for the fastest page: want from two evaluations, %s, to 30m", span(c.Fast), span(2*c.Interval))
	}
	if len(c.Metrics) == 0 {
		c.Metrics = []func(string) string{func(name string) string { return name }}
	}
	if len(c.Subjects) == 0 {
		c.Subjects = []Subject{{Prefix: dialect.AlertPrefixes(indicator.Model, func(engine.ID) bool { return false })[0]}}
	}
	if err := c.group(); err != nil {
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

// group fills in By and Instance.
func (c *Config) group() error {
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
			c.By = union(c.By, m.Name)
		}
	}
	if len(c.Instance) == 0 {
		c.Instance = []string{"job", "instance"}
	}
	return nil
}

// matchesAll reports whether no target is left for the objectives that follow.
func matchesAll(o slo.Objective) bool {
	ms, err := o.Matchers()
	return err == nil && len(ms) == 0
}

// unique returns an identifier that was not given out before.
func unique(given map[string]int, id string) string {
	given[id]++
	if n := given[id]; n > 1 {
		return unique(given, fmt.Sprintf("%s-%d", id, n))
	}
	return id
}

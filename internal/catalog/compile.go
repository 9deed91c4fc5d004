package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/indicator"
)

// Compilation says how a condition becomes PromQL for one deployment.
type Compilation struct {
	// Query returns a signal's guarded expression for the deployment, over the
	// window or over the baseline.
	Query func(s *indicator.Signal, baseline bool) (string, error)

	// Lifetime says that the baseline is the sum of a server's life: thresholds
	// that ask for a history resolve to their defaults.
	Lifetime bool

	// Limit is View.Limit: thresholds known when the rule is written.
	Limit func(*Threshold) (limit float64, source string, ok bool)

	// Instance and Model are the labels of a target and of a fleet; nil means
	// instance and model_name.
	Instance, Model []string

	// GPU lists the labels that a model server and its GPU exporter share; none
	// means that there is one of each.
	GPU []string
}

// Compile returns PromQL that has a sample exactly while the condition holds,
// labelled with the finest scope among its signals.
func (c Cond) Compile(o Compilation) (string, error) {
	if o.Instance == nil {
		o.Instance = []string{"instance"}
	}
	if o.Model == nil {
		o.Model = []string{"model_name"}
	}
	return o.cond(c)
}

func (o Compilation) cond(c Cond) (string, error) {
	switch {
	case c.Signal != nil:
		return o.comparison(c)
	case c.Any != nil:
		return o.join(c.Any, "or")
	}
	return o.join(finestFirst(c.All), "and")
}

// finestFirst puts the conditions with the most labels first: the left side of
// "and" gives its labels to the result.
func finestFirst(cs []Cond) []Cond {
	var out []Cond
	for _, s := range []indicator.Scope{indicator.Model, indicator.Instance, indicator.GPU} {
		for _, c := range cs {
			if c.scope() == s {
				out = append(out, c)
			}
		}
	}
	return out
}

// scope is the coarsest scope of a comparison or an Any, the finest of an All.
func (c Cond) scope() indicator.Scope {
	if c.Signal != nil {
		return c.Signal.Scope
	}
	if c.Any != nil {
		s := indicator.Model
		for _, sub := range c.Any {
			s = max(s, sub.scope())
		}
		return s
	}
	s := indicator.GPU
	for _, sub := range c.All {
		s = min(s, sub.scope())
	}
	return s
}

func (o Compilation) join(cs []Cond, op string) (string, error) {
	var b strings.Builder
	for i, c := range cs {
		sub, err := o.cond(c)
		if err != nil {
			return "", err
		}
		if i > 0 {
			fmt.Fprintf(&b, " %s on (%s) ", op, strings.Join(o.on(cs[0].scope(), c.scope()), ", "))
		}
		fmt.Fprintf(&b, "(%s)", sub)
	}
	return b.String(), nil
}

// on returns the labels on which two scopes meet.
func (o Compilation) on(a, b indicator.Scope) []string {
	switch {
	case a == b && a == indicator.GPU:
		return o.Instance
	case a == indicator.GPU || b == indicator.GPU:
		return o.GPU
	case a == indicator.Instance || b == indicator.Instance:
		return o.Instance
	}
	return append(append([]string{}, o.Instance...), o.Model...)
}

func (o Compilation) comparison(c Cond) (string, error) {
	now, err := o.Query(c.Signal, false)
	if err != nil {
		return "", err
	}
	if limit, _, ok := o.Limit(c.Threshold); ok {
		return fmt.Sprintf("(%s) %s %s", now, c.Op, number(limit)), nil
	}
	absolute := fmt.Sprintf("(%s) %s %s", now, c.Op, number(c.Threshold.Default))
	if c.Threshold.Baseline == nil || c.Threshold.Baseline.History && o.Lifetime {
		return absolute, nil
	}
	limit, err := o.relative(c)
	if err != nil {
		return "", err
	}
	on := strings.Join(o.on(c.Signal.Scope, c.Signal.Scope), ", ")
	relative := fmt.Sprintf("(%s) %s on (%s) (%s)", now, c.Op, on, limit)
	if math.IsNaN(c.Threshold.Default) {
		return relative, nil
	}
	return fmt.Sprintf("(%s) or ((%s) unless on (%s) (%s))", relative, absolute, on, limit), nil
}

// relative returns the PromQL of a threshold that follows the baseline.
func (o Compilation) relative(c Cond) (string, error) {
	r := c.Threshold.Baseline
	base, err := o.Query(c.Signal, true)
	if err != nil {
		return "", err
	}
	limit := fmt.Sprintf("%s * (%s)", number(r.Factor), base)
	if r.Per != nil {
		now, err := o.Query(r.Per, false)
		if err != nil {
			return "", err
		}
		normal, err := o.Query(r.Per, true)
		if err != nil {
			return "", err
		}
		on := strings.Join(o.on(c.Signal.Scope, r.Per.Scope), ", ")
		limit += fmt.Sprintf(" * on (%s) clamp_min((%s) / on (%s) ((%s) > 0), 1) ^ %s", on, now, on, normal, number(r.Exponent))
	}
	switch {
	case r.Offset > 0:
		limit += " + " + number(r.Offset)
	case r.Offset < 0:
		limit = "clamp_min(" + limit + " - " + number(-r.Offset) + ", 0)"
	}
	return limit, nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

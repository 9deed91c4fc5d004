package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Compilation holds the choices for compiling conditions to PromQL for one deployment.
type Compilation struct {
	// Query returns a signal's guarded expression for the deployment, over the window or over the baseline; "" if its
	// servers do not expose the signal.
	Query func(s *indicator.Signal, baseline bool) (string, error)

	// Normal returns a signal's measured normal value, if it is known when the rule is written; nil makes the rule
	// query it by Query.
	Normal func(*indicator.Signal) (normal float64, ok bool)

	// Record maps the PromQL of a limit that follows the baseline to the name of a recording rule for it; nil means
	// that there are no such rules.
	Record func(c Cond, limit string) string

	// Lifetime marks a baseline of a server's lifetime sums: thresholds that need a history resolve to their
	// defaults.
	Lifetime bool
	// Capped marks a baseline that may contain the fault itself (View.MayHoldFault).
	Capped bool

	// Limit is View.Limit: thresholds known when the rule is written.
	Limit func(*Threshold) (limit float64, source string, ok bool)
	// Promises reports whether such a threshold is a promise, not only a measurement; nil means that none is.
	Promises func(*Threshold) bool

	// Instance and Model are the labels of a target and of a fleet; nil means instance and model_name.
	Instance, Model []string

	// GPU lists the labels that a model server and its GPU exporter share; none means that there is one of each.
	GPU []string
}

// Compile returns PromQL that has a sample exactly while the condition holds, labelled with the finest scope among
// its signals. It returns "" for a condition that cannot hold, because a threshold resolves to no number.
func (c Cond) Compile(o Compilation) (string, error) {
	if o.Instance == nil {
		o.Instance = []string{"instance"}
	}
	if o.Model == nil {
		o.Model = []string{"model_name"}
	}
	return o.compileCond(c)
}

func (o Compilation) compileCond(c Cond) (string, error) {
	switch {
	case c.Signal != nil:
		return o.compileComparison(c)
	case c.Any != nil:
		return o.joinConditions(c.Any, "or")
	}
	var holds, spared []Cond
	for _, sub := range finestFirst(c.All) {
		if sub.absentHolds() {
			spared = append(spared, sub)
		} else {
			holds = append(holds, sub)
		}
	}
	expr, err := o.joinConditions(holds, "and")
	for _, sub := range spared {
		if err != nil || expr == "" {
			return "", err
		}
		var above string
		above, err = o.compileComparison(Cond{Signal: sub.Signal, Op: GreaterThan, Threshold: sub.Threshold})
		if above != "" {
			expr = fmt.Sprintf("(%s) unless on (%s) (%s)", expr,
				strings.Join(o.joinLabels(All(holds...).coarsestScope(), sub.coarsestScope()), ", "), above)
		}
	}
	return expr, err
}

// absentHolds reports whether a comparison holds where the metric is not exposed and counts as zero. PromQL has no
// sample to compare then, so that such a condition excludes the servers on which it does not hold.
func (c Cond) absentHolds() bool { return c.Signal != nil && c.Signal.Optional && c.Op == LessThan }

// finestFirst puts the conditions with the most labels first: the left side of "and" gives its labels to the result.
func finestFirst(cs []Cond) []Cond {
	return slices.SortedStableFunc(slices.Values(cs), func(a, b Cond) int {
		return cmp.Compare(a.coarsestScope(), b.coarsestScope())
	})
}

// coarsestScope returns the coarsest scope of a comparison or an Any, the finest of an All.
func (c Cond) coarsestScope() indicator.Scope {
	if c.Signal != nil {
		return c.Signal.Scope
	}
	if c.Any != nil {
		s := indicator.Model
		for _, sub := range c.Any {
			s = max(s, sub.coarsestScope())
		}
		return s
	}
	s := indicator.Gateway
	for _, sub := range c.All {
		s = min(s, sub.coarsestScope())
	}
	return s
}

func (o Compilation) joinConditions(cs []Cond, op string) (string, error) {
	var b strings.Builder
	var left indicator.Scope
	for _, c := range cs {
		sub, err := o.compileCond(c)
		switch {
		case err != nil:
			return "", err
		case sub == "" && op == "and":
			return "", nil
		case sub == "":
			continue
		}
		if b.Len() == 0 {
			left = c.coarsestScope()
		} else {
			fmt.Fprintf(&b, " %s on (%s) ", op, strings.Join(o.joinLabels(left, c.coarsestScope()), ", "))
		}
		fmt.Fprintf(&b, "(%s)", sub)
	}
	return b.String(), nil
}

// joinLabels returns the labels on which two scopes join.
func (o Compilation) joinLabels(a, b indicator.Scope) []string {
	switch {
	case a == b && a != indicator.Model:
		return o.Instance
	case a == indicator.GPU || b == indicator.GPU:
		return o.GPU
	case a == indicator.Instance || b == indicator.Instance:
		return o.Instance
	}
	both := slices.Clone(o.Instance)
	for _, l := range o.Model {
		if !slices.Contains(both, l) {
			both = append(both, l)
		}
	}
	return both
}

func (o Compilation) compileComparison(c Cond) (string, error) {
	if c.Signal.Logged {
		return "", nil // no store holds logs
	}
	now, err := o.Query(c.Signal, false)
	if err != nil || now == "" {
		return "", err
	}
	way := c.Threshold.Ways(o.Limit, !o.Lifetime)
	if c.Promised && (!way.Set || o.Promises == nil || !o.Promises(c.Threshold)) {
		return "", nil
	}
	if way.Set {
		return fmt.Sprintf("(%s) %s %s", now, c.Op, formatFloat(way.Limit)), nil
	}
	absolute := ""
	if !math.IsNaN(c.Threshold.Default) {
		absolute = fmt.Sprintf("(%s) %s %s", now, c.Op, formatFloat(c.Threshold.Default))
	}
	if way.Relative == nil {
		return absolute, nil
	}
	if o.Normal != nil {
		return o.compileMeasured(c, now, absolute)
	}
	limit, err := o.compileRelative(c)
	if err != nil {
		return "", err
	}
	if limit == "" {
		return absolute, nil
	}
	if o.Capped && absolute != "" && c.Op == GreaterThan {
		limit = fmt.Sprintf("clamp_max(%s, %s)", limit, formatFloat(c.Threshold.Default))
	}
	if o.Record != nil {
		limit = o.Record(c, limit)
	}
	on := strings.Join(o.joinLabels(c.Signal.Scope, c.Signal.Scope), ", ")
	relative := fmt.Sprintf("(%s) %s on (%s) (%s)", now, c.Op, on, limit)
	if absolute == "" {
		return relative, nil
	}
	return fmt.Sprintf("(%s) or ((%s) unless on (%s) (%s))", relative, absolute, on, limit), nil
}

// compileMeasured compares with a threshold that follows measured numbers, or with the default if a number is missing.
func (o Compilation) compileMeasured(c Cond, now, absolute string) (string, error) {
	r := c.Threshold.Baseline
	base, ok := o.Normal(c.Signal)
	if !ok {
		return absolute, nil
	}
	if r.Per == nil || r.Perhaps {
		return fmt.Sprintf("(%s) %s %s", now, c.Op, formatFloat(r.clampLimit(r.Factor*base+r.Offset))), nil
	}
	normal, ok := o.Normal(r.Per)
	if !ok || normal <= 0 {
		return absolute, nil
	}
	per, err := o.Query(r.Per, false)
	if err != nil {
		return "", err
	}
	if per == "" {
		return absolute, nil
	}
	scale := fmt.Sprintf("clamp_min((%s) / %s, 1) ^ %s", per, formatFloat(normal), formatFloat(r.Exponent))
	on := strings.Join(o.joinLabels(c.Signal.Scope, r.Per.Scope), ", ")
	return fmt.Sprintf("(%s) %s on (%s) (%s)", now, c.Op, on, r.shiftLimit(formatFloat(r.Factor*base)+" * "+scale)), nil
}

// compileRelative returns the PromQL of a threshold that follows the baseline, "" if its scale has no expression.
func (o Compilation) compileRelative(c Cond) (string, error) {
	r := c.Threshold.Baseline
	base, err := o.Query(c.Signal, true)
	if err != nil {
		return "", err
	}
	limit := fmt.Sprintf("%s * (%s)", formatFloat(r.Factor), base)
	if r.Per != nil && !r.Perhaps {
		now, err := o.Query(r.Per, false)
		if err != nil || now == "" {
			return "", err
		}
		normal, err := o.Query(r.Per, true)
		if err != nil {
			return "", err
		}
		on := strings.Join(o.joinLabels(c.Signal.Scope, r.Per.Scope), ", ")
		limit += fmt.Sprintf(" * on (%s) clamp_min((%s) / on (%s) ((%s) > 0), 1) ^ %s", on, now, on, normal,
			formatFloat(r.Exponent))
	}
	return r.shiftLimit(limit), nil
}

// shiftLimit adds the offset to the PromQL of a limit and bounds it.
func (r *Relative) shiftLimit(limit string) string {
	switch {
	case r.Offset > 0:
		limit += " + " + formatFloat(r.Offset)
	case r.Offset < 0:
		limit = "clamp_min(" + limit + " - " + formatFloat(-r.Offset) + ", 0)"
	}
	if r.Most > 0 {
		limit = "clamp_max(" + limit + ", " + formatFloat(r.Most) + ")"
	}
	return limit
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

package generate

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
)

// A segment is a part of the fleet that shares its thresholds.
type segment struct {
	name      string         // separates the alerts of several segments; "" if there is one segment
	objective *slo.Objective // nil without an objective
	measured  *baseline.File // nil without a measurement
	matchers  []*labels.Matcher
	except    [][]*labels.Matcher // matchers of earlier segments
}

// selectSegment returns PromQL for the servers of a segment, or "" for all servers.
func (cfg *RulesConfig) selectSegment(seg *segment) string {
	if len(seg.matchers)+len(seg.except) == 0 {
		return ""
	}
	up := func(ms []*labels.Matcher) string {
		return indicator.Selector(cfg.Series(indicator.Up), slices.Concat(cfg.Deployment.Matchers, ms)...)
	}
	expr := up(seg.matchers)
	for _, e := range seg.except {
		expr += " unless " + up(e)
	}
	return expr
}

// divideFleet divides the fleet by objectives, and each part by the measured models. The first objective that matches a
// server counts.
func (cfg *RulesConfig) divideFleet() ([]segment, error) {
	var entries []*slo.Objective
	if cfg.Objectives != nil {
		for i := range cfg.Objectives.Objectives {
			entries = append(entries, &cfg.Objectives.Objectives[i])
		}
	}
	entries = append(entries, nil)
	var out []segment
	var earlier segment
	for _, e := range entries {
		var matchers []*labels.Matcher
		if e != nil {
			var err error
			if matchers, err = e.Matchers(); err != nil {
				return nil, err
			}
		}
		out = append(out, cfg.measuredSegments(segment{
			objective: e, matchers: slices.Concat(matchers, earlier.matchers), except: slices.Clone(earlier.except),
		})...)
		if e != nil && len(matchers) == 0 {
			break // it matches every server: later objectives are never used
		}
		if len(matchers) == 1 {
			not, err := matchers[0].Inverse()
			if err != nil {
				return nil, err
			}
			earlier.matchers = append(earlier.matchers, not)
		} else {
			earlier.except = append(earlier.except, matchers)
		}
	}
	nameSegments(out)
	return out, nil
}

// nameSegments gives several segments distinct names, from their objectives if these have names.
func nameSegments(segs []segment) {
	if len(segs) < 2 {
		return
	}
	seen := map[string]int{}
	for i := range segs {
		name := "none"
		if o := segs[i].objective; o != nil {
			name = cmp.Or(o.Name, o.UseCase, "slo")
		}
		if m := segs[i].measured; m != nil && m.Model != "" {
			name += " measured " + m.Model
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		segs[i].name = name
	}
}

// measuredSegments divides a segment by the measured models.
func (cfg *RulesConfig) measuredSegments(rest segment) []segment {
	var out []segment
	var models []string
	for _, f := range cfg.Measured {
		switch {
		case f.Model == "":
			rest.measured = f
			continue
		case !mayMatchModel(rest.matchers, f.Model):
			continue
		}
		seg := rest
		seg.measured = f
		seg.matchers = append(slices.Clone(rest.matchers),
			labels.MustNewMatcher(labels.MatchEqual, "model_name", f.Model))
		out = append(out, seg)
		models = append(models, regexp.QuoteMeta(f.Model))
	}
	if len(models) > 0 {
		rest.matchers = append(slices.Clone(rest.matchers),
			labels.MustNewMatcher(labels.MatchNotRegexp, "model_name", strings.Join(models, "|")))
	}
	return append(out, rest)
}

// mayMatchModel reports whether the matchers of an objective can match a model.
func mayMatchModel(matchers []*labels.Matcher, model string) bool {
	for _, m := range matchers {
		if m.Name == "model_name" && !m.Matches(model) {
			return false
		}
	}
	return true
}

// Limit returns a threshold that is known in advance and holds for every model. Dashboards draw it as a line.
func (cfg *RulesConfig) Limit(t *catalog.Threshold) (value float64, source string, ok bool) {
	seg := segment{measured: baseline.For(cfg.Measured, "")}
	if cfg.Objectives != nil && len(cfg.Objectives.Objectives) == 1 {
		seg.objective = &cfg.Objectives.Objectives[0]
	}
	return cfg.limitFinder(&seg)(t)
}

// limitFinder returns a function that finds the thresholds of a segment that are known in advance.
func (cfg *RulesConfig) limitFinder(seg *segment) func(*catalog.Threshold) (float64, string, bool) {
	sources := threshold.Sources{Set: cfg.Set, Objective: seg.objective, Measured: seg.measured}
	return func(t *catalog.Threshold) (float64, string, bool) {
		l, ok := sources.Limit(t)
		return l.Value, l.Detail, ok
	}
}

// promisedThresholds returns a function that reports whether a threshold was set by a person or an objective, and not
// measured.
func (cfg *RulesConfig) promisedThresholds(seg *segment) func(*catalog.Threshold) bool {
	sources := threshold.Sources{Set: cfg.Set, Objective: seg.objective}
	return func(t *catalog.Threshold) bool {
		_, ok := sources.Limit(t)
		return ok
	}
}

// A resolved comparison has its threshold and the threshold's source as text.
type resolved struct {
	cond   catalog.Cond
	text   string // "> 3 s", "> 2 × its median over 1d, 1h ago + 50 ms"; "" without a threshold
	source string
}

// resolveThreshold resolves the threshold of a comparison in the same way as Compile.
func (cfg *RulesConfig) resolveThreshold(seg *segment, c catalog.Cond) resolved {
	t := c.Threshold
	r := resolved{cond: c}
	way := t.Ways(cfg.limitFinder(seg), true)
	if c.Promised && (!way.Set || !cfg.promisedThresholds(seg)(t)) {
		return r
	}
	if way.Set {
		r.text, r.source = c.Op.Text(way.Limit, t.Unit), way.Source
		return r
	}
	if way.Relative != nil {
		if seg.measured == nil || len(seg.measured.Normal) == 0 {
			r.text, r.source = string(c.Op)+" "+RelativeText(t,
				"its median over "+formatDuration(cfg.Past)+", "+formatDuration(cfg.Ago)+" ago"), "the past"
			if !math.IsNaN(t.Default) {
				r.source += "; without one " + indicator.FormatNumber(t.Default, t.Unit)
			}
			return r
		}
		if baseline, ok := seg.measured.Signal(c.Signal); ok {
			r.text, r.source = string(c.Op)+" "+RelativeText(t, indicator.FormatNumber(baseline, c.Signal.Unit)),
				"measured: "+seg.measured.Source
			return r
		}
	}
	if math.IsNaN(t.Default) {
		r.source = "nothing: never"
		return r
	}
	r.text, r.source = c.Op.Text(t.Default, t.Unit), "default"
	return r
}

// RelativeText describes a threshold that is relative to normal.
func RelativeText(t *catalog.Threshold, normal string) string {
	text := fmt.Sprintf("%s × %s", formatNumber(t.Baseline.Factor), normal)
	if p := t.Baseline.Per; p != nil && !t.Baseline.Perhaps {
		text += fmt.Sprintf(" × (growth of %s)", p.Title)
		if e := t.Baseline.Exponent; e != 1 {
			text += "^" + formatNumber(e)
		}
	}
	switch o := t.Baseline.Offset; {
	case o > 0:
		text += " + " + formatDifference(o, t.Unit)
	case o < 0:
		text += " − " + formatDifference(-o, t.Unit)
	}
	if t.Baseline.Most > 0 {
		text += ", at most " + indicator.FormatNumber(t.Baseline.Most, t.Unit)
	}
	return text
}

// FillRunbook returns a pathology's runbook. Descriptions of thresholds replace their names in the template.
func FillRunbook(p *catalog.Pathology, describe func(*catalog.Threshold) string) string {
	var pairs []string
	for _, c := range p.Conditions() {
		c.Leaves(func(leaf catalog.Cond) {
			pairs = append(pairs, "{{"+leaf.Threshold.Name+"}}", describe(leaf.Threshold))
		})
	}
	return strings.NewReplacer(pairs...).Replace(p.Template)
}

// DescribeThreshold describes a threshold and its fallbacks, in the order in which they are resolved.
func DescribeThreshold(t *catalog.Threshold) string {
	var parts []string
	switch {
	case t.BurnRate > 0:
		parts = append(parts, fmt.Sprintf("%g × the error budget of the objective %s", t.BurnRate, t.Objective))
	case t.Objective != "":
		parts = append(parts, "the objective "+string(t.Objective))
	}
	if r := t.Baseline; r != nil {
		text := RelativeText(t, "normal")
		if r.History {
			text += ", of earlier samples"
		}
		parts = append(parts, text)
	}
	if t.Default == t.Default { // not catalog.None
		number := indicator.FormatNumber(t.Default, t.Unit)
		if t.Default > 0 && t.Default < 1e-6 {
			number = "0"
		}
		parts = append(parts, number)
	}
	return strings.Join(parts, "; without it ")
}

// formatDifference writes an offset of a threshold. Ratios are in percentage points, because a percentage would read as
// relative.
func formatDifference(v float64, u indicator.Unit) string {
	text := indicator.FormatNumber(v, u)
	if u == indicator.Ratio {
		text = strings.TrimSuffix(text, " %") + " percentage points"
	}
	return text
}

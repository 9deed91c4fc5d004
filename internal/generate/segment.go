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

// A segment is a part of the fleet for which the same thresholds hold.
type segment struct {
	name      string         // tells alerts of several segments apart; "" where there is one
	objective *slo.Objective // nil: nothing was promised
	measured  *baseline.File // nil: nothing was measured
	matchers  []*labels.Matcher
	except    [][]*labels.Matcher // what belongs to earlier segments
}

// members returns PromQL for the servers of a segment, or "" for all.
func (cfg *RulesConfig) members(seg *segment) string {
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

// segments divides the fleet by objectives, of which the first that matches
// counts, and by the models that were measured.
func (cfg *RulesConfig) segments() ([]segment, error) {
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
		var matches []*labels.Matcher
		if e != nil {
			var err error
			if matches, err = e.Matchers(); err != nil {
				return nil, err
			}
		}
		out = append(out, cfg.measuredSegments(segment{objective: e, matchers: slices.Concat(matches, earlier.matchers), except: slices.Clone(earlier.except)})...)
		if e != nil && len(matches) == 0 {
			break // it matches everything: later entries never do
		}
		if len(matches) == 1 {
			not, err := matches[0].Inverse()
			if err != nil {
				return nil, err
			}
			earlier.matchers = append(earlier.matchers, not)
		} else {
			earlier.except = append(earlier.except, matches)
		}
	}
	nameSegments(out)
	return out, nil
}

// nameSegments tells several segments apart, by their objectives where those
// have names.
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

// measuredSegments divides a segment by the models that were measured.
func (cfg *RulesConfig) measuredSegments(rest segment) []segment {
	var out []segment
	var models []string
	for _, f := range cfg.Measured {
		switch {
		case f.Model == "":
			rest.measured = f
			continue
		case !serves(rest.matchers, f.Model):
			continue
		}
		seg := rest
		seg.measured = f
		seg.matchers = append(slices.Clone(rest.matchers), labels.MustNewMatcher(labels.MatchEqual, "model_name", f.Model))
		out = append(out, seg)
		models = append(models, regexp.QuoteMeta(f.Model))
	}
	if len(models) > 0 {
		rest.matchers = append(slices.Clone(rest.matchers), labels.MustNewMatcher(labels.MatchNotRegexp, "model_name", strings.Join(models, "|")))
	}
	return append(out, rest)
}

// serves reports whether an objective can be one of a model's.
func serves(matchers []*labels.Matcher, model string) bool {
	for _, m := range matchers {
		if m.Name == "model_name" && !m.Matches(model) {
			return false
		}
	}
	return true
}

// Limit returns a threshold that is known when the pack is written, and that
// holds for every model: the lines on dashboards.
func (cfg *RulesConfig) Limit(t *catalog.Threshold) (limit float64, source string, ok bool) {
	seg := segment{measured: baseline.For(cfg.Measured, "")}
	if cfg.Objectives != nil && len(cfg.Objectives.Objectives) == 1 {
		seg.objective = &cfg.Objectives.Objectives[0]
	}
	return cfg.limit(&seg)(t)
}

// limit returns what finds the thresholds that are known when a segment's rules are
// written.
func (cfg *RulesConfig) limit(seg *segment) func(*catalog.Threshold) (float64, string, bool) {
	sources := threshold.Sources{Set: cfg.Set, Objective: seg.objective, Measured: seg.measured}
	return func(t *catalog.Threshold) (float64, string, bool) {
		l, ok := sources.Limit(t)
		return l.Value, l.Detail, ok
	}
}

// promisedThresholds returns what tells the thresholds that somebody promised from those that were
// measured.
func (cfg *RulesConfig) promisedThresholds(seg *segment) func(*catalog.Threshold) bool {
	sources := threshold.Sources{Set: cfg.Set, Objective: seg.objective}
	return func(t *catalog.Threshold) bool {
		_, ok := sources.Limit(t)
		return ok
	}
}

// resolved is a comparison and where its threshold comes from.
type resolved struct {
	cond   catalog.Cond
	text   string // "> 3 s", "> 2 × its median over 1d, 1h ago + 50 ms"
	source string
}

// resolve says how a comparison's threshold was found, as Compile finds it.
func (cfg *RulesConfig) resolve(seg *segment, c catalog.Cond) resolved {
	t := c.Threshold
	r := resolved{cond: c}
	way := t.Ways(cfg.limit(seg), true)
	if c.Promised && (!way.Set || !cfg.promisedThresholds(seg)(t)) {
		return r
	}
	if way.Set {
		r.text, r.source = c.Op.Text(way.Limit, t.Unit), way.Source
		return r
	}
	if way.Relative != nil {
		if seg.measured == nil || len(seg.measured.Normal) == 0 {
			r.text, r.source = string(c.Op)+" "+RelativeText(t, "its median over "+duration(cfg.Past)+", "+duration(cfg.Ago)+" ago"), "the past"
			if !math.IsNaN(t.Default) {
				r.source += "; without one " + indicator.FormatNumber(t.Default, t.Unit)
			}
			return r
		}
		if normal, ok := seg.measured.Signal(c.Signal); ok {
			r.text, r.source = string(c.Op)+" "+RelativeText(t, indicator.FormatNumber(normal, c.Signal.Unit)), "measured: "+seg.measured.Source
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

// RelativeText says in words what a threshold relative to normal is.
func RelativeText(t *catalog.Threshold, normal string) string {
	text := fmt.Sprintf("%s × %s", number(t.Baseline.Factor), normal)
	if p := t.Baseline.Per; p != nil && !t.Baseline.Perhaps {
		text += fmt.Sprintf(" × (growth of %s)^%s", p.Title, number(t.Baseline.Exponent))
	}
	switch o := t.Baseline.Offset; {
	case o > 0:
		text += " + " + difference(o, t.Unit)
	case o < 0:
		text += " − " + difference(-o, t.Unit)
	}
	if t.Baseline.Most > 0 {
		text += ", at most " + indicator.FormatNumber(t.Baseline.Most, t.Unit)
	}
	return text
}

// difference writes a number that is added to another: of ratios in percentage
// points, for a percentage would be taken of the other.
func difference(v float64, u indicator.Unit) string {
	text := indicator.FormatNumber(v, u)
	if u == indicator.Ratio {
		text = strings.TrimSuffix(text, " %") + " percentage points"
	}
	return text
}

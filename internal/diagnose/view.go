package diagnose

import (
	"time"

	"github.com/sixty-dev/sixty/internal/baseline"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/slo"
)

// view is one target's readings and the limits that apply to it.
type view struct {
	snapshot  *Snapshot
	target    int
	settings  Settings
	objective slo.Objective
	promised  bool
	measured  *baseline.File // nil: nothing was
}

func newView(s *Snapshot, target int, set Settings) view {
	v := view{snapshot: s, target: target, settings: set}
	v.objective, v.promised = set.Objectives.For(s.Targets[target].Labels)
	v.measured = baseline.For(set.Baselines, s.Targets[target].Labels["model_name"])
	return v
}

func (v view) Now(s *indicator.Signal) indicator.Value    { return v.snapshot.Now(v.target, s) }
func (v view) Normal(s *indicator.Signal) indicator.Value { return v.snapshot.Normal(v.target, s) }

func (v view) span() *Span { return &v.snapshot.Spans[v.target] }

// HasHistory reports whether the baseline is made of samples, not of sums.
func (v view) HasHistory() bool {
	source := v.span().Source
	return source == History || source == File
}

// MayHoldFault reports whether the baseline is the life of the server, or the time
// before a window in which nothing changed, and too short to rule out that it was as
// bad all along.
func (v view) MayHoldFault() bool {
	span := v.span()
	switch {
	case span.Source == Lifetime:
		now, life := v.Now(indicator.FirstTokens), v.Normal(indicator.FirstTokens)
		return span.Baseline.Length() < longLife || !now.OK || !life.OK || life.V < manyTimes*now.V
	case span.Source == History && span.Unchanged:
		return span.Baseline.Length() < longHistory
	}
	return false
}

// A life is taken for normal if it is this long and served this many times what the
// window did: a fault that began within the last minutes is a small part of it.
const (
	longLife  = time.Hour
	manyTimes = 20
	// longHistory is a past of which the incident is a part.
	longHistory = 30 * time.Minute
)

func (v view) Limit(t *catalog.Threshold) (limit float64, source string, ok bool) {
	if limit, ok = v.settings.Set[t.Name]; ok {
		return limit, "--set", true
	}
	if t.Objective != "" && v.promised {
		if limit, ok = v.objective.Value(t.Objective); ok {
			if t.Objective == slo.Availability {
				limit = t.BurnRate * (1 - limit)
			}
			return limit, v.objective.Source(), true
		}
	}
	if t.Objective != "" {
		if m, ok := v.measured.Threshold(string(t.Objective), string(catalog.GreaterThan)); ok {
			return m.Value, "measured", true
		}
	}
	return 0, "", false
}

// objectivesHold reports whether objectives were set and every one of them is
// known to hold.
func (v view) objectivesHold() bool {
	held := 0
	for key, s := range map[slo.Key]*indicator.Signal{slo.TTFTP95: indicator.TTFTP95, slo.ITLP95: indicator.ITLP95, slo.E2EP95: indicator.E2EP95} {
		limit, set := v.objective.Value(key)
		if !v.promised || !set {
			continue
		}
		value := v.Now(s)
		if !value.OK || value.V > limit {
			return false
		}
		held++
	}
	return held > 0
}

// Traffic below which a server counts as idle: a request every ten seconds,
// and a batch that is empty nineteen times of twenty.
const (
	idleRate    = 0.1
	idleRunning = 0.1
	// idleRequests is how many requests a short window may hold by chance.
	idleRequests = 3
)

// known reports whether enough is known to call the target healthy or idle:
// what users got in the window, and what the server holds right now.
func (v view) known() bool {
	return !v.span().Failing && v.Now(indicator.Running).OK && v.Now(indicator.InFlightFloor).OK && v.Now(indicator.FirstTokenRate).OK
}

func (v view) idle() bool {
	if v.Now(indicator.Waiting).Or(0) > idleRunning {
		return false
	}
	if v.Now(indicator.FirstTokenRate).V < idleRate && v.Now(indicator.RunningP50).V < idleRunning {
		return true
	}
	// A request or two in a short window are no traffic either, if there was
	// none before.
	return v.Now(indicator.FirstTokens).Or(0) <= idleRequests && v.Normal(indicator.FirstTokenRate).Or(1) < idleRate
}

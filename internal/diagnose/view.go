package diagnose

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// view holds the readings of one target, or of a part of a gateway, with its limits.
type view struct {
	snapshot *Snapshot
	target   int
	part     part
	sources  threshold.Sources
}

func newView(s *Snapshot, target int, of part, set Settings) view {
	labels := s.Targets[target].Labels
	v := view{snapshot: s, target: target, part: of}
	v.sources = threshold.Sources{Set: set.Set, Measured: baseline.For(set.Baselines, labels["model_name"])}
	if o, promised := set.Objectives.For(labels); promised {
		v.sources.Objective = &o
	}
	return v
}

func (v view) Now(s *indicator.Signal) indicator.Value    { return v.reading(s).now }
func (v view) Normal(s *indicator.Signal) indicator.Value { return v.reading(s).normal }

func (v view) of(p part) view {
	v.part = p
	return v
}

func (v view) reading(s *indicator.Signal) reading {
	if s.Per != "" && s.Per == v.part.label {
		return *v.snapshot.parts[v.target][v.part].of(s)
	}
	return *v.snapshot.readings[v.target].of(s)
}

// readingsByPart returns a signal's readings in the window by part.
func (v view) readingsByPart(s *indicator.Signal) map[string]float64 {
	out := map[string]float64{}
	for p, readings := range v.snapshot.parts[v.target] {
		if now := readings.of(s).now; p.label == s.Per && now.OK {
			out[p.name] = now.V
		}
	}
	return out
}

// readingsByReplica returns a signal's readings in the window on the servers of the same model, by their names.
func (v view) readingsByReplica(s *indicator.Signal) map[string]float64 {
	out, model := map[string]float64{}, identity.LabelKey(v.snapshot.Targets[v.target].Labels, identity.ModelLabels)
	for i := range v.snapshot.Targets {
		t := &v.snapshot.Targets[i]
		if now := v.snapshot.Now(i, s); t.Serves() && now.OK &&
			identity.LabelKey(t.Labels, identity.ModelLabels) == model {
			out[t.Name] = now.V
		}
	}
	return out
}

// eval evaluates a condition. In its evidence, normal numbers of events are scaled to the length of the window.
func (v view) eval(c catalog.Cond) (catalog.Truth, []catalog.Evidence) {
	truth, evidence := c.Eval(v)
	for i := range evidence {
		e := &evidence[i]
		e.Baseline = scaleCount(e.Signal, e.Baseline, v.span().Baseline.Length(), v.span().Window.Length())
	}
	return truth, evidence
}

func (v view) span() *segments.Span { return &v.snapshot.Spans[v.target] }

// HasHistory reports whether the baseline comes from a history or a file, not from lifetime sums.
func (v view) HasHistory() bool {
	source := v.span().Source
	return source == segments.FromHistory || source == segments.FromFile
}

// MayHoldFault reports whether the baseline is the life of the server, or the time
// before a window in which nothing changed, and too short to rule out that it was as
// bad all along.
func (v view) MayHoldFault() bool {
	span := v.span()
	switch {
	case span.Source == segments.FromLifetime:
		now, life := v.Now(indicator.FirstTokens), v.Normal(indicator.FirstTokens)
		return span.Baseline.Length() < segments.LongLife || !now.OK || !life.OK || life.V < segments.ManyTimes*now.V
	case span.Source == segments.FromHistory && span.Unchanged:
		return span.Baseline.Length() < segments.LongHistory
	}
	return false
}

// Peers implements catalog.View. The peers are the servers of the same job that serve the same model.
func (v view) Peers() (catalog.View, bool) {
	of := slices.DeleteFunc(slices.Clone(v.snapshot.provenOf(v.target)), func(i int) bool { return i == v.target })
	return peers{v, of}, len(of) > 0
}

// provenOf lists the servers of a target's job whose pasts are long enough to hold no fault.
func (s *Snapshot) provenOf(target int) []int {
	if s.proven == nil {
		s.proven = map[string][]int{}
		for i := range s.Targets {
			if v := (view{snapshot: s, target: i}); s.Targets[i].Serves() && v.HasHistory() && !v.MayHoldFault() {
				job := identity.LabelKey(s.Targets[i].Labels, jobLabels)
				s.proven[job] = append(s.proven[job], i)
			}
		}
	}
	return s.proven[identity.LabelKey(s.Targets[target].Labels, jobLabels)]
}

// peers is a view of a server whose normal values are those of other servers.
type peers struct {
	view
	of []int
}

// Normal returns the median of the peers' normal values.
func (p peers) Normal(s *indicator.Signal) indicator.Value {
	var known []float64
	for _, i := range p.of {
		if n := p.snapshot.Normal(i, s); n.OK {
			known = append(known, n.V)
		}
	}
	if len(known) == 0 {
		return indicator.Unknown("no peer has it")
	}
	return indicator.Known(stat.Median(known))
}

// jobLabels are those that replicas of one deployment have in common.
var jobLabels = []string{"cluster", "namespace", "job", "model_name"}

func (v view) Limit(t *catalog.Threshold) (limit float64, source string, ok bool) {
	l, ok := v.sources.Limit(t)
	return l.Value, l.Source, ok
}

// objectivesHold reports whether objectives were set and every one of them is known to hold. An objective does not hold
// where most requests get nothing, although none breaks it.
func (v view) objectivesHold() bool {
	if v.sources.Objective == nil || catalog.MostGetNothing.Certain(v) == catalog.True {
		return false
	}
	held := 0
	for _, p := range threshold.Promises() {
		limit, set := v.sources.Objective.Value(p.Threshold.Objective)
		if value := v.Now(p.Signal); set && (!value.OK || value.V > limit) {
			return false
		}
		held += boolToInt(set)
	}
	return held > 0
}

// canBeJudged reports whether the target can be called healthy or idle: the window says what users got, and the server
// holds a known number of requests now.
func (v view) canBeJudged() bool {
	return !v.span().Failing && !v.isSilent() && v.Now(indicator.Running).OK && v.Now(indicator.InFlightFloor).OK &&
		v.Now(indicator.FirstTokenRate).OK
}

// isSilent reports whether scrapes have failed for so long that the server may hang as well as be slow to
// show its page.
func (v view) isSilent() bool {
	return v.span().Silence > max(segments.Limits(v.sources.Set).Seconds(catalog.Unheard), 5*v.snapshot.interval/2)
}

// isIdle reports whether there are no requests, and no tokens are generated.
func (v view) isIdle() bool {
	signals := []*indicator.Signal{indicator.FirstTokens, indicator.GenerationTokenRate, indicator.Running,
		indicator.Waiting, indicator.TransferHeld, indicator.HeldOutside}
	return !slices.ContainsFunc(signals, func(s *indicator.Signal) bool { return v.Now(s).Or(0) > 0 })
}

// scaleCount scales a number of events from one span to another.
func scaleCount(sig *indicator.Signal, v indicator.Value, in, as time.Duration) indicator.Value {
	if sig.Sums() && in > 0 {
		v.V *= as.Seconds() / in.Seconds()
	}
	return v
}

// Settings is what the user wants judged, and by which numbers.
type Settings struct {
	Objectives *slo.File          // nil when nothing was promised
	Set        map[string]float64 // thresholds by name, set by hand
	Baselines  []*baseline.File   // baseline files of models, from a load test or a healthy period
	Only       []string           // ids of the pathologies to look for; empty means all
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

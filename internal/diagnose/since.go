package diagnose

import (
	"maps"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// dates holds what dates the faults of one diagnosis: onsets reported earlier, and trails.
type dates struct {
	onsets onsets                // nil remembers nothing
	wanted []trail               // trails that onsets need
	trails map[trail]trailResult // nil until they are queried
}

// A datedView is a view that also dates conditions.
type datedView struct {
	view
	*dates
}

func (v datedView) of(p part) datedView {
	v.view = v.view.of(p)
	return v
}

// onsetOfCondition returns when a condition that holds began to hold. An Any began with its first part. An All began
// with the part of the strongest evidence, or later if another part surely began later. Parts that the history lacks,
// or that did not change in it, are ignored. If all are, the judged segments decide.
//
// It is the only place that dates a finding: verdicts, alerts and incidents take its result. The links of a chain have
// moments of their own.
func (v datedView) onsetOfCondition(pathology *catalog.Pathology, c catalog.Cond) segments.Onset {
	s, key, wanted := v.span(), v.key(pathology), len(v.wanted)
	if o, stands := v.onsets.confirmedOnset(key, v.snapshot.At, v.snapshot.interval); stands {
		return o
	}
	o := s.BeganChanging()
	if answered, watched := v.Now(indicator.Answered), v.Now(indicator.Starting); answered.OK && answered.V == 0 &&
		watched.OK {
		// a starting server has been starting since it was found
		o = segments.Onset{At: v.snapshot.At.Add(-time.Duration(watched.V * float64(time.Second)))}
	}
	if t := v.readOnset(c, s.Course); t.Evidence > 0 {
		o = t.Onset
	}
	if o.At.After(v.snapshot.At) {
		o.At = v.snapshot.At
	}
	if len(v.wanted) > wanted {
		return o // for now: the trails are read before anything is remembered
	}
	return v.onsets.steadyOnset(key, o, v.snapshot.At, v.snapshot.interval)
}

// key returns the key of a pathology's onset.
func (v datedView) key(pathology *catalog.Pathology) onsetKey {
	return onsetKey{v.snapshot.Targets[v.target].Identity(), v.part, pathology.ID}
}

// An onsetReader reads onsets of signals from a history.
type onsetReader interface {
	Onset(*indicator.Signal, catalog.Op) segments.Dating
}

// readOnset reads an onset from a history.
func (v datedView) readOnset(c catalog.Cond, in onsetReader) (out segments.Dating) {
	if c.Signal != nil {
		switch {
		case c.Holds(v) != catalog.True:
			return out
		case !segments.LeavesTrace(c.Signal):
			return v.readTrail(c)
		}
		return in.Onset(c.Signal, c.Op)
	}
	var parts []segments.Dating
	for _, sub := range append(c.All[:len(c.All):len(c.All)], c.Any...) {
		if sub.Holds(v) != catalog.True {
			continue
		}
		if o := v.readOnset(sub, in); o.Evidence > 0 {
			parts = append(parts, o)
		}
	}
	for _, o := range parts {
		if out.Evidence == 0 || c.All == nil && o.IsBefore(out.Onset) || c.All != nil && o.Evidence > out.Evidence {
			out = o
		}
	}
	for _, o := range parts {
		if c.All != nil && out.IsBefore(o.Earliest) {
			out.Onset, out.Earliest = o.Earliest, o.Earliest
		}
	}
	return out
}

// An onsetKey identifies an onset by its pathology and its target, or a part of the target.
type onsetKey struct {
	target    string
	part      part
	pathology string
}

// onsets holds the onsets that were reported before.
type onsets map[onsetKey]*reportedOnset

// forgetBefore forgets the onsets that were last reported before a moment.
func (m onsets) forgetBefore(at time.Time) {
	maps.DeleteFunc(m, func(_ onsetKey, o *reportedOnset) bool { return o.lastReported.Before(at) })
}

// A reportedOnset is the onset of a continuing fault, and when it was reported first and last.
type reportedOnset struct {
	segments.Onset
	firstReported, lastReported time.Time
	sameSince                   time.Time // since when the reported onset has not moved
	confirmed                   bool
	normal                      map[*indicator.Signal]indicator.Value // the trails' values before the onset
}

// continuesAt reports whether a fault that is seen at a moment is the reported one.
func (o *reportedOnset) continuesAt(at time.Time, interval time.Duration) bool {
	return !at.Before(o.lastReported) && at.Sub(o.lastReported) <= max(resumesWithin, 2*interval)
}

// resumesWithin is how long a fault may be unseen and still be the same fault when it returns, or two scrape intervals
// if those are longer.
const resumesWithin = time.Minute

// confirmingIntervals is for how many scrape intervals an onset must not move before it is confirmed, and fixed.
const confirmingIntervals = 2

// confirmedOnset returns the onset of a continuing fault, once it is confirmed.
func (m onsets) confirmedOnset(key onsetKey, at time.Time, interval time.Duration) (o segments.Onset, confirmed bool) {
	if m[key] == nil {
		return o, false
	}
	reported := m[key]
	if confirmed = reported.confirmed && reported.continuesAt(at, interval); confirmed {
		reported.lastReported = at
	}
	return reported.Onset, confirmed
}

// normalsBefore returns the normal values before a fault.
func (m onsets) normalsBefore(key onsetKey) map[*indicator.Signal]indicator.Value {
	if m[key] == nil {
		return map[*indicator.Signal]indicator.Value{}
	}
	if m[key].normal == nil {
		m[key].normal = map[*indicator.Signal]indicator.Value{}
	}
	return m[key].normal
}

// steadyOnset returns the onset that was reported before, unless the new one differs by more than a scrape interval. It
// never moves beyond the time at which the fault was first seen. A fault that fills the whole history does not move an
// older onset.
func (m onsets) steadyOnset(key onsetKey, o segments.Onset, at time.Time, interval time.Duration) segments.Onset {
	if m == nil {
		return o
	}
	reported := m[key]
	if reported == nil || !reported.continuesAt(at, interval) {
		reported = &reportedOnset{Onset: o, firstReported: at, sameSince: at}
	}
	off := o.At.Sub(reported.At)
	if off.Abs() > interval+interval/10 && !(off > 0 && (o.AtLeast || o.At.After(reported.firstReported))) {
		reported.Onset, reported.sameSince = o, at
	} else if off.Abs() <= interval+interval/10 && at.Sub(reported.sameSince) >= confirmingIntervals*interval {
		reported.confirmed = true
	}
	reported.lastReported = at
	m[key] = reported
	return reported.Onset
}

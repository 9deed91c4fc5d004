package diagnose

import (
	"maps"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// dates are what dates the faults of one diagnosis: earlier onsets, and the trails that are read for it.
type dates struct {
	onsets onsets            // nil remembers nothing
	wanted []trail           // trails from which onsets are read
	trails map[trail]trailed // nil until they are queried
}

// A dated is a view that also says since when.
type dated struct {
	view
	*dates
}

func (v dated) of(p part) dated {
	v.view = v.view.of(p)
	return v
}

// onsetOfCondition returns when a condition that holds began to hold: Any with its first part; All with the part of the
// strongest evidence, or later, where another part surely began later. Parts that the history lacks, or that did not
// change in it, are ignored. If all are, the judged segments decide.
//
// It is the only place that dates a finding: verdicts, alerts and incidents take its result. The links of a chain have
// moments of their own.
func (v dated) onsetOfCondition(of *catalog.Pathology, c catalog.Cond) segments.Onset {
	s, key, wanted := v.span(), v.key(of), len(v.wanted)
	if o, stands := v.onsets.standingOnset(key, v.snapshot.At, v.snapshot.interval); stands {
		return o
	}
	o := s.BeganChanging()
	if answered, watched := v.Now(indicator.Answered), v.Now(indicator.Starting); answered.OK && answered.V == 0 &&
		watched.OK {
		// it starts since it was found
		o = segments.Onset{At: v.snapshot.At.Add(-time.Duration(watched.V * float64(time.Second)))}
	}
	if t := v.readOnset(c, s.Course); t.Evidence > 0 {
		o = t.Onset
	}
	if o.At.After(v.snapshot.At) {
		o.At = v.snapshot.At
	}
	if len(v.wanted) > wanted {
		return o // until that is known
	}
	return v.onsets.steadyOnset(key, o, v.snapshot.At, v.snapshot.interval)
}

// key identifies what an onset is of.
func (v dated) key(of *catalog.Pathology) onsetOf {
	return onsetOf{v.snapshot.Targets[v.target].Identity(), v.part, of.ID}
}

// An onsetReader reads onsets of signals from a history.
type onsetReader interface {
	Onset(*indicator.Signal, catalog.Op) segments.Dating
}

// readOnset reads an onset from a history.
func (v dated) readOnset(c catalog.Cond, in onsetReader) (out segments.Dating) {
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

// An onsetOf identifies an onset: a pathology on a target, or on a part of it.
type onsetOf struct {
	target    string
	part      part
	pathology string
}

// onsets are those that were reported before.
type onsets map[onsetOf]*givenOnset

// forgetBefore forgets the faults that were not reported again since a moment.
func (m onsets) forgetBefore(at time.Time) {
	maps.DeleteFunc(m, func(_ onsetOf, o *givenOnset) bool { return o.at.Before(at) })
}

// A givenOnset is the reported onset of a continuing fault, and when it was reported first and last.
type givenOnset struct {
	segments.Onset
	first, at time.Time
	said      time.Time // since when the onset is this one
	stands    bool
	normal    map[*indicator.Signal]indicator.Value // the trails' values before it
}

// goesOn is how long after it was seen last a fault is the same one when it comes back, or
// two intervals between scrapes where those are longer.
const goesOn = time.Minute

// confirming is how many intervals between scrapes later the same is said again of an onset that then stands.
const confirming = 2

// standingOnset returns the reported onset of a continuing fault, once it was reported twice.
func (m onsets) standingOnset(of onsetOf, at time.Time, interval time.Duration) (o segments.Onset, stands bool) {
	if m[of] == nil {
		return o, false
	}
	said := m[of]
	if stands = said.stands && at.Sub(said.at) <= max(goesOn, 2*interval) && !at.Before(said.at); stands {
		said.at = at
	}
	return said.Onset, stands
}

// normalsBefore returns the normal values before a fault.
func (m onsets) normalsBefore(of onsetOf) map[*indicator.Signal]indicator.Value {
	if m[of] == nil {
		return map[*indicator.Signal]indicator.Value{}
	}
	if m[of].normal == nil {
		m[of].normal = map[*indicator.Signal]indicator.Value{}
	}
	return m[of].normal
}

// steadyOnset returns the onset that was reported before, unless the new one differs by more than a scrape interval. It
// never moves beyond the time at which the fault was first seen. A fault that fills the whole history says nothing
// new about an older onset.
func (m onsets) steadyOnset(of onsetOf, o segments.Onset, at time.Time, interval time.Duration) segments.Onset {
	if m == nil {
		return o
	}
	said := m[of]
	if said == nil || at.Sub(said.at) > max(goesOn, 2*interval) || at.Before(said.at) {
		said = &givenOnset{Onset: o, first: at, said: at}
	}
	off := o.At.Sub(said.At)
	if off.Abs() > interval+interval/10 && !(off > 0 && (o.AtLeast || o.At.After(said.first))) {
		said.Onset, said.said = o, at
	} else if off.Abs() <= interval+interval/10 && at.Sub(said.said) >= confirming*interval {
		said.stands = true
	}
	said.at = at
	m[of] = said
	return said.Onset
}

package diagnose

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// What was once said of a fault that goes on is kept, unless it moves by more than an
// interval, or all that is left of its past is the fault.
func TestOnsetIsKept(t *testing.T) {
	const interval = 15 * time.Second
	began := time.Unix(10_000, 0)
	m := onsets{}
	of := onsetKey{target: "r0", pathology: "slow-decode"}
	for i, step := range []struct {
		at            time.Duration // of the diagnosis, after the beginning
		fresh         time.Duration
		atLeast       bool
		want          time.Duration
		wantAtLeast   bool
		whatIsGivenBy string
	}{
		{60 * time.Second, 0, false, 0, false, "the first"},
		{75 * time.Second, 15 * time.Second, false, 0, false, "an interval later"},
		{90 * time.Second, 45 * time.Second, false, 45 * time.Second, false, "three intervals later"},
		{105 * time.Second, -time.Minute, false, -time.Minute, false, "earlier"},
		{110 * time.Second, 61 * time.Second, false, -time.Minute, false, "later than it was first seen"},
		{120 * time.Second, time.Minute, true, -time.Minute, false, "no past is left"},
		{time.Hour, 50 * time.Minute, true, 50 * time.Minute, true, "another fault"},
	} {
		got := m.steadyOnset(of, segments.Onset{At: began.Add(step.fresh), AtLeast: step.atLeast}, began.Add(step.at), interval)
		if want := (segments.Onset{At: began.Add(step.want), AtLeast: step.wantAtLeast}); got != want {
			t.Errorf("%d, %s: %+v, want %+v", i, step.whatIsGivenBy, got, want)
		}
	}
}

// Events are compared over the same time, and shares of nothing are not below nothing.
func TestCountsAreOfTheSameTime(t *testing.T) {
	of := func(s *indicator.Signal) float64 {
		return scaleCount(s, indicator.Known(600), time.Hour, time.Minute).V
	}
	if got := of(indicator.Preemptions); got != 10 {
		t.Errorf("%v preemptions in a minute, want 10", got)
	}
	if got := of(indicator.TTFTP95); got != 600 {
		t.Errorf("a latency became %v", got)
	}
	if got := indicator.AbandonedShare.Natural(-2.2e-16); got != 0 {
		t.Errorf("a share of %v", got)
	}
	if got := indicator.WaitingGrowth.Natural(-2); got != -2 {
		t.Errorf("a queue that shrinks by %v", got)
	}
}

// A condition began when all of it did: a queue that was there before the evictions is not thrashing yet. Another part
// can only delay it as far as it surely began later.
func TestOnsetOfACondition(t *testing.T) {
	limit := &catalog.Threshold{Name: "any", Default: 0.001}
	late, evicted := catalog.Above(indicator.TTFTP95, limit), catalog.Above(indicator.Preemptions, limit)
	unseen := catalog.Above(indicator.KVUsagePeak, limit)
	at := func(seconds int64) segments.Onset { return segments.Onset{At: time.Unix(10_000+seconds, 0)} }
	dating := func(at, earliest segments.Onset, evidence float64) segments.Dating {
		return segments.Dating{Onset: at, Earliest: earliest, Evidence: evidence}
	}
	queue := dating(at(200), at(190), 10)
	for name, tt := range map[string]struct {
		evicted segments.Dating
		cond    catalog.Cond
		want    segments.Onset
	}{
		"all, when the last part began":             {dating(at(320), at(300), 20), catalog.All(late, evicted, unseen), at(320)},
		"any, when the first part began":            {dating(at(320), at(300), 20), catalog.Any(late, evicted), at(200)},
		"all, where the last part tells less":       {dating(at(320), at(300), 5), catalog.All(late, evicted), at(300)},
		"nothing that a history shows changed":      {segments.Dating{}, catalog.All(unseen), segments.Onset{At: at(0).At, AtLeast: true}},
		"one part changed, the other was all along": {segments.Dating{}, catalog.All(late, evicted), at(200)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot(make([]identity.Target, 1))
			s.At, s.Spans[0].Observed = time.Unix(10_400, 0), at(0).At
			for _, sig := range []*indicator.Signal{indicator.TTFTP95, indicator.Preemptions, indicator.KVUsagePeak} {
				*s.readings[0].of(sig) = reading{now: indicator.Known(1)}
			}
			v := datedView{newView(s, 0, part{}, Settings{}), new(dates)}
			got := v.span().BeganChanging()
			if d := v.readOnset(tt.cond, datings{indicator.TTFTP95: queue, indicator.Preemptions: tt.evicted}); d.Evidence > 0 {
				got = d.Onset
			}
			if got != tt.want {
				t.Errorf("since %+v, want %+v", got, tt.want)
			}
		})
	}
}

// datings are the onsets of a history, by signal.
type datings map[*indicator.Signal]segments.Dating

func (d datings) Onset(s *indicator.Signal, _ catalog.Op) segments.Dating { return d[s] }

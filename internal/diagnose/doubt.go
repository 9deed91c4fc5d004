package diagnose

import (
	"math"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// How far a reading must exceed chance. These are thresholds like the catalogue's: named, with a reason, and
// settable.
var (
	deviations = &catalog.Threshold{
		Name: "doubt_deviations", Unit: indicator.Times, Default: 2.3,
		Why: "standard deviations by which a change must exceed the server's own variation: one moment in a hundred does so by chance, if moments are normally distributed",
	}
	burst = &catalog.Threshold{
		Name: "doubt_burst", Unit: indicator.Seconds, Default: 40,
		Why: "a burst of requests of twenty seconds, and what it leaves behind, are over after twice as long",
	}
	hiccup = &catalog.Threshold{
		Name: "doubt_stall", Unit: indicator.Seconds, Default: 20,
		Why: "how long a machine's own stall and its aftermath may last: garbage collection, a neighbour, a page read from disk",
	}
	oneMoment = &catalog.Threshold{
		Name: "doubt_single_moment", Unit: indicator.Times, Default: 1.35,
		Why: "the factor by which a single moment must exceed the limit, because it may be the server's worst of many; applied once more if the baseline is no longer than a burst, because it may be the server's best",
	}
	startBeside = &catalog.Threshold{
		Name: "doubt_start_beside", Unit: indicator.Seconds, Default: 600,
		Why: "a server that starts on the same machine uses its processors and its disk; most models load within ten minutes",
	}
)

// Thresholds returns, for --set, the thresholds that a finding must pass to be certain, beside those of its condition,
// and the thresholds that divide a timeline into segments.
func Thresholds() []*catalog.Threshold {
	return append([]*catalog.Threshold{deviations, burst, hiccup, oneMoment, startBeside}, segments.Thresholds()...)
}

// mostWander bounds the factor by which a server is assumed to exceed normal by itself. The past of a server that
// wanders more says nothing.
const mostWander = 4

// tailDeviation is the standard deviation of the logarithm of the 99th percentile of a hundred lengths. Simulations
// with lognormal lengths gave 0.3 to 0.5, for a sigma of 0.8 to 1.3.
const tailDeviation = 0.4

// mayBeBurst reports whether the state under judgement has lasted no longer than a burst of requests and its aftermath.
func (v view) mayBeBurst() bool {
	s := &v.span().Steadiness
	return s.Moments > 0 && s.Since.Seconds() < v.thresholdValue(burst)
}

// thresholdValue returns a threshold's set value, or its default.
func (v view) thresholdValue(t *catalog.Threshold) float64 {
	if set, _, ok := v.Limit(t); ok {
		return set
	}
	return t.Default
}

// Doubt implements catalog.Uncertain, from the noise that the signal declares.
func (v view) Doubt(s *indicator.Signal) catalog.Doubt {
	n, steady := s.Noise(), &v.span().Steadiness
	if v.Now(s).Unanswered > 0 { // the served requests say nothing about them
		n = indicator.UnansweredWait.Noise()
	}
	d := v.doubtByChance(s, n)
	if n.Burst > 0 && v.windowIsBurst() {
		d.Least *= n.Burst
	}
	last := steady.LastGap
	if n.Chance == indicator.FirstTokenTime {
		last = steady.LastTTFT
	}
	if n.Lasting > 0 && d.Least > n.Lasting*last {
		d.Least = n.Lasting * last
	}
	stalled := steady.Moments > 0 && steady.Since.Seconds() < v.thresholdValue(hiccup)
	if stalled && n.Stall && (n.Chance != indicator.StreamTime || steady.Moments == 1) {
		d.Least = 0 // it may be over
	}
	if (n.Chance == indicator.StreamTime || n.Chance == indicator.FirstTokenTime) && v.startsBeside() {
		d.Least = 0 // it will be over when that one has started
	}
	return d
}

// windowIsBurst reports whether the window is shorter than a burst of requests.
func (v view) windowIsBurst() bool {
	return v.span().Window.Length().Seconds() < v.thresholdValue(burst)
}

// addWander adds the variation of times to a doubt. deviation is the standard deviation of their logarithm.
func (v view) addWander(d catalog.Doubt, deviation float64) catalog.Doubt {
	steady := &v.span().Steadiness
	d.Wander = min(mostWander, math.Exp(v.thresholdValue(deviations)*deviation))
	if steady.Moments == 1 || v.mayBeBurst() {
		d.Margin *= v.thresholdValue(oneMoment)
	}
	if steady.Past > 0 && steady.Past.Seconds() < v.thresholdValue(burst) {
		d.Margin *= v.thresholdValue(oneMoment)
	}
	return d
}

// doubtByChance returns the doubt that a reading's kind of chance leaves.
func (v view) doubtByChance(s *indicator.Signal, n indicator.Noise) catalog.Doubt {
	now, steady, z := v.Now(s), &v.span().Steadiness, v.thresholdValue(deviations)
	d := catalog.Doubt{Least: now.V, Wander: 1, Margin: 1}
	of, counted := v.countingSignal(s, n)
	certain := max(0, 1-1/math.Sqrt(max(1, counted))) // the share of a count that is certain: one standard error less
	switch n.Chance {
	case indicator.Events:
		if steady.Once[of] {
			d.Least = 0
		}
		d.Least *= certain
		// The normal share was counted too: with few requests it may have been higher.
		if share, events := v.Normal(s).Or(0), v.Normal(of).Or(0); n.Of != nil && share > 0 && share < 1 && events > 0 {
			d.Wander = min(mostWander, (1-stat.WilsonLow(1-share, events/share, z))/share)
		}
	case indicator.Split:
		if parts := v.Now(indicator.Replicas).Or(0); parts > 1 && now.V > 0 {
			share := min(1, now.V/parts)
			d.Least = parts * stat.WilsonLow(share, counted/share, z)
		}
	case indicator.Clusters:
		// One stall stops every running stream at once, and with the next step the streams that it kept from being
		// counted: at most twice as many as ever ran.
		if counted > 0 {
			d.Least = max(0, now.V-2*max(v.Now(indicator.Running).Or(0), v.Now(indicator.RunningPeak).Or(0))/counted)
		}
	case indicator.Backlog:
		if v.windowIsBurst() {
			d.Least = max(0, now.V-counted)
		}
	case indicator.StreamTime:
		d = v.addWander(d, steady.Gap)
		if n.Of != nil { // a mean of so many
			d.Least *= certain
		}
	case indicator.FirstTokenTime:
		d = v.addWander(d, steady.Ttft)
	case indicator.OfRequests:
		d.Least *= certain
	case indicator.Served:
		d.Least += min(0, v.Now(indicator.WaitingGrowth).Or(0))
	case indicator.Extreme:
		d.Margin = math.Exp(z * tailDeviation / math.Sqrt(max(1, counted/100)))
	}
	return d
}

// Over implements catalog.Uncertain, from the signal's course in the history.
func (v view) Over(c catalog.Cond) bool {
	s := v.span()
	return s.Course.Ended(c.Signal, c.Op, s.Window)
}

// countingSignal returns the signal that counts the events a reading rests on, which may be the signal itself, and how
// many events there were in the window.
func (v view) countingSignal(s *indicator.Signal, n indicator.Noise) (of *indicator.Signal, events float64) {
	of, events = s, v.Now(s).V
	if n.Of != nil {
		of, events = n.Of, v.Now(n.Of).Or(0)
	}
	if n.Chance == indicator.Events && of.Unit == indicator.RequestsPerSecond {
		events *= v.span().Window.Length().Seconds()
	}
	return of, events
}

// startsBeside reports whether another server is starting on the same machine, for no longer
// than a start takes.
func (v view) startsBeside() bool {
	watched, starts := v.snapshot.startsByMachine()[v.snapshot.Targets[v.target].HostName()]
	return starts && watched < v.thresholdValue(startBeside)
}

// startsByMachine returns, for each machine on which a server is starting, for how many seconds the youngest such
// server has been watched.
func (s *Snapshot) startsByMachine() map[string]float64 {
	if s.starting != nil {
		return s.starting
	}
	s.starting = map[string]float64{}
	for i := range s.Targets {
		answered, watched, machine := s.Now(i, indicator.Answered), s.Now(i, indicator.Starting),
			s.Targets[i].HostName()
		if !answered.OK || answered.V > 0 || !watched.OK || machine == "" {
			continue
		}
		if least, known := s.starting[machine]; !known || watched.V < least {
			s.starting[machine] = watched.V
		}
	}
	return s.starting
}

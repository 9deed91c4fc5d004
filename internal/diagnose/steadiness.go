package diagnose

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// steadiness is how much a server's own latency varies from one moment to the next
// while nothing is wrong, and whether the last moments are as bad as the window.
//
// Machines drift: a neighbour, a garbage collection, a burst of prompts. A change that
// is no larger than what a server does by itself, or that was over before the last
// scrapes, is not believed: it is pending.
type steadiness struct {
	gap, ttft float64 // standard deviations of the logarithm between moments
	// lastGap and lastTTFT are the worst mean inter-token latency and time to first token
	// of the last moments, in seconds; NaN where that cannot be told.
	lastGap, lastTTFT float64
	// since is how long the state under judgement has gone on, and moments how many tell its
	// latency; zero where nothing is normal to compare them with.
	since   time.Duration
	moments int
	// past is how long the baseline was observed; zero without a segment.
	past time.Duration
	// once are the signals whose events all came at one moment of the window, so that their cause may be over.
	once map[*indicator.Signal]bool
}

const (
	// moment is the shortest time, in seconds, whose mean is compared with others.
	moment = 5
	// A mean over fewer tokens or requests is too uncertain.
	momentGaps, momentRequests = 20, 8
	// The prior deviation for fewer than two moments, and the minimum.
	usualGapDeviation, usualTTFTDeviation = 0.2, 0.35
	leastDeviation                        = 0.12
	// The window's last seconds must agree with the window: as many as one interval of 15 s, early or late.
	lastSeconds = 14
	// outlier is how many times the usual inter-token latency counts fully in a mean:
	// one stall of seconds is not a slow server.
	outlier = 8
	// lastingShare is the part of the window's latency that its last moments must have.
	lastingShare = 0.8
)

// measureSteadiness measures it, from the segment that is normal and the one under judgement.
func (h *history) measureSteadiness(normal, now run) steadiness {
	usual := h.serviceIn(normal)
	limit := outlier * max(usual.gap, 0.005)
	if len(normal) == 0 || math.IsNaN(limit) {
		limit = math.Inf(1)
	}
	gapsNormal, ttftNormal := h.meansOfMoments(normal, limit)
	gapsNow, ttftNow := h.meansOfMoments(now, limit)
	// With fewer than two moments, the normal mean is uncertain too.
	usualTTFT := usualTTFTDeviation
	if usual.requests > 0 {
		usualTTFT = math.Hypot(usualTTFT, 1/math.Sqrt(usual.requests))
	}
	s := steadiness{
		gap:     max(deviationOf(gapsNormal, usualGapDeviation), 0.7*deviationOf(gapsNow, 0)),
		ttft:    max(deviationOf(ttftNormal, usualTTFT), 0.7*deviationOf(ttftNow, 0)),
		lastGap: worstOfLast(gapsNow), lastTTFT: worstOfLast(ttftNow),
	}
	if len(normal) > 0 {
		s.past = h.spanOf(normal).Length()
		if len(gapsNow) > 0 {
			s.since, s.moments = h.spanOf(now).Length(), len(gapsNow)
		}
	}
	return s
}

// cameOnce reports, of the signals that count events, which came within one moment of the
// window, and not again. A window of one interval cannot tell. Clients that left while the engine generated
// nothing, or in the interval after, left because of that, once.
func (h *history) cameOnce(window Range) map[*indicator.Signal]bool {
	once := map[*indicator.Signal]bool{}
	all := h.intervalsIn(window)
	for sig, events := range map[*indicator.Signal]quantity{
		indicator.ServerErrCount: refused(answers5xx), indicator.ClientErrCount: refused(answers4xx), indicator.Abandoned: abandoned,
	} {
		met := slices.DeleteFunc(slices.Clone(all), func(iv interval) bool { n, _ := events(h, iv); return n <= 0.5 })
		once[sig] = len(all) > 1 && len(met) > 0 && h.at[met[len(met)-1].to].Sub(h.at[met[0].to]).Seconds() < moment ||
			sig == indicator.Abandoned && len(met) > 0 && !slices.ContainsFunc(met, func(iv interval) bool {
				return !h.generatedNothing(iv) && !h.generatedNothing(interval{h.pageUpTo(iv.from - 1), iv.from})
			})
	}
	return once
}

// generatedNothing reports whether nothing was generated in an interval, if there is one.
func (h *history) generatedNothing(iv interval) bool {
	return iv.from >= 0 && h.increase(tokensOut, iv)+h.countOf(firstTokens, iv) == 0
}

// A meanOf is the logarithm of a mean over a moment of so many seconds.
type meanOf struct{ log, seconds float64 }

// worstOfLast returns the worst of the last moments, NaN of none.
func worstOfLast(moments []meanOf) float64 {
	worst, seconds := math.NaN(), 0.0
	for _, m := range slices.Backward(moments) {
		if seconds >= lastSeconds {
			break
		}
		if v := math.Exp(m.log) / lastingShare; !(v <= worst) {
			worst = v
		}
		seconds += m.seconds
	}
	return worst
}

// meansOfMoments returns the mean inter-token latency, of which no more than the limit counts,
// and the mean time to first token, moment by moment.
func (h *history) meansOfMoments(s run, limit float64) (gaps, ttfts []meanOf) {
	each := func(f family, need float64, mean func(interval) float64) (out []meanOf) {
		open := false
		var m interval
		for _, iv := range s {
			if !open || m.to != iv.from {
				m = iv
			}
			m.to, open = iv.to, true
			seconds := h.lengthOf(m)
			if seconds < moment || h.countOf(f, m) < need {
				continue
			}
			if v := mean(m); v > 0 {
				out = append(out, meanOf{math.Log(v), seconds})
			}
			open = false
		}
		return out
	}
	gaps = each(tokenGaps, momentGaps, func(m interval) float64 { return h.clippedMean(tokenGaps, m, limit) })
	ttfts = each(firstTokens, momentRequests, func(m interval) float64 { return h.increase(firstTokens.sum(), m) / h.countOf(firstTokens, m) })
	return gaps, ttfts
}

// clippedMean is the mean of a histogram's observations, those beyond the limit counted as
// the limit: its sum less what the middle of the buckets beyond the limit exceeds it by.
func (h *history) clippedMean(f family, iv interval, limit float64) float64 {
	n, sum := h.countOf(f, iv), h.increase(f.sum(), iv)
	cells, lower := h.appendCells(make([]float64, 0, 64), f, iv, 1), 0.0
	for i, c := range cells {
		le := h.buckets[f][i].le
		middle := (lower + le) / 2
		if math.IsInf(le, 1) {
			middle = lower
		}
		if middle > limit {
			sum -= c * (middle - limit)
		}
		lower = le
	}
	return max(0, sum) / n
}

// deviationOf returns the standard deviation of values, or a prior for fewer than two values. With few values the prior
// counts as one more, because two values that happen to be alike do not prove that a server is steady.
func deviationOf(values []meanOf, otherwise float64) float64 {
	if len(values) < 2 {
		return otherwise
	}
	mean, sum := 0.0, 0.0
	for _, v := range values {
		mean += v.log / float64(len(values))
	}
	for _, v := range values {
		sum += (v.log - mean) * (v.log - mean)
	}
	n := float64(len(values))
	return max(leastDeviation, math.Sqrt(sum/(n-1)), math.Sqrt((sum+otherwise*otherwise)/n))
}

// How far a reading must exceed chance. These are thresholds like the catalogue's: named, with a reason, and
// settable.
var (
	deviations = &catalog.Threshold{
		Name: "doubt_deviations", Unit: indicator.Times, Default: 2.3,
		Why: "standard deviations that a change must be beyond what the server does by itself: one in a hundred moments, where these are normal",
	}
	burst = &catalog.Threshold{
		Name: "doubt_burst", Unit: indicator.Seconds, Default: 40,
		Why: "a burst of requests of twenty seconds, and what it leaves behind, are over after twice as long",
	}
	hiccup = &catalog.Threshold{
		Name: "doubt_stall", Unit: indicator.Seconds, Default: 20,
		Why: "how long a machine's own stall and what follows it may last: a collection of garbage, a neighbour, a page from the disk",
	}
	oneMoment = &catalog.Threshold{
		Name: "doubt_single_moment", Unit: indicator.Times, Default: 1.35,
		Why: "by how many times the limit a single moment must be passed, for it may be the server's worst of many; and once more where what is normal was not seen for longer than a burst lasts, for it may be the best",
	}
	startBeside = &catalog.Threshold{
		Name: "doubt_start_beside", Unit: indicator.Seconds, Default: 600,
		Why: "a server that starts on the same machine takes its processors and its disk: ten minutes hold the loading of most models",
	}
)

// mostWander is as many times as high as normal that a server can be taken to read by itself:
// one that wanders more is not steady enough for its own past to say anything.
const mostWander = 4

// tailDeviation is the standard deviation of the logarithm of the 99th percentile of a
// hundred lengths: simulated from lognormal ones with a sigma of 0.8 to 1.3, 0.3 to 0.5.
const tailDeviation = 0.4

// maybeBurst reports whether the judged time is no longer than a burst of requests and its aftermath.
func (v view) maybeBurst() bool {
	s := &v.span().steady
	return s.moments > 0 && s.since.Seconds() < v.thresholdValue(burst)
}

// thresholdValue returns a threshold's set value, or its default.
func (v view) thresholdValue(t *catalog.Threshold) float64 {
	if set, _, ok := v.Limit(t); ok {
		return set
	}
	return t.Default
}

// Doubt implements catalog.Uncertain, by what the signal says of its noise.
func (v view) Doubt(s *indicator.Signal) catalog.Doubt {
	n, steady := s.Noise(), &v.span().steady
	if v.Now(s).Unanswered > 0 { // the served requests say nothing about them
		n = indicator.UnansweredWait.Noise()
	}
	d := v.doubtByChance(s, n)
	if n.Burst > 0 && v.windowIsBurst() {
		d.Least *= n.Burst
	}
	last := steady.lastGap
	if n.Chance == indicator.FirstTokenTime {
		last = steady.lastTTFT
	}
	if n.Lasting > 0 && d.Least > n.Lasting*last {
		d.Least = n.Lasting * last
	}
	stalled := steady.moments > 0 && steady.since.Seconds() < v.thresholdValue(hiccup)
	if stalled && n.Stall && (n.Chance != indicator.StreamTime || steady.moments == 1) {
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

// wanderOf adds to a doubt that times wander: deviation is the standard deviation of their logarithm.
func (v view) wanderOf(d catalog.Doubt, deviation float64) catalog.Doubt {
	steady := &v.span().steady
	d.Wander = min(mostWander, math.Exp(v.thresholdValue(deviations)*deviation))
	if steady.moments == 1 || v.maybeBurst() {
		d.Margin *= v.thresholdValue(oneMoment)
	}
	if steady.past > 0 && steady.past.Seconds() < v.thresholdValue(burst) {
		d.Margin *= v.thresholdValue(oneMoment)
	}
	return d
}

// doubtByChance returns the doubt that the kind of chance behind a reading leaves.
func (v view) doubtByChance(s *indicator.Signal, n indicator.Noise) catalog.Doubt {
	now, steady, z := v.Now(s), &v.span().steady, v.thresholdValue(deviations)
	d := catalog.Doubt{Least: now.V, Wander: 1, Margin: 1}
	of, counted := v.countingSignal(s, n)
	certain := max(0, 1-1/math.Sqrt(max(1, counted))) // the share of a count that is certain: one standard error less
	switch n.Chance {
	case indicator.Events:
		if steady.once[of] {
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
		// One stall stops every stream at once, and those that it kept from being seen with
		// the next step: at most twice as many as ever ran.
		if counted > 0 {
			d.Least = max(0, now.V-2*max(v.Now(indicator.Running).Or(0), v.Now(indicator.RunningPeak).Or(0))/counted)
		}
	case indicator.Backlog:
		if v.windowIsBurst() {
			d.Least = max(0, now.V-counted)
		}
	case indicator.StreamTime:
		d = v.wanderOf(d, steady.gap)
		if n.Of != nil { // a mean of so many
			d.Least *= certain
		}
	case indicator.FirstTokenTime:
		d = v.wanderOf(d, steady.ttft)
	case indicator.OfRequests:
		d.Least *= certain
	case indicator.Served:
		d.Least += min(0, v.Now(indicator.WaitingGrowth).Or(0))
	case indicator.Extreme:
		d.Margin = math.Exp(z * tailDeviation / math.Sqrt(max(1, counted/100)))
	}
	return d
}

// Over implements catalog.Uncertain, by what the signal leaves in the history.
func (v view) Over(c catalog.Cond) bool {
	t, known := traces[c.Signal]
	s := v.span()
	if !known || t.op != c.Op || t.shares == nil || s.course == nil {
		return false
	}
	n := t.readOnce(s.course)
	return n.onsetReading.said > 0 && s.course.endedWithin(&n.tally, n.At, s.Window)
}

// countingSignal returns the signal that counts the events a reading rests on, the signal itself where no
// other does, and how many there were in the window.
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
	watched, starts := v.snapshot.startsOn()[v.snapshot.Targets[v.target].hostName()]
	return starts && watched < v.thresholdValue(startBeside)
}

// startsOn lists the machines on which a server is starting, and for how many seconds the
// youngest of them has been watched.
func (s *Snapshot) startsOn() map[string]float64 {
	if s.starting != nil {
		return s.starting
	}
	s.starting = map[string]float64{}
	for i := range s.Targets {
		answered, watched, machine := s.Now(i, indicator.Answered), s.Now(i, indicator.Starting), s.Targets[i].hostName()
		if !answered.OK || answered.V > 0 || !watched.OK || machine == "" {
			continue
		}
		if least, known := s.starting[machine]; !known || watched.V < least {
			s.starting[machine] = watched.V
		}
	}
	return s.starting
}

// hostName is the host of a target's address, "" where the address names no port.
func (t *Target) hostName() string {
	instance := t.Labels["instance"]
	return instance[:max(0, strings.LastIndexByte(instance, ':'))]
}

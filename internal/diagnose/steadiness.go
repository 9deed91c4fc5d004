package diagnose

import (
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/indicator"
)

// steadiness is how much a server's own latency varies from one moment to the next
// while nothing is wrong, and whether the last moments are as bad as the window.
//
// Machines drift: a neighbour, a garbage collection, a burst of prompts. A change that
// is no larger than what a server does by itself, or that was over before the last
// scrapes, is not believed: it is pending.
type steadiness struct {
	gap, ttft float64 // standard deviations of the logarithm between moments
	// lasting is an inter-token latency, in seconds, that the last moments of the
	// window had at least; NaN where that cannot be told.
	lasting float64
	// eased is by what share the mean time to first token of the last moments is below that
	// of the window: what was over before the end is no longer so.
	eased float64
	// short says that the window is shorter than a hiccup; single that it is shorter than a
	// burst, or one moment.
	short, single bool
}

const (
	// moment is the shortest time, in seconds, whose mean is compared with others.
	moment = 5
	// Of fewer tokens or requests a mean is too uncertain.
	momentGaps, momentRequests = 20, 8
	// What a deviation is taken for where fewer than two moments tell it, and its least.
	usualGapDeviation, usualTTFTDeviation = 0.2, 0.35
	leastDeviation                        = 0.12
	// hiccup is how long a machine's own stall and what follows it may last.
	hiccup = 20 * time.Second
	// lastMoments is how many moments at the end of a window must agree with it.
	lastMoments = 3
	// outlier is how many times the usual inter-token latency counts fully in a mean:
	// one stall of seconds is not a slow server.
	outlier = 8
	// beyondChance is how many deviations a change must be.
	beyondChance = 2.3
	// lastingShare is the part of the window's latency that its last moments must have.
	lastingShare = 0.8
)

// steadiness measures it, from the segment that is normal and the one under judgement.
func (h *history) steadiness(normal, now segment) steadiness {
	limit := outlier * max(h.service(normal).gap, 0.005)
	if len(normal) == 0 || math.IsNaN(limit) {
		limit = math.Inf(1)
	}
	gapsNormal, ttftNormal := h.moments(normal, limit)
	gapsNow, ttftNow := h.moments(now, limit)
	s := steadiness{
		gap:     max(deviation(gapsNormal, usualGapDeviation), 0.7*deviation(gapsNow, 0)),
		ttft:    max(deviation(ttftNormal, usualTTFTDeviation), 0.7*deviation(ttftNow, 0)),
		lasting: math.NaN(),
	}
	if last := ttftNow[max(0, len(ttftNow)-lastMoments):]; len(last) > 0 {
		s.eased = max(0, 1-math.Exp(slices.Max(last))/lastingShare/h.service(now).ttft)
	}
	if len(normal) > 0 && len(gapsNow) > 0 {
		s.short = h.span(now).Length() < hiccup
		s.single = len(gapsNow) == 1 || h.span(now).Length() < burst
		if s.short && len(gapsNow) == 1 {
			s.lasting = 0 // it may be over
		}
	}
	for _, g := range gapsNow[max(0, len(gapsNow)-lastMoments):] {
		if v := math.Exp(g) / lastingShare; !(v >= s.lasting) {
			s.lasting = v
		}
	}
	return s
}

// moments returns the logarithms of the mean inter-token latency, of which no more
// than the limit counts, and of the mean time to first token, moment by moment.
func (h *history) moments(s segment, limit float64) (gaps, ttfts []float64) {
	each := func(family string, need float64, mean func(interval) float64) (out []float64) {
		open := false
		var m interval
		for _, iv := range s {
			if !open || m.to != iv.from {
				m = iv
			}
			m.to, open = iv.to, true
			if h.at[m.to].Sub(h.at[m.from]).Seconds() < moment || h.count(family, m) < need {
				continue
			}
			if v := mean(m); v > 0 {
				out = append(out, math.Log(v))
			}
			open = false
		}
		return out
	}
	gaps = each(tokenGaps, momentGaps, func(m interval) float64 { return h.clipped(tokenGaps, m, limit) })
	ttfts = each(firstTokens, momentRequests, func(m interval) float64 { return h.rise(firstTokens+"_sum", m) / h.count(firstTokens, m) })
	return gaps, ttfts
}

// clipped is the mean of a histogram's observations, those beyond the limit counted as
// the limit: its sum less what the middle of the buckets beyond the limit exceeds it by.
func (h *history) clipped(family string, iv interval, limit float64) float64 {
	n, sum := h.count(family, iv), h.rise(family+"_sum", iv)
	cells, bounds, lower := h.cells(make([]float64, 0, 64), family, iv, 1), h.bounds[family], 0.0
	for i, c := range cells {
		middle := (lower + bounds[i]) / 2
		if math.IsInf(bounds[i], 1) {
			middle = lower
		}
		if middle > limit {
			sum -= c * (middle - limit)
		}
		lower = bounds[i]
	}
	return max(0, sum) / n
}

// deviation returns the standard deviation of values, or another one for fewer than two.
func deviation(values []float64, otherwise float64) float64 {
	if len(values) < 2 {
		return otherwise
	}
	mean, sum := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return max(leastDeviation, math.Sqrt(sum/float64(len(values)-1)))
}

// cautious is a view that believes a change only as far as it exceeds what the server
// does by itself, and only if it lasts.
type cautious struct{ view }

// Factors by which the latency conditions of the catalogue allow a change anyway.
const allowedGap, allowedTTFT, allowedPrefill, leastDoubt, mostDoubt = 1.6, 2, 1.7, 1.05, 2.5

// A burst of requests fills the cache, evicts some, lets others queue, and passes. Since
// less than burst, evictions count by burstShare, a replica's share of the traffic by
// burstSkew, and a queue that is served within burstDrain seconds is none.
const (
	burst      = 40 * time.Second
	burstShare = 0.4
	burstDrain = 1
	burstSkew  = 0.85
)

// tailDeviation is the standard deviation of the logarithm of the 99th percentile of a
// hundred lengths: simulated from lognormal ones with a sigma of 0.8 to 1.3, 0.3 to 0.5.
const tailDeviation = 0.4

// onlyOne is by how much more a single moment must differ to be believed.
const onlyOne = 1.35

// Now returns a signal's reading in the window, the lower one of the last moments'.
func (d cautious) Now(s *indicator.Signal) indicator.Value {
	v := d.view.Now(s)
	few := func(count *indicator.Signal) float64 { // as few as chance may have made more of
		return max(0, 1-1/math.Sqrt(max(1, d.view.Now(count).V)))
	}
	young := d.span().Window.Length() < burst
	switch s {
	case indicator.ServerErrCount, indicator.ClientErrCount, indicator.Abandoned:
		v.V *= few(s)
	case indicator.ServerErrs:
		v.V *= few(indicator.ServerErrCount)
	case indicator.ClientErrs:
		v.V *= few(indicator.ClientErrCount)
	case indicator.AbandonedShare:
		v.V *= few(indicator.Abandoned)
	case indicator.PreemptionsPerRequest:
		if young {
			v.V *= burstShare
		}
	case indicator.WaitingFloor:
		if young {
			v.V = max(0, v.V-burstDrain*d.view.Now(indicator.FirstTokenRate).Or(0))
		}
	case indicator.StallsPerRequest:
		// One stall stops every stream at once, and those that it kept from being seen with
		// the next step: at most twice as many as ever ran.
		if n := d.view.Now(indicator.FirstTokens).Or(0); n > 0 {
			v.V = max(0, v.V-2*max(d.view.Now(indicator.Running).Or(0), d.view.Now(indicator.RunningPeak).Or(0))/n)
		}
	case indicator.TTFTP90:
		if young {
			v.V = 0 // a stall, or a burst, makes a tail: it may be over
		}
		v.V *= 1 - d.span().steady.eased
	case indicator.PrefillTimePerToken:
		if d.span().steady.short {
			v.V = 0 // a single stall makes a mean: it may be over
		}
	case indicator.ArrivalShare:
		v.V *= max(0, 1-beyondChance/math.Sqrt(max(1, d.view.Now(indicator.FirstTokens).Or(0))))
		if young {
			v.V *= burstSkew
		}
	}
	if lasting := d.span().steady.lasting; s == indicator.ITLMean && v.V > lasting {
		v.V = lasting
	}
	return v
}

// Normal returns its reading in the baseline, as high as chance may have made it.
func (d cautious) Normal(s *indicator.Signal) indicator.Value {
	v := d.view.Normal(s)
	raise := func(deviation, allowed float64) {
		v.V *= min(mostDoubt, max(leastDoubt, math.Exp(beyondChance*deviation)/allowed))
	}
	switch s {
	case indicator.ITLMean, indicator.ITLP50, indicator.ITLP90, indicator.ITLP95, indicator.TPOTMean:
		raise(d.span().steady.gap, allowedGap)
		if d.span().steady.single {
			v.V *= onlyOne
		}
	case indicator.TTFTMean, indicator.TTFTP50, indicator.TTFTP90, indicator.TTFTP95:
		raise(d.span().steady.ttft, allowedTTFT)
		if d.span().steady.single {
			v.V *= onlyOne
		}
	case indicator.PromptTail:
		// A percentile of so few requests is whatever the longest of them was.
		v.V *= math.Exp(beyondChance * tailDeviation / math.Sqrt(max(1, d.view.Now(indicator.FirstTokens).Or(0)/100)))
	case indicator.PrefillTimePerToken:
		raise(d.span().steady.ttft, allowedPrefill)
	}
	return v
}

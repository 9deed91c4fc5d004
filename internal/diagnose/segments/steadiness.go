package segments

import (
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Steadiness is how much a server's own latency varies from one moment to the next
// while nothing is wrong, and whether the last moments are as bad as the window.
//
// Machines drift: a neighbour, a garbage collection, a burst of prompts. A change that
// is no larger than what a server does by itself, or that was over before the last
// scrapes, is not believed: it is pending.
type Steadiness struct {
	Gap, Ttft float64 // standard deviations of the logarithm between moments
	// LastGap and LastTTFT are the worst mean inter-token latency and time to first token of the last moments, in
	// seconds; NaN if unknown.
	LastGap, LastTTFT float64
	// Since is how long the state under judgement has lasted, and Moments is how many moments tell its latency. Both
	// are zero without a normal run to compare with.
	Since   time.Duration
	Moments int
	// Past is how long the normal run was observed; zero without one.
	Past time.Duration
	// Once holds the signals whose events all came at one moment of the window, so that their cause may be over.
	Once map[*indicator.Signal]bool
}

const (
	// moment is the shortest time, in seconds, whose mean is compared with others.
	moment = 5
	// A mean over fewer tokens or requests is too uncertain.
	momentGaps, momentRequests = 20, 8
	// The prior deviation for fewer than two moments, and the minimum.
	usualGapDeviation, usualTTFTDeviation = 0.2, 0.35
	leastDeviation                        = 0.12
	// The last seconds of the window must agree with all of it. They hold one scrape of every 15 s, even if it is
	// early.
	lastSeconds = 14
	// outlier is how many times the usual inter-token latency counts fully in a mean:
	// one stall of seconds is not a slow server.
	outlier = 8
	// lastingShare is the part of the window's latency that its last moments must have.
	lastingShare = 0.8
)

// measureSteadiness measures the steadiness of a server from its normal run and the run under judgement.
func (h *History) measureSteadiness(normal, now run) Steadiness {
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
	s := Steadiness{
		Gap:     max(deviationOf(gapsNormal, usualGapDeviation), 0.7*deviationOf(gapsNow, 0)),
		Ttft:    max(deviationOf(ttftNormal, usualTTFT), 0.7*deviationOf(ttftNow, 0)),
		LastGap: worstOfLast(gapsNow), LastTTFT: worstOfLast(ttftNow),
	}
	if len(normal) > 0 {
		s.Past = h.spanOf(normal).Length()
		if len(gapsNow) > 0 {
			s.Since, s.Moments = h.spanOf(now).Length(), len(gapsNow)
		}
	}
	return s
}

// cameOnce returns the event counts that rose within one moment of the window, and not again. A window of one interval
// cannot tell. Clients that left while the engine generated nothing, or in the interval after, had that one reason.
func (h *History) cameOnce(window period.Period) map[*indicator.Signal]bool {
	once := map[*indicator.Signal]bool{}
	all := h.intervalsIn(window)
	for sig, events := range map[*indicator.Signal]quantity{
		indicator.ServerErrCount: answersOfClass(answers5xx), indicator.ClientErrCount: answersOfClass(answers4xx),
		indicator.Abandoned: abandoned,
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
func (h *History) generatedNothing(iv interval) bool {
	return iv.from >= 0 && h.increase(tokensOut, iv)+h.countOf(firstTokens, iv) == 0
}

// A momentMean is the logarithm of the mean over a moment, and the length of the moment.
type momentMean struct{ log, seconds float64 }

// worstOfLast returns the worst mean of the last moments, divided by lastingShare; NaN without moments.
func worstOfLast(moments []momentMean) float64 {
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
func (h *History) meansOfMoments(s run, limit float64) (gaps, ttfts []momentMean) {
	each := func(f family, need float64, mean func(interval) float64) (out []momentMean) {
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
				out = append(out, momentMean{math.Log(v), seconds})
			}
			open = false
		}
		return out
	}
	gaps = each(tokenGaps, momentGaps, func(m interval) float64 { return h.clippedMean(tokenGaps, m, limit) })
	ttfts = each(firstTokens, momentRequests,
		func(m interval) float64 { return h.increase(firstTokens.sum(), m) / h.countOf(firstTokens, m) })
	return gaps, ttfts
}

// clippedMean returns the mean of a histogram's observations, in which those beyond the limit count as the limit. An
// observation is taken to lie in the middle of its bucket.
func (h *History) clippedMean(f family, iv interval, limit float64) float64 {
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
func deviationOf(values []momentMean, otherwise float64) float64 {
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

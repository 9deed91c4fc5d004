package segments

import (
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/changepoint"
)

// An Onset is when something began: the last scrape at which it surely had not. AtLeast means that it was already there
// when observation began, at At.
type Onset struct {
	At      time.Time
	AtLeast bool
	By      *indicator.Signal // the signal that dates it; nil if the segments of the timeline do
}

// IsBefore reports whether an onset is earlier than another one.
func (o Onset) IsBefore(other Onset) bool {
	return o.At.Before(other.At) || o.At.Equal(other.At) && o.AtLeast && !other.AtLeast
}

// A Dating is an onset that a history shows, and how surely.
type Dating struct {
	Onset
	Earliest Onset   // it may have been as early, by chance; never after the onset
	Evidence float64 // the logarithm of the likelihood ratio; 0 where the history shows no onset
}

// A Course is the history of one target, with the runs that onsets are read from.
type Course struct {
	*History
	read        map[*trace]traceResult // the traces that were read already
	normal, now run
	born        int // the first page since the last outage or restart, or of all
	life        run // the intervals since then
}

func (h *History) courseOf(normal, now run) *Course {
	c := &Course{History: h, read: map[*trace]traceResult{}, normal: normal, now: now}
	last := -1
	for k := range h.at {
		if !h.ok[k] {
			continue
		}
		if last < 0 || k > last+2 || h.restartedBetween(last, k) {
			c.born, c.life = k, nil
		} else {
			c.life = append(c.life, interval{last, k})
		}
		last = k
	}
	return c
}

// A trace is what a signal leaves in a history while it is beyond its threshold. Where onset is set, it dates the
// signal, and shares only tell whether the fault is over.
type trace struct {
	op     catalog.Op // the side of the threshold on which a fault is
	onset  func(*Course) Dating
	shares func(*Course) []tally // ways to count bad events among all
}

// LeavesTrace reports whether histories show when a signal passed its threshold.
func LeavesTrace(s *indicator.Signal) bool { return traces[s] != nil }

// Onset returns when a signal passed its threshold, on the side that is a fault.
func (c *Course) Onset(s *indicator.Signal, op catalog.Op) Dating {
	t := traces[s]
	if c == nil || t == nil || t.op != op {
		return Dating{}
	}
	d := t.readOnce(c).Dating
	d.By, d.Earliest.By = s, s
	return d
}

// Ended reports whether a signal that passed its threshold came back within the window.
func (c *Course) Ended(s *indicator.Signal, op catalog.Op, window period.Period) bool {
	t := traces[s]
	if c == nil || t == nil || t.op != op || t.shares == nil {
		return false
	}
	n := t.readOnce(c)
	return n.Evidence > 0 && c.endedWithin(&n.tally, n.At, window)
}

// A traceResult is the onset that a trace shows, and the tally with the most evidence for it.
type traceResult struct {
	tally
	Dating
}

// readOnce reads a trace and keeps the result, because several signals leave the same trace and several pathologies ask
// for it.
func (t *trace) readOnce(c *Course) (out traceResult) {
	if known, ok := c.read[t]; ok {
		return known
	}
	if t.shares != nil {
		for _, n := range t.shares(c) {
			if o := c.findOnset(&n); out.in == nil || o.Evidence > out.Evidence {
				out = traceResult{n, o}
			}
		}
	}
	if t.onset != nil {
		out.Dating = t.onset(c)
	}
	c.read[t] = out
	return out
}

// traces date the signals that a history shows.
var traces = func() map[*indicator.Signal]*trace {
	out := map[*indicator.Signal]*trace{}
	addTrace := func(t trace, signals []*indicator.Signal) {
		for _, s := range signals {
			out[s] = &t
		}
	}
	addOnset := func(op catalog.Op, onset func(*Course) Dating, signals ...*indicator.Signal) {
		addTrace(trace{op: op, onset: onset}, signals)
	}
	addShares := func(op catalog.Op, shares func(*Course) []tally, signals ...*indicator.Signal) {
		addTrace(trace{op: op, shares: shares}, signals)
	}
	increase := func(counter column) func(*History, interval) float64 {
		return func(h *History, iv interval) float64 { return h.increase(counter, iv) }
	}
	const above, below = catalog.GreaterThan, catalog.LessThan
	addOnset(below, readOutage, indicator.Up, indicator.UpNow)
	addOnset(above, readOutage, indicator.FailedScrapes)
	addOnset(above, readRestart, indicator.Restarts, indicator.StartedWhileWatched, indicator.SeenDown)
	addOnset(below, readRestart, indicator.ServingAge)
	addShares(above, tallyBeyondBounds(firstTokens), indicator.TTFTMean, indicator.TTFTP50, indicator.TTFTP90,
		indicator.TTFTP95)
	addShares(above, tallyBeyondBounds(tokenGaps), indicator.ITLMean, indicator.ITLP50, indicator.ITLP90,
		indicator.ITLP95, indicator.ITLP99, indicator.StallsPerRequest)
	addShares(above, tallyBeyondBounds(promptLengths), indicator.PromptTokens, indicator.PromptTokensP50,
		indicator.PromptTail)
	addShares(above, tallyBeyondBounds(answerLengths), indicator.OutputTokens)
	addShares(above, tallyShares(1, func(h *History, iv interval) (float64, float64) {
		look := min(1, h.lengthOf(iv)/moment) // looks within a moment are one observation
		return look * boolTo(h.gaugeAt(waiting, iv.to) > 0), look
	}), indicator.Waiting, indicator.WaitingFloor, indicator.QueueTimeMean, indicator.QueueAge, indicator.WaitingAge,
		indicator.RankWait, indicator.PassedOver, indicator.UnansweredWait, indicator.WaitTimes)
	addShares(above, tallyShares(1,
		func(h *History, iv interval) (float64, float64) { return boolTo(h.isStalled(iv)), 1 }), indicator.StuckEngines)
	addShares(below, tallyShares(alike, misses), indicator.PrefixHitRatio)
	addShares(above, func(c *Course) []tally {
		return append(tallyShares(alike, misses)(c), tallyBeyondBounds(promptLengths)(c)...)
	}, indicator.ComputedTokens)
	addShares(above, tallyShares(1, answersOfClass(answers5xx)), indicator.ServerErrs, indicator.ServerErrCount,
		indicator.AdmissionRejections)
	addShares(above, tallyShares(1, answersOfClass(answers4xx)), indicator.ClientErrs, indicator.ClientErrCount)
	addShares(above, tallyShares(1, abandoned), indicator.Abandoned, indicator.AbandonedShare)
	addTrace(trace{op: above, onset: dateRateRise(increase(evictions)), shares: tallyShares(burstiness, countEvicted)},
		[]*indicator.Signal{indicator.Preemptions, indicator.PreemptionsPerRequest})
	addOnset(above, dateRateRise(increase(notFetched)), indicator.LeasesExpired)
	addOnset(above, dateRateRise(increase(notArrived)), indicator.TransfersFailed)
	addOnset(above, dateRateRise(increase(corrupted)), indicator.CorruptedRequests)
	addShares(above, tallyShares(1, shareAmong(notFetched, firstTokens.count())), indicator.LeaseShare)
	addShares(above, tallyShares(1, shareAmong(notArrived, transfers, notArrived)), indicator.TransferFailShare)
	addShares(above, tallyShares(1, shareAmong(corrupted, completions)), indicator.CorruptedShare)
	addShares(above, tallyShares(1, shareAmong(erred, completions)), indicator.EngineErrors)
	addShares(below, tallyShares(stepsAlike, undrafted), indicator.SpeculationShare)
	addShares(below, tallyShares(1, untransferred), indicator.TransfersPerRequest)
	addOnset(above, dateRateRise(func(h *History, iv interval) float64 { return h.countOf(firstTokens, iv) }),
		indicator.FirstTokenRate, indicator.ArrivalShare)
	return out
}()

func boolTo(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// readOutage dates an outage: right after the last good scrape.
func readOutage(c *Course) Dating {
	if k := c.pageUpTo(len(c.ok) - 1); k >= 0 && k < len(c.ok)-1 {
		return c.certainAt(k)
	}
	return Dating{} // it answers, or never did
}

// readRestart dates a restart: before the first page of the running process.
func readRestart(c *Course) Dating {
	if c.born == 0 {
		return Dating{}
	}
	return c.certainAt(c.born - 1)
}

func (c *Course) certainAt(k int) Dating {
	at := Onset{At: c.at[k]}
	return Dating{at, at, math.Inf(1)}
}

// tallyBeyondBounds makes a tally for each bound of a histogram. The bad observations lie beyond the bound.
func tallyBeyondBounds(f family) func(*Course) []tally {
	return func(c *Course) (out []tally) {
		beyond := map[interval][]float64{} // how many lie beyond each bound, and how many there are
		for _, r := range []run{c.normal, c.life} {
			for _, iv := range r {
				factor := 1.0
				if f == tokenGaps {
					factor = c.gapsWorth(iv)
				}
				cells, all := c.appendCells(nil, f, iv, factor), 0.0
				for i, in := range slices.Backward(cells) {
					cells[i], all = all, all+in
				}
				beyond[iv] = append(cells, all)
			}
		}
		for bound := range c.buckets[f] {
			t := c.tallyCounts(binomial, alike, func(iv interval) (n count) {
				if b := beyond[iv]; b != nil {
					n = count{b[bound], b[len(b)-1]}
				}
				return n
			})
			t.queued = f == firstTokens
			out = append(out, t)
		}
		return out
	}
}

// tallyShares makes a tally of a quantity. dispersion is how many events count as one observation.
func tallyShares(dispersion float64, of quantity) func(*Course) []tally {
	return func(c *Course) []tally {
		return []tally{c.tallyCounts(binomial, dispersion, func(iv interval) count {
			bad, all := of(c.History, iv)
			return count{bad, all}
		})}
	}
}

// shareAmong returns a counter's events as a share of several counters' events.
func shareAmong(counter column, all ...column) quantity {
	return func(h *History, iv interval) (bad, of float64) {
		bad = h.increase(counter, iv)
		for _, c := range all {
			of += h.increase(c, iv)
		}
		return bad, max(bad, of)
	}
}

// countEvicted counts the evictions of an interval among its first tokens. If requests wait at its end, it counts the
// evictions alone: the cache may be full, so that few requests are admitted and few evicted.
func countEvicted(h *History, iv interval) (bad, of float64) {
	bad = h.increase(evictions, iv)
	if h.gaugeAt(waiting, iv.to) == 0 {
		of = h.countOf(firstTokens, iv)
	}
	return bad, max(bad, of)
}

// dateRateRise dates when events began to come faster than normal. Slower events say nothing: while a cache stays full,
// few requests are admitted and few evicted.
func dateRateRise(events func(*History, interval) float64) func(*Course) Dating {
	return func(c *Course) Dating {
		t := c.tallyCounts(poisson, burstiness,
			func(iv interval) count { return count{events(c.History, iv), c.lengthOf(iv)} })
		return c.findOnset(&t)
	}
}

// A count holds a number of bad events, and of all requests or seconds among which they came.
type count struct{ bad, of float64 }

func (n count) plus(m count) count  { return count{n.bad + m.bad, n.of + m.of} }
func (n count) minus(m count) count { return count{n.bad - m.bad, n.of - m.of} }

// A tally holds the bad events of each interval, and the number expected in a normal one.
type tally struct {
	in func(interval) count
	law
	dispersion float64
	usual      float64 // the normal share or rate
	queued     bool    // it counts requests that may have waited before
}

// A law says how likely a count is.
type law struct {
	log   func(n count, share float64) float64 // the log-likelihood, without the terms that do not depend on the share
	prior float64                              // prior number of events in the estimate of a share
}

var (
	binomial = law{prior: 1, log: func(n count, share float64) float64 {
		return scaledLog(n.bad, share) + scaledLog(n.of-n.bad, 1-share)
	}}
	poisson = law{log: func(n count, rate float64) float64 { return scaledLog(n.bad, rate) - rate*n.of }}
)

// scaledLog returns n times the logarithm of a likelihood. It is 0 for n = 0, even if the likelihood is 0.
func scaledLog(n, likelihood float64) float64 {
	if n <= 0 {
		return 0
	}
	return n * math.Log(likelihood)
}

// tallyCounts counts the events of each interval and the normal expectation.
func (c *Course) tallyCounts(l law, dispersion float64, in func(interval) count) tally {
	t := tally{in: in, law: l, dispersion: dispersion}
	t.usual = t.estimateShare(t.countIn(c.normal))
	return t
}

func (t *tally) countIn(r run) (n count) {
	for _, iv := range r {
		n = n.plus(t.in(iv))
	}
	return n
}

// estimateShare estimates the share, or the rate, of bad events.
func (t *tally) estimateShare(n count) float64 { return (n.bad + 0.5) / (n.of + t.prior) }

// likelihoodRatio returns the log-likelihood ratio of a count between two shares.
func (t *tally) likelihoodRatio(n count, share, other float64) float64 {
	return (t.log(n, share) - t.log(n, other)) / t.dispersion
}

// excessRatio returns the log-likelihood ratio between a count's own share and the normal one; 0 if it is not above
// normal.
func (t *tally) excessRatio(n count) float64 {
	if n.of <= 0 || n.bad <= t.usual*n.of {
		return 0
	}
	return t.likelihoodRatio(n, n.bad/n.of, t.usual)
}

// findOnset searches backwards from the last interval for the stretch that is most certainly not normal: the
// likelihood ratio between its own rate and the normal rate is greatest there (a generalized likelihood ratio; Lai,
// J. R. Stat. Soc. B 57, 1995). The search ends as soon as the time before is normal with the certainty that a change
// needs.
func (c *Course) findOnset(t *tally) (best Dating) {
	if len(c.normal) == 0 {
		return best
	}
	var n count
	for i := len(c.life) - 1; i >= 0; i-- {
		n = n.plus(t.in(c.life[i]))
		evidence := t.excessRatio(n)
		if best.Evidence-evidence > changepoint.Threshold {
			break
		}
		if evidence > best.Evidence {
			best = Dating{c.onsetBefore(i), c.onsetBefore(i), evidence}
		} else if best.Evidence-evidence < byChance {
			best.Earliest = c.onsetBefore(i)
		}
	}
	if best.Evidence < LeastEvidence {
		return Dating{}
	}
	return best
}

// endedWithin reports whether a fault ended within the window. It compares two explanations of the counts (a
// generalized likelihood ratio): one fault throughout, or a fault followed by a normal time. The second must be
// likelier by LeastEvidence, and by more than for any stretch within the fault. A normal rest is compared with the
// whole fault, a rest in between only with its part in the window, because a fault may become milder. A few seconds
// without the fault are no evidence. Requests that waited at the beginning of an interval without a queue at its end
// belong to the time before.
func (c *Course) endedWithin(t *tally, began time.Time, window period.Period) bool {
	first := slices.IndexFunc(c.life, func(iv interval) bool { return !c.at[iv.from].Before(began) })
	in := max(first, slices.IndexFunc(c.life, func(iv interval) bool { return !c.at[iv.from].Before(window.From) }))
	var since count
	for i := len(c.life) - 1; first >= 0 && i >= in; i-- {
		since = since.plus(t.in(c.life[i]))
		queued := t.queuedBefore(c, c.life[i])
		last, before := since.minus(queued), c.life[first:i]
		if t.excessRatio(last) >= LeastEvidence {
			before = c.life[in:i]
		}
		if c.lengthOf(interval{c.life[i].from, c.life[len(c.life)-1].to}) < lastSeconds {
			continue
		}
		n := t.countIn(before).plus(queued)
		all := t.estimateShare(n.plus(last)) // were it one fault
		ratio := t.likelihoodRatio(last, t.usual, all) + t.likelihoodRatio(n, t.estimateShare(n), all)
		if t.excessRatio(n) >= LeastEvidence &&
			ratio > max(LeastEvidence, t.bestStretch(c.life[first:i], t.estimateShare(n))) {
			return true
		}
	}
	return false
}

// queuedBefore counts the requests that waited at the beginning of an interval without a queue at its end.
func (t *tally) queuedBefore(c *Course, iv interval) (n count) {
	if w := c.gaugeAt(waiting, iv.from); t.queued && w > 0 && c.gaugeAt(waiting, iv.to) == 0 {
		n = t.in(iv)
		n = count{min(n.bad, w), min(n.of, w)}
	}
	return n
}

// bestStretch returns the log-likelihood ratio that the best stretch of a run was normal, and not as bad as a share.
func (t *tally) bestStretch(r run, share float64) (most float64) {
	ratio := 0.0
	for _, iv := range r {
		ratio = max(0, ratio+t.likelihoodRatio(t.in(iv), t.usual, share))
		most = max(most, ratio)
	}
	return most
}

// onsetBefore returns the onset of what began in the i-th interval of the life.
func (c *Course) onsetBefore(i int) Onset {
	if c.life[i].from == 0 {
		return Onset{At: c.at[0], AtLeast: true}
	}
	return Onset{At: c.at[c.life[i].from]}
}

const (
	// LeastEvidence is the least log-likelihood ratio with which a signal counts.
	LeastEvidence = 3
	// byChance bounds the difference in log-likelihood between the likeliest beginning and the true one, with 95 %
	// confidence (half of chi-squared's quantile, one degree of freedom).
	byChance = 1.92
)

// RestartBefore returns how long before an onset the server restarted, if that was seen.
func (c *Course) RestartBefore(o Onset) (before time.Duration, seen bool) {
	if c == nil || c.born == 0 || o.AtLeast {
		return 0, false
	}
	last := c.pageUpTo(c.born - 1)
	before = o.At.Sub(c.at[c.born])
	return before, last >= 0 && c.restartedBetween(last, c.born) && before >= 0
}

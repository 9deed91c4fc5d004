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

// An Onset is when something began: after the last scrape at which it surely had not.
// AtLeast says that it was there when the observation began, at that time: it is older.
type Onset struct {
	At      time.Time
	AtLeast bool
	By      *indicator.Signal // whose values tell; nil where the segments of the timeline do
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

// A Course is what one target's onsets are read from.
type Course struct {
	*History
	read        map[*trace]told // by those that were asked for
	normal, now run
	born        int // the first page since the last outage or restart, or of all
	life        run // the intervals since then
}

func (h *History) courseOf(normal, now run) *Course {
	c := &Course{History: h, read: map[*trace]told{}, normal: normal, now: now}
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
// signal, and the shares only tell whether that is over.
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

// Ended reports whether a signal that passed its threshold is back within the window.
func (c *Course) Ended(s *indicator.Signal, op catalog.Op, window period.Period) bool {
	t := traces[s]
	if c == nil || t == nil || t.op != op || t.shares == nil {
		return false
	}
	n := t.readOnce(c)
	return n.Evidence > 0 && c.endedWithin(&n.tally, n.At, window)
}

// The result of a trace: an onset, and the share with the most evidence.
type told struct {
	tally
	Dating
}

// readOnce reads an onset, once: several pathologies ask, about several signals that leave the same trace.
func (t *trace) readOnce(c *Course) (out told) {
	if known, ok := c.read[t]; ok {
		return known
	}
	if t.shares != nil {
		for _, n := range t.shares(c) {
			if o := c.findOnset(&n); out.in == nil || o.Evidence > out.Evidence {
				out = told{n, o}
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
	leave := func(t trace, signals []*indicator.Signal) {
		for _, s := range signals {
			out[s] = &t
		}
	}
	began := func(op catalog.Op, onset func(*Course) Dating, signals ...*indicator.Signal) {
		leave(trace{op: op, onset: onset}, signals)
	}
	add := func(op catalog.Op, shares func(*Course) []tally, signals ...*indicator.Signal) {
		leave(trace{op: op, shares: shares}, signals)
	}
	increase := func(counter column) func(*History, interval) float64 {
		return func(h *History, iv interval) float64 { return h.increase(counter, iv) }
	}
	const above, below = catalog.GreaterThan, catalog.LessThan
	began(below, readOutage, indicator.Up, indicator.UpNow)
	began(above, readOutage, indicator.FailedScrapes)
	began(above, readRestart, indicator.Restarts, indicator.StartedWhileWatched, indicator.SeenDown)
	began(below, readRestart, indicator.ServingAge)
	add(above, laterObservations(firstTokens), indicator.TTFTMean, indicator.TTFTP50, indicator.TTFTP90,
		indicator.TTFTP95)
	add(above, laterObservations(tokenGaps), indicator.ITLMean, indicator.ITLP50, indicator.ITLP90, indicator.ITLP95,
		indicator.ITLP99, indicator.StallsPerRequest)
	add(above, laterObservations(promptLengths), indicator.PromptTokens, indicator.PromptTokensP50,
		indicator.PromptTail)
	add(above, laterObservations(answerLengths), indicator.OutputTokens)
	add(above, tallyShares(1, func(h *History, iv interval) (float64, float64) {
		look := min(1, h.lengthOf(iv)/moment) // looks within a moment are one observation
		return look * boolTo(h.gaugeAt(waiting, iv.to) > 0), look
	}), indicator.Waiting, indicator.WaitingFloor, indicator.QueueTimeMean, indicator.QueueAge, indicator.WaitingAge,
		indicator.RankWait, indicator.PassedOver, indicator.UnansweredWait, indicator.WaitTimes)
	add(above, tallyShares(1, func(h *History, iv interval) (float64, float64) { return boolTo(h.isStalled(iv)), 1 }),
		indicator.StuckEngines)
	add(below, tallyShares(alike, misses), indicator.PrefixHitRatio)
	add(above, func(c *Course) []tally {
		return append(tallyShares(alike, misses)(c), laterObservations(promptLengths)(c)...)
	}, indicator.ComputedTokens)
	add(above, tallyShares(1, refused(answers5xx)), indicator.ServerErrs, indicator.ServerErrCount,
		indicator.AdmissionRejections)
	add(above, tallyShares(1, refused(answers4xx)), indicator.ClientErrs, indicator.ClientErrCount)
	add(above, tallyShares(1, abandoned), indicator.Abandoned, indicator.AbandonedShare)
	leave(trace{op: above, onset: tallyRates(increase(evictions)), shares: tallyShares(burstiness, countEvicted)},
		[]*indicator.Signal{indicator.Preemptions, indicator.PreemptionsPerRequest})
	began(above, tallyRates(increase(notFetched)), indicator.LeasesExpired)
	began(above, tallyRates(increase(notArrived)), indicator.TransfersFailed)
	began(above, tallyRates(increase(corrupted)), indicator.CorruptedRequests)
	add(above, tallyShares(1, shareAmong(notFetched, firstTokens.count())), indicator.LeaseShare)
	add(above, tallyShares(1, shareAmong(notArrived, transfers, notArrived)), indicator.TransferFailShare)
	add(above, tallyShares(1, shareAmong(corrupted, completions)), indicator.CorruptedShare)
	add(above, tallyShares(1, shareAmong(erred, completions)), indicator.EngineErrors)
	add(below, tallyShares(stepsAlike, drafted), indicator.SpeculationShare)
	add(below, tallyShares(1, unfilled), indicator.TransfersPerRequest)
	began(above, tallyRates(func(h *History, iv interval) float64 { return h.countOf(firstTokens, iv) }),
		indicator.FirstTokenRate, indicator.ArrivalShare)
	return out
}()

func boolTo(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// readOutage is right after the last good scrape.
func readOutage(c *Course) Dating {
	if k := c.pageUpTo(len(c.ok) - 1); k >= 0 && k < len(c.ok)-1 {
		return c.certainAt(k)
	}
	return Dating{} // it answers, or never did
}

// readRestart is before the first page of the process that runs.
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

// laterObservations counts the observations of a histogram that lie where few normally do: beyond
// each of its bounds.
func laterObservations(f family) func(*Course) []tally {
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

// tallyShares counts the bad ones among all, where so many count as one observation.
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

// countEvicted counts the evictions of an interval among its first tokens, where nobody waits at its end: else the
// cache may be full, so that few are admitted and few evicted.
func countEvicted(h *History, iv interval) (bad, of float64) {
	bad = h.increase(evictions, iv)
	if h.gaugeAt(waiting, iv.to) == 0 {
		of = h.countOf(firstTokens, iv)
	}
	return bad, max(bad, of)
}

// tallyRates reads when events began to come faster than normal. That they come less often says nothing:
// while a cache stays full and few are admitted, few are evicted.
func tallyRates(events func(*History, interval) float64) func(*Course) Dating {
	return func(c *Course) Dating {
		t := c.tallyCounts(poisson, burstiness,
			func(iv interval) count { return count{events(c.History, iv), c.lengthOf(iv)} })
		return c.findOnset(&t)
	}
}

// A count is a number of bad events and of all events: requests or seconds.
type count struct{ bad, of float64 }

func (n count) plus(m count) count  { return count{n.bad + m.bad, n.of + m.of} }
func (n count) minus(m count) count { return count{n.bad - m.bad, n.of - m.of} }

// A tally holds the bad events of each interval, and the number expected in a normal one.
type tally struct {
	in func(interval) count
	law
	dispersion float64
	usual      float64 // the normal share or rate
	queued     bool    // it counts who may have waited before
}

// A law says how likely a count is.
type law struct {
	log   func(n count, share float64) float64 // the logarithm of the likelihood, but for what no share changes
	prior float64                              // prior number of events in the estimate of a share
}

var (
	binomial = law{prior: 1, log: func(n count, share float64) float64 {
		return scaledLog(n.bad, share) + scaledLog(n.of-n.bad, 1-share)
	}}
	poisson = law{log: func(n count, rate float64) float64 { return scaledLog(n.bad, rate) - rate*n.of }}
)

// scaledLog is n times the logarithm of a likelihood; nothing of none, however unlikely.
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

// estimateShare estimates how much is bad.
func (t *tally) estimateShare(n count) float64 { return (n.bad + 0.5) / (n.of + t.prior) }

// likelihoodRatio returns the log-likelihood ratio of a count between two shares.
func (t *tally) likelihoodRatio(n count, share, other float64) float64 {
	return (t.log(n, share) - t.log(n, other)) / t.dispersion
}

// excessRatio returns the log-likelihood ratio that a count exceeds the normal share; 0 if it does not.
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
// likelier by as much as a signal needs to have a say, and by more than for any stretch within the fault. A normal rest
// is compared with the whole fault, a rest in between only with its part in the window, because a fault may become
// milder. A few seconds without the fault are no evidence. Requests that waited at the beginning of an interval without
// a queue at its end belong to the time before.
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

// bestStretch is how surely of a normal time, and not as bad as a share, the best stretch of a run was.
func (t *tally) bestStretch(r run, share float64) (most float64) {
	ratio := 0.0
	for _, iv := range r {
		ratio = max(0, ratio+t.likelihoodRatio(t.in(iv), t.usual, share))
		most = max(most, ratio)
	}
	return most
}

// onsetBefore is the onset of what began in an interval of the life.
func (c *Course) onsetBefore(i int) Onset {
	if c.life[i].from == 0 {
		return Onset{At: c.at[0], AtLeast: true}
	}
	return Onset{At: c.at[c.life[i].from]}
}

const (
	// LeastEvidence is the logarithm of the likelihood ratio from which on a signal has a say.
	LeastEvidence = 3
	// byChance bounds the difference in log-likelihood between the likeliest beginning and the true one, with 95 %
	// confidence (half of chi-squared's quantile, one degree of freedom).
	byChance = 1.92
)

// RestartBefore says how long before an onset the server restarted, if that was seen.
func (c *Course) RestartBefore(o Onset) (before time.Duration, seen bool) {
	if c == nil || c.born == 0 || o.AtLeast {
		return 0, false
	}
	last := c.pageUpTo(c.born - 1)
	before = o.At.Sub(c.at[c.born])
	return before, last >= 0 && c.restartedBetween(last, c.born) && before >= 0
}

package diagnose

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/changepoint"
)

// An Onset is when something began: after the last scrape at which it surely had not.
// AtLeast says that it was there when the observation began, at that time: it is older.
type Onset struct {
	At      time.Time
	AtLeast bool
}

// before reports whether an onset is earlier than another one.
func (o Onset) before(other Onset) bool {
	return o.At.Before(other.At) || o.At.Equal(other.At) && o.AtLeast && !other.AtLeast
}

// onset returns when a condition that holds began to: any of its parts when the first did,
// all of it when the last did. Of all, the part that a history shows most surely says when,
// and another one may only say that it was surely later. What a history does not show of a
// condition, and what is as it always was, has no say; where nothing has one, the segments
// under judgement have.
//
// It is the one place that says since when: verdicts, alerts and incidents take its word.
func (v view) onset(of *catalog.Pathology, c catalog.Cond) Onset {
	s := v.span()
	o := s.changed()
	if answered, watched := v.Now(indicator.Answered), v.Now(indicator.Starting); answered.OK && answered.V == 0 && watched.OK {
		o = Onset{At: v.snapshot.At.Add(-time.Duration(watched.V * float64(time.Second)))} // it starts since it was found
	}
	if s.course != nil {
		if t := v.readOnset(c, s.course); t.said > 0 {
			o = t.Onset
		}
	}
	if o.At.After(v.snapshot.At) {
		o.At = v.snapshot.At
	}
	return v.snapshot.memory.onset(onsetOf{v.snapshot.Targets[v.target].key(), v.part, of.ID}, o, v.snapshot.At, v.snapshot.interval)
}

// key identifies a target from one diagnosis to the next.
func (t *Target) key() string { return labelKey(t.Labels, slices.Sorted(maps.Keys(t.Labels))) }

// changed is when the segments under judgement began.
func (s *Span) changed() Onset {
	if s.course != nil && len(s.course.normal) > 0 && len(s.course.now) > 0 {
		began := s.course.at[s.course.now[0].from]
		for i := len(s.Timeline) - 1; i >= 0; i-- {
			if seg := &s.Timeline[i]; seg.From.Before(began) {
				if seg.To.Before(began) {
					began = seg.To
				}
				return Onset{At: began}
			}
		}
	}
	return Onset{s.Observed, true}
}

// onsetReading is an onset that a history shows.
type onsetReading struct {
	Onset
	earliest Onset   // it may have been as early, by chance
	said     float64 // the logarithm of the likelihood ratio; 0 where the history has no say
}

// readOnset reads an onset from a history.
func (v view) readOnset(c catalog.Cond, in *course) (out onsetReading) {
	if c.Signal != nil {
		t, known := traces[c.Signal]
		if !known || t.op != c.Op || c.Holds(v) != catalog.True {
			return out
		}
		return t.read(in)
	}
	var parts []onsetReading
	for _, sub := range append(c.All[:len(c.All):len(c.All)], c.Any...) {
		if sub.Holds(v) != catalog.True {
			continue
		}
		if o := v.readOnset(sub, in); o.said > 0 {
			parts = append(parts, o)
		}
	}
	for _, o := range parts {
		if out.said == 0 || c.All == nil && o.before(out.Onset) || c.All != nil && o.said > out.said {
			out = o
		}
	}
	for _, o := range parts {
		if c.All != nil && out.before(o.earliest) {
			out.Onset, out.earliest = o.earliest, o.earliest
		}
	}
	return out
}

// A course is what one target's onsets are read from.
type course struct {
	*history
	normal, now run
	born        int // the first page since the last outage or restart, or of all
	life        run // the intervals since then
}

func (h *history) course(normal, now run) *course {
	c := &course{history: h, normal: normal, now: now}
	last := -1
	for k := range h.at {
		if !h.ok[k] {
			continue
		}
		if last < 0 || k > last+2 || h.reset(last, k) {
			c.born, c.life = k, nil
		} else {
			c.life = append(c.life, interval{last, k})
		}
		last = k
	}
	return c
}

// A trace is what a signal leaves in a history while it is beyond its threshold.
type trace struct {
	op   catalog.Op
	read func(*course) onsetReading
}

// traces are those of the signals that a history shows, on the side of the threshold on
// which a fault is.
var traces = func() map[*indicator.Signal]trace {
	out := map[*indicator.Signal]trace{}
	add := func(op catalog.Op, read func(*course) onsetReading, signals ...*indicator.Signal) {
		for _, s := range signals {
			out[s] = trace{op, read}
		}
	}
	const above, below = catalog.GreaterThan, catalog.LessThan
	add(below, outage, indicator.Up, indicator.UpNow)
	add(above, outage, indicator.FailedScrapes)
	add(above, restart, indicator.Restarts, indicator.StartedWhileWatched, indicator.SeenDown)
	add(below, restart, indicator.ServingAge)
	add(above, laterObservations(firstTokens), indicator.TTFTMean, indicator.TTFTP50, indicator.TTFTP95)
	add(above, laterObservations(tokenGaps), indicator.ITLMean, indicator.ITLP50, indicator.ITLP90, indicator.ITLP95, indicator.ITLP99, indicator.StallsPerRequest)
	add(above, laterObservations(promptLengths), indicator.PromptTokens, indicator.PromptTokensP50, indicator.PromptTail)
	add(above, laterObservations(answerLengths), indicator.OutputTokens)
	add(above, shares(func(h *history, iv interval) (float64, float64) {
		look := min(1, h.seconds(iv)/moment) // those of a moment tell the same
		return look * boolTo(h.gaugeAt(waiting, iv.to) > 0), look
	}), indicator.Waiting, indicator.WaitingFloor, indicator.QueueTimeMean, indicator.QueueAge, indicator.PassedOver, indicator.UnansweredWait, indicator.WaitTimes)
	add(above, shares(func(h *history, iv interval) (float64, float64) { return boolTo(h.stalled(iv)), 1 }), indicator.StuckEngines)
	add(below, shares(misses), indicator.PrefixHitRatio)
	add(above, shares(refused(answers5xx)), indicator.ServerErrs, indicator.ServerErrCount)
	add(above, shares(refused(answers4xx)), indicator.ClientErrs, indicator.ClientErrCount)
	add(above, shares(func(h *history, iv interval) (float64, float64) {
		bad, _ := abandoned(h, iv)
		return bad, h.answered(iv)
	}), indicator.Abandoned, indicator.AbandonedShare)
	for counter, signals := range map[column][]*indicator.Signal{
		evictions:  {indicator.Preemptions, indicator.PreemptionsPerRequest},
		notFetched: {indicator.LeasesExpired, indicator.LeaseShare},
		notArrived: {indicator.TransfersFailed, indicator.TransferFailShare},
		corrupted:  {indicator.CorruptedRequests, indicator.CorruptedShare},
	} {
		add(above, rates(func(h *history, iv interval) float64 { return h.increase(counter, iv) }), signals...)
	}
	add(below, shares(drafted), indicator.SpeculationShare)
	add(below, shares(unfilled), indicator.TransfersPerRequest)
	add(above, rates(func(h *history, iv interval) float64 { return h.count(firstTokens, iv) }), indicator.FirstTokenRate, indicator.ArrivalShare)
	return out
}()

func boolTo(b bool) float64 { return float64(boolToInt(b)) }

// outage is right after the last good scrape.
func outage(c *course) onsetReading {
	if k := c.pageUpTo(len(c.ok) - 1); k >= 0 && k < len(c.ok)-1 {
		return c.certainAt(k)
	}
	return onsetReading{} // it answers, or never did
}

// restart is before the first page of the process that runs.
func restart(c *course) onsetReading {
	if c.born == 0 {
		return onsetReading{}
	}
	return c.certainAt(c.born - 1)
}

func (c *course) certainAt(k int) onsetReading {
	at := Onset{At: c.at[k]}
	return onsetReading{at, at, math.Inf(1)}
}

// laterObservations reads when observations of a histogram began to lie where few normally do: beyond
// the bound that tells most.
func laterObservations(f family) func(*course) onsetReading {
	return func(c *course) onsetReading {
		cells := map[interval][]float64{}
		for _, r := range []run{c.normal, c.life} {
			for _, iv := range r {
				factor := 1.0
				if f == tokenGaps {
					factor = c.gapsWorth(iv)
				}
				cells[iv] = c.cells(nil, f, iv, factor)
			}
		}
		var best onsetReading
		for bound := range c.buckets[f] {
			of := c.share(func(iv interval) (bad, of float64) {
				for i, n := range cells[iv] {
					of += n
					if i > bound {
						bad += n
					}
				}
				return bad, of
			}, alike)
			if of.said > best.said {
				best = of
			}
		}
		return best
	}
}

// shares reads when a share of something began to be higher than normal.
func shares(of quantity) func(*course) onsetReading {
	return func(c *course) onsetReading {
		return c.share(func(iv interval) (float64, float64) { return of(c.history, iv) }, 1)
	}
}

// rates reads when events began to come faster than normal.
func rates(count func(*history, interval) float64) func(*course) onsetReading {
	return func(c *course) onsetReading {
		timed := func(iv interval) (float64, float64) { return count(c.history, iv), c.seconds(iv) }
		n, seconds := c.sum(timed)
		usual := (n + 0.5) / seconds
		return c.findOnset(timed, func(n, seconds float64) float64 {
			if n <= usual*seconds {
				return 0
			}
			return (n*math.Log(n/seconds/usual) - n + usual*seconds) / burstiness
		})
	}
}

func (h *history) seconds(iv interval) float64 { return h.at[iv.to].Sub(h.at[iv.from]).Seconds() }

// sum adds up what was counted while all was normal.
func (c *course) sum(count func(interval) (bad, of float64)) (bad, of float64) {
	for _, iv := range c.normal {
		b, n := count(iv)
		bad, of = bad+b, of+n
	}
	return bad, of
}

// share finds when a share began to be higher than normal.
func (c *course) share(count func(interval) (bad, of float64), dispersion float64) onsetReading {
	bad, of := c.sum(count)
	usual := (bad + 0.5) / (of + 1)
	return c.findOnset(count, func(bad, of float64) float64 {
		if bad = min(bad, of); of <= 0 || bad <= usual*of {
			return 0
		}
		said := bad * math.Log(bad/of/usual)
		if bad < of {
			said += (of - bad) * math.Log((1-bad/of)/(1-usual))
		}
		return said / dispersion
	})
}

// findOnset goes back from the last interval and finds where what came from there on is most
// surely not as normal: where the likelihood of what was counted, by its own rate against the
// normal one, is greatest (a generalized likelihood ratio; Lai, J. R. Stat. Soc. B 57, 1995).
// It ends where what lies before is normal as surely as a change is one.
func (c *course) findOnset(count func(interval) (bad, of float64), ratio func(bad, of float64) float64) (best onsetReading) {
	if len(c.normal) == 0 {
		return best
	}
	bad, of := 0.0, 0.0
	for i := len(c.life) - 1; i >= 0; i-- {
		b, n := count(c.life[i])
		bad, of = bad+b, of+n
		said := ratio(bad, of)
		if best.said-said > changepoint.Threshold {
			break
		}
		if said > best.said {
			best = onsetReading{c.before(i), c.before(i), said}
		} else if best.said-said < byChance {
			best.earliest = c.before(i)
		}
	}
	if best.said < leastSaid {
		return onsetReading{}
	}
	return best
}

// before is the onset of what began in an interval of the life.
func (c *course) before(i int) Onset {
	if c.life[i].from == 0 {
		return Onset{c.at[0], true}
	}
	return Onset{At: c.at[c.life[i].from]}
}

const (
	// leastSaid is the logarithm of the likelihood ratio from which on a signal has a say.
	leastSaid = 3
	// byChance is by how much the likelihood of the true beginning is less than that of the
	// likeliest, nineteen times of twenty (half of the quantile of chi-squared, one degree).
	byChance = 1.92
)

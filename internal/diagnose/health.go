package diagnose

import (
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// reasonAgainstHealthy returns what speaks against "healthy" although nothing fires, or "": somebody waits and gets
// nothing; too few requests were served to tell what users feel; an objective is missed by too few requests to be sure;
// the median time between tokens exceeds a lifetime mean that may contain faults; or the first token is late and nobody
// knows whether it ever came sooner.
func (j *judgement) reasonAgainstHealthy() string {
	v := j.view
	if held := j.whoIsUnserved(); held != "" {
		return held + " on " + j.name()
	}
	for _, p := range threshold.Promises() {
		if broken, evidence := catalog.Breached(p.Signal, p.Threshold).Eval(v); broken == catalog.True {
			e := evidence[0]
			return fmt.Sprintf("%s is %s on %s, over the objective of %s (%s): %.0f requests are too few to be certain",
				p.Signal.Title,
				indicator.Format(e.Value, p.Signal.Unit), j.name(), indicator.FormatNumber(e.Threshold, p.Signal.Unit),
				e.Source, v.Now(indicator.FirstTokens).Or(0))
		}
	}
	if share := v.Now(indicator.AbandonedShare); share.V > catalog.AbandonedShare.Default &&
		v.Now(indicator.Abandoned).V > catalog.SomeAbandoned.Default &&
		(!v.HasHistory() || v.MayHoldFault()) {
		return fmt.Sprintf("%s of the clients of %s leave before their answer is complete, and whether they always do is not known",
			indicator.Format(share, indicator.Ratio), j.name())
	}
	median := v.Normal(indicator.ITLP50)
	if v.span().Source == segments.FromLifetime && v.Normal(indicator.ITLMean).Or(0) > manyFaults*max(median.V,
		median.Bucket.High) &&
		catalog.Above(indicator.ITLP50, catalog.DecodeSlower).Likely(v) == catalog.True {
		return fmt.Sprintf("%s is %s on %s, and %s in the median since the server started: its mean since then holds earlier faults, so it shows no change", indicator.ITLP50.Title,
			indicator.Format(v.Now(indicator.ITLP50), indicator.Seconds), j.name(),
			indicator.Format(median, indicator.Seconds))
	}
	if why := j.reasonOfLateTokens(); why != "" {
		return why
	}
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if of := v.of(o.part); o.status == Unknown && o.severity >= catalog.Ticket && of.mayHold(o.when) &&
			of.isFelt(o.when) {
			return o.pathology.Name() + " on " + j.name() + " cannot be ruled out: too few requests were served"
		}
	}
	return ""
}

// isFelt reports whether users feel what a condition compares.
func (v view) isFelt(when catalog.Cond) bool {
	_, evidence := when.Eval(v)
	return slices.ContainsFunc(evidence, func(e catalog.Evidence) bool {
		return e.Holds == catalog.True && e.Role == catalog.Symptom
	})
}

// mayHold reports whether a condition may hold: a comparison with too few observations counts as true.
func (v view) mayHold(c catalog.Cond) bool {
	switch {
	case c.Any != nil:
		return slices.ContainsFunc(c.Any, v.mayHold)
	case c.All != nil:
		return !slices.ContainsFunc(c.All, func(sub catalog.Cond) bool { return !v.mayHold(sub) })
	}
	holds := c.Holds(v)
	if holds == catalog.Unknown { // and the target exposes the signal
		return !v.Now(c.Signal).OK && c.Signal.Counted() &&
			len(v.snapshot.Targets[v.target].Dialect.Missing(c.Signal)) == 0
	}
	return holds == catalog.True
}

// reasonOfLateTokens returns the reason against "healthy" that late first tokens give, or "".
func (j *judgement) reasonOfLateTokens() string {
	v := j.view
	late, usual := v.Now(indicator.TTFTP95), v.Normal(indicator.TTFTP95)
	_, _, promised := v.Limit(catalog.TTFTObjective)
	surely := late.V
	if late.Bucket.High > 0 {
		surely = late.Bucket.Low
	}
	switch known, last := v.HasHistory() && usual.OK, v.span().LastWait; {
	case known && !late.OK && last > max(catalog.TTFTObjective.Default, farLater*usual.V):
		return fmt.Sprintf("the last requests on %s got a first token after %s, on average, normally %s", j.name(),
			indicator.FormatNumber(last, indicator.Seconds), indicator.Format(usual, indicator.Seconds))
	case promised || !late.OK || surely <= catalog.TTFTObjective.Default:
		return ""
	case known && surely > muchLater*usual.V && (surely > farLater*usual.V && !j.sawAnEnd() ||
		v.Now(indicator.FirstTokens).Or(0) < fewRequests):
		return fmt.Sprintf("%s is %s on %s, normally %s", indicator.TTFTP95.Title,
			indicator.Format(late, indicator.Seconds), j.name(), indicator.Format(usual, indicator.Seconds))
	case known:
		return ""
	}
	return fmt.Sprintf("%s is %s on %s: set --slo or --use-case to judge whether that is too slow",
		indicator.TTFTP95.Title, indicator.Format(late, indicator.Seconds), j.name())
}

// sawAnEnd reports whether a fault was seen to end: it may have caused the late first tokens of the window.
func (j *judgement) sawAnEnd() bool {
	return slices.ContainsFunc(j.outcomes, func(o outcome) bool { return o.ended && o.status == Pending })
}

// endUnspecificSymptoms marks the unspecific symptoms that are pending as ended, if a fault was seen to end.
func (j *judgement) endUnspecificSymptoms() {
	over := j.sawAnEnd()
	for i := range j.outcomes {
		o := &j.outcomes[i]
		o.ended = o.ended || over && o.pathology.Unspecific && o.status == Pending
	}
}

// Limits of the reasons against "healthy".
const (
	patience     = 5.0 // seconds for which somebody may wait while nobody is served
	muchLater    = 3   // times the usual TTFT, where the requests are too few for any condition
	farLater     = 10  // likewise for any number of requests: the late ones are too few for any condition
	manyFaults   = 2   // times the lifetime median: the lifetime mean holds long gaps
	fewRequests  = 20  // first tokens in the window
	someUnserved = 4.5 // requests or connections that get nothing
	someOwed     = 8   // first tokens that a data-parallel rank should have given
)

// whoIsUnserved says which requests wait and get nothing, or "": requests that wait for the scheduler, that the engine
// holds, that the engine never accepted, or that a silent rank holds.
func (j *judgement) whoIsUnserved() string {
	v := j.view
	seconds := func(s float64) string { return indicator.FormatNumber(s, indicator.Seconds) }
	usual := max(patience, v.Normal(indicator.TTFTP95).Or(0), v.Normal(indicator.WaitingAge).Or(0))
	held, still := v.Now(indicator.InFlightFloor).Or(0), v.Now(indicator.EngineProgress)
	outside := v.Now(indicator.UnseenClients).Or(0)
	switch age := v.Now(indicator.WaitingAge).Or(0); {
	case age > usual:
		return fmt.Sprintf("%s, and nobody got a first token for %s",
			catalog.Waiting(math.Ceil(v.Now(indicator.Waiting).Or(1))), seconds(age))
	case held > 0 && still.OK && still.V == 0:
		return fmt.Sprintf("the engine holds %s, and no token came in the last %s", catalog.Requests(held),
			seconds(segments.ShortestSpan(v.snapshot.interval).Seconds()))
	case v.Now(indicator.TransferHeld).Or(0) > someUnserved && v.Now(indicator.TransferWait).Or(0) > usual:
		return fmt.Sprintf("%s in KV transfer, for %s on average,", catalog.Are(v.Now(indicator.TransferHeld).V),
			seconds(v.Now(indicator.TransferWait).V))
	case v.Now(indicator.HeldOutside).Or(0) > someUnserved && v.Now(indicator.OutsideWait).Or(0) > usual:
		return catalog.Are(v.Now(indicator.HeldOutside).V) + " open, and in neither the queue nor the batch,"
	case outside > someUnserved && still.OK && still.V == 0:
		return fmt.Sprintf("%.0f connections are open, and the engine generates nothing", outside)
	case v.Now(indicator.FDTrend).Or(0)*v.span().Window.Length().Seconds() > someUnserved && still.OK && still.V == 0:
		return "more and more connections are open, and the engine generates nothing,"
	case v.Now(indicator.OwedFirstTokens).Or(0) > someOwed:
		return fmt.Sprintf("a data-parallel rank gave no first token where %.0f were due",
			v.Now(indicator.OwedFirstTokens).V)
	}
	return ""
}

// The most open files of an API server without clients, with one rank, and what each further rank adds. vLLM 0.11 to
// 0.32 has 33 to 42 open files, and 44 with two ranks.
const (
	idleFiles        = 48
	idleFilesPerRank = 8
)

// whyClientsMayWait says why clients may wait for an engine that does nothing, or "". Without a history it relies on
// the open files of the API server alone.
func (j *judgement) whyClientsMayWait() string {
	v := j.view
	t := &v.snapshot.Targets[j.target]
	if !v.span().Whole || len(t.Dialect.Missing(indicator.HeldOutside)) == 0 {
		return ""
	}
	files, known := v.Now(indicator.OpenFDs), "its API server does not say how many connections are open"
	switch {
	case files.OK && files.V <= idleFiles+idleFilesPerRank*(v.Now(indicator.Ranks).Or(1)-1):
		return ""
	case files.OK:
		known = fmt.Sprintf("its API server has %.0f open files, and about 40 without clients", files.V)
	}
	return fmt.Sprintf("%s serves nobody, and without a past it is unknown whether clients wait in front of its engine: %s; request one token to find out", j.name(), known)
}

// unservedAtGateway says how many requests are open at a gateway that answers none, or "".
func (j *judgement) unservedAtGateway() string {
	v := j.view
	open, answered := v.Now(indicator.GatewayOpen).Or(0), v.Now(indicator.GatewayAnsweredLately)
	if !j.atGateway() || open <= someUnserved || !answered.OK || answered.V > 0 {
		return ""
	}
	return fmt.Sprintf("%s open at %s, and none was answered", catalog.Are(open), j.name())
}

func (j *judgement) name() string { return j.view.snapshot.Targets[j.target].Name }

// requestRate returns how many requests a second the target serves, or served before. A held request counts as if it
// stayed ten seconds.
func (j *judgement) requestRate() float64 {
	v := j.view
	if j.atGateway() {
		return max(v.Now(indicator.GatewayOffered).Or(0), v.Normal(indicator.GatewayOffered).Or(0),
			v.Now(indicator.GatewayOpen).Or(0)/10)
	}
	held := v.Now(indicator.Running).Or(0) + v.Now(indicator.Waiting).Or(0)
	return max(v.Now(indicator.FirstTokenRate).Or(0), v.Normal(indicator.FirstTokenRate).Or(0), held/10)
}

func (j *judgement) isSick() bool {
	return slices.ContainsFunc(j.outcomes, func(o outcome) bool { return o.status == Firing && !o.note })
}

// mayHang reports whether a server may hang: its scrapes fail, and it had work when it was last seen.
func (j *judgement) mayHang() bool {
	v := j.view
	return v.isSilent() && j.stateOf() == identity.LifeServing &&
		v.Now(indicator.LastHeld).Or(0)+v.Now(indicator.LastWork).Or(0) > 0
}

func (j *judgement) reasonUnjudged() string {
	v := j.view.Now(indicator.FirstTokenRate)
	switch {
	case j.stateOf() == identity.LifeStarting:
		return "it is starting, and has never answered"
	case j.stateOf() == identity.LifeDrained:
		return "it does not answer, and had no requests in flight when last seen"
	case j.view.span().Failing:
		return "its last scrape failed: check its /health, or try again after the next scrape"
	case j.view.isSilent():
		return fmt.Sprintf("its scrapes have failed for %.0f s: it hangs, or is slow to show its metrics",
			j.view.span().Silence.Seconds())
	case v.Reason != "":
		return v.Reason
	case v.OK && !j.view.Now(indicator.InFlightFloor).OK:
		return "no recent samples"
	}
	return "a rate needs at least two scrapes, a verdict ten seconds"
}

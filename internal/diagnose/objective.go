package diagnose

import (
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/threshold"
)

// ObjectiveBreached is the verdict where users get less than they were promised and
// no pathology says why. It is not in the catalogue: it names no cause, and its
// alerts are the burn rates of the objectives.
var ObjectiveBreached = &catalog.Pathology{
	ID:       "objective-breached",
	Title:    "An objective is not met, and no known cause fits",
	Severity: catalog.Ticket,
	Runbook: `# An objective is not met, and no known cause fits

What users get is worse than the objective of --slo, --use-case or --set, and no
failure mode that sixty knows fits.

1. The report says where the time goes. Time in the queue asks for capacity, time in
   prefill for shorter prompts, a smaller model or a faster GPU; what is in neither is
   spent in the API server or on the way.
2. Was it ever better? Without a past nothing can be called worse than usual. Give
   --baseline, or ask a Prometheus server that has seen better days.
3. Look at what could not be checked: the report names what to switch on.
4. Was too much promised? sixty bench --search finds what this server can keep.
`,
}

// A P95 of few requests lies above its limit by chance, but not far.
const (
	surelyBeyond   = 1.5 // times the limit
	surelyRequests = 60
)

// A breach is a promise that is not kept.
type breach struct {
	catalog.Evidence
	cond    catalog.Cond
	certain bool // and not what chance makes of few requests
}

// breaches lists the promises that are not kept, the worst first.
func (v view) breaches() []breach {
	var out []breach
	for _, p := range threshold.Promises() {
		if _, source, ok := v.Limit(p.Threshold); !ok || source == "measured" {
			continue
		}
		cond := catalog.Above(p.Signal, p.Threshold)
		if truth, evidence := cond.Eval(v); truth == catalog.True {
			e := evidence[0]
			certain := e.Value.V > surelyBeyond*e.Threshold || v.Now(indicator.FirstTokens).Or(0) >= surelyRequests
			out = append(out, breach{e, cond, certain})
		}
	}
	slices.SortStableFunc(out, func(a, b breach) int {
		switch by := b.Value.V/b.Threshold - a.Value.V/a.Threshold; {
		case by > 0:
			return 1
		case by < 0:
			return -1
		}
		return 0
	})
	return out
}

func (b breach) text() string {
	return fmt.Sprintf("%s is %s, over the objective of %s (%s)", b.Signal.Title, indicator.Format(b.Value, b.Signal.Unit), indicator.FormatNumber(b.Threshold, b.Signal.Unit), b.Source)
}

// breach is the outcome of ObjectiveBreached; a pathology that makes answers late
// explains it.
func (j *judgement) breach() outcome {
	o := outcome{pathology: ObjectiveBreached, severity: ObjectiveBreached.Severity, status: NotApplicable}
	broken := j.view.breaches()
	if len(broken) == 0 || !broken[0].certain || slices.ContainsFunc(j.outcomes, j.explainsLateness) {
		return o
	}
	o.status, o.since = Firing, j.view.onset(ObjectiveBreached, broken[0].cond)
	for _, b := range broken {
		o.evidence = append(o.evidence, b.Evidence)
	}
	o.confidence = confidence(o.evidence, 0, 0, j.view.span().Source)
	o.pass = &catalog.Pass{View: j.view, Summary: broken[0].text() + "; no known cause fits"}
	o.pass.Reasons = j.whatWouldTell()
	return o
}

// explainsLateness reports whether a pathology fires that is about latency or
// causes others: late answers need no further name then.
func (j *judgement) explainsLateness(o outcome) bool {
	causes := func(other outcome) bool { return o.pathology.Inhibits(other.pathology) }
	return o.status == Firing && (o.pathology.FollowsObjectives || slices.ContainsFunc(j.outcomes, causes))
}

// whatWouldTell says where the time goes, what is suspected, and what is missing
// for more.
func (j *judgement) whatWouldTell() []string {
	var out []string
	v := j.view
	total, queue, prefill := v.Now(indicator.TTFTMean), v.Now(indicator.QueueTimeMean), v.Now(indicator.PrefillTimeMean)
	if total.OK && queue.OK && prefill.OK {
		out = append(out, fmt.Sprintf("Mean TTFT is %s; finished requests spent %s in the queue and %s in prefill",
			indicator.Format(total, indicator.Seconds), indicator.Format(queue, indicator.Seconds), indicator.Format(prefill, indicator.Seconds)))
	}
	for _, o := range j.outcomes {
		if o.status == Pending {
			out = append(out, fmt.Sprintf("%s is suspected, but not certain yet", o.pathology.ID))
		}
	}
	if v.span().Source == NoBaseline {
		out = append(out, "There is no past to compare with: --baseline or --prometheus would say whether it was ever better")
	}
	return out
}

// doubt says what speaks against "nothing is wrong" although nothing fires; "" where
// nothing does.
func (j *judgement) doubt() string {
	for _, b := range j.view.breaches() {
		return fmt.Sprintf("%s on %s: %.0f requests are too few to be sure", b.text(), j.name(), j.view.Now(indicator.FirstTokens).Or(0))
	}
	late, usual := j.view.Now(indicator.TTFTP95), j.view.Normal(indicator.TTFTP95)
	_, _, promised := j.view.Limit(catalog.TTFTObjective)
	text := func() string { return indicator.Format(late, indicator.Seconds) + " on " + j.name() }
	switch worse := laterThanUsual.Certain(j.view); {
	case promised || !late.OK:
	case worse == catalog.True:
		return fmt.Sprintf("%s is %s, normally %s, and no known cause fits", indicator.TTFTP95.Title, text(), indicator.Format(usual, indicator.Seconds))
	case j.view.HasHistory() && usual.OK && late.V <= surelyBeyond*usual.V:
	case late.V > catalog.TTFTObjective.Default:
		return fmt.Sprintf("%s is %s: --slo or --use-case says whether that is too long", indicator.TTFTP95.Title, text())
	}
	return ""
}

// laterThanUsual is a first token that users notice to be late, whatever made it so.
var laterThanUsual = catalog.Any(
	catalog.Above(indicator.TTFTP50, catalog.TTFTWorse),
	catalog.Above(indicator.TTFTP95, &catalog.Threshold{
		Name: "ttft_tail_worse", Unit: indicator.Seconds, Default: catalog.None, Baseline: &catalog.Relative{Factor: 3, Offset: 0.25},
		Why: "one first token in twenty three times as late as normal, and at least a quarter of a second more",
	}),
)

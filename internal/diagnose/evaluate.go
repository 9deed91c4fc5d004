package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
)

// Settings is what the user wants judged, and by which numbers.
type Settings struct {
	Objectives *slo.File          // nil when nothing was promised
	Set        map[string]float64 // thresholds by name, set by hand
	Baselines  []*baseline.File   // baseline files of models, from a load test or a healthy period
	Only       []string           // ids of the pathologies to look for; empty means all
}

// Evaluate judges a snapshot.
func Evaluate(s *Snapshot, pathologies []*catalog.Pathology, set Settings) Diagnosis {
	d := Diagnosis{At: s.At, Targets: slices.Clone(s.Targets), Spans: s.Spans, Interval: s.interval}
	var judged []judgement
	for i := range s.Targets {
		if s.Targets[i].Problem == "" {
			judged = append(judged, judgeTarget(s, i, pathologies, set))
		}
	}
	for i := range judged {
		if j := &judged[i]; s.Targets[j.target].Serves() {
			d.Targets[j.target].Life = j.stateOf()
			if j.view.canBeJudged() {
				j.doubt = j.reasonAgainstHealthy()
			}
			if j.doubt != "" {
				d.Doubts = append(d.Doubts, Doubt{j.name(), j.doubt})
			}
		}
	}
	for i := range d.Targets {
		if t := &d.Targets[i]; t.isGateway() && !s.Now(i, indicator.GatewayOffered).OK {
			t.Life = LifeLost
		}
	}
	looked := slices.Clone(pathologies)
	if len(set.Only) > 0 {
		looked = slices.DeleteFunc(looked, func(p *catalog.Pathology) bool { return !slices.Contains(set.Only, p.ID) })
	}
	missing := listUnjudged(s, judged)
	pools := poolsOf(s, judged, missing)
	for i := range pools {
		pools[i].only = set.Only
		pools[i].judgePool(looked)
	}
	slices.SortStableFunc(pools, comparePools)
	for i := range pools {
		if p := &pools[i]; !p.gateway || p.verdict.Status == Firing {
			d.Verdicts = append(d.Verdicts, p.verdict)
		}
		d.Findings = append(d.Findings, pools[i].findings...)
	}
	rankFindings(d.Findings)
	all := pool{snapshot: s, only: set.Only, judged: judged, unjudged: missing, findings: d.Findings}
	d.Unjudged = all.unjudged
	d.Verdict = all.quietVerdict()
	if n := len(d.Verdicts); n == 1 || n > 1 && d.Verdicts[0].Status == Firing {
		d.Verdict = d.Verdicts[0]
	}
	d.Status, d.Workload = d.Verdict.Status, d.Verdict.Workload
	d.Coverage = findGaps(d.Findings)
	d.Notes = append(diagnosisNotes(s, judged, &d), lifeNotes(d.Targets)...)
	d.Window, d.Baseline, d.Source = shownSpan(s, &d)
	d.Deployments = findDeployments(s, &d)
	return d
}

// shownSpan returns the span of the target that is compared with its past or, where none
// is, of the first one that the verdict speaks of.
func shownSpan(s *Snapshot, d *Diagnosis) (window, base Range, source BaselineSource) {
	name := d.Workload.Target
	if name == "" && len(d.Verdict.Targets) > 0 {
		name = d.Verdict.Targets[0]
	}
	if len(s.Spans) == 0 {
		return Range{To: s.At}, Range{}, NoBaseline
	}
	span := &s.Spans[max(0, slices.IndexFunc(s.Targets, func(t Target) bool { return t.Name == name }))]
	return span.Window, span.Baseline, span.Source
}

// A judgement is what one target's readings say.
type judgement struct {
	target   int
	view     view
	outcomes []outcome
	doubt    string // reason against calling it healthy
}

// An outcome is one pathology on one target.
type outcome struct {
	pathology   *catalog.Pathology
	when        catalog.Cond // the pathology's condition, without alternatives that the target cannot tell
	part        part         // part of a gateway
	status      Status
	ended       bool // by the last scrapes: pending because of it
	likely      bool // it is pending, and not for what chance does as easily
	severity    catalog.Severity
	note        bool                                  // shown without effect on the verdict
	wait        time.Duration                         // before people are told
	evidence    []catalog.Evidence                    // of the comparisons that hold
	normal      map[*indicator.Signal]indicator.Value // see before
	confidence  float64
	inhibitedBy string
	pass        *catalog.Pass
	chain       []Step
	since       Onset // the condition's onset
}

func judgeTarget(s *Snapshot, target int, pathologies []*catalog.Pathology, set Settings) judgement {
	j := judgement{target: target, view: newView(s, target, part{}, set), outcomes: make([]outcome, 0, len(pathologies))}
	for _, p := range pathologies {
		when, judged := j.view.judgedBy(p)
		if !judged {
			j.outcomes = append(j.outcomes, outcome{pathology: p, severity: p.Severity, status: NotApplicable})
			continue
		}
		for _, of := range s.partsOf(target, p.Per()) {
			o := outcome{pathology: p, when: when, part: of, severity: p.Severity}
			o.judgeCondition(s, j.view.of(of))
			j.outcomes = append(j.outcomes, o)
		}
	}
	// A doubtful cause is believed where one of its symptoms, and more than a note, is
	// beyond doubt.
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if o.status == Pending && !o.ended && slices.ContainsFunc(j.outcomes, func(s outcome) bool {
			return s.status == Firing && s.severity >= catalog.Ticket && !s.pathology.Unspecific && o.pathology.Inhibits(s.pathology) && o.part.mayShareRequests(s.part)
		}) {
			o.status = Firing
		}
	}
	j.endWhatNothingNames()
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if symptom := j.cameFirst(o); symptom != nil {
			o.when = o.pathology.Leads
			o.judgeCondition(s, j.view.of(o.part))
			o.severity, o.note, o.wait = max(o.severity, symptom.severity), false, symptom.wait // users feel that
		}
	}
	// In the catalogue's order, so that the furthest cause is named.
	explainOutcomes(j.outcomes, j.outcomes, func(cause, o *outcome) bool { return cause.part.mayShareRequests(o.part) })
	for i := range j.outcomes {
		if o := &j.outcomes[i]; o.status == Firing {
			o.refineFinding(s, j.view.of(o.part), &j)
		}
	}
	return j
}

// cameFirst returns what fires and began by more than two intervals between scrapes after what leads to it did, nil where
// nothing is, or where the cause is found without that.
func (j *judgement) cameFirst(cause *outcome) *outcome {
	v := j.view.of(cause.part)
	if cause.status != OK || cause.pathology.Leads.Holds(v) != catalog.True {
		return nil
	}
	began := v.readOnset(cause.pathology.Leads, v.span().course)
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if o.status == Firing && !o.note && cause.pathology.Inhibits(o.pathology) && began.said > 0 && !began.AtLeast && o.since.At.Sub(began.At) > 2*v.snapshot.interval {
			return o
		}
	}
	return nil
}

// explainOutcomes lets what fires explain what it is the cause of, where both are about the same.
func explainOutcomes(causes, others []outcome, same func(cause, o *outcome) bool) {
	for i := range causes {
		cause := &causes[i]
		if cause.status != Firing || cause.note {
			continue
		}
		for k := range others {
			o := &others[k]
			switch {
			case !same(cause, o) || !cause.pathology.Inhibits(o.pathology):
			case o.status == Firing && o.inhibitedBy == "":
				o.inhibitedBy = cause.pathology.ID
			case o.status == Unknown:
				o.status = NotApplicable // a server that is down has no queue
			}
		}
	}
}

// judgedBy returns a pathology's condition without what needs a feature that the target does not use, and false
// where nothing is left or the pathology is not about such a target.
func (v view) judgedBy(p *catalog.Pathology) (catalog.Cond, bool) {
	t, oneRank := &v.snapshot.Targets[v.target], v.Now(indicator.Ranks).Or(1) < 2
	about := t.Serves()
	switch p.Scope() {
	case indicator.Gateway:
		about = t.isGateway()
	case indicator.GPU:
		about = about || t.isGPU()
	}
	if !about {
		return p.When, false
	}
	return p.When.Asked(func(s *indicator.Signal) bool { return t.Dialect.Unused(s) == "" && !(s.OfRanks && oneRank) })
}

// mayShareRequests reports whether two parts may share requests: two models do not, nor do two upstreams.
func (p part) mayShareRequests(other part) bool { return p.label != other.label || p == other }

func (o *outcome) judgeCondition(s *Snapshot, v view) {
	switch o.when.Holds(v) {
	case catalog.True:
		o.status = Firing
	case catalog.False:
		o.status = OK
		return
	default:
		return
	}
	_, o.evidence = v.eval(o.when)
	o.since = v.onsetOfCondition(o.pathology, o.when)
	if o.when.Certain(v) != catalog.True || o.pathology.Unspecific && v.maybeBurst() {
		over := o.when.Ended(v)
		o.status, o.ended = Pending, over && v.span().silence == 0 // nothing is over while nobody can see that
		o.likely = over || o.when.Likely(v) == catalog.True
	}
	grade := o.pathology.GradeOf(v)
	o.severity, o.note, o.wait = grade.Severity, grade.Note, grade.For
	held, known := 0, 0
	for _, c := range o.pathology.Supports {
		t, e := v.eval(c)
		o.evidence = append(o.evidence, e...)
		if t != catalog.Unknown {
			known++
		}
		if t == catalog.True {
			held++
		}
	}
	o.normal = v.normalBefore(o.since, o.pathology, o.evidence)
	o.confidence = confidenceOf(o.evidence, held, known, v.span().Source)
	if o.pathology.FollowsObjectives && v.objectivesHold() && o.severity > catalog.Info {
		o.severity--
	}
}

// confidenceOf says how sure a finding is: the further the evidence is beyond
// its thresholds, the more of the supporting evidence holds, and the better
// the thresholds are founded, the surer. It is a rough word in a number, not a
// probability.
func confidenceOf(evidence []catalog.Evidence, held, known int, source BaselineSource) float64 {
	c, margin, n := 0.6, 0.0, 0
	for _, e := range evidence {
		if e.Holds != catalog.True || !(e.Threshold > 0) || !(e.Value.V > 0) {
			continue
		}
		margin += min(1, math.Abs(math.Log2(e.Value.V/e.Threshold)))
		n++
	}
	if n > 0 {
		c += 0.2 * margin / float64(n)
	}
	if known > 0 {
		c += 0.1 * float64(held) / float64(known)
	} else {
		c += 0.05
	}
	if source != NoBaseline {
		c += 0.09
	}
	return math.Round(c*100) / 100
}

func (o *outcome) refineFinding(s *Snapshot, v view, j *judgement) {
	server := s.Targets[j.target]
	o.pass = &catalog.Pass{
		View: before{v, o.since, o.normal}, RuledOut: j.idsOf(OK), Suspected: j.idsOf(Pending), Unseen: j.idsOf(Unknown), Config: server.Config, Flags: server.Dialect.Flags,
		Summary: o.pathology.Title, Fixes: slices.Clone(o.pathology.Fixes),
		Part: o.part.name, Parts: v.readingsByPart, Replicas: v.readingsByReplica, Failure: server.Failure,
	}
	if o.pass.Config == nil {
		o.pass.Config = engine.Config{}
	}
	if o.pathology.Refine != nil {
		o.pathology.Refine(o.pass)
	}
	if after, ok := v.restartBefore(o.since); ok {
		o.pass.Summary += "; it began " + indicator.FormatNumber(after.Seconds(), indicator.Seconds) + " after a restart"
	}
	o.chain = v.chainOf(o)
	if o.part.label == indicator.PerModel && len(s.partsOf(j.target, o.part.label)) > 1 {
		o.pass.Summary = o.part.name + ": " + o.pass.Summary
	}
	fixes, later := catalog.For(server.Dialect.Flags, server.Version, o.pass.Fixes)
	o.pass.Fixes, o.pass.Reasons = fixes, append(o.pass.Reasons, later...)
	catalog.Rank(o.pass.Fixes)
}

// restartBefore says how long before an onset the server restarted, if that was seen and it had not warmed up since.
func (v view) restartBefore(o Onset) (before time.Duration, ok bool) {
	c := v.span().course
	if c == nil || c.born == 0 || o.AtLeast {
		return 0, false
	}
	last := c.pageUpTo(c.born - 1)
	before = o.At.Sub(c.at[c.born])
	return before, last >= 0 && c.restartedBetween(last, c.born) && before >= 0 && before.Seconds() < coldFor
}

// idsOf lists the pathologies of which a status was found.
func (j *judgement) idsOf(of Status) (out []string) {
	for i := range j.outcomes {
		if j.outcomes[i].status == of {
			out = append(out, j.outcomes[i].pathology.ID)
		}
	}
	return out
}

// mergeOutcomes makes one finding of a pathology's outcomes on all targets of a pool.
func (p *pool) mergeOutcomes(of *catalog.Pathology) Finding {
	f := Finding{Pathology: of, Model: p.model, Severity: of.Severity, Status: NotApplicable}
	if len(p.judged) == 0 && of.Scope() != indicator.Gateway {
		f.Status = Unknown
		for _, u := range p.unjudged {
			f.Targets = append(f.Targets, u.Target)
		}
	}
	all := p.outcomesOf(of)
	if len(all) == 0 {
		return f
	}
	worst := all[0]
	var more []string // more targets beside the first
	since := worst.since
	f.ended = worst.ended
	for _, o := range all {
		switch {
		case o.status != worst.status:
		case !slices.Contains(f.Targets, o.name()):
			f.Targets = append(f.Targets, o.name())
			f.impact += o.requestRate()
		case o.part.name != "" && o.name() == worst.name():
			more = append(more, o.part.name)
		}
		if o.status == worst.status {
			f.ended, f.likely = f.ended && o.ended, f.likely || o.likely
			if o.since.isBefore(since) {
				since = o.since
			}
		}
	}
	f.Status, f.Severity, f.Evidence, f.Confidence, f.part = worst.status, worst.severity, worst.evidence, worst.confidence, worst.part
	f.Note, f.Wait = worst.note, worst.wait
	if f.Evidence == nil {
		_, f.Evidence = worst.view.of(worst.part).eval(worst.when)
	}
	if f.Status >= Pending {
		f.Since, f.SinceAtLeast = since.At, since.AtLeast
	}
	f.Servers = p.countServers()
	if slices.ContainsFunc(f.Targets, p.isServer) { // a GPU exporter lends its readings to them
		f.Targets = slices.DeleteFunc(f.Targets, func(t string) bool { return !p.isServer(t) })
	}
	switch f.Status {
	case Firing:
		p.describeFinding(&f, worst, more)
	case OK:
		f.RuledOutBy = ruledOut(f.Evidence)
	}
	return f
}

// judgedOutcome is an outcome with the target on which it was found.
type judgedOutcome struct {
	*outcome
	*judgement
}

// outcomesOf lists a pathology's outcomes on the pool's targets, the worst first, whatever the order of the targets.
func (p *pool) outcomesOf(of *catalog.Pathology) (all []judgedOutcome) {
	for i := range p.judged {
		for k := range p.judged[i].outcomes {
			if o := &p.judged[i].outcomes[k]; o.pathology == of && o.status != NotApplicable {
				all = append(all, judgedOutcome{o, &p.judged[i]})
			}
		}
	}
	slices.SortFunc(all, func(a, b judgedOutcome) int {
		explained := func(o judgedOutcome) int { return min(1, len(o.inhibitedBy)) }
		return cmp.Or(
			cmp.Compare(rankOf(b.status), rankOf(a.status)), explained(a)-explained(b), cmp.Compare(b.severity, a.severity),
			cmp.Compare(b.confidence, a.confidence), cmp.Compare(b.requestRate(), a.requestRate()), cmp.Compare(a.name(), b.name()),
		)
	})
	return all
}

// describeFinding adds the texts and fixes of the worst outcome to a finding that fires. more names further parts of
// its target.
func (p *pool) describeFinding(f *Finding, worst judgedOutcome, more []string) {
	f.Summary, f.Reasons, f.Fixes, f.InhibitedBy = worst.pass.Summary, worst.pass.Reasons, worst.pass.Fixes, worst.inhibitedBy
	f.Chain = worst.chain
	if !p.hasOthers(f.Targets) {
		f.Fixes = slices.DeleteFunc(f.Fixes, func(x catalog.Fix) bool { return x.Others })
	}
	if n := len(f.Targets); n > 1 && slices.Contains(f.Targets, worst.name()) {
		f.Summary += fmt.Sprintf(" (on %s, one of %d)", worst.name(), n)
	}
	if len(more) > 0 {
		f.Summary += "; also on " + strings.Join(more, ", ")
	}
}

// rankOf orders outcomes for merging: a finding that fires anywhere wins over one that could not be checked
// somewhere.
func rankOf(s Status) int {
	return [...]int{NotApplicable: 0, OK: 1, Unknown: 2, Pending: 3, Firing: 4}[s]
}

// ruledOut returns the comparison that most clearly does not hold.
func ruledOut(evidence []catalog.Evidence) *catalog.Evidence {
	var best *catalog.Evidence
	bestMargin := -1.0
	for i := range evidence {
		e := &evidence[i]
		if e.Holds != catalog.False || math.IsNaN(e.Threshold) {
			continue
		}
		margin := 10.0 // a zero on the right side of a threshold is as clear as can be
		if e.Value.V > 0 && e.Threshold > 0 {
			margin = min(margin, math.Abs(math.Log2(e.Value.V/e.Threshold)))
		}
		if margin > bestMargin {
			best, bestMargin = e, margin
		}
	}
	return best
}

// rankFindings orders findings for reading: firing ones that no other explains, the worst first, then the rest. Between
// equals the catalogue's order decides: causes before symptoms.
func rankFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		leads := func(f *Finding) bool { return f.Status == Firing && f.InhibitedBy == "" && !f.Note }
		if leads(&a) && leads(&b) {
			return a.compare(&b)
		}
		return cmp.Or(rankOf(b.Status)-rankOf(a.Status), boolToInt(leads(&b))-boolToInt(leads(&a)))
	})
}

// compare puts first what hurts somebody: a server that never served anybody is dead,
// but a slow one beside it has users. Then the severity decides.
func (f *Finding) compare(other *Finding) int {
	hurts := func(f *Finding) int { return boolToInt(f.impact > 0 && f.Severity > catalog.Info) }
	info := func(f *Finding) int { return boolToInt(f.Severity > catalog.Info) }
	return cmp.Or(info(other)-info(f), hurts(other)-hurts(f), cmp.Compare(other.Severity, f.Severity))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// coldFor is how long after its start a server's numbers are taken with salt:
// graphs, caches and pools warm up with the first requests.
const coldFor = 300

// diagnosisNotes are remarks on the whole diagnosis.
func diagnosisNotes(s *Snapshot, judged []judgement, d *Diagnosis) []string {
	var out, cold []string
	youngest := math.Inf(1)
	for _, j := range judged {
		name := s.Targets[j.target].Name
		if age := j.view.Now(indicator.ServingAge); age.OK && age.V >= 0 && age.V < coldFor {
			cold, youngest = append(cold, name), min(youngest, age.V)
		}
	}
	for _, j := range judged {
		if j.view.Now(indicator.StaleGauges).Or(0) > 0 {
			out = append(out, fmt.Sprintf("%s shows %s whose clients have all left: an engine without work does not update its gauges",
				s.Targets[j.target].Name, catalog.Requests(j.view.Now(indicator.LastHeld).Or(0))))
		}
	}
	if len(cold) > 0 {
		out = append(out, fmt.Sprintf("%s started %s ago and may still be warming up", listTargets(cold), indicator.FormatNumber(youngest, indicator.Seconds)))
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		isExplained := func(by Finding) bool { return by.Status == Firing && by.explains(f) }
		if f.Status != Pending || d.Verdict.ID == NotCertain && f.Suspected() || slices.ContainsFunc(d.Findings, isExplained) {
			continue // the verdict says so, or what fires does
		}
		how := "is not certain yet"
		if f.ended {
			how = "seems to be over"
		}
		out = append(out, fmt.Sprintf("%s on %s since %s %s", f.Pathology.Name(), listTargets(f.Targets), f.Since.UTC().Format("15:04:05 UTC"), how))
	}
	return out
}

// findGaps lists what could not be checked, each pathology once.
func findGaps(fs []Finding) []Gap {
	var gaps []Gap
	for _, f := range fs {
		if f.Status != Unknown {
			continue
		}
		i := slices.IndexFunc(gaps, func(g Gap) bool { return g.ID == f.Pathology.ID })
		if i < 0 {
			i = len(gaps)
			gaps = append(gaps, Gap{ID: f.Pathology.ID})
		}
		gaps[i].addMissing(f.Evidence)
	}
	return gaps
}

// addMissing notes what the evidence of a finding lacks.
func (g *Gap) addMissing(evidence []catalog.Evidence) {
	for _, e := range evidence {
		if e.Holds != catalog.Unknown {
			continue
		}
		why := e.Value.Reason
		switch {
		case e.Value.OK && math.IsNaN(e.Threshold):
			why = e.Signal.Title + ": no baseline to compare with"
		case why == "":
			why = e.Signal.Title + ": no samples"
		case !strings.HasPrefix(why, "not exposed"):
			why = e.Signal.Title + ": " + why
		}
		if !slices.Contains(g.Missing, why) {
			g.Missing = append(g.Missing, why)
		}
		passes := e.Value.OK || strings.HasPrefix(e.Value.Reason, "too few") || strings.HasPrefix(e.Value.Reason, "needs ")
		if g.Hint == "" && !passes { // what a hint enables is there, and time alone is missing
			g.Hint = e.Signal.Hint
		}
	}
}

// reasonAgainstHealthy returns what speaks against "healthy" although nothing fires, or "": somebody waits and gets
// nothing; too few requests were served to tell what users feel; an objective is missed by too few requests to be sure; the median time between tokens exceeds a lifetime
// mean that may contain faults; or the first token is late and nobody knows whether it ever came sooner.
func (j *judgement) reasonAgainstHealthy() string {
	v := j.view
	if held := j.whoIsUnserved(); held != "" {
		return held + " on " + j.name()
	}
	for _, p := range threshold.Promises() {
		if broken, evidence := catalog.Breached(p.Signal, p.Threshold).Eval(v); broken == catalog.True {
			e := evidence[0]
			return fmt.Sprintf("%s is %s on %s, over the objective of %s (%s): %.0f requests are too few to be certain", p.Signal.Title,
				indicator.Format(e.Value, p.Signal.Unit), j.name(), indicator.FormatNumber(e.Threshold, p.Signal.Unit), e.Source, v.Now(indicator.FirstTokens).Or(0))
		}
	}
	if share := v.Now(indicator.AbandonedShare); share.V > catalog.AbandonedShare.Default && v.Now(indicator.Abandoned).V > catalog.SomeAbandoned.Default &&
		(!v.HasHistory() || v.MayHoldFault()) {
		return fmt.Sprintf("%s of the clients of %s leave before their answer is complete, and whether they always do is not known",
			indicator.Format(share, indicator.Ratio), j.name())
	}
	median := v.Normal(indicator.ITLP50)
	if v.span().Source == Lifetime && v.Normal(indicator.ITLMean).Or(0) > manyFaults*max(median.V, median.Bucket.High) &&
		catalog.Above(indicator.ITLP50, catalog.DecodeSlower).Likely(v) == catalog.True {
		return fmt.Sprintf("%s is %s on %s, and %s in the median since the server started: its mean, which holds earlier faults, tells no change", indicator.ITLP50.Title,
			indicator.Format(v.Now(indicator.ITLP50), indicator.Seconds), j.name(), indicator.Format(median, indicator.Seconds))
	}
	if why := j.reasonOfLateTokens(); why != "" {
		return why
	}
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if of := v.of(o.part); o.status == Unknown && o.severity >= catalog.Ticket && of.mayHold(o.when) && of.isFelt(o.when) {
			return o.pathology.Name() + " on " + j.name() + " cannot be ruled out: too few requests were served"
		}
	}
	return ""
}

// isFelt reports whether users feel what a condition compares.
func (v view) isFelt(when catalog.Cond) bool {
	_, evidence := when.Eval(v)
	return slices.ContainsFunc(evidence, func(e catalog.Evidence) bool { return e.Holds == catalog.True && e.Role == catalog.Symptom })
}

// mayHold evaluates a condition with every comparison that has too few observations taken for true.
func (v view) mayHold(c catalog.Cond) bool {
	switch {
	case c.Any != nil:
		return slices.ContainsFunc(c.Any, v.mayHold)
	case c.All != nil:
		return !slices.ContainsFunc(c.All, func(sub catalog.Cond) bool { return !v.mayHold(sub) })
	}
	holds := c.Holds(v)
	if holds == catalog.Unknown { // and the target exposes the signal
		return !v.Now(c.Signal).OK && c.Signal.Counted() && len(v.snapshot.Targets[v.target].Dialect.Missing(c.Signal)) == 0
	}
	return holds == catalog.True
}

// reasonOfLateTokens is reasonAgainstHealthy as far as it is about first tokens.
func (j *judgement) reasonOfLateTokens() string {
	v := j.view
	late, usual := v.Now(indicator.TTFTP95), v.Normal(indicator.TTFTP95)
	_, _, promised := v.Limit(catalog.TTFTObjective)
	surely := late.V
	if late.Bucket.High > 0 {
		surely = late.Bucket.Low
	}
	switch known, last := v.HasHistory() && usual.OK, v.span().lastWait; {
	case known && !late.OK && last > max(catalog.TTFTObjective.Default, farLater*usual.V):
		return fmt.Sprintf("the last requests on %s got a first token after %s, on average, normally %s", j.name(), indicator.FormatNumber(last, indicator.Seconds), indicator.Format(usual, indicator.Seconds))
	case promised || !late.OK || surely <= catalog.TTFTObjective.Default:
		return ""
	case known && surely > muchLater*usual.V && (surely > farLater*usual.V && !j.sawAnEnd() || v.Now(indicator.FirstTokens).Or(0) < fewRequests):
		return fmt.Sprintf("%s is %s on %s, normally %s", indicator.TTFTP95.Title, indicator.Format(late, indicator.Seconds), j.name(), indicator.Format(usual, indicator.Seconds))
	case known:
		return ""
	}
	return fmt.Sprintf("%s is %s on %s: set --slo or --use-case to judge whether that is too slow", indicator.TTFTP95.Title, indicator.Format(late, indicator.Seconds), j.name())
}

// sawAnEnd reports whether something that hurts is seen to be over: late first tokens of the window may be its.
func (j *judgement) sawAnEnd() bool {
	return slices.ContainsFunc(j.outcomes, func(o outcome) bool { return o.ended && o.status == Pending })
}

// endWhatNothingNames says of what users felt, and no cause explains, that it is over with what hurt them.
func (j *judgement) endWhatNothingNames() {
	over := j.sawAnEnd()
	for i := range j.outcomes {
		o := &j.outcomes[i]
		o.ended = o.ended || over && o.pathology.Unspecific && o.status == Pending
	}
}

// How long nobody need be served while somebody waits, and how many connections or first tokens that are owed speak
// against a server that gives nothing.
const (
	patience     = 5.0
	muchLater    = 3  // times the usual, of so few requests that no condition judges them
	farLater     = 10 // likewise for any number of requests: the late ones are too few for any condition
	manyFaults   = 2  // times the median of a life: its mean holds long gaps
	fewRequests  = 20
	someUnserved = 4.5
	someOwed     = 8
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
		return fmt.Sprintf("%s, and nobody got a first token for %s", catalog.Waiting(math.Ceil(v.Now(indicator.Waiting).Or(1))), seconds(age))
	case held > 0 && still.OK && still.V == 0:
		return fmt.Sprintf("the engine holds %s, and no token came in the last %s", catalog.Requests(held), seconds(shortestSpanAt(v.snapshot.interval).Seconds()))
	case v.Now(indicator.TransferHeld).Or(0) > someUnserved && v.Now(indicator.TransferWait).Or(0) > usual:
		return fmt.Sprintf("%s in KV transfer, for %s on average,", catalog.Are(v.Now(indicator.TransferHeld).V), seconds(v.Now(indicator.TransferWait).V))
	case v.Now(indicator.HeldOutside).Or(0) > someUnserved && v.Now(indicator.OutsideWait).Or(0) > usual:
		return catalog.Are(v.Now(indicator.HeldOutside).V) + " open, and in neither the queue nor the batch,"
	case outside > someUnserved && still.OK && still.V == 0:
		return fmt.Sprintf("%.0f connections are open, and the engine generates nothing", outside)
	case v.Now(indicator.FDTrend).Or(0)*v.span().Window.Length().Seconds() > someUnserved && still.OK && still.V == 0:
		return "more and more connections are open, and the engine generates nothing,"
	case v.Now(indicator.OwedFirstTokens).Or(0) > someOwed:
		return fmt.Sprintf("a data-parallel rank gave no first token where %.0f were due", v.Now(indicator.OwedFirstTokens).V)
	}
	return ""
}

// An API server without clients has so many open files at most, with one rank and for each further one: vLLM 0.11 to 0.32
// have 33 to 42, and 44 with two.
const (
	idleFiles        = 48
	idleFilesPerRank = 8
)

// maybeClients says why clients may be waiting for an engine that does nothing, or "". Without a history it relies on
// the open files of the API server alone.
func (j *judgement) maybeClients() string {
	v := j.view
	t := &v.snapshot.Targets[j.target]
	if !v.span().whole || len(t.Dialect.Missing(indicator.HeldOutside)) == 0 {
		return ""
	}
	files, known := v.Now(indicator.OpenFDs), "its API server does not say how many connections are open"
	switch {
	case files.OK && files.V <= idleFiles+idleFilesPerRank*(v.Now(indicator.Ranks).Or(1)-1):
		return ""
	case files.OK:
		known = fmt.Sprintf("%.0f files are open at its API server, of which one without clients has about 40", files.V)
	}
	return fmt.Sprintf("%s serves nobody, and whether clients wait in front of its engine is not known without a past: %s; ask it for one token to know", j.name(), known)
}

// unservedAtGateway is unserved of a gateway.
func (j *judgement) unservedAtGateway() string {
	v := j.view
	open, answered := v.Now(indicator.GatewayOpen).Or(0), v.Now(indicator.GatewayAnsweredLately)
	if !j.atGateway() || open <= someUnserved || !answered.OK || answered.V > 0 {
		return ""
	}
	return fmt.Sprintf("%s open at %s, and none was answered", catalog.Are(open), j.name())
}

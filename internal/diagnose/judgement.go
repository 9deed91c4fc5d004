package diagnose

import (
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// A judgement holds the outcome of each pathology on one target.
type judgement struct {
	target   int
	view     datedView
	outcomes []outcome
	doubt    string // reason against calling it healthy
}

// An outcome is one pathology on one target.
type outcome struct {
	pathology   *catalog.Pathology
	when        catalog.Cond // the pathology's condition, without alternatives that the target cannot tell
	part        part         // part of a gateway
	status      Status
	ended       bool // it is pending because the last scrapes say that it is over
	likely      bool // it is pending, and chance is an unlikely explanation
	severity    catalog.Severity
	note        bool                                  // shown without effect on the verdict
	wait        time.Duration                         // how long it must go on before people are notified
	evidence    []catalog.Evidence                    // of the comparisons that hold
	normal      map[*indicator.Signal]indicator.Value // normal values before the fault, see viewBefore
	confidence  float64
	inhibitedBy string
	pass        *catalog.Pass
	chain       []Step
	since       segments.Onset // the condition's onset
}

func judgeTarget(s *Snapshot, since *dates, target int, pathologies []*catalog.Pathology, set Settings) judgement {
	j := judgement{target: target, view: datedView{newView(s, target, part{}, set), since},
		outcomes: make([]outcome, 0, len(pathologies))}
	for _, p := range pathologies {
		when, judged := j.view.applicableCondition(p)
		if !judged {
			j.outcomes = append(j.outcomes, outcome{pathology: p, severity: p.Severity, status: NotApplicable})
			continue
		}
		for _, of := range s.partsOf(target, p.Per(), p.When) {
			o := outcome{pathology: p, when: when, part: of, severity: p.Severity}
			o.judgeCondition(s, j.view.of(of))
			j.outcomes = append(j.outcomes, o)
		}
	}
	// A pending cause fires if one of its symptoms, of ticket severity at least, is beyond doubt.
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if o.status == Pending && !o.ended && slices.ContainsFunc(j.outcomes, func(s outcome) bool {
			return s.status == Firing && s.severity >= catalog.Ticket && !s.pathology.Unspecific &&
				o.pathology.Inhibits(s.pathology) && o.part.mayShareRequests(s.part)
		}) {
			o.status = Firing
		}
	}
	j.endUnspecificSymptoms()
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if symptom := j.laterSymptom(o); symptom != nil {
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

// laterSymptom returns a firing symptom of a cause that does not fire by itself, if the condition that leads to the
// cause (Pathology.Leads) holds and began more than two scrape intervals before the symptom; else nil.
func (j *judgement) laterSymptom(cause *outcome) *outcome {
	v := j.view.of(cause.part)
	if cause.status != OK || cause.pathology.Leads.Holds(v) != catalog.True {
		return nil
	}
	began := v.readOnset(cause.pathology.Leads, v.span().Course)
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if o.status == Firing && !o.note && cause.pathology.Inhibits(o.pathology) && began.Evidence > 0 &&
			!began.AtLeast && o.since.At.Sub(began.At) > 2*v.snapshot.interval {
			return o
		}
	}
	return nil
}

// explainOutcomes marks the outcomes that a firing cause explains. same reports whether a cause and an outcome are
// about the same requests.
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

// applicableCondition returns a pathology's condition without the comparisons that need a feature the target does not
// use. It returns false if none is left, or if the pathology is about another kind of target.
func (v view) applicableCondition(p *catalog.Pathology) (catalog.Cond, bool) {
	t, oneRank := &v.snapshot.Targets[v.target], v.Now(indicator.Ranks).Or(1) < 2
	about := t.Serves()
	switch p.Scope() {
	case indicator.Gateway:
		about = t.IsGateway()
	case indicator.GPU:
		about = about || t.IsGPU()
	}
	if !about {
		return p.When, false
	}
	return p.When.Applicable(
		func(s *indicator.Signal) bool { return t.Dialect.Unused(s) == "" && !(s.OfRanks && oneRank) })
}

// mayShareRequests reports whether two parts may share requests: two models do not, nor do two upstreams.
func (p part) mayShareRequests(other part) bool { return p.label != other.label || p == other }

func (o *outcome) judgeCondition(s *Snapshot, v datedView) {
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
	if o.when.Certain(v) != catalog.True || o.pathology.Unspecific && v.mayBeBurst() {
		over := o.when.Ended(v)
		o.status, o.ended = Pending, over && v.span().Silence == 0 // while scrapes fail, nobody can see an end
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
	o.normal = v.replaceNormals(o.since, o.pathology, o.evidence)
	o.confidence = confidenceOf(o.evidence, held, known, v.span().Source)
	if o.pathology.FollowsObjectives && v.objectivesHold() && o.severity > catalog.Info {
		o.severity--
	}
}

// confidenceOf returns how sure a finding is: the further the evidence is beyond its thresholds, the more of the
// supporting evidence holds, and the better the thresholds are founded, the surer. It is a rough scale, not a
// probability.
func confidenceOf(evidence []catalog.Evidence, held, known int, source segments.BaselineSource) float64 {
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
	if source != segments.NoBaseline {
		c += 0.09
	}
	return math.Round(c*100) / 100
}

func (o *outcome) refineFinding(s *Snapshot, v datedView, j *judgement) {
	server := s.Targets[j.target]
	o.pass = &catalog.Pass{
		View: viewBefore{v.view, o.since, o.normal}, RuledOut: j.idsOf(OK), Suspected: j.idsOf(Pending),
		Unseen: j.idsOf(Unknown), Config: server.Config, Flags: server.Dialect.Flags,
		Summary: o.pathology.Title, Fixes: slices.Clone(o.pathology.Fixes),
		Part: o.part.name, Parts: v.readingsByPart, Replicas: v.readingsByReplica, Failure: server.Failure,
	}
	if o.pass.Config == nil {
		o.pass.Config = engine.Config{}
	}
	if o.pathology.Refine != nil {
		o.pathology.Refine(o.pass)
	}
	if after, seen := v.span().Course.RestartBefore(o.since); seen && after.Seconds() < coldFor {
		o.pass.Summary += "; it began " + indicator.FormatNumber(after.Seconds(), indicator.Seconds) +
			" after a restart"
	}
	o.chain = v.chainOf(o)
	if o.part.label == indicator.PerModel && len(s.partsOf(j.target, o.part.label, o.pathology.When)) > 1 {
		o.pass.Summary = o.part.name + ": " + o.pass.Summary
	}
	fixes, later := catalog.FixesFor(server.Dialect.Flags, server.Version, o.pass.Fixes)
	o.pass.Fixes, o.pass.Reasons = fixes, append(o.pass.Reasons, later...)
	catalog.Rank(o.pass.Fixes)
}

// idsOf lists the pathologies whose outcome has a status.
func (j *judgement) idsOf(of Status) (out []string) {
	for i := range j.outcomes {
		if j.outcomes[i].status == of {
			out = append(out, j.outcomes[i].pathology.ID)
		}
	}
	return out
}

// coldFor is how many seconds after its start a server's readings are unusual: graphs, caches and pools warm up with
// the first requests.
const coldFor = 300

func (j *judgement) atGateway() bool { return j.view.snapshot.Targets[j.target].IsGateway() }

// Ids of the pathologies that are about the life of a target.
const (
	targetDown  = "target-down"
	metricsSlow = "metrics-slow"
)

// stateOf returns the target's state, from its scrapes and its findings.
func (j *judgement) stateOf() identity.Life {
	for _, o := range j.outcomes {
		switch {
		case o.status != Firing:
		case o.pathology.ID == targetDown && o.note:
			return identity.LifeDrained
		case o.pathology.ID == targetDown:
			return identity.LifeLost
		case o.pathology.ID == metricsSlow:
			return identity.LifeSlow
		}
	}
	if v := j.view.Now(indicator.Answered); v.OK && v.V == 0 {
		return identity.LifeStarting
	}
	return identity.LifeServing
}

package incident

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/report"
)

// When incidents end.
const (
	// QuietToEnd is how long an incident must be judged and not found, in two diagnoses or more, until it ends.
	QuietToEnd = 2 * time.Minute
	// ReopenWithin is how long after its end an incident continues if its fault returns.
	ReopenWithin = 10 * time.Minute
	// UnjudgedToEnd is how long an incident stays open while it cannot be judged.
	UnjudgedToEnd = 24 * time.Hour
)

// When an incident gets another name, and when two findings are one fault.
const (
	// RuledOutToRename is how long the naming cause must be ruled out, at most, until another cause takes the name.
	// After that time no sample of the naming cause is left in the window.
	RuledOutToRename = time.Minute
	// ruledOutAtLeast is how many diagnoses must rule the naming cause out, even if it was found only briefly.
	ruledOutAtLeast = 2
	// maxStep bounds the time that one diagnosis adds to a duration: in a longer gap nobody watched.
	maxStep = time.Minute
	// sameOnset is how far apart two faults of one server may begin and still be one incident.
	sameOnset = ReopenWithin
	// onsetTolerance is how much later than its symptom a cause's onset may be read. A finding that begins later
	// explains nothing, such as the restart of a server that hung.
	onsetTolerance = 30 * time.Second
	// minAbsence is how long a pathology must be absent until its return is a fault of its own. It is the default time
	// after which an alert resolves.
	minAbsence = time.Minute
	// confirmAfter is how many scrapes later an onset is final, as in a diagnosis' memory, if it is read again then.
	confirmAfter = 2
)

// OverTurn is the ID of the last turn of an incident that ends while another fault goes on.
const OverTurn = "over"

// Bounds of one incident's record.
const (
	maxTurns   = 100
	maxTargets = 200
)

// Kind says how a diagnosis changed an incident.
type Kind uint8

// Kinds of changes of incidents.
const (
	Began    Kind = iota + 1
	Changed       // another verdict, or a worse one
	Ended         // it is over
	Reopened      // it has come back soon after it was over
	Kept          // no change, but the diagnosis shows more than the stored one
)

func (k Kind) String() string {
	return [...]string{"", "began", "changed", "ended", "reopened", "kept"}[k]
}

// An Event is a change of an incident. The record belongs to the Tracker: copy it to keep it.
type Event struct {
	Kind          Kind
	Record        *Record
	KeepDiagnosis bool // whether this diagnosis is the best evidence so far
}

// A Tracker turns consecutive diagnoses into incidents. It is not safe for concurrent use.
type Tracker struct {
	catalogue []*catalog.Pathology
	idTaken   func(id string) bool

	records []*Record // open incidents, and those that ended less than ReopenWithin ago
	lastAt  time.Time // of the last diagnosis; zero before the first
}

// NewTracker returns a tracker that continues the open and recent incidents among the records. The catalogue tells
// causes from symptoms. idTaken, which may be nil, reports used IDs.
func NewTracker(catalogue []*catalog.Pathology, records []*Record, idTaken func(id string) bool) *Tracker {
	t := &Tracker{catalogue: catalogue, idTaken: idTaken, records: slices.Clone(records)}
	slices.SortStableFunc(t.records, func(a, b *Record) int { return a.Began.Compare(b.Began) })
	for _, r := range t.records {
		r.State.nameFoundFor = RuledOutToRename // for how long is not stored
	}
	return t
}

// Observe takes the next diagnosis and returns the incidents that it began, changed and ended.
func (t *Tracker) Observe(diagnosis *diagnose.Diagnosis) []Event {
	d := indexDiagnosis(diagnosis)
	step := time.Duration(0)
	if !t.lastAt.IsZero() {
		step = max(0, min(d.at.Sub(t.lastAt), maxStep)) // a clock may step back
	}
	t.records = slices.DeleteFunc(t.records, func(r *Record) bool { return r.isPast(d.at) })
	found, events := t.assignSigns(d)
	for _, r := range t.records {
		switch signs := found[r]; {
		case len(signs) > 0:
			began := slices.ContainsFunc(events, func(e Event) bool { return e.Record == r })
			if e, ok := t.continueFound(r, signs, d, step); ok && !began {
				events = append(events, e)
			}
		case r.Open():
			if e, ok := t.continueUnseen(r, d, step); ok {
				events = append(events, e)
			}
		}
	}
	for _, r := range t.records {
		r.setPhase(d.at)
		if r.Open() {
			r.watchServers(d, step)
		}
	}
	t.lastAt = d.at
	return events
}

// assignSigns assigns each sign to its incident and begins an incident for a sign that has none. The signs of an
// incident are ordered, the worst first. It ends incidents whose end nobody observed.
func (t *Tracker) assignSigns(d *indexedDiagnosis) (found map[*Record][]*sign, events []Event) {
	found = map[*Record][]*sign{}
	for i := range d.signs {
		s := &d.signs[i]
		if t.isReaction(d, s.Finding) {
			continue
		}
		r, over := t.incidentOf(s, d.at)
		for _, o := range over {
			if found[o] == nil {
				events = append(events, t.endUnseen(o))
				t.records = slices.DeleteFunc(t.records, func(r *Record) bool { return r == o })
			}
		}
		if r == nil {
			r = t.beginIncident(s, d.at)
			events = append(events, Event{Kind: Began, Record: r, KeepDiagnosis: true})
		}
		found[r] = append(found[r], s)
	}
	return found, events
}

// engineRestart is the ID of the finding of a restarted server.
const engineRestart = "engine-restart"

// isReaction reports whether a finding is the restart of an incident's server. It is an event of that incident.
func (t *Tracker) isReaction(d *indexedDiagnosis, f *diagnose.Finding) bool {
	instances := d.instancesOf(f.Targets)
	return f.Pathology.ID == engineRestart && slices.ContainsFunc(t.records, func(r *Record) bool {
		return r.Pathology != engineRestart && !r.isPast(d.at) && r.Began.Before(f.Since) &&
			r.samePool(d.poolOf(f.Model, f.Targets), instances) && overlap(r.State.Instances, instances)
	})
}

// isPast reports whether an incident ended too long ago to continue.
func (r *Record) isPast(at time.Time) bool { return !r.Open() && at.Sub(*r.Ended) >= ReopenWithin }

// incidentOf returns the incident that a sign continues, or nil if the sign begins one. Open incidents come before
// ended ones, and a closer match before others; of equals, the latest wins. over lists matching open incidents that
// must have ended unobserved: the sign began long after they were last seen.
func (t *Tracker) incidentOf(s *sign, at time.Time) (best *Record, over []*Record) {
	bestRank := 0
	for _, r := range t.records {
		if r.isPast(at) || !r.samePool(s.pool, s.instances) {
			continue
		}
		c := t.closenessOf(r, s)
		if c == unrelated {
			continue
		}
		seen := r.State.LastSeen
		if r.Open() && !s.SinceAtLeast && at.Sub(seen) > ReopenWithin && s.since.Sub(seen) > ReopenWithin {
			over = append(over, r)
			continue
		}
		otherFault := c > samePathology
		quiet := cmp.Or(r.Ended, r.QuietSince)
		if otherFault && quiet != nil && !s.SinceAtLeast && s.since.After(*quiet) && at.Sub(seen) >= minAbsence {
			continue // it began after the incident was over
		}
		rank := int(c)
		if !r.Open() {
			rank += 10
		}
		if best == nil || rank < bestRank || rank == bestRank && r.Began.After(best.Began) {
			best, bestRank = r, rank
		}
	}
	return best, over
}

// closeness says how closely a sign belongs to an incident of its pool.
type closeness int

// The closest is the least, apart from unrelated.
const (
	unrelated         closeness = iota
	sameFault                   // the same pathology on the same server
	samePathology               // the same pathology on another server
	causeOrSymptom              // a cause or a symptom, on the same server or with about the same onset
	otherNameAfterEnd           // another fault on the same server, after the incident is quiet
	sameServerAndTime           // another fault on the same server, with about the same onset
)

// closenessOf compares a sign with an incident.
func (t *Tracker) closenessOf(r *Record, s *sign) closeness {
	known := slices.Contains(r.State.Members, s.Pathology.ID)
	sameServer := overlap(r.State.Instances, s.instances)
	sameTime := s.since.Sub(r.Began).Abs() <= sameOnset
	related := func(id string) bool { return t.related(id, s.Pathology) }
	switch {
	case known && sameServer:
		return sameFault
	case known:
		return samePathology
	case (sameServer || sameTime) && slices.ContainsFunc(r.State.Members, related):
		return causeOrSymptom
	case sameServer && (!r.Open() || r.QuietSince != nil):
		return otherNameAfterEnd // such as another finding on a server that is gone
	case sameServer && sameTime:
		return sameServerAndTime
	}
	return unrelated
}

// related reports whether one pathology is a cause of the other.
func (t *Tracker) related(id string, p *catalog.Pathology) bool {
	other := t.pathology(id)
	return other != nil && (other.Inhibits(p) || p.Inhibits(other))
}

// pathology returns the pathology with an ID, or nil.
func (t *Tracker) pathology(id string) *catalog.Pathology {
	i := slices.IndexFunc(t.catalogue, func(p *catalog.Pathology) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return t.catalogue[i]
}

// beginIncident begins an incident with its first sign.
func (t *Tracker) beginIncident(s *sign, at time.Time) *Record {
	r := &Record{Summary: view.Summary{
		ID: t.newID(s), Model: s.model, Namespace: s.namespace, Cluster: s.cluster, Began: s.since,
		BeganAtLeast: s.SinceAtLeast, Notes: []view.Note{},
	}}
	r.State = State{Members: []string{s.Pathology.ID}, Instances: s.instances, LastSeen: at, KeptAt: at}
	r.addVerdict(s, at)
	t.updateName(r, s)
	r.takeFinding(s, at, 0)
	t.records = append(t.records, r)
	return r
}

// newID makes an unused ID from the onset and the pathology of an incident's first sign.
func (t *Tracker) newID(s *sign) string {
	base := s.since.UTC().Format("2006-01-02-1504-") + s.Pathology.ID
	id := base
	for n := 2; ; n++ {
		if !slices.ContainsFunc(t.records, func(r *Record) bool { return r.ID == id }) &&
			(t.idTaken == nil || !t.idTaken(id)) {
			return id
		}
		id = fmt.Sprintf("%s-%d", base, n)
	}
}

// addVerdict adds a sign to the evolution as the verdict.
func (r *Record) addVerdict(s *sign, at time.Time) {
	r.addTurn(view.Turn{At: at, ID: s.Pathology.ID, Severity: s.Severity.String(), Summary: s.Summary,
		Confidence: &s.Confidence})
}

// addTurn adds a turn to the evolution, in order of time. If there are too many, turns in the middle are dropped,
// because people ask for the beginning and the end.
func (r *Record) addTurn(turn view.Turn) {
	if n := len(r.Evolution); n > 0 && turn.At.Before(r.Evolution[n-1].At) {
		turn.At = r.Evolution[n-1].At
	}
	r.Evolution = append(r.Evolution, turn)
	if len(r.Evolution) > maxTurns {
		r.Evolution = slices.Delete(r.Evolution, maxTurns/2, maxTurns/2+1)
		r.Omitted++
	}
}

// updateName names the incident after the sign if the sign is a cause of the present name, or is worse and not its
// symptom. If evidence refuted the present name, the leading sign replaces it. It reports whether the incident is named
// after the sign for the first time, or has become worse with it.
func (t *Tracker) updateName(r *Record, s *sign) bool {
	worst := catalog.Info
	if r.Severity != "" {
		worst, _ = catalog.ParseSeverity(r.Severity) // written by updateName: always valid
	}
	present := t.pathology(r.Pathology)
	symptom := present != nil && present.Inhibits(s.Pathology)
	switch {
	case r.Pathology == "": // it begins
	case r.Pathology == s.Pathology.ID:
		if s.Severity <= worst {
			return false
		}
	case s.Severity < worst:
		return false
	case r.State.nameRefuted() && !s.since.After(r.SinceOf(r.Pathology).Add(RuledOutToRename)):
		// The sign was there from the beginning.
	case s.Severity > worst && !symptom:
	case present != nil && s.Pathology.Inhibits(present) && !s.since.After(r.SinceOf(r.Pathology).Add(onsetTolerance)):
	default:
		r.Severity = max(worst, s.Severity).String()
		return false
	}
	if r.Pathology != s.Pathology.ID {
		r.State.nameFoundFor, r.State.nameRuledOutFor, r.State.nameRuledOutTimes = 0, 0, 0
		r.State.NameOver = false
	}
	r.Pathology, r.Severity = s.Pathology.ID, max(worst, s.Severity).String()
	return true
}

// nameRefuted reports whether the naming cause was ruled out for as long as it had been found, or for
// RuledOutToRename, while the incident went on.
func (s *State) nameRefuted() bool {
	return s.nameRuledOutTimes >= ruledOutAtLeast && s.nameRuledOutFor >= min(s.nameFoundFor, RuledOutToRename)
}

// weighName adds a diagnosis to the evidence for or against the naming cause: found again, ruled out, or neither.
func (r *Record) weighName(d *indexedDiagnosis, signs []*sign, step time.Duration) {
	switch {
	case slices.ContainsFunc(signs, r.isNaming):
		r.State.nameFoundFor += step
		r.State.nameRuledOutFor, r.State.nameRuledOutTimes, r.State.NameOver = 0, 0, false
	case (!r.Open() || r.QuietSince != nil) && d.at.Sub(r.State.MemberSeen[r.Pathology]) >= minAbsence:
		r.State.NameOver = true
	case d.rulesOut(r):
		r.State.nameRuledOutFor += step
		r.State.nameRuledOutTimes++
	}
}

// isNaming reports whether the incident is named after a sign's pathology.
func (r *Record) isNaming(s *sign) bool { return s.Pathology.ID == r.Pathology }

// continueFound continues an incident that has signs, the worst first. ok is false if nothing is to be reported.
func (t *Tracker) continueFound(r *Record, signs []*sign, d *indexedDiagnosis, step time.Duration) (e Event, ok bool) {
	e = Event{Kind: Changed, Record: r}
	lead := signs[0]
	reopens, quietSince, known := !r.Open(), r.QuietSince, len(r.State.Members)
	instances, lastSeen := r.State.Instances, r.State.LastSeen
	before := r.presentSeverity()
	r.weighName(d, signs, step) // before it is not quiet any more
	r.Ended, r.QuietSince, r.State.quietFor, r.State.LastSeen, r.State.Instances = nil, nil, 0, d.at, nil
	recurs := r.addSigns(signs, instances, lastSeen, d)
	r.State.noteSeen(d, signs)
	isNew := slices.Contains(r.State.Members[known:], lead.Pathology.ID)
	e.KeepDiagnosis = t.updateName(r, lead)
	if r.State.PresentSeverity = r.Severity; !slices.ContainsFunc(signs, r.isNaming) {
		name := cmp.Or(diagnose.Names(t.catalogue)[r.Pathology], r.Pathology)
		r.Summary.Summary = name + ", and then: " + lead.Summary
		present := max(before, lead.Severity)
		if r.State.NameOver || r.State.nameRuledOutFor >= RuledOutToRename {
			present = lead.Severity // the incident is no worse than its present signs
		}
		r.State.PresentSeverity = present.String()
	}
	for _, s := range signs {
		if r.isNaming(s) {
			r.takeFinding(s, d.at, step)
		}
	}
	if recurs && quietSince != nil {
		r.addTurn(view.Turn{At: *quietSince, ID: OverTurn, Summary: "It was over for " +
			indicator.FormatNumber(d.at.Sub(*quietSince).Seconds(), indicator.Seconds)})
	}
	ok = true
	switch {
	case reopens:
		e.Kind = Reopened
		r.addVerdict(lead, d.at)
	case recurs, isNew, r.presentSeverity() != before:
		r.addVerdict(lead, d.at)
	default:
		e.Kind = Kept
		e.KeepDiagnosis = e.KeepDiagnosis || r.showsMore(lead, d.at)
		ok = e.KeepDiagnosis
	}
	if e.KeepDiagnosis {
		r.State.KeptAt = d.at
	}
	return e, ok
}

// addSigns adds the servers, pathologies and onsets of signs. instances are the servers on which the incident was
// found last, at the time lastSeen. It reports whether the leading sign recurs: whether it ended and began again.
func (r *Record) addSigns(signs []*sign, instances []string, lastSeen time.Time, d *indexedDiagnosis) (recurs bool) {
	for i, s := range signs {
		if r.Model == "" && s.model != "" {
			r.Cluster, r.Namespace, r.Model = s.cluster, s.namespace, s.model
		}
		// In records of earlier releases, lastSeen stands for the time when the pathology was found last.
		seen := cmp.Or(r.State.MemberSeen[s.Pathology.ID], lastSeen)
		_, known := r.Since[s.Pathology.ID]
		later := known && s.since.After(seen)
		again := later && !s.SinceAtLeast && d.at.Sub(seen) >= minAbsence
		// A finding on a new server began when it began there; a finding that returned began when it returned.
		r.takeOnset(s, again || later && !overlap(instances, s.instances), d)
		recurs = recurs || again && i == 0
		r.State.Members = appendNew(r.State.Members, []string{s.Pathology.ID}, maxTurns)
		r.State.Instances = appendNew(r.State.Instances, s.instances, maxTargets)
		r.Targets = appendNew(r.Targets, s.Targets, maxTargets)
	}
	return recurs
}

// takeOnset takes the onset of a sign if it is the first, if the fault began anew, or if it is earlier than an onset
// that is not final. A final onset stays, even if a restarted monitor reads another one.
func (r *Record) takeOnset(s *sign, anew bool, d *indexedDiagnosis) {
	id := s.Pathology.ID
	since, known := r.Since[id]
	read, provisional := r.State.OnsetRead[id]
	switch {
	case !known || anew || provisional && s.since.Before(since):
		setTime(&r.Since, id, s.since)
		setTime(&r.State.OnsetRead, id, d.at)
	case provisional && s.since.Equal(since) && d.at.Sub(read) >= confirmAfter*d.Interval:
		delete(r.State.OnsetRead, id)
	}
	if since = r.Since[id]; id == r.Pathology && since.Before(r.Began) {
		r.Began, r.BeganAtLeast = since, s.SinceAtLeast
	}
}

// setTime sets an entry of a map that may be nil.
func setTime(m *map[string]time.Time, key string, at time.Time) {
	if *m == nil {
		*m = map[string]time.Time{}
	}
	(*m)[key] = at
}

// takeFinding takes summary, title, story, evidence and advice from the finding that names the incident.
func (r *Record) takeFinding(s *sign, at time.Time, step time.Duration) {
	r.Affected, r.Servers, r.Summary.Summary, r.State.Confidence = s.Targets, s.Servers, s.Summary, s.Confidence
	r.decideTitle(s.Finding, at)
	naming := *s.Finding
	naming.Chain = r.decidedChain(naming.Chain)
	r.State.naming = &naming
	if story := naming.Story(); story != "" {
		r.Story = story
	}
	r.Kept = view.Kept{
		At: at, Runbook: docs.PublishedRunbooks.PageURL(r.Pathology),
		Reasons: s.Reasons, Evidence: report.EvidenceRows(s.Evidence, false),
	}
	r.adviseOn(s.Finding, at, step)
}

// noteSeen notes when each member was found last: as a sign, or inhibited by another finding.
func (s *State) noteSeen(d *indexedDiagnosis, signs []*sign) {
	for _, sign := range signs {
		setTime(&s.MemberSeen, sign.Pathology.ID, d.at)
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Status == diagnose.Firing && f.InhibitedBy != "" && slices.Contains(s.Members, f.Pathology.ID) &&
			overlap(s.Instances, d.instancesOf(f.Targets)) {
			setTime(&s.MemberSeen, f.Pathology.ID, d.at)
		}
	}
}

// keepAgainAt are the ages of an incident at which its diagnosis is kept again: it shows more, and can have the
// prediction that an early one lacks.
var keepAgainAt = [...]time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// showsMore reports whether a diagnosis shows more of the incident than the kept one.
func (r *Record) showsMore(lead *sign, at time.Time) bool {
	found := r.Evolution[0].At
	return r.isNaming(lead) && lead.Severity.String() == r.Severity &&
		slices.ContainsFunc(keepAgainAt[:], func(age time.Duration) bool {
			return r.State.KeptAt.Sub(found) < age && at.Sub(found) >= age
		})
}

// continueUnseen continues an incident without signs: it becomes quiet, and ends after QuietToEnd. Time in which it
// could not be judged does not count. ok is false if nothing is to be reported.
func (t *Tracker) continueUnseen(r *Record, d *indexedDiagnosis, step time.Duration) (e Event, ok bool) {
	verdict := d.verdictWithout(r)
	switch {
	case verdict == nil && d.at.Sub(r.State.LastSeen) > UnjudgedToEnd:
		return t.endUnseen(r), true
	case verdict == nil:
		return Event{}, false
	case r.QuietSince == nil:
		r.QuietSince, r.State.quietFor = new(r.notBeforeBegan(d.at)), 0
		// Unless servers were replaced, it was on all of its targets, not only on the last one to recover.
		if len(r.Targets) <= r.Servers {
			r.Affected = r.Targets
		}
		return Event{}, false
	}
	if r.State.quietFor += step; r.State.quietFor < QuietToEnd {
		return Event{}, false
	}
	r.Ended, r.QuietSince = r.QuietSince, nil
	turn := view.Turn{At: *r.Ended, ID: verdict.ID, Summary: verdict.Summary, Confidence: new(verdict.Confidence)}
	if verdict.Status == diagnose.Firing { // another fault goes on
		turn.ID, turn.Summary = OverTurn, "It is over, and "+verdict.ID+" is found"
	}
	r.addTurn(turn)
	return Event{Kind: Ended, Record: r}, true
}

// endUnseen ends an incident whose end was not observed. The end is when it was seen last.
func (t *Tracker) endUnseen(r *Record) Event {
	r.Ended, r.QuietSince = new(r.notBeforeBegan(r.State.LastSeen)), nil
	r.addTurn(view.Turn{At: *r.Ended, ID: diagnose.InsufficientData,
		Summary: "Its end was not observed: no data to judge"})
	return Event{Kind: Ended, Record: r}
}

// presentSeverity returns the severity of the present findings, which may be lower than Severity.
func (r *Record) presentSeverity() catalog.Severity {
	s, _ := catalog.ParseSeverity(cmp.Or(r.State.PresentSeverity, r.Severity)) // written by the Tracker: always valid
	return s
}

// setPhase sets the incident's phase and, if it is quiet, the time at which it closes.
func (r *Record) setPhase(at time.Time) {
	r.ClosesAt = nil
	switch {
	case !r.Open():
		r.Phase = view.Closed
	case r.QuietSince != nil:
		closes := at.Add(QuietToEnd - r.State.quietFor)
		r.Phase, r.ClosesAt = view.Quiet, &closes
	case r.presentSeverity() == catalog.Page:
		r.Phase = view.Failing
	default:
		r.Phase = view.Degraded
	}
}

// notBeforeBegan returns the later one of a time and the incident's beginning.
func (r *Record) notBeforeBegan(at time.Time) time.Time { return r.Began.Add(max(0, at.Sub(r.Began))) }

// appendNew appends the items that a list lacks, up to a bound.
func appendNew(list, more []string, most int) []string {
	for _, s := range more {
		if len(list) < most && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// Latest orders records for a list: the latest first.
func Latest(a, b *Record) int { return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID)) }

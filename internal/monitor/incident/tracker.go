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

// Durations. An incident ends when nothing of it was found for Settled, in two diagnoses or more, and continues if it
// returns within Rejoin. An incident that could not be judged for Lost is given up.
const (
	Settled = 2 * time.Minute
	Rejoin  = 10 * time.Minute
	Lost    = 24 * time.Hour
	// Refuted is for how long the cause that an incident is called by is ruled out, at most,
	// before another one that is found takes its name: then nothing of it is in the window.
	Refuted = time.Minute

	// againstAtLeast is how many diagnoses it takes, however short they found the cause for.
	againstAtLeast = 2
	// watched is the longest gap between two diagnoses that counts as watched.
	watched = time.Minute
	// together is how far apart two faults of a server begin that are one.
	together = Rejoin
	// behind is how much later than its symptom a cause's onset may be read. A finding that begins later explains
	// nothing, such as the restart of a server that hung.
	behind = 30 * time.Second
	// apart is for how long a pathology is not found, at the least, when it comes back as a fault of its own: its alert
	// has ended, where nobody set another time for that.
	apart = time.Minute
)

// Over is the last turn of an incident that ends while another fault goes on.
const Over = "over"

// Bounds of one incident's record.
const (
	maxTurns   = 100
	maxTargets = 200
)

// Kind says what became of an incident.
type Kind uint8

// Kinds of changes of incidents.
const (
	Began    Kind = iota + 1
	Changed       // the verdict is another one, or worse
	Ended         // it is over
	Reopened      // it has come back soon after it was over
	Kept          // nothing but that its diagnosis is to be kept again
)

func (k Kind) String() string {
	return [...]string{"", "began", "changed", "ended", "reopened", "kept"}[k]
}

// An Event is something that became of an incident. The record is the Tracker's: copy it
// to keep it.
type Event struct {
	Kind   Kind
	Record *Record
	// Best says that this diagnosis is to be kept.
	Best bool
}

// A Tracker makes incidents of diagnoses that follow each other. It is not safe for
// concurrent use.
type Tracker struct {
	catalogue []*catalog.Pathology
	taken     func(id string) bool

	records []*Record // open incidents, and those that ended less than Rejoin ago
	seen    time.Time // of the last diagnosis; zero before
}

// NewTracker returns a tracker that continues open and recent incidents among the records. The catalogue tells causes
// from symptoms. taken, which may be nil, reports used IDs.
func NewTracker(catalogue []*catalog.Pathology, records []*Record, taken func(id string) bool) *Tracker {
	t := &Tracker{catalogue: catalogue, taken: taken, records: slices.Clone(records)}
	slices.SortStableFunc(t.records, func(a, b *Record) int { return a.Began.Compare(b.Began) })
	return t
}

// Observe takes the next diagnosis and returns what it made begin, change and end.
func (t *Tracker) Observe(d *diagnose.Diagnosis) []Event {
	v := newLook(d)
	step := time.Duration(0)
	if !t.seen.IsZero() {
		step = max(0, min(v.at.Sub(t.seen), watched)) // a clock that steps is no time that passes
	}
	t.records = slices.DeleteFunc(t.records, func(r *Record) bool { return r.past(v.at) })

	var events []Event
	found := map[*Record][]*sign{}
	for i := range v.signs {
		s := &v.signs[i]
		if t.follows(v, s.Finding) {
			continue
		}
		r, over := t.find(s, v.at)
		for _, o := range over {
			if found[o] == nil {
				events = append(events, t.endUnseen(o))
				t.records = slices.DeleteFunc(t.records, func(r *Record) bool { return r == o })
			}
		}
		if r == nil {
			r = t.begin(s, v.at)
			events = append(events, Event{Kind: Began, Record: r, Best: true})
		}
		found[r] = append(found[r], s)
	}
	for _, r := range t.records {
		switch signs := found[r]; {
		case len(signs) > 0:
			began := slices.ContainsFunc(events, func(o Event) bool { return o.Record == r })
			if e, ok := t.fires(r, signs, v, step); ok && !began {
				events = append(events, e)
			}
		case r.Open():
			if e, ok := t.continueUnseen(r, v, step); ok {
				events = append(events, e)
			}
		}
	}
	for _, r := range t.records {
		r.stands()
		if r.Open() {
			r.watch(v, step)
		}
	}
	t.seen = v.at
	return events
}

// engineRestart is the finding of a restarted server.
const engineRestart = "engine-restart"

// follows reports whether a finding is a reaction to an incident: a restart of its servers, which is an event of the
// incident.
func (t *Tracker) follows(v *indexedDiagnosis, f *diagnose.Finding) bool {
	at := v.instancesOf(f.Targets)
	return f.Pathology.ID == engineRestart && slices.ContainsFunc(t.records, func(r *Record) bool {
		return r.Pathology != engineRestart && !r.past(v.at) && r.Began.Before(f.Since) &&
			r.samePool(v.poolOf(f.Model, f.Targets), at) && share(r.State.Instances, at)
	})
}

// past reports whether an incident has been over for too long to go on.
func (r *Record) past(at time.Time) bool { return !r.Open() && at.Sub(*r.Ended) >= Rejoin }

// find returns the incident that a sign belongs to, nil where it is a new one, and those
// that it would belong to had they not surely ended while nobody could see.
func (t *Tracker) find(s *sign, at time.Time) (best *Record, ended []*Record) {
	bestRank := 0
	for _, r := range t.records {
		if r.past(at) || !r.samePool(s.pool, s.instances) {
			continue
		}
		rank := t.rank(r, s)
		if rank == 0 {
			continue
		}
		if seen := r.State.LastSeen; r.Open() && !s.SinceAtLeast && at.Sub(seen) > Rejoin &&
			s.since.Sub(seen) > Rejoin {
			ended = append(ended, r)
			continue
		}
		over := cmp.Or(r.Ended, r.QuietSince)
		if rank > 2 && over != nil && !s.SinceAtLeast && s.since.After(*over) && at.Sub(r.State.LastSeen) >= apart {
			continue // something else began when it was over
		}
		if !r.Open() {
			rank += 10
		}
		if best == nil || rank < bestRank || rank == bestRank && r.Began.After(best.Began) {
			best, bestRank = r, rank
		}
	}
	return best, ended
}

// rank says how closely a sign belongs to an incident, the lower the closer; 0 is not at
// all.
func (t *Tracker) rank(r *Record, s *sign) int {
	same := slices.Contains(r.State.Members, s.Pathology.ID)
	here := share(r.State.Instances, s.instances)
	along := s.since.Sub(r.Began).Abs() <= together
	switch {
	case same && here:
		return 1
	case same:
		return 2
	case (here || along) && slices.ContainsFunc(r.State.Members,
		func(id string) bool { return t.related(id, s.Pathology) }):
		return 3
	case here && (!r.Open() || r.QuietSince != nil):
		return 4 // another name for a server that is gone
	case here && along:
		return 5
	}
	return 0
}

// related reports whether one pathology is a cause of the other.
func (t *Tracker) related(id string, p *catalog.Pathology) bool {
	of := t.pathology(id)
	return of != nil && (of.Inhibits(p) || p.Inhibits(of))
}

func (t *Tracker) pathology(id string) *catalog.Pathology {
	i := slices.IndexFunc(t.catalogue, func(p *catalog.Pathology) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return t.catalogue[i]
}

func (t *Tracker) begin(s *sign, at time.Time) *Record {
	r := &Record{Summary: view.Summary{
		ID: t.id(s), Model: s.model, Namespace: s.namespace, Cluster: s.cluster, Began: s.since,
		BeganAtLeast: s.SinceAtLeast, Notes: []view.Note{},
	}}
	r.State = State{Members: []string{s.Pathology.ID}, Instances: s.instances, LastSeen: at, Kept: at}
	r.addVerdict(s, at)
	t.updateCause(r, s)
	r.tell(s, at, 0)
	t.records = append(t.records, r)
	return r
}

// id returns an incident's ID from its beginning and its first finding.
func (t *Tracker) id(s *sign) string {
	base := s.since.UTC().Format("2006-01-02-1504-") + s.Pathology.ID
	id := base
	for n := 2; ; n++ {
		if !slices.ContainsFunc(t.records, func(r *Record) bool { return r.ID == id }) &&
			(t.taken == nil || !t.taken(id)) {
			return id
		}
		id = fmt.Sprintf("%s-%d", base, n)
	}
}

// addVerdict adds the verdict to the evolution.
func (r *Record) addVerdict(s *sign, at time.Time) {
	r.addTurn(view.Turn{At: at, ID: s.Pathology.ID, Severity: s.Severity.String(), Summary: s.Summary,
		Confidence: &s.Confidence})
}

// addTurn adds a turn to the evolution, in order of time. If there are too many, turns in the middle are dropped,
// because people ask for the beginning and the end.
func (r *Record) addTurn(c view.Turn) {
	if n := len(r.Evolution); n > 0 && c.At.Before(r.Evolution[n-1].At) {
		c.At = r.Evolution[n-1].At
	}
	r.Evolution = append(r.Evolution, c)
	if len(r.Evolution) > maxTurns {
		r.Evolution = slices.Delete(r.Evolution, maxTurns/2, maxTurns/2+1)
		r.Omitted++
	}
}

// updateCause renames the incident after the sign if the sign is the cause of the present name, or is worse and not its
// symptom. If evidence refuted the present name, the leading finding replaces it.
func (t *Tracker) updateCause(r *Record, s *sign) (best bool) {
	worst := catalog.Info
	if r.Severity != "" {
		worst, _ = catalog.ParseSeverity(r.Severity) // our own word
	}
	was := t.pathology(r.Pathology)
	symptom := was != nil && was.Inhibits(s.Pathology)
	switch {
	case r.Pathology == "":
	case r.Pathology == s.Pathology.ID:
		if s.Severity <= worst {
			return false
		}
	case s.Severity < worst:
		return false
	case r.State.refuted() && !s.since.After(r.SinceOf(r.Pathology).Add(Refuted)): // it was there from the beginning
	case s.Severity > worst && !symptom:
	case was != nil && s.Pathology.Inhibits(was) && !s.since.After(r.SinceOf(r.Pathology).Add(behind)):
	default:
		r.Severity = max(worst, s.Severity).String()
		return false
	}
	if r.Pathology != s.Pathology.ID {
		r.State.named, r.State.ruledOut, r.State.against = 0, 0, 0
	}
	r.Pathology, r.Severity = s.Pathology.ID, max(worst, s.Severity).String()
	return true
}

// refuted reports whether the incident's naming cause was ruled out for as long as it had been found, or for long
// enough, while the incident went on.
func (s *State) refuted() bool {
	return s.against >= againstAtLeast && s.ruledOut >= min(s.named, Refuted)
}

// weigh notes what a diagnosis says of the cause that the incident is called by: found again,
// ruled out, or neither.
func (r *Record) weigh(v *indexedDiagnosis, signs []*sign, step time.Duration) {
	named := func(s *sign) bool { return s.Pathology.ID == r.Pathology }
	switch {
	case slices.ContainsFunc(signs, named):
		r.State.named += step
		r.State.ruledOut, r.State.against = 0, 0
	case v.rulesOut(r):
		r.State.ruledOut += step
		r.State.against++
	}
}

// fires goes on with an incident of which there are signs, the leading one first.
func (t *Tracker) fires(r *Record, signs []*sign, v *indexedDiagnosis, step time.Duration) (Event, bool) {
	e, at := Event{Kind: Changed, Record: r}, v.at
	lead := signs[0] // the worst, as the diagnosis ranks them
	again, quiet, known := !r.Open(), r.QuietSince, len(r.State.Members)
	before, last := r.State.Instances, r.State.LastSeen
	r.Ended, r.QuietSince, r.State.quiet, r.State.LastSeen = nil, nil, 0, at
	r.State.Instances = nil
	r.weigh(v, signs, step)
	recurs := r.addSigns(signs, before, last, v)
	r.State.see(v, signs)
	novel, was := slices.Contains(r.State.Members[known:], lead.Pathology.ID),
		cmp.Or(r.State.presentSeverity, r.Severity)
	if e.Best = t.updateCause(r, lead); e.Best {
		r.State.Kept = at
	}
	r.State.presentSeverity = r.Severity
	if !slices.ContainsFunc(signs, func(s *sign) bool { return s.Pathology.ID == r.Pathology }) {
		r.Summary.Summary = cmp.Or(diagnose.Names(t.catalogue)[r.Pathology], r.Pathology) + ", and then: " +
			lead.Summary
		if r.State.ruledOut >= Refuted {
			r.State.presentSeverity = lead.Severity.String() // the incident is no worse than its present findings
		}
	}
	for _, s := range signs {
		if s.Pathology.ID == r.Pathology {
			r.tell(s, at, step)
		}
	}
	switch {
	case again:
		e.Kind = Reopened
		r.addVerdict(lead, at)
		return e, true
	case recurs && quiet != nil:
		r.addTurn(view.Turn{At: *quiet, ID: Over, Summary: "It was over for " +
			indicator.FormatNumber(at.Sub(*quiet).Seconds(), indicator.Seconds)})
		r.addVerdict(lead, at)
		return e, true
	case recurs, novel, r.State.presentSeverity != was:
		r.addVerdict(lead, at)
		return e, true
	}
	if e.Kind = Kept; !e.Best && r.showsMore(lead, at) {
		e.Best, r.State.Kept = true, at
	}
	return e, e.Best
}

// addSigns takes what signs say of the incident's servers, members and onsets. It reports whether the leading one,
// which is the first, is back after its end. before are the servers on which the incident was found last, at the time
// last.
func (r *Record) addSigns(signs []*sign, before []string, last time.Time, v *indexedDiagnosis) (recurs bool) {
	for i, s := range signs {
		if r.Model == "" && s.model != "" {
			r.Cluster, r.Namespace, r.Model = s.cluster, s.namespace, s.model
		}
		_, known := r.Since[s.Pathology.ID]
		back := known && r.State.comesBack(s, last, v.at)
		// A finding on a new server began when it began there; a finding that returned began when it returned.
		r.takeOnset(s, back || !share(before, s.instances), v)
		recurs = recurs || back && i == 0
		r.State.Members = union(r.State.Members, []string{s.Pathology.ID}, maxTurns)
		r.State.Instances = union(r.State.Instances, s.instances, maxTargets)
		r.Targets = union(r.Targets, s.Targets, maxTargets)
	}
	return recurs
}

// confirming is how many scrapes later an onset that is read again stands, as in a diagnosis' memory.
const confirming = 2

// takeOnset takes when a finding began. An earlier onset replaces one that was not confirmed yet; one that was stands,
// also for a monitor that was started again and reads it otherwise.
func (r *Record) takeOnset(s *sign, anew bool, v *indexedDiagnosis) {
	id := s.Pathology.ID
	since, known := r.Since[id]
	said, unconfirmed := r.State.Said[id]
	switch {
	case !known || anew || unconfirmed && s.since.Before(since):
		for _, m := range []*map[string]time.Time{&r.Since, &r.State.Said} {
			if *m == nil {
				*m = map[string]time.Time{}
			}
		}
		r.Since[id], r.State.Said[id] = s.since, v.at
	case unconfirmed && s.since.Equal(since) && v.at.Sub(said) >= confirming*v.Interval:
		delete(r.State.Said, id)
	}
	if since = r.Since[id]; id == r.Pathology && since.Before(r.Began) {
		r.Began, r.BeganAtLeast = since, s.SinceAtLeast
	}
}

// tell takes what a finding says of the incident that is called by it.
func (r *Record) tell(s *sign, at time.Time, step time.Duration) {
	r.Affected, r.Servers, r.Summary.Summary, r.State.Confidence = s.Targets, s.Servers, s.Summary, s.Confidence
	r.decideTitle(s.Finding, at)
	told := *s.Finding
	told.Chain = r.chain(told.Chain)
	r.State.told = &told
	if story := told.Story(); story != "" {
		r.Story = story
	}
	r.Kept = view.Kept{
		At: at, Runbook: docs.PublishedRunbooks.PageURL(r.Pathology),
		Reasons: s.Reasons, Evidence: report.EvidenceRows(s.Evidence, false),
	}
	r.advise(s.Finding, at, step)
}

// comesBack reports whether a finding is a new fault: it was gone, and its onset is later than when it was found
// last.
func (s *State) comesBack(found *sign, last, at time.Time) bool {
	if seen, known := s.Seen[found.Pathology.ID]; known {
		last = seen
	}
	return !found.SinceAtLeast && at.Sub(last) >= apart && found.since.After(last)
}

// see notes when what an incident is made of was found last: also what something that is found explains.
func (s *State) see(v *indexedDiagnosis, signs []*sign) {
	if s.Seen == nil {
		s.Seen = map[string]time.Time{}
	}
	for _, sign := range signs {
		s.Seen[sign.Pathology.ID] = v.at
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.Status == diagnose.Firing && f.InhibitedBy != "" && slices.Contains(s.Members, f.Pathology.ID) &&
			share(s.Instances, v.instancesOf(f.Targets)) {
			s.Seen[f.Pathology.ID] = v.at
		}
	}
}

// ripe are the ages of an incident at which its diagnosis is kept again, because it shows more, and can have the
// prediction that an early one lacks.
var ripe = [...]time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// showsMore reports whether a diagnosis shows more of the incident than the one that was kept.
func (r *Record) showsMore(lead *sign, at time.Time) bool {
	found := r.Evolution[0].At
	return lead.Pathology.ID == r.Pathology && lead.Severity.String() == r.Severity &&
		slices.ContainsFunc(ripe[:], func(age time.Duration) bool {
			return r.State.Kept.Sub(found) < age && at.Sub(found) >= age
		})
}

// continueUnseen goes on with an incident of which there is no sign.
func (t *Tracker) continueUnseen(r *Record, v *indexedDiagnosis, step time.Duration) (Event, bool) {
	verdict := v.verdictWithout(r)
	switch {
	case verdict == nil && v.at.Sub(r.State.LastSeen) > Lost:
		return t.endUnseen(r), true
	case verdict == nil:
		return Event{}, false
	case r.QuietSince == nil:
		since := r.notBefore(v.at)
		r.QuietSince, r.State.quiet = &since, 0
		if len(r.Targets) <= r.Servers { // unless some were replaced: the last one to recover is not all that it was on
			r.Affected = r.Targets
		}
		return Event{}, false
	}
	if r.State.quiet += step; r.State.quiet < Settled {
		return Event{}, false
	}
	r.Ended, r.QuietSince = r.QuietSince, nil
	c := view.Turn{At: *r.Ended, ID: verdict.ID, Summary: verdict.Summary, Confidence: new(verdict.Confidence)}
	if verdict.Status == diagnose.Firing { // something else goes on
		c.ID, c.Summary = Over, "It is over, and "+verdict.ID+" is found"
	}
	r.addTurn(c)
	return Event{Kind: Ended, Record: r}, true
}

// endUnseen ends an incident whose end nobody could see, when it was seen last.
func (t *Tracker) endUnseen(r *Record) Event {
	ended := r.notBefore(r.State.LastSeen)
	r.Ended, r.QuietSince = &ended, nil
	r.addTurn(view.Turn{At: ended, ID: diagnose.InsufficientData,
		Summary: "Its end was not observed: no data to judge"})
	return Event{Kind: Ended, Record: r}
}

// notBefore is a time, or when the incident began where that is later.
func (r *Record) notBefore(at time.Time) time.Time { return r.Began.Add(max(0, at.Sub(r.Began))) }

// union adds new items to a list, up to a bound.
func union(list, more []string, most int) []string {
	for _, s := range more {
		if len(list) < most && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// Latest orders records for a list: the latest first.
func Latest(a, b *Record) int { return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID)) }

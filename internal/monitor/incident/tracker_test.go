package incident

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// A small catalogue: down causes thrash, thrash causes slow and queue; errors and crash stand alone; shift is
// informative.
var (
	down   = &catalog.Pathology{ID: "down", Severity: catalog.Page}
	thrash = &catalog.Pathology{ID: "thrash", Severity: catalog.Page, ExplainedBy: []string{"down"}}
	slow   = &catalog.Pathology{ID: "slow", Severity: catalog.Ticket, ExplainedBy: []string{"thrash", "down"}}
	queue  = &catalog.Pathology{ID: "queue", Severity: catalog.Page, ExplainedBy: []string{"thrash", "down"}}
	errs   = &catalog.Pathology{ID: "errors", Severity: catalog.Ticket}
	crash  = &catalog.Pathology{ID: "crash", Severity: catalog.Page}
	shift  = &catalog.Pathology{ID: "shift", Severity: catalog.Info}

	testCatalogue = []*catalog.Pathology{down, thrash, slow, queue, errs, crash, shift}

	noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
)

// A timeline feeds a tracker with diagnoses, one every 15 s.
type timeline struct {
	t       *testing.T
	at      time.Time
	tracker *Tracker
	events  []string
	records []*Record
	models  map[string]string // target to model; "" for none
}

func newTimeline(t *testing.T) *timeline {
	s := &timeline{t: t, at: noon, models: map[string]string{"a": "m", "b": "m"}}
	s.tracker = NewTracker(testCatalogue, nil, s.taken)
	return s
}

// A fault is a finding in a diagnosis.
type fault struct {
	p          *catalog.Pathology
	status     diagnose.Status
	target     string
	since      time.Duration // since noon
	atLeast    bool
	by         string
	confidence float64
	severity   catalog.Severity // 0 for the pathology's own
}

func fires(p *catalog.Pathology, target string) fault {
	return fault{p: p, status: diagnose.Firing, target: target, since: -1, confidence: 0.9}
}

func (s *timeline) diagnosis(faults ...fault) *diagnose.Diagnosis {
	d := &diagnose.Diagnosis{At: s.at, Status: diagnose.OK}
	pools := map[string]*diagnose.Verdict{}
	for _, name := range []string{"a", "b", "c"} {
		m, ok := s.models[name]
		if !ok {
			continue
		}
		l := map[string]string{"instance": name}
		if m != "" {
			l["model_name"] = m
		}
		d.Targets = append(d.Targets, diagnose.Target{Name: name, Labels: l})
		if pools[m] == nil {
			pools[m] = &diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK, Summary: "Nothing is wrong",
				Confidence: 0.9, Model: m}
		}
		pools[m].Targets = append(pools[m].Targets, name)
	}
	for _, f := range faults {
		if f.since == -1 {
			f.since = s.at.Sub(noon)
		}
		severity := f.p.Severity
		if f.severity != 0 {
			severity = f.severity
		}
		m := s.models[f.target]
		d.Findings = append(d.Findings, diagnose.Finding{
			Pathology: f.p, Model: m, Status: f.status, Severity: severity, Targets: []string{f.target},
			Since: noon.Add(f.since), SinceAtLeast: f.atLeast,
			Summary: f.p.ID + " on " + f.target, Confidence: f.confidence, InhibitedBy: f.by,
		})
		if v := pools[m]; v.Status != diagnose.Firing && f.status == diagnose.Firing && f.by == "" {
			*v = diagnose.Verdict{
				ID: f.p.ID, Status: diagnose.Firing, Severity: severity, Summary: f.p.ID, Targets: []string{f.target},
				Model: m, Since: noon.Add(f.since), Confidence: f.confidence,
			}
			d.Status = diagnose.Firing
		}
	}
	for _, m := range []string{"m", "n", ""} {
		if pools[m] != nil {
			d.Verdicts = append(d.Verdicts, *pools[m])
		}
	}
	return d
}

// feedOne feeds one diagnosis, 15 s after the last.
func (s *timeline) feedOne(faults ...fault) { s.feed(s.diagnosis(faults...)) }

func (s *timeline) feed(d *diagnose.Diagnosis) {
	s.t.Helper()
	for _, e := range s.tracker.Observe(d) {
		if e.Kind == Began {
			s.records = append(s.records, e.Record)
		}
		s.events = append(s.events, fmt.Sprintf("%s %s", e.Kind, e.Record.ID[len("2006-01-02-1504-"):]))
	}
	s.at = s.at.Add(15 * time.Second)
}

func (s *timeline) feedFor(d time.Duration, faults ...fault) {
	for end := s.at.Add(d); s.at.Before(end); {
		s.feedOne(faults...)
	}
}

func (s *timeline) wantEvents(events ...string) {
	s.t.Helper()
	got := slices.DeleteFunc(slices.Clone(s.events), func(e string) bool { return e[:4] == "kept" })
	if diff := cmp.Diff(events, got); diff != "" {
		s.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func (s *timeline) evolution(i int) (out []string) {
	for _, c := range s.records[i].Evolution {
		out = append(out, c.ID)
	}
	return out
}

func TestAnIncidentBeginsAndEnds(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute)
	s.feedFor(5*time.Minute, fault{p: thrash, status: diagnose.Firing, target: "a", since: 50 * time.Second,
		confidence: 0.9})
	healed := s.at
	s.feedFor(90 * time.Second)
	s.wantEvents("began thrash")
	if r := s.records[0]; !r.Open() || r.QuietSince == nil || !r.QuietSince.Equal(healed) {
		t.Errorf("ended %v, quiet since %v, want open and quiet since %s", r.Ended, r.QuietSince, healed)
	}
	s.feedFor(time.Minute)
	s.wantEvents("began thrash", "ended thrash")
	r := s.records[0]
	if !r.Ended.Equal(healed) || !r.Began.Equal(noon.Add(50*time.Second)) || r.Severity != "page" ||
		r.ID != "2026-11-17-1200-thrash" || r.Model != "m" {
		t.Errorf("got %+v", r.Summary)
	}
	must.Equal(t, []string{"thrash", "healthy"}, s.evolution(0))
	s.feedFor(time.Hour)
	s.wantEvents("began thrash", "ended thrash")
}

// The first diagnosis is kept, and one after each time of keepAgainAt.
func TestTheDiagnosisIsKeptWhenItShowsMore(t *testing.T) {
	s := newTimeline(t)
	var kept []time.Duration
	for s.at.Sub(noon) < 30*time.Minute {
		f := fires(thrash, "a")
		f.confidence = 0.5 + 0.4*s.at.Sub(noon).Minutes()/30
		for _, e := range s.tracker.Observe(s.diagnosis(f)) {
			if e.KeepDiagnosis {
				kept = append(kept, s.at.Sub(noon))
			}
		}
		s.at = s.at.Add(15 * time.Second)
	}
	must.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}, kept)
}

// A verdict that is unknown or not certain must not look like a recovery.
func TestTimelineListsVerdictsAndActionsInOrder(t *testing.T) {
	r := &Record{Summary: view.Summary{
		Began: noon, Ended: new(noon.Add(9 * time.Minute)),
		Notes:  []view.Note{{By: "ann", At: noon.Add(8 * time.Minute), Text: "fp8 helped"}},
		Events: []view.Event{{At: noon.Add(3 * time.Minute), Kind: RestartEvent, Text: "a was restarted"}},
	}}
	for i, id := range []string{"thrash", diagnose.InsufficientData, diagnose.NotCertain, diagnose.Healthy} {
		turn := view.Turn{At: noon.Add(time.Duration(2*i+1) * time.Minute), ID: id, Summary: "so it is"}
		if i == 0 {
			turn.Severity = "ticket"
		}
		r.Evolution = append(r.Evolution, turn)
	}
	var got []string
	for _, m := range r.Timeline(map[string]string{"thrash": "KV cache thrashing"}) {
		got = append(got, m.At.Sub(noon).String()+" "+string(m.Health)+" "+m.Text)
	}
	must.Equal(t, []string{
		"0s  Began", "1m0s degraded KV cache thrashing (ticket): so it is", "3m0s unknown Unknown: so it is",
		"3m0s  a was restarted",
		"5m0s uncertain Not certain yet: so it is", "7m0s healthy Healthy: so it is", "8m0s  Note by ann: fp8 helped",
		"9m0s  Closed: not found since then",
	}, got)
}

func TestFlappingIsOneIncident(t *testing.T) {
	for _, period := range []time.Duration{30 * time.Second, 2 * time.Minute, 5 * time.Minute, 9 * time.Minute} {
		t.Run(period.String(), func(t *testing.T) {
			s := newTimeline(t)
			for range 50 {
				s.feedFor(period, fires(thrash, "a"))
				s.feedFor(period)
			}
			if n := len(s.records); n != 1 {
				t.Errorf("%d incidents, want 1", n)
			}
			if n := len(s.records[0].Evolution); n > maxTurns {
				t.Errorf("%d changes are kept, want at most %d", n, maxTurns)
			}
		})
	}
	s := newTimeline(t)
	for range 3 {
		s.feedFor(time.Minute, fires(thrash, "a"))
		s.feedFor(15 * time.Minute)
	}
	if n := len(s.records); n != 3 {
		t.Errorf("%d incidents a quarter of an hour apart, want 3", n)
	}
}

func TestAFaultOnAnotherServerHasItsOwnOnset(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(down, "a"))
	s.feedFor(30 * time.Second)
	began := s.at
	for range 4 {
		f := fires(down, "b")
		f.since = began.Sub(noon)
		s.feedOne(f)
	}
	if n := len(s.records); n != 1 {
		t.Fatalf("%d incidents, want 1", n)
	}
	if r := s.records[0]; !r.Since[down.ID].Equal(began) || !r.Began.Equal(noon) {
		t.Errorf("began at %s, %s there since %s; want %s and %s", r.Began, down.ID, r.Since[down.ID], noon, began)
	}
}

// A fault that returns within ten minutes continues its incident, but has its own onset and its own turn in the
// evolution, after a turn for the pause. A fault that was suspected in the meantime does not recur.
func TestARecurrenceHasItsOwnOnset(t *testing.T) {
	outage := func(s *timeline, atLeast bool) time.Time {
		began := s.at.Add(-5 * time.Second)
		s.feedFor(100*time.Second, fault{p: down, status: diagnose.Firing, target: "a", since: began.Sub(noon),
			atLeast: atLeast, confidence: 0.9})
		return began
	}
	for _, pause := range []time.Duration{time.Minute, 90 * time.Second, 140 * time.Second, 9 * time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			s := newTimeline(t)
			for range 2 {
				outage(s, false)
				s.feedFor(pause)
			}
			began, found := outage(s, false), s.at.Add(-105*time.Second)
			if n := len(s.records); n != 1 {
				t.Fatalf("%d incidents, want 1", n)
			}
			r := s.records[0]
			if got := r.Since[down.ID]; !got.Equal(began) || !r.Began.Equal(noon.Add(-5*time.Second)) {
				t.Errorf("down since %s, in an incident that began %s; want %s", got, r.Began, began)
			}
			last := r.Evolution[len(r.Evolution)-1]
			if len(r.Evolution) != 5 || last.ID != down.ID || !last.At.Equal(found) || r.Evolution[1].Severity != "" ||
				r.Evolution[3].Severity != "" {
				t.Errorf("the evolution is %v, which ends %s; want three outages, the last found %s", s.evolution(0),
					last.At, found)
			}
		})
	}
	s := newTimeline(t)
	began := s.at
	for _, seen := range []bool{true, false, true} {
		s.feedFor(75*time.Second, fault{p: down, status: map[bool]diagnose.Status{
			true: diagnose.Firing, false: diagnose.Pending}[seen], target: "a", confidence: 0.9})
	}
	outage(s, true) // it was there when watching began, which was now
	if r := s.records[0]; !r.Since[down.ID].Equal(began) || len(r.Evolution) != 1 {
		t.Errorf("down since %s by %v, want %s", r.Since[down.ID], s.evolution(0), began)
	}
}

// A symptom goes on while its cause inhibits it. When the cause has ended, it is no recurrence.
func TestAnInhibitedSymptomKeepsItsOnset(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(slow, "a"))
	explained := fires(slow, "a")
	explained.by = thrash.ID
	s.feedFor(5*time.Minute, fires(thrash, "a"), explained)
	later := fires(slow, "a")
	later.since = 2 * time.Minute // as it is read now
	s.feedFor(time.Minute, later)
	if got := s.records[0].Since[slow.ID]; !got.Equal(noon) {
		t.Errorf("slow since %s, want %s", got, noon)
	}
}

// The same fault again continues the incident, and so does another one that began before the end.
func TestAnotherFaultAfterTheEndIsANewIncident(t *testing.T) {
	for _, of := range []struct {
		next  *catalog.Pathology
		since time.Duration // after the end of the first
		want  int
	}{{thrash, 4 * time.Minute, 2}, {crash, 4 * time.Minute, 2}, {crash, -10 * time.Second, 1},
		{down, 4 * time.Minute, 1}} {
		s := newTimeline(t)
		s.feedFor(2*time.Minute, fault{p: down, status: diagnose.Firing, target: "a", confidence: 0.9})
		ended := s.at
		s.feedFor(5 * time.Minute)
		s.feedFor(time.Minute, fault{p: of.next, status: diagnose.Firing, target: "a",
			since: ended.Add(of.since).Sub(noon), confidence: 0.9})
		if n := len(s.records); n != of.want {
			t.Errorf("%s %s after the end: %d incidents, want %d", of.next.ID, of.since, n, of.want)
		}
	}
}

func TestCauseAndSymptomAreOneIncident(t *testing.T) {
	s := newTimeline(t)
	for range 100 {
		s.feedOne(fires(slow, "a"))
		s.feedOne(fires(thrash, "a"))
	}
	s.feedFor(3 * time.Minute)
	s.wantEvents("began slow", "changed slow", "ended slow")
	r := s.records[0]
	if r.Pathology != "thrash" || r.Severity != "page" {
		t.Errorf("called %s (%s), want the cause", r.Pathology, r.Severity)
	}
	must.Equal(t, []string{"slow", "thrash", "healthy"}, s.evolution(0))
}

// Affected is the last server to recover while the incident is found, and all servers once it is quiet.
func TestAQuietIncidentAffectedAllItsServers(t *testing.T) {
	s := newTimeline(t)
	see := func(targets ...string) {
		d := s.diagnosis(fires(thrash, "a"))
		d.Findings[0].Targets, d.Findings[0].Servers = targets, 3
		s.feed(d)
	}
	see("a", "b")
	see("a")
	must.Equal(t, []string{"a"}, s.records[0].Affected)
	s.feedFor(time.Minute)
	must.Equal(t, "2 of 3 servers", s.records[0].Scope())
	see("b")
	must.Equal(t, "1 of 3 servers", s.records[0].Scope())
}

func TestTheEvolutionHasEveryChangeOfTheVerdict(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(thrash, "a"))
	s.feedFor(3*time.Minute, fires(slow, "a"))
	s.feedFor(3*time.Minute, fires(thrash, "a"))
	s.feedFor(3*time.Minute, fires(slow, "a"))
	must.Equal(t, []string{"thrash", "slow", "thrash", "slow"}, s.evolution(0))
	if len(s.records) != 1 || s.records[0].Pathology != "thrash" {
		t.Errorf("%d incidents, called %s", len(s.records), s.records[0].Pathology)
	}
}

// An incident keeps its name until the naming cause was ruled out for a while, or the cause of that is found.
func TestANameIsKeptUntilEvidenceRefutesIt(t *testing.T) {
	ruledOut := fault{p: thrash, status: diagnose.OK, target: "a"}
	suspected := fault{p: thrash, status: diagnose.Pending, target: "a"}
	sure := fault{p: crash, status: diagnose.Firing, target: "a", since: time.Minute, confidence: 0.99}
	early := func(p *catalog.Pathology) fault {
		return fault{p: p, status: diagnose.Firing, target: "a", confidence: 0.9}
	}
	is := func(s *timeline, name string) {
		t.Helper()
		if r := s.records[0]; len(s.records) != 1 || r.Pathology != name {
			t.Errorf("%d incidents, at %s called %s, want %s", len(s.records), s.at.Sub(noon), r.Pathology, name)
		}
	}
	s := newTimeline(t)
	s.feedFor(2*time.Minute, fires(thrash, "a"))
	is(s, "thrash")
	s.feedFor(45*time.Second, ruledOut, early(queue))
	is(s, "thrash")
	s.feedFor(15*time.Second, fires(thrash, "a"))
	s.feedFor(10*time.Minute, suspected, early(queue))
	is(s, "thrash")
	s.feedFor(10*time.Minute, suspected, sure, fires(thrash, "a"))
	is(s, "thrash")
	s.feedFor(75*time.Second, ruledOut, early(queue))
	is(s, "queue")
	s.feedOne(early(thrash))
	is(s, "thrash")
	s.feedOne(early(down))
	is(s, "down")

	s = newTimeline(t) // found once, and never again
	s.feedOne(fires(thrash, "a"))
	s.feedFor(30*time.Second, ruledOut, early(queue))
	is(s, "queue")
}

func TestAnUnrelatedFaultIsAnotherIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Hour, fires(errs, "b"))
	s.feedFor(time.Minute, fires(thrash, "a"), fires(errs, "b"))
	s.feedFor(time.Minute, fires(errs, "b"))
	s.feedFor(time.Minute, fires(errs, "b"))
	s.feedFor(time.Minute, fires(errs, "b"))
	s.wantEvents("began errors", "began thrash", "ended thrash")
	if !s.records[0].Open() {
		t.Error("the other one has ended")
	}
	if last := s.evolution(1); last[len(last)-1] != OverTurn {
		t.Errorf("evolution %v, want it to end with %s", last, OverTurn)
	}
}

// The finding and the verdict name the open incident. A healthy verdict names it too until it is closed.
func TestConformNamesTheIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedOne(fires(thrash, "a"))
	for _, tt := range []struct {
		faults           []fault
		finding, verdict string
	}{
		{[]fault{fires(thrash, "a")}, s.records[0].ID, s.records[0].ID},
		{nil, "", s.records[0].ID},
		{[]fault{fires(crash, "c")}, "", ""},
	} {
		s.models["c"] = "n"
		d := s.diagnosis(tt.faults...)
		s.tracker.Conform(d)
		v := d.Verdicts[0]
		if len(tt.faults) > 0 {
			if tt.faults[0].target == "c" {
				v = d.Verdicts[1]
			}
			if got := d.Findings[0].Incident; got != tt.finding {
				t.Errorf("%v: the finding is of %q, want %q", tt.faults, got, tt.finding)
			}
		}
		if v.Incident != tt.verdict {
			t.Errorf("%v: the verdict on %s is of %q, want %q", tt.faults, v.Model, v.Incident, tt.verdict)
		}
	}
}

func TestFaultsOfOneServerWithOneOnsetAreOneIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(thrash, "a"))
	s.feedFor(time.Minute, fires(thrash, "a"), fires(errs, "a"))
	s.feedOne(fires(errs, "a"))
	if len(s.records) != 1 {
		t.Errorf("%d incidents, want 1", len(s.records))
	}
}

func TestAnotherFaultOnAQuietServerIsTheSameIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Hour, fires(thrash, "a"))
	s.feedFor(30 * time.Second)
	s.feedFor(time.Minute, fires(errs, "a"))
	if len(s.records) != 1 || !s.records[0].Open() {
		t.Errorf("%d incidents, want 1 that goes on", len(s.records))
	}
}

// Seen in practice: after a rollout, a replica that worked off its backlog reopened the page of the rollout.
func TestAFaultOfAnotherNameAfterTheEndOfAnAlertIsANewIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(errs, "a"))
	s.feedFor(90 * time.Second)
	s.feedFor(time.Minute, fires(thrash, "a"))
	if len(s.records) != 2 || s.records[1].Pathology != thrash.ID || s.records[0].Since[thrash.ID] != (time.Time{}) {
		t.Errorf("%d incidents, want one of each name", len(s.records))
	}
}

func TestEachModelHasItsOwnIncident(t *testing.T) {
	s := newTimeline(t)
	s.models["c"] = "n"
	s.feedFor(time.Minute, fires(thrash, "a"), fires(thrash, "c"))
	if len(s.records) != 2 || s.records[0].Model != "m" || s.records[1].Model != "n" {
		t.Fatalf("%d incidents", len(s.records))
	}
	s.feedFor(3*time.Minute, fires(thrash, "c"))
	s.wantEvents("began thrash", "began thrash-2", "ended thrash")
}

func TestAnInformativeFindingOpensNoIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Hour, fires(shift, "a"))
	s.wantEvents()
	f := fires(slow, "a")
	s.feedFor(time.Minute, f)
	d := s.diagnosis(f)
	d.Findings[0].Severity, d.Verdicts[0].Severity = catalog.Info, catalog.Info
	for range 20 {
		d.At = s.at
		s.feed(d)
	}
	s.wantEvents("began slow", "ended slow") // the objectives hold again
}

func TestUnknownNeitherEndsNorBegins(t *testing.T) {
	unknown := func(s *timeline) *diagnose.Diagnosis {
		d := s.diagnosis()
		d.Verdicts[0] = diagnose.Verdict{ID: diagnose.InsufficientData, Status: diagnose.Unknown,
			Targets: []string{"a", "b"}, Model: "m"}
		return d
	}
	for name, cannotTell := range map[string]func(s *timeline) *diagnose.Diagnosis{
		"no verdict": unknown,
		"its verdict is not certain": func(s *timeline) *diagnose.Diagnosis {
			d := s.diagnosis()
			d.Verdicts[0] = diagnose.Verdict{ID: diagnose.NotCertain, Status: diagnose.Pending,
				Targets: []string{"a", "b"}, Model: "m"}
			return d
		},
		"nothing at all": func(s *timeline) *diagnose.Diagnosis {
			return &diagnose.Diagnosis{At: s.at}
		},
		"its target was not judged": func(s *timeline) *diagnose.Diagnosis {
			d := s.diagnosis()
			d.Unjudged = []diagnose.Unjudged{{Target: "a", Reason: "no samples"}}
			return d
		},
		"its condition is unknown": func(s *timeline) *diagnose.Diagnosis {
			return s.diagnosis(fault{p: thrash, status: diagnose.Unknown, target: "a"})
		},
		"its condition is pending": func(s *timeline) *diagnose.Diagnosis {
			return s.diagnosis(fault{p: thrash, status: diagnose.Pending, target: "a", since: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTimeline(t)
			s.feed(cannotTell(s))
			s.wantEvents()
			s.feedOne(fires(thrash, "a"))
			for range 1000 {
				s.feed(cannotTell(s))
			}
			s.wantEvents("began thrash")
			s.feedFor(time.Minute, fault{p: thrash, status: diagnose.Firing, target: "a", atLeast: true,
				since: 4 * time.Hour, confidence: 0.9})
			s.wantEvents("began thrash")
			for range 3 * int(UnjudgedToEnd/(15*time.Second)) / 2 {
				s.feed(cannotTell(s))
			}
			s.wantEvents("began thrash", "ended thrash")
			if r := s.records[0]; r.Ended.After(noon.Add(5 * time.Hour)) {
				t.Errorf("ended %s, want when it was seen last", r.Ended)
			}
		})
	}
}

func TestAnUnknownConditionElsewhereDoesNotKeepItOpen(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(thrash, "a"))
	s.feedFor(3*time.Minute, fault{p: thrash, status: diagnose.Unknown, target: "b"})
	s.wantEvents("began thrash", "ended thrash")
}

func TestRemovingTheServerEndsTheIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(thrash, "a"))
	delete(s.models, "a")
	s.feedFor(3 * time.Minute)
	s.wantEvents("began thrash", "ended thrash")
}

func TestAServerWithoutAModelIsMatchedByInstance(t *testing.T) {
	s := newTimeline(t)
	s.models = map[string]string{"a": ""}
	s.feedFor(time.Minute, fires(down, "a"))
	s.models["a"] = "m"
	s.feedFor(time.Minute, fires(down, "a"))
	if len(s.records) != 1 || s.records[0].Model != "m" {
		t.Errorf("%d incidents, of %q", len(s.records), s.records[0].Model)
	}
	s.models["a"] = ""
	s.feedFor(time.Minute, fires(down, "a"))
	if len(s.records) != 1 || s.records[0].Model != "m" {
		t.Errorf("%d incidents, of %q", len(s.records), s.records[0].Model)
	}
}

// restart continues with the stored records, as a new process does.
func (s *timeline) restart() {
	s.t.Helper()
	var kept []*Record
	for _, r := range s.records {
		b, err := json.Marshal(r)
		must.Succeed(s.t, err)
		c := new(Record)
		must.Succeed(s.t, json.Unmarshal(b, c))
		kept = append(kept, c)
	}
	s.records = kept
	s.tracker = NewTracker(testCatalogue, kept, s.taken)
}

func (s *timeline) taken(id string) bool {
	return slices.ContainsFunc(s.records, func(r *Record) bool { return r.ID == id })
}

func TestAnIncidentContinuesAfterARestart(t *testing.T) {
	for _, gap := range []time.Duration{5 * time.Second, 5 * time.Minute, time.Hour, 12 * time.Hour} {
		t.Run(gap.String(), func(t *testing.T) {
			s := newTimeline(t)
			s.feedFor(time.Minute, fires(thrash, "a"))
			s.at = s.at.Add(gap)
			s.restart()
			f := fires(thrash, "a")
			f.since, f.atLeast = s.at.Sub(noon), true
			s.feedFor(time.Minute, f)
			s.wantEvents("began thrash")
			s.at = s.at.Add(gap)
			s.restart()
			s.feedFor(3 * time.Minute)
			s.wantEvents("began thrash", "ended thrash")
		})
	}
}

func TestAFaultThatBeganAfterAGapIsANewIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(time.Minute, fires(thrash, "a"))
	s.at = s.at.Add(2 * time.Hour)
	s.restart()
	s.feedFor(time.Minute, fires(thrash, "a"), fires(errs, "a"))
	s.wantEvents("began thrash", "ended thrash", "began thrash")
	if len(s.records) != 2 || s.records[0].ID == s.records[1].ID {
		t.Fatalf("%d incidents", len(s.records))
	}
	if r := s.records[0]; r.Ended.After(noon.Add(time.Minute)) {
		t.Errorf("ended %s, want when it was seen last", r.Ended)
	}
}

func TestAClockThatStepsChangesNothing(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -time.Minute, -24 * time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			s := newTimeline(t)
			s.feedFor(time.Minute, fires(thrash, "a"))
			s.at = s.at.Add(step)
			s.feedOne(fault{p: thrash, status: diagnose.Firing, target: "a", since: s.at.Sub(noon), atLeast: true,
				confidence: 0.9})
			s.feedFor(time.Minute, fires(thrash, "a"))
			s.feedFor(3 * time.Minute)
			s.wantEvents("began thrash", "ended thrash")
			checkRecords(t, s.records)
		})
	}
}

func TestIDsAreDistinct(t *testing.T) {
	taken := map[string]bool{"2026-11-17-1200-thrash": true}
	s := newTimeline(t)
	s.models["c"] = "n"
	s.tracker = NewTracker(testCatalogue, nil, func(id string) bool { return taken[id] })
	s.feedOne(fires(thrash, "a"), fires(thrash, "c"))
	if a, b := s.records[0].ID, s.records[1].ID; a != "2026-11-17-1200-thrash-2" || b != "2026-11-17-1200-thrash-3" {
		t.Errorf("got %s and %s", a, b)
	}
}

// checkRecords checks the invariants of records.
func checkRecords(t interface{ Errorf(string, ...any) }, records []*Record) {
	ids := map[string]bool{}
	for _, r := range records {
		if ids[r.ID] {
			t.Errorf("two incidents are called %s", r.ID)
		}
		ids[r.ID] = true
		if r.Ended != nil && r.Ended.Before(r.Began) {
			t.Errorf("%s ended %s, before it began %s", r.ID, r.Ended, r.Began)
		}
		if !slices.IsSortedFunc(r.Evolution, func(a, b view.Turn) int { return a.At.Compare(b.At) }) {
			t.Errorf("%s: the evolution is not in the order of time", r.ID)
		}
		if len(r.Evolution) == 0 || len(r.Evolution) > maxTurns || len(r.Targets) == 0 || len(r.Targets) > maxTargets ||
			r.Pathology == "" || r.Severity == "info" {
			t.Errorf("%s: %+v", r.ID, r)
		}
	}
}

// The diagnoses are of every kind, with gaps, restarts and steps of the clock.
func TestInvariantsHoldForAnyDiagnoses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newTimeline(t)
		open := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(rt, "n") {
			switch rapid.IntRange(0, 20).Draw(rt, "what") {
			case 0:
				s.restart()
			case 1:
				s.at = s.at.Add(time.Duration(rapid.IntRange(-7200, 7200).Draw(rt, "step")) * time.Second)
			case 2:
				s.models["b"] = rapid.SampledFrom([]string{"m", "n", ""}).Draw(rt, "model")
			}
			var faults []fault
			for range rapid.IntRange(0, 3).Draw(rt, "faults") {
				faults = append(faults, fault{
					p:      rapid.SampledFrom(testCatalogue).Draw(rt, "p"),
					target: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "target"),
					status: rapid.SampledFrom([]diagnose.Status{
						diagnose.Firing, diagnose.Firing, diagnose.Pending, diagnose.Unknown, diagnose.OK}).Draw(
						rt, "status"),
					since:      s.at.Sub(noon) - time.Duration(rapid.IntRange(-60, 3600).Draw(rt, "since"))*time.Second,
					atLeast:    rapid.Bool().Draw(rt, "atLeast"),
					confidence: rapid.Float64Range(0, 1).Draw(rt, "confidence"),
				})
			}
			d := s.diagnosis(faults...)
			for _, e := range s.tracker.Observe(d) {
				id := e.Record.ID
				switch e.Kind {
				case Began:
					s.records = append(s.records, e.Record)
					if open[id] {
						rt.Errorf("%s began twice", id)
					}
					open[id] = true
				case Ended:
					if !open[id] {
						rt.Errorf("%s ended twice", id)
					}
					open[id] = false
				case Reopened:
					if open[id] {
						rt.Errorf("%s was open and came back", id)
					}
					open[id] = true
				case Changed, Kept:
					if !open[id] {
						rt.Errorf("%s changed when it was over", id)
					}
				}
			}
			s.at = s.at.Add(15 * time.Second)
			for _, r := range s.records {
				if r.Open() != open[r.ID] {
					rt.Errorf("%s is open: %v, by its events: %v", r.ID, r.Open(), open[r.ID])
				}
			}
			checkRecords(rt, s.records)
		}
	})
}

func TestFindSimilarPrefersAnIncidentWithNotes(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(24*time.Minute, fires(thrash, "a"))
	s.feedFor(time.Hour)
	s.feedFor(time.Minute, fires(errs, "a"))
	s.feedFor(time.Hour)
	s.feedFor(time.Minute, fires(thrash, "b"))
	first, last := s.records[0], s.records[2]
	first.Notes = append(first.Notes, view.Note{By: "ann", Text: "four replicas helped."})
	got := FindSimilar(last, s.records)
	if got == nil || got.ID != first.ID ||
		got.Note != "As on Tuesday 2026-11-17 at 12:00 UTC, for 24 min; then: four replicas helped." {
		t.Errorf("got %+v", got)
	}
	if got := FindSimilar(first, s.records); got != nil {
		t.Errorf("the first one is like %+v", got)
	}
}

// early is a finding since noon.
func early(p *catalog.Pathology, target string) fault {
	return fault{p: p, status: diagnose.Firing, target: target, confidence: 0.9}
}

func TestANameIsRefutedOnAServerThatLostItsModel(t *testing.T) {
	s := newTimeline(t)
	s.models = map[string]string{"a": "m"}
	s.feedFor(2*time.Minute, early(thrash, "a"))
	s.models["a"] = ""
	s.feedFor(3*time.Minute, early(queue, "a"), fault{p: thrash, status: diagnose.OK, target: "a"})
	if r := s.records[0]; len(s.records) != 1 || r.Pathology != "queue" {
		t.Errorf("%d incidents, called %s, want queue", len(s.records), r.Pathology)
	}
}

// A restarted monitor tells what it told before: a milder severity stays, and a name is not refuted faster.
func TestARestartChangesNeitherSeverityNorName(t *testing.T) {
	s := newTimeline(t)
	ruledOut := fault{p: thrash, status: diagnose.OK, target: "a"}
	s.feedFor(2*time.Minute, early(thrash, "a"))
	s.feedFor(2*time.Minute, early(slow, "a"), ruledOut)
	tell := func() string {
		d := s.diagnosis(early(slow, "a"), ruledOut)
		s.feed(d)
		s.tracker.Conform(d)
		return fmt.Sprint(d.Verdicts[0].ID, d.Verdicts[0].Severity, s.records[0].Phase)
	}
	before := tell()
	s.restart()
	must.Equal(t, before, tell())

	s = newTimeline(t)
	s.feedFor(10*time.Minute, early(thrash, "a"))
	s.restart()
	s.feedFor(45*time.Second, early(queue, "a"), ruledOut)
	must.Equal(t, "thrash", s.records[0].Pathology)
}

func TestAQuietIncidentClosesWhenItSays(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(2*time.Minute, early(thrash, "a"))
	s.feedFor(time.Minute)
	for range 12 {
		s.feed(&diagnose.Diagnosis{At: s.at}) // nobody can tell
	}
	var said time.Time
	for r := s.records[0]; r.Open(); {
		if said = s.at; r.ClosesAt != nil {
			said = *r.ClosesAt
		}
		s.feedOne()
	}
	if ended := s.at.Add(-15 * time.Second); !said.Equal(ended) {
		t.Errorf("it closed at %s, and said %s", ended, said)
	}
}

// A finding that was missing once is no new fault, although the incident went on elsewhere.
func TestAFinalOnsetStaysWhileTheIncidentIsElsewhere(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(2*time.Minute, early(thrash, "a"), early(slow, "b"))
	s.feedOne(early(thrash, "a"))
	later := early(slow, "b")
	later.since = 20 * time.Second
	s.feedOne(early(thrash, "a"), later)
	if got := s.records[0].Since[slow.ID]; !got.Equal(noon) {
		t.Errorf("slow since %s, want %s", got, noon)
	}
}

// While its incident is quiet, a finding that has become informative pages nobody.
func TestAnInformativeFindingOfAQuietIncidentStaysInformative(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(2*time.Minute, early(thrash, "a"))
	d := s.diagnosis(early(thrash, "a"))
	d.Findings[0].Severity, d.Verdicts[0].Severity = catalog.Info, catalog.Info
	s.feed(d)
	s.tracker.Conform(d)
	if f, v := d.Findings[0], d.Verdicts[0]; f.Severity != catalog.Info || v.Severity != catalog.Info ||
		s.records[0].Phase != view.Quiet {
		t.Errorf("the finding is %s, the verdict %s, the incident %s", f.Severity, v.Severity, s.records[0].Phase)
	}
}

// An earlier onset replaces one that was read once. A confirmed onset stays, also after a restart of the monitor.
func TestAConfirmedOnsetIsFinal(t *testing.T) {
	s := newTimeline(t)
	since := func(seconds time.Duration) fault {
		return fault{p: thrash, status: diagnose.Firing, target: "a", since: seconds * time.Second, confidence: 0.9}
	}
	check := func(when string, want time.Duration) {
		t.Helper()
		r := s.records[0]
		if at := noon.Add(want * time.Second); !r.Began.Equal(at) || !r.Since[thrash.ID].Equal(at) {
			t.Errorf("%s it began at %s, since %s, want %s", when, r.Began, r.Since[thrash.ID], at)
		}
	}
	s.feedOne(since(0))
	s.feedOne(since(-20))
	check("an onset that was read once is replaced:", -20)
	s.feedFor(time.Minute, since(-20))
	s.feedOne(since(-33))
	check("confirmed", -20)
	text, err := json.Marshal(s.records[0])
	must.Succeed(t, err)
	again := new(Record)
	must.Succeed(t, json.Unmarshal(text, again))
	s.records = []*Record{again}
	s.tracker = NewTracker(testCatalogue, s.records, s.taken)
	s.feedFor(time.Minute, since(-27))
	check("after a restart", -20)
}

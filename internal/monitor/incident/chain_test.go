package incident

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// chained is a pathology with a chain.
var chained = &catalog.Pathology{ID: "chained", Runbook: "# Queue\n", Severity: catalog.Page,
	Chain: []catalog.Link{{Says: "Requests come faster", Traffic: true}, {Says: "The KV cache fills"},
		{Says: "The queue grows"}}}

// The first link and the title stay when the link no longer holds, and after a restart of the monitor. Only a link that
// is earlier in the catalogue's chain replaces them, as an event.
func TestTheFirstLinkIsDecidedOnce(t *testing.T) {
	s := newTimeline(t)
	step := func(says string, signal *indicator.Signal, value, normal float64, since time.Duration) diagnose.Step {
		return diagnose.Step{Says: says, Since: noon.Add(since),
			Evidence: catalog.Evidence{Signal: signal, Value: indicator.Known(value),
				Baseline: indicator.Known(normal)}}
	}
	faster := step("Requests come faster", indicator.FirstTokenRate, 4, 1, -time.Minute)
	kv := step("The KV cache fills", indicator.KVUsage, 0.99, 0.9, -30*time.Second)
	queue := step("The queue grows", indicator.Waiting, 6, 0, 0)
	later := step("The queue grows", indicator.Waiting, 9, 0, 30*time.Second) // as another look reads it
	see := func(steps ...diagnose.Step) *diagnose.Diagnosis {
		d := s.diagnosis(fault{p: chained, status: diagnose.Firing, target: "a", confidence: 0.9})
		d.Findings[0].Chain = steps
		s.feed(d)
		s.tracker.Conform(d)
		return d
	}
	for k, look := range []struct {
		steps  []diagnose.Step
		title  string
		says   []string
		events int
	}{
		{[]diagnose.Step{queue}, "Queue: the queue grows", []string{"The queue grows"}, 0},
		{[]diagnose.Step{kv, later}, "Queue: the KV cache fills", []string{"The KV cache fills", "The queue grows"}, 1},
		{[]diagnose.Step{faster, kv, later}, "Queue: requests come faster", []string{"Requests come faster", "The KV cache fills", "The queue grows"}, 2},
		{[]diagnose.Step{kv, later}, "Queue: requests come faster", []string{"Requests come faster", "The KV cache fills", "The queue grows"}, 2},
		{[]diagnose.Step{later}, "Queue: requests come faster", []string{"Requests come faster", "The queue grows"}, 2},
	} {
		if k == 3 { // the monitor is restarted
			text, err := json.Marshal(s.records[0])
			must.Succeed(t, err)
			again := new(Record)
			must.Succeed(t, json.Unmarshal(text, again))
			s.records = []*Record{again}
			s.tracker = NewTracker(testCatalogue, s.records, s.taken)
		}
		f := see(look.steps...).Findings[0]
		var says []string
		for i, x := range f.Chain {
			says = append(says, x.Says)
			if x.First != (i == 0) {
				t.Errorf("look %d: %q is the first that changed: %t", k, x.Says, x.First)
			}
			if x.Says == "The queue grows" && !x.Since.Equal(noon) {
				t.Errorf("look %d: the queue grows since %s, want %s as before", k, x.Since, noon)
			}
		}
		r := s.records[0]
		if r.Title != look.title || !slices.Equal(says, look.says) || len(r.Events) != look.events {
			t.Errorf("look %d: title %q, chain %q, events %v", k, r.Title, says, r.Events)
		}
		if r.Story != f.Story() || len(look.says) > 1 && !strings.HasPrefix(r.Story, look.says[0]) {
			t.Errorf("look %d: the record's story is %q, the diagnosis' %q", k, r.Story, f.Story())
		}
	}
}

// The chain is of the worst server, which may be scraped some seconds after another failing one.
func TestTheFirstLinkBeginsWithTheIncident(t *testing.T) {
	for late, want := range map[time.Duration]time.Duration{
		5 * time.Second: 0, -5 * time.Second: -5 * time.Second, 10 * time.Minute: 10 * time.Minute} {
		s := newTimeline(t)
		d := s.diagnosis(fault{p: chained, status: diagnose.Firing, target: "a", confidence: 0.9})
		d.Findings[0].Chain = []diagnose.Step{{Says: "The KV cache fills", Since: noon.Add(late),
			Evidence: catalog.Evidence{Signal: indicator.KVUsage, Value: indicator.Known(1)}}}
		s.feed(d)
		s.tracker.Conform(d)
		if got := d.Findings[0].Chain[0].Since; !got.Equal(noon.Add(want)) {
			t.Errorf("a link that broke %s after the incident began at %s, want %s after it", late, got, want)
		}
	}
}

// Conform knows of the monitor's decisions what its API lists.
func TestConformWritesDecisionsIntoADiagnosisMadeElsewhere(t *testing.T) {
	s := newTimeline(t)
	s.feedFixes(drain, seats)
	s.at = s.at.Add(time.Minute)
	d := s.feedFixes(fp8, drain, seats)
	text, err := json.Marshal([]view.Summary{s.records[0].Summary})
	must.Succeed(t, err)
	var open []view.Summary
	must.Succeed(t, json.Unmarshal(text, &open))
	for phase, severity := range map[view.Phase]catalog.Severity{
		view.Failing: catalog.Page, view.Degraded: catalog.Ticket} {
		own := *d
		own.Findings = slices.Clone(d.Findings)
		own.Findings[0].Since, own.Verdicts[0].Since = noon.Add(3*time.Second), noon.Add(3*time.Second)
		open[0].Phase = phase
		Conform(&own, testCatalogue, open)
		f := &own.Findings[0]
		if !f.Since.Equal(noon) || !own.Verdict.Since.Equal(noon) || f.Severity != severity ||
			own.Verdict.Severity != severity || f.Fixes[0].Summary != drain.Summary {
			t.Errorf("%s: since %s and %s, %s and %s, first %q", phase, f.Since, own.Verdict.Since, f.Severity,
				own.Verdict.Severity, f.Fixes[0].Summary)
		}
	}
}

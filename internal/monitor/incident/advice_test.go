package incident

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

var (
	drain = catalog.Fix{Summary: "Take it out", Stops: true, Others: true}
	fp8   = catalog.Fix{Summary: "Use an FP8 KV cache",
		Changes: []catalog.Change{{Flag: "--kv-cache-dtype", To: "fp8"}}}
	seats = catalog.Fix{Summary: "Lower --max-num-seqs to 16",
		Changes: []catalog.Change{{Flag: "--max-num-seqs", To: "16"}}}
	fewer = catalog.Fix{Summary: "Lower --max-num-seqs to 12",
		Changes: []catalog.Change{{Flag: "--max-num-seqs", To: "12"}}}
	scaled = catalog.Fix{Summary: "Scale from 4 to 11 replicas", Replicas: 3}
)

// feedFixes feeds a diagnosis whose finding of thrash has fixes.
func (s *timeline) feedFixes(fixes ...catalog.Fix) *diagnose.Diagnosis {
	s.t.Helper()
	d := s.diagnosis(fault{p: thrash, status: diagnose.Firing, target: "a", confidence: 0.9})
	d.Findings[0].Fixes = slices.Clone(fixes)
	s.feed(d)
	return d
}

func (s *timeline) advice() (out []string) {
	for _, f := range s.records[0].Advice.Fixes {
		out = append(out, f.Summary)
	}
	return out
}

func TestAdviceDoesNotChangeWithItsNumbers(t *testing.T) {
	s := newTimeline(t)
	s.feedFixes(drain, seats, fp8)
	for range 20 {
		s.feedFixes(drain, fp8, scaled, fewer)
	}
	must.Equal(t, []string{drain.Summary, seats.Summary}, s.advice())
	if n := len(s.records[0].Events); n > 0 {
		t.Errorf("%d events: %v", n, s.records[0].Events)
	}
}

func TestAnotherShareInTheTextIsTheSameAdvice(t *testing.T) {
	share := func(text string) catalog.Fix {
		return catalog.Fix{Summary: "Give this replica " + text + " of its present weight", Stops: true, Others: true}
	}
	s := newTimeline(t)
	for _, text := range []string{"39.7 %", "36 %", "36.2 %", "40 %", "5.25 %"} {
		s.feedFixes(share(text), fp8)
	}
	must.Equal(t, []string{share("39.7 %").Summary, fp8.Summary}, s.advice())
	if n := len(s.records[0].Events); n > 0 {
		t.Errorf("%d events: %v", n, s.records[0].Events)
	}
}

func TestAdviceChangesForAReason(t *testing.T) {
	predicted := func(f catalog.Fix, benefit float64) catalog.Fix {
		f.Predicted = &catalog.Prediction{
			Benefit: catalog.Estimate{Value: benefit, Low: benefit, High: benefit},
			Effects: []catalog.Effect{{Signal: indicator.TTFTP95, Measured: indicator.Known(9),
				After: catalog.Estimate{Value: 1, Low: 0.5, High: 2}}},
		}
		return f
	}
	for _, tt := range []struct {
		name   string
		then   []catalog.Fix
		looks  int
		want   []string
		reason string
	}{
		{"nobody else is well", []catalog.Fix{seats, fp8}, 1, []string{seats.Summary}, "no other server"},
		{"a simulation refutes it", []catalog.Fix{drain, predicted(fp8, 2), predicted(seats, 1)}, 1, []string{drain.Summary, fp8.Summary}, "a simulation predicts"},
		{"a simulation refutes every cure", []catalog.Fix{drain, predicted(seats, 1), predicted(fp8, 0.8)}, 1, []string{drain.Summary}, "withdrawn, because a simulation"},
		{"it is impossible for a moment", []catalog.Fix{drain, fp8}, 2, []string{drain.Summary, seats.Summary}, ""},
		{"it is impossible", []catalog.Fix{drain, fp8}, 5, []string{drain.Summary, fp8.Summary}, "no longer possible"},
		{"a simulation sizes it", []catalog.Fix{drain, predicted(fewer, 2)}, 1, []string{drain.Summary, fewer.Summary}, "A simulation sized the advice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTimeline(t)
			s.feedFixes(drain, seats, fp8)
			for range tt.looks {
				s.feedFixes(tt.then...)
			}
			must.Equal(t, tt.want, s.advice())
			if e := s.records[0].Events; tt.reason == "" && len(e) > 0 || tt.reason != "" &&
				(len(e) != 1 || !strings.Contains(e[0].Text, tt.reason)) {
				t.Errorf("events %v, want one with %q", e, tt.reason)
			}
			if e := s.records[0].Events; len(e) > 0 && strings.Contains(e[0].Text, drain.Summary) {
				t.Errorf("%q: nothing changed about that", e[0].Text)
			}
		})
	}
}

func TestConformWritesDecisionsIntoADiagnosis(t *testing.T) {
	s := newTimeline(t)
	s.feedFixes(drain, seats, fp8)
	s.at = s.at.Add(time.Minute)
	d := s.feedFixes(drain, fp8, scaled, fewer)
	d.Findings[0].Severity, d.Verdicts[0].Severity = catalog.Ticket, catalog.Ticket
	d.Verdict = d.Verdicts[0]
	s.tracker.Conform(d)
	f := &d.Findings[0]
	var told []string
	for _, x := range f.Fixes {
		told = append(told, x.Summary)
	}
	must.Equal(t, []string{drain.Summary, seats.Summary, fp8.Summary, scaled.Summary}, told)
	if !f.Since.Equal(noon) || !d.Verdict.Since.Equal(noon) || f.Severity != catalog.Page ||
		d.Verdict.Severity != catalog.Page {
		t.Errorf("since %s and %s, %s and %s", f.Since, d.Verdict.Since, f.Severity, d.Verdict.Severity)
	}
}

// The restart begins after the fault, so that it cannot be the cause.
func TestARestartAgainstAFaultDoesNotRenameIt(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(12*time.Minute, fires(thrash, "a"))
	s.feedFor(3*time.Minute, fault{p: down, status: diagnose.Firing, target: "a", since: 12 * time.Minute,
		confidence: 0.99})
	s.feedFor(time.Minute)
	r := s.records[0]
	if len(s.records) != 1 || r.Pathology != "thrash" || r.Phase != view.Quiet || r.ClosesAt == nil {
		t.Errorf("%d incidents, called %s, %s until %v", len(s.records), r.Pathology, r.Phase, r.ClosesAt)
	}
	s.feedFor(3 * time.Minute)
	if r.Phase != view.Closed {
		t.Errorf("it is %s", r.Phase)
	}
}

// The naming cause is ruled out since the restart, and the new finding began long after the incident.
func TestAFindingCausedByARestartDoesNotRenameTheIncident(t *testing.T) {
	s := newTimeline(t)
	s.feedFor(5*time.Minute, fault{p: slow, status: diagnose.Firing, target: "a", confidence: 0.9})
	ruledOut := fault{p: slow, status: diagnose.OK, target: "a"}
	s.feedFor(2*time.Minute, ruledOut, fault{p: errs, status: diagnose.Firing, target: "a", since: 280 * time.Second,
		confidence: 0.9})
	if r := s.records[0]; len(s.records) != 1 || r.Pathology != "slow" {
		t.Errorf("%d incidents, called %s", len(s.records), r.Pathology)
	}
}

// A server that is replaced is neither.
func TestScalingIsAnEventAndAnAppliedCure(t *testing.T) {
	s := newTimeline(t)
	see := func(servers int, looks int) {
		for range looks {
			d := s.diagnosis(fault{p: thrash, status: diagnose.Firing, target: "a", confidence: 0.9})
			d.Findings[0].Fixes = []catalog.Fix{drain, scaled}
			for n := len(d.Targets); n < servers; n++ {
				d.Targets = append(d.Targets, diagnose.Target{
					Name: fmt.Sprint("more-", n), Labels: map[string]string{
						"instance": fmt.Sprint("more-", n), "model_name": "m"}})
			}
			v := &d.Verdicts[0]
			for i := range d.Targets {
				d.Targets[i].Dialect.Engine = dialect.VLLM
				v.All = append(v.All, d.Targets[i].Name)
			}
			s.feed(d)
		}
	}
	see(2, 4)
	see(3, 2) // for half a minute
	see(2, 4)
	r := s.records[0]
	if len(r.Events) > 0 || r.Advice.Applied != nil {
		t.Errorf("events %v, applied at %v, while one was replaced", r.Events, r.Advice.Applied)
	}
	see(4, 8)
	if len(r.Events) != 1 || r.Events[0].Kind != ScaleEvent || !strings.Contains(r.Events[0].Text, "from 2 to 4") ||
		r.Advice.Applied == nil {
		t.Errorf("events %v, applied at %v, want two servers more", r.Events, r.Advice.Applied)
	}
}

// Others read a copy while a simulation sizes the advice.
func TestACopyHasItsOwnAdvice(t *testing.T) {
	s := newTimeline(t)
	s.feedFixes(seats)
	c := s.records[0].Copy()
	s.records[0].Advice.Fixes[0] = fewer
	if got := c.Advice.Fixes[0].Summary; got != seats.Summary {
		t.Errorf("the copy says %q, want %q", got, seats.Summary)
	}
}

// An earlier release may have expected an effect on a signal that was removed since.
func TestAnUnknownSignalIsNotMeasured(t *testing.T) {
	s := newTimeline(t)
	s.feedFixes(seats)
	a := s.records[0].Advice
	a.Expected, a.Applied = []view.Expected{{Signal: "no_such_signal"}}, &noon
	s.at = noon.Add(2 * time.Minute)
	s.feedFixes(seats)
	if a.Expected[0].Came != nil {
		t.Errorf("it came out at %v", *a.Expected[0].Came)
	}
}

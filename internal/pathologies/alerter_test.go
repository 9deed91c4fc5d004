package pathologies_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// sentAlerts records the last alert of each pathology that an alerter sent for one model.
type sentAlerts struct {
	*monitor.Alerter
	at    time.Time
	last  map[string]collect.Alert // by pathology
	model string
}

func newSentAlerts(model string) *sentAlerts {
	a := &sentAlerts{Alerter: &monitor.Alerter{}, last: map[string]collect.Alert{}, model: model, at: history.Start}
	a.Send = func(list ...collect.Alert) {
		for _, al := range list {
			if al.Labels["model_name"] == a.model {
				a.last[al.Labels["pathology"]] = al
			}
		}
	}
	return a
}

// see hands the alerter a diagnosis, some time after the last one.
func (a *sentAlerts) see(t *testing.T, d diagnose.Diagnosis, later time.Duration) *monitor.Evaluation {
	a.at = a.at.Add(later)
	e := &monitor.Evaluation{At: a.at, Diagnosis: d}
	a.Observe(t.Context(), e)
	return e
}

func (a *sentAlerts) isActive(id string) bool {
	al, ok := a.last[id]
	return ok && al.Ends.After(a.at)
}

// TestEveryPathologyReachesPeople takes every pathology through the alerter, while another model on other servers is
// sick: its alert is sent, and resolved when the fault is over. Meanwhile sixty_finding has it.
func TestEveryPathologyReachesPeople(t *testing.T) {
	var mu sync.Mutex
	said := map[string]diagnose.Diagnosis{} // diagnoses after the fault, shared by cases that end alike
	wellAgain := func(text, other string, diagnosis func() diagnose.Diagnosis) diagnose.Diagnosis {
		mu.Lock()
		defer mu.Unlock()
		d, known := said[text+other]
		if !known {
			d = diagnosis()
			said[text+other] = d
		}
		return d
	}
	for _, p := range pathologies.All() {
		t.Run(p.ID, func(t *testing.T) {
			t.Parallel()
			other := "kv-cache-thrashing"
			if p.ID == other {
				other = "http-errors"
			}
			beside, err := history.Open(os.DirFS(strings.ReplaceAll(other, "-", "")+"/testdata"), "fires")
			must.Succeed(t, err)
			sick := openCase(t, strings.ReplaceAll(p.ID, "-", "")+"/testdata", "fires", p)
			text := "every " + sick.Every.String() + " for " + (time.Duration(sick.Scrapes) * sick.Every).String() + "\nlike healthy\n"
			if p.Scope() == indicator.Gateway {
				text = strings.Replace(text, "healthy", "gateway", 1) + strings.Join(behind, "\n") + "\n"
			}
			a := newSentAlerts("m")
			d := diagnoseBeside(t, sick, beside, "other")
			a.see(t, d, 0)
			e := a.see(t, d, time.Hour) // tickets wait for a while
			i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool {
				return f.Pathology == p && f.Status == diagnose.Firing &&
					d.Labels(f.Model, f.Targets)["model_name"] == "m"
			})
			if i < 0 {
				t.Fatalf("it does not fire: %s, %s", d.Verdict.ID, d.Verdict.Summary)
			}
			f := &d.Findings[i]
			id := p.ID
			if f.InhibitedBy != "" {
				id = f.InhibitedBy // is sent in its place
			}
			if f.Note { // reports show notes, and nobody is notified
				if a.isActive(p.ID) {
					t.Errorf("a note is sent: %v", a.last)
				}
				return
			}
			if a.isActive(p.ID) != (id == p.ID) || !a.isActive(id) {
				t.Errorf("explained by %q, sent: %v", f.InhibitedBy, a.last)
			}
			if f.Since.IsZero() || f.Since.After(d.At) {
				t.Errorf("since %s, at %s", f.Since, d.At)
			}
			if !slices.ContainsFunc(e.Samples(), func(s collect.Sample) bool {
				return s.Labels["__name__"] == "sixty_finding" && s.Labels["pathology"] == p.ID &&
					s.Labels["status"] == "firing" && s.Labels["model_name"] == "m"
			}) {
				t.Errorf("it is not in sixty_finding: %v", e.Samples())
			}
			d = wellAgain(text, other, func() diagnose.Diagnosis {
				c, err := history.Parse(nil, text)
				must.Succeed(t, err)
				return diagnoseBeside(t, c, beside, "other")
			})
			a.see(t, d, 30*time.Second)
			a.see(t, d, 45*time.Second)
			if a.isActive(id) || a.last[id].Ends.IsZero() {
				t.Errorf("it goes on when all is well: %v", a.last[id])
			}
			ill := func(f diagnose.Finding) bool {
				return f.Pathology.ID == other && f.Status == diagnose.Firing && f.Model == "other"
			}
			if !slices.ContainsFunc(d.Findings, ill) {
				t.Error("the other model is well")
			}
		})
	}
}

// hangsBehindAGateway diagnoses a model behind a gateway that hangs outside its engines.
func hangsBehindAGateway(t *testing.T, more ...string) diagnose.Diagnosis {
	t.Helper()
	c := openCase(t, "hangoutsideengine/testdata", "fires", byID("hang-outside-engine"))
	must.Succeed(t, c.Add(append(more, `like healthy instance="d:8000"`)...))
	return diagnoseSeries(t, c)
}

// TestAReplicaComesBackWhileAGatewayLeads holds that the alert on a server that was down is resolved when it is back,
// although the fault at the gateway continues.
func TestAReplicaComesBackWhileAGatewayLeads(t *testing.T) {
	a := newSentAlerts("m")
	d := hangsBehindAGateway(t, "down 80 40 d:8000")
	a.see(t, d, 0)
	a.see(t, d, 15*time.Second)
	if !a.isActive("target-down") || !a.isActive("hang-outside-engine") {
		t.Fatalf("sent: %v", a.last)
	}
	d = hangsBehindAGateway(t)
	if d.Verdict.ID != "hang-outside-engine" || !slices.Contains(d.Verdict.All, "d:8000") || d.Verdict.Since.IsZero() ||
		d.LeadingFinding(&d.Verdict) == nil {
		t.Errorf("%+v", d.Verdict)
	}
	if !strings.Contains(d.Verdict.Summary, "engines' own metrics do not show it") {
		t.Error(d.Verdict.Summary)
	}
	a.see(t, d, 30*time.Second)
	a.see(t, d, 45*time.Second)
	if a.isActive("target-down") || !a.isActive("hang-outside-engine") {
		t.Errorf("sent: %v", a.last)
	}
}

// TestAnUnreadGatewayKeepsItsAlerts holds that an alert from a gateway's metrics is not resolved while these cannot be
// read.
func TestAnUnreadGatewayKeepsItsAlerts(t *testing.T) {
	a := newSentAlerts("m")
	a.see(t, hangsBehindAGateway(t), 0)
	a.see(t, hangsBehindAGateway(t), 15*time.Second)
	unread := hangsBehindAGateway(t, "down 55 65")
	for after := 30 * time.Second; after < 5*time.Minute; after += 30 * time.Second {
		if a.see(t, unread, after); !a.isActive("hang-outside-engine") {
			t.Fatalf("unread for %s, it is over: %v", after, a.last)
		}
	}
	well, err := history.Parse(nil, "every 1s for 120s\nlike gateway\nlike healthy instance=\"d:8000\"\n")
	must.Succeed(t, err)
	if d := diagnoseSeries(t, well); true {
		a.see(t, d, 6*time.Minute)
		a.see(t, d, 7*time.Minute)
	}
	if a.isActive("hang-outside-engine") {
		t.Errorf("read again, and well: %v", a.last)
	}
}

package monitor

import (
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
)

// TestAlertsHaveTheFindingsSeverity: while the objectives hold, what follows them is a ticket
// and pages nobody; when they no longer do it is a page, and the ticket ends.
func TestAlertsHaveTheFindingsSeverity(t *testing.T) {
	slow := &catalog.Pathology{ID: "slow-decode", Alert: "VLLMSlowDecode", Severity: catalog.Page, FollowsObjectives: true}
	ends := map[string]time.Time{} // by severity
	a := &Alerter{Settings: Alerts{Severities: map[string]string{"page": "critical"}}, Send: func(list ...collect.Alert) {
		for _, al := range list {
			ends[al.Labels["severity"]] = al.Ends
		}
	}}
	at := time.Now()
	for _, step := range []struct {
		severity catalog.Severity
		want     string
	}{{catalog.Ticket, "ticket"}, {catalog.Page, "critical"}, {catalog.Ticket, "ticket"}} {
		d := diagnose.Diagnosis{
			Targets:  []diagnose.Target{{Name: "a:1", Labels: map[string]string{"instance": "a:1", "model_name": "llama"}}},
			Verdicts: []diagnose.Verdict{{ID: slow.ID, Status: diagnose.Firing, Model: "llama"}},
			Findings: []diagnose.Finding{{Pathology: slow, Model: "llama", Status: diagnose.Firing, Severity: step.severity, Targets: []string{"a:1"}, Since: at}},
		}
		for range 8 { // for longer than what is no longer found is kept firing
			at = at.Add(15 * time.Second)
			a.See(t.Context(), &Evaluation{At: at, Diagnosis: d})
		}
		var on []string
		for severity, end := range ends {
			if end.After(at) {
				on = append(on, severity)
			}
		}
		if !slices.Equal(on, []string{step.want}) {
			t.Errorf("a finding of severity %s: alerts of severity %q go on, want %q", step.severity, on, step.want)
		}
	}
}

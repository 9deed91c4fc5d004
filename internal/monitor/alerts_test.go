package monitor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestAlertsHaveTheFindingsSeverity: while the objectives hold, what follows them is a ticket
// and pages nobody; when they no longer do it is a page, and the ticket ends.
func TestAlertsHaveTheFindingsSeverity(t *testing.T) {
	slow := &catalog.Pathology{ID: "slow-decode", Alert: "SlowDecode", Severity: catalog.Page, FollowsObjectives: true}
	ends := map[string]time.Time{} // by severity
	a := &Alerter{Send: func(list ...collect.Alert) {
		for _, al := range list {
			ends[al.Labels["severity"]] = al.Ends
		}
	}}
	a.SetSettings(AlertSettings{Severities: map[string]string{"page": "critical"}})
	at := time.Now()
	for _, step := range []struct {
		severity catalog.Severity
		want     string
	}{{catalog.Ticket, "ticket"}, {catalog.Page, "critical"}, {catalog.Ticket, "ticket"}} {
		d := diagnose.Diagnosis{
			Targets: []diagnose.Target{{Name: "a:1", Labels: map[string]string{
				"instance": "a:1", "model_name": "llama"}}},
			Verdicts: []diagnose.Verdict{{ID: slow.ID, Status: diagnose.Firing, Model: "llama", All: []string{"a:1"}}},
			Findings: []diagnose.Finding{{Pathology: slow, Model: "llama", Status: diagnose.Firing,
				Severity: step.severity, Targets: []string{"a:1"}, Since: at}},
		}
		for range 8 { // for longer than what is no longer found is kept firing
			at = at.Add(15 * time.Second)
			a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
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

// TestOneFaultHasOneTime: the verdict, the replica and the alert of a fault say when its incident says that
// it began, and not what the latest diagnosis finds.
func TestOneFaultHasOneTime(t *testing.T) {
	slow := &catalog.Pathology{ID: "slow-decode", Alert: "SlowDecode", Severity: catalog.Page}
	at := time.Now()
	began, found := at.Add(-time.Minute), at.Add(-50*time.Second)
	tracker := incident.NewTracker([]*catalog.Pathology{slow}, nil, nil)
	var record *incident.Record
	of := func(string) *view.Summary { return &record.Summary }
	e := &Evaluation{At: at, Diagnosis: diagnose.Diagnosis{
		At: at, Status: diagnose.Firing, Targets: []diagnose.Target{
			{Name: "a:1", Dialect: dialect.Dialect{Engine: dialect.VLLM},
				Labels: map[string]string{"instance": "a:1", "model_name": "m"}}},
		Verdicts: []diagnose.Verdict{{ID: slow.ID, Status: diagnose.Firing, Model: "m", All: []string{"a:1"},
			Since: found}},
		Findings: []diagnose.Finding{{Pathology: slow, Model: "m", Status: diagnose.Firing, Severity: catalog.Page,
			Targets: []string{"a:1"}, Since: began}},
	}}
	record = tracker.Observe(&e.Diagnosis)[0].Record
	e.Diagnosis.Findings[0].Since = found
	tracker.Observe(&e.Diagnosis)
	tracker.Conform(&e.Diagnosis)
	var told time.Time
	a := &Alerter{Incident: of, Send: func(list ...collect.Alert) { told = list[0].Began }}
	a.Observe(t.Context(), e)
	m := newModel(&e.Diagnosis, &e.Diagnosis.Verdicts[0], of)
	for who, since := range map[string]*time.Time{"verdict": m.Verdict.Since, "replica": m.Replicas[0].Since,
		"alert": &told} {
		if since == nil || !since.Equal(began) {
			t.Errorf("%s: since %v, want %s", who, since, began)
		}
	}
}

// TestAnAlertKeepsTheNameOfItsIncident: while an incident keeps the name of a cause, a symptom that leads for a while
// is no other alert; when the incident is called by it, it is. An alert began when what it is called by did, by the
// incident's word: a server that dies while it thrashes is down since it died.
func TestAnAlertKeepsTheNameOfItsIncident(t *testing.T) {
	cause := &catalog.Pathology{ID: "thrashing", Alert: "Thrashing", Severity: catalog.Page,
		Explains: []string{"queue"}}
	symptom := &catalog.Pathology{ID: "queue", Alert: "Queue", Severity: catalog.Page}
	at := time.Now().UTC()
	began := at.Add(-time.Minute)
	since := map[string]time.Time{"thrashing": began, "queue": began.Add(30 * time.Second)}
	ends, judged := map[string]time.Time{}, newRecords(cause, symptom)
	a := &Alerter{Incident: judged.find, Send: func(list ...collect.Alert) {
		for _, al := range list {
			id := al.Labels["pathology"]
			if ends[id] = al.Ends; !al.Began.Equal(since[id]) {
				t.Errorf("%s began at %s, and in its incident at %s", id, al.Began, since[id])
			}
		}
	}}
	for _, step := range []struct {
		found, ruledOut *catalog.Pathology
		lasts           time.Duration
		want            string
	}{
		{cause, symptom, 3 * time.Minute, "thrashing"},
		{symptom, cause, 45 * time.Second, "thrashing"},
		{cause, symptom, 3 * time.Minute, "thrashing"},
		{symptom, cause, 4 * time.Minute, "queue"},
	} {
		finding := func(p *catalog.Pathology, status diagnose.Status) diagnose.Finding {
			return diagnose.Finding{Pathology: p, Model: "m", Status: status, Severity: catalog.Page,
				Targets: []string{"a:1"}, Since: since[p.ID]}
		}
		for range step.lasts / (15 * time.Second) {
			at = at.Add(15 * time.Second)
			a.Observe(t.Context(), judged.evaluate(at, finding(step.found, diagnose.Firing),
				finding(step.ruledOut, diagnose.OK)))
		}
		var on []string
		for id, end := range ends {
			if end.After(at) {
				on = append(on, id)
			}
		}
		if !slices.Equal(on, []string{step.want}) {
			t.Errorf("%s is found for %s: the alerts %q go on, want %q", step.found.ID, step.lasts, on, step.want)
		}
	}
}

// records are what a monitor keeps of one server.
type records struct {
	tracker *incident.Tracker
	byID    map[string]*incident.Record
}

func newRecords(catalogue ...*catalog.Pathology) *records {
	return &records{incident.NewTracker(catalogue, nil, nil), map[string]*incident.Record{}}
}

func (r *records) find(id string) *view.Summary { return &r.byID[id].Summary }

// restart continues with what is stored, as a new process does.
func (r *records) restart(t *testing.T, catalogue ...*catalog.Pathology) {
	var kept []*incident.Record
	for id, was := range r.byID {
		var again incident.Record
		text, err := json.Marshal(was)
		must.Succeed(t, err)
		must.Succeed(t, json.Unmarshal(text, &again))
		kept, r.byID[id] = append(kept, &again), &again
	}
	r.tracker = incident.NewTracker(catalogue, kept, nil)
}

// evaluate is an evaluation with findings on a:1, as its incidents tell it.
func (r *records) evaluate(at time.Time, findings ...diagnose.Finding) *Evaluation {
	d := diagnose.Diagnosis{
		At: at, Status: diagnose.OK, Findings: findings,
		Targets: []diagnose.Target{{Name: "a:1", Labels: map[string]string{"instance": "a:1", "model_name": "m"}}},
		Verdicts: []diagnose.Verdict{{ID: diagnose.Healthy, Status: diagnose.OK, Model: "m", Targets: []string{"a:1"},
			All: []string{"a:1"}}},
	}
	if len(findings) > 0 && findings[0].Status == diagnose.Firing {
		v := &d.Verdicts[0]
		v.ID, v.Status, v.Severity, v.Since = findings[0].Pathology.ID, diagnose.Firing, findings[0].Severity,
			findings[0].Since
		d.Status = diagnose.Firing
	}
	d.Verdict = d.Verdicts[0]
	r.observe(&d)
	return &Evaluation{At: at, Diagnosis: d}
}

// observe makes incidents of a diagnosis, which then tells them.
func (r *records) observe(d *diagnose.Diagnosis) {
	for _, e := range r.tracker.Observe(d) {
		r.byID[e.Record.ID] = e.Record
	}
	r.tracker.Conform(d)
}

// TestWhatACauseExplainsIsNoPage: what a cause explained is found for a while when the cause has ended, until its
// window is past that. The alert of the cause goes on meanwhile, and people are told of nothing new, also by a monitor
// that was started again. What the cause does not explain has its own.
func TestWhatACauseExplainsIsNoPage(t *testing.T) {
	cause := &catalog.Pathology{ID: "down", Alert: "Down", Severity: catalog.Page, Explains: []string{"hung"}}
	symptom := &catalog.Pathology{ID: "hung", Alert: "Hung", Severity: catalog.Page}
	other := &catalog.Pathology{ID: "hot", Alert: "Hot", Severity: catalog.Page}
	for _, tt := range []struct {
		rest     *catalog.Pathology // that is found after the end of the cause
		restarts bool
		want     []string
	}{{symptom, false, []string{"down"}}, {symptom, true, []string{"down"}}, {other, false, []string{"down", "hot"}}} {
		told, judged := map[string]bool{}, newRecords(cause, symptom, other)
		a := &Alerter{Incident: judged.find, Send: func(list ...collect.Alert) {
			for _, al := range list {
				told[al.Labels["pathology"]] = true
			}
		}}
		at := time.Now().UTC()
		began := at.Add(-time.Minute)
		finding := func(p *catalog.Pathology, by string) diagnose.Finding {
			return diagnose.Finding{Pathology: p, Model: "m", Status: diagnose.Firing, Severity: p.Severity,
				Targets: []string{"a:1"}, Since: began, InhibitedBy: by}
		}
		see := func(findings ...diagnose.Finding) {
			a.Observe(t.Context(), judged.evaluate(at, findings...))
			at = at.Add(15 * time.Second)
		}
		for range 5 {
			see(finding(cause, ""), finding(symptom, cause.ID))
		}
		if tt.restarts {
			judged.restart(t, cause, symptom, other)
		}
		for range 3 {
			see(finding(tt.rest, ""))
		}
		for range 20 {
			see()
		}
		if got := slices.Sorted(maps.Keys(told)); !slices.Equal(got, tt.want) {
			t.Errorf("%s is found after the end, restarted: %t: told of %q, want %q", tt.rest.ID, tt.restarts, got,
				tt.want)
		}
	}
}

// TestAnAlertEndsWithItsIncident: while another fault fires, a fault that is only suspected is not over, for its alert as
// for its incident. What was over is not told again when only a milder fault of its incident returns.
func TestAnAlertEndsWithItsIncident(t *testing.T) {
	down := &catalog.Pathology{ID: "down", Alert: "Down", Severity: catalog.Page}
	other := &catalog.Pathology{ID: "errors", Alert: "Errors", Severity: catalog.Ticket}
	hot := &catalog.Pathology{ID: "hot", Alert: "Hot", Severity: catalog.Ticket}
	for _, restarts := range []bool{false, true} {
		judged, at := newRecords(down, other, hot), time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
		var told []string
		active := map[string]bool{}
		a := &Alerter{Incident: judged.find, Send: func(list ...collect.Alert) {
			for _, al := range list {
				key := al.Labels["pathology"] + " " + al.Labels["severity"]
				if on := al.Ends.After(at); on != active[key] {
					active[key] = on
					told = append(told, fmt.Sprint(key, " ", on))
				}
			}
		}}
		finding := func(p *catalog.Pathology, status diagnose.Status, since time.Time) diagnose.Finding {
			return diagnose.Finding{Pathology: p, Model: "m", Status: status, Severity: p.Severity,
				Targets: []string{"a:1"}, Since: since}
		}
		see := func(lasts time.Duration, findings ...diagnose.Finding) {
			for range lasts / (15 * time.Second) {
				a.Observe(t.Context(), judged.evaluate(at, findings...))
				at = at.Add(15 * time.Second)
			}
		}
		began := at.Add(-time.Second)
		hotNow := finding(hot, diagnose.Firing, began.Add(-20*time.Minute))
		see(2*time.Minute, finding(down, diagnose.Firing, began), finding(other, diagnose.Firing, at), hotNow)
		see(3*time.Minute, hotNow, finding(down, diagnose.Pending, began))
		see(time.Minute, finding(down, diagnose.Firing, began))
		see(100 * time.Second)
		must.Equal(t, []string{"hot ticket true", "down page true", "errors ticket true", "errors ticket false",
			"hot ticket false", "down page false"}, told)
		if told = nil; restarts {
			judged.restart(t, down, other, hot)
		}
		see(3*time.Minute, finding(other, diagnose.Firing, at))
		must.Equal(t, []string{"errors ticket true"}, told)
	}
}

// TestAnAlertOfAServerThatNamesItsModelEnds: a server was down from the beginning; now it serves and tells its model.
func TestAnAlertOfAServerThatNamesItsModelEnds(t *testing.T) {
	down := &catalog.Pathology{ID: "down", Alert: "Down", Severity: catalog.Page}
	at := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	var last collect.Alert
	a := &Alerter{Send: func(list ...collect.Alert) {
		for _, al := range list {
			last = al
		}
	}}
	d := diagnose.Diagnosis{
		Targets: []diagnose.Target{{Name: "a:1", Labels: map[string]string{"instance": "a:1", "namespace": "prod"}}},
		Verdicts: []diagnose.Verdict{{ID: down.ID, Status: diagnose.Firing, Severity: catalog.Page,
			All: []string{"a:1"}}},
		Findings: []diagnose.Finding{{Pathology: down, Status: diagnose.Firing, Severity: catalog.Page,
			Targets: []string{"a:1"}, Since: at}},
	}
	a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
	d.Targets = []diagnose.Target{{Name: "a:1", Labels: map[string]string{"instance": "a:1", "namespace": "prod",
		"model_name": "m"}}}
	d.Verdicts = []diagnose.Verdict{{ID: diagnose.Healthy, Status: diagnose.OK, Model: "m", All: []string{"a:1"}}}
	d.Findings = nil
	for range 8 {
		at = at.Add(15 * time.Second)
		a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
	}
	if last.Ends.After(at) {
		t.Errorf("the alert goes on until %s, at %s", last.Ends, at)
	}
}

// TestModelsOfOneName: a model that two clusters serve is two, each with all its replicas, and
// the alert of one ends with its fault.
func TestModelsOfOneName(t *testing.T) {
	store := embeddedtest.New(t)
	const interval = 5 * time.Second
	began := time.Unix(1_800_000_000, 0).UTC()
	goesOn := false
	var at time.Time
	a := &Alerter{Send: func(list ...collect.Alert) {
		for _, al := range list {
			if al.Labels["pathology"] == "target-down" {
				goesOn = al.Ends.After(at)
				if al.Labels["cluster"] != "b" || al.Labels["model_name"] != "m" {
					t.Errorf("%v", al.Labels)
				}
			}
		}
	}}
	fired := false
	for i := range 120 {
		at = began.Add(time.Duration(i) * interval)
		dead := i > 30 && i < 60
		for c, cluster := range []string{"a", "b"} {
			for r := range 3 {
				target := embedded.Target{Instance: fmt.Sprintf("10.0.0.%d:8000", r), Job: "vllm",
					Labels: map[string]string{"cluster": cluster, "namespace": "prod"}}
				page := strings.NewReplacer("N", fmt.Sprint(500*i+7*r+c), "R", fmt.Sprint(5*i+r), "B", fmt.Sprintf("%d.%d", 1_700_000_000+100*c+r, 123+c)).Replace(`
vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} N
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} R
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} R
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} R
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} R
process_start_time_seconds B
`)
				if dead && cluster == "b" && r == 1 {
					must.Succeed(t, store.AppendFailure(target, at))
				} else {
					embeddedtest.Append(t, store, target, at, page)
				}
			}
		}
		if i < 20 || i%3 > 0 {
			continue
		}
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: began, Interval: interval, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		e := &Evaluation{At: at, Diagnosis: d}
		a.Observe(t.Context(), e)
		fired = fired || goesOn
		for _, partial := range []bool{false, true} {
			if partial {
				e.Diagnosis.MarkPartial(0.5, "some queries had no answer")
			}
			o := NewOverview(e, interval, at, nil, nil)
			if len(o.Models) != 2 {
				t.Fatalf("%d models", len(o.Models))
			}
			for _, m := range o.Models {
				if len(m.Replicas) != 3 || m.Model != "m" || m.Namespace != "prod" || partial &&
					m.Verdict.Status == view.Healthy {
					t.Fatalf("partial: %t, %s in %s on %s has %d replicas, with the verdict %s", partial, m.Model,
						m.Namespace, m.Cluster, len(m.Replicas), m.Verdict.ID)
				}
			}
		}
	}
	if !fired || goesOn {
		t.Errorf("the alert fired: %t; ongoing when all is well: %t", fired, goesOn)
	}
}

// TestAlertsWait: a ticket is sent when its fault has lasted as long as its pathology says, and
// a page at once; but one whose alert rule waits, when it is there a scrape later.
func TestAlertsWait(t *testing.T) {
	began := time.Now()
	for _, tt := range []struct {
		severity catalog.Severity
		waits    time.Duration
		want     int // evaluations, 15 s apart
	}{
		{catalog.Ticket, time.Minute, 5},
		{catalog.Page, time.Minute, 3},
		{catalog.Page, 0, 1},
	} {
		p := &catalog.Pathology{ID: "slow-decode", Alert: "SlowDecode", Severity: catalog.Page, For: tt.waits}
		sent := 0
		a := &Alerter{Send: func(list ...collect.Alert) { sent = len(list) }}
		for i := 1; sent == 0 && i <= 8; i++ {
			a.Observe(t.Context(), &Evaluation{At: began.Add(time.Duration(i) * 15 * time.Second),
				Diagnosis: diagnose.Diagnosis{
					Interval: 30 * time.Second,
					Targets: []diagnose.Target{{Name: "a:1",
						Labels: map[string]string{"instance": "a:1", "model_name": "m"}}},
					Verdicts: []diagnose.Verdict{{ID: p.ID, Status: diagnose.Firing, Model: "m", All: []string{"a:1"}}},
					Findings: []diagnose.Finding{{Pathology: p, Model: "m", Status: diagnose.Firing,
						Severity: tt.severity,
						Targets:  []string{"a:1"}, Since: began, Wait: p.For}},
				}})
			if sent > 0 && i != tt.want {
				t.Errorf("a %s is sent after %d evaluations, want %d", tt.severity, i, tt.want)
			}
		}
		if sent == 0 {
			t.Errorf("a %s is not sent", tt.severity)
		}
	}
}

// TestAnAlertIsNamedAfterWhatItIsAbout: the engine of the servers that a finding is on, one alert for each; a gateway;
// and vLLM where nobody knows.
func TestAnAlertIsNamedAfterWhatItIsAbout(t *testing.T) {
	target := func(name string, id engine.ID) diagnose.Target {
		return diagnose.Target{Name: name, Dialect: dialect.Dialect{Engine: id},
			Labels: map[string]string{"instance": name, "model_name": "m"}}
	}
	all := []diagnose.Target{target("v:1", dialect.VLLM), target("s:1", dialect.SGLang), target("t:1", "trtllm"),
		target("g:1", dialect.Gateway), target("gpu:1", dialect.DCGM)}
	server := &catalog.Pathology{ID: "slow-decode", Alert: "SlowDecode", Severity: catalog.Page,
		When: catalog.Above(indicator.ITLP95, &catalog.Threshold{})}
	gateway := &catalog.Pathology{ID: "gateway-errors", Alert: "Errors", Severity: catalog.Page,
		When: catalog.Above(indicator.GatewayHeld, &catalog.Threshold{})}
	gpu := &catalog.Pathology{ID: "gpu-hardware-errors", Alert: "HardwareErrors", Severity: catalog.Page,
		When: catalog.Above(indicator.GPUUtil, &catalog.Threshold{})}
	for _, tt := range []struct {
		of   *catalog.Pathology
		on   []string
		want []string
	}{
		{server, []string{"v:1"}, []string{"VLLMSlowDecode"}},
		{server, []string{"s:1"}, []string{"SGLangSlowDecode"}},
		{server, []string{"t:1"}, []string{"TensorRTLLMSlowDecode"}},
		{server, []string{"s:1", "v:1"}, []string{"SGLangSlowDecode", "VLLMSlowDecode"}},
		{server, nil, []string{"VLLMSlowDecode"}},
		{gateway, []string{"g:1"}, []string{"LLMGatewayErrors"}},
		{gateway, []string{"v:1"}, []string{"LLMGatewayErrors"}}, // of one upstream
		{gpu, []string{"gpu:1"}, []string{"GPUHardwareErrors"}},
	} {
		var got []string
		a := &Alerter{Send: func(list ...collect.Alert) {
			for _, al := range list {
				if name := al.Labels["alertname"]; !slices.Contains(got, name) {
					got = append(got, name)
				}
			}
		}}
		d := diagnose.Diagnosis{
			Targets:  all,
			Verdicts: []diagnose.Verdict{{ID: tt.of.ID, Status: diagnose.Firing, Model: "m", All: []string{"v:1"}}},
			Findings: []diagnose.Finding{{Pathology: tt.of, Model: "m", Status: diagnose.Firing, Severity: catalog.Page,
				Targets: tt.on}},
		}
		for i := range 4 {
			a.Observe(t.Context(), &Evaluation{At: time.Date(2026, 5, 1, 12, 0, 15*i, 0, time.UTC), Diagnosis: d})
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("%s on %v: %v, want %v", tt.of.ID, tt.on, got, tt.want)
		}
	}
}

// TestAlertsOutliveTheMonitor: what went on when the monitor ended goes on until its model is judged, or
// has had no server for an hour.
func TestAlertsOutliveTheMonitor(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	began := at.Add(-time.Hour)
	for name, tt := range map[string]struct {
		verdicts []diagnose.Verdict
		goesOn   time.Duration
	}{
		"unknown": {[]diagnose.Verdict{{Status: diagnose.Unknown, Model: "llama", All: []string{"a:1"}}},
			90 * time.Minute},
		"well": {[]diagnose.Verdict{{Status: diagnose.OK, Model: "llama", All: []string{"a:1"}}}, time.Minute},
		"gone": {nil, time.Hour},
	} {
		var last collect.Alert
		a := &Alerter{Send: func(list ...collect.Alert) {
			for _, al := range list {
				last = al
			}
		}}
		a.Restore([]collect.Alert{{Labels: map[string]string{
			"alertname": "VLLMTargetDown", "pathology": "target-down", "severity": "page", "model_name": "llama"},
			Began: began, Path: "/incident/1"}}, at)
		d := diagnose.Diagnosis{Targets: []diagnose.Target{
			{Name: "a:1", Labels: map[string]string{"instance": "a:1", "model_name": "llama"}}}, Verdicts: tt.verdicts}
		wentOn := time.Duration(0)
		for now := at; now.Sub(at) <= 90*time.Minute; now = now.Add(15 * time.Second) {
			a.Observe(t.Context(), &Evaluation{At: now, Diagnosis: d})
			if last.Ends.After(now) {
				wentOn = now.Sub(at)
			}
		}
		if !last.Began.Equal(began) || wentOn < tt.goesOn-time.Minute || wentOn > tt.goesOn {
			t.Errorf("%s: the alert of %s went on for %s, want that of %s for %s", name, last.Began, wentOn, began,
				tt.goesOn)
		}
	}
}

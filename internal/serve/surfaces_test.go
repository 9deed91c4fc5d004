package serve_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/health/healthreport"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
	"github.com/sixty-dev/sixty/internal/serve"
	"github.com/sixty-dev/sixty/internal/top"
)

// usuallyPlayed are the scenarios whose surfaces are compared in every run; SIXTY_SURFACES=full compares all of them.
var usuallyPlayed = []string{"kv-cache-thrashing", "engine-hung", "target-down", "slow-decode", "http-errors"}

func surfacesAreFull() bool { return os.Getenv("SIXTY_SURFACES") == "full" }

// every is how often a monitor judges.
const every = 15 * time.Second

// stage is a scenario that a monitor watches, in virtual time.
type stage struct {
	*serve.Judge
	t     *testing.T
	name  string
	store *embedded.Store
	told  map[string]collect.Alert // by name
}

// playServed lets a scenario happen, each of whose faults lasts, and is over; and then another one's servers in the
// place of its own, which are started half a minute later. look is called after each evaluation.
func playServed(
	t *testing.T, sc fleet.Scenario, interval time.Duration, predict diagnose.Predictor,
	look func(s *stage, phase int, since time.Duration), then ...fleet.Scenario,
) {
	t.Helper()
	store, err := embedded.Open(embedded.Config{})
	must.Succeed(t, err)
	t.Cleanup(func() { store.Close() })
	s := &stage{t: t, name: sc.Name, store: store, told: map[string]collect.Alert{}}
	s.Judge = serve.NewJudge(t, store, diagnose.Options{Pathologies: pathologies.All(), Predict: predict}, every,
		func(list ...collect.Alert) {
			for _, a := range list {
				s.told[a.Labels["pathology"]] = a
			}
		})
	s.play(sc, interval, look)
	for _, sc := range then {
		<-time.After(30 * time.Second)
		s.play(sc, interval, look)
	}
}

// play lets one scenario happen from now on.
func (s *stage) play(sc fleet.Scenario, interval time.Duration, look func(s *stage, phase int, since time.Duration)) {
	t, store := s.t, s.store
	t.Helper()
	sc.Interval = interval
	began := time.Now()
	ends := make([]time.Duration, len(sc.Phases))
	for i := range sc.Phases {
		ends[i] = sc.Phases[i].For
		if i > 0 {
			ends[i] += ends[i-1]
		}
	}
	must.Succeed(t, fleet.Play(t.Context(), sc, fleet.DefaultRelease, 1, began, func(p fleet.Scrape) error {
		<-time.After(time.Until(p.At))
		target := embedded.Target{Instance: p.Target, Job: "vllm"}
		var err error
		if p.Body == nil {
			err = store.AppendFailureAfter(target, p.At, p.Took)
		} else {
			_, err = store.Append(target, p.At, p.Body, fleet.ContentType, p.Took)
		}
		if at := p.At.Sub(began); p.Target == fleet.ExporterTarget && at > 2*interval && at%every < interval {
			s.Monitor.Evaluate(t.Context(), p.At)
			must.Succeed(t, s.Incidents.WaitForEvidence(t.Context()))
			phase := slices.IndexFunc(ends, func(end time.Duration) bool { return at < end })
			since := at
			if phase > 0 {
				since -= ends[phase-1]
			}
			look(s, phase, since)
		}
		return err
	}, nil))
}

// lasting makes the faults of a scenario last, and adds that they are over.
func lasting(sc fleet.Scenario) fleet.Scenario {
	sc.Phases = slices.Clone(sc.Phases)
	sc.Phases[0].For = 3 * time.Minute
	last := &sc.Phases[len(sc.Phases)-1]
	last.For = max(last.For, 6*time.Minute)
	well := sc.Phases[0]
	well.Name, well.For = "recovered", 7*time.Minute
	sc.Phases = append(sc.Phases, well)
	return sc
}

// get is what a path answers.
func (s *stage) get(path string) string {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://sixty.example"+path, nil))
	if w.Code != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

func (s *stage) read(path string, into any) {
	s.t.Helper()
	must.Succeed(s.t, json.Unmarshal([]byte(s.get(path)), into))
}

// call is what a tool answers to an assistant.
func (s *stage) call(tool string) string {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://sixty.example/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var answer struct {
		Result struct {
			Content []struct{ Text string }
		}
	}
	_, body, _ := strings.Cut(w.Body.String(), "data: ")
	if err := json.NewDecoder(strings.NewReader(cmp.Or(body, w.Body.String()))).Decode(&answer); err != nil ||
		len(answer.Result.Content) == 0 {
		s.t.Fatalf("%s: %v: %d %s", tool, err, w.Code, w.Body)
	}
	return answer.Result.Content[0].Text
}

// terminal is sixty top of the monitor.
type terminal struct {
	top.Feed
	s *stage
}

func (f terminal) Name() string { return "http://sixty.example" }

func (f terminal) Overview(context.Context) (o view.Overview, err error) {
	f.s.read("/api/v1/overview", &o)
	return o, nil
}

func (f terminal) Span() (first, last time.Time) { return }

func titleOf(id string) string {
	for _, p := range pathologies.All() {
		if p.ID == id {
			return p.Name()
		}
	}
	return diagnose.NameOf(id)
}

// diagnosed is what a diagnosis' JSON says of a verdict.
type diagnosed struct {
	Verdict struct {
		ID, Severity, Status, Summary string
		Since                         *time.Time
		Targets                       []string
	}
	Findings []struct {
		ID, Status, Severity, Summary string
		Since                         *time.Time
		Targets                       []string
		Fixes                         []struct{ Summary string }
	}
}

// agree compares what every surface says with the incident.
func (s *stage) agree(moment string) {
	s.t.Helper()
	var open []view.Incident
	s.read("/api/v1/incidents?state=open", &open)
	var o view.Overview
	s.read("/api/v1/overview", &o)
	s.agreeClosed(moment)
	if len(open) == 0 {
		if o.Models[0].Verdict.Status == view.Firing && o.Models[0].Verdict.Severity != "info" {
			s.t.Errorf("%s %s: %s without an incident", s.name, moment, o.Models[0].Verdict.ID)
		}
		return
	}
	k := slices.IndexFunc(open, func(i view.Incident) bool {
		return o.Models[0].Incident != nil &&
			i.ID == *o.Models[0].Incident
	})
	if k < 0 {
		s.t.Errorf("%s %s: the overview has incident %v, open are %d", s.name, moment, o.Models[0].Incident, len(open))
		return
	}
	is := open[k]
	differs := func(surface, what string, got, want any) {
		s.t.Helper()
		if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
			s.t.Errorf("%s %s: %s: %s is %q, the incident says %q", s.name, moment, surface, what, a, b)
		}
	}
	lacks := func(surface, text string, wants ...string) {
		s.t.Helper()
		s.says(moment, surface, text, wants...)
	}
	var one view.Incident
	s.read("/api/v1/incidents/"+is.ID, &one)
	differs("incident", "the record", js(one.Summary), js(is.Summary))
	fix, since := "", is.Began
	if at, known := is.Since[is.Pathology]; known {
		since = at
	}
	if is.Advice != nil && len(is.Advice.Fixes) > 0 {
		fix = is.Advice.Fixes[0].Summary
	}
	if r := []rune(fix); len(r) > 60 {
		fix = string(r[:60]) // a screen has no room for more
	}
	severity := map[view.Phase]string{view.Failing: "page", view.Degraded: "ticket"}[is.Phase]
	name := titleOf(is.Pathology)
	scope := ""
	if is.Servers > 1 {
		scope = fmt.Sprintf("%d of %d", len(is.Affected), is.Servers)
	}
	differs("overview", "phase", o.Models[0].Phase, is.Phase)
	if is.Pathology == "http-errors" && is.Phase == view.Failing {
		lacks("the first fix of a page about 5xx", fix, "tracebacks")
	}
	for _, name := range is.Affected {
		if !slices.ContainsFunc(o.Models[0].Replicas, func(r view.Replica) bool { return r.Target == name }) ||
			is.Servers > 0 && len(is.Affected) > is.Servers {
			s.t.Errorf("%s %s: it is on %q of %d servers", s.name, moment, is.Affected, is.Servers)
		}
	}

	failing := is.Phase == view.Failing || is.Phase == view.Degraded
	if v := o.Models[0].Verdict; failing && v.Status == view.Firing {
		differs("overview", "name", v.ID, is.Pathology)
		differs("overview", "since", v.Since, &since)
		differs("overview", "severity", v.Severity, severity)
		differs("overview", "summary", v.Summary, is.Summary.Summary)
		for _, path := range []string{"/api/v1/diagnosis",
			"/api/v1/diagnosis?at=" + time.Now().UTC().Format(time.RFC3339)} {
			var d diagnosed
			s.read(path, &d)
			differs(path, "name", d.Verdict.ID, is.Pathology)
			differs(path, "since", d.Verdict.Since, &since)
			differs(path, "severity", d.Verdict.Severity, severity)
			differs(path, "scope", d.Verdict.Targets, is.Affected)
			if path == "/api/v1/diagnosis" {
				differs(path, "summary", d.Verdict.Summary, is.Summary.Summary)
			}
			if i := slices.IndexFunc(d.Findings, func(f struct {
				ID, Status, Severity, Summary string
				Since                         *time.Time
				Targets                       []string
				Fixes                         []struct{ Summary string }
			},
			) bool {
				return f.ID == is.Pathology && f.Status == "firing"
			}); i < 0 {
				s.t.Errorf("%s %s: %s has no finding of %s", s.name, moment, path, is.Pathology)
			} else if fix != "" {
				lacks(path+": first fix", d.Findings[i].Fixes[0].Summary, fix)
			}
		}
		fresh := s.diagnosePrometheus()
		differs("diagnose --prometheus", "name", fresh.Verdict.ID, is.Pathology)
		if f := fresh.LeadingFinding(&fresh.Verdict); f != nil {
			differs("diagnose --prometheus", "since", f.Since.UTC(), since)
			differs("diagnose --prometheus", "severity", f.Severity, severity)
			differs("diagnose --prometheus", "summary", f.Summary, is.Summary.Summary)
			differs("diagnose --prometheus", "scope", f.Targets, is.Affected)
			if fix != "" {
				lacks("diagnose --prometheus: first fix", f.Fixes[0].Summary, fix)
			}
		}
		s.agreeWhatIf(moment, &is)
		s.inOrder(moment, &is)
		clock := since.UTC().Format("15:04:05")
		for surface, text := range map[string]string{"text": s.get("/api/v1/diagnosis?format=text"),
			"MCP diagnose": s.call("diagnose")} {
			lacks(surface, text, name, fix, clock, is.Summary.Summary, is.Story)
		}
		a, ok := s.told[is.Pathology]
		if seen := time.Since(one.Evolution[0].At); !ok && severity == "page" && seen > time.Minute {
			s.t.Errorf("%s %s: nobody was told of a page that was found %s ago", s.name, moment, seen)
		}
		if ok && a.Ends.After(time.Now()) {
			differs("alert", "since", a.Began.UTC(), since)
			differs("alert", "severity", a.Labels["severity"], severity)
			differs("alert", "path", a.Path, "/incident/"+is.ID)
			lacks("alert", a.Annotations["description"], strings.TrimRight(fix, "."), scope)
			if lines := strings.Split(a.Annotations["description"], "\n"); len(lines) > 2 ||
				len(strings.Fields(lines[0])) > 60 {
				s.t.Errorf("%s %s: a notification is longer than whom it hurts and what to do:\n%s", s.name, moment,
					a.Annotations["description"])
			}
		}
		var b bytes.Buffer
		_, err := top.PrintOnce(s.t.Context(), &b, terminal{s: s}, render.Options{Width: 200})
		must.Succeed(s.t, err)
		lacks("top", b.String(), o.Models[0].Title, fix, clock, is.Summary.Summary)
		lacks("page", s.get("/"), o.Models[0].Title, fix, is.Summary.Summary, string(is.Phase), clock)
	}
	report := s.report()
	lacks("report", report, string(is.Phase), is.Title, scope)
	if failing && o.Models[0].Verdict.Status == view.Firing {
		lacks("report", report, string(is.Phase)+" at the end", is.Summary.Summary)
	}
	lacks("MCP incidents", s.call("incidents"), is.Pathology, string(is.Phase), since.UTC().Format(time.RFC3339), fix,
		scope, is.Story)
	lacks("page of the incident", s.get("/incident/"+is.ID), is.Title, fix, is.Summary.Summary, is.Story,
		string(is.Phase), is.Began.UTC().Format("15:04:05"))
	post := s.get("/api/v1/incidents/" + is.ID + "/postmortem")
	lacks("post-mortem", post, name, is.Began.UTC().Format("2006-01-02 15:04:05 UTC"), fix, scope, is.Story,
		string(is.Phase))
	if is.Impact != nil {
		for surface, text := range map[string]string{
			"post-mortem": post, "report": report, "MCP incidents": s.call("incidents"),
			"page of the incident": s.get("/incident/" + is.ID),
		} {
			lacks(surface, text, is.Impact.Text)
		}
	}
	if one.Diagnosis != nil {
		var kept diagnosed
		must.Succeed(s.t, json.Unmarshal(one.Diagnosis, &kept))
		differs("stored diagnosis", "name", kept.Verdict.ID, is.Pathology)
	}
}

// says checks that a surface says some texts, however it breaks lines.
func (s *stage) says(moment, surface, text string, wants ...string) {
	s.t.Helper()
	flat := strings.ReplaceAll(strings.Join(strings.Fields(html.UnescapeString(text)), " "), `\`, "")
	for _, want := range wants {
		if want = strings.Join(strings.Fields(want), " "); !strings.Contains(strings.ToLower(flat),
			strings.ToLower(want)) {
			s.t.Errorf("%s %s: %s does not say %q", s.name, moment, surface, want)
		}
	}
}

// agreeClosed compares what is said of incidents that are over.
func (s *stage) agreeClosed(moment string) {
	s.t.Helper()
	var closed []view.Incident
	s.read("/api/v1/incidents?state=closed", &closed)
	for _, is := range closed {
		if is.Phase != view.Closed || is.Ended == nil || is.ClosesAt != nil || is.QuietSince != nil {
			s.t.Errorf("%s %s: %s", s.name, moment, js(is.Summary))
			continue
		}
		ended := is.Ended.UTC()
		s.says(moment, "MCP incidents", s.call("incidents"), "closed at "+view.FormatTime(ended), is.Story)
		s.says(moment, "post-mortem", s.get("/api/v1/incidents/"+is.ID+"/postmortem"),
			"closed at "+view.FormatTime(ended), is.Story, is.Summary.Summary)
		s.says(moment, "page of the incident", s.get("/incident/"+is.ID), is.Title, "closed", is.Story,
			is.Summary.Summary)
		s.says(moment, "report", s.report(), is.Title, "for "+render.Seconds(ended.Sub(is.Began).Seconds()))
	}
}

// report is sixty report of the monitor, in full.
func (s *stage) report() string {
	s.t.Helper()
	var all []view.Summary
	s.read("/api/v1/incidents", &all)
	now := s.diagnosePrometheus()
	find := func(id string) *view.Summary {
		return &all[slices.IndexFunc(all, func(i view.Summary) bool { return i.ID == id })]
	}
	r, err := health.Measure(s.t.Context(), s.store, health.Config{
		From: now.At.Add(-10 * time.Minute), To: now.At, Interval: now.Interval, Incidents: all,
		Now: monitor.NewOverview(&monitor.Evaluation{At: now.At, Diagnosis: now}, every, now.At, nil, find).Models,
	})
	must.Succeed(s.t, err)
	var b bytes.Buffer
	must.Succeed(s.t, healthreport.Document(r).Markdown(&b))
	return b.String()
}

// diagnosePrometheus is what sixty diagnose --prometheus says of the monitor.
func (s *stage) diagnosePrometheus() diagnose.Diagnosis {
	s.t.Helper()
	from := source.OfCollector("the simulated cluster", s.store)
	o, err := from.Options(s.t.Context(), time.Now())
	must.Succeed(s.t, err)
	o.Pathologies = pathologies.All()
	d, err := from.Diagnose(s.t.Context(), o)
	must.Succeed(s.t, err)
	var open []view.Summary
	s.read("/api/v1/incidents?state=open", &open)
	incident.Conform(&d, o.Pathologies, open)
	return d
}

// agreeWhatIf asks what the cure of an incident would do, and compares the answer with what the advice predicts.
func (s *stage) agreeWhatIf(moment string, is *view.Incident) {
	s.t.Helper()
	if is.Advice == nil || is.Advice.Predicted == nil || is.Advice.Applied != nil {
		return
	}
	for _, f := range is.Advice.Fixes {
		ask := view.WhatIf{Model: is.Model, Change: view.Change{Flags: map[string]string{}}}
		for _, c := range f.Changes {
			ask.Change.Flags[c.Flag] = c.To
		}
		if f.Stops || f.Replicas > 1 || len(f.Changes) == 0 ||
			slices.ContainsFunc(f.Changes, func(c catalog.Change) bool { return c.To == "" }) {
			continue
		}
		r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://sixty.example/api/v1/simulate",
			strings.NewReader(js(ask)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		var answer view.WhatIfAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			s.t.Errorf("%s %s: what if %q: %d %s", s.name, moment, f.Summary, w.Code, w.Body)
			continue
		}
		for _, x := range is.Advice.Expected {
			if got, known := answer.Changed[x.Signal]; known && x.Unit == string(indicator.Seconds) &&
				(got.Low != x.Low || got.High != x.High) {
				s.t.Errorf("%s %s: what if: %s is %g to %g, the advice says %g to %g", s.name, moment, x.Title, got.Low,
					got.High, x.Low, x.High)
			}
		}
	}
}

// inOrder checks that no link of what leads to what began after one that it leads to.
func (s *stage) inOrder(moment string, is *view.Incident) {
	s.t.Helper()
	var d struct {
		Findings []struct {
			ID, Status string
			Chain      []struct {
				Says  string
				Since *time.Time
			}
		}
	}
	s.read("/api/v1/diagnosis", &d)
	for _, f := range d.Findings {
		if f.ID != is.Pathology || f.Status != "firing" {
			continue
		}
		since := is.SinceOf(is.Pathology)
		if n := len(f.Chain); n > 0 && f.Chain[0].Since != nil && f.Chain[0].Since.After(since) &&
			f.Chain[0].Since.Sub(since) < every {
			s.t.Errorf("%s %s: it began at %s, and its first link at %s", s.name, moment, since, f.Chain[0].Since)
		}
		for i, cause := range f.Chain {
			for _, effect := range f.Chain[i+1:] {
				if cause.Since != nil && effect.Since != nil && cause.Since.After(*effect.Since) {
					s.t.Errorf("%s %s: %q began at %s, and %q, to which it leads, at %s",
						s.name, moment, cause.Says, cause.Since, effect.Says, effect.Since)
				}
			}
		}
	}
}

func js(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestEverySurfaceSaysTheSame asks every surface half a minute, a minute and a half and five minutes after the onset of
// every scenario's fault, and after it is over.
func TestEverySurfaceSaysTheSame(t *testing.T) {
	all, err := fleet.Scenarios(pathologies.All())
	must.Succeed(t, err)
	intervals := []time.Duration{every}
	if surfacesAreFull() {
		intervals = []time.Duration{5 * time.Second, every}
	}
	for _, sc := range all {
		if len(sc.Phases) < 2 || sc.Name == diagnose.Idle || !surfacesAreFull() &&
			!slices.Contains(usuallyPlayed, sc.Name) {
			continue
		}
		for _, interval := range intervals {
			t.Run(fmt.Sprintf("%s every %s", sc.Name, interval), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					sc := lasting(sc)
					found := slices.ContainsFunc(pathologies.All(), func(p *catalog.Pathology) bool {
						return p.ID == sc.Name && (p.Severity < catalog.Ticket ||
							p.ID == "metrics-slow") // worth knowing, and no incident
					})
					var last *stage
					playServed(t, sc, interval, planning.PredictFixes, func(s *stage, phase int, since time.Duration) {
						last = s
						sick, well := phase == len(sc.Phases)-2, phase == len(sc.Phases)-1
						found = found || len(s.Incidents.List(keeper.Query{State: "open"})) > 0 || len(s.told) > 0
						for _, after := range []time.Duration{30 * time.Second, 90 * time.Second, 5 * time.Minute} {
							if (sick || well) && since >= after && since < after+every {
								s.agree(fmt.Sprintf("%s after %s", sc.Phases[phase].Name, after))
							}
						}
					})
					for _, i := range last.Incidents.List(keeper.Query{}) {
						last.recorded(i.ID, i.Pathology)
					}
					if !found {
						t.Errorf("%s was not found", sc.Name)
					}
				})
			})
		}
	}
}

// TestAHangThatIsEndedByARestartStaysAHang: the servers of a hang are restarted after twelve minutes, as advised. The
// incident keeps its name, has the restart as an event, and closes; its evidence still shows the hang.
func TestAHangThatIsEndedByARestartStaysAHang(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{5 * time.Second, every} {
		synctest.Test(t, func(t *testing.T) {
			sc, err := fleet.FindScenario(pathologies.All(), "engine-hung")
			must.Succeed(t, err)
			sc = lasting(sc)
			hang, well := &sc.Phases[len(sc.Phases)-2], sc.Phases[len(sc.Phases)-1]
			hang.For = 12 * time.Minute
			down := *hang
			down.Name, down.For, down.Faults = "restarted", 40*time.Second, fleet.Faults{Down: true}
			well.For = 6 * time.Minute
			sc.Phases = append(sc.Phases[:len(sc.Phases)-1], down, well)
			var last *stage
			playServed(t, sc, interval, planning.PredictFixes, func(s *stage, phase int, since time.Duration) {
				last = s
				if phase >= len(sc.Phases)-2 {
					s.agree(fmt.Sprintf("%s after %s", sc.Phases[phase].Name, since))
				}
			})
			var all []view.Incident
			last.read("/api/v1/incidents", &all)
			if len(all) != 1 || all[0].Pathology != "engine-hung" || all[0].Phase != view.Closed ||
				!slices.ContainsFunc(all[0].Events, func(e view.Event) bool { return e.Kind == "restarted" }) {
				t.Fatalf("every %s: %s", interval, js(all))
			}
			if all[0].Impact == nil || all[0].Impact.Late == 0 {
				t.Errorf("every %s: nobody was hurt by a hang: %s", interval, js(all[0].Impact))
			}
			post := last.get("/api/v1/incidents/" + all[0].ID + "/postmortem")
			for _, want := range []string{"# Post-mortem: Engine hung", "was restarted", "**Phase**: closed at"} {
				if !strings.Contains(post, want) {
					t.Errorf("every %s: the post-mortem lacks %q:\n%s", interval, want, post)
				}
			}
			last.recorded(all[0].ID, "engine-hung")
		})
	}
}

// TestWhatCameAfterARestartWithOtherFlagsIsMeasured: servers that thrash are started again with twice the KV cache, as
// an FP8 one gives, and get less to do: the record has what came beside what was predicted.
func TestWhatCameAfterARestartWithOtherFlagsIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sc, err := fleet.FindScenario(pathologies.All(), "kv-cache-thrashing")
		must.Succeed(t, err)
		sc = lasting(sc)
		sc.Phases = sc.Phases[:len(sc.Phases)-1] // nothing is over by itself
		again := sc
		again.Settings.NumBlocks *= 2
		again.Phases = slices.Clone(sc.Phases[:1])
		predict := func(_ context.Context, _ metrics.Querier, _ diagnose.Request, _ *diagnose.Snapshot,
			d *diagnose.Diagnosis) {
			for i := range d.Findings[0].Fixes {
				d.Findings[0].Fixes[i].Predicted = &catalog.Prediction{
					Benefit: catalog.Estimate{Value: 2, Low: 2, High: 2},
					Effects: []catalog.Effect{{Signal: indicator.TTFTP95, Measured: indicator.Known(7),
						After: catalog.Estimate{Value: 1, Low: 0.5, High: 2}}},
				}
			}
		}
		var last *stage
		var before view.Advice
		playServed(t, sc, every, predict, func(s *stage, _ int, _ time.Duration) {
			last = s
			var open []view.Incident
			if s.read("/api/v1/incidents?state=open", &open); len(open) > 0 && open[0].Advice != nil &&
				open[0].Advice.Applied == nil {
				before = *open[0].Advice
			}
		}, again)
		var all []view.Incident
		last.read("/api/v1/incidents", &all)
		if again.Settings.NumBlocks == 0 || len(before.Expected) == 0 || len(all) != 1 || all[0].Advice == nil ||
			all[0].Advice.Applied == nil {
			t.Fatalf("expected %v; then %s", before.Expected, js(all))
		}
		for i, x := range all[0].Advice.Expected {
			if was := before.Expected[i]; was.Came != nil || x.Came == nil || x.Low != was.Low || x.High != was.High {
				t.Errorf("%s: predicted %g to %g, came %s; before the restart %s", x.Title, x.Low, x.High, js(x.Came),
					js(was))
			}
			if x.Signal == "ttft_p95" && (x.Came == nil || x.Before == nil || *x.Came > *x.Before/2) {
				t.Errorf("TTFT P95 came out at %s, from %s", js(x.Came), js(x.Before))
			}
		}
	})
}

// recorded diagnoses the recording of an incident, which gives its verdict and its fix.
func (s *stage) recorded(id, want string) {
	s.t.Helper()
	from, err := source.Open(s.t.Context(), source.Spec{Recording: filepath.Join(s.Dir, id, "evidence.tar.zst")})
	must.Succeed(s.t, err)
	defer from.Close()
	o, err := from.Options(s.t.Context(), from.Span().Last)
	must.Succeed(s.t, err)
	o.Pathologies = pathologies.All()
	d, err := from.Diagnose(s.t.Context(), o)
	must.Succeed(s.t, err)
	var one view.Incident
	s.read("/api/v1/incidents/"+id, &one)
	var kept diagnosed
	must.Succeed(s.t, json.Unmarshal(one.Diagnosis, &kept))
	if d.Verdict.ID != want {
		s.t.Errorf("%s: the recording gives %s (%s), want %s; stored %s", s.name, d.Verdict.ID, d.Verdict.Summary, want,
			kept.Verdict.ID)
		return
	}
	if one.Advice == nil {
		return
	}
	f := d.LeadingFinding(&d.Verdict)
	if f == nil || len(f.Fixes) == 0 || f.Fixes[0].Key() != one.Advice.Fixes[0].Key() {
		s.t.Errorf("%s: the recording advises %s, the incident %s", s.name,
			js(report.FixesJSON(f.Fixes[:min(1, len(f.Fixes))])), js(one.Advice))
	}
}

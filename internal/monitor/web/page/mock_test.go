package page_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web/page"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// A monitor stands in for the real one: what it says of the model "tiny" is a real
// diagnosis of a recording of a real server, with real answers to PromQL; the rest of its
// fleet is made up.
type monitor struct {
	*known
	t        testing.TB
	incident view.Incident
	page     http.Handler
	began    time.Time

	mu        sync.Mutex
	state     view.State
	problems  []string
	healthy   bool          // nothing fires
	uncertain bool          // whether the incident's model is healthy is not certain
	other     string        // the name of another model, "" where there is none
	replicas  int           // of the simulated model
	made      int           // PromQL is answered with so many simulated replicas, 0 where the recording answers
	away      bool          // it answers nothing but 503
	every     float64       // seconds between two evaluations
	skipped   time.Duration // its clock is ahead by so much
	listeners map[chan string]bool
}

// The recording's own past: the monitor began when the last scrape was.
const incidentFile = "../../../../testdata/incident.tar.zst"

const hostile = `</script><img src=x onerror="window.hostile=1"><script>window.hostile=2</script>`

// Known is what the monitors of all tests know: the diagnosis takes seconds.
type known struct {
	source   *source.Source
	interval time.Duration
	end      time.Time
	last     diagnose.Diagnosis
	written  []byte // as JSON
	panels   dashboard.Panels
}

var learnt = sync.OnceValues(func() (*known, error) {
	ctx := context.Background()
	s, err := source.Open(ctx, source.Spec{Recording: incidentFile}) // closed with the process
	if err != nil {
		return nil, err
	}
	k := &known{source: s, end: s.Span().Last}
	o, err := s.Options(ctx, k.end)
	if err != nil {
		return nil, err
	}
	o.Pathologies, o.Predict, k.interval = pathologies.All(), planning.PredictFixes, o.Interval
	if k.last, err = s.Diagnose(ctx, o); err != nil {
		return nil, err
	}
	if err := k.last.Plot(ctx, s); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := report.JSON(&b, k.last, report.Options{}); err != nil {
		return nil, err
	}
	k.written = b.Bytes()
	d, err := dialect.Named("vllm-0.23.0")
	if err != nil {
		return nil, err
	}
	k.panels, err = dashboard.NewPanels(dashboard.Config{Deployment: dialect.Deployment{Dialects: []dialect.Dialect{d}}},
		k.interval, false)
	return k, err
})

func newMonitor(t testing.TB) *monitor {
	t.Helper()
	k, err := learnt()
	must.Succeed(t, err)
	m := &monitor{t: t, known: k, began: time.Now(), state: view.OK, replicas: 24, every: 15,
		listeners: map[chan string]bool{}}
	v := &m.last.Verdict
	c := v.Confidence
	m.incident = view.Incident{
		Summary: view.Summary{
			ID: v.Since.Format("2006-01-02-1504-") + v.ID, Model: "tiny", Pathology: v.ID,
			Title: "KV cache thrashing: requests come faster", Severity: "page", Summary: v.Summary, Began: v.Since,
			Phase: view.Failing, Affected: v.Targets, Servers: 1, Targets: v.Targets, Notes: []view.Note{},
			HasRecording: true,
			Advice:       &view.Advice{At: v.Since, Pathology: v.ID, Fixes: m.last.LeadingFinding(v).Fixes},
		},
		Evolution: []view.Turn{
			{At: v.Since.Add(10 * time.Second), ID: "saturation", Severity: "ticket", Summary: "More work arrives than the server can do", Confidence: ptr(0.5)},
			{At: v.Since.Add(25 * time.Second), ID: v.ID, Severity: "page", Summary: v.Summary, Confidence: &c},
		},
		Diagnosis: k.written,
		Kept:      view.Kept{Evidence: report.EvidenceRows(m.last.LeadingFinding(v).Evidence, false)},
		Similar: &view.Similar{Note: "the same pathology on the same model", Summary: view.Summary{
			ID: "2026-11-17-0412-kv-cache-thrashing", Began: v.Since.Add(-4 * 24 * time.Hour),
			Ended: ptr(v.Since.Add(-4*24*time.Hour + 23*time.Minute)), Pathology: v.ID,
			Notes: []view.Note{{By: "Ada", At: v.Since.Add(-4 * 24 * time.Hour), Text: "Four replicas helped."}},
		}},
	}
	m.page, err = page.New(page.Config{
		Titles:   diagnose.Names(pathologies.All()),
		Overview: func(context.Context) view.Overview { return m.overview() },
		Incident: func(_ context.Context, id string) (view.Incident, bool) {
			return m.whole(), id == m.incident.ID
		},
	})
	must.Succeed(t, err)
	return m
}

// apart has the incident's model served by prefill and decode servers, of which a decode server is the one that
// is ill, and KV caches that fail to arrive.
func (m *monitor) apart() {
	var d map[string]any
	must.Succeed(m.t, json.Unmarshal(m.written, &d))
	d["deployments"] = json.RawMessage(`[{"model": "tiny", "first_token": 1.84, "stages": [
		{"role": "router", "targets": ["epp:9090"], "lost": 0, "waiting": null, "seconds": 0.02, "findings": []},
		{"role": "prefill", "targets": ["p-0:8000", "p-1:8000"], "lost": 1, "waiting": 3, "seconds": 0.42, "findings": []},
		{"role": "decode", "targets": ["127.0.0.1:8100"], "lost": 0, "waiting": 7, "seconds": 1.4, "findings": ["kv-cache-thrashing"]}
	], "links": [
		{"carries": "requests", "seconds": null, "fail_share": null, "findings": []},
		{"carries": "KV cache", "seconds": 0.3, "fail_share": 0.25, "findings": ["kv-transfer-failing"]}
	]}]`)
	written, err := json.Marshal(d)
	must.Succeed(m.t, err)
	own := *m.known // the recording's is shared
	own.written = written
	m.known, m.incident.Diagnosis = &own, written
}

// whole is the incident as the monitor answers it.
func (m *monitor) whole() view.Incident {
	i := m.incident
	i.Timeline = (&incident.Record{Summary: i.Summary, Evolution: i.Evolution}).Timeline(names)
	return i
}

// names are those of verdicts.
var names = diagnose.Names(pathologies.All())

func ptr[T any](v T) *T { return &v }

// set changes what the monitor says, and tells the pages.
func (m *monitor) set(change func()) {
	m.mu.Lock()
	change()
	m.mu.Unlock()
	m.tell()
}

func (m *monitor) tell() {
	raw, err := json.Marshal(m.overview())
	if err != nil {
		m.t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.listeners {
		select {
		case l <- string(raw):
		default: // it is slow, and will have the next one
		}
	}
}

// now is the monitor's time; the caller holds the lock.
func (m *monitor) now() time.Time { return m.end.Add(time.Since(m.began) + m.skipped).UTC() }

// overview is what the monitor has to say.
func (m *monitor) overview() view.Overview {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := view.Overview{Schema: view.OverviewSchema, At: m.now(), EvaluatedS: 0.2, EveryS: m.every, State: m.state,
		Problems: slices.Clone(m.problems), Models: []view.Model{}}
	if o.Problems == nil {
		o.Problems = []string{}
	}
	if m.state == view.Starting {
		return o
	}
	v := &m.last.Verdict
	tiny := view.Model{Model: "tiny", Verdict: view.Verdict{
		ID: "healthy", Status: view.Healthy, Summary: "Nothing is wrong"}}
	r := view.Replica{
		Target: m.last.Targets[0].Name, Labels: map[string]string{
			"instance": m.last.Targets[0].Labels["instance"], "job": "vllm"}, Engine: "vllm", Version: "0.23.0",
		Status: view.Healthy, Life: "serving",
		Now: view.Numbers{TTFTP95: ptr(0.3), KVCacheUsage: ptr(0.4), RequestsRunning: ptr(3.0),
			RequestsWaiting: ptr(0.0)},
		Normal: view.Numbers{TTFTP95: ptr(0.02), KVCacheUsage: ptr(0.1), RequestsRunning: ptr(0.6),
			RequestsWaiting: ptr(0.0)},
	}
	if !m.healthy {
		tiny.Verdict = view.Verdict{ID: v.ID, Status: view.Firing, Severity: "page", Summary: v.Summary,
			Since: &v.Since, Confidence: &v.Confidence}
		tiny.Incident = &m.incident.ID
		r.Status, r.Pathology, r.Severity, r.Reason, r.Since = view.Firing, v.ID, "page", v.Summary, &v.Since
		r.Now = view.Numbers{TTFTP95: ptr(2.35), ITLP95: ptr(0.0097), KVCacheUsage: ptr(0.98),
			RequestsRunning: ptr(7.7), RequestsWaiting: ptr(4.2), RequestRate: ptr(3.6), OutputTokensRate: ptr(1120.0)}
	}
	if m.healthy && m.incident.Phase == view.Quiet {
		tiny.Incident, tiny.Phase = &m.incident.ID, view.Quiet
	}
	if m.uncertain {
		const waits = "14 requests wait, and nobody got a first token for 20 s on 127.0.0.1:8100"
		tiny.Verdict, tiny.Incident = view.Verdict{ID: "not-certain", Status: view.Pending,
			Summary: "Not certain yet: " + waits, Confidence: ptr(0.5)}, nil
		r.Status, r.Pathology, r.Severity, r.Reason, r.Since = view.Pending, "", "", waits, nil
		r.Now.RequestsWaiting = ptr(14.0)
	}
	tiny.Replicas = []view.Replica{r}
	o.Models = append(o.Models, tiny, fleet(m.replicas, m.healthy))
	if m.other != "" {
		h := tiny
		h.Model, h.Namespace = m.other, m.other
		h.Verdict.Summary, h.Replicas = m.other, slices.Clone(tiny.Replicas)
		h.Replicas[0].Target, h.Replicas[0].Reason, h.Replicas[0].Labels = m.other, m.other,
			map[string]string{"instance": m.other}
		o.Models = append(o.Models, h)
	}
	for i := range o.Models {
		on := 0
		for _, r := range o.Models[i].Replicas {
			if r.Pathology == o.Models[i].Verdict.ID {
				on++
			}
		}
		o.Models[i].Describe(cmp.Or(names[o.Models[i].Verdict.ID], diagnose.NameOf(o.Models[i].Verdict.ID)), on,
			len(o.Models[i].Replicas))
	}
	o.Doubt()
	return o
}

// fleet is a model with many replicas, two of them sick and one odd.
func fleet(n int, healthy bool) view.Model {
	random := rand.New(rand.NewPCG(1, 2))
	m := view.Model{Model: "qwen3-32b", Namespace: "prod", Cluster: "eu-west-1",
		Verdict:  view.Verdict{ID: "healthy", Status: view.Healthy, Summary: "Nothing is wrong", Confidence: ptr(0.9)},
		Replicas: []view.Replica{}}
	for i := range n {
		load := 0.8 + 0.4*random.Float64()
		r := view.Replica{
			Target: fmt.Sprintf("10.0.%d.%d:8000", i/200, i%200+1),
			Labels: map[string]string{"job": "vllm", "pod": fmt.Sprintf("qwen-%d", i)}, Engine: "vllm",
			Version: "0.31.0", Status: view.Healthy, Life: "serving",
			Now: view.Numbers{
				TTFTP95: ptr(0.31 * load), ITLP95: ptr(0.024 * load), RequestsRunning: ptr(math.Round(22 * load)),
				RequestsWaiting: ptr(0.0), KVCacheUsage: ptr(0.55 * load),
				RequestRate: ptr(3.1 * load), OutputTokensRate: ptr(910 * load),
			},
			Normal: view.Numbers{TTFTP95: ptr(0.3), ITLP95: ptr(0.024), RequestsRunning: ptr(22.0),
				RequestsWaiting: ptr(0.0), KVCacheUsage: ptr(0.55), RequestRate: ptr(3.1),
				OutputTokensRate: ptr(900.0)},
		}
		r.Labels["instance"] = r.Target
		switch {
		case healthy:
		case i == n/2: // slow, and nothing fires yet
			r.Now.TTFTP95, r.Now.ITLP95 = ptr(0.84), ptr(0.061)
		case i == n/3:
			r.Status, r.Pathology, r.Severity, r.Reason = view.Pending, "slow-decode", "ticket",
				"Decode steps take 2.1× as long as on its neighbours"
			r.Now.ITLP95 = ptr(0.052)
		case i == n-3:
			r.Status, r.Life, r.Reason, r.Now = view.Down, "lost", "It does not answer: connection refused",
				view.Numbers{}
		case i == n-5:
			r.Status, r.Reason, r.Now = view.Idle, "No requests",
				view.Numbers{RequestsRunning: ptr(0.0), RequestsWaiting: ptr(0.0), KVCacheUsage: ptr(0.0),
					RequestRate: ptr(0.0)}
		}
		m.Replicas = append(m.Replicas, r)
	}
	return m
}

func (m *monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	away := m.away
	m.mu.Unlock()
	path, api := strings.CutPrefix(r.URL.Path, "/api/v1/")
	if !api {
		m.page.ServeHTTP(w, r)
		return
	}
	if away {
		http.Error(w, "", http.StatusServiceUnavailable)
		return
	}
	first, id, _ := strings.Cut(path, "/")
	switch {
	case path == "events":
		m.events(w, r)
	case path == "overview":
		answer(w, m.overview())
	case path == "panels":
		answer(w, m.panels)
	case path == "diagnosis":
		answer(w, json.RawMessage(m.written))
	case path == "query_range":
		m.query(w, r)
	case path == "incidents":
		answer(w, []view.Summary{m.incident.Summary})
	case first == "incidents":
		m.one(w, r, id)
	case first == "runbooks":
		runbook(w, id)
	case path == "simulate":
		simulate(w, r)
	case path == "audit":
		http.ServeFile(w, r, "testdata/audit.json")
	case path == "settings":
		answer(w, map[string]any{
			"version": map[string]any{"version": "devel", "go": "go1.26", "platform": "linux/amd64"},
			"source":  "this monitor", "evaluation_interval_s": 15, "scrape_interval_s": 5,
			"configuration": "global:\n  evaluation_interval: 1m\nscrape_configs:\n  - job_name: vllm\n    static_configs:\n      - targets: [localhost:8000]\n",
			"thresholds":    map[string]any{"ttft_objective": 2, "kv_cache_full": 0.9},
			"storage":       map[string]any{"directory": "data", "retention_s": 15 * 86400, "retention_bytes": 0},
			"alertmanagers": []string{"http://am:9093/api/v2/alerts"}, "login": false,
			"targets": []any{map[string]any{"Labels": map[string]string{"instance": "localhost:8000", "job": "vllm"},
				"URL": "http://localhost:8000/metrics", "Health": "up", "Error": "", "At": m.now()}},
		})
	default:
		fail(w, http.StatusNotFound, "there is no "+path, "")
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, status int, text, hint string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(view.Error{Error: text, Hint: hint})
}

func (m *monitor) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	l := make(chan string, 4)
	m.mu.Lock()
	m.listeners[l] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.listeners, l)
		m.mu.Unlock()
	}()
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case o := <-l:
			fmt.Fprintf(w, "event: overview\ndata: %s\n\n", o)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func (m *monitor) one(w http.ResponseWriter, r *http.Request, path string) {
	id, action, _ := strings.Cut(path, "/")
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != m.incident.ID {
		fail(w, http.StatusNotFound, "there is no incident "+id, "list them at /api/v1/incidents")
		return
	}
	var body struct {
		By, Text string
		Hours    float64
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.By == "" ||
			r.Header.Get("Content-Type") != "application/json" {
			fail(w, http.StatusBadRequest, "say who you are", "")
			return
		}
	}
	switch action {
	case "acknowledge":
		m.incident.Acknowledged = &view.Acknowledgement{By: body.By, At: m.now()}
	case "silence":
		m.incident.Notes = append(m.incident.Notes, view.Note{
			By: body.By, At: m.now(), Text: "Silenced in Alertmanager"})
	case "notes":
		m.incident.Notes = append(m.incident.Notes, view.Note{By: body.By, At: m.now(), Text: body.Text})
	}
	answer(w, m.whole())
}

func runbook(w http.ResponseWriter, id string) {
	list := []view.Runbook{}
	for _, p := range pathologies.All() {
		r := view.Runbook{ID: p.ID, Title: p.Title, Severity: p.Severity.String(), Summary: p.Title}
		if p.ID == id {
			html, err := render.MarkdownHTML(p.Runbook)
			if err != nil {
				fail(w, http.StatusInternalServerError, err.Error(), "")
				return
			}
			r.HTML, r.Markdown = string(html), p.Runbook
			answer(w, r)
			return
		}
		list = append(list, r)
	}
	if id != "" {
		fail(w, http.StatusNotFound, "there is no runbook "+id, "")
		return
	}
	answer(w, list)
}

// simulate answers as a queue would: later under more load.
func simulate(w http.ResponseWriter, r *http.Request) {
	var q view.WhatIf
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "")
		return
	}
	if q.Change.Flags["--max-num-seqs"] == "0" {
		fail(w, http.StatusConflict,
			"the simulation cannot reproduce the present: TTFT P95 is measured at 2.35 s and simulated at 0.4 s",
			"watch the server for longer")
		return
	}
	replicas := max(q.Change.Replicas, 1)
	load := 0.7 * q.Change.ArrivalRateFactor * (0.2*q.Change.PromptFactor +
		0.8*q.Change.OutputFactor) / float64(replicas)
	side := func(u float64) map[string]catalog.Estimate {
		late := 1 / max(1-u, 0.03)
		e := func(v, spread float64) catalog.Estimate {
			return catalog.Estimate{Value: v, Low: v * (1 - spread), High: v * (1 + 1.6*spread)}
		}
		return map[string]catalog.Estimate{
			"ttft_p50": e(0.06*late, 0.1), "ttft_p95": e(0.2*late*late, 0.25), "itl_p95": e(0.008+0.004*u, 0.05),
			"e2e_mean":           e(1.8*late, 0.1),
			"output_tokens_rate": e(1600*min(u, 1), 0.04), "requests_rate": e(4*min(u, 1), 0.04),
			"kv_cache_usage": e(min(u, 1), 0.05), "preemptions_rate": e(max(0, u-0.9), 0.4),
		}
	}
	answer(w, view.WhatIfAnswer{
		Schema: view.WhatIfSchema, Basis: "Calibrated on the last 60 s: 190 requests",
		Warnings: []string{"The step time beyond a batch of 8 is extrapolated"},
		Settings: view.Settings{Replicas: 1, Flags: map[string]string{
			"--max-num-seqs": "256", "--gpu-memory-utilization": "0.9", "--max-num-batched-tokens": ""}},
		Present: side(0.7), Changed: side(load), Command: "sixty simulate --replicas " + fmt.Sprint(replicas),
	})
}

// query answers PromQL, from the recording or from what is made up.
func (m *monitor) query(w http.ResponseWriter, r *http.Request) {
	number := func(name string) float64 { v, _ := strconv.ParseFloat(r.FormValue(name), 64); return v }
	at := func(name string) time.Time { return time.UnixMilli(int64(number(name) * 1000)) }
	step := time.Duration(number("step") * float64(time.Second))
	m.mu.Lock()
	made := m.made
	m.mu.Unlock()
	type series struct {
		Metric map[string]string `json:"metric"`
		Values [][2]any          `json:"values"`
	}
	var result any
	if made > 0 {
		list := []series{}
		for i := range made {
			s := series{Metric: map[string]string{"instance": fmt.Sprintf("10.0.0.%d:8000", i+1),
				"model_name": "qwen3-32b"}}
			if strings.Contains(r.FormValue("query"), "by (le)") {
				s.Metric = map[string]string{"le": fmt.Sprint(math.Pow(2, float64(i)))}
			}
			for t := at("start"); !t.After(at("end")); t = t.Add(step) {
				x := float64(t.Unix())
				s.Values = append(s.Values, [2]any{x, fmt.Sprint(0.5 + 0.3*math.Sin(x/9000+float64(i)) +
					0.05*math.Sin(x/300*float64(i+1)))})
			}
			list = append(list, s)
		}
		result = list
	} else {
		matrix, err := m.source.QueryRange(r.Context(), r.FormValue("query"),
			metrics.Range{Start: at("start"), End: at("end"), Step: step})
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error(), "")
			return
		}
		result = matrix
	}
	answer(w, map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
}

var serve = flag.String("serve", "",
	"serve the page of a simulated monitor at this `address` until interrupted, for looking at it")

// TestServe is for looking at the page: go test ./internal/monitor/web/page -run TestServe -serve 127.0.0.1:7060
// -timeout 0.
func TestServe(t *testing.T) {
	if *serve == "" {
		t.Skip("for looking at the page: -serve 127.0.0.1:7060")
	}
	m := newMonitor(t)
	m.replicas = 200
	if os.Getenv("SIXTY_PAGE_MADE") != "" {
		m.made = 20
	}
	l, err := net.Listen("tcp", *serve)
	must.Succeed(t, err)
	go func() {
		for range time.Tick(5 * time.Second) {
			m.tell()
		}
	}()
	states := map[string]func(){
		"healthy": func() { m.healthy = true }, "sick": func() { m.healthy = false },
		"hostile": func() { m.other = hostile }, "uncertain": func() { m.healthy, m.uncertain = true, true },
		"partial": func() {
			m.state, m.problems = view.Partial, []string{
				"the store at http://thanos:9090 answers in part: store-7 unavailable"}
		},
		"ok": func() { m.state, m.problems = view.OK, nil }, "starting": func() { m.state = view.Starting },
		"away": func() { m.away = true }, "back": func() { m.away = false },
	}
	mux := http.NewServeMux()
	mux.Handle("/", m)
	mux.HandleFunc("/mock/{state}", func(_ http.ResponseWriter, r *http.Request) {
		if f := states[r.PathValue("state")]; f != nil {
			m.set(f)
		}
	})
	t.Logf("http://%s and /mock/{healthy,sick,uncertain,hostile,partial,ok,starting,away,back}", l.Addr())
	t.Log(http.Serve(l, mux)) //nolint:gosec // on the loopback address, for a person
}

// start serves a monitor for a test.
func start(t testing.TB) (*monitor, string) {
	t.Helper()
	m := newMonitor(t)
	s := httptest.NewServer(m)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return m, s.URL
}

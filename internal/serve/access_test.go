package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/serve"
)

// teams is a monitor of two teams' servers, of one model, behind a proxy that says who asks.
type teams struct {
	*running
	served *web.Server
	others []string // what names the servers of team B
	log    string
	ids    map[string]string // of the open incident, by namespace
}

const grants = `
sixty:
  access:
    proxy: {trusted: [127.0.0.1/32], user_header: X-User, groups_header: X-Groups}
    audit_log: audit.jsonl
    grants:
    - {groups: [sre], role: admin}
    - {users: [olga], role: operator}
    - {groups: [alpha], role: viewer, match: '{team="a"}'}
    - {groups: [alpha-oncall], role: operator, match: '{team="a"}'}
`

// ask sends a request as somebody; "" is nobody.
func (m *teams) ask(who, method, path, body string) (int, string) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), method, m.url+path, strings.NewReader(body))
	must.Succeed(m.t, err)
	as(r, who)
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	} else if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	must.Succeed(m.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.Succeed(m.t, err)
	if resp.Header.Get("Content-Type") == "application/zstd" {
		d, err := zstd.NewReader(nil)
		must.Succeed(m.t, err)
		defer d.Close()
		text, err = d.DecodeAll(text, nil)
		must.Succeed(m.t, err)
	}
	return resp.StatusCode, string(text)
}

func as(r *http.Request, who string) {
	name, group, _ := strings.Cut(who, "/")
	if name != "" {
		r.Header.Set("X-User", name)
		r.Header.Set("X-Groups", "staff, "+group)
	}
}

const (
	viewer  = "vera/alpha"
	onCall  = "otto/alpha-oncall"
	general = "olga/"
	admin   = "ada/sre"
)

func newTeams(t *testing.T) *teams {
	m := &teams{ids: map[string]string{}}
	var jobs strings.Builder
	jobs.WriteString("scrape_configs:\n- job_name: vllm\n  static_configs:\n")
	var fleets []*fleet.Fleet
	for _, team := range []string{"a", "b"} {
		fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 1, Warm: 2 * time.Minute})
		must.Succeed(t, err)
		t.Cleanup(func() { _ = fl.Close() })
		fleets = append(fleets, fl)
		address := strings.TrimPrefix(fl.URLs()[0], "http://")
		fmt.Fprintf(&jobs, "  - {targets: [%q], labels: {team: %s, namespace: squad-%s}}\n", address, team, team)
		if team == "b" {
			m.others = []string{address, "squad-b", `"team":"b"`, `team="b"`}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "sixty.yaml")
	m.log = filepath.Join(dir, "audit.jsonl")
	must.Succeed(t, os.WriteFile(file, []byte(jobs.String()+grants), 0o600))
	m.running = start(t, func(c *serve.Config) {
		c.File = file
		c.OnServed(func(s *web.Server) { m.served = s })
	})
	m.until("two deployments", func() bool { return len(m.overviewOf(admin).Models) == 2 })
	for _, fl := range fleets {
		must.Succeed(t, fl.Close())
	}
	m.until("two incidents with recordings", func() bool {
		clear(m.ids)
		var list []view.Summary
		_, body := m.ask(admin, "GET", "/api/v1/incidents", "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		for _, i := range list {
			if i.HasRecording {
				m.ids[i.Namespace] = i.ID
			}
		}
		return len(m.ids) == 2
	})
	return m
}

func (m *teams) overviewOf(who string) (o view.Overview) {
	m.t.Helper()
	status, body := m.ask(who, "GET", "/api/v1/overview", "")
	if err := json.Unmarshal([]byte(body), &o); err != nil || status != http.StatusOK {
		m.t.Fatalf("overview of %s: %d %v in %s", who, status, err, body)
	}
	return o
}

// conceals fails where an answer names what is team B's.
func (m *teams) conceals(what, body string) {
	m.t.Helper()
	body = strings.ReplaceAll(body, m.ids["squad-a"], "") // which may begin with the other's: begun in one minute
	for _, other := range append(m.others, m.ids["squad-b"]) {
		if at := strings.Index(body, other); at >= 0 {
			m.t.Errorf("%s shows team A %q: … %.200s", what, other, body[max(0, at-100):])
		}
	}
}

// requests are of every route, with the incidents of both teams where it has one.
func (m *teams) requests() (out [][3]string) {
	bodies := map[string]string{
		"acknowledge": `{"by":"x"}`, "notes": `{"by":"x","text":"y"}`, "silence": `{"by":"x","hours":1}`,
		"simulate": `{"model":"","change":{"replicas":2}}`,
	}
	for _, pattern := range m.served.Patterns() {
		method, path, with := strings.Cut(pattern, " ")
		if !with {
			method, path = "GET", pattern
		}
		path = strings.ReplaceAll(path, "{id}", "target-down")
		if path == "/debug/pprof/profile" || path == "/debug/pprof/trace" {
			path += "?seconds=1"
		}
		if path != "/api/v1/events" {
			out = append(out, [3]string{method, path, bodies[filepath.Base(path)]})
		}
	}
	for _, id := range m.ids {
		path := "/api/v1/incidents/" + id
		out = append(out, [3]string{"GET", path, ""}, [3]string{"GET", path + "/recording", ""},
			[3]string{"GET", path + "/postmortem", ""}, [3]string{"GET", "/incident/" + id, ""})
		for _, deed := range []string{"acknowledge", "notes", "silence"} {
			out = append(out, [3]string{"POST", path + "/" + deed, bodies[deed]})
		}
	}
	for _, format := range []string{"json", "text", "markdown", "html"} {
		out = append(out, [3]string{"GET", "/api/v1/diagnosis?plots=true&full=true&format=" + format, ""},
			[3]string{"GET", "/api/v1/diagnosis?at=-5s&format=" + format, ""})
	}
	for _, page := range []string{"/incidents", "/explore", "/fleet", "/whatif", "/audit", "/settings",
		"/runbooks/target-down"} {
		out = append(out, [3]string{"GET", page, ""})
	}
	for _, expr := range []string{
		`up`, `{__name__=~".+"}`, `up{team="b"}`, `up{team=~".*"}`, `up or on() vector(1)`,
		`label_replace(up, "x", "$1", "instance", "(.*)")`, `count by (instance) (up)`,
		`max_over_time(up[1h:1s])`, `up offset 1s`, `up @ end()`,
		`sum by (namespace) (rate({__name__=~".+_total"}[30s]))`, `topk(100, {job="vllm"})`, `-up`, `sixty_finding`,
		`ALERTS`, `info(up)`,
	} {
		q := url.Values{"query": {expr}, "start": {fmt.Sprint(time.Now().Add(-time.Minute).Unix())},
			"end": {fmt.Sprint(time.Now().Unix())}, "step": {"5"}}.Encode()
		for _, path := range []string{"query", "query_range", "query_exemplars", "parse_query", "format_query"} {
			out = append(out, [3]string{"GET", "/api/v1/" + path + "?" + q, ""},
				[3]string{"POST", "/api/v1/" + path, q}, [3]string{"POST", "/api/v1/" + path + "?" + q, "query=up"})
		}
		match := url.Values{"match[]": {expr, `up`}}.Encode()
		for _, path := range []string{"series", "labels", "label/instance/values", "label/namespace/values",
			"label/team/values"} {
			out = append(out, [3]string{"GET", "/api/v1/" + path + "?" + match, ""},
				[3]string{"POST", "/api/v1/" + path, match}, [3]string{"GET", "/api/v1/" + path, ""})
		}
	}
	for _, path := range []string{
		"targets", "targets?state=active", "rules", "alerts", "metadata", "targets/metadata", "alertmanagers",
		"scrape_pools", "status/config", "status/flags", "status/tsdb", "status/runtimeinfo", "status/walreplay",
		"read", "write", "admin/tsdb/snapshot", "features", "notifications", "notifications/live",
		"targets/relabel_steps?scrapePool=vllm", "status/tsdb/blocks", "/query?query=up", "query/?query=up",
		"label/instance%2fvalues",
	} {
		out = append(out, [3]string{"GET", "/api/v1/" + path, ""}, [3]string{"POST", "/api/v1/" + path, "query=up"})
	}
	call := func(method, params string) [3]string {
		return [3]string{"POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method,
			params)}
	}
	for _, tool := range []string{"diagnose", "incidents", "explain"} {
		out = append(out, call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool)))
	}
	return append(out, call("tools/call", `{"name":"signal","arguments":{"name":"requests_running"}}`),
		call("tools/call", `{"name":"simulate","arguments":{}}`),
		call("tools/call", `{"name":"diagnose","arguments":{"at":"-5s","full":true}}`))
}

// TestEveryRouteAsksForItsRole walks all routes as nobody, as a viewer and an operator of team A, who see
// nothing of team B, as an operator of everything, and as an admin.
func TestEveryRouteAsksForItsRole(t *testing.T) {
	m := newTeams(t)
	deed := regexp.MustCompile(`/(acknowledge|notes|silence)$|^/-/reload`)
	requests := m.requests()
	if len(requests) < 300 {
		t.Fatalf("only %d requests", len(requests))
	}
	for _, q := range requests {
		method, path, body := q[0], q[1], q[2]
		name := method + " " + path
		of := func(id string) bool { return strings.Contains(path, id+"/") || strings.HasSuffix(path, id) }
		said := func(text string) string { // but what the request names itself
			for _, id := range m.ids {
				if of(id) {
					text = strings.ReplaceAll(text, id, "")
				}
			}
			return strings.ReplaceAll(text, path, "")
		}
		open := strings.HasPrefix(path, "/-/healthy") || strings.HasPrefix(path, "/-/ready")
		if status, text := m.ask("", method, path, body); (status != http.StatusUnauthorized) != open {
			t.Errorf("%s as nobody: %d %.100s", name, status, text)
		}
		if status, text := m.ask("eve/strangers", method, path, body); (status != http.StatusForbidden) != open {
			t.Errorf("%s as somebody without a role: %d %.100s", name, status, text)
		}
		status, text := m.ask(viewer, method, path, body)
		if m.conceals(name, said(text)); deed.MatchString(path) && status != http.StatusForbidden {
			t.Errorf("%s as a viewer: %d %.100s", name, status, text)
		}
		if !strings.HasPrefix(path, "/-/reload") {
			status, text = m.ask(onCall, method, path, body)
			m.conceals(name+" as an operator", said(text))
		}
		if of(m.ids["squad-b"]) && status != http.StatusNotFound {
			t.Errorf("%s as another team's operator: %d %.100s", name, status, text)
		}
		if strings.HasPrefix(path, "/debug/") {
			if status, _ := m.ask(general, method, path, body); status != http.StatusForbidden {
				t.Errorf("%s as an operator: %d", name, status)
			}
		}
		if status, text := m.ask(admin, method, path, body); status == http.StatusUnauthorized ||
			status == http.StatusForbidden {
			t.Errorf("%s as an admin: %d %.100s", name, status, text)
		}
	}
	m.partIsSeen()
	m.eventsOfATeam()
	m.deedsAreLogged()
}

// partIsSeen: a team sees what is its own.
func (m *teams) partIsSeen() {
	o := m.overviewOf(viewer)
	if len(o.Models) != 1 || o.Models[0].Namespace != "squad-a" || len(o.Models[0].Replicas) != 1 ||
		o.Models[0].Verdict.ID != "target-down" || o.Models[0].Incident == nil ||
		*o.Models[0].Incident != m.ids["squad-a"] {
		m.t.Errorf("the overview of team A: %+v", o)
	}
	if o := m.overviewOf(general); len(o.Models) != 2 {
		m.t.Errorf("the overview of an operator of everything: %+v", o)
	}
	// What a team asks is restricted without experimental functions, and its page asks for none.
	for who, together := range map[string]bool{viewer: false, general: true} {
		if status, body := m.ask(who, "GET", "/api/v1/panels", ""); status != http.StatusOK ||
			strings.Contains(body, `"buckets":`) != together {
			m.t.Errorf("panels: %d, percentiles in one question: %t", status, !together)
		}
	}
	own := "/api/v1/incidents/" + m.ids["squad-a"]
	for path, want := range map[string]string{
		"/api/v1/query?query=count(up)": `"1"]`, "/api/v1/label/namespace/values": "squad-a",
		"/api/v1/series?match[]=up": "squad-a", own: "target-down", own + "/recording": ".prom",
		own + "/postmortem": "target-down",
		"/api/v1/settings":  "squad-a",
	} {
		if status, body := m.ask(viewer, "GET", path, ""); status != http.StatusOK || !strings.Contains(body, want) {
			m.t.Errorf("%s as team A: %d %.300s", path, status, body)
		}
	}
	status, body := m.ask(onCall, "POST", own+"/notes", `{"by":"somebody else","text":"seen"}`)
	if status != http.StatusOK || !strings.Contains(body, `"by":"otto"`) {
		m.t.Errorf("a note of team A: %d %s", status, body)
	}
}

// eventsOfATeam: a change of another team's incident is not told.
func (m *teams) eventsOfATeam() {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/api/v1/events", nil)
	must.Succeed(m.t, err)
	as(r, viewer)
	resp, err := http.DefaultClient.Do(r)
	must.Succeed(m.t, err)
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	for told := false; in.Scan(); {
		m.conceals("an event", in.Text())
		if !told { // it listens
			told = true
			for _, team := range []string{"squad-b", "squad-a"} {
				if status, body := m.ask(admin, "POST", "/api/v1/incidents/"+m.ids[team]+"/notes",
					`{"by":"","text":"for `+team+`"}`); status != http.StatusOK {
					m.t.Errorf("a note: %d %s", status, body)
				}
			}
		}
		if strings.Contains(in.Text(), "for squad-a") {
			return
		}
	}
	m.t.Errorf("team A is not told of its own incident: %v", in.Err())
}

// deedsAreLogged: who did what, and who was not let do it.
func (m *teams) deedsAreLogged() {
	text := must.ReadFile(m.t, m.log)
	var all []access.Entry
	for line := range strings.Lines(string(text)) {
		var d access.Entry
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			m.t.Fatalf("%v in %s", err, line)
		}
		all = append(all, d)
	}
	own := "/api/v1/incidents/" + m.ids["squad-a"]
	for _, want := range []access.Entry{
		{User: "otto", Way: "proxy", Role: "operator", View: `{team="a"}`, Method: "POST", Path: own + "/notes", Status: http.StatusOK},
		{User: "vera", Way: "proxy", Role: "viewer", View: `{team="a"}`, Method: "POST", Path: own + "/acknowledge", Status: http.StatusForbidden},
		{User: "vera", Way: "proxy", Role: "viewer", View: `{team="a"}`, Method: "GET", Path: own + "/recording", Status: http.StatusOK},
		{User: "ada", Way: "proxy", Role: "admin", Method: "POST", Path: "/-/reload", Status: http.StatusOK},
		{User: "eve", Way: "proxy", Role: "none", Method: "GET", Path: "/metrics", Status: http.StatusForbidden},
	} {
		if !slices.ContainsFunc(all, func(d access.Entry) bool {
			d.At, d.Address = time.Time{}, ""
			return d == want
		}) {
			m.t.Errorf("not in the audit log: %+v", want)
		}
	}
	if strings.Contains(string(text), "for squad-a") {
		m.t.Error("the audit log holds what somebody wrote")
	}
}

// TestHeadersOfStrangersAreNotBelieved sends the headers of the proxy from elsewhere.
func TestHeadersOfStrangersAreNotBelieved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sixty.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(grants, "127.0.0.1/32", "10.0.0.0/8, fd00::/8", 1)),
		0o600))
	var served *web.Server
	start(t, func(c *serve.Config) {
		c.File, c.Targets = file, []string{"127.0.0.1:1"}
		c.OnServed(func(s *web.Server) { served = s })
	})
	for sender, want := range map[string]int{
		"127.0.0.1:1234": 401, "11.0.0.1:1": 401, "": 401, "10.1.2.3:80": 200, "[::ffff:10.1.2.3]:80": 200,
		"[fd00::1]:80": 200, "[fe80::1%eth0]:80": 401, "10.1.2.3": 401,
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/overview", nil)
		r.RemoteAddr = sender
		as(r, admin)
		w := httptest.NewRecorder()
		if served.ServeHTTP(w, r); w.Code != want {
			t.Errorf("from %q: %d, want %d", sender, w.Code, want)
		}
		r.Header.Add("X-User", "second")
		w = httptest.NewRecorder()
		if served.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("two names from %q: %d", sender, w.Code)
		}
	}
}

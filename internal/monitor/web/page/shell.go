package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// shell is what the page holds before any script runs, and without one.
type shell struct {
	bundle
	config   *Config
	Base     string
	Title    string
	Places   []place
	Doubt    string // why nothing can be called healthy
	Overview view.Overview
	Incident *view.Incident // that is shown, or the first model's
	Head     string         // of it
	Fixes    []shellFix     // of it
	Path     []shellHop     // of its requests, where servers of several roles answer them
	Missing  string         // why there is no such page
	Note     string         // what the view needs a script for
	Models   []shellModel
	Columns  []column
	Replicas []shellReplica
	More     int // replicas that are not in the table
	Runbook  template.HTML
	Answer   any // of the API, where the view is a list
	Loaded   any // the configuration that is in force, of the settings
}

type (
	place struct {
		Path, Title string
		answer      string // the pattern of the API whose answer it lists
		note        string
		replicas    bool // it lists replicas
		Here        bool
	}
	column struct {
		Title string
		unit  indicator.Unit
	}
	shellModel struct {
		*view.Model
		Head, Summary string
		Health        view.Health
	}
	shellReplica struct {
		Target, State string
		Health        view.Health
		Numbers       []string
	}
	// shellFix is a fix of a diagnosis, as its JSON has it.
	shellFix struct{ Summary, Args, Command, Tradeoff, Verify string }
	// shellHop is a stage of a request's path, or what is between two.
	shellHop struct{ Name, State, Found string }
	// shellPath is a path as a diagnosis' JSON has it.
	shellPath struct {
		Model  string
		Stages []struct {
			Role             string
			Targets          []string
			Lost             int
			Waiting, Seconds *float64
			Findings         []string
		}
		Links []struct {
			Carries   string
			Seconds   *float64
			FailShare *float64 `json:"fail_share"`
			Findings  []string
		}
	}
)

// tabled is how many replicas the shell tells of: the script shows all.
const tabled = 100

// places are the paths that the script has views for; those of one thing have its id.
var places = []place{
	{Path: "/", Title: "Overview", replicas: true},
	{Path: "/incidents", Title: "Incidents", answer: "/api/v1/incidents"},
	{Path: "/explore", Title: "Explore", replicas: true},
	{Path: "/fleet", Title: "Fleet", replicas: true},
	{Path: "/whatif", Title: "What if", replicas: true, note: "What if needs JavaScript. In a terminal, sixty simulate URL --replicas 4 gives the same answer; the current state is below."},
	{Path: "/audit", Title: "Audit", note: "The audit needs JavaScript. sixty audit URL prints it."},
	{Path: "/runbooks", Title: "Runbooks", answer: "GET /api/v1/runbooks"},
	{Path: "/settings", Title: "Settings", answer: "GET /api/v1/settings"},
}

// columns are the numbers of a replica, in the order of view.Numbers.
var columns = []column{
	{"TTFT P95", indicator.Seconds}, {"ITL P95", indicator.Seconds}, {"Running", indicator.Requests}, {"Waiting", indicator.Requests},
	{"KV cache", indicator.Ratio}, {"Requests", indicator.RequestsPerSecond}, {"Output", indicator.TokensPerSecond},
}

var doubts = map[view.State]string{
	view.Starting: "No evaluation yet: the first verdict follows after a few scrapes.",
	view.Partial:  "Some data could not be read. What is unknown is not shown as healthy.",
	view.Stale:    "The last evaluation is out of date. Everything below is from that time.",
}

// view is the shell of a path and its status.
func (p *handler) view(r *http.Request) (int, *shell) {
	o := p.Overview(r.Context())
	v := &shell{bundle: p.bundle, config: &p.Config, Base: p.Base, Places: slices.Clone(places), Overview: o}
	if o.State != view.OK {
		v.Doubt = cmp.Or(doubts[o.State], "The state of this data is unknown.")
	}
	first, id, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	name, err := url.PathUnescape(id)
	one := err == nil && id != "" && !strings.Contains(id, "/")
	var at place
	for i := range v.Places {
		if p := &v.Places[i]; p.Path == r.URL.Path || one && p.Path == "/"+strings.TrimSuffix(first, "s")+"s" {
			p.Here, at, v.Title = true, *p, p.Title
		}
	}
	switch {
	case one && first == "incident":
		if v.Title = name; !v.take(p.Incident(r.Context(), name)) {
			v.Missing = "There is no incident " + name + "."
		}
	case one && first == "runbooks":
		var b view.Runbook
		if v.Title = p.title(name); !p.answer(r, "GET /api/v1/runbooks/{id}", name, &b) {
			v.Missing = "There is no runbook " + name + "."
		}
		v.Runbook = template.HTML(b.HTML) //nolint:gosec // the catalogue's own text, rendered by this program
	case v.Title == "" || one:
		v.Title, v.Missing = "Not found", "This page does not exist."
	case at.answer != "":
		p.answer(r, at.answer, "", &v.Answer)
		if set, ok := v.Answer.(map[string]any); ok { // it is long: it comes last, and folded
			v.Loaded = set["configuration"]
			delete(set, "configuration")
		}
	}
	if v.Missing != "" {
		return http.StatusNotFound, v
	}
	if v.Note = at.note; at.replicas {
		v.list(o)
	}
	if at.Path == "/" {
		for i := range o.Models {
			v.Models = append(v.Models, p.model(&o.Models[i], o.State))
		}
		if len(v.Models) > 0 && v.Models[0].Incident != nil && v.take(p.Incident(r.Context(), *v.Models[0].Incident)) {
			v.Fixes = v.Fixes[:min(1, len(v.Fixes))]
		}
	}
	return http.StatusOK, v
}

// answer reads what the API answers to a pattern, and reports whether it does.
func (p *handler) answer(r *http.Request, pattern, id string, into any) bool {
	h := p.Answers[pattern]
	if h == nil {
		return false
	}
	asked := r.Clone(r.Context())
	asked.Method, asked.Header, asked.URL = http.MethodGet, http.Header{}, &url.URL{Path: pattern[strings.Index(pattern, "/"):]}
	asked.SetPathValue("id", id)
	w := recorder{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(&w, asked)
	return w.status == http.StatusOK && json.Unmarshal(w.body.Bytes(), into) == nil
}

// recorder is a response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

// take shows an incident, with the fixes of what it is.
func (v *shell) take(i view.Incident, found bool) bool {
	if !found {
		return false
	}
	v.Incident = &i
	replicas := 0
	for k := range v.Overview.Models {
		if m := &v.Overview.Models[k]; m.Incident != nil && *m.Incident == i.ID {
			replicas = len(m.Replicas)
		}
	}
	v.Head = v.config.headline(i.Pathology, cmp.Or(i.Model, "the server"), len(i.Targets), replicas)
	var d struct {
		Findings []struct {
			ID, Status string
			Fixes      []shellFix
		}
		Deployments []shellPath
	}
	if json.Unmarshal(i.Diagnosis, &d) == nil {
		for _, f := range d.Findings {
			if f.ID == i.Pathology && f.Status == "firing" && v.Fixes == nil {
				v.Fixes = f.Fixes
			}
		}
		for k := range d.Deployments {
			if w := &d.Deployments[k]; v.Path == nil && (w.Model == i.Model || w.Model == "") {
				v.Path = w.hops(v.config.title)
			}
		}
	}
	return true
}

// hops are what the picture of the path shows, as the script draws it.
func (w *shellPath) hops(title func(string) string) (out []shellHop) {
	said := func(format string, v *float64, unit indicator.Unit) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf(format, indicator.FormatNumber(*v, unit))
	}
	add := func(name string, found []string, parts ...string) {
		h := shellHop{Name: render.Clean(name), State: strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")}
		var titles []string
		for _, id := range found {
			titles = append(titles, title(id))
		}
		h.Found = strings.Join(titles, ", ")
		out = append(out, h)
	}
	for i := range w.Stages {
		s := &w.Stages[i]
		if i > 0 && i <= len(w.Links) {
			l := &w.Links[i-1]
			add(l.Carries+" from "+w.Stages[i-1].Role+" to "+s.Role, l.Findings, said("%s", l.Seconds, indicator.Seconds), said("%s fail", l.FailShare, indicator.Ratio))
		}
		servers := render.Plural(len(s.Targets), "server")
		if s.Lost > 0 {
			servers = fmt.Sprintf("%d of %d lost", s.Lost, len(s.Targets))
		}
		takes := "%s to first token"
		if s.Role == "router" {
			takes = "%s held"
		}
		add(s.Role, s.Findings, servers, said("%s waiting", s.Waiting, indicator.Count), said(takes, s.Seconds, indicator.Seconds))
	}
	return out
}

// list adds the replicas of all models with their numbers, the worst first.
func (v *shell) list(o view.Overview) {
	v.Columns = columns
	for i := range o.Models {
		for k := range o.Models[i].Replicas {
			r := &o.Models[i].Replicas[k]
			row := shellReplica{Target: render.Clean(r.Target), Health: health(o.State, r.Status, r.Severity), State: cmp.Or(sentence(r.Reason), strings.TrimSuffix(r.Life, "serving"))}
			if r.Pathology != "" {
				row.State = v.config.title(r.Pathology)
			}
			n := &r.Now
			for i, value := range []*float64{n.TTFTP95, n.ITLP95, n.RequestsRunning, n.RequestsWaiting, n.KVCacheUsage, n.RequestRate, n.OutputTokensRate} {
				name := [...]string{indicator.TTFTP95.Name, indicator.ITLP95.Name, 6: ""}[i]
				row.Numbers = append(row.Numbers, n.Text(name, value, func(v float64) string { return indicator.FormatNumber(v, columns[i].unit) }))
			}
			v.Replicas = append(v.Replicas, row)
		}
	}
	slices.SortStableFunc(v.Replicas, func(a, b shellReplica) int {
		return slices.Index(view.Healths, a.Health) - slices.Index(view.Healths, b.Health)
	})
	v.More = max(0, len(v.Replicas)-tabled)
	v.Replicas = v.Replicas[:len(v.Replicas)-v.More]
}

func (c *Config) model(m *view.Model, state view.State) shellModel {
	name := cmp.Or(m.Model, "the server")
	if m.Model == "" && len(m.Replicas) > 0 {
		name = cmp.Or(m.Replicas[0].Labels["model_name"], name)
	}
	if m.Namespace != "" {
		name += " in " + m.Namespace
	}
	if m.Cluster != "" {
		name += " on " + m.Cluster
	}
	h, summary := health(state, m.Verdict.Status, m.Verdict.Severity), sentence(m.Verdict.Summary)
	if state.Shown(m.Verdict.Status) != m.Verdict.Status {
		summary = "Was: " + summary
	}
	var head string
	switch {
	case m.Verdict.Status == view.Firing:
		on := 0
		for i := range m.Replicas {
			if m.Replicas[i].Pathology == m.Verdict.ID {
				on++
			}
		}
		head = c.headline(m.Verdict.ID, name, on, len(m.Replicas))
	case h == view.HealthUnknown:
		head = name + " is in an unknown state"
	case m.Verdict.Status == view.Idle:
		head = name + " is idle"
	default:
		head = name + " is healthy"
	}
	return shellModel{m, render.Clean(head), summary, h}
}

// headline says what is wrong, and where, as the script does.
func (c *Config) headline(id, name string, on, of int) string {
	switch {
	case of < 2 || on == 0:
		return c.title(id) + " on " + name
	case on == of:
		return fmt.Sprintf("%s on all %d replicas of %s", c.title(id), of, name)
	}
	return fmt.Sprintf("%s on %d of %d replicas of %s", c.title(id), on, of, name)
}

// moment is a time of an answer as the shell writes times.
func moment(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return render.Sentence(render.Clean(s))
}

// health is the state that people are shown: nothing is healthy that is not known to be.
func health(state view.State, s view.Status, severity string) view.Health {
	if h := view.HealthOf(s, severity); h != view.HealthHealthy || state == view.OK {
		return h
	}
	return view.HealthUnknown
}

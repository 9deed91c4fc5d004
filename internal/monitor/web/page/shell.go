package page

import (
	"bytes"
	"cmp"
	"encoding/json"
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
	Base      string
	Title     string
	Places    []place
	Doubt     string // why nothing can be called healthy
	Overview  view.Overview
	Incident  *view.Incident // that is shown, or the first model's
	Fixes     []shellFix     // of it
	Missing   string         // why there is no such page
	Note      string         // what the view needs a script for
	Models    []shellModel
	Columns   []string // numbers of replicas
	Replicas  []shellReplica
	More      int // replicas that are not in the table
	Incidents []view.Summary
	Runbooks  []view.Runbook
	Runbook   template.HTML
	Settings  map[string]any
}

type (
	place struct {
		Path, Title string
		Here        bool
	}
	shellModel struct {
		Head, Summary, Health, Incident string
		Since                           *time.Time
	}
	shellReplica struct {
		Target, Health, State string
		Numbers               []string
	}
	// shellFix is a fix of a diagnosis, as its JSON has it.
	shellFix struct{ Summary, Args, Command, Tradeoff, Verify string }
)

// tabled is how many replicas the shell tells of: the script shows all.
const tabled = 100

// places are the paths that the script has views for; those of one thing have its id.
var places = []place{
	{Path: "/", Title: "Overview"}, {Path: "/incidents", Title: "Incidents"}, {Path: "/explore", Title: "Explore"}, {Path: "/fleet", Title: "Fleet"},
	{Path: "/whatif", Title: "What if"}, {Path: "/audit", Title: "Audit"}, {Path: "/runbooks", Title: "Runbooks"}, {Path: "/settings", Title: "Settings"},
}

var doubts = map[view.State]string{
	view.Starting: "Nothing was evaluated yet: the first verdict comes after some scrapes.",
	view.Partial:  "Not everything could be read. What is not known is not shown as healthy.",
	view.Stale:    "The last evaluation is too old. What follows is from then.",
}

// view is the shell of a path and its status.
func (p *handler) view(r *http.Request) (int, *shell) {
	o := p.Overview(r.Context())
	v := &shell{bundle: p.bundle, Base: p.Base, Places: slices.Clone(places), Overview: o}
	if o.State != view.OK {
		v.Doubt = cmp.Or(doubts[o.State], "It is not known whether this can be believed.")
	}
	first, id, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	name, err := url.PathUnescape(id)
	one := err == nil && id != "" && !strings.Contains(id, "/")
	for i := range v.Places {
		if at := &v.Places[i]; at.Path == r.URL.Path || one && at.Path == "/"+strings.TrimSuffix(first, "s")+"s" {
			v.Title, at.Here = at.Title, true
		}
	}
	switch {
	case one && first == "incident":
		v.Title = name
		if !v.take(p.incident(r, name)) {
			v.Missing = "There is no incident " + name + "."
		}
	case one && first == "runbooks":
		v.Title = view.Title(name)
		var b view.Runbook
		if p.answer(r, "GET /api/v1/runbooks/{id}", name, &b) {
			v.Runbook = template.HTML(b.HTML) //nolint:gosec // the catalogue's own text, rendered by this program
		} else {
			v.Missing = "There is no runbook " + name + "."
		}
	case v.Title == "" || one:
		v.Title, v.Missing = "Not found", "There is no such page."
	case first == "":
		for i := range o.Models {
			v.Models = append(v.Models, newModel(&o.Models[i], o.State))
		}
		if len(v.Models) > 0 && v.Models[0].Incident != "" {
			if v.take(p.incident(r, v.Models[0].Incident)); len(v.Fixes) > 1 {
				v.Fixes = v.Fixes[:1]
			}
		}
		v.list(o)
	case first == "incidents":
		if !p.answer(r, "/api/v1/incidents", "", &v.Incidents) || len(v.Incidents) == 0 {
			v.Note = "No incident yet."
		}
	case first == "runbooks":
		p.answer(r, "GET /api/v1/runbooks", "", &v.Runbooks)
	case first == "settings":
		p.answer(r, "GET /api/v1/settings", "", &v.Settings)
	case first == "audit":
		v.Note = "The audit is shown by JavaScript. sixty audit URL prints it."
	case first == "whatif":
		v.Note = "What if needs JavaScript. sixty simulate URL --replicas 4 answers the same in a terminal; the present is below."
		v.list(o)
	default:
		v.list(o)
	}
	if v.Missing != "" {
		return http.StatusNotFound, v
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

func (p *handler) incident(r *http.Request, id string) (view.Incident, bool) {
	if p.Incident == nil {
		return view.Incident{}, false
	}
	return p.Incident(r.Context(), id)
}

// take shows an incident, with the fixes of what it is.
func (v *shell) take(i view.Incident, found bool) bool {
	if !found {
		return false
	}
	v.Incident = &i
	var d struct {
		Findings []struct {
			ID, Status string
			Fixes      []shellFix
		}
	}
	if json.Unmarshal(i.Diagnosis, &d) == nil {
		for _, f := range d.Findings {
			if f.ID == i.Pathology && f.Status == "firing" && v.Fixes == nil {
				v.Fixes = f.Fixes
			}
		}
	}
	return true
}

// list adds the replicas of all models with their numbers.
func (v *shell) list(o view.Overview) {
	v.Columns = []string{"TTFT P95", "ITL P95", "Running", "Waiting", "KV cache", "Requests", "Output"}
	for i := range o.Models {
		for k := range o.Models[i].Replicas {
			if len(v.Replicas) == tabled {
				v.More++
				continue
			}
			r := &o.Models[i].Replicas[k]
			row := shellReplica{Target: render.Clean(r.Target), Health: health(o.State, r.Status, r.Severity), State: r.Life}
			if r.Pathology != "" {
				row.State = view.Title(r.Pathology)
			} else if r.Reason != "" {
				row.State = sentence(r.Reason)
			}
			n := &r.Now
			for i, value := range []*float64{n.TTFTP95, n.ITLP95, n.RequestsRunning, n.RequestsWaiting, n.KVCacheUsage, n.RequestRate, n.OutputTokensRate} {
				text := "–"
				if value != nil {
					text = indicator.FormatNumber(*value, units[i])
				}
				row.Numbers = append(row.Numbers, text)
			}
			v.Replicas = append(v.Replicas, row)
		}
	}
}

// units are those of the columns.
var units = []indicator.Unit{
	indicator.Seconds, indicator.Seconds, indicator.Requests, indicator.Requests, indicator.Ratio, indicator.RequestsPerSecond, indicator.TokensPerSecond,
}

func newModel(m *view.Model, state view.State) shellModel {
	name := m.Model
	if name == "" && len(m.Replicas) > 0 {
		name = m.Replicas[0].Labels["model_name"]
	}
	name = cmp.Or(name, "the server")
	if m.Namespace != "" {
		name += " in " + m.Namespace
	}
	if m.Cluster != "" {
		name += " on " + m.Cluster
	}
	out := shellModel{Head: view.Title(m.Verdict.ID), Summary: sentence(m.Verdict.Summary), Health: health(state, m.Verdict.Status, m.Verdict.Severity)}
	if state.Shown(m.Verdict.Status) != m.Verdict.Status {
		out.Head, out.Summary = "Not known now", "Was: "+out.Summary
	}
	out.Head = render.Clean(out.Head + " on " + name)
	if m.Incident != nil {
		out.Incident = *m.Incident
	}
	if m.Verdict.Status == view.Firing {
		out.Since = m.Verdict.Since
	}
	return out
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return render.Sentence(render.Clean(s))
}

// health is the one of four states that people are shown, as the script has it: a page is failing, a
// ticket and what is suspected are degraded, and nothing is healthy that is not known to be.
func health(state view.State, s view.Status, severity string) string {
	bad := s == view.Firing || s == view.Down
	switch {
	case s == view.Pending, bad && severity == "ticket":
		return "degraded"
	case bad && severity != "info":
		return "failing"
	case state != view.OK || s == view.Unknown:
		return "unknown"
	}
	return "healthy"
}

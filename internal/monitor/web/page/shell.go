package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// shell is what the page holds before any script runs.
type shell struct {
	bundle
	Base     string
	Title    string
	Doubt    string // why nothing can be called healthy
	Overview view.Overview
	Incident *view.Incident
	Missing  string // why there is no such page
	Models   []shellModel
	Replicas []shellReplica
	More     int // replicas that are not in the table
}

type (
	shellModel struct {
		Name, Head, Summary, Tone, Incident string
		Since                               *time.Time
	}
	shellReplica struct {
		Target, Status, Reason string
	}
)

// tabled is how many replicas the shell tells of: the script shows all.
const tabled = 100

// views are the paths that the script has views for; those of one thing have its id.
var views = []string{"/", "/incidents", "/explore", "/fleet", "/whatif", "/audit", "/runbooks", "/settings"}

var doubts = map[view.State]string{
	view.Starting: "Nothing was evaluated yet: the first answer comes after some scrapes.",
	view.Partial:  "Not everything could be read. What is not known is not shown as healthy.",
	view.Stale:    "The last evaluation is too old. What is shown is of then.",
}

// view is the shell of a path and its status.
func (p *handler) view(r *http.Request) (int, *shell) {
	o := p.Overview(r.Context())
	v := &shell{bundle: p.bundle, Base: p.Base, Title: "Now", Overview: o}
	if o.State != view.OK {
		if v.Doubt = doubts[o.State]; v.Doubt == "" {
			v.Doubt = "It is not known whether this can be believed."
		}
	}
	status := http.StatusOK
	first, id, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	name, err := url.PathUnescape(id)
	one := err == nil && id != "" && !strings.Contains(id, "/")
	switch {
	case one && first == "incident":
		v.Title = name
		if found, ok := p.incident(r, name); ok {
			v.Incident = &found
			return status, v
		}
		status, v.Missing = http.StatusNotFound, "There is no incident "+name+"."
	case one && first == "runbooks":
		v.Title = name
	case slices.Contains(views, r.URL.Path):
	default:
		status, v.Missing = http.StatusNotFound, "There is no such page."
	}
	for i := range o.Models {
		m := &o.Models[i]
		v.Models = append(v.Models, newModel(m, o.State))
		for k := range m.Replicas {
			if len(v.Replicas) == tabled {
				v.More++
				continue
			}
			r := &m.Replicas[k]
			v.Replicas = append(v.Replicas, shellReplica{render.Clean(r.Target), statusWord(o.State.Shown(r.Status), r.Severity), sentence(r.Reason)})
		}
	}
	return status, v
}

func (p *handler) incident(r *http.Request, id string) (view.Incident, bool) {
	if p.Incident == nil {
		return view.Incident{}, false
	}
	return p.Incident(r.Context(), id)
}

func newModel(m *view.Model, state view.State) shellModel {
	names := []string{m.Model}
	if m.Model == "" && len(m.Replicas) > 0 {
		names[0] = m.Replicas[0].Labels["model_name"]
	}
	names[0] = cmp.Or(names[0], "the server")
	if m.Namespace != "" {
		names = append(names, "in "+m.Namespace)
	}
	if m.Cluster != "" {
		names = append(names, "on "+m.Cluster)
	}
	status := state.Shown(m.Verdict.Status)
	out := shellModel{
		Name: render.Clean(strings.Join(names, " ")), Head: m.Verdict.ID, Summary: sentence(m.Verdict.Summary), Tone: tone(status, m.Verdict.Severity),
	}
	if status != m.Verdict.Status {
		out.Head, out.Summary = "not known now", "Was: "+out.Summary
	}
	if m.Incident != nil {
		out.Incident = *m.Incident
	}
	if status == view.Firing {
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

// statusWord is a status for people, the word that the script has for it.
func statusWord(s view.Status, severity string) string {
	if s == view.Firing && severity == "info" {
		return "noted"
	}
	words := map[view.Status]string{view.Firing: "sick", view.Pending: "suspected", view.Unknown: "not known", view.Healthy: "well"}
	if w, ok := words[s]; ok {
		return w
	}
	return string(s)
}

// tone is the class of a status' colour.
func tone(s view.Status, severity string) string {
	switch s {
	case view.Firing:
		switch severity {
		case "info":
			return "plain"
		case "ticket":
			return "warning"
		}
		return "critical"
	case view.Down:
		return "critical"
	case view.Pending:
		return "warning"
	case view.Healthy:
		return "good"
	}
	return "plain"
}

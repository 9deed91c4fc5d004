package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// shell is what the page holds before any script runs, and without one: the verdicts, an incident, and
// elsewhere where the same is had without a script.
type shell struct {
	bundle
	Base     string
	Title    string
	Places   []place
	Doubt    string // why nothing can be called healthy
	Overview view.Overview
	Incident *view.Incident // that is shown, or the first model's
	Head     string         // of it
	Kept     view.Kept      // of it
	Missing  string         // why there is no such page
	Here     *place         // a view that needs the script
	Models   []shellModel
}

// A place is a path that the script has a view for; those of one thing have its id. API and Command are where
// what it shows is had without a script.
type place struct{ Path, Title, API, Command string }

type shellModel struct {
	*view.Model
	Head, Summary string
	Health        view.Health
	Quiet         bool // nothing is found, and its incident is not closed
}

var places = []place{
	{Path: "/", Title: "Overview"},
	{"/incidents", "Incidents", "/api/v1/incidents", "sixty report --incidents DIR prometheus=URL"},
	{"/explore", "Explore", "/api/v1/panels", "sixty top URL"},
	{"/fleet", "Fleet", "/api/v1/overview", "sixty top URL"},
	{"/whatif", "What if", "", "sixty simulate URL --replicas 4"},
	{"/audit", "Audit", "/api/v1/audit", "sixty audit URL"},
	{"/runbooks", "Runbooks", "/api/v1/runbooks", "sixty explain"},
	{"/settings", "Settings", "/api/v1/settings", "sixty serve --help"},
}

var doubts = map[view.State]string{
	view.Starting: "No evaluation yet: the first verdict follows after a few scrapes.",
	view.Partial:  "Some data could not be read. What is unknown is not shown as healthy.",
	view.Stale:    "The last evaluation is out of date. Everything below is from that time.",
}

// view is the shell of a path and its status.
func (p *handler) view(r *http.Request) (int, *shell) {
	o := p.Overview(r.Context())
	v := &shell{bundle: p.bundle, Base: p.Base, Places: places, Overview: o}
	if o.State != view.OK {
		v.Doubt = cmp.Or(doubts[o.State], "The state of this data is unknown.")
	}
	first, id, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	name, err := url.PathUnescape(id)
	one := err == nil && id != "" && !strings.Contains(id, "/")
	take := func(id string) bool {
		i, ok := p.Incident(r.Context(), id)
		if ok {
			v.Incident, v.Kept, v.Head = &i, i.Kept(), p.headline(i.Pathology, cmp.Or(i.Model, "the server"), len(i.Affected), i.Servers)
		}
		return ok
	}
	switch k := slices.IndexFunc(places, func(at place) bool { return at.Path == r.URL.Path }); {
	case one && first == "incident":
		if v.Title = name; take(name) {
			v.Title = p.title(v.Incident.Pathology) + " on " + cmp.Or(v.Incident.Model, "the server")
		} else {
			v.Missing = "There is no incident " + name + "."
		}
	case one && first == "runbooks":
		if v.Title = p.title(name); p.Titles[name] == "" {
			v.Missing = "There is no runbook " + name + "."
		}
		v.Here = &place{Title: v.Title, API: "/api/v1/runbooks/" + name, Command: "sixty explain " + name}
	case k < 0:
		v.Title, v.Missing = "Not found", "This page does not exist."
	case k > 0:
		v.Title, v.Here = places[k].Title, &places[k]
	default:
		v.Title = places[k].Title
		for i := range o.Models {
			v.Models = append(v.Models, p.model(&o.Models[i], o.State))
		}
		if len(v.Models) > 0 && v.Models[0].Incident != nil && take(*v.Models[0].Incident) {
			v.Kept.Fixes = v.Kept.Fixes[:min(1, len(v.Kept.Fixes))]
		}
	}
	if v.Missing != "" {
		return http.StatusNotFound, v
	}
	return http.StatusOK, v
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
	quiet := m.Phase == view.Quiet && m.Verdict.Status != view.Firing
	if h == view.HealthHealthy && (m.Phase == view.Failing || m.Phase == view.Degraded) {
		h = view.Health(m.Phase) // what is failing is not healthy at once
	}
	head := name + " is " + string(h)
	switch {
	case quiet:
		head = name + " is quiet, and its incident is not closed yet"
	case m.Verdict.Status == view.Firing:
		on := 0
		for i := range m.Replicas {
			if m.Replicas[i].Pathology == m.Verdict.ID {
				on++
			}
		}
		head = c.headline(m.Verdict.ID, name, on, len(m.Replicas))
	case h == view.HealthUncertain:
		head = "Not certain yet whether " + name + " is healthy"
		summary = sentence(strings.TrimPrefix(m.Verdict.Summary, "Not certain yet: ")) // as the head says
	case h == view.HealthUnknown:
		head = name + " is in an unknown state"
	case m.Verdict.Status == view.Idle:
		head = name + " is idle"
	}
	return shellModel{m, render.Clean(head), summary, h, quiet}
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

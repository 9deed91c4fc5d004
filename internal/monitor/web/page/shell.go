package page

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// shell is the content of the page without script: the verdicts and an incident, or the command and the API path with
// the same content as a view of the script.
type shell struct {
	bundle
	Base     string
	Title    string
	Places   []place
	Doubt    string // why nothing is shown as healthy
	Overview view.Overview
	Incident *view.Incident // the incident of the path, or of the first model
	Head     string         // the incident's title
	Fixes    []advised      // of the incident
	Missing  string         // why the path has no page
	Here     *place         // a view that needs the script
	Titles   map[string]string
	Models   []view.Model // on the overview
}

// A place is a path with a view in the script. API and Command give the same content without a script.
type place struct{ Path, Title, API, Command string }

// An advised fix is a fix of an incident's advice, with its heading.
type advised struct {
	Head string
	*catalog.Fix
}

var places = []place{
	{Path: "/", Title: "Overview"},
	{"/incidents", "Incidents", "/api/v1/incidents", "sixty report prometheus=URL"},
	{"/explore", "Explore", "/api/v1/panels", "sixty top URL"},
	{"/fleet", "Fleet", "/api/v1/overview", "sixty top URL"},
	{"/whatif", "What if", "", "sixty simulate URL --replicas 4"},
	{"/audit", "Audit", "/api/v1/audit", "sixty audit URL"},
	{"/runbooks", "Runbooks", "/api/v1/runbooks", "sixty explain"},
	{"/settings", "Settings", "/api/v1/settings", "sixty serve --help"},
}

var doubts = map[view.State]string{
	view.OK:       "",
	view.Starting: "No evaluation yet: the first verdict follows after a few scrapes.",
	view.Partial:  "Some data could not be read. What is unknown is not shown as healthy.",
	view.Stale:    "The last evaluation is out of date. Everything below is from that time.",
}

// newShell returns the HTTP status and the shell of a path.
func (p *handler) newShell(r *http.Request) (int, *shell) {
	v := &shell{bundle: p.bundle, Base: p.Base, Places: places, Titles: p.Titles, Overview: p.Overview(r.Context())}
	known := false
	if v.Doubt, known = doubts[v.Overview.State]; !known {
		v.Doubt = "The state of this data is unknown."
	}
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	k := slices.IndexFunc(places, func(at place) bool { return at.Path == r.URL.Path })
	switch {
	case kind == "incident" && id != "":
		if v.Title, v.Missing = id, "There is no incident "+id+"."; p.showIncident(r, v, id) {
			v.Title, v.Missing = p.title(v.Incident.Pathology)+" on "+cmp.Or(v.Incident.Model, "the server"), ""
		}
	case kind == "runbooks" && id != "":
		if v.Title = p.title(id); p.Titles[id] == "" {
			v.Missing = "There is no runbook " + id + "."
		}
		v.Here = &place{Title: v.Title, API: "/api/v1/runbooks/" + id, Command: "sixty explain " + id}
	case k < 0:
		v.Title, v.Missing = "Not found", "This page does not exist."
	case k > 0:
		v.Title, v.Here = places[k].Title, &places[k]
	default:
		v.Title, v.Models = places[k].Title, v.Overview.Models
		if len(v.Models) > 0 && v.Models[0].Incident != nil && p.showIncident(r, v, *v.Models[0].Incident) {
			v.Fixes = v.Fixes[:min(1, len(v.Fixes))]
		}
	}
	if v.Missing != "" {
		return http.StatusNotFound, v
	}
	return http.StatusOK, v
}

// showIncident adds the incident with an ID, and reports whether there is one.
func (p *handler) showIncident(r *http.Request, v *shell, id string) bool {
	i, ok := p.Incident(r.Context(), id)
	if !ok {
		return false
	}
	v.Incident = &i
	v.Head = cmp.Or(i.Title, p.title(i.Pathology)) // as in the script
	if i.Advice != nil {
		for k, head := range catalog.Heads(i.Advice.Fixes) {
			v.Fixes = append(v.Fixes, advised{head, &i.Advice.Fixes[k]})
		}
	}
	return true
}

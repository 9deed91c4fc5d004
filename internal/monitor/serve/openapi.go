package serve

import (
	"net/http"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

// operation is one line of docs/api.md for machines.
type operation struct {
	method, path, summary string
	query                 []string // parameters
	body                  string   // an example's description; "" for none
}

var operations = []operation{
	{"get", "/api/v1/overview", "One sentence per model, one line per replica", nil, ""},
	{"get", "/api/v1/diagnosis", "The latest diagnosis, or the one at a given time (sixty.diagnosis/v1)", []string{"at", "window", "format", "plots", "full"}, ""},
	{"get", "/api/v1/findings", "Firing and pending alerts", nil, ""},
	{"get", "/api/v1/incidents", "Incidents, the latest first", []string{"state", "model", "limit"}, ""},
	{"get", "/api/v1/incidents/{id}", "One incident in full", nil, ""},
	{"post", "/api/v1/incidents/{id}/acknowledge", "Acknowledge it", nil, `{"by": "…"}`},
	{"post", "/api/v1/incidents/{id}/silence", "Silence its alerts in Alertmanager", nil, `{"by": "…", "hours": 4}`},
	{"post", "/api/v1/incidents/{id}/notes", "Add a note", nil, `{"by": "…", "text": "…"}`},
	{"get", "/api/v1/incidents/{id}/recording", "The evidence, which sixty diagnose opens", nil, ""},
	{"get", "/api/v1/incidents/{id}/postmortem", "A post-mortem in Markdown", nil, ""},
	{"get", "/api/v1/health", "The health report", []string{"since", "format"}, ""},
	{"get", "/api/v1/panels", "The rows and panels of the dashboards", nil, ""},
	{"get", "/api/v1/runbooks", "The runbooks", nil, ""},
	{"get", "/api/v1/runbooks/{id}", "One runbook", nil, ""},
	{"post", "/api/v1/simulate", "The effect of a change", nil, `{"model": "…", "change": {"replicas": 4}}`},
	{"get", "/api/v1/audit", "The checklist", nil, ""},
	{"get", "/api/v1/requests", "Requests in flight at the configured gateways", nil, ""},
	{"get", "/api/v1/traces", "Slow requests among the kept traces", []string{"since"}, ""},
	{"get", "/api/v1/traces/{id}", "Where the time of one request went (sixty.trace/v1)", nil, ""},
	{"post", "/v1/traces", "Spans, as OTLP over HTTP", nil, "an OTLP export"},
	{"get", "/api/v1/settings", "The configuration, without secrets", nil, ""},
	{"get", "/api/v1/events", "Server-sent events: overview, incident", nil, ""},
}

// openAPI describes the API for machines.
func (s *server) openAPI(w http.ResponseWriter, _ *http.Request) {
	type object = map[string]any
	paths := map[string]object{}
	answer := object{"200": object{"description": "The answer"}, "default": object{
		"description": "An error", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}},
	}}
	for _, o := range operations {
		op := object{"summary": o.summary, "responses": answer}
		var params []object
		if strings.Contains(o.path, "{id}") {
			params = append(params, object{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		for _, q := range o.query {
			params = append(params, object{"name": q, "in": "query", "schema": object{"type": "string"}})
		}
		if params != nil {
			op["parameters"] = params
		}
		if o.body != "" {
			op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": object{"type": "object"}, "example": o.body}}}
		}
		if paths[o.path] == nil {
			paths[o.path] = object{}
		}
		paths[o.path][o.method] = op
	}
	web.Answer(w, object{
		"openapi": "3.1.0", "info": object{"title": "sixty", "version": version.Get().Version, "description": "Prometheus' API under /api/v1 is documented by Prometheus."},
		"servers":    []object{{"url": strings.TrimSuffix(s.external.Path, "/") + "/"}},
		"paths":      paths,
		"components": object{"schemas": object{"Error": object{"type": "object", "properties": object{"error": object{"type": "string"}, "hint": object{"type": "string"}}}}},
	})
}

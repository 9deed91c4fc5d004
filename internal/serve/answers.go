package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/audit"
	"github.com/sixty-dev/sixty/internal/audit/surface"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/detect"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/serve/whatif"
)

// answerTimeout bounds an answer that is computed on request.
const answerTimeout = time.Minute

// apiHandlers returns the handlers beside package web's, by pattern.
func (s *server) apiHandlers() map[string]http.Handler {
	incidents := incidentAnswers(s.incidents, s.collector.Silence, s.addSlowRequests)
	all := map[string]http.Handler{
		incidentsPath:               incidents,
		incidentsPath + "/":         incidents,
		"GET /api/v1/panels":        http.HandlerFunc(s.panels),
		"GET /api/v1/runbooks":      http.HandlerFunc(s.runbooks),
		"GET /api/v1/runbooks/{id}": http.HandlerFunc(s.runbook),
		"POST /api/v1/simulate":     s.scoped(func(c *scope) http.Handler { return http.HandlerFunc(c.whatIf) }),
		"GET /api/v1/audit":         s.scoped(func(c *scope) http.Handler { return http.HandlerFunc(c.audit) }),
		"GET /api/v1/settings":      http.HandlerFunc(s.settings),
		"/mcp":                      s.scoped(func(c *scope) http.Handler { return c.mcp }),
	}
	maps.Copy(all, s.traceAnswers())
	return all
}

// panels returns the dashboards' panels in the servers' metric names. They are rebuilt when servers change.
func (s *server) panels(w http.ResponseWriter, r *http.Request) {
	var seen detect.Exposed
	interval, remote := metrics.DefaultInterval, s.cfg.Prometheus.Prometheus != ""
	if e := s.monitor.Latest(); e != nil {
		for _, t := range e.Diagnosis.Targets {
			if t.Problem == "" {
				seen.Dialects = append(seen.Dialects, t.Dialect)
			}
		}
	}
	if !remote {
		interval = time.Duration(s.collector.Config().GlobalConfig.ScrapeInterval)
	}
	base := dialect.Deployment{Instance: dialect.UsualInstance, Model: dialect.UsualModel, Past: time.Hour,
		Matchers: s.source.Matchers()}
	var found []detect.Exposed
	if len(seen.Dialects) > 0 {
		found = append(found, seen)
	}
	// The store allows experimental functions; a team's query is restricted, and parsed without them.
	experimental := !remote && !access.Of(r.Context()).Restricted()
	key := fmt.Sprint(interval, experimental)
	for _, d := range seen.Dialects {
		key += "\xff" + d.Key()
	}
	s.boards.Lock()
	defer s.boards.Unlock()
	if s.boards.key != key {
		d, err := detect.Resolve(base, nil, found...)
		if err == nil {
			s.boards.panels, err = dashboard.NewPanels(dashboard.Config{Deployment: d.Deployment,
				Pathologies: s.cfg.Diagnose.Pathologies}, interval, experimental)
		}
		if err != nil {
			web.Fail(w, http.StatusInternalServerError, err)
			return
		}
		s.boards.key = key
	}
	web.Answer(w, s.boards.panels)
}

func newRunbook(p *catalog.Pathology) view.Runbook {
	return view.Runbook{ID: p.ID, Title: p.Title, Severity: p.Severity.String(), Summary: firstParagraph(p.Runbook)}
}

// firstParagraph returns the first paragraph of Markdown that is not a heading.
func firstParagraph(text string) string {
	for part := range strings.SplitSeq(text, "\n\n") {
		if part = strings.TrimSpace(part); part != "" && !strings.HasPrefix(part, "#") {
			return strings.Join(strings.Fields(part), " ")
		}
	}
	return ""
}

func (s *server) runbooks(w http.ResponseWriter, _ *http.Request) {
	list := []view.Runbook{}
	for _, p := range s.cfg.Diagnose.Pathologies {
		list = append(list, newRunbook(p))
	}
	web.Answer(w, list)
}

func (s *server) runbook(w http.ResponseWriter, r *http.Request) {
	for _, p := range s.cfg.Diagnose.Pathologies {
		if p.ID != r.PathValue("id") {
			continue
		}
		b := newRunbook(p)
		html, err := render.MarkdownHTML(p.Runbook)
		if err != nil {
			web.Fail(w, http.StatusInternalServerError, err)
			return
		}
		b.HTML, b.Markdown = string(html), p.Runbook
		web.Answer(w, b)
		return
	}
	web.Fail(w, http.StatusNotFound, hint.With(fmt.Errorf("there is no pathology %q", r.PathValue("id")),
		"GET /api/v1/runbooks lists them"))
}

// diagnosisFor returns the diagnosis on which a change of a model is simulated: that of the prediction in the advice of
// the model's open incident, so that both agree, or else the latest.
func (c *scope) diagnosisFor(ctx context.Context, model string) (diagnose.Diagnosis, error) {
	for _, i := range c.server.incidents.List(keeper.Query{State: "open", Model: model, By: c.by}) {
		if i.Advice != nil && i.Advice.Predicted != nil && i.Advice.Applied == nil {
			return c.monitor.JudgeAt(ctx, *i.Advice.Predicted)
		}
	}
	c.evaluate(ctx)
	return c.monitor.DiagnoseAt(ctx, time.Time{}, 0)
}

// simulate simulates a change of a model's servers.
func (c *scope) simulate(ctx context.Context, ask view.WhatIf) (view.WhatIfAnswer, error) {
	d, err := c.diagnosisFor(ctx, ask.Model)
	if err != nil {
		return view.WhatIfAnswer{}, err
	}
	return whatif.Simulate(ctx, c.source, &d, ask)
}

func (c *scope) whatIf(w http.ResponseWriter, r *http.Request) {
	var ask view.WhatIf
	if !web.Body(w, r, &ask) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	answer, err := c.simulate(ctx, ask)
	switch {
	case errors.Is(err, planning.ErrNoPrediction):
		web.Fail(w, http.StatusConflict, err)
	case ctx.Err() != nil:
		web.Fail(w, http.StatusGatewayTimeout, hint.With(errors.New("the simulation took more than a minute"),
			"try fewer replicas or a lower rate"))
	case err != nil:
		web.Fail(w, http.StatusBadRequest, err)
	default:
		web.Answer(w, answer)
	}
}

func (c *scope) audit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	d, err := surface.ReadSource(ctx, c.source, time.Now(), true)
	if err != nil {
		web.Fail(w, http.StatusServiceUnavailable, err)
		return
	}
	report, err := d.Audit(surface.Reading{}, false)
	if err == nil {
		if n := len(report.Areas); n > 0 && c.server.ring != nil { // the last area is operations
			report.Areas[n-1].Items = append(report.Areas[n-1].Items, audit.TracesItem(c.server.ring.Received()))
		}
		var b bytes.Buffer
		if err = report.JSON(&b); err == nil {
			web.Answer(w, json.RawMessage(b.Bytes()))
			return
		}
	}
	web.Fail(w, http.StatusInternalServerError, err)
}

// settings answers with the active configuration. Prometheus' configuration hides secrets. A team gets only its
// targets.
func (s *server) settings(w http.ResponseWriter, r *http.Request) {
	config := s.collector.Config()
	set := s.monitor.Settings()
	info, p := version.Get(), access.Of(r.Context())
	out := map[string]any{
		"version":               info,
		"source":                s.source.Name,
		"evaluation_interval_s": s.monitor.Every().Seconds(),
		"scrape_interval_s":     time.Duration(config.GlobalConfig.ScrapeInterval).Seconds(),
		"login":                 s.served.AsksForCredentials(),
		"user":                  p.Name,
		"role":                  p.Role.String(),
	}
	if p.Restricted() {
		out["targets"] = s.makePart(r.Context()).Scraped
		web.Answer(w, out)
		return
	}
	out["configuration"], out["thresholds"] = config.String(), set.Set
	out["storage"] = map[string]any{"directory": s.cfg.Dir, "retention_s": s.cfg.Retention.Seconds(),
		"retention_bytes": s.cfg.RetentionBytes}
	out["alertmanagers"], out["targets"] = s.collector.Alertmanagers(), s.collector.ScrapeTargets()
	if set.Objectives != nil {
		out["objectives"] = set.Objectives.Objectives
	}
	web.Answer(w, out)
}

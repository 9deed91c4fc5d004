package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/health/healthreport"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/render"
)

// Bounds of health reports.
const (
	usualHealth    = 24 * time.Hour
	shortestHealth = time.Minute
	longestHealth  = 35 * 24 * time.Hour
	freshHealth    = time.Minute // the last one is given again for so long
	healthTime     = 2 * time.Minute
)

// A healthHandler answers GET /api/v1/health?since=24h&format=json. One report is measured at a time.
type healthHandler struct {
	measure func(ctx context.Context, since time.Duration) (*health.Report, error)
	turn    chan struct{} // holds what follows
	last    *health.Report
	since   time.Duration
	at      time.Time
}

func newHealthHandler(measure func(ctx context.Context, since time.Duration) (*health.Report, error)) *healthHandler {
	return &healthHandler{measure: measure, turn: make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (h *healthHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	since := usualHealth
	if text := r.FormValue("since"); text != "" {
		var err error
		if since, err = source.ParseDuration(text); err != nil || since < shortestHealth || since > longestHealth {
			web.Fail(w, http.StatusBadRequest, hint.With(fmt.Errorf("since %q is not a time from a minute to 35 days", text), "write 24h or 7d"))
			return
		}
	}
	format := r.FormValue("format")
	kind, known := map[string]string{"": "application/json", "json": "application/json", "markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}[format]
	if !known {
		web.Fail(w, http.StatusBadRequest, fmt.Errorf("format %q is not json, markdown or html", format))
		return
	}
	report, err := h.report(r.Context(), since)
	var b bytes.Buffer
	if err == nil {
		switch format {
		case "markdown":
			err = healthreport.Document(report).Markdown(&b)
		case "html":
			err = healthreport.Document(report).HTML(&b)
		default:
			err = render.JSON(&b, report)
		}
	}
	if err != nil {
		web.Fail(w, http.StatusServiceUnavailable, err)
		return
	}
	head := w.Header()
	head.Set("Content-Type", kind)
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
	_, _ = w.Write(b.Bytes())
}

// report measures, unless that was done a moment ago.
func (h *healthHandler) report(ctx context.Context, since time.Duration) (*health.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, errors.New("another report is still being computed")
	}
	if h.last != nil && h.since == since && time.Since(h.at) < freshHealth {
		return h.last, nil
	}
	report, err := h.measure(ctx, since)
	if err == nil {
		h.last, h.since, h.at = report, since, time.Now()
	}
	return report, err
}

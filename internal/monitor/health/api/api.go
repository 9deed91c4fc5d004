// Package api measures the health of what a source holds, for the command line and for
// GET /api/v1/health, whose handler it has.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/health/healthreport"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Options say what is measured.
type Options struct {
	At          time.Time
	Since       time.Duration
	Pathologies []*catalog.Pathology
	Settings    diagnose.Settings
	Price       health.Price
	// Incidents, which may be nil, returns those that were open after a time; a nil list
	// says that nobody keeps any.
	Incidents func(from time.Time) []view.Summary
}

// Measure measures the health over the time before a moment, as far as the source reaches.
func Measure(ctx context.Context, s *source.Source, o Options) (*health.Report, error) {
	d, err := s.Options(ctx, o.At)
	if err != nil {
		return nil, err
	}
	c := health.Config{
		From: o.At.Add(-o.Since), To: o.At, First: d.First, Interval: d.Interval, Matchers: d.Matchers, Every: d.Every, Settings: o.Settings, Price: o.Price,
	}
	if first := s.Span().First; !first.IsZero() && c.From.Before(first) {
		c.From = first
	}
	if s.Span().First.IsZero() {
		c.First = time.Time{} // what a diagnosis looks at is not all that a server holds
	}
	d.Pathologies, d.Settings = o.Pathologies, o.Settings
	var problem string
	if now, err := s.Diagnose(ctx, d); err == nil {
		c.Now = &now
	} else if ctx.Err() != nil {
		return nil, err
	} else {
		problem = "the end of the period cannot be judged: " + err.Error()
	}
	if o.Incidents != nil {
		c.Incidents = o.Incidents(c.From)
	}
	if rules, err := s.Rules(ctx); err == nil {
		n := 0
		for _, r := range rules {
			if r.Alert != "" && slices.ContainsFunc(o.Pathologies, func(p *catalog.Pathology) bool {
				return slices.Contains(dialect.AlertPrefixes(p.Scope(), func(engine.ID) bool { return true }), strings.TrimSuffix(r.Alert, p.Alert))
			}) {
				n++
			}
		}
		c.Rules = &n
	}
	r, err := health.Measure(ctx, s, c)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		r.Notes = append(r.Notes, problem)
	}
	return r, nil
}

// Bounds of requests.
const (
	usual    = 24 * time.Hour
	shortest = time.Minute
	longest  = 35 * 24 * time.Hour
	fresh    = time.Minute // an answer is given again for so long
	cached   = 8
	patience = 2 * time.Minute
)

// Handler answers GET /api/v1/health?since=24h&format=json. One report is measured at a
// time, and given again for a minute.
func Handler(measure func(ctx context.Context, since time.Duration) (*health.Report, error)) http.Handler {
	h := &handler{measure: measure, busy: make(chan struct{}, 1), kept: map[time.Duration]answer{}}
	return h
}

type answer struct {
	report *health.Report
	at     time.Time
}

type handler struct {
	measure func(context.Context, time.Duration) (*health.Report, error)
	busy    chan struct{}

	mu   sync.Mutex
	kept map[time.Duration]answer
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		fail(w, http.StatusMethodNotAllowed, fmt.Errorf("%s is not for this path: use GET", r.Method))
		return
	}
	since := usual
	if text := r.FormValue("since"); text != "" {
		var err error
		if since, err = source.ParseDuration(text); err != nil || since < shortest || since > longest {
			fail(w, http.StatusBadRequest, hint.With(fmt.Errorf("since %q is not a time from a minute to 35 days", text), "write 24h or 7d"))
			return
		}
	}
	var write func(*bytes.Buffer, *health.Report) error
	kind := "application/json"
	switch f := r.FormValue("format"); f {
	case "", "json":
		write = func(b *bytes.Buffer, r *health.Report) error { return render.JSON(b, r) }
	case "markdown":
		kind, write = "text/markdown; charset=utf-8", func(b *bytes.Buffer, r *health.Report) error { return healthreport.Document(r).Markdown(b) }
	case "html":
		kind, write = "text/html; charset=utf-8", func(b *bytes.Buffer, r *health.Report) error { return healthreport.Document(r).HTML(b) }
	default:
		fail(w, http.StatusBadRequest, fmt.Errorf("format %q is not json, markdown or html", f))
		return
	}
	report, err := h.report(r.Context(), since)
	var b bytes.Buffer
	if err == nil {
		err = write(&b, report)
	}
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	head := w.Header()
	head.Set("Content-Type", kind)
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
	_, _ = w.Write(b.Bytes())
}

// report measures, unless that was done a moment ago.
func (h *handler) report(ctx context.Context, since time.Duration) (*health.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	case <-ctx.Done():
		return nil, errors.New("another report is still being computed")
	}
	h.mu.Lock()
	a, ok := h.kept[since]
	h.mu.Unlock()
	if ok && time.Since(a.at) < fresh {
		return a.report, nil
	}
	report, err := h.measure(ctx, since)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) >= cached {
		clear(h.kept)
	}
	h.kept[since] = answer{report, time.Now()}
	return report, nil
}

func fail(w http.ResponseWriter, code int, err error) {
	b, _ := json.Marshal(view.Error{Error: err.Error(), Hint: hint.Of(err)})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n'))
}

package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/report"
)

// Overview returns the overview for the principal of a context.
func (o *Options) Overview(ctx context.Context) view.Overview {
	part, restricted := o.Part(ctx), access.Of(ctx).Restricted()
	v := monitor.NewOverview(part.Monitor.Latest(), part.Monitor.Every(), time.Now(), part.Scraped, part.Incident)
	if o.Anomalies != nil && !restricted {
		v.Anomalies = o.Anomalies()
	}
	if o.Trouble == nil {
		return v
	}
	doubts, notes := o.Trouble()
	if restricted { // they may name others' servers
		if notes = nil; len(doubts) > 0 {
			doubts = []string{"the monitor has problems; users with full access see them"}
		}
	}
	v.Problems = append(append(v.Problems, doubts...), notes...)
	if len(doubts) > 0 && v.State == view.OK {
		v.State = view.Partial
		v.Doubt()
	}
	return v
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	Answer(w, s.opts.Overview(r.Context()))
}

// diagnosis answers with the latest diagnosis, or makes one for at= and window=.
func (s *Server) diagnosis(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	at, window, err := parseMoment(q.Get("at"), q.Get("window"))
	if err != nil {
		Fail(w, http.StatusBadRequest, err)
		return
	}
	m := s.opts.Part(ctx).Monitor
	d, err := m.DiagnoseAt(ctx, at, window)
	if err == nil && (q.Get("plots") == "true" || q.Get("format") == "html") {
		err = m.Plot(ctx, &d)
	}
	switch {
	case errors.Is(err, monitor.ErrNothingYet):
		Fail(w, http.StatusServiceUnavailable, err)
	case err != nil:
		Fail(w, http.StatusBadGateway, err)
	default:
		s.writeDiagnosis(w, q.Get("format"), q.Get("full") == "true", &d)
	}
}

// parseMoment reads at= and window=. Zero values stand for the latest evaluation.
func parseMoment(at, window string) (t time.Time, length time.Duration, err error) {
	if at != "" {
		if t, err = (source.Span{Last: time.Now()}).Moment("at", at); err != nil {
			return t, 0, err
		}
	}
	if window != "" {
		if length, err = source.ParseDuration(window); err != nil || length <= 0 {
			return t, 0, fmt.Errorf("window: %q is not a time", window)
		}
	}
	return t, length, nil
}

// writeDiagnosis writes a diagnosis in the format json, text, markdown or html.
func (s *Server) writeDiagnosis(w http.ResponseWriter, format string, full bool, d *diagnose.Diagnosis) {
	var b bytes.Buffer
	o := report.Options{Full: full}
	kind, err := "application/json", error(nil)
	switch format {
	case "", "json":
		err = report.JSON(&b, *d, o)
	case "text":
		kind, err = "text/plain; charset=utf-8", report.Text(&b, *d, o)
	case "markdown":
		kind, err = "text/markdown; charset=utf-8", report.Markdown(&b, *d, o)
	case "html":
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
		kind, err = "text/html; charset=utf-8", report.HTML(&b, *d, o)
	default:
		Fail(w, http.StatusBadRequest, hint.With(fmt.Errorf("there is no format %q", format),
			"json, text, markdown and html"))
		return
	}
	if err != nil {
		Fail(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	if _, err := w.Write(b.Bytes()); err != nil {
		return // the reader left
	}
}

// News broadcasts evaluations and changed incidents to the pages that listen. The zero value is ready. It is safe for
// concurrent use.
type News struct {
	mu      sync.Mutex
	waiting map[chan *view.Summary]bool
}

// newsBuffer bounds the news that wait for a slow page.
const newsBuffer = 16

// Publish broadcasts an incident, or with nil an evaluation. A page whose buffer is full misses it.
func (n *News) Publish(s *view.Summary) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ch := range n.waiting {
		select {
		case ch <- s:
		default:
		}
	}
}

// listen returns a channel of news, and the function that stops them.
func (n *News) listen() (news <-chan *view.Summary, stop func()) {
	if n == nil {
		return nil, func() {}
	}
	ch := make(chan *view.Summary, newsBuffer)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[chan *view.Summary]bool{}
	}
	n.waiting[ch] = true
	return ch, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.waiting, ch)
	}
}

// events streams evaluations and incidents as server-sent events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	alive := time.NewTicker(idleStream)
	defer alive.Stop()
	send := func(format string, args ...any) bool {
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && c.Flush() == nil
	}
	news, stop := s.opts.News.listen()
	defer stop()
	event := func(name string, value any) bool {
		body, err := json.Marshal(value)
		return err == nil && send("event: %s\ndata: %s\n\n", name, body)
	}
	for ok := event("overview", s.opts.Overview(r.Context())); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			ok = send(": alive\n\n")
		case i := <-news:
			if !s.gate.Load().stillAllowed(r) {
				return // the sender lost its access
			}
			if i == nil {
				ok = event("overview", s.opts.Overview(r.Context()))
			} else if s.opts.Part(r.Context()).Incident(i.ID) != nil {
				ok = event("incident", i)
			}
		}
	}
}

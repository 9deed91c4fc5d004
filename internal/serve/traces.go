package serve

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/trace"
)

const (
	maxExport       = 1 << 20 // bytes of one export, uncompressed; package web bounds compressed ones
	maxTraceReports = 2       // concurrent reports: each makes a diagnosis
	slowRequests    = 5       // slow requests of an incident
	usualPast       = time.Hour
)

var errNoTraces = hint.With(errors.New("traces are not received"),
	"start sixty serve with --trace-buffer 32MB, and send OTLP over HTTP to /v1/traces")

// traceAnswers returns the handlers that receive traces as OTLP over HTTP, and list and report them.
func (s *server) traceAnswers() map[string]http.Handler {
	on := func(h http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.ring == nil {
				web.Fail(w, http.StatusNotFound, errNoTraces)
				return
			}
			h(w, r)
		})
	}
	return map[string]http.Handler{
		"/v1/traces":              on(s.receiveTraces),
		"GET /api/v1/traces":      on(s.slowTraces),
		"GET /api/v1/traces/{id}": web.Limited(maxTraceReports).Handler(on(s.traceReport)),
	}
}

// receiveTraces takes an export (https://opentelemetry.io/docs/specs/otlp/#otlphttp).
func (s *server) receiveTraces(w http.ResponseWriter, r *http.Request) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	read, answer := trace.Proto, ""
	switch {
	case r.Method != http.MethodPost:
		web.Fail(w, http.StatusMethodNotAllowed, errors.New("traces are sent with POST"))
		return
	case kind == "application/json":
		read, answer = trace.JSON, "{}"
	case kind != "application/x-protobuf":
		web.Fail(w, http.StatusUnsupportedMediaType,
			errors.New("the body must be OTLP: application/x-protobuf or application/json"))
		return
	}
	body, err := readExport(r)
	if err == nil && len(body) > maxExport {
		err = hint.With(fmt.Errorf("an export of more than %d bytes", maxExport),
			"set send_batch_max_size of the collector's batch processor to 1000")
	}
	if err != nil {
		web.Fail(w, http.StatusRequestEntityTooLarge, err)
		return
	}
	spans, err := read(body)
	if err != nil {
		web.Fail(w, http.StatusBadRequest, err)
		return
	}
	s.ring.Add(spans)
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, answer) // an empty message accepts all spans
}

// readExport reads the body of an export, up to one byte more than maxExport.
func readExport(r *http.Request) ([]byte, error) {
	in := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		in = z
	}
	body, err := io.ReadAll(io.LimitReader(in, maxExport+1))
	if err != nil {
		return nil, fmt.Errorf("read the export: %w", err)
	}
	return body, nil
}

// slowTraces lists the slowest requests of the last hour, or of the time since=.
func (s *server) slowTraces(w http.ResponseWriter, r *http.Request) {
	past := usualPast
	if text := r.FormValue("since"); text != "" {
		var err error
		if past, err = time.ParseDuration(text); err != nil || past <= 0 {
			web.Fail(w, http.StatusBadRequest, fmt.Errorf("since %q is not a positive duration", text))
			return
		}
	}
	now := time.Now()
	web.Answer(w, s.ring.Slowest(now.Add(-past), now, usualLimit, s.normal()))
}

// normal returns the baseline of the latest evaluation, or nil.
func (s *server) normal() trace.Known {
	if e := s.monitor.Latest(); e != nil && e.Err == nil {
		return trace.NormalIn(&e.Diagnosis)
	}
	return nil
}

// traceReport answers with where the time of a request went, and the state of the servers at that time.
func (s *server) traceReport(w http.ResponseWriter, r *http.Request) {
	id := strings.ToLower(r.PathValue("id"))
	one := trace.Group(s.ring.Spans(id))
	if id == "" || len(one) != 1 {
		web.Fail(w, http.StatusNotFound, hint.With(fmt.Errorf("no trace %q is kept", id),
			"only the latest are kept; GET /api/v1/traces lists slow ones"))
		return
	}
	others := trace.NewPopulation(trace.Group(s.ring.Spans("")))
	report := trace.Judge(one[0], others, nil)
	if report.At != nil {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		d, err := s.monitor.DiagnoseAt(ctx, *report.At, 0)
		if err != nil {
			report.Notes = append(report.Notes, "the servers' state at that time is not known: "+err.Error())
		} else {
			report = trace.JudgeIn(one[0], others, &d)
		}
	}
	web.Answer(w, report)
}

// addSlowRequests adds the slowest requests in an incident's time that are still in memory, unless the principal is
// restricted: a trace does not name the team of a server.
func (s *server) addSlowRequests(ctx context.Context, i *view.Incident) {
	if s.ring == nil || i.ID == "" || access.Of(ctx).Restricted() {
		return
	}
	to := time.Now()
	if i.Ended != nil {
		to = *i.Ended
	}
	i.SlowRequests = s.ring.Slowest(i.Began, to, slowRequests, s.normal())
}

// Package web serves the monitor over HTTP: Prometheus' API, the judgement as JSON, server-
// sent events, and the page. docs/api.md is the contract.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/util/httputil"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/listen"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Bounds of requests.
const (
	maxBody    = 1 << 20
	atOnce     = 4 // diagnoses, simulations and reports at the same time
	lookTime   = time.Minute
	idleStream = 15 * time.Second // between two signs of life of a stream of events
)

// Options are what a Server shows.
type Options struct {
	// Part returns what somebody sees, by the context of a request.
	Part func(context.Context) Part
	// Prometheus answers Prometheus' API: the collector's, or a proxy to the server that
	// collects.
	Prometheus http.Handler
	// News, which may be nil, tells of evaluations, and of incidents that begin, change or end.
	News *News
	// Trouble says what stands in the way of a true answer, and what else is amiss; it may be
	// nil.
	Trouble func() (doubts, notes []string)
	// Anomalies, which may be nil, returns the findings of the anomaly detector.
	Anomalies func() []view.Anomaly
	// Blind reports whether nothing is judged; it may be nil.
	Blind func() bool
	// More are further handlers, by pattern, such as "GET /api/v1/incidents".
	More map[string]http.Handler
	Page http.Handler // everything else
	// Reload reads the configuration again.
	Reload func() error
	// Token, where not empty, must come with every request but those that are open, as a bearer token
	// or as a password.
	Token string
	// WebFile is Prometheus' web configuration; "" for none.
	WebFile string
	// External is the URL under which others see it; it may have a path.
	External *url.URL
	Registry *prometheus.Registry
	Log      *slog.Logger
}

// A Part is what a principal may see: everything, or a team's part.
type Part struct {
	Monitor *monitor.Monitor
	Scraped []collect.Target // none where another server collects
	// Incident finds one of the part, by its id.
	Incident monitor.FindIncident
}

// A Server serves; it is made by New.
type Server struct {
	http.Handler
	o        Options
	patterns []string
	gate     atomic.Pointer[gate]
}

// SetAccess makes who may see and do what as a configuration says, which may be nil: then everybody
// who comes in may do everything.
func (s *Server) SetAccess(cfg *access.Config) { s.gate.Store(newGate(&s.o, cfg)) }

// Patterns lists the patterns of all routes, in the syntax of http.ServeMux.
func (s *Server) Patterns() []string { return s.patterns }

// A routes is a mux that knows its patterns.
type routes struct {
	http.ServeMux
	patterns []string
	guard    func(pattern string, h http.Handler) http.Handler
}

func (m *routes) Handle(pattern string, h http.Handler) {
	m.ServeMux.Handle(pattern, m.guard(pattern, h))
	m.patterns = append(m.patterns, pattern)
}

func (m *routes) HandleFunc(pattern string, h http.HandlerFunc) { m.Handle(pattern, h) }

// New returns a Server, to which everybody has access who brings the token.
func New(o Options) *Server {
	s, looking := &Server{o: o}, Limited(atOnce)
	s.SetAccess(nil)
	mux := &routes{guard: s.guard}
	mux.HandleFunc("GET /-/healthy",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "sixty is healthy.") })
	mux.HandleFunc("GET /-/ready", s.ready)
	mux.HandleFunc("POST /-/reload", s.reload)
	mux.HandleFunc("PUT /-/reload", s.reload)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true,
		MaxRequestsInFlight: atOnce}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // as Prometheus does
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	packed := func(h http.Handler) http.Handler { return httputil.CompressionHandler{Handler: h} }
	mux.Handle("GET /api/v1/overview", packed(http.HandlerFunc(s.overview)))
	mux.Handle("GET /api/v1/diagnosis", packed(looking.Handler(http.HandlerFunc(s.diagnosis))))
	mux.HandleFunc("GET /api/v1/events", s.events)
	for pattern, h := range o.More {
		if strings.HasPrefix(pattern, "GET /api/v1/") {
			h = packed(h)
		}
		if strings.HasPrefix(pattern, "POST ") { // computed on request
			h = looking.Handler(h)
		}
		mux.Handle(pattern, h)
	}
	if o.Prometheus != nil {
		mux.Handle("/api/v1/", restrictPrometheus(o.Prometheus))
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		Fail(w, http.StatusNotFound, hint.With(fmt.Errorf("there is nothing at %s", r.URL.Path),
			"docs/api.md lists all paths"))
	})
	if o.Page != nil {
		mux.Handle("/", o.Page)
	}
	s.Handler = stripExternalPath(o.External,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.gate.Load().serve(w, r, mux) }))
	s.patterns = mux.patterns
	return s
}

// stripExternalPath takes the path of the external URL off requests, for a proxy that leaves it on; one
// that takes it off is served as well.
func stripExternalPath(external *url.URL, next http.Handler) http.Handler {
	prefix := strings.TrimSuffix(external.Path, "/")
	if prefix == "" {
		return next
	}
	stripped := http.StripPrefix(prefix, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == prefix:
			http.Redirect(w, r, prefix+"/", http.StatusPermanentRedirect)
		case strings.HasPrefix(r.URL.Path, prefix+"/"):
			stripped.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// refuseName refuses a name for this machine that is not ours, by which another page would make a browser read.
func refuseName(external *url.URL, r *http.Request) error {
	host := hostOf(r.Host)
	local := host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && addr.IP.IsLoopback() && !local &&
		host != hostOf(external.Host) {
		return hint.With(fmt.Errorf("%q is not this server's name", host),
			"set --external-url if a proxy is in front of it")
	}
	return nil
}

func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return strings.Trim(hostport, "[]")
	}
	return host
}

// Limited allows n requests at the same time; further ones are refused after a short wait.
func Limited(n int) *listen.Turns {
	return listen.NewTurns(n, 10*time.Second, User, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		Fail(w, http.StatusServiceUnavailable, errors.New("too many concurrent queries"))
	})
}

// User is who sends a request, "" where nobody is asked for a name.
func User(r *http.Request) string { return access.Of(r.Context()).Name }

// Answer writes a value as JSON.
func Answer(w http.ResponseWriter, value any) { writeJSON(w, http.StatusOK, value) }

// Fail writes an error with its way out.
func Fail(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, view.Error{Error: err.Error(), Hint: hint.Of(err)})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // an error is a reader that left
}

// Body reads the JSON of a request that writes, strictly.
func Body(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		Fail(w, http.StatusUnsupportedMediaType, errors.New("the body must be application/json"))
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		Fail(w, http.StatusBadRequest, fmt.Errorf("body: %w", err))
		return false
	}
	return true
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.o.Part(r.Context()).Monitor.Latest() == nil {
		Fail(w, http.StatusServiceUnavailable, errors.New("not evaluated yet"))
		return
	}
	if s.o.Blind != nil && s.o.Blind() {
		Fail(w, http.StatusServiceUnavailable, errors.New("nothing is judged: see the problems on the page"))
		return
	}
	fmt.Fprintln(w, "sixty is ready.")
}

func (s *Server) reload(w http.ResponseWriter, _ *http.Request) {
	if err := s.o.Reload(); err != nil {
		Fail(w, http.StatusBadRequest, fmt.Errorf("the previous configuration stays in effect: %w", err))
		return
	}
	fmt.Fprintln(w, "Configuration reloaded.")
}

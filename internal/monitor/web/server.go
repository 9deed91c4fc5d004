// Package web serves the monitor over HTTP: Prometheus' API, overview and diagnosis as JSON, server-sent events, and
// the page. docs/api.md is the contract.
//
// A request passes the gate, which authenticates its sender (package access), and then the rule of its route, which
// asks for a role and writes the audit log. A team gets answers from its own part of the servers alone; PromQL of a
// team gets the matchers of its view. Package serve adds further handlers, such as those of incidents.
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
	maxBody       = 1 << 20
	maxConcurrent = 4 // concurrent diagnoses, simulations and reports
	answerTimeout = time.Minute
	idleStream    = 15 * time.Second // between two comments that keep a stream of events alive
)

// Options are what a Server shows.
type Options struct {
	// Part returns the part of the servers that the principal of a request's context sees.
	Part func(context.Context) Part
	// Prometheus serves Prometheus' API: the collector's own, or a proxy to a Prometheus server.
	Prometheus http.Handler
	// News, which may be nil, broadcasts evaluations and changed incidents.
	News *News
	// Trouble returns problems: doubts make the overview partial, notes do not. It may be nil.
	Trouble func() (doubts, notes []string)
	// Anomalies, which may be nil, returns the findings of the anomaly detector.
	Anomalies func() []view.Anomaly
	// Blind reports whether nothing is judged; it may be nil.
	Blind func() bool
	// More holds further handlers by pattern, such as "GET /api/v1/incidents".
	More map[string]http.Handler
	Page http.Handler // everything else
	// Reload reads the configuration again.
	Reload func() error
	// Token is the secret that requests need, as a bearer token or as a password; "" for none.
	Token string
	// WebFile is Prometheus' web configuration; "" for none.
	WebFile string
	// External is the URL for links. It may have a path.
	External *url.URL
	Registry *prometheus.Registry
	Log      *slog.Logger
}

// A Part is the part of the servers that a principal sees.
type Part struct {
	Monitor *monitor.Monitor
	Scraped []collect.Target // empty with a Prometheus server
	// Incident finds an incident of the part.
	Incident monitor.FindIncident
}

// A Server is the handler of all requests.
type Server struct {
	http.Handler
	opts     Options
	patterns []string
	gate     atomic.Pointer[gate]
}

// SetAccess replaces grants and proxy. With nil every authenticated sender may do everything.
func (s *Server) SetAccess(cfg *access.Config) { s.gate.Store(newGate(&s.opts, cfg)) }

// Patterns lists the patterns of all routes, in the syntax of http.ServeMux.
func (s *Server) Patterns() []string { return s.patterns }

// routes is a mux that knows its patterns and guards them.
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

// New returns a Server without grants; see SetAccess.
func New(o Options) *Server {
	s, computed := &Server{opts: o}, Limited(maxConcurrent)
	s.SetAccess(nil)
	mux := &routes{guard: s.guard}
	mux.HandleFunc("GET /-/healthy",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "sixty is healthy.") })
	mux.HandleFunc("GET /-/ready", s.ready)
	mux.HandleFunc("POST /-/reload", s.reload)
	mux.HandleFunc("PUT /-/reload", s.reload)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true,
		MaxRequestsInFlight: maxConcurrent}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // as Prometheus does
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	compressed := func(h http.Handler) http.Handler { return httputil.CompressionHandler{Handler: h} }
	mux.Handle("GET /api/v1/overview", compressed(http.HandlerFunc(s.overview)))
	mux.Handle("GET /api/v1/diagnosis", compressed(computed.Handler(http.HandlerFunc(s.diagnosis))))
	mux.HandleFunc("GET /api/v1/events", s.events)
	for pattern, h := range o.More {
		if strings.HasPrefix(pattern, "GET /api/v1/") {
			h = compressed(h)
		}
		if strings.HasPrefix(pattern, "POST ") { // computed on request
			h = computed.Handler(h)
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
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.gate.Load().admit(w, r, mux) }))
	s.patterns = mux.patterns
	return s
}

// stripExternalPath removes the path of the external URL from requests, if a proxy did not remove it already.
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

// refuseName refuses foreign host names on the loopback interface, against DNS rebinding by another page.
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

// User returns the name of the sender of a request; "" without one.
func User(r *http.Request) string { return access.Of(r.Context()).Name }

// Answer writes a value as JSON.
func Answer(w http.ResponseWriter, value any) { writeJSON(w, http.StatusOK, value) }

// Fail writes an error with its hint.
func Fail(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, view.Error{Error: err.Error(), Hint: hint.Of(err)})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // it fails if the client left
}

// Body decodes a JSON body without unknown fields. It answers the request and returns false if that fails.
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
	if s.opts.Part(r.Context()).Monitor.Latest() == nil {
		Fail(w, http.StatusServiceUnavailable, errors.New("not evaluated yet"))
		return
	}
	if s.opts.Blind != nil && s.opts.Blind() {
		Fail(w, http.StatusServiceUnavailable, errors.New("nothing is judged: see the problems on the page"))
		return
	}
	fmt.Fprintln(w, "sixty is ready.")
}

func (s *Server) reload(w http.ResponseWriter, _ *http.Request) {
	if err := s.opts.Reload(); err != nil {
		Fail(w, http.StatusBadRequest, fmt.Errorf("the previous configuration stays in effect: %w", err))
		return
	}
	fmt.Fprintln(w, "Configuration reloaded.")
}

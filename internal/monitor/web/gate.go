package web

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/monitor/access"
)

// byToken is who brings the token.
var byToken = &access.Principal{Name: "token", Way: "token", Role: access.Admin}

// A gate says who sends a request.
type gate struct {
	external *url.URL
	token    string
	webFile  string         // Prometheus' web configuration, which has asked for passwords already
	cfg      *access.Config // nil: everybody who comes in is an admin
	log      *access.Log
	warn     *slog.Logger
}

// newGate returns the gate of a configuration, which may be nil.
func newGate(o *Options, cfg *access.Config) *gate {
	g := &gate{external: o.External, token: o.Token, webFile: o.WebFile, cfg: cfg, warn: o.Log}
	if cfg != nil {
		g.log = &access.Log{Path: cfg.AuditLog}
	}
	return g
}

// AsksForCredentials reports whether not everybody who reaches it may come in.
func (s *Server) AsksForCredentials() bool {
	g := s.gate.Load()
	return g.token != "" || g.webFile != "" || g.cfg != nil
}

// record writes what somebody did, or tried to do, to the audit log.
func (g *gate) record(r *http.Request, p *access.Principal, status int) {
	if err := g.log.Write(access.NewDeed(p, r.RemoteAddr, r.Method, r.URL.Path, status)); err != nil {
		g.warn.Error("the audit log cannot be written", "err", err)
	}
}

// identify returns who sends a request, nil where nobody says.
func (g *gate) identify(r *http.Request) *access.Principal {
	if g.hasToken(r) {
		return byToken
	}
	if g.cfg == nil {
		if g.token == "" {
			return access.Everybody
		}
		return nil
	}
	if x := g.cfg.Proxy; x != nil && x.Trusts(r.RemoteAddr) {
		if name := r.Header.Values(x.UserHeader); len(name) == 1 && name[0] != "" {
			var groups []string
			for _, line := range r.Header.Values(x.GroupsHeader) {
				for g := range strings.SplitSeq(line, ",") {
					groups = append(groups, strings.TrimSpace(g))
				}
			}
			return g.cfg.Grant("proxy", name[0], groups)
		}
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		return g.cfg.Grant("certificate", subject.CommonName, subject.Organization)
	}
	if name, _, ok := r.BasicAuth(); ok && g.hasPassword(name) {
		return g.cfg.Grant("basic", name, nil)
	}
	return nil
}

// hasToken reports whether a request brings the token: as a bearer token, or, as browsers do, as the
// password of basic authentication, with any user name.
func (g *gate) hasToken(r *http.Request) bool {
	_, given, basic := r.BasicAuth()
	if !basic {
		scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		given = strings.TrimSpace(rest)
	}
	return g.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
}

// hasPassword reports whether a user is in the web configuration: then the server has compared the
// password already, by the same file. Without one a name that comes with a request proves nothing.
func (g *gate) hasPassword(name string) bool {
	if g.webFile == "" {
		return false
	}
	text, err := fileio.Read(g.webFile, maxBody)
	var file struct {
		Users map[string]string `yaml:"basic_auth_users"`
	}
	return err == nil && yaml.Unmarshal(text, &file) == nil && file.Users[name] != ""
}

// open are the requests that need no credentials, by method and path as it was sent: those of probes.
// Every other request needs them, also one whose path would become one of these.
var open = []string{"GET /-/healthy", "HEAD /-/healthy", "GET /-/ready", "HEAD /-/ready"}

// openByToken are further ones where there are no roles: what reads the configuration again tells
// nothing of it.
var openByToken = []string{"POST /-/reload", "PUT /-/reload"}

// RequireAuth lets through what may come in: with the bearer token, where there is one, and not
// from another page in somebody's browser. External is the URL under which others see it.
func RequireAuth(external *url.URL, token string, next http.Handler) http.Handler {
	g := &gate{external: external, token: token}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
}

// serve lets through what may come in.
func (g *gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	if err := refuseCrossSite(g.external, r); err != nil {
		Fail(w, http.StatusForbidden, err)
		return
	}
	name := r.Method + " " + r.URL.EscapedPath()
	p := g.identify(r)
	if slices.Contains(open, name) || g.cfg == nil && slices.Contains(openByToken, name) {
		p = access.Everybody
	}
	switch {
	case p == nil:
		h.Set("WWW-Authenticate", `Bearer realm="sixty"`)
		if g.token != "" { // browsers ask for it
			h.Add("WWW-Authenticate", `Basic realm="sixty: the token as password"`)
		}
		Fail(w, http.StatusUnauthorized, errors.New(g.asks()))
		return
	case p.Role == access.None:
		g.record(r, p, http.StatusForbidden)
		Fail(w, http.StatusForbidden, hint.With(fmt.Errorf("%s has no role here", p.Name), "ask for a grant in the monitor's configuration, sixty.access.grants"))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	next.ServeHTTP(w, r.WithContext(access.With(r.Context(), p)))
}

// stays reports whether a request that goes on for long would be let in again as who began it: grants
// change.
func (g *gate) stays(r *http.Request) bool {
	began, now := access.Of(r.Context()), g.identify(r)
	return now != nil && now.Role >= access.Viewer && access.Selector(now.Match) == access.Selector(began.Match)
}

// asks says what a request lacks.
func (g *gate) asks() string {
	if g.cfg == nil {
		return "this needs the token, as a bearer token or as a password"
	}
	return "this needs the configured credentials"
}

// A rule says who may use a route.
type rule struct {
	read, write access.Role // for GET and HEAD, and for all other methods
	team        bool        // it answers a team with what is its own; others are for those who see everything
	logged      bool        // in the audit log: writes, and reading what leaves the monitor as a whole
}

// rules are those of routes that differ from usualRule.
var (
	usualRule = rule{read: access.Viewer, write: access.Operator, logged: true}
	teamReads = rule{read: access.Viewer, team: true}
	rules     = map[string]rule{
		"GET /-/healthy":            {team: true},
		"GET /-/ready":              {team: true},
		"POST /-/reload":            {write: access.Operator, team: true, logged: true},
		"PUT /-/reload":             {write: access.Operator, team: true, logged: true},
		"GET /metrics":              {read: access.Viewer},
		"GET /debug/pprof/":         {read: access.Admin, logged: true},
		"GET /debug/pprof/profile":  {read: access.Admin, logged: true},
		"GET /debug/pprof/trace":    {read: access.Admin, logged: true},
		"GET /api/v1/overview":      teamReads,
		"GET /api/v1/diagnosis":     teamReads,
		"GET /api/v1/findings":      teamReads,
		"GET /api/v1/events":        teamReads,
		"GET /api/v1/health":        teamReads,
		"GET /api/v1/panels":        teamReads,
		"GET /api/v1/runbooks":      teamReads,
		"GET /api/v1/runbooks/{id}": teamReads,
		"GET /api/v1/audit":         teamReads,
		"GET /api/v1/settings":      teamReads,
		"GET /api/v1/openapi.json":  teamReads,
		"GET /api/v1/requests":      {read: access.Viewer},
		"/v1/traces":                {write: access.Operator},
		"/api/v1/incidents":         {read: access.Viewer, write: access.Operator, team: true},
		"/api/v1/incidents/":        {read: access.Viewer, write: access.Operator, team: true, logged: true},
		"POST /api/v1/simulate":     {write: access.Viewer, team: true, logged: true},
		"/mcp":                      {read: access.Viewer, write: access.Viewer, team: true, logged: true},
		"/api/v1/":                  {read: access.Viewer, write: access.Viewer, team: true}, // questions, with POST too
		"/api/":                     {team: true},
		"/":                         {read: access.Viewer, write: access.Viewer, team: true}, // the page
	}
)

// guard lets those through who may use a route, and writes to the audit log what they do.
func (s *Server) guard(pattern string, next http.Handler) http.Handler {
	of, known := rules[pattern]
	if !known {
		of = usualRule
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, g := access.Of(r.Context()), s.gate.Load()
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		need := of.write
		if reads {
			need = of.read
		}
		if p.Role < need {
			g.record(r, p, http.StatusForbidden)
			Fail(w, http.StatusForbidden, fmt.Errorf("this needs the role %s, and %s has %s", need, p.Name, p.Role))
			return
		}
		if p.Restricted() && !of.team {
			g.record(r, p, http.StatusForbidden)
			Fail(w, http.StatusForbidden, errors.New("not available in a team's view"))
			return
		}
		if !of.logged || reads && need < access.Admin && !strings.HasSuffix(r.URL.Path, "/recording") && !strings.HasSuffix(r.URL.Path, "/postmortem") {
			next.ServeHTTP(w, r)
			return
		}
		told := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(told, r)
		g.record(r, p, told.code)
	})
}

// status remembers what was answered.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

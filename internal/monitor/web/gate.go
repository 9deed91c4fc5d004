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

	"github.com/felixge/httpsnoop"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/time/rate"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/monitor/access"
)

// byToken is the principal of requests with the token.
var byToken = &access.Principal{Name: "token", Way: "token", Role: access.Admin}

// A gate authenticates requests: by the token, a password, a client certificate, or the headers of an authenticating
// proxy. It refuses requests of unknown senders and of foreign pages.
type gate struct {
	external  *url.URL
	token     string
	webFile   string // Prometheus' web configuration, read at each request
	passwords *passwords
	limiter   *rate.Limiter // nil for no limit
	origins   *http.CrossOriginProtection
	cfg       *access.Config // nil: every authenticated sender is an admin
	log       *access.Log
	warn      *slog.Logger
}

// newGate returns the gate of a configuration, which may be nil.
func newGate(o *Options, cfg *access.Config) *gate {
	g := &gate{external: o.External, token: o.Token, webFile: o.WebFile, passwords: newPasswords(), cfg: cfg,
		warn: o.Log}
	g.origins = http.NewCrossOriginProtection()
	_ = g.origins.AddTrustedOrigin(o.External.Scheme + "://" + o.External.Host) // the URL was parsed before: no error
	if cfg != nil {
		g.log = &access.Log{Path: cfg.AuditLog}
	}
	if at, err := ReadWebConfig(o.WebFile); err == nil && at.RateLimiterConfig.Interval != 0 {
		g.limiter = rate.NewLimiter(rate.Every(at.RateLimiterConfig.Interval), at.RateLimiterConfig.Burst)
	}
	return g
}

// AsksForCredentials reports whether requests need credentials.
func (s *Server) AsksForCredentials() bool {
	g := s.gate.Load()
	at, err := ReadWebConfig(g.webFile)
	return err != nil || g.token != "" || g.cfg != nil || len(at.Users) > 0 ||
		at.TLSConfig.ClientAuth == "RequireAndVerifyClientCert"
}

// record writes a request to the audit log.
func (g *gate) record(r *http.Request, p *access.Principal, status int) {
	if err := g.log.Write(p, r, status); err != nil {
		g.warn.Error("the audit log cannot be written", "err", err)
	}
}

// identify returns the sender of a request, or nil if it is not authenticated.
func (g *gate) identify(r *http.Request, at *toolkit.Config) *access.Principal {
	if g.hasToken(r) {
		return byToken
	}
	if g.cfg == nil && g.token == "" && len(at.Users) == 0 {
		return access.Everybody
	}
	if p := g.identifyOutside(r); p != nil {
		return p
	}
	user, password, given := r.BasicAuth()
	switch {
	case !given || !g.passwords.match(r.Context(), at, user, password):
		return nil
	case g.cfg == nil:
		return &access.Principal{Name: user, Way: "basic", Role: access.Admin}
	}
	return g.cfg.Authorize("basic", user, nil)
}

// identifyOutside returns the sender that an authenticating proxy or a client certificate names, or nil. Both need
// grants.
func (g *gate) identifyOutside(r *http.Request) *access.Principal {
	if g.cfg == nil {
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
			return g.cfg.Authorize("proxy", name[0], groups)
		}
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		return g.cfg.Authorize("certificate", subject.CommonName, subject.Organization)
	}
	return nil
}

// hasToken reports whether a request has the token: as a bearer token or, from browsers, as the password of basic
// authentication with any user name.
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

// openProbes lists the probes, by method and raw path: they need no credentials. Every other request needs credentials,
// even if its cleaned path is one of these.
var openProbes = []string{"GET /-/healthy", "HEAD /-/healthy", "GET /-/ready", "HEAD /-/ready"}

// openByToken lists further requests without credentials, if there are neither roles nor passwords. A reload reveals
// nothing of the configuration.
var openByToken = []string{"POST /-/reload", "PUT /-/reload"}

// admit passes on requests of known senders, and refuses requests that another page makes in a browser.
func (g *gate) admit(w http.ResponseWriter, r *http.Request, next http.Handler) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	err := refuseName(g.external, r)
	if err == nil {
		err = g.origins.Check(r)
	}
	if err != nil {
		Fail(w, http.StatusForbidden, err)
		return
	}
	name := r.Method + " " + r.URL.EscapedPath()
	if slices.Contains(openProbes, name) {
		g.passOn(w, r, access.Everybody, next)
		return
	}
	at, err := ReadWebConfig(g.webFile)
	if err != nil {
		g.warn.Error("the web configuration cannot be read", "err", err)
		Fail(w, http.StatusInternalServerError, errors.New("the web configuration cannot be read"))
		return
	}
	for name, value := range at.HTTPConfig.Header {
		h.Set(name, value)
	}
	if g.limiter != nil && !g.limiter.Allow() {
		Fail(w, http.StatusTooManyRequests, errors.New("too many requests: rate_limit in the web configuration"))
		return
	}
	p := g.identify(r, at)
	if g.cfg == nil && len(at.Users) == 0 && slices.Contains(openByToken, name) {
		p = access.Everybody
	}
	switch {
	case p == nil:
		h.Set("WWW-Authenticate", `Bearer realm="sixty"`)
		if g.token != "" || len(at.Users) > 0 { // browsers ask for a password
			h.Add("WWW-Authenticate", `Basic realm="sixty"`)
		}
		Fail(w, http.StatusUnauthorized,
			errors.New("this needs credentials: the token, a password or what else the monitor is configured for"))
		return
	case p.Role == access.None:
		g.record(r, p, http.StatusForbidden)
		Fail(w, http.StatusForbidden, hint.With(fmt.Errorf("%s has no role here", p.Name),
			"ask for a grant in the monitor's configuration, sixty.access.grants"))
		return
	}
	g.passOn(w, r, p, next)
}

// passOn serves a request with its principal.
func (g *gate) passOn(w http.ResponseWriter, r *http.Request, p *access.Principal, next http.Handler) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	next.ServeHTTP(w, r.WithContext(access.With(r.Context(), p)))
}

// stillAllowed reports whether the sender of a long request still has the same view: passwords and grants change.
func (g *gate) stillAllowed(r *http.Request) bool {
	at, err := ReadWebConfig(g.webFile)
	if err != nil {
		return false
	}
	began, now := access.Of(r.Context()), g.identify(r, at)
	return now != nil && now.Role >= access.Viewer && access.Selector(now.Match) == access.Selector(began.Match)
}

// A rule says who may use a route, and whether the audit log has it.
type rule struct {
	read, write access.Role // for GET and HEAD, and for all other methods
	team        bool        // teams may use it: the answer is restricted to their view
	logged      bool        // writes are logged, and downloads of recordings and post-mortems
}

// rules are the rules of routes that differ from usualRule.
var (
	usualRule = rule{read: access.Viewer, write: access.Operator, logged: true}
	teamReads = rule{read: access.Viewer, team: true}
	rules     = map[string]rule{
		"GET /-/healthy":            {team: true},
		"GET /-/ready":              {team: true},
		"POST /-/reload":            {write: access.Operator, team: true, logged: true},
		"PUT /-/reload":             {write: access.Operator, team: true, logged: true},
		"GET /debug/pprof/":         {read: access.Admin, logged: true},
		"GET /debug/pprof/profile":  {read: access.Admin, logged: true},
		"GET /debug/pprof/trace":    {read: access.Admin, logged: true},
		"GET /api/v1/overview":      teamReads,
		"GET /api/v1/diagnosis":     teamReads,
		"GET /api/v1/events":        teamReads,
		"GET /api/v1/panels":        teamReads,
		"GET /api/v1/runbooks":      teamReads,
		"GET /api/v1/runbooks/{id}": teamReads,
		"GET /api/v1/audit":         teamReads,
		"GET /api/v1/settings":      teamReads,
		"/v1/traces":                {write: access.Operator},
		"/api/v1/incidents":         {read: access.Viewer, write: access.Operator, team: true},
		"/api/v1/incidents/":        {read: access.Viewer, write: access.Operator, team: true, logged: true},
		"POST /api/v1/simulate":     {write: access.Viewer, team: true, logged: true},
		"/mcp":                      {read: access.Viewer, write: access.Viewer, team: true, logged: true},
		// Prometheus' API reads with POST too
		"/api/v1/": {read: access.Viewer, write: access.Viewer, team: true},
		"/api/":    {team: true},
		"/":        {read: access.Viewer, write: access.Viewer, team: true}, // the page
	}
)

// guard enforces the rule of a route, and writes the audit log.
func (s *Server) guard(pattern string, next http.Handler) http.Handler {
	route, known := rules[pattern]
	if !known {
		route = usualRule
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, g := access.Of(r.Context()), s.gate.Load()
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		need := route.write
		if reads {
			need = route.read
		}
		if p.Role < need {
			g.record(r, p, http.StatusForbidden)
			Fail(w, http.StatusForbidden, fmt.Errorf("this needs the role %s, and %s has %s", need, p.Name, p.Role))
			return
		}
		if p.Restricted() && !route.team {
			g.record(r, p, http.StatusForbidden)
			Fail(w, http.StatusForbidden, errors.New("not available in a team's view"))
			return
		}
		if !route.logged || reads && need < access.Admin && !strings.HasSuffix(r.URL.Path, "/recording") &&
			!strings.HasSuffix(r.URL.Path, "/postmortem") {
			next.ServeHTTP(w, r)
			return
		}
		g.record(r, p, httpsnoop.CaptureMetrics(next, w, r).Code)
	})
}

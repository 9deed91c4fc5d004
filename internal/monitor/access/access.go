// Package access decides who may see and do what in the monitor: roles, views of teams, and an audit log. Package web
// authenticates, and puts the [Principal] into the request's context.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Role is a set of rights. Each role includes those before it.
type Role int

// Roles.
const (
	None     Role = iota
	Viewer        // reads
	Operator      // acknowledges and silences incidents, writes notes, reloads the configuration
	Admin         // profiles the monitor itself
)

var roleNames = []string{"none", "viewer", "operator", "admin"}

// String returns the name of the role.
func (r Role) String() string { return roleNames[r] }

// UnmarshalText reads the name of a role. None cannot be granted.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(roleNames, string(text))
	if i <= int(None) {
		return fmt.Errorf("there is no role %q: they are viewer, operator and admin", text)
	}
	*r = Role(i)
	return nil
}

// A Principal is the sender of a request.
type Principal struct {
	Name string // "" without a name
	Way  string // how it was authenticated: token, proxy, certificate, basic; "" if it was not
	Role Role
	// Match selects the servers that it sees. Without matchers it sees everything.
	Match []*labels.Matcher
}

// Everybody is the principal of all requests without authentication.
var Everybody = &Principal{Role: Admin}

// Restricted reports whether it sees only a part of the servers.
func (p *Principal) Restricted() bool { return len(p.Match) > 0 }

// IsPerson reports whether the name is a person's. The token is shared.
func (p *Principal) IsPerson() bool { return p.Name != "" && p.Way != "token" }

type contextKey struct{}

// With returns a context with a principal.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// Of returns the principal of a context. Without one it returns a principal without rights.
func Of(ctx context.Context) *Principal {
	if p, ok := ctx.Value(contextKey{}).(*Principal); ok {
		return p
	}
	return &Principal{}
}

// Config is sixty.access in the configuration.
type Config struct {
	// OIDC is refused: it was a setting in earlier releases.
	OIDC     any     `yaml:"oidc"`
	Proxy    *Proxy  `yaml:"proxy"`
	Grants   []Grant `yaml:"grants"`
	AuditLog string  `yaml:"audit_log"` // a file of JSON lines
}

// Proxy is an authenticating proxy, which names the user in headers.
type Proxy struct {
	Trusted      []netip.Prefix `yaml:"trusted"` // addresses whose headers are trusted
	UserHeader   string         `yaml:"user_header"`
	GroupsHeader string         `yaml:"groups_header"` // comma-separated
}

// A Grant gives a role to people. The first matching grant counts.
type Grant struct {
	Users  []string `yaml:"users"`
	Groups []string `yaml:"groups"`
	Role   Role     `yaml:"role"`
	Match  View     `yaml:"match"`
}

// A View selects the servers that a team sees, as a PromQL selector: {namespace="team-a"}.
type View []*labels.Matcher

// UnmarshalText reads a selector.
func (v *View) UnmarshalText(text []byte) error {
	ms, err := parser.NewParser(parser.Options{}).ParseMetricSelector(string(text))
	if err == nil && slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == labels.MetricName }) {
		err = errors.New("it names a metric")
	}
	if err == nil && len(ms) == 0 { // it would select everything
		err = errors.New("it has no matcher")
	}
	if err != nil {
		return hint.With(fmt.Errorf("match: %s: %w", text, err), `write it like {namespace="team-a"}`)
	}
	*v = ms
	return nil
}

// Check checks a configuration.
func (c *Config) Check() error {
	switch {
	case c.OIDC != nil:
		return hint.With(errors.New("oidc: no longer a setting"),
			"let an authenticating proxy such as oauth2-proxy ask the provider, and name it in sixty.access.proxy")
	case c.Proxy != nil && (len(c.Proxy.Trusted) == 0 || c.Proxy.UserHeader == ""):
		return hint.With(errors.New("proxy: trusted and user_header are needed"),
			"name the addresses of the proxy, such as 10.0.0.7/32: headers of others are not believed")
	case len(c.Grants) == 0:
		return hint.With(errors.New("grants: no role is granted"), "write grants: [{groups: [sre], role: admin}]")
	}
	for i, g := range c.Grants {
		if g.Role == None || len(g.Users)+len(g.Groups) == 0 {
			return fmt.Errorf("grants: number %d needs a role, and users or groups", i+1)
		}
	}
	return nil
}

// Authorize returns the principal of an authenticated user, with the role and view of the first matching grant, or the
// role None. The user "*" of a grant matches everybody.
func (c *Config) Authorize(way, name string, groups []string) *Principal {
	p := &Principal{Name: name, Way: way}
	for _, g := range c.Grants {
		if slices.Contains(g.Users, name) || slices.Contains(g.Users, "*") ||
			slices.ContainsFunc(groups, func(s string) bool { return slices.Contains(g.Groups, s) }) {
			p.Role, p.Match = g.Role, g.Match
			return p
		}
	}
	return p
}

// Trusts reports whether the headers of a sender, as HOST:PORT, are trusted.
func (p *Proxy) Trusts(sender string) bool {
	at, err := netip.ParseAddrPort(sender)
	return err == nil && slices.ContainsFunc(p.Trusted,
		func(n netip.Prefix) bool { return n.Contains(at.Addr().Unmap().WithZone("")) })
}

// Selector selects all series that match.
func Selector(match []*labels.Matcher) string {
	// Prometheus refuses a selector that may match empty labels only.
	return indicator.Selector("",
		append([]*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".+")}, match...)...)
}

// Sees reports whether a principal sees an object with these labels. An object that lacks a label of the matchers is
// hidden.
func (p *Principal) Sees(values map[string]string) bool {
	return !slices.ContainsFunc(p.Match, func(m *labels.Matcher) bool {
		return values[m.Name] == "" || !m.Matches(values[m.Name])
	})
}

package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/monitor/access"
)

const (
	callbackPath = "/login/callback" // where the provider sends browsers back to
	loginTime    = 10 * time.Minute  // that somebody has at the provider
	providerTime = 10 * time.Second  // that the provider has for an answer
)

// A provider is an OpenID Connect provider. It is asked for its addresses and keys at the first login:
// sixty starts without it.
type provider struct {
	cfg   *access.OIDC
	oauth oauth2.Config
	ctx   context.Context // of its client

	mu    sync.Mutex
	found *oidc.Provider
}

// newProvider reads the client's secret.
func newProvider(cfg *access.OIDC, external *url.URL) (*provider, error) {
	p := &provider{cfg: cfg, oauth: oauth2.Config{
		ClientID: cfg.ClientID, RedirectURL: strings.TrimSuffix(external.String(), "/") + callbackPath,
		Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, cfg.Scopes...),
	}}
	p.ctx = oidc.ClientContext(context.Background(), &http.Client{Timeout: providerTime})
	if cfg.ClientSecretFile != "" {
		secret, err := fileio.Read(cfg.ClientSecretFile, maxLogin)
		if err != nil {
			return nil, fmt.Errorf("access: oidc: client_secret_file: %w", err)
		}
		if p.oauth.ClientSecret = strings.TrimSpace(string(secret)); p.oauth.ClientSecret == "" {
			return nil, fmt.Errorf("access: oidc: client_secret_file: %s is empty", cfg.ClientSecretFile)
		}
	}
	return p, nil
}

// find asks the provider for its addresses, once.
func (p *provider) find() (*oidc.Provider, *oauth2.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		found, err := oidc.NewProvider(p.ctx, p.cfg.Issuer)
		if err != nil {
			return nil, nil, hint.With(fmt.Errorf("the provider at %s: %w", p.cfg.Issuer, err), "check oidc.issuer in the configuration, and that this machine can reach it")
		}
		p.found, p.oauth.Endpoint = found, found.Endpoint()
	}
	return p.found, &p.oauth, nil
}

// A departure is what a browser takes along to the provider, in a cookie of ours.
type departure struct {
	State, Nonce, Verifier, Next string
	Ends                         time.Time
}

// leave sends a browser to the provider.
func (l *login) leave(w http.ResponseWriter, r *http.Request) {
	_, oauth, err := l.provider.find()
	if err != nil {
		Fail(w, http.StatusBadGateway, err)
		return
	}
	d := departure{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: localPath(r.URL.Query().Get("next")), Ends: time.Now().Add(loginTime),
	}
	value, err := l.seal("departure", d)
	if err != nil {
		Fail(w, http.StatusBadRequest, err)
		return
	}
	http.SetCookie(w, l.departed(r, value, loginTime))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, oauth.AuthCodeURL(d.State, oidc.Nonce(d.Nonce), oauth2.S256ChallengeOption(d.Verifier)), http.StatusSeeOther)
}

// departed is the cookie of a departure. The way back begins at another site, which a strict cookie does
// not go.
func (l *login) departed(r *http.Request, value string, lasts time.Duration) *http.Cookie {
	c := l.cookie(r, value, lasts)
	c.Name, c.Path, c.SameSite = l.name()+"_login", l.prefix()+loginPath, http.SameSiteLaxMode
	return c
}

// comeBack begins the session of somebody whom the provider knows.
func (l *login) comeBack(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var d departure
	c, err := r.Cookie(l.name() + "_login")
	http.SetCookie(w, l.departed(r, "", 0))
	if err != nil || !l.unseal("departure", c.Value, &d) || time.Now().After(d.Ends) ||
		subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(d.State)) != 1 {
		Fail(w, http.StatusBadRequest, hint.With(errors.New("this login was not started here, or took too long"), "start again at "+l.prefix()+loginPath))
		return
	}
	if said := q.Get("error"); said != "" {
		l.log(r, &access.Principal{Way: "oidc"}, http.StatusUnauthorized)
		Fail(w, http.StatusUnauthorized, fmt.Errorf("the provider rejected it: %.200q", said))
		return
	}
	s, err := l.provider.identify(r.Context(), q.Get("code"), &d)
	if err != nil {
		l.log(r, &access.Principal{Way: "oidc"}, http.StatusUnauthorized)
		Fail(w, http.StatusUnauthorized, err)
		return
	}
	p := l.grant(s.Name, s.Groups)
	if p.Role == access.None {
		l.log(r, p, http.StatusForbidden)
		Fail(w, http.StatusForbidden, noRole(p))
		return
	}
	if err := l.begin(w, r, s); err != nil {
		Fail(w, http.StatusInternalServerError, err)
		return
	}
	l.log(r, p, http.StatusOK)
	// A redirect would still be the other site's request, without the session's cookie.
	w.Header().Set("Refresh", "0; url="+l.prefix()+d.Next)
	l.show(w, r, http.StatusOK, d.Next, "You are logged in as "+s.Name+".")
}

// identify asks the provider who brings a code.
func (p *provider) identify(ctx context.Context, code string, d *departure) (s session, err error) {
	found, oauth, err := p.find()
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, &http.Client{Timeout: providerTime}), providerTime)
	defer cancel()
	token, err := oauth.Exchange(ctx, code, oauth2.VerifierOption(d.Verifier))
	if err != nil {
		return s, fmt.Errorf("the provider does not take the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: oauth.ClientID}).Verify(ctx, raw)
	if err != nil {
		return s, fmt.Errorf("the provider's token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(d.Nonce)) != 1 {
		return s, errors.New("the provider's token belongs to another login")
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return s, fmt.Errorf("the provider's token: %w", err)
	}
	userClaim, groupsClaim := cmp.Or(p.cfg.UserClaim, "email"), cmp.Or(p.cfg.GroupsClaim, "groups")
	if claims[userClaim] == nil || claims[groupsClaim] == nil { // they need not be in the token
		if info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token)); err == nil && info.Subject == id.Subject {
			more := map[string]any{}
			if err := info.Claims(&more); err != nil {
				return s, fmt.Errorf("the provider's user information: %w", err)
			}
			for k, v := range more {
				if claims[k] == nil {
					claims[k] = v
				}
			}
		}
	}
	s.Name, _ = claims[userClaim].(string)
	if s.Name == "" {
		return s, hint.With(fmt.Errorf("the provider's token has no claim %s", userClaim), "set oidc.user_claim to a claim that it has, or set oidc.scopes")
	}
	if verified, said := claims["email_verified"].(bool); userClaim == "email" && said && !verified {
		return s, errors.New("the provider did not verify this email address")
	}
	switch groups := claims[groupsClaim].(type) {
	case string:
		s.Groups = []string{groups}
	case []any:
		for _, g := range groups {
			if name, ok := g.(string); ok {
				s.Groups = append(s.Groups, name)
			}
		}
	}
	return s, nil
}

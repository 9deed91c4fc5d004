package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

// organization is a monitor whose people log in at the provider of zitadel/oidc's example, and a
// browser of theirs. Asked are the addresses that the browser was sent to.
type organization struct {
	t       *testing.T
	monitor string
	client  *http.Client
	asked   []*url.URL
	cfg     *access.Config
	server  *web.Server
}

func newOrganization(t *testing.T, token string) *organization {
	provided := httptest.NewUnstartedServer(nil)
	issuer := "http://" + provided.Listener.Addr().String() + "/"
	o := &organization{t: t}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.server.ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	o.monitor = s.URL
	logs := slog.Default()
	storage.RegisterClients(storage.WebClient("sixty", "secret", s.URL+"/login/callback"))
	provided.Config.Handler = exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer)), slog.New(slog.DiscardHandler), false)
	slog.SetDefault(logs) // which SetupServer replaces
	provided.Start()
	t.Cleanup(provided.Close)

	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.cfg = &access.Config{
		OIDC:     &access.OIDC{Issuer: issuer, ClientID: "sixty", ClientSecretFile: secret},
		AuditLog: filepath.Join(dir, "audit.jsonl"),
		Grants:   []access.Grant{{Users: []string{"test-user@zitadel.ch"}, Role: access.Operator}},
	}
	external, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	o.server = web.New(web.Options{
		Part:  func(context.Context) web.Part { return web.Part{Monitor: monitor.New(monitor.Options{})} },
		Token: token, External: external, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Reload: func() error { return nil },
		Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "the page of "+access.Of(r.Context()).Name)
		}),
	})
	if err := o.server.SetAccess(o.cfg); err != nil {
		t.Fatal(err)
	}
	o.newBrowser()
	return o
}

func (o *organization) newBrowser() {
	jar, err := cookiejar.New(nil)
	if err != nil {
		o.t.Fatal(err)
	}
	o.asked = nil
	o.client = &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		o.asked = append(o.asked, r.URL)
		return nil
	}}
}

// logIn follows a page to the provider's form and submits it.
func (o *organization) logIn(user string) (*http.Response, string) {
	o.t.Helper()
	resp, body := send(o.t, o.client, "GET", o.monitor+"/login?next=%2Ffleet&oidc", "")
	if resp.Request.URL.Path != "/login/username" {
		o.t.Fatalf("the provider asks for nothing: %s %s %s", resp.Request.URL, resp.Status, body)
	}
	form := url.Values{"username": {user}, "password": {"verysecure"}, "id": {resp.Request.URL.Query().Get("authRequestID")}}
	return send(o.t, o.client, "POST", resp.Request.URL.String(), form.Encode())
}

func TestPeopleLogInAtTheProvider(t *testing.T) {
	o := newOrganization(t, "")
	if resp, _ := send(t, o.client, "GET", o.monitor+"/api/v1/findings", "", "Accept", "application/json"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a program without credentials: %s", resp.Status)
	}
	if resp, _ := send(t, o.client, "GET", o.monitor+"/fleet", ""); resp.Request.URL.Path != "/login/username" {
		t.Errorf("a browser is sent to %s", resp.Request.URL)
	}
	resp, body := o.logIn("test-user@127.0.0.1")
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(resp.Header.Get("Refresh"), "url=/fleet") || !strings.Contains(body, "test-user@zitadel.ch") {
		t.Fatalf("after the login: %s, refresh %q, %s", resp.Status, resp.Header.Get("Refresh"), body)
	}
	for _, u := range o.asked {
		if q := u.Query(); strings.HasSuffix(u.Path, "/auth") && (q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" || q.Get("state") == "") {
			t.Errorf("the provider was asked without PKCE, a nonce or a state: %s", u)
		}
	}
	if _, body := send(t, o.client, "GET", o.monitor+"/fleet", ""); body != "the page of test-user@zitadel.ch" {
		t.Errorf("the page of the session: %s", body)
	}
	if resp, body := send(t, o.client, "POST", o.monitor+"/-/reload", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("an operator reloads: %s %s", resp.Status, body)
	}

	// A code and a state are good once, and in the browser that asked for them.
	back := o.asked[len(o.asked)-1].String()
	stolen := *o
	stolen.newBrowser()
	for who, c := range map[string]*http.Client{"the same browser": o.client, "another browser": stolen.client} {
		if resp, _ := send(t, c, "GET", back, ""); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("the way back again in %s: %s", who, resp.Status)
		}
	}
	if resp, _ := send(t, stolen.client, "GET", o.monitor+"/api/v1/findings", "", "Accept", "application/json"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("another browser is in: %s", resp.Status)
	}

	// A cookie that was changed, and one of another kind, is none.
	base, err := url.Parse(o.monitor + "/login/callback")
	if err != nil {
		t.Fatal(err)
	}
	session := o.client.Jar.Cookies(base)[0]
	_, _ = send(t, stolen.client, "GET", o.monitor+"/login", "")
	departure := stolen.client.Jar.Cookies(base)[0]
	if departure.Name != session.Name+"_login" {
		t.Fatalf("cookies %s and %s", session.Name, departure.Name)
	}
	for what, value := range map[string]string{"the session": session.Value, "a changed one": "A" + session.Value[1:], "another kind": departure.Value, "half": session.Value[:len(session.Value)/2], "none": ""} {
		resp, _ := send(t, &http.Client{}, "GET", o.monitor+"/fleet", "", "Accept", "application/json", "Cookie", session.Name+"="+value)
		if (resp.StatusCode == http.StatusOK) != (what == "the session") {
			t.Errorf("with %s as the cookie: %s", what, resp.Status)
		}
	}

	// Grants hold at once, and the end of a session too.
	o.cfg.Grants[0].Role = access.Viewer
	if resp, _ := send(t, o.client, "POST", o.monitor+"/-/reload", ""); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer reloads: %s", resp.Status)
	}
	send(t, o.client, "POST", o.monitor+"/logout", "")
	if resp, _ := send(t, o.client, "GET", o.monitor+"/api/v1/findings", "", "Accept", "application/json"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the logout: %s", resp.Status)
	}
	text, err := os.ReadFile(o.cfg.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"path":"/login/callback","status":200`, `"path":"/-/reload","status":403`, `"path":"/logout","status":200`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, text)
		}
	}
}

func TestWhoHasNoRoleIsNotIn(t *testing.T) {
	o := newOrganization(t, token)
	resp, body := o.logIn("test-user2")
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "test-user2@zitadel.ch has no role") {
		t.Errorf("after the login: %s %s", resp.Status, body)
	}
	// The token goes on working beside, and its form shows both ways.
	if _, body := send(t, o.client, "GET", o.monitor+"/login", ""); !strings.Contains(body, "/login?oidc&amp;next=") || !strings.Contains(body, `name="token"`) {
		t.Errorf("the form: %s", body)
	}
	if resp, _ := send(t, o.client, "GET", o.monitor+"/fleet", "", "Authorization", "Bearer "+token); resp.StatusCode != http.StatusOK {
		t.Errorf("with the token: %s", resp.Status)
	}
}

// TestTheProviderIsAway: sixty starts, and says what is wrong when somebody logs in.
func TestTheProviderIsAway(t *testing.T) {
	o := newOrganization(t, "")
	o.cfg.OIDC.Issuer = "http://127.0.0.1:1/"
	if err := o.server.SetAccess(o.cfg); err != nil {
		t.Fatal(err)
	}
	if resp, body := send(t, o.client, "GET", o.monitor+"/login", ""); resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "oidc.issuer") {
		t.Errorf("%s %s", resp.Status, body)
	}
}

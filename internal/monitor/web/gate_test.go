package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/bcrypt"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

const token = "correct-horse"

// newServer is a server under an external URL, whose page says who asks and for what.
func newServer(external string) *web.Server {
	u, err := url.Parse(external)
	if err != nil {
		panic(err)
	}
	return serverOf(web.Options{External: u, Token: token})
}

func newServerOf(webFile, token string) *web.Server {
	return serverOf(web.Options{External: &url.URL{Scheme: "http", Host: "example.com"}, Token: token,
		WebFile: webFile})
}

func serverOf(o web.Options) *web.Server {
	return web.New(web.Options{
		Part:  func(context.Context) web.Part { return web.Part{Monitor: monitor.New(monitor.Options{})} },
		Token: o.Token, External: o.External, WebFile: o.WebFile, Registry: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler), Reload: func() error { return nil },
		Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.URL.RequestURI()+" for "+access.Of(r.Context()).Name)
		}),
	})
}

func send(h http.Handler, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if user, password, with := strings.Cut(r.Header.Get("Authorization"), ":"); with {
		r.SetBasicAuth(user, password)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestTheToken: programs bring it as a bearer token, browsers as the password of any user, at the root and
// under a path that a proxy takes off or leaves on.
func TestTheToken(t *testing.T) {
	for name, tt := range map[string]struct{ external, path string }{
		"at the root": {"http://example.com", ""}, "stripped": {"http://example.com/sixty/", ""},
		"not stripped": {"http://example.com/team/sixty", "/team/sixty"},
	} {
		s := newServer(tt.external)
		for credentials, want := range map[string]int{
			"Bearer " + token: 200, "bearer " + token: 200, "BEARER  " + token: 200, "anybody:" + token: 200,
			":" + token: 200,
			"":          401, "Bearer": 401, "Bearer ": 401, "Bearer wrong": 401, token: 401, "Basic " + token: 401,
			"Digest " + token: 401, token + ":": 401, "anybody:wrong": 401,
		} {
			resp := send(s, "GET", tt.path+"/incident/a?b=c", "Authorization", credentials)
			body, err := io.ReadAll(resp.Body)
			switch challenges := resp.Header.Values("WWW-Authenticate"); {
			case err != nil || resp.StatusCode != want:
				t.Errorf("%s, %q: %s, want %d, %v", name, credentials, resp.Status, want, err)
			case want == 200 && string(body) != "/incident/a?b=c for token":
				t.Errorf("%s, %q: the page is %q", name, credentials, body)
			case want == 401 && !slices.ContainsFunc(challenges,
				func(c string) bool { return strings.HasPrefix(c, "Basic ") }):
				t.Errorf("%s, %q: a browser asks nobody: %q", name, credentials, challenges)
			}
		}
	}
}

// TestOtherSitesMayNotWrite: browsers bring the password to requests of other sites as well.
func TestOtherSitesMayNotWrite(t *testing.T) {
	s := newServer("https://sixty.example.com")
	for header, want := range map[[2]string]int{
		{"X-None", ""}: 200, {"Origin", "https://sixty.example.com"}: 200, {"Sec-Fetch-Site", "same-origin"}: 200,
		{"Sec-Fetch-Site", "none"}:         200,
		{"Origin", "https://evil.example"}: 403, {"Origin", "null"}: 403, {"Sec-Fetch-Site", "cross-site"}: 403,
		{"Sec-Fetch-Site", "same-site"}: 403,
	} {
		if resp := send(s, "POST", "/-/reload", "Authorization", "anybody:"+token, header[0],
			header[1]); resp.StatusCode != want {
			t.Errorf("%q: %s, want %d", header, resp.Status, want)
		}
	}
}

// TestOneGate: each way in is enough, whatever else is configured, and probes need none.
func TestOneGate(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("of-vera"), bcrypt.MinCost)
	must.Succeed(t, err)
	webFile := filepath.Join(t.TempDir(), "web.yaml")
	write := func(text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(webFile, []byte(text), 0o600))
	}
	users := "basic_auth_users: {vera: " + string(hash) + "}\n"
	write(users + "http_server_config: {headers: {Strict-Transport-Security: max-age=1}}\n")
	roles := &access.Config{
		Proxy: &access.Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			UserHeader: "X-User"}, // httptest's sender
		Grants: []access.Grant{{Users: []string{"vera", "pia"}, Role: access.Viewer}},
	}
	var s *web.Server
	status := func(method, path string, header ...string) int { return send(s, method, path, header...).StatusCode }
	for name, tt := range map[string]struct {
		token string
		roles *access.Config
		want  map[string]int // by credentials
	}{
		"a password": {"", nil, map[string]int{
			"": 401, "vera:of-vera": 200, "vera:of-pia": 401, "pia:of-vera": 401, "Bearer " + token: 401}},
		"or the token": {token, nil, map[string]int{
			"": 401, "vera:of-vera": 200, "vera:x": 401, "Bearer " + token: 200, "x:" + token: 200}},
		"or, with roles,": {token, roles, map[string]int{
			"": 401, "vera:of-vera": 200, "vera:x": 401, "Bearer " + token: 200, "Bearer x": 401}},
		"what the proxy says": {"", roles, map[string]int{"": 401, "vera:of-vera": 200, "Bearer " + token: 401}},
	} {
		s = newServerOf(webFile, tt.token)
		s.SetAccess(tt.roles)
		for range 2 { // a password that was right is remembered
			for credentials, want := range tt.want {
				if got := status("GET", "/", "Authorization", credentials); got != want {
					t.Errorf("%s %q: %d, want %d", name, credentials, got, want)
				}
			}
		}
		want := 401
		if tt.roles != nil {
			want = 200
		}
		for _, credentials := range []string{"", "pia:", "Bearer x"} { // proxies may send more than is asked for
			if got := status("GET", "/", "X-User", "pia", "Authorization", credentials); got != want {
				t.Errorf("%s, by the proxy's header and %q: %d, want %d", name, credentials, got, want)
			}
		}
		if got := [3]int{status("GET", "/-/healthy"), status("HEAD", "/-/healthy"),
			status("POST", "/-/reload")}; got != [3]int{200, 200, 401} {
			t.Errorf("%s: healthy and reload without credentials: %v", name, got)
		}
		if got := send(s, "GET", "/").Header.Get("Strict-Transport-Security"); got != "max-age=1" {
			t.Errorf("%s: the configured header is %q", name, got)
		}
	}
	for _, broken := range []string{"", "basic_auth_user: {}\n",
		"basic_auth_users: [\n"} { // as while somebody writes it
		write(broken)
		if got := [2]int{status("GET", "/", "Authorization", "vera:of-vera"),
			status("GET", "/-/healthy")}; got != [2]int{500, 200} {
			t.Errorf("with the web configuration %q: %v", broken, got)
		}
	}
	write(users + "rate_limit: {burst: 2, interval: 1h}\n")
	s.SetAccess(nil)
	if got := [4]int{status("GET", "/"), status("GET", "/"), status("GET", "/"),
		status("GET", "/-/healthy")}; got != [4]int{401, 401, 429, 200} {
		t.Errorf("with a rate limit: %v", got)
	}
}

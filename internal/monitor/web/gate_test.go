package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

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
	return web.New(web.Options{
		Part:  func(context.Context) web.Part { return web.Part{Monitor: monitor.New(monitor.Options{})} },
		Token: token, External: u, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Reload: func() error { return nil },
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
		"at the root": {"http://example.com", ""}, "stripped": {"http://example.com/sixty/", ""}, "not stripped": {"http://example.com/team/sixty", "/team/sixty"},
	} {
		s := newServer(tt.external)
		for credentials, want := range map[string]int{
			"Bearer " + token: 200, "bearer " + token: 200, "BEARER  " + token: 200, "anybody:" + token: 200, ":" + token: 200,
			"": 401, "Bearer": 401, "Bearer ": 401, "Bearer wrong": 401, token: 401, "Basic " + token: 401, "Digest " + token: 401, token + ":": 401, "anybody:wrong": 401,
		} {
			resp := send(s, "GET", tt.path+"/incident/a?b=c", "Authorization", credentials)
			body, err := io.ReadAll(resp.Body)
			switch challenges := resp.Header.Values("WWW-Authenticate"); {
			case err != nil || resp.StatusCode != want:
				t.Errorf("%s, %q: %s, want %d, %v", name, credentials, resp.Status, want, err)
			case want == 200 && string(body) != "/incident/a?b=c for token":
				t.Errorf("%s, %q: the page is %q", name, credentials, body)
			case want == 401 && !slices.ContainsFunc(challenges, func(c string) bool { return strings.HasPrefix(c, "Basic ") }):
				t.Errorf("%s, %q: a browser asks nobody: %q", name, credentials, challenges)
			}
		}
	}
}

// TestOtherSitesMayNotWrite: browsers bring the password to requests of other sites as well.
func TestOtherSitesMayNotWrite(t *testing.T) {
	s := newServer("https://sixty.example.com")
	for header, want := range map[[2]string]int{
		{"X-None", ""}: 200, {"Origin", "https://sixty.example.com"}: 200, {"Sec-Fetch-Site", "same-origin"}: 200, {"Sec-Fetch-Site", "none"}: 200,
		{"Origin", "https://evil.example"}: 403, {"Origin", "null"}: 403, {"Sec-Fetch-Site", "cross-site"}: 403, {"Sec-Fetch-Site", "same-site"}: 403,
	} {
		if resp := send(s, "POST", "/-/reload", "Authorization", "anybody:"+token, header[0], header[1]); resp.StatusCode != want {
			t.Errorf("%q: %s, want %d", header, resp.Status, want)
		}
	}
}

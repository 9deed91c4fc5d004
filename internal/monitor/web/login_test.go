package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

const token = "correct-horse"

// browsed is a server under a path, as a browser sees it through a proxy that takes the path
// off or leaves it on.
func browsed(t *testing.T, path string, strips bool) (base string, client *http.Client) {
	t.Helper()
	external := &url.URL{Scheme: "http", Path: path}
	var h http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strips {
			http.StripPrefix(path, h).ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	external.Host = strings.TrimPrefix(s.URL, "http://")
	h = web.New(web.Options{
		Part: func(context.Context) web.Part { return web.Part{Monitor: monitor.New(monitor.Options{})} }, Token: token, External: external, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "the page at "+r.URL.RequestURI())
		}),
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.URL + path, &http.Client{Jar: jar}
}

func send(t *testing.T, client *http.Client, method, address, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestLogin: a browser sends the token once and is where it wanted to be, at the root, behind a
// proxy that takes the path off, and behind one that leaves it on; without a script.
func TestLogin(t *testing.T) {
	for name, tt := range map[string]struct {
		path   string
		strips bool
	}{"at the root": {"", false}, "stripped": {"/sixty", true}, "not stripped": {"/team/sixty", false}} {
		t.Run(name, func(t *testing.T) {
			base, client := browsed(t, tt.path, tt.strips)
			resp, body := send(t, client, "GET", base+"/incident/a?b=c", "")
			if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, `action="`+tt.path+`/login"`) || !strings.Contains(body, `value="/incident/a?b=c"`) {
				t.Fatalf("who is not logged in sees %s: %s", resp.Status, body)
			}
			if resp, body := send(t, client, "GET", base+"/api/v1/overview", "", "Accept", "*/*"); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "bearer token") {
				t.Errorf("a program sees %s: %s", resp.Status, body)
			}
			began := time.Now()
			form := func(token, next string) string { return url.Values{"token": {token}, "next": {next}}.Encode() }
			if resp, body := send(t, client, "POST", base+"/login", form("wrong", "/")); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "not the token") {
				t.Errorf("a wrong token: %s: %s", resp.Status, body)
			}
			if time.Since(began) < 500*time.Millisecond {
				t.Error("guessing costs nothing")
			}
			if resp, _ := send(t, client, "POST", base+"/login", form(token, "/"), "Origin", "https://evil.example"); resp.StatusCode != http.StatusForbidden {
				t.Errorf("another page logs in: %s", resp.Status)
			}
			resp, body = send(t, client, "POST", base+"/login", form(token, "/incident/a?b=c"), "Origin", base[:len(base)-len(tt.path)])
			if resp.StatusCode != http.StatusOK || body != "the page at /incident/a?b=c" {
				t.Fatalf("who logged in sees %s: %s", resp.Status, body)
			}
			if resp, _ := send(t, client, "GET", base+"/api/v1/overview", ""); resp.StatusCode != http.StatusOK {
				t.Errorf("the API: %s", resp.Status)
			}
			if resp, _ := send(t, client, "POST", base+"/api/v1/x", "{}", "Origin", "https://evil.example"); resp.StatusCode != http.StatusForbidden {
				t.Errorf("another page writes with the session: %s", resp.Status)
			}
			if _, body := send(t, client, "POST", base+"/logout", "a=b"); !strings.Contains(body, "logged out") {
				t.Errorf("logging out: %s", body)
			}
			if resp, _ := send(t, client, "GET", base+"/", ""); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("after logging out: %s", resp.Status)
			}
		})
	}
}

// TestSessions: a cookie that was made up, changed, or made with another token is none, and the
// form leads nowhere else.
func TestSessions(t *testing.T) {
	base, client := browsed(t, "", false)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	enter := func(next string) *http.Response {
		resp, _ := send(t, client, "POST", base+"/login", url.Values{"token": {token}, "next": {next}}.Encode())
		return resp
	}
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example/`, "javascript:alert(1)", "", "/login", "/\tx", "/%2f/evil.example"} {
		if at := enter(next).Header.Get("Location"); at != "/" && at != "/%2f/evil.example" {
			t.Errorf("next %q leads to %q", next, at)
		}
	}
	resp := enter("/")
	cookie := resp.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.MaxAge <= 0 || cookie.Path != "/" {
		t.Errorf("%+v", cookie)
	}
	anew := &http.Client{}
	status := func(value string) int {
		resp, _ := send(t, anew, "GET", base+"/", "", "Cookie", cookie.Name+"="+value)
		return resp.StatusCode
	}
	if got := status(cookie.Value); got != http.StatusOK {
		t.Fatalf("the session: %d", got)
	}
	swap := func(i int) string {
		b := []byte(cookie.Value)
		b[i] ^= 1
		return string(b)
	}
	for name, value := range map[string]string{"empty": "", "short": cookie.Value[:20], "long": cookie.Value + "AAAA", "changed end": swap(3), "changed signature": swap(60), "no base64": "%%%"} {
		if got := status(value); got != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, got)
		}
	}
	// Who follows a link of another site has no cookie: the page is loaded again.
	if resp, _ := send(t, anew, "GET", base+"/incident/a", "", "Sec-Fetch-Site", "cross-site"); resp.Header.Get("Refresh") != "0; url=/login?next=%2Fincident%2Fa" {
		t.Error("a link of another site ends at the form")
	}
	if resp, _ := send(t, anew, "GET", base+"/incident/a", "", "Sec-Fetch-Site", "same-origin"); resp.Header.Get("Refresh") != "" {
		t.Error("the form is loaded again and again")
	}
	if resp, _ := send(t, anew, "POST", base+"/login", "token="+strings.Repeat("a", 1<<20)); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a form of a megabyte: %s", resp.Status)
	}
}

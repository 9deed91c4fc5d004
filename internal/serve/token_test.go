package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/serve"
)

// bare sends a request with nothing but its method and its target, as it is written.
func bare(t *testing.T, addr, method, target string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must.Succeed(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, target)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return resp.StatusCode, string(body)
}

// TestTheTokenIsAskedForEverywhere sends requests without a token to every path that serve
// registers, and to names that become one of these, or one that needs none.
func TestTheTokenIsAskedForEverywhere(t *testing.T) {
	free := map[string]bool{
		"GET /-/healthy": true, "HEAD /-/healthy": true, "GET /-/ready": true, "HEAD /-/ready": true,
		"POST /-/reload": true, "PUT /-/reload": true,
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"}
	wildcard := regexp.MustCompile(`\{[^}]*\}`)
	for name, prefix := range map[string]string{"at the root": "", "under a path": "/sixty"} {
		t.Run(name, func(t *testing.T) {
			var served *web.Server
			start(t, func(c *serve.Config) {
				c.Targets, c.Token, c.External = []string{"127.0.0.1:1"}, "correct-horse", "http://localhost"+prefix
				c.OnServed(func(s *web.Server) { served = s })
			})
			s := httptest.NewServer(served)
			defer s.Close()
			addr := s.Listener.Addr().String()

			targets := map[string]bool{}
			for _, pattern := range served.Patterns() {
				_, path, with := strings.Cut(pattern, " ")
				if !with {
					path = pattern
				}
				path = wildcard.ReplaceAllString(path, "x")
				for _, target := range []string{
					path, path + "/", path + "x", path + "?/-/healthy", "/" + path, "/-" + path,
					"/-/healthy/.." + strings.TrimPrefix(path, "/-"), "/-/healthy/../.." + path,
					"/-/ready/%2e%2e/%2e%2e" + path,
					"/-/healthy/..%2f.." + path, "/-/healthy;" + path, "/-/healthy%00" + path, "/." + path, path + "/.",
					"/" + strings.ReplaceAll(path[1:], "/", "%2F"),
					strings.ReplaceAll(path, "-", "%2d"), strings.ReplaceAll(path, "e", "%65"), strings.ToUpper(path),
					"http://localhost" + path,
				} {
					if strings.HasPrefix(target, "/") {
						target = prefix + target
					}
					targets[target] = true
				}
			}
			if len(targets) < 400 {
				t.Fatalf("only %d targets: are patterns missing? %q", len(targets), served.Patterns())
			}
			for target := range targets {
				for _, method := range methods {
					if method == http.MethodConnect && strings.HasPrefix(target, "http:") {
						continue // another form of a name, which is a stranger's
					}
					path, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(target, "http://localhost"),
						prefix), "?")
					status, body := bare(t, addr, method, target)
					switch {
					case free[method+" "+path]:
						if status == http.StatusUnauthorized {
							t.Errorf("%s %s needs a token", method, target)
						}
					case status != http.StatusUnauthorized:
						t.Errorf("%s %s without a token: %d %.80q", method, target, status, body)
					}
				}
			}
			for _, target := range []string{"/-/x", "/-/", "/-", "/-/healthy/", "/-/healthy/../api/v1/overview",
				"//-/ready", "/-/ready/", "/-%2fready", "/-/%72eady", "/-/reload/", "*"} {
				if status, body := bare(t, addr, "GET", target); status != http.StatusUnauthorized {
					t.Errorf("GET %s without a token: %d %.80q", target, status, body)
				}
			}
			for _, target := range []string{"/-/healthy", prefix + "/-/healthy"} {
				if status, body := bare(t, addr, "GET", target); status != http.StatusOK ||
					body != "sixty is healthy.\n" {
					t.Errorf("GET %s: %d %q", target, status, body)
				}
			}
		})
	}
}

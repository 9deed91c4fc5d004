//go:build e2e

package serve_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
)

// TestStalledReaders has 24 connections of a team's viewer that read ten bytes at a time, and an administrator who
// asks meanwhile; one of the servers has a clock that is an hour ahead.
func TestStalledReaders(t *testing.T) {
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 2, Warm: time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	ahead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"num_requests_running", "num_requests_waiting", "generation_tokens_total"} {
			fmt.Fprintf(w, "vllm:%s{model_name=\"ahead\"} 0 %d\n", name, time.Now().Add(time.Hour).UnixMilli())
		}
	}))
	defer ahead.Close()
	hash, err := bcrypt.GenerateFromPassword([]byte("pw"), bcrypt.MinCost)
	must.Succeed(t, err)
	web := textFile(t, "web.yml", fmt.Sprintf("basic_auth_users: {ada: %q, vera: %q}\n", hash, hash))
	file := textFile(t, "sixty.yaml", "sixty:\n  access:\n    grants:\n    - {users: [ada], role: admin}\n    - {users: [vera], role: viewer, match: '{job=\"vllm\"}'}\n")
	m := sixtyServe(t, append([]string{"--data", t.TempDir(), "--no-host-metrics", "--config", file, "--web-config", web, "--interval", "1s", "--evaluation-interval", "2s", ahead.URL}, fl.URLs()...)...)
	addr := strings.TrimPrefix(m.url, "http://")
	m.url = "http://ada:pw@" + addr
	m.until(time.Minute, "the server whose clock is ahead is judged", func() bool {
		for _, x := range m.overview().Models {
			if x.Model == "ahead" {
				return true
			}
		}
		return false
	})
	now := time.Now().Unix()
	q := url.Values{"query": {`{__name__=~".+"}`}, "step": {"1"}, "start": {fmt.Sprint(now - 300)}, "end": {fmt.Sprint(now + 300)}}
	for range 24 {
		c, err := net.Dial("tcp", addr)
		must.Succeed(t, err)
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "GET /api/v1/query_range?%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\n\r\n", q.Encode(), addr, base64.StdEncoding.EncodeToString([]byte("vera:pw")))
		go func() {
			for p := make([]byte, 10); ; {
				if _, err := c.Read(p); err != nil {
					return
				}
				<-time.After(time.Second)
			}
		}()
	}
	var slowest time.Duration
	refused, asked := 0, 0
	for end := time.Now().Add(45 * time.Second); time.Now().Before(end); asked++ {
		began := time.Now()
		if query(m.url, "count(up)") == "" {
			refused++
		}
		slowest = max(slowest, time.Since(began))
		<-time.After(500 * time.Millisecond)
	}
	t.Logf("RESULT %d queries of an administrator, %d refused, the slowest after %.1f s", asked, refused, slowest.Seconds())
	if refused > 0 || slowest > pageWithin {
		t.Errorf("24 readers that stall keep an administrator from the API")
	}
}

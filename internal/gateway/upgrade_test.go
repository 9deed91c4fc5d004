package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// h2c makes a request ask for cleartext HTTP/2, as Java's client does of every server.
func h2c(r *http.Request) *http.Request {
	r.Header.Set("Connection", "Upgrade, HTTP2-Settings, X-Mine")
	r.Header.Set("Upgrade", "h2c")
	r.Header.Set("HTTP2-Settings", "AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA")
	r.Header.Set("X-Mine", "of the connection")
	return r
}

// TestAnUpgradeIsNoWayAroundTheLimits: a request that would rather speak another protocol
// is held to the limits and counted as any other, and the upstream does not hear of it.
func TestAnUpgradeIsNoWayAroundTheLimits(t *testing.T) {
	var asked atomic.Int64
	var mu sync.Mutex
	heard := map[string]bool{}
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		asked.Add(1)
		mu.Lock()
		for _, name := range []string{"Connection", "Upgrade", "Http2-Settings", "X-Mine"} {
			if r.Header.Get(name) != "" {
				heard[name] = true
			}
		}
		mu.Unlock()
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"model":"scripted","choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":7}}`)
	})
	g := start(t, Config{MaxBody: 1 << 20}, up)
	r := request("POST", g.url+"/v1/completions", chat)
	if resp, _ := send(t, h2c(r)); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	before := asked.Load()
	for _, length := range []int64{3 << 20, -1} {
		g.waitUntilIdle(t)
		r := h2c(request("POST", g.url+"/v1/completions", ""))
		r.Body, r.ContentLength = io.NopCloser(io.LimitReader(zeros{}, 3<<20)), length
		if resp, _ := send(t, r); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("3 MiB of length %d with --max-body 1 MiB: %s", length, resp.Status)
		}
	}
	if n := asked.Load() - before; n != 0 {
		t.Errorf("%d bodies that are too large reached the upstream", n)
	}
	if len(heard) != 0 {
		t.Errorf("the upstream hears what is of the client's connection: %v", heard)
	}
	if ends := g.ends(t); ends["success"] != 1 || ends["rejected"] != 2 {
		t.Errorf("ends %v", ends)
	}
	if f := g.families(t)["sixty_gateway_requests_total"]; sum(f, "model", "scripted", "status", "success", "route", "/v1/completions") != 1 || sum(f, "model", "", "status", "success") != 0 {
		t.Errorf("counted as %v", f)
	}
	if f := g.families(t)["sixty_gateway_output_tokens_total"]; sum(f, "model", "scripted") != 7 {
		t.Errorf("7 tokens are counted as %v", f)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// echoes is an upstream that takes every upgrade that it is asked for, and then sends
// back what it gets.
func echoes(t *testing.T) (url string, upgraded *atomic.Int64) {
	upgraded = new(atomic.Int64)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		to := r.Header.Get("Upgrade")
		if to == "" {
			return
		}
		upgraded.Add(1)
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", to)
		io.Copy(c, buffered)
	}), upgraded
}

// dial sends a head over a connection of its own and returns the answer.
func (r *running) dial(t *testing.T, head string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	must.Succeed(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, head)
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	return c, in, resp
}

const asksForWebSocket = "Host: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// TestNothingIsUpgraded: a request for another protocol is answered without the upgrade.
func TestNothingIsUpgraded(t *testing.T) {
	up, upgraded := echoes(t)
	g := start(t, Config{}, up)
	for _, head := range []string{
		"GET /v1/realtime HTTP/1.1\r\n" + asksForWebSocket,
		"GET /v1/realtime HTTP/1.1\r\n" + strings.Replace(asksForWebSocket, "websocket", "h2c", 1),
		"GET /v1/realtime HTTP/1.1\r\n" + strings.Replace(asksForWebSocket, "websocket", "h2c, websocket", 1),
		"GET /v1/realtime HTTP/1.1\r\nUpgrade: h2c\r\n" + asksForWebSocket,
		"GET /v1/realtime HTTP/1.1\r\n" + strings.Replace(asksForWebSocket, "keep-alive, Upgrade", "keep-alive", 1),
		"GET /v1/realtime HTTP/1.0\r\n" + strings.Replace(asksForWebSocket, "websocket", "tls/1.0", 1),
	} {
		if _, _, resp := g.dial(t, head+"\r\n"); resp.StatusCode != http.StatusOK {
			t.Errorf("%q: %s", head, resp.Status)
		}
	}
	if n := upgraded.Load(); n != 0 {
		t.Errorf("%d were upgraded", n)
	}
}

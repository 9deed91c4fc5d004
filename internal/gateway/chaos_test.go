package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestChaos sends requests that end in every way, to upstreams that fail in every
// way, and then nothing may be left: each request has one status, and no
// goroutine, socket or entry remains. SIXTY_CHAOS is how many requests, and
// SIXTY_CHAOS_CLIENTS how many send them at a time: mostly they wait.
func TestChaos(t *testing.T) {
	requests, clients := 3000, 96
	for name, n := range map[string]*int{"SIXTY_CHAOS": &requests, "SIXTY_CHAOS_CLIENTS": &clients} {
		if v := os.Getenv(name); v != "" {
			var err error
			if *n, err = strconv.Atoi(v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if testing.Short() {
		requests = 500
	}
	ups := []string{raw(t, chaosUpstream), raw(t, chaosUpstream), raw(t, chaosUpstream)}
	g := start(t, Config{
		HealthEvery: 100 * time.Millisecond, IdleTimeout: 400 * time.Millisecond, MaxBody: 1 << 20,
	}, ups...)
	host := strings.TrimPrefix(g.url, "http://")
	var wg sync.WaitGroup
	var next atomic.Int64
	began := time.Now()
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			tr := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 4}
			if c%3 == 0 {
				tr.Protocols.SetUnencryptedHTTP2(true)
			} else {
				tr.Protocols.SetHTTP1(true)
			}
			defer tr.CloseIdleConnections()
			for n := next.Add(1); n <= int64(requests); n = next.Add(1) {
				chaosClient(rng, tr, host)
				if n%50_000 == 0 {
					t.Logf("%d requests, %s: %d goroutines, %d open", n, time.Since(began).Round(time.Second), runtime.NumGoroutine(), g.InFlight())
				}
			}
		})
	}
	wg.Wait()
	g.waitUntilIdle(t)
	took := time.Since(began)

	byStatus := g.ends(t)
	offered, ended := int(sum(g.families(t)["sixty_gateway_requests_offered_total"])), 0
	for _, n := range byStatus {
		ended += n
	}
	if offered != ended || ended < requests/2 {
		t.Errorf("%d requests arrived and %d ended, of %d that clients tried", offered, ended, requests)
	}
	if byStatus["open"] != 0 {
		t.Errorf("%d requests ended in no status", byStatus["open"])
	}
	for _, want := range []Status{Success, ClientError, UpstreamError, ErrorEvent, Timeout, ClientDisconnect, Rejected} {
		if byStatus[string(want)] == 0 {
			t.Errorf("no request ended as %s: the chaos is too mild", want)
		}
	}
	for _, u := range g.upstreams {
		if n := u.inFlight.Load(); n != 0 {
			t.Errorf("%d requests are open at %s", n, u.name)
		}
	}
	if n := g.heldBytes.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are held", n)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	// What is left of goroutines and sockets TestMain's leak check sees.
	t.Logf("%d requests in %s: %v", ended, took.Round(time.Millisecond), byStatus)
}

// chaosUpstream answers requests on a connection, each in another way, until it
// breaks it.
func chaosUpstream(c net.Conn) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	br := bufio.NewReader(c)
	for {
		_ = c.SetDeadline(time.Now().Add(3 * time.Second))
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if r.Method != http.MethodPost {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		if rng.IntN(10) > 0 {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
		}
		if !chaosAnswer(rng, c) {
			return
		}
	}
}

const chaosHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// chaosAnswer reports whether the connection may be used again.
func chaosAnswer(rng *rand.Rand, c net.Conn) bool {
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	event := func(i int) string {
		return fmt.Sprintf(`data: {"id":"x","model":"m","choices":[{"delta":{"content":"%d"}}]}`+"\n\n", i)
	}
	tokens := func(n int) {
		for i := range n {
			s := chunk(event(i))
			k := rng.IntN(len(s)) // a boundary anywhere
			io.WriteString(c, s[:k])
			if rng.IntN(4) == 0 {
				runtime.Gosched()
			}
			io.WriteString(c, s[k:])
		}
	}
	switch rng.IntN(16) {
	case 0: // dies at once
		return false
	case 1: // a reset
		_ = c.(*net.TCPConn).SetLinger(0)
		return false
	case 2: // garbage
		io.WriteString(c, "\x00\x01garbage\r\n\r\n")
		return false
	case 3: // never answers
		_, _ = c.Read(make([]byte, 1))
		return false
	case 4: // dies in the stream
		io.WriteString(c, chaosHead)
		tokens(3)
		return false
	case 5: // an error in the stream
		io.WriteString(c, chaosHead)
		tokens(2)
		io.WriteString(c, chunk(`data: {"error":{"message":"no","type":"E"}}`+"\n\n")+"0\r\n\r\n")
		return true
	case 6: // an endless line
		io.WriteString(c, chaosHead)
		for range 40 {
			if _, err := io.WriteString(c, chunk(strings.Repeat("x", 64<<10))); err != nil {
				return false
			}
		}
		io.WriteString(c, "0\r\n\r\n")
		return true
	case 7: // silence in the stream
		io.WriteString(c, chaosHead)
		tokens(1)
		_, _ = c.Read(make([]byte, 1))
		return false
	case 8: // a refusal
		io.WriteString(c, "HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n"+`{"error":{"message":"x"}}`[:24])
		return true
	case 9: // a server's error
		io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
		return true
	case 10: // not streamed
		body := `{"id":"x","choices":[{"text":"a","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return true
	case 11: // a trickle
		for _, b := range []byte(chaosHead + chunk(event(1)) + chunk("data: [DONE]\n\n") + "0\r\n\r\n") {
			if _, err := c.Write([]byte{b}); err != nil {
				return false
			}
		}
		return true
	default:
		io.WriteString(c, chaosHead)
		tokens(1 + rng.IntN(20))
		io.WriteString(c, chunk(`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")+"0\r\n\r\n")
		return true
	}
}

// chaosClient sends one request in one of many ways.
func chaosClient(rng *rand.Rand, tr *http.Transport, host string) {
	patience := 3 * time.Second
	kind := rng.IntN(12)
	if kind == 0 { // leaves soon
		patience = time.Duration(rng.IntN(5)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", rng.IntN(2000)) + `"}]}`
	switch kind {
	case 1: // too large
		body = strings.Repeat("x", 2<<20)
	case 2, 3, 4: // by hand: vanishes in the body, pipelines, smuggles
		d := net.Dialer{Timeout: time.Second}
		c, err := d.DialContext(ctx, "tcp", host)
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
		one := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		switch kind {
		case 2:
			io.WriteString(c, one[:rng.IntN(len(one))])
		case 3:
			io.WriteString(c, one+one)
			_, _ = io.CopyN(io.Discard, c, int64(rng.IntN(2000)))
		case 4:
			io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+one)
			_, _ = io.CopyN(io.Discard, c, 100)
		}
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Priority", fmt.Sprint(rng.IntN(3)))
	if kind == 5 {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	switch kind {
	case 6: // reads a little and leaves
		_, _ = io.CopyN(io.Discard, resp.Body, int64(rng.IntN(300)))
	case 7: // reads slowly
		for range 20 {
			if _, err := io.CopyN(io.Discard, resp.Body, 50); err != nil {
				return
			}
			runtime.Gosched()
		}
	default:
		_, _ = io.Copy(io.Discard, resp.Body)
	}
}

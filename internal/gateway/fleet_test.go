package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
)

func TestARequestIsTriedElsewhereWhereThatIsSafe(t *testing.T) {
	dead := listenLocally(t)
	dead.Close()
	var asked atomic.Int64
	half := raw(t, func(c net.Conn) { // takes the request, and dies
		if strings.HasPrefix(readRequest(c), "POST") {
			asked.Add(1)
		}
	})
	ok := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	})
	t.Run("no connection", func(t *testing.T) {
		g := start(t, Config{HealthEvery: time.Hour}, "http://"+dead.Addr().String(), ok)
		for range 20 {
			if resp, body := post(t, g.url+"/v1/completions", chat); resp.StatusCode != http.StatusOK || body != chat {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
		}
		if ends := g.ends(t); ends["success"] != 20 || len(ends) != 1 {
			t.Errorf("ends %v", ends)
		}
	})
	t.Run("a request that was taken is not sent twice", func(t *testing.T) {
		g := start(t, Config{HealthEvery: time.Hour}, half)
		if resp, _ := post(t, g.url+"/v1/completions", chat); resp.StatusCode != http.StatusBadGateway || asked.Load() != 1 {
			t.Errorf("%d, asked %d times", resp.StatusCode, asked.Load())
		}
	})
	t.Run("once", func(t *testing.T) {
		g := start(t, Config{HealthEvery: time.Hour}, "http://"+dead.Addr().String())
		for range 5 {
			if resp, _ := post(t, g.url+"/v1/completions", chat); resp.StatusCode != http.StatusBadGateway {
				t.Fatal(resp.StatusCode)
			}
		}
		f := g.families(t)
		if retries, attempts := sum(f["sixty_gateway_retries_total"]), sum(f["sixty_gateway_upstream_attempts_total"]); retries != 5 || attempts != 10 {
			t.Errorf("%v retries, %v attempts of 5 requests", retries, attempts)
		}
	})
}

func TestTheLeastLoadedUpstreamIsChosen(t *testing.T) {
	hold := make(chan bool)
	var slow, quick atomic.Int64
	a := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			slow.Add(1)
			select {
			case <-hold:
			case <-time.After(20 * time.Second): // a request came that nothing should have sent here
			}
		}
	})
	b := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			quick.Add(1)
		}
	})
	g := start(t, Config{HealthEvery: time.Hour}, a, b)
	var wg sync.WaitGroup
	for sent := int64(1); slow.Load() == 0; sent++ {
		wg.Go(func() { post(t, g.url+"/v1/completions", chat) })
		polltest.Until(t, "the request is on its way, or done", func() bool {
			return slow.Load()+quick.Load() == sent && g.InFlight() == int(slow.Load())
		})
	}
	for range 10 {
		post(t, g.url+"/v1/completions", chat)
		polltest.Until(t, "answered requests are closed", func() bool { return g.InFlight() == 1 })
	}
	close(hold)
	wg.Wait()
	if slow.Load() != 1 || quick.Load() < 10 {
		t.Errorf("the busy one got %d, the idle one %d", slow.Load(), quick.Load())
	}
}

func TestAnUpstreamThatIsIllIsLeftOut(t *testing.T) {
	var ill atomic.Bool
	var asked atomic.Int64
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health" && ill.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodPost:
			asked.Add(1)
		}
	})
	b := serve(t, func(http.ResponseWriter, *http.Request) {})
	g := start(t, Config{}, a, b)
	name := strings.TrimPrefix(a, "http://")
	up := func() float64 { return sum(g.families(t)["sixty_gateway_upstream_up"], "upstream", name) }
	ill.Store(true)
	polltest.Until(t, "the upstream is down", func() bool { return up() == 0 })
	before := asked.Load()
	for range 10 {
		post(t, g.url+"/v1/completions", chat)
	}
	if asked.Load() != before {
		t.Error("an ill upstream was asked")
	}
	ill.Store(false)
	polltest.Until(t, "the upstream is up", func() bool { return up() == 1 })
}

func TestNoConnectionIsLeftAtTheEnd(t *testing.T) {
	var open atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	g := start(t, Config{}, s.URL)
	post(t, g.url+"/v1/completions", chat)
	g.waitUntilIdle(t)
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	polltest.Until(t, "connections to the upstream are closed", func() bool { return open.Load() == 0 })
}

func TestDraining(t *testing.T) {
	drains := make(chan struct{})
	up := scripted(t, 20, func(_ *http.Request, token int) {
		if token == 5 {
			<-drains
		}
	})
	g := start(t, Config{}, up)
	var body string
	done := make(chan bool)
	go func() {
		defer close(done)
		_, body = post(t, g.url+"/v1/completions", chat)
	}()
	polltest.Until(t, "one request is open", func() bool { return g.InFlight() == 1 })
	stopped := make(chan error)
	go func() { stopped <- g.stop() }()
	polltest.Until(t, "new connections are not taken any more", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(drains)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	<-done
	if !strings.Contains(body, "[DONE]") {
		t.Errorf("an open request was cut off: %.200s", body)
	}
}

func TestDrainingEndsWhatTakesTooLong(t *testing.T) {
	up := scripted(t, 2, func(r *http.Request, token int) {
		if token == 1 {
			<-r.Context().Done()
		}
	})
	g := start(t, Config{}, up)
	go func() {
		resp, err := http.Post(g.url+"/v1/completions", "application/json", strings.NewReader(chat))
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	polltest.Until(t, "one request is open", func() bool { return g.InFlight() == 1 })
	if err := g.stop(); err == nil || !strings.Contains(err.Error(), "cut off at the end of the drain timeout: 1 request") {
		t.Errorf("error %v", err)
	}
	if n := sum(g.families(t)["sixty_gateway_requests_total"], "status", "timeout"); n != 1 {
		t.Errorf("%v ended as timeout", n)
	}
}

// TestTokensAreCounted by the account that the client asked for, or as they pass.
func TestTokensAreCounted(t *testing.T) {
	up := scripted(t, 5, nil)
	for by, body := range map[string]string{
		"usage": strings.Replace(chat, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1), "chunks": chat,
	} {
		g := start(t, Config{}, up)
		post(t, g.url+"/v1/chat/completions", body)
		g.waitUntilIdle(t)
		f := g.families(t)
		if n := sum(f["sixty_gateway_output_tokens_total"]); n != 5 {
			t.Errorf("%v output tokens, counted by %s", n, by)
		}
	}
}

// engine is an upstream whose engine says that it holds so many requests.
func engine(t *testing.T, held *atomic.Int64, answer http.HandlerFunc) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\",engine=\"0\"} %d\nvllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 0\nvllm:time_to_first_token_seconds_count{model_name=\"m\"} 1\n", held.Load())
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "/v1/completions":
			answer(w, r)
		}
	})
}

func (r *running) list(t *testing.T) Requests {
	t.Helper()
	_, body := send(t, request("GET", r.admin+"/requests", ""))
	var out Requests
	must.Succeed(t, json.Unmarshal([]byte(body), &out))
	return out
}

// TestARequestThatTheEngineStillHoldsIsCounted has a client that leaves, and an
// engine that goes on.
func TestARequestThatTheEngineStillHoldsIsCounted(t *testing.T) {
	var held atomic.Int64
	up := engine(t, &held, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"id":"cmpl-77","model":"m","choices":[{"text":"a","finish_reason":null}]}`+"\n\n")
		w.(http.Flusher).Flush()
		held.Store(1)
		<-r.Context().Done()
	})
	g := start(t, Config{LeakAge: 50 * time.Millisecond}, up)
	polltest.Until(t, "the model is known", func() bool { return g.metrics.hasModel("m") })
	ctx, leave := context.WithCancel(t.Context())
	r := request("POST", g.url+"/v1/completions", `{"model":"m","prompt":"x","stream":true}`).WithContext(ctx)
	r.Header.Set("X-Request-Id", "left")
	resp, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer resp.Body.Close()
	polltest.Until(t, "a leak is suspected", func() bool { return g.list(t).Leaks == 1 })
	l := g.list(t)
	if q := l.Requests[0]; q.ID != "left" || !q.Leak || q.Model != "m" || q.Tokens != 1 || q.State != "streaming" || q.Upstream == "" {
		t.Errorf("%+v", q)
	}
	leave()
	g.waitUntilIdle(t)
	excess := func() float64 { return sum(g.families(t)["sixty_gateway_upstream_engine_excess"]) }
	polltest.Until(t, "the request that the engine holds is counted", func() bool { return excess() == 1 })
	held.Store(0)
	polltest.Until(t, "it is counted no more", func() bool { return excess() == 0 })
}

// TestARequestThatNoEngineTookIsCounted has an API server that takes requests and
// an engine that knows of none.
func TestARequestThatNoEngineTookIsCounted(t *testing.T) {
	var held atomic.Int64
	up := engine(t, &held, func(_ http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body); <-r.Context().Done() })
	g := start(t, Config{}, up)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go http.DefaultClient.Do(request("POST", g.url+"/v1/completions", `{"model":"m","prompt":"x"}`).WithContext(ctx))
	polltest.Until(t, "the request is missed in the engine", func() bool {
		return sum(g.families(t)["sixty_gateway_upstream_engine_missing"]) == 1
	})
	leave()
	g.waitUntilIdle(t)
}

func TestSecretsAndTextsAreNotShown(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-secret" && r.Method == http.MethodPost {
			t.Errorf("the upstream got %q", r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","choices":[{"text":"secret answer"}]}`+"\n\n"+`data: {"error":{"message":"secret prompt","type":"E"}}`+"\n\n")
	})
	g := start(t, Config{}, up)
	r := request("POST", g.url+"/v1/completions?key=secret", `{"model":"m","stream":true,"prompt":"secret prompt"}`)
	send(t, r)
	g.waitUntilIdle(t)
	_, all := send(t, request("GET", g.admin+"/metrics", ""))
	if i := strings.Index(all, "secret"); i >= 0 {
		t.Errorf("a secret is shown: …%s…", all[max(0, i-100):i+50])
	}
}

// TestTraceContextPasses as it is: the gateway makes no spans of its own.
func TestTraceContextPasses(t *testing.T) {
	passed := make(chan http.Header, 1)
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			passed <- r.Header
		}
	})
	g := start(t, Config{HealthEvery: time.Hour}, up)
	r := request("POST", g.url+"/v1/completions", chat)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r.Header.Set("Tracestate", "a=1")
	send(t, r)
	got := <-passed
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if got.Get(name) != r.Header.Get(name) {
			t.Errorf("the upstream got %s %q", name, got.Get(name))
		}
	}
}

type flushing struct{ w http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.w.(http.Flusher).Flush()
	return n, err
}

func TestASlowReaderHoldsLittleAndDelaysNobody(t *testing.T) {
	piece := strings.Repeat("x", 1<<16)
	var sent atomic.Int64
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		for range 4000 { // 250 MB
			n, err := io.WriteString(w, piece)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	g := start(t, Config{IdleTimeout: 300 * time.Millisecond}, up)
	resp, err := http.Post(g.url+"/big", "application/json", strings.NewReader("{}"))
	must.Succeed(t, err)
	defer resp.Body.Close()
	if resp2, _ := http.Get(g.url + "/other"); resp2.StatusCode != http.StatusOK {
		t.Error("another request failed")
	} else {
		resp2.Body.Close()
	}
	polltest.Until(t, "the slow reader is ended", func() bool { return g.InFlight() == 0 })
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken from the upstream for a client that reads nothing", n)
	}
	must.Equal(t, map[string]int{"success": 1, "client_disconnect": 1}, g.ends(t))
}

func TestModelsAreBounded(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/completions" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	g := start(t, Config{}, up)
	for i := range 20 {
		post(t, g.url+"/v1/completions", fmt.Sprintf(`{"model":"made-up-%d","prompt":"x"}`, i))
	}
	g.waitUntilIdle(t)
	f := g.families(t)["sixty_gateway_requests_offered_total"]
	if len(f.Metric) != 1 || sum(f) != 20 || sum(f, "model", "") != 20 {
		t.Errorf("%v", f)
	}
}

// TestNamesThatAreNoText come from clients, answers and an engine's page: none of them is
// UTF-8, and each becomes a label.
func TestNamesThatAreNoText(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			io.WriteString(w, "vllm:num_requests_running{model_name=\"a\xff\"} 1\nvllm:num_requests_waiting{model_name=\"a\xff\"} 1\n")
		case "/v1/completions":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"model":"`+strings.Repeat("ä", 100)+"b\xff"+`","choices":[{"text":"a","finish_reason":"`+"\xff"+`"}],"usage":{"prompt_tokens":-3,"completion_tokens":-3}}`)
		}
	})
	g := start(t, Config{}, up)
	for range 3 {
		r := request("POST", g.url+"/v1/completions", `{"model":"c`+"\xff"+`","prompt":"x"}`)
		r.Header.Set("X-Request-Id", "e\xff")
		send(t, r)
	}
	if ends := g.ends(t); ends["success"] != 3 {
		t.Errorf("ends %v", ends)
	}
}

func TestConfig(t *testing.T) {
	for name, tt := range map[string]string{
		"ftp://x":           "scheme",
		"http://":           "names no host",
		"http://u:p@x":      "user name",
		"http://x?a=b":      "query",
		"http://x http://x": "twice",
		"":                  "no upstream",
	} {
		var cfg Config
		for u := range strings.FieldsSeq(name) {
			cfg.Upstreams = append(cfg.Upstreams, request("GET", "http://x", "").URL)
			parsed, err := cfg.Upstreams[0].Parse(u)
			must.Succeed(t, err)
			cfg.Upstreams[len(cfg.Upstreams)-1] = parsed
		}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tt) {
			t.Errorf("%q: error %v, want %q", name, err, tt)
		}
	}
}

// TestClientsThatLeaveWithTheLastByteSpoilNoConnection has clients close as soon as
// they have read an answer, which is when its upstream's connection is kept.
func TestClientsThatLeaveWithTheLastByteSpoilNoConnection(t *testing.T) {
	up := raw(t, func(c net.Conn) {
		for readRequest(c) != "" {
			io.WriteString(c, chaosHead+"e\r\ndata: [DONE]\n\n\r\n")
			for range rand.IntN(5) {
				runtime.Gosched()
			}
			io.WriteString(c, "0\r\n\r\n")
		}
	})
	g := start(t, Config{HealthEvery: time.Hour}, up)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 150 {
				c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(chat), chat)
				var got []byte
				buf := make([]byte, 4096)
				for !strings.Contains(string(got), "[DONE]") {
					n, err := c.Read(buf)
					if got = append(got, buf[:n]...); err != nil {
						t.Errorf("%v after %q", err, got)
						return
					}
				}
				c.Close()
			}
		})
	}
	wg.Wait()
	if ends := g.ends(t); ends["upstream_error"] != 0 {
		t.Errorf("ends %v", ends)
	}
}

package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a gateway under test.
type running struct {
	*Gateway
	url, admin string
	stop       func() error
}

// start runs a gateway before upstreams. Its end is that of the test.
func start(t testing.TB, cfg Config, upstreams ...string) *running {
	t.Helper()
	for _, u := range upstreams {
		parsed, err := url.Parse(u)
		must.Succeed(t, err)
		cfg.Upstreams = append(cfg.Upstreams, parsed)
	}
	r := &running{}
	if cfg.HealthEvery == 0 {
		cfg.HealthEvery = 20 * time.Millisecond
	}
	g, err := New(cfg)
	must.Succeed(t, err)
	data, admin := listenLocally(t), listenLocally(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, Serving{Data: data, Admin: admin, DrainTimeout: 2 * time.Second}) }()
	r.Gateway, r.url, r.admin = g, "http://"+data.Addr().String(), "http://"+admin.Addr().String()
	r.stop = sync.OnceValue(func() error {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// InFlight is the number of open requests.
func (r *running) InFlight() (n int) {
	r.eachOpen(func(*exchange) { n++ })
	return n
}

func listenLocally(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	return l
}

// serve runs an upstream.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// scripted runs an upstream that answers every completion with so many tokens, before each of which
// it calls wait, where that is not nil.
func scripted(t testing.TB, tokens int, wait func(r *http.Request, token int)) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		if !strings.HasSuffix(r.URL.Path, "/completions") {
			io.WriteString(w, `{"data":[{"id":"scripted"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(data string) {
			io.WriteString(w, "data: "+data+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		event(`{"model":"scripted","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
		for i := range tokens {
			if wait != nil {
				wait(r, i)
			}
			finish := map[bool]string{false: "null", true: `"length"`}[i == tokens-1]
			event(`{"model":"scripted","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":` + finish + `}]}`)
		}
		if bytes.Contains(asked, []byte(`"include_usage":true`)) {
			event(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":%d}}`, tokens))
		}
		event("[DONE]")
	})
}

// raw runs an upstream that answers every connection with bytes.
func raw(t testing.TB, answer func(net.Conn)) string {
	t.Helper()
	l := listenLocally(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				answer(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

// readRequest reads the head and, by its length, the body of a request.
func readRequest(c net.Conn) string {
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	var got []byte
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		head, rest, ok := bytes.Cut(got, []byte("\r\n\r\n"))
		if ok {
			length := 0
			for line := range strings.SplitSeq(string(head), "\r\n") {
				if v, is := strings.CutPrefix(line, "Content-Length: "); is {
					fmt.Sscan(v, &length)
				}
			}
			if len(rest) >= length {
				return string(got)
			}
		}
		if err != nil {
			return string(got)
		}
	}
}

const chat = `{"model":"scripted","stream":true,"max_tokens":8,"messages":[{"role":"user","content":"my secret prompt"}]}`

func post(t testing.TB, to, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, to, strings.NewReader(body))
	must.Succeed(t, err)
	r.Header.Set("Content-Type", "application/json")
	return send(t, r)
}

// send returns the answer and its body. An error inside the body ends it with "!" and the error.
func send(t testing.TB, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp, string(b) + "!" + err.Error()
	}
	return resp, string(b)
}

// families gathers what is measured.
func (r *running) families(t testing.TB) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := r.metrics.registry.Gather()
	must.Succeed(t, err)
	out := map[string]*dto.MetricFamily{}
	for _, f := range all {
		out[f.GetName()] = f
	}
	return out
}

// sum adds up the series of a family whose labels match: name, value, name, value.
func sum(f *dto.MetricFamily, match ...string) (total float64) {
	if f == nil {
		return 0
	}
series:
	for _, m := range f.Metric {
		for i := 0; i < len(match); i += 2 {
			found := false
			for _, l := range m.Label {
				found = found || l.GetName() == match[i] && l.GetValue() == match[i+1]
			}
			if !found {
				continue series
			}
		}
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return total
}

// ends returns how many requests ended in each status, once none is open.
func (r *running) ends(t testing.TB) map[string]int {
	t.Helper()
	r.waitUntilIdle(t)
	out := map[string]int{}
	for _, m := range r.families(t)["sixty_gateway_requests_total"].GetMetric() {
		for _, l := range m.Label {
			if n := int(m.GetCounter().GetValue()); l.GetName() == "status" && n > 0 {
				out[l.GetValue()] += n
			}
		}
	}
	return out
}

func (r *running) waitUntilIdle(t testing.TB) {
	t.Helper()
	polltest.Until(t, "no request is open", func() bool { return r.InFlight() == 0 })
}

// TestNothingIsChanged compares what a client gets directly and through the
// gateway, byte for byte, over both versions of HTTP. The server's own paths begin below another one.
func TestNothingIsChanged(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<16)
	answer := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Echo", r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Content-Type"))
		w.Header()["Date"] = nil
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/error":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, `{"error":{"message":"no"}}`)
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for i := range 20 {
				fmt.Fprintf(w, "data: {\"i\":%d}\n\n", i)
				if i%3 == 0 {
					w.(http.Flusher).Flush()
				}
			}
		case "/big":
			io.WriteString(w, big)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte{0x1f, 0x8b, 8, 0})
		case "/cookies":
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
		case "/redirect":
			w.Header().Set("Location", "/else")
			w.WriteHeader(http.StatusFound)
		case "/untyped":
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "<html>")
		default:
			w.Write(body)
		}
	}
	up := serve(t, http.StripPrefix("/under", http.HandlerFunc(answer)).ServeHTTP) + "/under"
	g := start(t, Config{}, up)
	type seen struct {
		Status int
		Header http.Header
		Body   string
	}
	type asked struct {
		method, path, body string
		unsized            bool // without a length
	}
	see := func(c *http.Client, base string, q asked) seen {
		r := request(q.method, base+q.path, q.body)
		if q.unsized {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(q.body)), -1
		}
		resp, err := c.Do(r)
		must.Succeed(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		must.Succeed(t, err)
		resp.Header.Del("Content-Length") // HTTP/2 and net/http add and leave it out as they like
		return seen{resp.StatusCode, resp.Header, string(b)}
	}
	client := func(two bool) *http.Client {
		tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP1(!two)
		tr.Protocols.SetUnencryptedHTTP2(two)
		t.Cleanup(tr.CloseIdleConnections)
		stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		return &http.Client{Transport: tr, CheckRedirect: stay}
	}
	one, two := client(false), client(true)
	for name, q := range map[string]asked{
		"echo":                       {method: "POST", path: "/v1/x?a=b%20c&d", body: "hello"},
		"escapes":                    {method: "GET", path: "/a%2Fb/%e4//c?x=%zz"},
		"big body":                   {method: "POST", path: "/", body: big},
		"a body larger than is kept": {method: "PUT", path: "/", body: strings.Repeat(big, 6)},
		"a body of unknown length":   {method: "POST", path: "/", body: strings.Repeat(big, 6), unsized: true},
		"empty":                      {method: "GET", path: "/empty"},
		"error":                      {method: "POST", path: "/error", body: chat},
		"stream":                     {method: "POST", path: "/stream", body: chat},
		"big":                        {method: "GET", path: "/big"},
		"gzip":                       {method: "GET", path: "/gzip"},
		"cookies":                    {method: "GET", path: "/cookies"},
		"redirect":                   {method: "GET", path: "/redirect"},
		"untyped":                    {method: "GET", path: "/untyped"},
		"head":                       {method: "HEAD", path: "/big"},
		"delete":                     {method: "DELETE", path: "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			want := see(one, up, q)
			if diff := cmp.Diff(want, see(one, g.url, q)); diff != "" {
				t.Errorf("over HTTP/1.1 (-direct +gateway):\n%.2000s", diff)
			}
			if diff := cmp.Diff(want, see(two, g.url, q)); diff != "" {
				t.Errorf("over HTTP/2 (-direct +gateway):\n%.2000s", diff)
			}
		})
	}
}

func request(method, to, body string) *http.Request {
	r, err := http.NewRequest(method, to, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer sk-secret")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func TestAStreamIsMeasured(t *testing.T) {
	var id atomic.Value
	up := scripted(t, 12, func(r *http.Request, _ int) { id.Store(r.Header.Get("X-Request-Id")) })
	g := start(t, Config{}, up)
	r := request("POST", g.url+"/v1/chat/completions", chat)
	r.Header.Set("X-Request-Id", "mine")
	send(t, r)
	g.waitUntilIdle(t)
	if id.Load() != "mine" {
		t.Errorf("the request's id is %q upstream", id.Load())
	}
	f := g.families(t)
	all := []string{"model", "scripted", "route", "/v1/chat/completions"}
	for name, want := range map[string]float64{
		"sixty_gateway_requests_offered_total": 1, "sixty_gateway_output_tokens_total": 12,
		"sixty_gateway_time_to_first_token_seconds": 1, "sixty_gateway_request_duration_seconds": 1,
		"sixty_gateway_no_first_token_seconds": 0, "sixty_gateway_queue_seconds": 1,
	} {
		if got := sum(f[name], all...); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// Tokens that came together with the first have no interval.
	if n := sum(f["vllm_tbt_seconds"]); n > 11 || n != sum(f["sixty_gateway_inter_token_seconds"], all...) {
		t.Errorf("%v intervals between 12 tokens", n)
	}
	for name, label := range map[string][2]string{
		"sixty_gateway_requests_total": {"status", "success"}, "sixty_gateway_responses_total": {"code", "200"},
	} {
		if got := sum(f[name], append(all, label[:]...)...); got != 1 {
			t.Errorf("%s of %s is %v, want 1", name, label, got)
		}
	}
	for name, want := range map[string]float64{
		"vllm_ttft_seconds": 1, "vllm_e2e_seconds": 1, "vllm_output_tokens_total": 12,
	} {
		if got := sum(f[name]); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestEveryRequestEndsInOneStatus(t *testing.T) {
	sse := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	token := chunk(`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n")
	say := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			if readRequest(c) != "" {
				io.WriteString(c, s)
			}
		}
	}
	hold := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			say(s)(c)
			io.Copy(io.Discard, c) // until the other side closes
		}
	}
	reset := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			say(s)(c)
			_ = c.(*net.TCPConn).SetLinger(0)
		}
	}
	for name, tt := range map[string]struct {
		up     func(net.Conn)
		cfg    Config
		want   string
		code   int
		broken bool // the client sees that the answer is not whole
	}{
		"success":                  {up: say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), want: "success", code: 200},
		"a refusal":                {up: say("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"), want: "client_error", code: 404},
		"a server's error":         {up: say("HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno"), want: "upstream_error", code: 500},
		"an error in the stream":   {up: say(sse + token + chunk("data: {\"error\":{\"type\":\"X\"}}\n\n") + chunk("data: [DONE]\n\n") + "0\r\n\r\n"), want: "error_event", code: 200},
		"death in the stream":      {up: say(sse + token), want: "upstream_error", code: 200, broken: true},
		"a reset in the stream":    {up: reset(sse + token), want: "upstream_error", code: 200, broken: true},
		"an unfinished stream":     {up: say(sse + token + "0\r\n\r\n"), want: "upstream_error", code: 200},
		"death before an answer":   {up: say(""), want: "upstream_error", code: 502},
		"garbage":                  {up: say("SSH-2.0-OpenSSH\r\n"), want: "upstream_error", code: 502},
		"a garbled chunk":          {up: say(sse + token + "zz\r\n"), want: "upstream_error", code: 200, broken: true},
		"an endless header":        {up: say("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<18)), want: "upstream_error", code: 502},
		"a short body":             {up: say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"), want: "upstream_error", code: 200, broken: true},
		"no answer":                {up: hold(""), cfg: Config{IdleTimeout: 50 * time.Millisecond}, want: "timeout", code: 504},
		"silence in the stream":    {up: hold(sse + token), cfg: Config{IdleTimeout: 50 * time.Millisecond}, want: "timeout", code: 200, broken: true},
		"a body that is too large": {up: say(""), cfg: Config{MaxBody: 10}, want: "rejected", code: 413},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.HealthEvery = time.Hour
			up := raw(t, tt.up)
			g := start(t, tt.cfg, up)
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := c.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat))
			must.Succeed(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tt.code || (err != nil) != tt.broken {
				t.Errorf("the client got %d, %v", resp.StatusCode, err)
			}
			must.Equal(t, map[string]int{tt.want: 1}, g.ends(t))
		})
	}
}

func TestAClientThatLeavesEndsItsRequestUpstream(t *testing.T) {
	for name, answer := range map[string]string{
		"before the answer": "",
		"in the stream":     "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n:\r\n",
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(name+" over "+version, func(t *testing.T) {
				asked, gone := make(chan bool, 1), make(chan bool, 1)
				up := raw(t, func(c net.Conn) {
					if !strings.HasPrefix(readRequest(c), "POST") {
						return // of the health check
					}
					io.WriteString(c, answer)
					asked <- true
					_ = c.SetDeadline(time.Now().Add(10 * time.Second))
					_, err := c.Read(make([]byte, 1))
					gone <- err == io.EOF || errors.Is(err, net.ErrClosed) || err != nil && !errors.Is(err, context.DeadlineExceeded)
				})
				g := start(t, Config{HealthEvery: time.Hour}, up)
				tr := &http.Transport{}
				if version == "HTTP/2" {
					tr.Protocols = new(http.Protocols)
					tr.Protocols.SetUnencryptedHTTP2(true)
				}
				defer tr.CloseIdleConnections()
				ctx, cancel := context.WithCancel(t.Context())
				r := request("POST", g.url+"/v1/chat/completions", chat).WithContext(ctx)
				done, begun := make(chan bool), make(chan bool)
				go func() {
					defer close(done)
					if resp, err := tr.RoundTrip(r); err == nil {
						close(begun)
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
				<-asked
				if answer != "" {
					<-begun
				}
				cancel()
				<-done
				if !<-gone {
					t.Error("the upstream's connection was not closed")
				}
				must.Equal(t, map[string]int{"client_disconnect": 1}, g.ends(t))
			})
		}
	}
}

// TestAClientThatHasItsWholeAnswerMayLeave has clients that close as soon as they have the
// last event, before the upstream has ended the answer, as OpenAI's library does.
func TestAClientThatHasItsWholeAnswerMayLeave(t *testing.T) {
	const token, finish = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for name, tt := range map[string]struct{ answer, status string }{
		"after [DONE]":              {token + finish + "data: [DONE]\n\n", "success"},
		"after the finish reason":   {token + finish, "success"},
		"before the finish reason":  {token, "client_disconnect"},
		"after an error and [DONE]": {token + `data: {"error":{"message":"no","type":"bad"}}` + "\n\ndata: [DONE]\n\n", "error_event"},
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(name+" over "+version, func(t *testing.T) {
				up := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPost {
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					io.WriteString(w, tt.answer)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				})
				g := start(t, Config{}, up)
				tr := &http.Transport{Protocols: new(http.Protocols)}
				tr.Protocols.SetHTTP1(version == "HTTP/1.1")
				tr.Protocols.SetUnencryptedHTTP2(version == "HTTP/2")
				defer tr.CloseIdleConnections()
				resp, err := tr.RoundTrip(request("POST", g.url+"/v1/chat/completions", chat))
				must.Succeed(t, err)
				got := make([]byte, len(tt.answer))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != tt.answer {
					t.Fatalf("%q, %v", got, err)
				}
				resp.Body.Close()
				must.Equal(t, map[string]int{tt.status: 1}, g.ends(t))
			})
		}
	}
}

// TestAnAnswerBeforeTheWholeBody has upstreams answer, over HTTP/1.1 and 2, while a large
// body is still on its way to them: the answer passes, and what sends it meanwhile does no harm.
func TestAnAnswerBeforeTheWholeBody(t *testing.T) {
	early := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		_ = http.NewResponseController(w).EnableFullDuplex()
		io.WriteString(w, "early")
		w.(http.Flusher).Flush()
		io.Copy(io.Discard, r.Body)
	})
	secure := httptest.NewUnstartedServer(early)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for name, up := range map[string]string{"HTTP/1.1": serve(t, early), "HTTP/2": secure.URL} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Config{TLS: &tls.Config{InsecureSkipVerify: true}}, up)
			for range 5 {
				if _, body := post(t, g.url+"/v1/completions", strings.Repeat("x", 5<<20)); !strings.HasPrefix(body, "early") {
					t.Errorf("got %q", body)
				}
			}
			if ends := g.ends(t); ends["success"]+ends["client_disconnect"] != 5 {
				t.Errorf("ends %v", ends)
			}
		})
	}
}

// TestBodiesTogetherAreBounded: what all requests hold is bounded, however small each is, and
// is given back when they end.
func TestBodiesTogetherAreBounded(t *testing.T) {
	g := start(t, Config{}, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	status := func() int {
		resp, _ := post(t, g.url+"/v1/completions", strings.Repeat("x", 1000))
		return resp.StatusCode
	}
	const others = maxHeld - 500
	g.heldBytes.Store(others)
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503 while other bodies fill the memory", got)
	}
	polltest.Until(t, "the refused body is counted no more", func() bool { return g.heldBytes.Load() == others })
	g.heldBytes.Store(0)
	if got := status(); got != http.StatusOK {
		t.Errorf("status %d, want 200 when they are gone", got)
	}
	polltest.Until(t, "the body is counted no more", func() bool { return g.heldBytes.Load() == 0 })
}

// TestAnEngineBehindTLSIsRead trusts the upstream's authority for its metrics too.
func TestAnEngineBehindTLSIsRead(t *testing.T) {
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "vllm:num_requests_running{model_name=\"m\"} 2\nvllm:num_requests_waiting{model_name=\"m\"} 1\n")
	}))
	t.Cleanup(up.Close)
	g := start(t, Config{TLS: &tls.Config{InsecureSkipVerify: true}}, up.URL)
	polltest.Until(t, "the engine's page is read", func() bool { return sum(g.families(t)["vllm_queue_depth"]) == 1 })
}

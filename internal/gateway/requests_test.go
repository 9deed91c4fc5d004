package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// taker is an upstream that notes every request of a client that reaches it, whole or not.
type taker struct {
	mu  sync.Mutex
	got []string
}

// noted returns what came, and forgets it.
func (u *taker) noted() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	got := u.got
	u.got = nil
	return got
}

func (u *taker) serve(c net.Conn) {
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		b, err := io.ReadAll(r.Body)
		if r.Header.Get("X-Forwarded-For") != "" { // else of the health check
			u.mu.Lock()
			note := fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, b)
			if err != nil {
				note += ": " + err.Error()
			}
			u.got = append(u.got, note)
			u.mu.Unlock()
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

// TestARequestReachesTheUpstreamOnceAndWholeOrNotAtAll sends what two servers may read differently. net/http reads
// requests; the gateway must not repair one of them on its way.
func TestARequestReachesTheUpstreamOnceAndWholeOrNotAtAll(t *testing.T) {
	const head = "POST /v1/completions HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n"
	const chunked = head + "Transfer-Encoding: chunked\r\n"
	const hello = "Content-Length: 5\r\n\r\nhello"
	const whole = "POST /v1/completions hello"
	up := &taker{}
	g := start(t, Config{HealthEvery: time.Hour, MaxBody: 1000}, raw(t, up.serve))
	for name, tt := range map[string]struct {
		request  string
		code     int    // 0 for no answer
		upstream string // what it gets
	}{
		"a length":                        {head + hello, 200, whole},
		"no body":                         {head + "Content-Length: 0\r\n\r\n", 200, "POST /v1/completions "},
		"an address in brackets":          {"GET /v1?a=b HTTP/1.1\r\nhost: [::1]:80\r\nConnection: close\r\n\r\n", 200, "GET /v1?a=b "},
		"the same length twice":           {head + "Content-Length: 5\r\n" + hello, 200, whole},
		"two lengths":                     {head + "Content-Length: 4\r\n" + hello, 400, ""},
		"a length with a sign":            {head + "Content-Length: +5\r\n\r\nhello", 400, ""},
		"a length above the limit":        {head + "Content-Length: 1001\r\n\r\nhello", 413, ""},
		"chunks":                          {chunked + "\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nT: x\r\n\r\n", 200, whole},
		"chunks and a length":             {chunked + "Content-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, whole},
		"a chunk that is too short":       {chunked + "\r\n5\r\nab\r\n0\r\n\r\n", 400, ""},
		"chunks above the limit":          {chunked + "\r\n3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", 413, ""},
		"another coding":                  {head + "Transfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 501, ""},
		"a space before the colon":        {head + "Transfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400, ""},
		"the client leaves in the body":   {head + "Content-Length: 5\r\n\r\nhell", 0, ""},
		"the client leaves in the chunks": {chunked + "\r\n5\r\nhello\r\n", 0, ""},
		"a header in two lines":           {head + "X: a\r\n folded\r\n" + hello, 200, whole},
		"a header of 128 KiB":             {head + "X: " + strings.Repeat("x", 1<<17) + "\r\n\r\n", 431, ""},
		"an expectation":                  {head + "Expect: 200-ok\r\n" + hello, 417, ""},
		"an upgrade":                      {head + "Upgrade: websocket\r\nConnection: Upgrade\r\n" + hello, 200, whole},
		"a header of the connection":      {head + "Connection: keep-alive, X-Secret\r\nX-Secret: a\r\n" + hello, 200, whole},
		"another host":                    {"POST http://other/v1/completions HTTP/1.1\r\nHost: other\r\nConnection: close\r\n" + hello, 200, whole},
		"HTTP/1.0":                        {"POST /v1/completions HTTP/1.0\r\nHost: a\r\n" + hello, 200, whole},
		"a tunnel":                        {"CONNECT other:80 HTTP/1.1\r\nHost: other:80\r\n\r\n", 405, ""},
		"a request after a request": {
			chunked + "Content-Length: 4\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", 200, "POST /v1/completions ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
			must.Succeed(t, err)
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(c, tt.request)
			code := 0
			if tt.code == 0 {
				c.Close()
			}
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				code = resp.StatusCode
				io.Copy(io.Discard, resp.Body)
			}
			g.waitUntilIdle(t)
			if got := strings.Join(up.noted(), "; "); code != tt.code || got != tt.upstream {
				t.Errorf("status %d, the upstream got %q, want %d, %q", code, got, tt.code, tt.upstream)
			}
		})
	}
}

// TestAPOSTIsSentOnce has an upstream answer and then close the connection that it said it
// would keep, at once or after it has read the next request: that one may have begun, and
// is lost, whatever its headers promise. One that cannot have begun, or that may be asked
// twice, is asked again.
func TestAPOSTIsSentOnce(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	serveTwo := func(br *bufio.Reader, c net.Conn, answers int) {
		for n := range answers + 1 {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if id := r.Header.Get("X-Request-Id"); id != "" {
				mu.Lock()
				asked[id]++
				mu.Unlock()
			}
			if n < answers {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}
	}
	for name, answers := range map[string]func(net.Conn){
		"it closes an idle connection":       func(c net.Conn) { serveTwo(bufio.NewReader(c), c, 1) },
		"it never answers on a new one":      func(c net.Conn) { serveTwo(bufio.NewReader(c), c, 0) },
		"it closes without a second request": func(c net.Conn) { readRequest(c); io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") },
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Config{HealthEvery: time.Hour}, raw(t, answers))
			for i := range 40 {
				id := fmt.Sprint(name, i)
				method, body := http.MethodPost, chat
				switch i % 4 {
				case 1:
					body = ""
				case 2:
					method, body = http.MethodGet, ""
				}
				r := request(method, g.url+"/v1/completions", body)
				r.Header.Set("X-Request-Id", id)
				if i%8 < 4 {
					r.Header.Set("Idempotency-Key", id)
					r.Header.Set("X-Idempotency-Key", id)
				}
				resp, _ := send(t, r)
				mu.Lock()
				n := asked[id]
				mu.Unlock()
				switch {
				case method == http.MethodPost && n > 1:
					t.Errorf("%s %q was sent %d times", method, body, n)
				case method == http.MethodPost && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusBadGateway:
					t.Error(resp.Status)
				}
			}
		})
	}
	// What a client says of its key arrives.
	keys := make(chan string, 1)
	g := start(t, Config{HealthEvery: time.Hour}, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			keys <- r.Header.Get("Idempotency-Key")
		}
	}))
	r := request(http.MethodPost, g.url+"/v1/completions", "")
	r.Header.Set("Idempotency-Key", "mine")
	send(t, r)
	if key := <-keys; key != "mine" {
		t.Errorf("the key arrives as %q", key)
	}
}

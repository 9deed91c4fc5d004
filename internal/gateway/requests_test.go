package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestWhatIsNotPlain sends what is read differently by different servers: the upstream
// gets nothing of what is malformed or not whole, and of the rest one request, whole.
func TestWhatIsNotPlain(t *testing.T) {
	const head = "POST /v1/completions HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n"
	const whole = "POST /v1/completions hello"
	up := &taker{}
	g := start(t, Config{HealthEvery: time.Hour, MaxBody: 1000}, raw(t, up.serve))
	for text, want := range map[string]struct {
		code int // 0 for no answer
		got  string
	}{
		// Plain ones.
		head + "Content-Length: 5\r\n\r\nhello":                               {200, whole},
		head + "content-length: \t5 \r\nX: \ttext \xff\r\n\r\nhello":          {200, whole},
		"GET /v1?a=b HTTP/1.1\r\nhost: [::1]:80\r\nConnection: close\r\n\r\n": {200, "GET /v1?a=b "},
		head + "Content-Length: 0\r\n\r\n":                                    {200, "POST /v1/completions "},

		// Two lengths, or one that is none.
		head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello": {200, whole},
		head + "Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello": {400, ""},
		head + "Content-Length: 5, 5\r\n\r\nhello":                   {400, ""},
		head + "Content-Length: +5\r\n\r\nhello":                     {400, ""},
		head + "Content-Length: -5\r\n\r\nhello":                     {400, ""},
		head + "Content-Length: 0x5\r\n\r\nhello":                    {400, ""},
		head + "Content-Length: 5 5\r\n\r\nhello":                    {400, ""},
		head + "Content-Length:\r\n\r\nhello":                        {400, ""},
		head + "Content-Length: 99999999999999999999\r\n\r\nhello":   {400, ""},
		head + "Content-Length : 5\r\n\r\nhello":                     {400, ""},
		head + "Content-Length: 1001\r\n\r\nhello":                   {413, ""},

		// Chunks.
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                               {200, whole},
		head + "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nT: x\r\n\r\n":          {200, whole},
		head + "Trailer: T\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: x\r\n\r\n":         {200, whole},
		head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n":          {200, whole},
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n":                                   {400, ""},
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\nab\r\n0\r\n\r\n":                                  {400, ""},
		head + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n":                              {400, ""},
		head + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n":                              {400, ""},
		head + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n":                             {400, ""},
		head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n":               {400, ""},
		head + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n": {413, ""},
		head + "Transfer-Encoding: x\r\nContent-Length: 5\r\n\r\nhello":                                  {501, ""},
		head + "Transfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                              {501, ""},
		head + "Transfer-Encoding: chunked, x\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                            {501, ""},
		head + "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                         {501, ""},
		head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n5\r\nhello\r\n0\r\n\r\n":       {501, ""},
		head + "Transfer-Encoding: \x0bchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                           {400, ""},
		head + "Transfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                              {400, ""},

		// Not whole: the client leaves.
		head + "Content-Length: 5\r\n":                            {0, ""},
		head + "Content-Length: 5\r\n\r\nhell":                    {0, ""},
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello":     {0, ""},
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n": {0, ""},
		"POST /v1": {0, ""},

		// Headers.
		head + "X: a\r\n folded\r\nContent-Length: 5\r\n\r\nhello":        {200, whole}, // in one line
		head + "X: a\x00b\r\n\r\n":                                        {400, ""},
		head + "X: a\rContent-Length: 5\r\n\r\nhello":                     {400, ""},
		head + "X: a\x7fb\r\n\r\n":                                        {400, ""},
		head + "X y: a\r\n\r\n":                                           {400, ""},
		head + ": a\r\n\r\n":                                              {400, ""},
		head + "X\r\n\r\n":                                                {400, ""},
		head + "X\x00: a\r\n\r\n":                                         {400, ""},
		head + " X: a\r\n\r\n":                                            {200, "POST /v1/completions "}, // of the line before
		head + "Host: b\r\n\r\n":                                          {400, ""},
		head + "X: " + strings.Repeat("x", 1<<17) + "\r\n\r\n":            {431, ""},
		"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello": {400, ""}, // no host
		"POST /v1 HTTP/1.1\r\nHost: a/b\r\n\r\n":                          {400, ""},
		"POST /v1 HTTP/1.1\r\nHost: a b\r\n\r\n":                          {400, ""},

		// What belongs to the connection, and what asks for more.
		head + "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello":                                  {417, ""},
		head + "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\nhello":       {200, whole},
		head + "Connection: keep-alive, X-Secret\r\nX-Secret: a\r\nContent-Length: 5\r\n\r\nhello": {200, whole},

		// The first line.
		"POST http://other/v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello": {200, whole},
		"POST /v1/completions HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello":                                  {200, whole},
		"POST  /v1 HTTP/1.1\r\nHost: a\r\n\r\n":                                                                       {400, ""},
		"POST /v1 x HTTP/1.1\r\nHost: a\r\n\r\n":                                                                      {400, ""},
		"POST /v1 HTTP/1.1 \r\nHost: a\r\n\r\n":                                                                       {400, ""},
		"POST /v1 HTTP/9.9\r\nHost: a\r\n\r\n":                                                                        {505, ""},
		"POST /v1\x00 HTTP/1.1\r\nHost: a\r\n\r\n":                                                                    {400, ""},
		"POST v1 HTTP/1.1\r\nHost: a\r\n\r\n":                                                                         {400, ""},
		"PO\x00ST /v1 HTTP/1.1\r\nHost: a\r\n\r\n":                                                                    {400, ""},
		"P(ST /v1 HTTP/1.1\r\nHost: a\r\n\r\n":                                                                        {400, ""},
		"CONNECT other:80 HTTP/1.1\r\nHost: other:80\r\n\r\n":                                                         {405, ""},
		"SSH-2.0-OpenSSH\r\n\r\n":                                                                                     {400, ""},
		"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n":                                                        {400, ""},
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		must.Succeed(t, err)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, text)
		code := 0
		if want.code == 0 {
			c.Close()
		}
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			code = resp.StatusCode
			io.Copy(io.Discard, resp.Body)
		}
		c.Close()
		g.waitUntilIdle(t)
		if got := strings.Join(up.noted(), "; "); code != want.code || got != want.got {
			t.Errorf("%q:\n%d, the upstream got %q, want %d, %q", text, code, got, want.code, want.got)
		}
	}
}

// TestOneConnection sends requests of all kinds on one connection, all at once and
// one byte at a time: each is answered in order.
func TestOneConnection(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", body)
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "data: [DONE]\n\n")
			return
		}
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	})
	g := start(t, Config{MaxBody: 1000}, up)
	var requests, want []string
	add := func(answer, request string, args ...any) {
		requests, want = append(requests, fmt.Sprintf(request, args...)), append(want, answer)
	}
	add("GET /a ", "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
	add("POST /b body", "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
	add("data: one\n\ndata: [DONE]\n\n", "POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none")
	add("GET /c ", "GET /c HTTP/1.1\r\nHost: x\r\n\r\n")
	add("POST /d ab", "POST /d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
	add("data: two\n\ndata: [DONE]\n\n", "POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntwo")
	add("GET /e ", "GET /e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	for name, piece := range map[string]int{"at once": 1 << 20, "a request at a time": 0, "a byte at a time": 1, "seven bytes": 7} {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		must.Succeed(t, err)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		br := bufio.NewReader(c)
		if all := []byte(strings.Join(requests, "")); piece > 0 {
			go func() {
				for len(all) > 0 {
					n := min(piece, len(all))
					if _, err := c.Write(all[:n]); err != nil {
						return
					}
					all = all[n:]
					if piece < 100 {
						runtime.Gosched()
					}
				}
			}()
		}
		var got []string
		for i := range requests {
			if piece == 0 {
				io.WriteString(c, requests[i])
			}
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("%s, answer %d: %v", name, i, err)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatalf("%s, answer %d: %v", name, i, err)
			}
			got = append(got, string(b))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection is open after Connection: close: %v", name, err)
		}
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
				resp, err := http.DefaultClient.Do(r)
				must.Succeed(t, err)
				resp.Body.Close()
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
	resp, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	resp.Body.Close()
	if key := <-keys; key != "mine" {
		t.Errorf("the key arrives as %q", key)
	}
}

package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPlainHead tells what is served without net/http: what is not sure goes there.
func TestPlainHead(t *testing.T) {
	const head = "POST /v1/completions HTTP/1.1\r\nHost: a:80\r\n"
	for text, want := range map[string]bool{
		head + "Content-Length: 5\r\n\r\n":                           true,
		head + "Connection: close\r\nX-Any: \ttext \xff\r\n\r\nbody": true,
		"GET /?a=b HTTP/1.1\r\nhost: [::1]:80\r\n\r\n":               true,
		head + "Content-Length: 5\r\n":                               false, // not whole
		head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n":      false,
		head + "Content-Length: +5\r\n\r\n":                          false,
		head + "Content-Length: 5, 5\r\n\r\n":                        false,
		head + "Content-Length:\r\n\r\n":                             false,
		head + "Content-Length: 1001\r\n\r\n":                        false, // too large
		head + "Content-Length: 99999999999999999999\r\n\r\n":        false,
		head + "Transfer-Encoding: chunked\r\n\r\n":                  false,
		head + "transfer-encoding: x\r\nContent-Length: 5\r\n\r\n":   false,
		head + "Content-Length : 5\r\n\r\n":                          false,
		head + "X: a\r\n folded\r\n\r\n":                             false,
		head + "X: a\nY: b\r\n\r\n":                                  false,
		head + "X: a\x00b\r\n\r\n":                                   false,
		head + ": a\r\n\r\n":                                         false,
		head + "Host: b\r\n\r\n":                                     false,
		head + "Expect: 100-continue\r\n\r\n":                        false,
		head + "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n":   false,
		head + "Connection: keep-alive, X-Secret\r\n\r\n":            false,
		"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n\r\n": false, // no host
		"POST /v1/completions HTTP/1.0\r\nHost: a\r\n\r\n":           false,
		"POST http://other/ HTTP/1.1\r\nHost: a\r\n\r\n":             false,
		"POST  /v1 HTTP/1.1\r\nHost: a\r\n\r\n":                      false,
		"POST /v1 x HTTP/1.1\r\nHost: a\r\n\r\n":                     false,
		"POST /v1 HTTP/1.1 \r\nHost: a\r\n\r\n":                      false,
		"POST /v1 HTTP/1.1\r\nHost: a/b\r\n\r\n":                     false,
		"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n":                         false,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                           false,
		"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n":                      false,
		"GET / HTTP/1.1\nHost: a\n\n":                                false,
	} {
		if _, ok := plainHead([]byte(text), 1000, func(string, string) {}); ok != want {
			t.Errorf("%q: plain is %v, want %v", text, ok, want)
		}
	}
}

// FuzzPlainHead compares what is read here with what net/http reads: of a head that
// counts as plain there is one reading only.
func FuzzPlainHead(f *testing.F) {
	for _, seed := range []string{
		"POST /v1/completions?x=%20y#z HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\nX: \t b \r\nx:c\r\n\r\nhello",
		"GET //a/../b%2f;c HTTP/1.1\r\nhOST:[::1]\r\nconnection: close\r\nx-request-id: \xff\r\n\r\n",
		"GET /%zz HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\nTransfer-Encoding : chunked\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &leanConn{s: &lean{maxBody: 1000}, in: bufio.NewReaderSize(bytes.NewReader(b), leanReader)}
		_, _ = c.in.Peek(1)
		p, ok := c.head()
		if !ok {
			return
		}
		got, err := c.request(p)
		want, wantErr := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%v here, %v in net/http", err, wantErr)
		}
		if err != nil {
			return
		}
		for _, v := range got.Header["Pragma"] { // which net/http translates
			if v == "no-cache" {
				return
			}
		}
		if diff := cmp.Diff(want.Header, got.Header); diff != "" {
			t.Errorf("header (-net/http +here):\n%s", diff)
		}
		type line struct {
			Method, Host, Target, Path, Query string
			Forced, Close                     bool
			Length                            int64
		}
		of := func(r *http.Request) line {
			return line{r.Method, r.Host, r.RequestURI, r.URL.EscapedPath(), r.URL.RawQuery, r.URL.ForceQuery, r.Close, r.ContentLength}
		}
		if diff := cmp.Diff(of(want), of(got)); diff != "" {
			t.Errorf("request (-net/http +here):\n%s", diff)
		}
		wantBody, wantErr := io.ReadAll(want.Body)
		gotBody, err := io.ReadAll(got.Body)
		if !bytes.Equal(wantBody, gotBody) || (err != nil) != (wantErr != nil) {
			t.Errorf("body %q, %v here, %q, %v in net/http", gotBody, err, wantBody, wantErr)
		}
	})
}

// TestOneConnection sends requests of all kinds on one connection, all at once and
// one byte at a time: each is answered in order, whoever serves it.
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
	add("POST /d ab", "POST /d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n") // for net/http
	add("data: two\n\ndata: [DONE]\n\n", "POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntwo")
	add("GET /e ", "GET /e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	for name, piece := range map[string]int{"at once": 1 << 20, "a request at a time": 0, "a byte at a time": 1, "seven bytes": 7} {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
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
						time.Sleep(50 * time.Microsecond)
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

// TestOpenStreamIsCheap holds streams that say nothing, and counts goroutines.
func TestOpenStreamIsCheap(t *testing.T) {
	up := raw(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err == nil {
			io.WriteString(c, chaosHead+"d\r\ndata: hello\n\n\r\n")
			_, _ = c.Read(make([]byte, 1))
		}
	})
	g := start(t, Config{}, up)
	open := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := bufio.NewReader(c).Peek(90); err != nil {
			t.Fatal(err)
		}
		return c
	}
	defer open().Close()
	before := runtime.NumGoroutine()
	const streams = 50
	for range streams {
		c := open()
		defer c.Close()
	}
	// One is the upstream's of this test.
	if n := runtime.NumGoroutine() - before; n > 2*streams+5 {
		t.Errorf("%d streams take %d goroutines, of which one each is this test's", streams, n)
	}
}

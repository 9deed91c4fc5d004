package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every connection with raw bytes, in pieces of n bytes, and then
// closes it.
func serve(t *testing.T, raw string, n int) *url.URL {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 1<<10)
			_, _ = c.Read(buf)
			for p := raw; p != ""; {
				k := min(n, len(p))
				_, _ = io.WriteString(c, p[:k])
				p = p[k:]
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	u, _ := url.Parse("http://" + ln.Addr().String())
	return u
}

func dial(t *testing.T, u *url.URL) *Conn {
	t.Helper()
	d, err := NewDialer(u, nil, NewClock(time.Now()), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// gather is a Sink that keeps everything.
type gather struct{ bytes.Buffer }

func (g *gather) Data(p []byte) error { g.Write(p); return nil }

func TestConnReadsEveryFraming(t *testing.T) {
	tests := map[string]struct {
		raw  string
		body string
		err  error
		keep bool // the connection may be used again
	}{
		"a length":                   {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", nil, true},
		"chunks":                     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", "hello", nil, true},
		"chunks with a trailer":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: b\r\n\r\n", "hello", nil, true},
		"until the end":              {"HTTP/1.1 200 OK\r\n\r\nhello", "hello", nil, false},
		"an interim response before": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", nil, true},
		"a server that will close":   {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", "hi", nil, false},
		"HTTP/1.0":                   {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", nil, false},
		"no body":                    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", nil, true},
		"a length that is cut off":   {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "hello", ErrTruncated, false},
		"a chunk that is cut off":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", "hello", ErrTruncated, false},
		"chunks without a last one":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "hello", ErrTruncated, false},
		"a chunk size that is none":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", "", ErrMalformed, false},
		"chunks beside a length":     {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello", nil, true},
		"a chunk size beyond all":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "", ErrMalformed, false},
	}
	for name, tt := range tests {
		for _, n := range []int{1, 7, len(tt.raw)} {
			for _, pumped := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d bytes at once, pumped %v", name, n, pumped), func(t *testing.T) {
					c := dial(t, serve(t, tt.raw, n))
					_ = c.SetDeadline(c.clock.Now() + int64(time.Minute))
					if err := c.Send([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
						t.Fatal(err)
					}
					var resp Response
					if err := c.ReadHead(&resp); err != nil || resp.Status != 200 {
						t.Fatalf("status %d, error %v", resp.Status, err)
					}
					var g gather
					var err error
					if pumped {
						err = c.Stream(&g)
					} else {
						err = pull(c, &g)
					}
					if !errors.Is(err, tt.err) || g.String() != tt.body && tt.err != ErrMalformed {
						t.Errorf("body %q, error %v; want %q, %v", g.String(), err, tt.body, tt.err)
					}
					if c.Reusable() != tt.keep {
						t.Errorf("reusable %v, want %v", c.Reusable(), tt.keep)
					}
				})
			}
		}
	}
}

func pull(c *Conn, g *gather) error {
	for {
		p, err := c.ReadBody()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		g.Write(p)
	}
}

func TestReadHeadRefuses(t *testing.T) {
	long := "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", maxHead) + "\r\n\r\n"
	many := "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 100)+"\r\n", maxHead/100) + "\r\n"
	tests := map[string]struct {
		raw string
		err error
	}{
		"no HTTP":                  {"SSH-2.0-OpenSSH\r\n\r\n", ErrMalformed},
		"a status that is none":    {"HTTP/1.1 2x0 OK\r\n\r\n", ErrMalformed},
		"another coding":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nhello", ErrMalformed},
		"chunks in chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ErrMalformed},
		"a space before the colon": {"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", ErrMalformed},
		"a folded line":            {"HTTP/1.1 200 OK\r\nX: a\r\n b: c\r\nContent-Length: 5\r\n\r\nhello", ErrMalformed},
		"a header without a colon": {"HTTP/1.1 200 OK\r\nfoo\r\n\r\n", ErrMalformed},
		"a length that is none":    {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", ErrMalformed},
		"a header without end":     {long, ErrMalformed},
		"headers without end":      {many, ErrMalformed},
		"a head that is cut off":   {"HTTP/1.1 200 OK\r\nA: b\r\n", ErrTruncated},
		"nothing":                  {"", io.EOF},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := dial(t, serve(t, tt.raw, 1<<20))
			_ = c.Send([]byte("GET / HTTP/1.1\r\n\r\n"))
			if err := c.ReadHead(new(Response)); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
		})
	}
}

func TestResponseHeaders(t *testing.T) {
	c := dial(t, serve(t, "HTTP/1.1 429 Too Many\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\ncontent-length: 0\r\n\r\n", 1<<20))
	_ = c.Send([]byte("GET / HTTP/1.1\r\n\r\n"))
	var got Response
	if err := c.ReadHead(&got); err != nil {
		t.Fatal(err)
	}
	if want := (Response{Status: 429, EventStream: true}); got != want {
		t.Errorf("response %+v, want %+v", got, want)
	}
}

// TestTLS also covers reading without the pump.
func TestTLS(t *testing.T) {
	read := make(chan struct{}) // the first event, by the client
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: x\n\n")
		w.(http.Flusher).Flush()
		<-read
		_, _ = io.WriteString(w, "data: x\n\ndata: x\n\n")
	}))
	defer s.Close()
	u, _ := url.Parse(s.URL)
	conf := s.Client().Transport.(*http.Transport).TLSClientConfig
	d, err := NewDialer(u, conf, NewClock(time.Now()), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.DialEnd <= c.DialStart {
		t.Error("the handshake took no time")
	}
	for range 2 { // the second request reuses the connection
		begin := c.clock.Now()
		if err := c.Send([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := c.ReadHead(new(Response)); err != nil {
			t.Fatal(err)
		}
		first := c.ReadAt()
		read <- struct{}{}
		var g gather
		if err := c.Stream(&g); err != nil || g.String() != strings.Repeat("data: x\n\n", 3) {
			t.Fatalf("body %q, error %v", g.String(), err)
		}
		if first <= begin || c.ReadAt() <= first {
			t.Errorf("begun %d, first %d, last %d: want one after the other", begin, first, c.ReadAt())
		}
	}
}

// A pump must stamp what it reads with the time that the kernel tells, whatever that is:
// how late a busy machine reads, and whether its kernel stamps yet, is not up to the test.
func TestPumpStampsArrivalsNotReads(t *testing.T) {
	c := dial(t, serve(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 1))
	if c.socket == nil {
		t.Skip("this system tells no arrival times")
	}
	_ = c.Send([]byte("x"))
	if err := c.ReadHead(new(Response)); err != nil {
		t.Fatal(err)
	}
	if err := c.Stream(&arrivals{t: t, c: c}); err != nil {
		t.Fatal(err)
	}
}

// arrivals is a Sink that compares the stamp of every piece with what the socket tells.
type arrivals struct {
	t    *testing.T
	c    *Conn
	last int64
}

func (a *arrivals) Data([]byte) error {
	at := a.c.ReadAt()
	if want := max(a.last, a.c.socket.Arrived(a.c.clock)); at != want {
		a.t.Errorf("the piece is stamped %d, it arrived at %d", at, want)
	}
	a.last = at
	return nil
}

func TestDeadlineAndInterrupt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Read(make([]byte, 100))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na")
		}
	}()
	u, _ := url.Parse("http://" + ln.Addr().String())
	for name, stop := range map[string]func(*Conn){
		"deadline":  func(c *Conn) { _ = c.SetDeadline(c.clock.Now() + int64(30*time.Millisecond)) },
		"interrupt": func(c *Conn) { time.AfterFunc(30*time.Millisecond, c.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, u)
			_ = c.Send([]byte("x"))
			if err := c.ReadHead(new(Response)); err != nil {
				t.Fatal(err)
			}
			stop(c)
			if err := c.Stream(&gather{}); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, r := range []io.Reader{bytes.NewReader(raw), iotest.OneByteReader(bytes.NewReader(raw))} {
			c := &Conn{nc: &readOnly{r: r}, clock: NewClock(time.Now()), buf: make([]byte, 64)}
			if c.ReadHead(new(Response)) != nil {
				continue
			}
			read := 0
			for {
				p, err := c.ReadBody()
				if err != nil {
					break
				}
				if read += len(p); read > len(raw) {
					t.Fatalf("body of %d bytes out of %d", read, len(raw))
				}
			}
		}
	})
}

type readOnly struct {
	net.Conn
	r io.Reader
}

func (c *readOnly) Read(p []byte) (int, error) { return c.r.Read(p) }

func TestLags(t *testing.T) {
	var l Lags
	for i := 1; i <= 1000; i++ {
		l.add(time.Duration(i) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond} {
		if got := l.Quantile(q); got < want*88/100 || got > want*112/100 {
			t.Errorf("quantile %v is %s, want about %s", q, got, want)
		}
	}
	if l.Count() != 1000 || l.Max() != time.Millisecond {
		t.Errorf("count %d, max %s", l.Count(), l.Max())
	}
}

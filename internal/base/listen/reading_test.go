package listen_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sixty-dev/sixty/internal/base/listen"
	"github.com/sixty-dev/sixty/internal/base/memnet"
	"github.com/sixty-dev/sixty/internal/base/must"
)

// ask sends a request of a user and returns the connection that the answer comes on.
func ask(t *testing.T, network *memnet.Network, user string) net.Conn {
	t.Helper()
	c, err := network.DialContext(t.Context(), "tcp", "monitor:6060")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: monitor\r\nUser: %s\r\nConnection: close\r\n\r\n",
		user); err != nil {
		t.Fatal(err)
	}
	return c
}

// read reads so many bytes at a time, with a pause before each, and returns how many came in how long.
func read(c io.Reader, atATime int, pause time.Duration) (n int, took time.Duration) {
	began, p := time.Now(), make([]byte, atATime)
	for {
		<-time.After(pause) // of the bubble
		k, err := c.Read(p)
		if n += k; err != nil {
			return n, time.Since(began)
		}
	}
}

// TestAnswersThatNobodyReadsEnd: an answer goes on while it is read, and a stream while there is nothing to send.
func TestAnswersThatNobodyReadsEnd(t *testing.T) {
	const size = 200_000
	whole := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
	stream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 5 {
			<-time.After(time.Minute) // of the bubble
			if _, err := w.Write(make([]byte, size/5)); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	})
	for name, c := range map[string]struct {
		handler http.Handler
		atATime int
		pause   time.Duration
		whole   bool
		within  time.Duration
	}{
		"read at once":        {whole, size, 0, true, 0},
		"read slowly":         {whole, 4096, time.Second, true, time.Hour},
		"ten bytes at a time": {whole, 10, time.Second, false, time.Minute},
		"not at all":          {whole, 1, 30 * 24 * time.Hour, false, 31 * 24 * time.Hour},
		"a stream":            {stream, size, 0, true, 6 * time.Minute},
		"a stream, not read":  {stream, 10, time.Second, false, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network memnet.Network
				network.Serve(t, "monitor:6060", listen.CutStalled(c.handler))
				n, took := read(ask(t, &network, ""), c.atATime, c.pause)
				if n >= size != c.whole || took > c.within {
					t.Errorf("%d bytes came within %s", n, took)
				}
			})
		})
	}
}

// TestTurnsEndWithTheAnswer has many readers of one user that stall, and somebody else who asks.
func TestTurnsEndWithTheAnswer(t *testing.T) {
	for name, size := range map[string]int{"small answers": 1 << 20, "more than may be unread": 80 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := make([]byte, size)
				user := func(r *http.Request) string { return r.Header.Get("User") }
				turns := listen.NewTurns(4, 30*time.Second, user,
					func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
				var network memnet.Network
				network.Serve(t, "monitor:6060",
					listen.CutStalled(turns.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						select {
						case <-time.After(time.Second): // of the bubble
							_, _ = w.Write(body)
						case <-r.Context().Done():
						}
					}))))
				for range 24 {
					ask(t, &network, "vera")
				}
				<-time.After(10 * time.Second)
				for range 5 {
					began := time.Now()
					text, err := io.ReadAll(ask(t, &network, "ada"))
					if took := time.Since(began); err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.1 200")) ||
						len(text) < size || took > 3*time.Second {
						t.Errorf("%.20q, %d bytes after %s: %v", text, len(text), took, err)
					}
				}
			})
		})
	}
}

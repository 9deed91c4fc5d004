//go:build e2e

package e2e

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// stand serves a fixed behaviour in place of vLLM.
func stand(t *testing.T, h http.HandlerFunc) *Server {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return &Server{Name: "r0", Port: ts.Listener.Addr().(*net.TCPAddr).Port}
}

// streaming sends chunks and then the tail, or nothing at all until the client leaves.
func streaming(chunks int, tail string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range chunks {
			fmt.Fprint(w, "data: {\"choices\":[]}\n\n")
			w.(http.Flusher).Flush()
		}
		if tail == "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, tail)
	}
}

func TestOutcomeSaysHowARequestEnded(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		query   request
		hangUp  time.Duration // the clients' life, when not 0
		want    outcome
		gaps    int
	}{
		"a complete stream is ok": {
			streaming(4, "data: [DONE]\n\n"), request{}, 0, outcome{Status: 200, End: "ok"}, 3,
		},
		"a client that leaves after two chunks cancels": {
			streaming(9, ""), request{cancelAfter: 2}, 0, outcome{Status: 200, End: "cancelled"}, 1,
		},
		"a client that has had enough leaves in mid-stream": {
			streaming(3, ""), request{leaveAfter: 300 * time.Millisecond}, 0, outcome{Status: 200, End: "cancelled"}, 2,
		},
		"a client without a first token gives up": {
			streaming(0, ""), request{patience: 400 * time.Millisecond}, 0, outcome{Status: 200, End: "gave up"}, 0,
		},
		"patience ends with the first token": {
			streaming(1, ""), request{patience: 200 * time.Millisecond}, 800 * time.Millisecond, outcome{Status: 200, End: "hung up"}, 0,
		},
		"an engine that dies in the stream leaves an error chunk": {
			streaming(3, "data: {\"error\":{\"code\":500}}\n\n"), request{}, 0, outcome{Status: 200, End: "error chunk"}, 2,
		},
		"a 400 is refused": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) },
			request{},
			0,
			outcome{Status: 400, End: "refused"},
			0,
		},
		"a connection that breaks is broken": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			request{},
			0,
			outcome{End: "broken"},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stand(t, c.handler)
			d := newDriver([]*Server{s}, 1)
			defer d.client.CloseIdleConnections()
			life := t.Context()
			if c.hangUp > 0 {
				var cancel context.CancelFunc
				life, cancel = context.WithTimeout(life, c.hangUp)
				defer cancel()
			}
			q := c.query
			q.server, q.model, q.prompt, q.maxTokens = s, servedModel, []byte("[5]"), 8
			got := d.do(life, t.Context(), q)
			if len(got.Gaps) != c.gaps {
				t.Errorf("%d gaps between chunks, want %d", len(got.Gaps), c.gaps)
			}
			got.Gaps, got.TTFT, got.E2E = nil, 0, 0
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPromptsHaveTheAskedLengthsAndShareTheirPrefixes(t *testing.T) {
	d := newDriver([]*Server{{Name: "r0"}}, 1)
	r := rand.New(rand.NewPCG(1, 2))
	tr := Traffic{Prompt: constant(10), Output: uniform(3, 5), Shared: &Shared{Tokens: 20, Fraction: 1, Prefixes: 1, Key: "k"}}
	heads := map[string]bool{}
	for range 50 {
		q := d.draw(r, tr)
		ids := strings.Split(strings.Trim(string(q.prompt), "[]"), ",")
		if len(ids) != 30 || q.maxTokens < 3 || q.maxTokens > 5 {
			t.Fatalf("%d prompt tokens and %d output tokens, want 30 and 3 to 5", len(ids), q.maxTokens)
		}
		heads[strings.Join(ids[:20], ",")] = true
	}
	if len(heads) != 1 {
		t.Errorf("%d different prefixes, want 1", len(heads))
	}
	behind := strings.Split(strings.Trim(string(d.draw(r, tr).prompt), "[]"), ",")[:20]
	tr.Shared.Front = 4
	ids := strings.Split(strings.Trim(string(d.draw(r, tr).prompt), "[]"), ",")
	if len(ids) != 30 || !slices.Equal(ids[4:24], behind) || slices.Equal(ids[:4], behind[:4]) {
		t.Errorf("with 4 tokens in front of the prefix the prompt is %q", ids)
	}
	tr.Shared.Front = 0
	tr.Shared.Fraction = 0
	if ids := strings.Split(string(d.draw(r, tr).prompt), ","); len(ids) != 30 {
		t.Errorf("a prompt that shares nothing has %d tokens, want the same 30", len(ids))
	}
}

func TestPickFollowsTheWeights(t *testing.T) {
	servers := []*Server{{Name: "r0"}, {Name: "r1"}}
	d := newDriver(servers, 1)
	r := rand.New(rand.NewPCG(1, 2))
	var first int
	for range 2000 {
		if d.pick(r, []float64{0.9, 0.1}) == servers[0] {
			first++
		}
	}
	if first < 1740 || first > 1860 {
		t.Errorf("%d of 2000 requests went to the server with weight 0.9", first)
	}
}

func TestRateGrowsToTheEndOfThePhase(t *testing.T) {
	begin := time.Now().Add(-30 * time.Second)
	phase, end := context.WithDeadline(t.Context(), begin.Add(60*time.Second))
	defer end()
	steady, growing := Traffic{Rate: 2}, Traffic{Rate: 2, RateTo: 12}
	if got := steady.rate(begin, phase); got != 2 {
		t.Errorf("a steady rate of 2 is %g in the middle", got)
	}
	if got := growing.rate(begin, phase); got < 7 || got > 7.5 {
		t.Errorf("a rate that grows from 2 to 12 is %g in the middle, want 7", got)
	}
	if got := growing.rate(begin.Add(-time.Minute), phase); got < 7 || got > 12 {
		t.Errorf("a rate that grows from 2 to 12 is %g late", got)
	}
}

func TestCallsGoToTheirTargetUntilThePhaseEnds(t *testing.T) {
	var asked atomic.Int64
	s := stand(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/reset" {
			asked.Add(1)
		}
	})
	d := newDriver([]*Server{s}, 1)
	defer d.client.CloseIdleConnections()
	phase, end := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer end()
	d.call(phase, Calls{http.MethodPost, "/reset", 0.05, "r0"})
	d.call(phase, Calls{http.MethodPost, "/reset", 0.05, "another"})
	d.wg.Wait()
	if n := asked.Load(); n < 3 || n > 10 {
		t.Errorf("%d calls in half a second, want about 9", n)
	}
}

func TestAServerIsAskedForItsOwnModel(t *testing.T) {
	servers := []*Server{{Name: "r0"}, {Name: "r1", Args: []string{"--served-model-name", "another"}}}
	d := newDriver(servers, 1)
	for i, want := range []string{servedModel, "another"} {
		q := d.draw(rand.New(rand.NewPCG(1, 2)), only(i, Traffic{Prompt: constant(3), Output: constant(3)})[0])
		if q.server != servers[i] || q.model != want {
			t.Errorf("server %s is asked for %q, want %q", q.server.Name, q.model, want)
		}
	}
}

func TestEnvironmentComesBeforeTheArguments(t *testing.T) {
	vars, args := environment([]string{"A=1", "B=x", "--flag", "C=not one"})
	if !slices.Equal(vars, []string{"A=1", "B=x"}) || !slices.Equal(args, []string{"--flag", "C=not one"}) {
		t.Errorf("variables %q, arguments %q", vars, args)
	}
}

func TestArchiveKeepsFailedScrapesAndOrder(t *testing.T) {
	dir := t.TempDir()
	want := []string{"r0/1000.prom=up 1\n", "r0/2000.prom=", "r1/1000.prom=up 2\n"}
	for _, entry := range want {
		name, body, _ := strings.Cut(entry, "=")
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.tar.zst")
	if err := archive(dir, path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var got []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name+"="+string(body))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

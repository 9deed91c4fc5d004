package source_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sixty-dev/sixty/internal/base/memnet"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/gateway"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// scriptedServer is an upstream whose health check always succeeds, whatever else it does.
type scriptedServer struct {
	running   atomic.Int64 // that its engine says
	generated atomic.Int64 // tokens, one for each answer
	born      string       // when its counters began
	answer    http.HandlerFunc
	silent    bool // it shows no metrics
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
	case "/v1/models":
		io.WriteString(w, `{"data":[{"id":"m"}]}`)
	case "/metrics":
		if s.silent {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"m\"} %d\nvllm:num_requests_waiting{model_name=\"m\"} 0\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.1\n", s.running.Load())
		fmt.Fprintf(w, "vllm:generation_tokens_total{model_name=\"m\"} %d\n", s.generated.Load())
		if s.born != "" {
			fmt.Fprintf(w, "vllm:generation_tokens_created{model_name=\"m\"} %s\n", s.born)
		}
	default:
		body, _ := io.ReadAll(r.Body) // from then on net/http watches for the client to leave
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.answer(w, r)
		if r.Context().Err() == nil {
			s.generated.Add(1)
		}
	}
}

func tokens(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

func never(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func after(d time.Duration, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			h(w, r)
		case <-r.Context().Done():
		}
	}
}

// A gatewayCase is how clients ask a gateway before some servers, again and again.
type gatewayCase struct {
	servers []*scriptedServer
	cfg     gateway.Config
	lasts   time.Duration // 4 s when 0
	ask     func(ask func(model string, patience time.Duration))
	refuse  int // one in so many connections to servers is refused; 0 for none
}

// TestVerdictsOfAGateway has scripted upstreams fail in ways that no engine's metrics show.
func TestVerdictsOfAGateway(t *testing.T) {
	fail := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	closing := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close"); h(w, r) }
	}
	for want, tt := range map[string]gatewayCase{
		"hang-outside-engine": {
			servers: []*scriptedServer{{answer: never}},
			ask:     func(ask func(string, time.Duration)) { ask("m", time.Minute) },
		},
		"not-in-engine": {
			servers: []*scriptedServer{{answer: func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "stuck") {
					never(w, r)
				}
				tokens(w, r)
			}}},
			ask: func(ask func(string, time.Duration)) {
				go ask("stuck", time.Minute)
				for range 20 {
					ask("m", time.Second)
					<-time.After(50 * time.Millisecond)
				}
			},
		},
		"no-token-passes": {
			servers: []*scriptedServer{{answer: never, silent: true}, {answer: never}}, lasts: 11 * time.Second,
			ask: func(ask func(string, time.Duration)) { ask("m", time.Minute) },
		},
		"gateway-cancellations": {
			servers: []*scriptedServer{{answer: after(200*time.Millisecond, tokens)}},
			ask: func(ask func(string, time.Duration)) {
				ask("m", 50*time.Millisecond)
				ask("m", time.Second)
			},
		},
		"gateway-errors": {
			servers: []*scriptedServer{{answer: fail(503)}},
			ask: func(ask func(string, time.Duration)) {
				ask("m", time.Second)
				<-time.After(20 * time.Millisecond)
			},
		},
		"gateway-timeouts": {
			servers: []*scriptedServer{{answer: never}}, cfg: gateway.Config{IdleTimeout: 150 * time.Millisecond},
			ask: func(ask func(string, time.Duration)) { ask("m", time.Minute) },
		},
		"retry-storm": {
			servers: []*scriptedServer{{answer: closing(tokens)}, {answer: closing(tokens)}}, refuse: 3,
			ask: func(ask func(string, time.Duration)) {
				ask("m", time.Second)
				<-time.After(100 * time.Millisecond)
			},
		},
		"gateway-imbalance": {
			servers: []*scriptedServer{{answer: tokens}, {answer: after(time.Minute, tokens)}},
			ask: func(ask func(string, time.Duration)) {
				ask("m", time.Second)
				<-time.After(10 * time.Millisecond)
			},
		},
		"one-engine-answers": {
			servers: []*scriptedServer{{answer: tokens, born: "1.790000000123456e+09"}, {answer: tokens, born: "1.790000000123456e+09"}, {answer: tokens, born: "1.790000000654321e+09"}},
			ask: func(ask func(string, time.Duration)) {
				ask("m", time.Second)
				<-time.After(50 * time.Millisecond)
			},
		},
		"held-after-client": {
			servers: []*scriptedServer{{answer: tokens}}, lasts: 12 * time.Second, // the first readings know of no engine
			ask: func(ask func(string, time.Duration)) {
				ask("m", time.Second)
				<-time.After(50 * time.Millisecond)
			},
		},
		"suspected-leaks": {
			servers: []*scriptedServer{{answer: never}}, cfg: gateway.Config{LeakAge: 300 * time.Millisecond},
			ask: func(ask func(string, time.Duration)) { ask("m", time.Minute) },
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { verdictOfAGateway(t, want, tt) })
		})
	}
}

// verdictOfAGateway lets clients ask a gateway in virtual time, and diagnoses its page.
func verdictOfAGateway(t *testing.T, want string, tt gatewayCase) {
	var network memnet.Network
	cfg := tt.cfg
	var dialled atomic.Int64
	cfg.HealthEvery = 100 * time.Millisecond
	cfg.Dial = func(ctx context.Context, netw, addr string) (net.Conn, error) {
		if tt.refuse > 0 && dialled.Add(1)%int64(tt.refuse) == 0 {
			return nil, &net.OpError{Op: "dial", Net: netw, Err: syscall.ECONNREFUSED}
		}
		return network.DialContext(ctx, netw, addr)
	}
	var engines []string
	for i, s := range tt.servers {
		u := &url.URL{Scheme: "http", Host: fmt.Sprintf("vllm-%d:8000", i)}
		network.Serve(t, u.Host, s)
		cfg.Upstreams = append(cfg.Upstreams, u)
		if !s.silent {
			engines = append(engines, u.String())
		}
	}
	switch want { // what the engine says of itself
	case "held-after-client":
		tt.servers[0].running.Store(30) // more than four clients ever have open
	case "suspected-leaks":
		tt.servers[0].running.Store(1 << 20)
	case "no-token-passes":
		tt.servers[1].running.Store(1 << 20)
	}
	serveGateway(t, cfg, &network)
	ctx, stop := context.WithCancel(t.Context())
	client := &http.Client{Transport: network.Transport(t)}
	var wg sync.WaitGroup
	t.Cleanup(func() { stop(); wg.Wait() })
	send := func(ctx context.Context, method, path, body string) {
		req, err := http.NewRequestWithContext(ctx, method, "http://gateway:8080"+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := client.Do(req); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	ask := func(model string, patience time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		send(ctx, http.MethodPost, "/v1/completions", fmt.Sprintf(`{"model":%q,"stream":true,"prompt":"the same prefix"}`, model))
	}
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				tt.ask(ask)
			}
		})
	}
	pages, err := scrape.New(scrape.Config{Client: &http.Client{Transport: network.Transport(t)}})
	must.Succeed(t, err)
	spec := source.Spec{URLs: engines, Gateways: []string{"http://gateway:8081"}, Interval: 500 * time.Millisecond}
	s, err := source.Open(t.Context(), spec)
	must.Succeed(t, err)
	defer s.Close()
	s.Live.Client = pages
	live, end := context.WithTimeout(t.Context(), max(tt.lasts, 4*time.Second))
	defer end()
	s.Live.Run(live)
	found(t, want, diagnosed(t, s))
	if want != "gateway-timeouts" {
		return
	}
	// The same of a recording.
	path := t.TempDir() + "/gateway.tar.zst"
	record(t, spec, pages, path)
	s, err = source.Open(t.Context(), source.Spec{Recording: path})
	must.Succeed(t, err)
	defer s.Close()
	found(t, want, diagnosed(t, s))
}

// serveGateway runs a gateway at gateway:8080, and what it measures at gateway:8081, until the
// end of the test.
func serveGateway(t *testing.T, cfg gateway.Config, network *memnet.Network) {
	t.Helper()
	g, err := gateway.New(cfg)
	must.Succeed(t, err)
	data, admin := network.Listen("gateway:8080"), network.Listen("gateway:8081")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, gateway.Serving{Data: data, Admin: admin}) }()
	t.Cleanup(func() { cancel(); <-ended })
}

func diagnosed(t *testing.T, s *source.Source) *diagnose.Diagnosis {
	t.Helper()
	o := diagnose.Options{Pathologies: pathologies.All()}
	must.Succeed(t, s.Complete(t.Context(), &o, "", ""))
	d, err := s.Diagnose(t.Context(), o)
	must.Succeed(t, err)
	return &d
}

// found checks that the gateway's counts show what is wrong, and that it is the verdict
// unless something there is worse.
func found(t *testing.T, want string, d *diagnose.Diagnosis) {
	t.Helper()
	if d.Gateway() < 0 {
		t.Fatalf("no gateway was seen: %s, notes %q", d.Verdict.Summary, d.Notes)
	}
	found := func(f diagnose.Finding) bool { return f.Pathology.ID == want && f.Status == diagnose.Firing }
	if i := slices.IndexFunc(d.Findings, found); i < 0 || d.Status != diagnose.Firing {
		t.Errorf("the verdict is %s", d.Verdict.ID)
		for _, f := range d.Findings {
			if f.Pathology.ID == want || f.Status >= diagnose.Pending {
				t.Errorf("%s %s %s: %+v", f.Pathology.ID, f.Status, f.Summary, f.Evidence)
			}
		}
	}
}

func record(t *testing.T, spec source.Spec, pages *scrape.Client, path string) {
	t.Helper()
	scraper, err := source.NewScraper(spec)
	must.Succeed(t, err)
	scraper.Client = pages
	out, err := recording.Create(path)
	must.Succeed(t, err)
	ctx, end := context.WithTimeout(t.Context(), 3*time.Second)
	defer end()
	if _, err := scraper.Record(ctx, out, func(source.Recorded) {}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, out.Close())
}

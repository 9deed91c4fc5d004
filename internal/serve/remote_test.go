package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/serve"
)

// A store is a server with Prometheus' API that can be slow, answer in part, or be away.
type store struct {
	*httptest.Server
	mood           atomic.Pointer[string] // "", "slow", "partial", "away"
	asked, at, top atomic.Int64           // questions, at the same time now, and at most
}

func newStore(t *testing.T, behind string) *store {
	u, err := url.Parse(behind)
	must.Succeed(t, err)
	s := &store{}
	s.be("")
	p := httputil.NewSingleHostReverseProxy(u)
	p.ModifyResponse = func(r *http.Response) error {
		if *s.mood.Load() != "partial" {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		body = bytes.Replace(body, []byte(`{"status":"success",`),
			[]byte(`{"status":"success","warnings":["no store matched: eu-1 does not answer"],`), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", fmt.Sprint(len(body)))
		return nil
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if now := s.at.Add(1); now > s.top.Load() {
			s.top.Store(now)
		}
		defer s.at.Add(-1)
		switch *s.mood.Load() {
		case "away":
			w.WriteHeader(http.StatusBadGateway)
			return
		case "slow":
			_, _ = io.Copy(io.Discard, r.Body) // or nobody notices that the client is gone
			<-r.Context().Done()
			return
		}
		r.Host = u.Host
		r.Header.Del("Accept-Encoding")
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *store) be(mood string) { s.mood.Store(&mood) }

// TestServeReadsAStore: what a store behind --prometheus does not tell is never healthy, and
// that it does not is on the page until it does again.
func TestServeReadsAStore(t *testing.T) {
	t.Parallel()
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 2, Warm: 2 * time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	behind := start(t, func(c *serve.Config) { c.Targets, c.Dir = fl.URLs(), t.TempDir() })
	s := newStore(t, behind.url)
	written := newReceiver(t)
	file := filepath.Join(t.TempDir(), "sixty.yaml")
	must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, "remote_write:\n- url: %s\n", written.URL), 0o600))
	r := start(t, func(c *serve.Config) {
		c.Prometheus, c.Dir, c.Every, c.File = source.Spec{Prometheus: s.URL}, t.TempDir(), 2*time.Second, file
	})
	well := func() bool {
		o := r.overview()
		return o.State == view.OK && len(o.Models) == 1 && len(o.Models[0].Replicas) == 2 &&
			o.Models[0].Verdict.Status == view.Healthy
	}
	r.until("a verdict on two replicas that another one scrapes", well)
	judged := 0
	for i := range 2 {
		part := start(t, func(c *serve.Config) {
			c.Prometheus, c.Dir, c.Shard = source.Spec{Prometheus: s.URL}, t.TempDir(), fmt.Sprintf("%d/2", i+1)
		})
		part.until("both replicas in a shard of the store, or none", func() bool {
			o := part.overview()
			return len(o.Models) == 1 && len(o.Models[0].Replicas) == 2 ||
				strings.Contains(fmt.Sprint(o.Problems), "has none of the 2 servers")
		})
		judged += len(part.overview().Models)
		if err := part.end(); err != nil {
			t.Error(err)
		}
	}
	if judged != 1 {
		t.Errorf("the model is judged in %d shards, want one", judged)
	}
	if _, body := r.get("/api/v1/query?query=count(up{job=%22vllm%22}==1)"); !strings.Contains(body, `"2"`) {
		t.Errorf("the store's API through the monitor: %s", body)
	}
	r.until("the verdict in the store that is written to", func() bool { return written.has("sixty_verdict") })
	for _, mood := range []string{"partial", "away", "slow"} {
		if mood == "slow" && testing.Short() {
			continue
		}
		s.be(mood)
		r.until("a store that is "+mood+" on the page", func() bool {
			o := r.overview()
			return o.State != view.OK && len(o.Problems) > 0
		})
		var o view.Overview
		asked := s.asked.Load()
		r.until("a store that is "+mood+" is asked again, and nothing is healthy meanwhile", func() bool {
			o = r.overview()
			if o.State != view.Partial && o.State != view.Stale {
				t.Errorf("%s: state %s", mood, o.State)
			}
			if len(o.Models) != 1 || len(o.Models[0].Replicas) != 2 {
				t.Errorf("%s: what was known is gone: %+v", mood, o.Models)
			}
			for _, m := range o.Models {
				if m.Verdict.Status == view.Healthy {
					t.Errorf("%s: %s is said to be healthy: %+v", mood, m.Model, m.Verdict)
				}
			}
			return s.asked.Load() > asked || t.Failed()
		})
		t.Logf("%s: %s, %q", mood, o.State, o.Problems)
		s.be("")
		r.until("a store that was "+mood+" and is well",
			func() bool { return well() && len(r.overview().Problems) == 0 })
	}
	if top := s.top.Load(); top > 16 {
		t.Errorf("%d questions at the same time", top)
	}
	t.Logf("%d questions, %d at the same time", s.asked.Load(), s.top.Load())
}

// A receiver takes remote_write.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]map[string]bool // values of the label instance, by metric
}

func newReceiver(t *testing.T) *receiver {
	x := &receiver{seen: map[string]map[string]bool{}}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			body, err = snappy.Decode(nil, body)
		}
		var req prompb.WriteRequest
		if err == nil {
			err = req.Unmarshal(body)
		}
		if err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, ts := range req.Timeseries {
			l := map[string]string{}
			for _, p := range ts.Labels {
				l[p.Name] = p.Value
			}
			if x.seen[l["__name__"]] == nil {
				x.seen[l["__name__"]] = map[string]bool{}
			}
			x.seen[l["__name__"]][l["instance"]] = true
		}
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *receiver) instances(metric string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.seen[metric])
}

func (x *receiver) has(metric string) bool { return x.instances(metric) > 0 }

// TestServeInParts: monitors that scrape a part each write to one store, which has all.
func TestServeInParts(t *testing.T) {
	t.Parallel()
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 6, Warm: time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	one := newReceiver(t)
	file := filepath.Join(t.TempDir(), "sixty.yaml")
	must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, "remote_write:\n- url: %s\n", one.URL), 0o600))
	var parts []*running
	for i := range 3 {
		parts = append(parts, start(t, func(c *serve.Config) {
			c.Targets, c.File, c.Dir, c.Shard = fl.URLs(), file, t.TempDir(), fmt.Sprintf("%d/3", i+1)
		}))
	}
	parts[0].until("six servers in the store", func() bool { return one.instances("vllm:num_requests_running") == 6 })
	parts[0].until("verdicts in the store", func() bool { return one.has("sixty_verdict") })
	total := 0
	for i, p := range parts {
		_, body := p.get("/api/v1/targets?state=active")
		var a struct {
			Data struct {
				ActiveTargets []json.RawMessage `json:"activeTargets"`
			} `json:"data"`
		}
		must.Succeed(t, json.Unmarshal([]byte(body), &a))
		t.Logf("part %d scrapes %d", i+1, len(a.Data.ActiveTargets))
		total += len(a.Data.ActiveTargets)
	}
	if total != 6 {
		t.Errorf("the parts scrape %d servers together, want each of the 6 once", total)
	}
}

package serve_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/outputtest"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/serve"
)

// TestBadTargets: one that hangs, one that flaps, one with too many series, and one of
// another program are each named, and hurt nobody else.
func TestBadTargets(t *testing.T) {
	t.Parallel()
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 1, Warm: 2 * time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	ended := make(chan struct{})
	var n atomic.Int64
	var packed bytes.Buffer // 64 MiB, of which 64 KiB travel
	z := gzip.NewWriter(&packed)
	line := []byte("# " + strings.Repeat("x", 1<<16) + "\n")
	for range 1 << 10 {
		_, _ = z.Write(line)
	}
	_ = z.Close()
	bomb := packed.Bytes()
	pages := map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		},
		"flaps": func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%2 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			res, err := http.Get(fl.URLs()[0] + "/metrics")
			if err != nil {
				return
			}
			defer res.Body.Close()
			w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
			_, _ = io.Copy(w, res.Body)
		},
		"explodes": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "# TYPE vllm:num_requests_running gauge")
			for i := range 5000 {
				fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"m\",user=\"%d\"} 1\n", i)
			}
		},
		"bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		},
		"ahead": func(w http.ResponseWriter, _ *http.Request) { // its clock is
			for _, name := range []string{"num_requests_running", "num_requests_waiting", "generation_tokens_total",
				"kv_cache_usage_perc"} {
				fmt.Fprintf(w, "vllm:%s{model_name=\"ahead\"} 0 %d\n", name, time.Now().Add(time.Hour).UnixMilli())
			}
		},
		"another": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 12345")
		},
	}
	at := map[string]string{}
	var targets []string
	for name, page := range pages {
		s := httptest.NewServer(page)
		defer s.Close()
		at[name] = strings.TrimPrefix(s.URL, "http://")
		if name != "bomb" {
			targets = append(targets, at[name])
		}
	}
	defer close(ended)
	good := strings.TrimPrefix(fl.URLs()[0], "http://")
	file := filepath.Join(t.TempDir(), "sixty.yaml")
	content := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, sample_limit: 3000}\nscrape_configs:\n"+
		"- job_name: vllm\n  static_configs: [{targets: [%q, %q]}]\n"+
		"- {job_name: bomb, scrape_interval: 5s, scrape_timeout: 5s, static_configs: [{targets: [%q]}]}\n", // which takes time to unpack
		good, strings.Join(targets, `", "`), at["bomb"])
	content = strings.ReplaceAll(content, `\"`, `"`)
	must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
	r := start(t, func(c *serve.Config) { c.File, c.Interval = file, 0 })
	status := func(name string) (view.Status, string) {
		for _, m := range r.overview().Models {
			for _, x := range m.Replicas {
				if strings.HasPrefix(x.Target, name) {
					return x.Status, x.Reason
				}
			}
		}
		return "", ""
	}
	r.until("the good one is judged", func() bool { s, _ := status(good); return s == view.Healthy || s == view.Idle })
	said := func(name, what string) func() bool {
		return func() bool {
			if _, why := status(at[name]); strings.Contains(why, what) {
				return true
			}
			for _, p := range r.overview().Problems {
				if strings.Contains(p, at[name]) && strings.Contains(p, what) {
					return true
				}
			}
			return false
		}
	}
	r.until("the one that hangs", func() bool {
		s, _ := status(at["hangs"])
		return s == view.Unknown &&
			said("hangs", "deadline")()
	})
	r.until("the one with too many series", func() bool {
		s, _ := status(at["explodes"])
		return s == view.Unknown && said("explodes", "sample limit")()
	})
	r.until("the one that unpacks to more than a page may hold", said("bomb", "body size limit exceeded"))
	r.until("the one that is no inference server", said("another", "not with an inference server's metrics"))
	r.until("the one whose clock is ahead is judged", func() bool { s, _ := status(at["ahead"]); return s != "" })
	if s, why := status(at["another"]); s == view.Healthy {
		t.Errorf("another program is healthy: %s", why)
	}
	flapped := n.Load()
	r.until("the one that flaps goes on", func() bool { return n.Load() >= flapped+3 })
	r.until("the good one is well", func() bool { s, _ := status(good); return s == view.Healthy || s == view.Idle })
	o := r.overview()
	t.Logf("state %s, problems %q", o.State, o.Problems)
	for name, x := range at {
		s, why := status(x)
		t.Logf("%s: %s %s", name, s, why)
	}
}

// TestADamagedLog: a log of samples that is cut off or overwritten does not keep the monitor
// from starting, and it says so.
func TestADamagedLog(t *testing.T) {
	for name, hurt := range map[string]func(*testing.T, string){
		"overwritten": func(t *testing.T, segment string) {
			f, err := os.OpenFile(segment, os.O_RDWR, 0)
			must.Succeed(t, err)
			defer f.Close()
			if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 64), 2000); err != nil {
				t.Fatal(err)
			}
		},
		"cut off": func(t *testing.T, segment string) {
			must.Succeed(t, os.Truncate(segment, 3001))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := collect.Options{Dir: dir, ExternalURL: &url.URL{Scheme: "http", Host: "localhost"},
				Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}
			c, err := collect.Open(o)
			must.Succeed(t, err)
			w, began := c.NewWriter(), time.Now().Add(-time.Minute)
			for i := range 50 {
				var list []collect.Sample
				for k := range 20 {
					list = append(list, collect.Sample{
						Labels: map[string]string{"__name__": "x", "k": fmt.Sprint(k)}, Value: float64(i)})
				}
				must.Succeed(t, w.Write(t.Context(), began.Add(time.Duration(i)*time.Second), list))
			}
			must.Succeed(t, c.Close())
			segments, err := filepath.Glob(filepath.Join(dir, "wal", "0*"))
			if err != nil || len(segments) == 0 {
				t.Fatal(segments, err)
			}
			hurt(t, segments[0])
			said := &outputtest.Buffer{}
			o.Logger, o.Registry = slog.New(slog.NewTextHandler(said, nil)), prometheus.NewRegistry()
			c, err = collect.Open(o)
			must.Succeed(t, err)
			defer c.Close()
			if !strings.Contains(said.String(), "the sample log (WAL) was damaged") {
				t.Errorf("it does not say so: %s", said)
			}
			v, err := c.Query(t.Context(), "count(count_over_time(x[10m]))", time.Now())
			if err != nil || len(v) != 1 {
				t.Errorf("what was before the damage: %v, %v", v, err)
			}
		})
	}
}

// TestADamagedBlock: a block whose index cannot be read is set aside and named, and the others are there.
func TestADamagedBlock(t *testing.T) {
	dir := t.TempDir()
	var blocks []string
	for i := range 2 {
		at := time.Now().Add(-time.Duration(5+2*i) * time.Hour).UnixMilli()
		block, err := tsdb.CreateBlock([]storage.Series{
			storage.NewListSeries(labels.FromStrings("__name__", "x", "block", fmt.Sprint(i)),
				[]chunks.Sample{sample{at}})}, dir, 0, slog.New(slog.DiscardHandler))
		must.Succeed(t, err)
		blocks = append(blocks, block)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(blocks[0], "index"), []byte("no index"), 0o600))
	said := &outputtest.Buffer{}
	c, err := collect.Open(collect.Options{Dir: dir, ExternalURL: &url.URL{Scheme: "http", Host: "localhost"},
		Logger: slog.New(slog.NewTextHandler(said, nil)), Registry: prometheus.NewRegistry()})
	must.Succeed(t, err)
	defer c.Close()
	name := filepath.Base(blocks[0])
	if _, err := os.Stat(filepath.Join(dir, "damaged", name)); err != nil ||
		!strings.Contains(said.String(), "set aside") || !strings.Contains(said.String(), name) {
		t.Errorf("it is not set aside and named: %v\n%s", err, said)
	}
	v, err := c.Query(t.Context(), "count_over_time(x[1d])", time.Now())
	if err != nil || len(v) != 1 || v[0].Metric["block"] != "1" {
		t.Errorf("the other block: %v, %v", v, err)
	}
}

// A sample of 1 at a time in milliseconds.
type sample struct{ t int64 }

func (s sample) T() int64                    { return s.t }
func (sample) ST() int64                     { return 0 }
func (sample) F() float64                    { return 1 }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// TestTheClockStepsBack: what cannot be stored is said, and nothing is shown as healthy
// meanwhile.
func TestTheClockStepsBack(t *testing.T) {
	t.Parallel()
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 1, Warm: time.Minute})
	must.Succeed(t, err)
	defer fl.Close()
	dir := t.TempDir()
	set := func(c *serve.Config) { c.Targets, c.Dir, c.NoHost = fl.URLs(), dir, true }
	r := start(t, set)
	r.until("a verdict", func() bool { return r.overview().State == view.OK })
	_, body := r.get("/api/v1/query?query=" + url.QueryEscape(`sixty_evaluation_success`))
	must.Succeed(t, r.end())
	// The same series of a future that the clock comes back from.
	c, err := collect.Open(collect.Options{Dir: filepath.Join(dir, "tsdb"), ExternalURL: &url.URL{},
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	must.Succeed(t, err)
	var list []collect.Sample
	for _, l := range labelsIn(t, body) {
		list = append(list, collect.Sample{Labels: l, Value: 1})
	}
	must.Succeed(t, c.NewWriter().Write(t.Context(), time.Now().Add(30*time.Minute), list))
	must.Succeed(t, c.Close())
	r = start(t, set)
	r.until("it says so", func() bool {
		o := r.overview()
		return o.State != view.OK && strings.Contains(strings.Join(o.Problems, " "), "cannot be stored")
	})
	t.Logf("%q", r.overview().Problems)
}

// labelsIn are those of an instant query's answer.
func labelsIn(t *testing.T, body string) (out []map[string]string) {
	t.Helper()
	var a struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || len(a.Data.Result) == 0 {
		t.Fatalf("%v in %s", err, body)
	}
	for _, r := range a.Data.Result {
		out = append(out, r.Metric)
	}
	return out
}

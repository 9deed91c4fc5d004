package scrapeconfig

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	relabels "github.com/prometheus/prometheus/model/relabel"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// realPage returns the last page of a recording of this repository: vLLM 0.23.0
// with one engine.
func realPage(t *testing.T) []byte {
	t.Helper()
	r, err := recording.Open(t.Context(), filepath.Join("..", "..", "..", "testdata", "recordings", "two-seats.tar.zst"))
	must.Succeed(t, err)
	defer r.Close()
	var page []byte
	if err := r.Scrapes(func(s recording.Scrape) error {
		if len(s.Body) > 0 {
			page = s.Body
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return page
}

// seriesPerServer is how many series vLLM 0.23.0 with one engine exposes.
const seriesPerServer = 405

// TestCostMatchesARealPage keeps the numbers of docs/lab/scrape.md honest.
func TestCostMatchesARealPage(t *testing.T) {
	lean := load(t, Config{Format: Prometheus, Targets: []string{"a"}, Lean: true}).ScrapeConfigs[0].MetricRelabelConfigs
	series, kept, buckets := 0, 0, 0
	if _, err := scrape.Parse(realPage(t), "text/plain; version=0.0.4", func(l labels.Labels, _ int64, _ float64) {
		series++
		if l.Get("le") != "" {
			buckets++
		}
		if relabels.ProcessBuilder(labels.NewBuilder(l), lean...) {
			kept++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if series != seriesPerServer {
		t.Errorf("%d series, docs/lab/scrape.md says %d", series, seriesPerServer)
	}
	if kept != 355 || buckets != 279 {
		t.Errorf("docs/lab/scrape.md says 355 lean series and 279 buckets: %d and %d", kept, buckets)
	}
}

// TestARealPrometheusScrapesIt starts the prometheus of the PATH with the generated files, and queries the series by
// which rules and dashboards group.
func TestARealPrometheusScrapesIt(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a server for some seconds")
	}
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs prometheus in the PATH")
	}
	page := realPage(t)
	serve := func(body []byte) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			w.Write(body)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	gpu := []byte("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",namespace=\"tenant\",pod=\"qwen-0\"} 93\n")
	c := Config{
		Format: Prometheus, Targets: []string{serve(page), serve(page)}, GPUTargets: []string{serve(gpu)},
		Cluster: "eu$1", Namespace: "llm", Lean: true, Interval: time.Second,
	}
	ctx := t.Context()
	server := startPrometheus(t, binary, files(t, c))
	for query, want := range map[string]float64{
		`count(vllm:num_requests_running{job="vllm",cluster="eu$1",namespace="llm",node="127.0.0.1"})`: 2,
		`count(count by (instance) (vllm:num_requests_running{instance=~"127.0.0.1:\\d+"}))`:           2,
		`max(scrape_samples_scraped{job="vllm"})`:                                                      seriesPerServer,
		`max(scrape_samples_post_metric_relabeling{job="vllm"})`:                                       355,
		`count(vllm:generation_tokens_created)`:                                                        2,
		`min(up{job="vllm"})`:                                                                          1,
		// The exporter is scraped every fifteen seconds, the first time within them.
		`count(DCGM_FI_DEV_GPU_UTIL{namespace="tenant",pod="qwen-0",node="127.0.0.1",cluster="eu$1"})`: 1,
	} {
		var got float64
		answered := func() (ok bool) {
			got, ok = ask(ctx, server, query)
			return ok && got == want
		}
		if !polltest.True(answered) {
			t.Fatalf("%s: %v, want %v", query, got, want)
		}
	}
}

// ask returns the value of a query that has one sample.
func ask(ctx context.Context, server, query string) (float64, bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return 0, false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil || len(answer.Data.Result) != 1 {
		return 0, false
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// startPrometheus starts a server on loopback with generated files, and returns
// its URL when it is ready.
func startPrometheus(t *testing.T, binary string, generated []generate.File) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, generated)
	return metricstest.Daemon(t, binary, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"))
}

// write puts generated files into a directory.
func write(t *testing.T, dir string, generated []generate.File) {
	t.Helper()
	for _, f := range generated {
		at := filepath.Join(dir, filepath.FromSlash(f.Path))
		must.Succeed(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.Succeed(t, os.WriteFile(at, f.Content, 0o644))
	}
}

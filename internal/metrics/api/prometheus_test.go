package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

// TestAgainstARealPrometheus lets the prometheus of the PATH scrape a target,
// and checks that it and the embedded storage answer the same about the same
// pages.
func TestAgainstARealPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a server for some seconds")
	}
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs prometheus in the PATH")
	}
	store := embeddedtest.New(t)

	var n atomic.Int32
	vllm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page := metricstest.Page(100 + 10*int(n.Add(1)))
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Write(page)
		if _, err := store.Append(embedded.Target{Instance: "vllm-0:8000", Job: "vllm"}, time.Now(), page, "", 0); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(vllm.Close)
	c := newClient(t, Config{URL: startPrometheus(t, binary, vllm.Listener.Addr().String())})

	polltest.Until(t, "prometheus scrapes", func() bool { return n.Load() >= 5 })
	ctx, at := t.Context(), time.Now()
	for _, expr := range []string{
		`count({__name__=~"vllm:.+",__name__!~".+_created"})`,
		`sum by (instance, job) (up)`,
		`count by (le) (vllm:time_to_first_token_seconds_bucket)`,
		`count(scrape_samples_scraped == ignoring(job) scrape_samples_scraped)`,
	} {
		want, err := store.Query(ctx, expr, at)
		must.Succeed(t, err)
		got, err := c.Query(ctx, expr, at)
		must.Succeed(t, err)
		sort.Sort(got)
		sort.Sort(want)
		if fmt.Sprint(got) != fmt.Sprint(want) || len(got) == 0 {
			t.Errorf("%s: prometheus says\n%v\nthe embedded storage\n%v", expr, got, want)
		}
	}
	m, err := c.QueryRange(ctx, "vllm:prompt_tokens_total", metrics.Range{Start: at.Add(-10 * time.Second), End: at, Step: time.Second})
	if err != nil || len(m) != 1 || len(m[0].Values) == 0 {
		t.Errorf("a range: %v, %v", m, err)
	}
	if _, err := c.Query(ctx, "no_such_function(up)", at); err == nil {
		t.Error("an unknown function: no error")
	}
}

// startPrometheus starts a server on loopback that scrapes address, and returns
// its URL when it is ready.
func startPrometheus(t *testing.T, binary, address string) string {
	t.Helper()
	dir := t.TempDir()
	scrape := fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs:
- job_name: vllm
  static_configs:
  - targets: [%q]
    labels: {instance: "vllm-0:8000"}
`, address)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(scrape), 0o600))
	return metricstest.Daemon(t, binary, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"))
}

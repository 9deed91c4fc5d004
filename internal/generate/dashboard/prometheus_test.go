package dashboard_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/api"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// TestEveryPanelReturnsDataOfARealPrometheus loads the recording of a server
// under load into the Prometheus of the PATH, and asks it what the panels ask.
func TestEveryPanelReturnsDataOfARealPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a server for some seconds")
	}
	for _, binary := range []string{"promtool", "prometheus"} {
		if _, err := exec.LookPath(binary); err != nil {
			t.Skipf("needs %s in the PATH", binary)
		}
	}
	dir := t.TempDir()
	r := backfilled(t, "thrashing-deep", filepath.Join(dir, "recording.om"))
	data := filepath.Join(dir, "data")
	if out, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "recording.om"), data).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	q, err := api.New(api.Config{URL: startPrometheus(t, dir, data)})
	must.Succeed(t, err)
	t.Cleanup(q.Close)
	empty, silent, count, queries := coverage(t.Context(), t, q, build(t, config(t, "vllm-0.23.0", "dcgm")), r)
	t.Logf("%d of %d panels and %d of %d queries return data", count-len(empty), count, queries-len(silent), queries)
	for _, p := range empty {
		t.Errorf("no data: %s", p)
	}
}

// backfilled writes a recording, a GPU exporter's page and the series of an
// objective's rules as OpenMetrics, and returns the range to ask for.
func backfilled(t *testing.T, name, path string) metrics.Range {
	t.Helper()
	rec, err := recording.Open(t.Context(), recordings+name+".tar.zst")
	must.Succeed(t, err)
	defer rec.Close()
	pages := map[string][]byte{}
	for _, name := range []string{"dcgm", "node", "kube", "gateway"} {
		pages[name], err = os.ReadFile("testdata/" + name + ".prom")
		must.Succeed(t, err)
	}
	out, err := os.Create(path)
	must.Succeed(t, err)
	defer out.Close()
	w := bufio.NewWriter(out)
	began, _ := rec.Times()
	err = rec.Scrapes(func(s recording.Scrape) error {
		for _, p := range []struct {
			target labels.Labels
			body   []byte
		}{
			{labels.FromStrings("instance", s.Target, "job", "vllm"), slices.Concat(s.Body, []byte("scrape_duration_seconds 0.015\n"))},
			{labels.FromStrings("instance", "gpu-node-1:9400", "job", "dcgm"), pages["dcgm"]},
			{labels.FromStrings("instance", "gpu-node-1:9100", "job", "node-exporter"), pages["node"]},
			{labels.FromStrings("instance", "kube-state-metrics:8080", "job", "kube-state-metrics"), pages["kube"]},
			{labels.FromStrings("instance", "gateway:8081", "job", "gateway"), grown(pages["gateway"], s.At.Sub(began))},
			{labels.FromStrings("slo", "chat-ttft", "model_name", "tiny"), recorded(t)},
		} {
			if err := writeSamples(w, p.target, s.At, p.body); err != nil {
				return err
			}
		}
		return nil
	})
	w.WriteString("# EOF\n")
	must.Succeed(t, errors.Join(err, w.Flush()))
	first, last := rec.Times()
	return metrics.Range{Start: first.Add(30 * time.Second), End: last, Step: 5 * time.Second}
}

// writeSamples writes what a scrape of a page would have stored, and up, as OpenMetrics, of which promtool makes
// blocks. A page that is empty is a scrape that failed.
func writeSamples(w *bufio.Writer, target labels.Labels, at time.Time, page []byte) error {
	b := labels.NewBuilder(labels.EmptyLabels())
	write := func(l labels.Labels, v float64) {
		b.Reset(l)
		target.Range(func(t labels.Label) { b.Set(t.Name, t.Value) })
		var pairs []string
		b.Del(labels.MetricName).Labels().Range(func(l labels.Label) { pairs = append(pairs, fmt.Sprintf("%s=%q", l.Name, l.Value)) })
		fmt.Fprintf(w, "%s{%s} %g %.3f\n", l.Get(labels.MetricName), strings.Join(pairs, ","), v, float64(at.UnixMilli())/1000)
	}
	up := 0.0
	if len(page) > 0 {
		if _, err := scrape.Parse(page, "", func(l labels.Labels, _ int64, v float64) { write(l, v) }); err != nil {
			return err
		}
		up = 1
	}
	write(labels.FromStrings(labels.MetricName, "up"), up)
	return nil
}

// startPrometheus serves the blocks in data on loopback, and returns its URL
// when it is ready.
func startPrometheus(t *testing.T, dir, data string) string {
	t.Helper()
	config := filepath.Join(dir, "prometheus.yml")
	must.Succeed(t, os.WriteFile(config, nil, 0o600))
	return metricstest.Daemon(t, "prometheus", "--config.file="+config, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y")
}

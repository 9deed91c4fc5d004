//go:build e2e

package serve_test

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

const getThanos = "the package's comment says how to build it"

// servers starts two simulated servers of a model.
func servers(t *testing.T, model string) (targets []string, stop func()) {
	t.Helper()
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 2, Model: model, Warm: 5 * time.Minute})
	must.Succeed(t, err)
	closed := false
	stop = func() {
		if !closed {
			closed = true
			_ = fl.Close()
		}
	}
	t.Cleanup(stop)
	for _, u := range fl.URLs() {
		targets = append(targets, strings.TrimPrefix(u, "http://"))
	}
	return targets, stop
}

// scraping starts a Prometheus that scrapes servers every two seconds.
func scraping(t *testing.T, cluster string, targets ...string) *program {
	t.Helper()
	file := textFile(t, "prometheus.yml", fmt.Sprintf(
		"global: {scrape_interval: 2s, external_labels: {cluster: %s}}\nscrape_configs:\n- job_name: vllm\n  static_configs: [{targets: [%s]}]\n",
		cluster, `"`+strings.Join(targets, `", "`)+`"`))
	addr := port(t)
	return launch(t, "http://"+addr, "/-/ready",
		tool(t, "SIXTY_PROMETHEUS", "prometheus", "apt-get install prometheus"),
		"--config.file="+file, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+addr, "--web.enable-remote-write-receiver",
		"--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h")
}

// writing returns the configuration of a monitor that writes to a store.
func writing(t *testing.T, url, monitor string) string {
	t.Helper()
	return textFile(t, "sixty.yaml", fmt.Sprintf("global: {external_labels: {monitor: %s}}\nremote_write:\n- url: %s\n",
		monitor, url))
}

// TestStorePrometheus lets the monitor read a Prometheus that scrapes two models, and write its verdicts there. It must
// report when the store is slow or away.
func TestStorePrometheus(t *testing.T) {
	a, _ := servers(t, "llama-8b")
	b, stop := servers(t, "qwen-7b")
	prom := scraping(t, "eu", append(a, b...)...)
	m := sixtyServe(t, "--prometheus", prom.url, "--data", t.TempDir(), "--evaluation-interval", "5s", "--config",
		writing(t, prom.url+"/api/v1/write", "central"))
	took := m.until(2*time.Minute, "two models are well", m.healthy(2, 4))
	t.Logf("two models after %s", took.Round(time.Second))
	m.until(time.Minute, "the verdicts in the store", func() bool { return query(prom.url, `count(sixty_verdict{monitor="central"})`) == "2" })
	m.storeFails(prom)
	m.until(time.Minute, "two models are well again", m.healthy(2, 4))
	stop()
	took = m.until(time.Minute, "a dead model", func() bool {
		o := m.overview()
		return len(o.Models) == 2 && o.Models[0].Verdict.ID == "target-down" &&
			o.Models[1].Verdict.Status == view.Healthy
	})
	t.Logf("target-down %s after its servers ended", took.Round(time.Second))
	m.until(time.Minute, "the finding in the store", func() bool {
		return query(prom.url, `count(sixty_finding{pathology="target-down",status="firing"})`) != ""
	})
}

// storeFails stops the store for a while, as if it were slow, then ends it and starts it again.
func (m *monitored) storeFails(store *program) {
	m.t.Helper()
	must.Succeed(m.t, store.cmd.Process.Signal(syscall.SIGSTOP))
	took := m.until(time.Minute, "a store that hangs on the page", m.doubtful())
	m.t.Logf("a store that hangs is %s after %s: %q", m.overview().State, took.Round(time.Second),
		m.overview().Problems)
	must.Succeed(m.t, store.cmd.Process.Signal(syscall.SIGCONT))
	m.until(time.Minute, "trust again", func() bool { return m.overview().State == view.OK })
	store.stop(syscall.SIGKILL)
	took = m.until(time.Minute, "a store that is away on the page", m.doubtful())
	m.t.Logf("a store that is away is %s after %s: %q", m.overview().State, took.Round(time.Second),
		m.overview().Problems)
	store.start()
}

// doubtful reports whether the page names the problem and calls nothing healthy.
func (m *monitored) doubtful() func() bool {
	return func() bool {
		o := m.overview()
		if o.State != view.Partial && o.State != view.Stale || len(o.Problems) == 0 {
			return false
		}
		for _, x := range o.Models {
			if x.Verdict.Status == view.Healthy {
				m.t.Errorf("%s is healthy while the state is %s: %+v", x.Model, o.State, x.Verdict)
			}
		}
		return true
	}
}

// TestStoreVictoriaMetrics lets two monitors scrape one half of the servers each and write to one VictoriaMetrics,
// which a third monitor reads.
func TestStoreVictoriaMetrics(t *testing.T) {
	bin := tool(t, "SIXTY_VICTORIA_METRICS", "victoria-metrics", "apt-get install victoria-metrics")
	a, _ := servers(t, "llama-8b")
	b, stop := servers(t, "qwen-7b")
	addr := port(t)
	vm := launch(t, "http://"+addr, "/health", bin, "-httpListenAddr="+addr, "-storageDataPath="+t.TempDir(),
		"-search.latencyOffset=2s", "-retentionPeriod=1d")
	file := writing(t, vm.url+"/api/v1/write", "eu")
	for i := range 2 {
		sixtyServe(t, append([]string{"--shard", fmt.Sprintf("%d/2", i+1), "--data", t.TempDir(), "--config", file,
			"--interval", "2s", "--evaluation-interval", "5s"}, append(a, b...)...)...)
	}
	m := sixtyServe(t, "--prometheus", vm.url, "--data", t.TempDir(), "--evaluation-interval", "5s", "--config",
		writing(t, vm.url+"/api/v1/write", "central"))
	took := m.until(2*time.Minute, "two models are well", m.healthy(2, 4))
	t.Logf("two models after %s; servers by shards: %s", took.Round(time.Second), query(vm.url, `count(vllm:num_requests_running)`))
	m.until(time.Minute, "verdicts in the store", func() bool { return query(vm.url, `count(sixty_verdict{monitor="central"})`) == "2" })
	m.storeFails(vm)
	m.until(2*time.Minute, "two models are well again", m.healthy(2, 4))
	stop()
	m.until(time.Minute, "a dead model", func() bool {
		o := m.overview()
		return len(o.Models) > 0 && o.Models[0].Verdict.ID == "target-down"
	})
}

// TestStoreThanos reads through a querier over two sidecars and a receiver, to which a monitor writes. Then a sidecar
// hangs, and dies.
func TestStoreThanos(t *testing.T) {
	thanos := tool(t, "SIXTY_THANOS", "thanos", getThanos)
	endpoints := []string{}
	var sidecars []*program
	for cluster, model := range map[string]string{"eu": "llama-8b", "us": "qwen-7b"} {
		targets, _ := servers(t, model)
		prom := scraping(t, cluster, targets...)
		grpc, http := port(t), port(t)
		sidecars = append(sidecars, launch(t, "http://"+http, "/-/ready", thanos, "sidecar",
			"--prometheus.url="+prom.url, "--grpc-address="+grpc, "--http-address="+http))
		endpoints = append(endpoints, "--endpoint="+grpc)
	}
	grpc, http, write := port(t), port(t), port(t)
	launch(t, "http://"+http, "/-/ready", thanos, "receive", "--tsdb.path="+t.TempDir(), `--label=receive="true"`, "--grpc-address="+grpc, "--http-address="+http,
		"--remote-write.address="+write, "--receive.local-endpoint="+grpc)
	endpoints = append(endpoints, "--endpoint="+grpc)
	ap, _ := servers(t, "mistral-7b")
	receive := "http://" + write + "/api/v1/receive"
	sixtyServe(t, append([]string{"--data", t.TempDir(), "--config", writing(t, receive, "ap"), "--interval", "2s"},
		ap...)...)
	qhttp, qgrpc := port(t), port(t)
	q := launch(t, "http://"+qhttp, "/-/ready", append([]string{thanos, "query", "--http-address=" + qhttp,
		"--grpc-address=" + qgrpc}, endpoints...)...)

	m := sixtyServe(t, "--prometheus", q.url, "--data", t.TempDir(), "--evaluation-interval", "5s", "--config",
		writing(t, receive, "central"))
	took := m.until(3*time.Minute, "three models are well", m.healthy(3, 6))
	t.Logf("three models through Thanos after %s, the last evaluation in %.2f s", took.Round(time.Second),
		m.overview().EvaluatedS)
	m.until(time.Minute, "verdicts in the store", func() bool { return query(q.url, `count(sixty_verdict{monitor="central"})`) == "3" })

	must.Succeed(t, sidecars[0].cmd.Process.Signal(syscall.SIGSTOP))
	took = m.until(time.Minute, "a sidecar that hangs on the page", m.doubtful())
	t.Logf("a sidecar that hangs: %s after %s, %q", m.overview().State, took.Round(time.Second), m.overview().Problems)
	sidecars[0].stop(syscall.SIGKILL)
	m.until(time.Minute, "partial, of a sidecar that is dead",
		func() bool { return m.overview().State == view.Partial && m.doubtful()() })
	t.Logf("a sidecar that is dead: %q", m.overview().Problems)
	sidecars[0].start()
	m.until(2*time.Minute, "three models are well again", m.healthy(3, 6))
	m.storeFails(q)
	m.until(2*time.Minute, "three models are well after the querier was away", m.healthy(3, 6))
}

// TestStoreSixty lets promtool and a stock Prometheus use the monitor as a store.
func TestStoreSixty(t *testing.T) {
	promtool := tool(t, "SIXTY_PROMTOOL", "promtool", "apt-get install prometheus")
	targets, _ := servers(t, "llama-8b")
	m := sixtyServe(t, append([]string{"--data", t.TempDir(), "--interval", "1s"}, targets...)...)
	m.until(time.Minute, "a model is well", m.healthy(1, 2))
	for _, args := range [][]string{
		{"query", "instant", m.url, `count(up{job="vllm"} == 1)`},
		{"query", "range", "--start", fmt.Sprint(time.Now().Add(-time.Minute).Unix()), "--step", "5s", m.url, "sum(vllm:num_requests_running)"},
		{"query", "series", "--match", "vllm:num_requests_running", m.url},
		{"query", "labels", m.url, "model_name"},
	} {
		out, err := exec.Command(promtool, args...).CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, out)
		}
		t.Logf("promtool %s %s: %.200s", args[0], args[1], out)
	}
	file := textFile(t, "prometheus.yml", fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n",
		m.url))
	addr := port(t)
	prom := launch(t, "http://"+addr, "/-/ready",
		tool(t, "SIXTY_PROMETHEUS", "prometheus", "apt-get install prometheus"),
		"--config.file="+file, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+addr)
	if n := query(prom.url, "count(vllm:num_requests_running)"); n != "2" {
		t.Errorf("a Prometheus that reads the monitor remotely counts %q servers, want 2", n)
	}
	if n := query(prom.url, "count(sixty_verdict)"); n == "" {
		t.Error("a Prometheus that reads the monitor remotely sees no verdict")
	}
}

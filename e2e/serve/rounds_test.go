//go:build e2e

package serve_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// The size of TestRounds, and the time in which one evaluation must be done.
const (
	clusters    = 50
	inCluster   = 20
	roundWithin = time.Minute // how long the monitor waits for a store that answers slowly

	scraped  = 30 * time.Second // the usual interval of a store of many clusters
	past     = 65 * time.Minute
	ahead    = 25 * time.Minute // while the test runs
	speedup  = 60
	imitated = 4 // servers whose pages the replicas have, each with counters and phases of its own
)

// A history has the pages of one server.
type history struct {
	labels []labels.Labels
	values [][]float64 // by series; as many as pages
	index  map[string]int
	pages  int
}

func (h *history) add(t *testing.T, body []byte, kind string) {
	_, err := scrape.Parse(body, kind, func(l labels.Labels, _ int64, v float64) {
		key := l.String()
		i, ok := h.index[key]
		if !ok {
			i = len(h.labels)
			h.index[key] = i
			h.labels, h.values = append(h.labels, l.Copy()), append(h.values, nil)
		}
		for len(h.values[i]) < h.pages { // a series that began later
			h.values[i] = append(h.values[i], v)
		}
		h.values[i] = append(h.values[i], v)
	})
	must.Succeed(t, err)
	h.pages++
}

// ownPart returns what a replica adds to a counter of the server that it imitates, so that it differs from other
// replicas: a start time and counts of its own.
func ownPart(name string, number int) float64 {
	switch {
	case strings.HasSuffix(name, "_created"), name == "process_start_time_seconds":
		return -1.37 * float64(number)
	case strings.HasSuffix(name, "_tokens_total"):
		return 1000 * float64(number)
	}
	return 0
}

// histories returns the pages of simulated servers, made faster than real time.
func histories(t *testing.T, pages int) []*history {
	t.Helper()
	sc, err := fleet.FindScenario(pathologies.All(), "healthy") // a server without traffic may end: that is no fault
	must.Succeed(t, err)
	sc.Phases = sc.Phases[:1]
	sc.Phases[0].For = 4 * time.Hour
	sc.Phases[0].Traffic.Rate *= imitated
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Scenario: sc, Replicas: imitated, Accelerate: speedup,
		Warm: time.Hour})
	must.Succeed(t, err)
	defer fl.Close()
	out := make([]*history, imitated)
	for i := range out {
		out[i] = &history{index: map[string]int{}}
	}
	tick := time.NewTicker(scraped / speedup)
	defer tick.Stop()
	for range pages {
		<-tick.C
		for i, u := range fl.URLs() {
			resp, err := http.Get(u + "/metrics")
			must.Succeed(t, err)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			must.Succeed(t, err)
			out[i].add(t, body, resp.Header.Get("Content-Type"))
		}
	}
	return out
}

// block writes the pages of one cluster's servers as a TSDB block. A dead server's series ended five minutes ago, with
// markers as Prometheus writes them; it has up alone since then.
func block(t *testing.T, dir string, number int, began time.Time, servers []*history, dead int) (series int) {
	t.Helper()
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, (4 * (past + ahead)).Milliseconds())
	must.Succeed(t, err)
	defer w.Close()
	died := time.Now().Add(-5 * time.Minute).UnixMilli()
	for r := range inCluster {
		h := servers[r%len(servers)]
		target := map[string]string{"instance": fmt.Sprintf("10.0.0.%d:8000", r+1), "job": "vllm",
			"namespace": "inference"}
		refs := make([]labels.Labels, len(h.labels))
		for i, l := range h.labels {
			b := labels.NewBuilder(l)
			for k, v := range target {
				b.Set(k, v)
			}
			refs[i] = b.Labels()
		}
		target["__name__"] = "up"
		up := labels.FromMap(target)
		phase, ended := time.Duration(r)*scraped/inCluster, false
		for page := range h.pages {
			at := began.Add(time.Duration(page)*scraped + phase).UnixMilli()
			app := w.Appender(t.Context())
			alive := 1.0
			if r == dead && at > died {
				alive = 0
			}
			if _, err := app.Append(0, up, at, alive); err != nil {
				t.Fatal(err)
			}
			if alive == 0 && ended {
				must.Succeed(t, app.Commit())
				continue
			}
			ended = alive == 0
			for i := range refs {
				v := h.values[i][page] + ownPart(h.labels[i].Get(labels.MetricName), 1+number*inCluster+r)
				if ended {
					v = math.Float64frombits(value.StaleNaN)
				}
				if _, err := app.Append(0, refs[i], at, v); err != nil {
					t.Fatal(err)
				}
			}
			must.Succeed(t, app.Commit())
		}
		series += len(refs) + 1
	}
	if _, err := w.Flush(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	return series
}

// TestRounds judges 50 clusters of 20 replicas through Thanos: a querier over two receivers with a tenant for each
// cluster. All clusters have the same addresses, and in one of them a server is dead.
func TestRounds(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("SIXTY_ROUNDS"))
	if err != nil {
		t.Skip("SIXTY_ROUNDS is not the number of evaluations: they take ten minutes, 2 GB of disk, and a machine of their own")
	}
	thanos := tool(t, "SIXTY_THANOS", "thanos", getThanos)
	pages := int((past + ahead) / scraped)
	servers := histories(t, pages)
	began, series := time.Now().Add(-past), 0
	var endpoints, stores []string // of the receivers for the querier; of all of Thanos for its metrics
	dirs := []string{t.TempDir(), t.TempDir()}
	const sick, dead = 33, 7
	for c := range clusters {
		dir := filepath.Join(dirs[c%len(dirs)], fmt.Sprintf("cluster-%02d", c))
		must.Succeed(t, os.MkdirAll(dir, 0o700))
		out := -1
		if c == sick {
			out = dead
		}
		series += block(t, dir, c, began, servers, out)
	}
	t.Logf("%d series, %d pages of each of %d replicas", series, pages, clusters*inCluster)
	for i, dir := range dirs {
		grpc, http, write := port(t), port(t), port(t)
		launch(t, "http://"+http, "/-/ready", thanos, "receive", "--tsdb.path="+dir, fmt.Sprintf(`--label=receive="%d"`, i), "--receive.tenant-label-name=cluster",
			"--grpc-address="+grpc, "--http-address="+http, "--remote-write.address="+write, "--receive.local-endpoint="+grpc, "--receive.capnproto-address="+port(t))
		endpoints, stores = append(endpoints, "--endpoint="+grpc), append(stores, "http://"+http)
	}
	qhttp, qgrpc := port(t), port(t)
	q := launch(t, "http://"+qhttp, "/-/ready", append([]string{thanos, "query", "--http-address=" + qhttp,
		"--grpc-address=" + qgrpc}, endpoints...)...)
	stores = append(stores, q.url)
	t.Setenv("GOMAXPROCS", "1")
	s := sixtyServe(t, "--prometheus", q.url, "--data", t.TempDir())
	t.Logf("sixty at %s, Thanos at %s", s.url, q.url)
	cpu := func(urls ...string) (seconds float64) {
		for _, u := range urls {
			seconds += metric(u, "process_cpu_seconds_total ")
		}
		return seconds
	}
	asked := func() float64 { return metric(q.url, `http_requests_total{code="200",handler="query`) }
	used, stored, questions, evaluated := cpu(s.url), cpu(stores...), asked(), 0.0
	for i := range rounds {
		// An overview of so many replicas would take more of the processor than the evaluation.
		s.until(5*time.Minute, "another evaluation", func() bool {
			now := metric(s.url, "sixty_evaluation_duration_seconds_count ")
			defer func() { evaluated = now }()
			return now > evaluated
		})
		o := s.overview()
		nowUsed, nowStored, nowAsked := cpu(s.url), cpu(stores...), asked()
		replicas, down := 0, 0
		for _, x := range o.Models {
			replicas += len(x.Replicas)
			if x.Verdict.ID == "target-down" {
				down++
			}
		}
		t.Logf("RESULT evaluation %d in %.2f s, %.2f s of processor, %.2f s of Thanos', %.0f questions, state %s, %d models, %d replicas, %d with a dead one, %.300q",
			i+1, o.EvaluatedS, nowUsed-used, nowStored-stored, nowAsked-questions, o.State, len(o.Models), replicas, down, o.Problems)
		used, stored, questions = nowUsed, nowStored, nowAsked
		if i < 3 { // Thanos and the monitor remember nothing yet, and an evaluation may take 15, 30 and 60 s
			continue
		}
		if took := time.Duration(o.EvaluatedS * float64(time.Second)); took > roundWithin || o.State != view.OK {
			t.Errorf("evaluation %d: %s in state %s, want %s at most", i+1, took, o.State, roundWithin)
		}
		if len(o.Models) != clusters || replicas != clusters*inCluster || down != 1 {
			t.Errorf("evaluation %d: %d models, %d replicas, %d with a dead one", i+1, len(o.Models), replicas, down)
		}
	}
}

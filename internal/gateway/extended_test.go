package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// expressions returns the queries and alert expressions of the guide that defines the extended vLLM metrics.
func expressions(t *testing.T) (out []string) {
	t.Helper()
	script := must.ReadFile(t, "../../cmd/sixty/testdata/guides/collector.txtar")
	for _, m := range regexp.MustCompile(`(?m)'query=(.*)'$|expr: (.*)$`).FindAllStringSubmatch(string(script), -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}

// TestTheExtendedRulesRunUnchanged asks every query and alert of the guide about
// two pages of a gateway whose engine shows what only it knows.
func TestTheExtendedRulesRunUnchanged(t *testing.T) {
	exprs := expressions(t)
	if len(exprs) < 15 {
		t.Fatalf("%d expressions were found", len(exprs))
	}
	script := scripted(t, 10, nil)
	var steps atomic.Int64
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			steps := steps.Add(10)
			fmt.Fprintf(w, `vllm:num_requests_running{model_name="scripted"} 3
vllm:num_requests_waiting{model_name="scripted"} 60
vllm:kv_cache_usage_perc{model_name="scripted"} 0.97
vllm:num_preemptions_total{model_name="scripted"} 5
vllm:generation_tokens_total{model_name="scripted"} %d
vllm:iteration_tokens_total_count{model_name="scripted"} %d
vllm:prefix_cache_hits_total{model_name="scripted"} %d
vllm:prefix_cache_queries_total{model_name="scripted"} %d
`, 30*steps, steps, 4*steps, 10*steps)
		default:
			to := request(r.Method, script+r.URL.Path, "")
			to.Body, to.ContentLength = r.Body, r.ContentLength
			resp, err := http.DefaultClient.Do(to)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
			io.Copy(flushing{w}, resp.Body)
		}
	})
	g := start(t, Config{}, up)
	polltest.Until(t, "the model is known", func() bool { return g.metrics.hasModel("scripted") })
	store := embeddedtest.New(t)
	at := time.Now().Add(-10 * time.Minute)
	for i := range 5 {
		post(t, g.url+"/v1/completions", chat)
		g.waitUntilIdle(t)
		read := steps.Load()
		polltest.Until(t, "the engine's page is read twice more", func() bool { return steps.Load() >= read+20 }) // and the first of them is counted
		resp, page := send(t, request("GET", g.admin+"/metrics", ""))
		at = at.Add(20 * time.Second)
		if _, err := store.Append(embedded.Target{Instance: "gateway:8081"}, at, []byte(page), resp.Header.Get("Content-Type"), time.Millisecond); err != nil {
			t.Fatalf("page %d: %v", i, err)
		}
	}
	for _, expr := range exprs {
		// An alert's comparison only filters: what it compares must be there.
		bare := expr
		for _, op := range []string{" > ", " < "} {
			bare, _, _ = strings.Cut(bare, op)
		}
		v, err := store.Query(context.Background(), bare, at)
		if err != nil || len(v) != 1 {
			t.Errorf("%s: %v series, %v", bare, len(v), err)
		}
		if _, err := store.Query(context.Background(), expr, at); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
	for expr, want := range map[string]float64{
		"vllm_queue_depth": 60, "vllm_kv_cache_utilization": 0.97, "vllm_prefix_cache_hit_rate": 0.4, "vllm_kv_cache_evictions_total": 5,
		"histogram_quantile(0.5, vllm_decode_batch_size_bucket)": 24, // 30 a step, in the bucket from 16 to 32
		`vllm_requests_completed_total{status="success"}`:        5,
	} {
		v, err := store.Query(context.Background(), expr, at)
		if err != nil || len(v) != 1 || float64(v[0].Value) != want {
			t.Errorf("%s is %v (%v), want %v", expr, v, err, want)
		}
	}
}

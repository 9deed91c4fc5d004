package servermetrics

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// vllm writes a page of a server after n requests of about 300 prompt tokens
// and 50 output tokens.
func vllm(n int) string {
	return fmt.Sprintf(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 4
vllm:num_requests_waiting{engine="0"} 2
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:generation_tokens_total %[2]d
vllm:prefix_cache_queries_total %[3]d
vllm:prefix_cache_hits_total %[4]d
vllm:request_success_total{finished_reason="stop"} %[1]d
process_start_time_seconds 1700000000
# TYPE vllm:request_prompt_tokens histogram
vllm:request_prompt_tokens_bucket{le="200"} 0
vllm:request_prompt_tokens_bucket{le="500"} %[1]d
vllm:request_prompt_tokens_bucket{le="+Inf"} %[1]d
# TYPE vllm:request_generation_tokens histogram
vllm:request_generation_tokens_bucket{le="40"} 0
vllm:request_generation_tokens_bucket{le="60"} %[1]d
vllm:request_generation_tokens_bucket{le="+Inf"} %[1]d
`, n, 50*n, 300*n, 90*n)
}

func TestReader(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, vllm(int(n.Add(1000)))) }))
	defer s.Close()
	c, err := scrape.New(scrape.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := New(c, s.URL+"/metrics")
	first, err := r.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if first["running"] != 7 || first["waiting"] != 2 || first["kv_cache_usage"] != 0.75 {
		t.Errorf("gauges %v: want sums, and the fullest cache", first)
	}
	if _, ok := first["server_output_tokens"]; ok {
		t.Error("a rate came out of one page")
	}
	time.Sleep(10 * time.Millisecond)
	second, err := r.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if second["server_output_tokens"] <= 0 || math.Abs(second["prefix_cache_hit_ratio"]-0.3) > 1e-9 {
		t.Errorf("rates %v", second)
	}
	seen, err := r.Workload(context.Background(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if seen.Requests != 1000 || seen.Rate < 1000 || math.Abs(seen.Spec.PrefixShare-0.3) > 1e-9 {
		t.Errorf("workload %+v", seen)
	}
}

func TestWorkloadBetweenPages(t *testing.T) {
	at := time.Unix(1_700_000_100, 0)
	seen, err := WorkloadBetween(Page{[]byte(vllm(100)), at}, Page{[]byte(vllm(400)), at.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if seen.Rate != 5 {
		t.Errorf("rate %v, want 300 requests a minute", seen.Rate)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		if p, o := seen.Spec.Prompt.Draw(rng), seen.Spec.Output.Draw(rng); p <= 200 || p > 500 || o <= 40 || o > 60 {
			t.Fatalf("drew %d and %d, which the server never saw", p, o)
		}
	}
	seen, err = WorkloadBetween(Page{[]byte(vllm(100)), at}, Page{[]byte(vllm(101)), at.Add(time.Second)})
	if err != nil || seen.Requests != 101 || seen.Rate < 0.9 || seen.Rate > 1.1 {
		t.Errorf("few requests in between: %+v, %v; want those since the start, 101 s ago", seen, err)
	}
	for name, page := range map[string]string{"another server": "up 1\n", "an idle server": vllm(0), "no page": "<html>"} {
		if _, err := WorkloadBetween(Page{[]byte(page), at}, Page{[]byte(page), at.Add(time.Second)}); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

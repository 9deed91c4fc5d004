package dialect

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

func TestTheTableIsWhole(t *testing.T) {
	all := Families()
	if len(all) < 150 {
		t.Fatalf("%d families", len(all))
	}
	seen := map[string]bool{}
	for _, n := range all {
		if seen[n.Name] {
			t.Errorf("%s: twice", n.Name)
		}
		seen[n.Name] = true
		if !slices.Contains([]engine.Type{engine.Counter, engine.Gauge, engine.Histogram, engine.Summary}, n.Type) {
			t.Errorf("%s: type %q", n.Name, n.Type)
		}
		if n.Since == "" && n.Engine != "trtllm" && n.Engine != "triton" || n.Last != "" && !engine.Release(n.Last).AtLeast(engine.Release(n.Since)) {
			t.Errorf("%s: from %q to %q", n.Name, n.Since, n.Last)
		}
		if n.Replacement != "" {
			if r, ok := Known(n.Replacement); !ok || r.Gone() || r.Type != n.Type {
				t.Errorf("%s: replaced by %s, which is no %s of the newest release", n.Name, n.Replacement, n.Type)
			}
		}
		if n.Engine == VLLM && n.Gone() && n.Replacement == "" && n.Instead == "" {
			t.Errorf("%s is gone, and nothing says what to use instead", n.Name)
		}
	}
}

func TestKnown(t *testing.T) {
	for _, tc := range []struct {
		name, sample, family string // family "" means unknown
	}{
		{"a gauge", "vllm:num_requests_running", "vllm:num_requests_running"},
		{"a counter", "vllm:prompt_tokens_total", "vllm:prompt_tokens_total"},
		{"a counter's creation time", "vllm:prompt_tokens_created", "vllm:prompt_tokens_total"},
		{"a histogram's bucket", "vllm:time_to_first_token_seconds_bucket", "vllm:time_to_first_token_seconds"},
		{"a histogram named like a counter", "vllm:iteration_tokens_total_count", "vllm:iteration_tokens_total"},
		{"a gauge has no buckets", "vllm:num_requests_running_bucket", ""},
		{"a counter without its suffix", "vllm:prompt_tokens", ""},
		{"Ray's prefix", "ray_vllm_kv_cache_usage_perc", "vllm:kv_cache_usage_perc"},
		{"a store without colons", "vllm_num_preemptions_total", "vllm:num_preemptions_total"},
		{"a summary has no buckets", "http_request_size_bytes_bucket", ""},
		{"somebody else's", "node_cpu_seconds_total", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, ok := Known(tc.sample)
			if ok != (tc.family != "") || n.Name != tc.family {
				t.Errorf("got %q, %v", n.Name, ok)
			}
		})
	}
}

func TestNamed(t *testing.T) {
	for _, tc := range []struct {
		id, dialect string
		engine      engine.ID
		metric      map[string]string
		missing     []*indicator.Signal // and, of those checked, no other
	}{
		{"vllm-v1", "vllm-v1", VLLM, map[string]string{"vllm:kv_cache_usage_perc": "vllm:kv_cache_usage_perc"}, nil},
		{"vllm-v0", "vllm-v0", VLLM, map[string]string{
			"vllm:kv_cache_usage_perc":               "vllm:gpu_cache_usage_perc",
			"vllm:inter_token_latency_seconds_count": "vllm:time_per_output_token_seconds_count",
			"vllm:num_preemptions_total":             "vllm:num_preemptions_total",
		}, []*indicator.Signal{indicator.HTTPRate}},
		{"vllm-v1-ray", "vllm-v1-ray", VLLM, map[string]string{"vllm:num_requests_running": "ray_vllm_num_requests_running"}, []*indicator.Signal{indicator.HTTPRate}},
		{"vllm-v0-ray", "vllm-v0-ray", VLLM, map[string]string{"vllm:kv_cache_usage_perc": "ray_vllm:gpu_cache_usage_perc"}, []*indicator.Signal{indicator.HTTPRate}},
		{"vllm-v1-kserve", "vllm-v1-kserve", VLLM, map[string]string{"vllm:num_requests_running": "kserve_vllm:num_requests_running"}, nil},
		{"vllm-v1-normalized", "vllm-v1-normalized", VLLM, map[string]string{"vllm:num_requests_running": "vllm_num_requests_running"}, nil},
		{"vllm-0.6", "vllm-v0", VLLM, map[string]string{"vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc"}, []*indicator.Signal{indicator.HTTPRate}},
		{"vllm-0.9.1", "vllm-v1", VLLM, map[string]string{
			"vllm:kv_cache_usage_perc":     "vllm:gpu_cache_usage_perc",
			"vllm:prefix_cache_hits_total": "vllm:gpu_prefix_cache_hits_total",
		}, nil},
		{"vllm-0.10", "vllm-v1", VLLM, map[string]string{"vllm:kv_cache_usage_perc": "vllm:kv_cache_usage_perc"}, nil},
		{"vllm-0.10-ray", "vllm-v1-ray", VLLM, map[string]string{"vllm:kv_cache_usage_perc": "ray_vllm:kv_cache_usage_perc"}, []*indicator.Signal{indicator.HTTPRate}},
		{"sglang", "sglang", SGLang, map[string]string{
			"vllm:kv_cache_usage_perc": "sglang:token_usage", "vllm:generation_tokens_total": "sglang:realtime_tokens_total",
			"vllm:request_prefill_time_seconds_sum": "sglang:per_stage_req_latency_seconds_sum",
		}, nil},
		{"sglang-normalized", "sglang-normalized", SGLang, map[string]string{"vllm:kv_cache_usage_perc": "sglang_token_usage"}, nil},
		{
			"sglang-0.5.5", "sglang", SGLang,
			map[string]string{"vllm:generation_tokens_total": "sglang:inter_token_latency_seconds_count"},
			[]*indicator.Signal{indicator.PreemptionRate, indicator.HTTPRate},
		},
	} {
		t.Run(tc.id, func(t *testing.T) {
			d, err := Named(tc.id)
			must.Succeed(t, err)
			if d.ID != tc.dialect || d.Engine != tc.engine {
				t.Errorf("got %s of %s", d.ID, d.Engine)
			}
			for canonical, want := range tc.metric {
				if got := d.Metric(canonical); got != want {
					t.Errorf("%s: got %s, want %s", canonical, got, want)
				}
			}
			for _, s := range []*indicator.Signal{indicator.TTFTP95, indicator.ITLP95, indicator.KVUsage, indicator.Waiting, indicator.PreemptionRate, indicator.PrefixHitRatio, indicator.HTTPRate} {
				want := slices.Contains(tc.missing, s)
				if missing := d.Missing(s); (len(missing) > 0) != want {
					t.Errorf("%s: missing %v, want missing: %v", s.Name, missing, want)
				}
			}
		})
	}
}

func TestNamedDCGMHasEveryGPUSignal(t *testing.T) {
	d, err := Named("dcgm")
	must.Succeed(t, err)
	for _, s := range indicator.All() {
		if s.Scope == indicator.GPU && len(d.Missing(s)) > 0 {
			t.Errorf("%s: missing %v", s.Name, d.Missing(s))
		}
	}
}

func TestNamedRefuses(t *testing.T) {
	for _, id := range []string{"", "vllm", "vllm-", "vllm-v2", "vllm-0", "vllm-0.1", "vllm-0.99", "vllm-1.2.3.4", "vllm-0.x", "vllm-v1-nomad", "lmdeploy"} {
		t.Run(id, func(t *testing.T) {
			if d, err := Named(id); err == nil || hint.Of(err) == "" {
				t.Errorf("got %s, %v", d.ID, err)
			}
		})
	}
}

// TestNamedAgreesWithRealPages holds the table against the pages of real
// servers: a dialect by name must miss and translate what one by its page does.
func TestNamedAgreesWithRealPages(t *testing.T) {
	for id, file := range map[string]string{
		"vllm-0.23": "thrashing-deep.tar.zst",
		"vllm-0.32": "thrashing-deep-v0.32.tar.zst",
	} {
		t.Run(id, func(t *testing.T) {
			detected, ok := Detect(pageNames(t, filepath.Join("..", "..", "..", "testdata", "recordings", file)))
			if !ok {
				t.Fatal("not detected")
			}
			named, err := Named(id)
			must.Succeed(t, err)
			if named.Key() != detected.Key() {
				t.Errorf("asks differently: (-detected +named)\n%s", cmp.Diff(strings.Split(detected.Key(), "|"), strings.Split(named.Key(), "|")))
			}
			for name := range detected.has {
				if !named.has[name] {
					t.Errorf("a detected server has %s, the table does not", name)
				}
			}
			for name := range named.has {
				if !detected.has[name] {
					t.Errorf("the table has %s, a detected server does not", name)
				}
			}
		})
	}
}

// pageNames returns the names of the samples in all pages of a recording.
func pageNames(t *testing.T, path string) []string {
	t.Helper()
	rec, err := recording.Open(t.Context(), path)
	must.Succeed(t, err)
	defer rec.Close()
	seen := map[string]bool{}
	must.Succeed(t, rec.Scrapes(func(s recording.Scrape) error {
		for line := range strings.Lines(string(s.Body)) {
			if end := strings.IndexAny(line, "{ "); end > 0 && line[0] != '#' {
				seen[line[:end]] = true
			}
		}
		return nil
	}))
	return slices.Collect(maps.Keys(seen))
}

package dialect

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/gateway"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// v1 is the request path of a V1 engine, without prefix.
var v1 = []string{
	"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "generation_tokens_total", "prompt_tokens_total",
	"prefix_cache_queries_total", "prefix_cache_hits_total", "request_success_total", "num_preemptions_total",
	"e2e_request_latency_seconds_count", "request_prefill_time_seconds_count", "request_prefill_time_seconds_sum",
	"time_to_first_token_seconds_count", "inter_token_latency_seconds_count", "inter_token_latency_seconds_bucket", "inter_token_latency_seconds_sum",
	"request_queue_time_seconds_count", "request_queue_time_seconds_sum", "request_queue_time_seconds_bucket",
}

// prefixed returns names under a prefix.
func prefixed(prefix string, names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
}

func TestDetect(t *testing.T) {
	v0 := []string{"num_requests_running", "num_requests_swapped", "gpu_cache_usage_perc", "gpu_prefix_cache_hit_rate", "time_per_output_token_seconds_count", "time_in_queue_requests_count"}
	both := append(prefixed("vllm:", v1...), "vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_queries_total", "vllm:time_per_output_token_seconds_count")
	tests := map[string]struct {
		names  []string
		id     string
		metric map[string]string // canonical → exposed
	}{
		"V1": {
			prefixed("vllm:", v1...), "vllm-v1",
			map[string]string{"vllm:kv_cache_usage_perc": "vllm:kv_cache_usage_perc", "up": "up"},
		},
		"V0, known by its swapped requests": {
			prefixed("vllm:", v0...), "vllm-v0",
			map[string]string{
				"vllm:kv_cache_usage_perc":               "vllm:gpu_cache_usage_perc",
				"vllm:inter_token_latency_seconds_count": "vllm:time_per_output_token_seconds_count",
				"vllm:request_queue_time_seconds_count":  "vllm:time_in_queue_requests_count",
			},
		},
		"late V0, which hides the swapped requests": {
			prefixed("vllm:", "num_requests_running", "gpu_cache_usage_perc", "time_per_output_token_seconds_count", "request_prefill_time_seconds_count"), "vllm-v0",
			map[string]string{"vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc"},
		},
		"early V1, which has V0's names for the cache": {
			prefixed("vllm:", "num_requests_running", "gpu_cache_usage_perc", "gpu_prefix_cache_queries_total", "gpu_prefix_cache_hits_total"), "vllm-v1",
			map[string]string{
				"vllm:kv_cache_usage_perc":        "vllm:gpu_cache_usage_perc",
				"vllm:prefix_cache_queries_total": "vllm:gpu_prefix_cache_queries_total",
				"vllm:prefix_cache_hits_total":    "vllm:gpu_prefix_cache_hits_total",
			},
		},
		"0.10.2, old and new names at once: only the new ones are asked": {
			both, "vllm-v1",
			map[string]string{
				"vllm:kv_cache_usage_perc":               "vllm:kv_cache_usage_perc",
				"vllm:prefix_cache_queries_total":        "vllm:prefix_cache_queries_total",
				"vllm:inter_token_latency_seconds_count": "vllm:inter_token_latency_seconds_count",
			},
		},
		"Ray with a colon":                     {prefixed("ray_vllm:", v1...), "vllm-v1-ray", map[string]string{"vllm:num_requests_running": "ray_vllm:num_requests_running"}},
		"Ray without a colon":                  {prefixed("ray_vllm_", v1...), "vllm-v1-ray", map[string]string{"vllm:num_requests_running": "ray_vllm_num_requests_running"}},
		"KServe with a colon":                  {prefixed("kserve_vllm:", v1...), "vllm-v1-kserve", map[string]string{"vllm:num_requests_running": "kserve_vllm:num_requests_running"}},
		"KServe without a colon":               {prefixed("kserve_vllm_", v1...), "vllm-v1-kserve", map[string]string{"vllm:num_requests_running": "kserve_vllm_num_requests_running"}},
		"a store that forbids colons":          {prefixed("vllm_", v1...), "vllm-v1-normalized", map[string]string{"vllm:num_requests_running": "vllm_num_requests_running"}},
		"vLLM beside SGLang's names":           {append(prefixed("vllm:", v1...), "sglang:num_running_reqs"), "vllm-v1", nil},
		"one marker, alone, is enough":         {[]string{"go_goroutines", "vllm:generation_tokens_total"}, "vllm-v1", nil},
		"SGLang":                               {[]string{"sglang:num_running_reqs", "sglang:token_usage"}, "sglang", map[string]string{"vllm:num_requests_running": "sglang:num_running_reqs", "vllm:kv_cache_usage_perc": "sglang:token_usage", "vllm:time_to_first_token_seconds_count": "sglang:time_to_first_token_seconds_count", "vllm:request_queue_time_seconds_sum": "sglang:queue_time_seconds_sum"}},
		"SGLang without colons":                {[]string{"sglang_num_running_reqs", "sglang_token_usage"}, "sglang-normalized", map[string]string{"vllm:num_requests_running": "sglang_num_running_reqs", "vllm:kv_cache_usage_perc": "sglang_token_usage"}},
		"another's sglang_ names":              {[]string{"sglang_cluster_nodes"}, "", nil},
		"a router with the servers' own names": {[]string{"vllm:num_requests_running", "vllm:num_incoming_requests_total", "vllm:request_latency_seconds_count"}, "gateway", nil},
		"dcgm-exporter":                        {[]string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"}, "dcgm", map[string]string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"}},
		"an older dcgm-exporter":               {[]string{"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}, "dcgm", map[string]string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}},
		"nothing":                              {nil, "", nil},
		"another program":                      {[]string{"up", "process_cpu_seconds_total", "python_info"}, "", nil},
		"a proxy's own vllm_ names":            {[]string{"vllm_ttft_seconds_count", "vllm_queue_depth"}, "", nil},
		"a histogram's _created only":          {[]string{"vllm:generation_tokens_created"}, "", nil},
		"a name that only contains one":        {[]string{"my_vllm:num_requests_running"}, "", nil},
	}
	engines := map[string]engine.ID{"sglang": SGLang, "sglang-normalized": SGLang, "dcgm": DCGM, "gateway": Gateway}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, ok := Detect(tt.names)
			if ok != (tt.id != "") || d.ID != tt.id {
				t.Fatalf("got %q, %v; want %q", d.ID, ok, tt.id)
			}
			if want := cmp.Or(engines[tt.id], VLLM); ok && d.Engine != want {
				t.Errorf("engine %q, want %q", d.Engine, want)
			}
			for canonical, want := range tt.metric {
				if got := d.Metric(canonical); got != want {
					t.Errorf("%s is asked as %s, want %s", canonical, got, want)
				}
			}
		})
	}
}

func TestRayIdentifiesReplicasByTheirOwnLabels(t *testing.T) {
	ray, _ := Detect(prefixed("ray_vllm_", v1...))
	plain, _ := Detect(prefixed("vllm:", v1...))
	if len(ray.Identity) == 0 || len(plain.Identity) != 0 {
		t.Errorf("Ray %q, plain %q", ray.Identity, plain.Identity)
	}
}

func TestVersionFingerprint(t *testing.T) {
	upTo := func(names ...string) []string { return append(slices.Clone(v1), names...) }
	v011 := upTo("request_time_per_output_token_seconds_count")
	v013 := append(slices.Clone(v011), "engine_sleep_state", "request_prefill_kv_computed_tokens_count")
	v016 := append(slices.Clone(v013), "prompt_tokens_by_source_total")
	v020 := append(slices.Clone(v016), "estimated_flops_per_gpu_total", "num_requests_waiting_by_reason")
	tests := map[string]struct {
		prefix string
		names  []string
		want   string
	}{
		"V0 before the request times":         {"vllm:", []string{"num_requests_running", "e2e_request_latency_seconds_count", "gpu_cache_usage_perc", "time_per_output_token_seconds_count"}, "0.3.3 or later, before 0.6.4"},
		"the last with both names":            {"vllm:", upTo("gpu_cache_usage_perc", "time_per_output_token_seconds_count"), "0.10.2 or later, before 0.11"},
		"the first with TPOT":                 {"vllm:", v011, "0.11 or later, before 0.11.1"},
		"computed prefill tokens":             {"vllm:", v013, "0.13 or later, before 0.16"},
		"recomputed tokens, which went later": {"vllm:", append(slices.Clone(v016), "prompt_tokens_recomputed_total"), "0.16 or later, before 0.17"},
		"waiting by reason":                   {"vllm:", v020, "0.20 or later, before 0.30"},
		"the newest":                          {"vllm:", append(slices.Clone(v020), "request_num_preemptions_count"), "0.30 or later"},
		"the same behind another prefix":      {"kserve_vllm_", v020, "0.20 or later, before 0.30"},
		"Ray, where counters of zero are absent, and tell nothing": {
			"ray_vllm_", append(slices.Clone(v016), "num_requests_waiting_by_reason"), "0.20 or later, before 0.30",
		},
		"one gauge and no more": {"vllm:", []string{"num_requests_running"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, ok := Detect(prefixed(tt.prefix, tt.names...))
			if !ok || d.Version != tt.want {
				t.Errorf("got %q, %v; want %q", d.Version, ok, tt.want)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	d, _ := Detect(prefixed("vllm:", v1...))
	tests := map[string]struct {
		signal *indicator.Signal
		want   []string
	}{
		"nothing is missing":                {indicator.Running, nil},
		"buckets go with their count":       {indicator.ITLP95, nil},
		"the scraper's own is never asked":  {indicator.Up, nil},
		"the GPU is somebody else's to say": {indicator.GPUUtil, []string{"DCGM_FI_DEV_GPU_UTIL"}},
		"a derived signal needs its own":    {indicator.PrefillTimePerToken, []string{"vllm:request_prompt_tokens_sum"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := d.Missing(tt.signal); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEveryExpressionOfEveryDialectParses(t *testing.T) {
	for _, names := range [][]string{
		prefixed("vllm:", v1...), prefixed("ray_vllm_", v1...),
		{"vllm:num_requests_running", "vllm:gpu_prefix_cache_hit_rate"},
		{"sglang:num_running_reqs"},
		{"DCGM_FI_DEV_GPU_UTIL"},
	} {
		d, ok := Detect(names)
		if !ok {
			t.Fatalf("not detected: %q", names)
		}
		for _, s := range indicator.All() {
			text := d.Rewriting().Compile(d.Expr(s), s.Scope).String()
			if _, err := indicator.Parse(text); err != nil {
				t.Errorf("%s: %s: %v\n%s", d.ID, s.Name, err, text)
			}
		}
	}
}

func TestSelectorFindsWhatDetectKnows(t *testing.T) {
	re := regexp.MustCompile("^(?:" + Selector + ")$") // anchored, as Prometheus does
	for _, name := range []string{
		"ray_vllm:num_requests_running", "ray_vllm_num_requests_running", "kserve_vllm:num_requests_running", "kserve_vllm_num_requests_running",
		"vllm:num_requests_running", "vllm_num_requests_running", "sglang:num_running_reqs", "DCGM_FI_DEV_GPU_UTIL",
	} {
		if _, ok := Detect([]string{name}); !ok {
			t.Errorf("%s is not detected", name)
		}
		if !re.MatchString(name) {
			t.Errorf("%s is not selected", name)
		}
	}
	if re.MatchString("python_info") {
		t.Error("python_info is selected")
	}
}

func TestKeyTellsQueriesApart(t *testing.T) {
	key := func(names []string) string { d, _ := Detect(names); return d.Key() }
	base := prefixed("vllm:", v1...)
	if key(base) != key(append(slices.Clone(base), "python_info")) {
		t.Error("a metric that nothing reads changed the key")
	}
	if key(base) == key(base[1:]) || key(base) == key(prefixed("vllm_", v1...)) {
		t.Error("two dialects share a key")
	}
}

// SGLang counts requests without the reason for which they ended.
func TestWhatAnEngineCannotTellIsMissing(t *testing.T) {
	sglang, err := Named("sglang")
	must.Succeed(t, err)
	for _, s := range []*indicator.Signal{indicator.CutAnswers, indicator.EngineErrors} {
		if missing := sglang.Missing(s); len(missing) != 1 || !strings.Contains(missing[0], "finished_reason") {
			t.Errorf("%s: missing %q, want the reason", s.Name, missing)
		}
	}
}

// An engine's flags are translated from vLLM's, so that every one must be known there.
func TestFlagsOfEveryEngineAreVLLMs(t *testing.T) {
	for _, e := range engines {
		for flag, own := range e.Flags {
			if _, known := vllm.Engine.Flags[flag]; !known {
				t.Errorf("%s: --%s is no flag of vLLM that fixes propose", e.ID, flag)
			}
			if own.Name != "" {
				if _, err := LikelyArgs("--"+own.Name+" 1", "--engine-args"); err != nil {
					t.Errorf("%s: its own flag is taken for a misspelt one (write it with hyphens, as arguments are read): %v", e.ID, err)
				}
			}
			if own.Name == flag {
				t.Errorf("%s: --%s is the name that it has anyway", e.ID, flag)
			}
		}
	}
	sglang, err := Named("sglang")
	must.Succeed(t, err)
	args := engine.ParseArgs("--max-running-requests 48 --disable-radix-cache --kv-cache-dtype fp8_e4m3 --log-level info", "--engine-args")
	got := sglang.Flags.Canonical(args)
	for flag, want := range map[string]string{
		engine.MaxNumSeqs: "48", engine.PrefixCaching: "false", engine.KVCacheDtype: "fp8_e4m3", "log-level": "info", "max-running-requests": "",
	} {
		if got[flag].Value != want {
			t.Errorf("%s: %q, want %q", flag, got[flag].Value, want)
		}
	}
}

// TestOnlyARouterThatTellsIsAskedForPrefixes: at other gateways it is no question, and nothing is ruled out.
func TestOnlyARouterThatTellsIsAskedForPrefixes(t *testing.T) {
	for _, p := range gateway.Others {
		d, ok := Detect(p.Names())
		tells := slices.ContainsFunc(p.Terms, func(t gateway.Term) bool { return t.Outcome == gateway.OffPrefix })
		if unused := d.Unused(indicator.GatewayOffPrefix); !ok || (unused == "") != tells {
			t.Errorf("%s: unused, for it needs %q", p.Title, unused)
		}
	}
}

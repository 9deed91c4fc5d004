package fleet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A shape is a page without its numbers: by family its type, the label names of its series, the bounds of its buckets,
// and the values of labels that are equal on every server.
func shape(t *testing.T, page []byte) map[string][]string {
	t.Helper()
	families := map[string]map[string]bool{}
	add := func(name, what string) {
		if families[name] == nil {
			families[name] = map[string]bool{}
		}
		families[name][what] = true
	}
	for line := range strings.Lines(string(page)) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" {
			add(f[2], "type "+f[3])
		}
	}
	_, err := scrape.Parse(page, "text/plain; version=0.0.4", func(l labels.Labels, _ int64, _ float64) {
		var names []string
		name := l.Get("__name__")
		l.Range(func(l labels.Label) {
			if l.Name != "__name__" {
				names = append(names, l.Name)
			}
			switch l.Name {
			case "le", "source", "reason", "sleep_state", "finished_reason", "generation", "engine":
				add(name, l.Name+" "+l.Value)
			}
		})
		add(name, "labels "+strings.Join(names, ","))
	})
	must.Succeed(t, err)
	out := map[string][]string{}
	for name, what := range families {
		out[name] = slices.Sorted(maps.Keys(what))
	}
	return out
}

// order returns the families of a page in their order.
func order(page []byte) []string {
	var names []string
	for line := range strings.Lines(string(page)) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" {
			names = append(names, f[2])
		}
	}
	return names
}

// lastPage is the last page that somebody answered in a recording.
func lastPage(t *testing.T, path string) []byte {
	t.Helper()
	rec, err := recording.Open(t.Context(), path)
	must.Succeed(t, err)
	defer rec.Close()
	var last []byte
	err = rec.Scrapes(func(s recording.Scrape) error {
		if len(s.Body) > 0 {
			last = slices.Clone(s.Body)
		}
		return nil
	})
	must.Succeed(t, err)
	return last
}

// ownPage is the page of a simulated server after some seconds of traffic.
func ownPage(t *testing.T, release string, maxModelLen int) []byte {
	t.Helper()
	r, err := fleet.ParseRelease(release)
	must.Succeed(t, err)
	sc, err := fleet.FindScenario(pathologies.All(), "healthy")
	must.Succeed(t, err)
	sc.Settings.MaxModelLen = maxModelLen
	sc.Phases[0].For = 20 * time.Second
	var page []byte
	err = fleet.Play(t.Context(), sc, r, 1, began, func(p fleet.Scrape) error {
		if p.Target == fleet.ReplicaTarget(0) {
			page = p.Body
		}
		return nil
	}, nil)
	must.Succeed(t, err)
	return page
}

func TestPagesLookLikeThoseOfRealServers(t *testing.T) {
	for _, tt := range []struct{ release, recording string }{
		{"0.23.0", "higher-rate"},
		{"0.32.0", "engine-hung-v0.32"},
	} {
		t.Run(tt.release, func(t *testing.T) {
			real := lastPage(t, "../../testdata/recordings/"+tt.recording+".tar.zst")
			own := ownPage(t, tt.release, 4096)
			want, got := shape(t, real), shape(t, own)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the real page (-) and the own one (+) differ:\n%s", d)
			}
			if d := cmp.Diff(order(real), order(own)); d != "" {
				t.Errorf("the families come in another order (-real +own):\n%s", d)
			}
		})
	}
}

func TestPagesOfOtherReleasesHaveTheirOwnNames(t *testing.T) {
	for _, tt := range []struct {
		release   string
		has, lack []string
		dialect   string
	}{
		{
			"0.10.2",
			[]string{"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", "vllm:gpu_prefix_cache_hits_total",
				"vllm:prefix_cache_hits_total", "vllm:time_per_output_token_seconds_sum",
				"vllm:inter_token_latency_seconds_sum"},
			[]string{"vllm:request_time_per_output_token_seconds_sum", "vllm:mm_cache_hits_total"},
			"vllm-v1",
		},
		{"0.12", []string{"vllm:kv_cache_usage_perc", "vllm:engine_sleep_state"}, []string{"vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds_sum", "vllm:request_prefill_kv_computed_tokens_sum"}, "vllm-v1"},
		{"0.16", []string{"vllm:prompt_tokens_recomputed_total", "vllm:prompt_tokens_by_source_total"}, []string{"vllm:estimated_flops_per_gpu_total", "vllm:num_requests_waiting_by_reason"}, "vllm-v1"},
		{"0.20", []string{"vllm:num_requests_waiting_by_reason"}, []string{"vllm:prompt_tokens_recomputed_total"}, "vllm-v1"},
		{"0.33", []string{"vllm:admission_rejections_total", "vllm:request_num_preemptions_sum"}, nil, "vllm-v1"},
	} {
		t.Run(tt.release, func(t *testing.T) {
			page := ownPage(t, tt.release, 4096)
			got := shape(t, page)
			for _, name := range tt.has {
				if got[name] == nil {
					t.Errorf("%s is missing", name)
				}
			}
			for _, name := range tt.lack {
				if got[name] != nil {
					t.Errorf("%s is there: %v", name, got[name])
				}
			}
			if d, ok := dialect.Detect(slices.Sorted(maps.Keys(got))); !ok || d.ID != tt.dialect {
				t.Errorf("dialect %q (%v), want %s", d.ID, ok, tt.dialect)
			}
		})
	}
}

func TestReleasesThatAreNotImitatedAreRefused(t *testing.T) {
	for _, s := range []string{"", "0", "1.0", "0.6", "0.7", "0.7.3", "0.9.1", "0.34", "0.5", "x.y", "0.23.x", "0.-1",
		"0.23.0.1", "0.100"} {
		if r, err := fleet.ParseRelease(s); err == nil {
			t.Errorf("%q gave %s", s, r)
		}
	}
	for in, want := range map[string]string{"0.23": "0.23.0", "v0.23.1": "0.23.1", "0.10": "0.10.2", "0.9": "0.9.2",
		"0.33": "0.33.0"} {
		r, err := fleet.ParseRelease(in)
		if err != nil || fmt.Sprint(r) != want {
			t.Errorf("%q gave %v, %v", in, r, err)
		}
	}
}

func TestAScenarioIsTheSameEveryTime(t *testing.T) {
	if string(ownPage(t, "0.23", 8192)) != string(ownPage(t, "0.23", 8192)) {
		t.Error("two runs with one seed differ")
	}
}

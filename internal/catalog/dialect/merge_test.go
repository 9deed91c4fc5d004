package dialect_test

import (
	"bytes"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

func TestMergePutsAlternativesAtTheSeries(t *testing.T) {
	for name, tc := range map[string]struct {
		in   []string
		want string
	}{
		"the same": {
			in: []string{"sum(rate(a[5m]))", "sum(rate(a[5m]))"}, want: "sum(rate(a[5m]))",
		},
		"two names of a counter": {
			in: []string{"sum by (m) (rate(a[5m]))", "sum by (m) (rate(b[5m]))"}, want: "sum by (m) ((rate(a[5m]) or rate(b[5m])))",
		},
		"three names of a gauge": {
			in: []string{"max(a)", "max(b)", "max(c)"}, want: "max(((a or b) or c))",
		},
		"a percentile": {
			in:   []string{"histogram_quantile(0.95, sum by (le) (rate(a_bucket[5m])))", "histogram_quantile(0.95, sum by (le) (rate(b_bucket[5m])))"},
			want: "histogram_quantile(0.95, sum by (le) ((rate(a_bucket[5m]) or rate(b_bucket[5m]))))",
		},
		"one side of a quotient": {
			in: []string{"sum(a) / sum(n)", "sum(b) / sum(n)"}, want: "sum((a or b)) / sum(n)",
		},
		"a subquery": {
			in: []string{"max_over_time(a[1h:5s])", "max_over_time(b[1h:5s])"}, want: "(max_over_time(a[1h:5s]) or max_over_time(b[1h:5s]))",
		},
		"another shape": {
			in: []string{"sum(a) / sum(b)", "avg(c)"}, want: "((sum(a) / sum(b)) or avg(c))",
		},
		"another matching": {
			in: []string{"a / on (x) b", "c / on (y) d"}, want: "((a / on (x) b) or (c / on (y) d))",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dialect.Merge(tc.in)
			must.Succeed(t, err)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if _, err := indicator.Parse(got); err != nil {
				t.Error(err)
			}
		})
	}
	for name, in := range map[string][]string{"nothing": nil, "no PromQL": {"sum("}} {
		if got, err := dialect.Merge(in); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A fleet in which one of two replicas still has the names of old answers as
// one in which both have the new ones.
func TestMergedSignalsCountReplicasOfBothKinds(t *testing.T) {
	rec, err := recording.Open(t.Context(), "../../../testdata/recordings/replica-imbalance.tar.zst")
	must.Succeed(t, err)
	defer rec.Close()
	old := func(page []byte) []byte {
		for now, before := range map[string]string{
			"vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
			"vllm:kv_cache_usage_perc":         "vllm:gpu_cache_usage_perc",
			"vllm:prefix_cache_hits":           "vllm:gpu_prefix_cache_hits",
			"vllm:prefix_cache_queries":        "vllm:gpu_prefix_cache_queries",
		} {
			page = bytes.ReplaceAll(page, []byte(now), []byte(before))
		}
		return page
	}
	load := func(rename func(string, []byte) []byte) *embedded.Store {
		store := embeddedtest.New(t)
		if err := rec.Scrapes(func(s recording.Scrape) error {
			_, err := store.Append(embedded.Target{Instance: s.Target}, s.At, rename(s.Target, s.Body), "", 0)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return store
	}
	same := load(func(_ string, page []byte) []byte { return page })
	mixed := load(func(target string, page []byte) []byte {
		if target == rec.Targets()[0] {
			return old(page)
		}
		return page
	})

	_, at := rec.Times()
	fleet := func(dialects ...string) dialect.Deployment {
		d := dialect.Deployment{Instance: []string{}, Model: []string{"model_name"}}
		for _, id := range dialects {
			server, err := dialect.Named(id)
			must.Succeed(t, err)
			d.Dialects = append(d.Dialects, server)
		}
		return d
	}
	expr := func(d dialect.Deployment, s *indicator.Signal) string {
		var each []string
		for _, dia := range d.Dialects {
			one := d
			one.Dialects = []dialect.Dialect{dia}
			e, err := one.Unguarded(s)
			must.Succeed(t, err)
			each = append(each, e)
		}
		merged, err := dialect.Merge(each)
		must.Succeed(t, err)
		return merged
	}
	for _, s := range []*indicator.Signal{indicator.ITLP95, indicator.ITLMean, indicator.KVUsage, indicator.PrefixHitRatio, indicator.TTFTP95, indicator.Running} {
		want, err := same.Query(t.Context(), expr(fleet("vllm-0.23.0"), s), at)
		must.Succeed(t, err)
		for _, order := range [][]string{{"vllm-0.23.0", "vllm-0.9.1"}, {"vllm-0.9.1", "vllm-0.23.0"}} {
			q := expr(fleet(order...), s)
			got, err := mixed.Query(t.Context(), q, at)
			if err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			if len(got) != 1 || len(want) != 1 || got[0].Value != want[0].Value {
				t.Errorf("%s, %v: %v, want %v\n%s", s.Name, order, got, want, q)
			}
		}
	}
}

package pages_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/pages"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

const recordings = "../../../testdata/recordings/"

// rewrite writes what is stored as a recording and loads that.
func rewrite(t *testing.T, q metrics.Querier, r pages.Request) (store *embedded.Store, first, last time.Time, res pages.Result) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evidence.tar.zst")
	w, err := recording.Create(path)
	must.Succeed(t, err)
	res, err = pages.Write(t.Context(), q, r, w.Add)
	must.Succeed(t, err)
	must.Succeed(t, w.Close())
	store, first, last = embeddedtest.Open(t, path, nil)
	return store, first, last, res
}

func judge(t *testing.T, store *embedded.Store, first, last time.Time) diagnose.Diagnosis {
	t.Helper()
	o := diagnose.Options{At: last, First: first, Interval: time.Second, Every: true, Pathologies: pathologies.All()}
	for _, target := range store.Targets() {
		if at, ok := store.FirstCreated(target); ok && (o.Created.IsZero() || at.Before(o.Created)) {
			o.Created = at
		}
	}
	d, err := diagnose.Run(context.Background(), store, o)
	must.Succeed(t, err)
	return d
}

func instances(store *embedded.Store) (out []string) {
	for _, target := range store.Targets() {
		out = append(out, target.Instance)
	}
	return out
}

// outline is what of a diagnosis must be the same when it is made of the pages written.
func outline(d diagnose.Diagnosis) (out []string) {
	for _, v := range d.Verdicts {
		out = append(out, fmt.Sprintf("%s %s %s %v since %s %v %.2f: %s", v.ID, v.Severity, v.Model, v.Targets, v.Since.UTC(), v.SinceAtLeast, v.Confidence, v.Summary))
	}
	for _, f := range d.Findings {
		out = append(out, fmt.Sprintf("%s %s %v", f.Pathology.ID, f.Status, f.Targets))
		for _, e := range f.Evidence {
			out = append(out, fmt.Sprintf("  %s %.6g %.6g %.6g", e.Signal.Name, e.Value.Or(math.NaN()), e.Baseline.Or(math.NaN()), e.Threshold))
		}
	}
	return append(out, d.Notes...)
}

// TestVerdictsSurvive writes what was stored of every fourth recording, or with
// SIXTY_ACCURACY=full of every one, and diagnoses that: every number is the same.
func TestVerdictsSurvive(t *testing.T) {
	files, err := filepath.Glob(recordings + "*.tar.zst")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	every := 4
	if os.Getenv("SIXTY_ACCURACY") == "full" {
		every = 1
	}
	for i, file := range files {
		if i%every != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.zst"), func(t *testing.T) {
			store, first, last := embeddedtest.Open(t, file, nil)
			again, first2, last2, res := rewrite(t, store, pages.Request{Instances: instances(store), From: first.Add(-time.Second), To: last})
			if !first.Equal(first2) || !last.Equal(last2) || res.Stride != 1 {
				t.Errorf("from %s to %s, %+v, want from %s to %s", first2, last2, res, first, last)
			}
			if diff := cmp.Diff(outline(judge(t, store, first, last)), outline(judge(t, again, first2, last2))); diff != "" {
				t.Errorf("(-stored +written and read)\n%s", diff)
			}
		})
	}
}

// a server that is scraped with labels.
func labelled(t *testing.T, targets ...embedded.Target) *embedded.Store {
	t.Helper()
	store := embeddedtest.New(t)
	for i := range 10 {
		for k, target := range targets {
			page := fmt.Sprintf("# TYPE n counter\nn_total{path=\"a\\\\b\\\"c\\nd\",instance=\"own\"} %d\ng -Inf\ng2 %d.25\n{\"dotted.name\",\"dotted.label\"=\"x\"} 1\n# TYPE h histogram\n"+
				"h_bucket{le=\"0.5\"} %d\nh_bucket{le=\"+Inf\"} %d\nh_sum %d\nh_count %d\n# TYPE s summary\ns{quantile=\"0.5\"} NaN\n", i, k, i, 2*i, i, 2*i)
			at := time.Unix(1_700_000_000+int64(i), 0)
			if i == 5 {
				must.Succeed(t, store.AppendFailure(target, at))
			} else {
				_, err := store.Append(target, at, []byte(page), "", 10*time.Millisecond)
				must.Succeed(t, err)
			}
		}
	}
	return store
}

var end = time.Unix(1_700_000_009, 0)

func everything(t *testing.T, q metrics.Querier) map[string]string {
	t.Helper()
	m, err := q.Samples(t.Context(), `{__name__=~".+",__name__!~"scrape_.+"}`, end, time.Minute)
	must.Succeed(t, err)
	out := map[string]string{}
	for _, s := range m {
		out[s.Metric.String()] = fmt.Sprint(s.Values)
	}
	return out
}

// TestSeriesSurvive holds labels of every kind, escapes, failed scrapes, infinities.
func TestSeriesSurvive(t *testing.T) {
	store := labelled(t, embedded.Target{Instance: "a:1"})
	again, _, _, res := rewrite(t, store, pages.Request{Instances: []string{"a:1"}, From: end.Add(-time.Minute), To: end})
	if res.Pages != 9 || res.Failed != 1 || res.Targets != 1 {
		t.Errorf("got %+v", res)
	}
	got := everything(t, again)
	if diff := cmp.Diff(everything(t, store), got); diff != "" {
		t.Errorf("(-stored +written and read)\n%s", diff)
	}
	if len(got) < 9 {
		t.Errorf("only %d series", len(got))
	}
}

// TestLabelsOfTheTarget holds that what a scrape attached is not taken for what the page
// said, and that targets which share an instance stay apart.
func TestLabelsOfTheTarget(t *testing.T) {
	store := labelled(t, embedded.Target{Instance: "a:1", Job: "vllm", Labels: map[string]string{"namespace": "prod"}}, embedded.Target{Instance: "a:1", Job: "vllm", Labels: map[string]string{"namespace": "test"}})
	again, _, _, res := rewrite(t, store, pages.Request{Instances: []string{"a:1"}, From: end.Add(-time.Minute), To: end})
	for instance, namespace := range map[string]string{"a:1": "prod", "a:1-2": "test"} {
		v, err := again.Query(t.Context(), fmt.Sprintf(`n_total{instance=%q}`, instance), end)
		if err != nil || len(v) != 1 || v[0].Metric["namespace"] != "" || v[0].Metric["job"] != "" || v[0].Metric["exported_instance"] != "own" {
			t.Errorf("%s: %v, %v", instance, v, err)
		}
		if l := res.Labels[instance]; l["namespace"] != model.LabelValue(namespace) || l["job"] != "vllm" {
			t.Errorf("%s was called %v", instance, l)
		}
	}
}

// TestVerdictsSurviveLabels is TestVerdictsSurvive where the scrapes attached labels.
func TestVerdictsSurviveLabels(t *testing.T) {
	for _, name := range []string{"thrashing-deep", "replica-imbalance", "one-replica-down"} {
		store, first, last := embeddedtest.Open(t, recordings+name+".tar.zst", func(target string) embedded.Target {
			return embedded.Target{Instance: target, Job: "vllm", Labels: map[string]string{"namespace": "prod", "pod": "pod-" + target}}
		})
		again, first2, last2, _ := rewrite(t, store, pages.Request{Instances: instances(store), From: first.Add(-time.Second), To: last})
		was, is := judge(t, store, first, last), judge(t, again, first2, last2)
		if diff := cmp.Diff(outline(was), outline(is)); diff != "" || len(was.Targets) != len(is.Targets) {
			t.Errorf("%s: %d targets, then %d (-stored +written and read)\n%s", name, len(was.Targets), len(is.Targets), diff)
		}
	}
}

func TestOnlyWhatIsAskedFor(t *testing.T) {
	store := labelled(t, embedded.Target{Instance: "a:1"}, embedded.Target{Instance: "b:1"})
	again, first, last, _ := rewrite(t, store, pages.Request{Instances: []string{"b:1"}, From: end.Add(-3500 * time.Millisecond), To: end.Add(-time.Second)})
	if got := instances(again); !slices.Equal(got, []string{"b:1"}) {
		t.Errorf("targets %v", got)
	}
	if !first.Equal(end.Add(-3*time.Second)) || !last.Equal(end.Add(-time.Second)) {
		t.Errorf("from %s to %s", first, last)
	}
}

// TestHowLongAFailureTookIsKept: a refusal and a timeout are told apart in a recording of what was stored.
func TestHowLongAFailureTookIsKept(t *testing.T) {
	store := embeddedtest.New(t)
	target := embedded.Target{Instance: "a:1"}
	for i, took := range []time.Duration{0, 3 * time.Millisecond, 10 * time.Second, 0} {
		at := end.Add(time.Duration(i-3) * 15 * time.Second)
		if i == 0 {
			embeddedtest.Append(t, store, target, at, "a_b 1\n")
			continue
		}
		must.Succeed(t, store.AppendFailureAfter(target, at, took))
	}
	again, _, _, _ := rewrite(t, store, pages.Request{Instances: []string{"a:1"}, From: end.Add(-time.Minute), To: end})
	m, err := again.Samples(t.Context(), `scrape_duration_seconds`, end, time.Minute)
	must.Succeed(t, err)
	var got []float64
	for _, s := range m {
		for _, v := range s.Values {
			got = append(got, float64(v.Value))
		}
	}
	if want := []float64{0.003, 10}; !slices.Equal(got, want) {
		t.Errorf("failures took %v s, want %v and one that is not known", got, want)
	}
}

func TestTooMuchIsThinnedOut(t *testing.T) {
	store, first, last := embeddedtest.Open(t, recordings+"thrashing-deep.tar.zst", nil)
	r := pages.Request{Instances: instances(store), From: first.Add(-time.Second), To: last, MaxBytes: 1 << 20}
	again, _, end, res := rewrite(t, store, r)
	if res.Stride < 2 || res.Bytes > r.MaxBytes*11/10 || !end.Equal(last) {
		t.Errorf("got %+v until %s, want at most %d bytes until %s", res, end, r.MaxBytes, last)
	}
	d := judge(t, again, first, last)
	if d.Verdict.ID != "kv-cache-thrashing" {
		t.Errorf("verdict %s", d.Verdict.ID)
	}
}

func TestNothingStored(t *testing.T) {
	store := labelled(t, embedded.Target{Instance: "a:1"})
	add := func(string, time.Time, []byte, time.Duration) error { t.Error("a page is written"); return nil }
	for _, r := range []pages.Request{
		{Instances: []string{"c:1"}, From: end.Add(-time.Minute), To: end},
		{Instances: []string{"a:1"}, From: end.Add(-time.Hour), To: end.Add(-30 * time.Minute)},
		{From: end.Add(-time.Minute), To: end},
	} {
		if _, err := pages.Write(t.Context(), store, r, add); err == nil {
			t.Errorf("%+v: no error", r)
		}
	}
}

func TestItEnds(t *testing.T) {
	store := labelled(t, embedded.Target{Instance: "a:1"})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := pages.Write(ctx, store, pages.Request{Instances: []string{"a:1"}, From: end.Add(-time.Minute), To: end}, func(string, time.Time, []byte, time.Duration) error {
		cancel()
		return nil
	})
	if err == nil {
		t.Error("it goes on")
	}
}

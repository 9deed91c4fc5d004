package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vllm is the target of most tests; sec is a time in the tests' own clock.
var vllm = Target{Instance: "vllm-0:8000", Job: "vllm"}

func sec(s float64) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(s*1000)) }

// unix is sec as a page writes a time.
func unix(s float64) float64 { return float64(sec(s).UnixMilli()) / 1000 }

func add(t *testing.T, s *Store, at time.Time, page string) scrape.Info {
	t.Helper()
	info, err := s.Append(vllm, at, []byte(page), "", 10*time.Millisecond)
	must.Succeed(t, err)
	return info
}

// ask returns the result of an instant query as sorted lines "series value".
func ask(t *testing.T, s *Store, at time.Time, expr string) []string {
	t.Helper()
	v, err := s.Query(t.Context(), expr, at)
	must.Succeed(t, err)
	lines := []string{}
	for _, x := range v {
		lines = append(lines, fmt.Sprintf("%s %v", x.Metric, x.Value))
	}
	slices.Sort(lines)
	return lines
}

func wantAsk(t *testing.T, s *Store, at time.Time, expr string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, ask(t, s, at, expr)); diff != "" {
		t.Errorf("%s at %s (-want +got):\n%s", expr, at, diff)
	}
}

// wantSamples compares the raw samples of a series, "value@seconds" each.
func wantSamples(t *testing.T, s *Store, selector string, want ...string) {
	t.Helper()
	got := []string{}
	res, err := s.engine.NewInstantQuery(t.Context(), s.db, nil, selector+"[100y]", sec(1e6))
	must.Succeed(t, err)
	defer res.Close()
	m, err := res.Exec(t.Context()).Matrix()
	must.Succeed(t, err)
	for _, x := range m {
		for _, p := range x.Floats {
			got = append(got, fmt.Sprintf("%v@%v", p.F, float64(p.T-sec(0).UnixMilli())/1000))
		}
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		t.Errorf("samples of %s (-want +got):\n%s", selector, diff)
	}
}

func TestAPageBecomesWhatAScrapeOfPrometheusMakesOfIt(t *testing.T) {
	s := openStore(t, Config{})
	target := Target{Instance: "vllm-0:8000", Job: "vllm", Labels: map[string]string{"namespace": "prod", "pod": "vllm-0"}}
	page := "a_b{instance=\"theirs\",pod=\"p\",exported_pod=\"q\",empty=\"\"} 1 1234\n"
	if _, err := s.Append(target, sec(0), []byte(page), "", 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	const own = `instance="vllm-0:8000", job="vllm", namespace="prod", pod="vllm-0"`
	wantAsk(t, s, sec(0), "a_b", `a_b{exported_exported_pod="p", exported_instance="theirs", exported_pod="q", `+own+`} 1`)
	wantAsk(t, s, sec(0), "up", `up{`+own+`} 1`)
	wantAsk(t, s, sec(0), "scrape_duration_seconds", `scrape_duration_seconds{`+own+`} 1.5`)
	wantAsk(t, s, sec(0), "scrape_samples_scraped", `scrape_samples_scraped{`+own+`} 1`)
	wantSamples(t, s, "a_b", "1@0")
}

func TestATargetWithoutAJobHasNoSuchLabel(t *testing.T) {
	s := openStore(t, Config{})
	if _, err := s.Append(Target{Instance: "r0"}, sec(0), []byte("a_b 1\n"), "", 0); err != nil {
		t.Fatal(err)
	}
	wantAsk(t, s, sec(0), "a_b", `a_b{instance="r0"} 1`)
}

func TestWhatVanishesIsStale(t *testing.T) {
	s := openStore(t, Config{})
	add(t, s, sec(0), "a_b 1\nc_d 1\n")
	add(t, s, sec(1), "a_b 2\n")
	wantAsk(t, s, sec(0.5), "count(c_d)", "{} 1")
	wantAsk(t, s, sec(1), "c_d")
	wantAsk(t, s, sec(1), "count(a_b)", "{} 1")
	add(t, s, sec(2), "a_b 2\nc_d 5\n")
	wantAsk(t, s, sec(2), "sum(c_d)", "{} 5")
}

func TestAFailedScrapeSetsUpToZeroAndMakesEverythingStale(t *testing.T) {
	s := openStore(t, Config{})
	add(t, s, sec(0), "a_b 1\n")
	must.Succeed(t, s.AppendFailure(vllm, sec(1)))
	wantAsk(t, s, sec(1), "a_b")
	wantAsk(t, s, sec(1), "sum(up)", "{} 0")
	if _, err := s.Append(vllm, sec(2), []byte("<html>"), "", 0); !errors.Is(err, scrape.ErrNotExposition) {
		t.Fatalf("error %v", err)
	}
	wantAsk(t, s, sec(2), "sum(up)", "{} 0")
	add(t, s, sec(3), "a_b 1\n")
	wantAsk(t, s, sec(3), "sum(a_b)", "{} 1")
	wantAsk(t, s, sec(3), "sum(up)", "{} 1")
	wantAsk(t, s, sec(3), "avg_over_time(sum(up)[4s:1s])", "{} 0.5")
}

func TestAFailureBeforeTheFirstPage(t *testing.T) {
	s := openStore(t, Config{})
	must.Succeed(t, s.AppendFailure(vllm, sec(0)))
	add(t, s, sec(1), fmt.Sprintf("# TYPE a_total counter\na_total 5\nprocess_start_time_seconds %f\n", unix(-100)))
	wantSamples(t, s, "a_total", "0@-100", "5@1")
	first, last, ok := s.Times()
	if !first.Equal(sec(0)) || !last.Equal(sec(1)) || !ok {
		t.Errorf("times %s to %s, %t", first, last, ok)
	}
}

func TestCountersBeginAtZeroWhenTheyWereCreated(t *testing.T) {
	start := fmt.Sprintf("process_start_time_seconds %f\n", unix(-100))
	for name, tc := range map[string]struct {
		pages    []string
		selector string
		want     []string
	}{
		"at the start of the process": {
			[]string{"# TYPE a_total counter\na_total 7\n" + start}, "a_total", []string{"0@-100", "7@0"},
		},
		"at their own creation, as Python's client writes it": {
			[]string{"# TYPE a_total counter\na_total{x=\"1\"} 7\n# TYPE a_created gauge\na_created{x=\"1\"} " + fmt.Sprintf("%f", unix(-50)) + "\n" + start},
			"a_total",
			[]string{"0@-50", "7@0"},
		},
		"at their own creation, as OpenMetrics writes it": {
			[]string{"# TYPE a counter\na_total{x=\"1\"} 7\na_created{x=\"1\"} " + fmt.Sprintf("%f", unix(-50)) + "\n# EOF\n"},
			"a_total",
			[]string{"0@-50", "7@0"},
		},
		"with the creation time of another series of the family": {
			[]string{"# TYPE a_total counter\na_total{x=\"1\"} 7\n# TYPE a_created gauge\na_created{x=\"2\"} " + fmt.Sprintf("%f", unix(-50)) + "\n"},
			"a_total",
			[]string{"7@0"},
		},
		"buckets have their histogram's creation time": {
			[]string{"# TYPE h_total histogram\nh_total_bucket{le=\"1\",x=\"1\"} 7\nh_total_count{x=\"1\"} 7\n# TYPE h_total_created gauge\nh_total_created{x=\"1\"} " + fmt.Sprintf("%f", unix(-50)) + "\n"},
			`h_total_bucket`,
			[]string{"0@-50", "7@0"},
		},
		"a count of a summary": {
			[]string{"# TYPE s summary\ns{quantile=\"0.5\"} 7\ns_count 7\n" + start}, "s_count", []string{"0@-100", "7@0"},
		},
		"not a quantile of a summary": {
			[]string{"# TYPE s summary\ns{quantile=\"0.5\"} 7\ns_count 7\n" + start}, "s", []string{"7@0"},
		},
		"not a gauge": {
			[]string{"# TYPE g gauge\ng 7\n" + start}, "g", []string{"7@0"},
		},
		"not a series of unknown type": {
			[]string{"a_total 7\n" + start}, "a_total", []string{"7@0"},
		},
		"not when nobody says since when it counts": {
			[]string{"# TYPE a_total counter\na_total 7\n"}, "a_total", []string{"7@0"},
		},
		"not in the future": {
			[]string{"# TYPE a_total counter\na_total 7\nprocess_start_time_seconds " + fmt.Sprintf("%f", unix(5)) + "\n"}, "a_total", []string{"7@0"},
		},
		"not at a time that is none": {
			[]string{"# TYPE a_total counter\na_total 7\nprocess_start_time_seconds -5\n"}, "a_total", []string{"7@0"},
		},
		"not before a negative sum": {
			[]string{"# TYPE h histogram\nh_sum -7\n" + start}, "h_sum", []string{"-7@0"},
		},
		"at the page before, when they come later": {
			[]string{"b_c 1\n" + start, "b_c 1\n" + start, "# TYPE a_total counter\na_total 7\nb_c 1\n" + start}, "a_total", []string{"0@1", "7@2"},
		},
		"once only, though they vanish and come back": {
			[]string{"# TYPE a_total counter\na_total 7\nb_c 1\n" + start, "b_c 1\n", "# TYPE a_total counter\na_total 8\n"},
			"a_total",
			[]string{"0@-100", "7@0", "8@2"},
		},
		"not after a reset": {
			[]string{"# TYPE a_total counter\na_total 7\n" + start, "# TYPE a_total counter\na_total 2\n" + fmt.Sprintf("process_start_time_seconds %f\n", unix(0.5))},
			"a_total",
			[]string{"0@-100", "7@0", "2@1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, Config{})
			for i, page := range tc.pages {
				add(t, s, sec(float64(i)), page)
			}
			wantSamples(t, s, tc.selector, tc.want...)
			if w := s.Warnings(); len(w) > 0 {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

func TestCreationTimesAreGauges(t *testing.T) {
	s := openStore(t, Config{})
	add(t, s, sec(0), `# TYPE a_total counter
a_total 7
# TYPE a_created gauge
a_created 1.7e9
# TYPE h histogram
h_count 1
# TYPE h_created gauge
h_created 1.7e9
# TYPE pods_created gauge
pods_created 3
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7e9
`)
	wantAsk(t, s, sec(0), `count by (__name__) ({__name__=~".+_created|process_start_time_seconds"})`,
		"a_created 1", "h_created 1", "pods_created 1", "process_start_time_seconds 1")
}

func TestFirstCreated(t *testing.T) {
	page := fmt.Sprintf("# TYPE a_total counter\na_total 7\n# TYPE a_created gauge\na_created %f\n# TYPE b_total counter\nb_total 7\n# TYPE b_created gauge\nb_created %f\n", unix(-40), unix(-50))
	for name, tc := range map[string]struct {
		page string
		want time.Time
		ok   bool
	}{
		"the earliest creation":         {page + fmt.Sprintf("process_start_time_seconds %f\n", unix(-100)), sec(-50), true},
		"the start of the process":      {fmt.Sprintf("a_total 1\nprocess_start_time_seconds %f\n", unix(-100)), sec(-100), true},
		"a page that does not say when": {"a_total 1\n", time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, Config{})
			add(t, s, sec(0), tc.page)
			add(t, s, sec(1), fmt.Sprintf("a_total 1\nprocess_start_time_seconds %f\n", unix(0.5))) // a restart
			got, ok := s.FirstCreated(vllm)
			if ok != tc.ok || ok && !got.Equal(tc.want) {
				t.Errorf("%s, %t; want %s, %t", got, ok, tc.want, tc.ok)
			}
		})
	}
	if _, ok := openStore(t, Config{}).FirstCreated(vllm); ok {
		t.Error("a target without pages was created")
	}
}

func TestTheFirstPageTellsTheLifeOfTheProcess(t *testing.T) {
	s := openStore(t, Config{})
	at := time.Unix(5000, 0)
	if _, err := s.Append(vllm, at, metricstest.Page(800), "", 0); err != nil {
		t.Fatal(err)
	}
	v, err := s.Query(t.Context(), `sum(increase(vllm:request_queue_time_seconds_count[4001s]))`, at)
	if err != nil || len(v) != 1 {
		t.Fatal(v, err)
	}
	if got := float64(v[0].Value); math.Abs(got-800) > 1e-6 {
		t.Errorf("increase over the life is %v, want 800", got)
	}
}

func TestAClockThatStepsBackCostsThePagesInBetween(t *testing.T) {
	s := openStore(t, Config{})
	for _, at := range []float64{0, 1, 2, 1.5, 2, 3} {
		add(t, s, sec(at), fmt.Sprintf("a_b %v\n", at))
	}
	wantSamples(t, s, "a_b", "0@0", "1@1", "2@2", "3@3")
	if got := s.Warnings(); len(got) != 1 || !strings.Contains(got[0], "Dropped 2 pages") {
		t.Errorf("warnings %q", got)
	}
}

func TestTimesThatCannotBeAskedForAreRefused(t *testing.T) {
	s := openStore(t, Config{})
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, err := s.Append(vllm, at, []byte("a_b 1\n"), "", 0); err == nil {
			t.Errorf("a page at %s: no error", at)
		}
		if err := s.AppendFailure(vllm, at); err == nil {
			t.Errorf("a failure at %s: no error", at)
		}
	}
}

func TestTargetsAreIndependentInTime(t *testing.T) {
	s := openStore(t, Config{})
	old := Target{Instance: "old"}
	add(t, s, sec(0), "a_b 1\n")
	if _, err := s.Append(old, sec(0).AddDate(-10, 0, 0), []byte("a_b 2\n"), "", 0); err != nil {
		t.Fatal(err)
	}
	wantAsk(t, s, sec(0).AddDate(-10, 0, 0), "a_b", `a_b{instance="old"} 2`)
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("warnings %q", w)
	}
	if got := s.Targets(); len(got) != 2 || got[0].Instance != "old" || got[1].Instance != vllm.Instance {
		t.Errorf("targets %v", got)
	}
}

func TestASeriesThatComesTwiceKeepsItsLastValue(t *testing.T) {
	s := openStore(t, Config{})
	for i := range 2 {
		if info := add(t, s, sec(float64(i)), "a_b 1\nc_d 1\na_b 2\na_b 3\n"); info.Duplicates != 2 || info.Samples != 4 {
			t.Errorf("info %+v", info)
		}
	}
	wantSamples(t, s, "a_b", "3@0", "3@1")
	if got := s.Warnings(); len(got) != 1 || !strings.Contains(got[0], "4 samples were duplicates") {
		t.Errorf("warnings %q", got)
	}
}

func TestOneSeriesWrittenInTwoWaysIsCounted(t *testing.T) {
	s := openStore(t, Config{})
	add(t, s, sec(0), "a_b{x=\"1\",y=\"2\"} 1\na_b{y=\"2\",x=\"1\"} 2\nup 0\n")
	wantAsk(t, s, sec(0), "count(a_b)", "{} 1")
	wantAsk(t, s, sec(0), "sum(up)", "{} 1")
}

func TestInvalidSeriesAreDroppedAlone(t *testing.T) {
	s := openStore(t, Config{})
	var many strings.Builder
	for i := range maxLabels + 1 {
		fmt.Fprintf(&many, "l%d=\"x\",", i)
	}
	page := "a_b 1\ntwice_{x=\"1\",x=\"2\"} 1\nmany_{" + many.String() + "} 1\nlong_{x=\"" + strings.Repeat("y", maxLabelBytes) + "\"} 1\n"
	add(t, s, sec(0), page)
	add(t, s, sec(1), page)
	wantAsk(t, s, sec(1), `count by (__name__) ({instance="vllm-0:8000",__name__!~"up|scrape_.*"})`, "a_b 1")
	if got := s.Warnings(); len(got) != 1 || !strings.Contains(got[0], "Dropped 3 series") {
		t.Errorf("warnings %q", got)
	}
}

func TestTooManySeriesAreDropped(t *testing.T) {
	s := openStore(t, Config{})
	s.maxSeries = 5
	for i := range 3 {
		add(t, s, sec(float64(i)), fmt.Sprintf("a_b 1\nc_d{x=\"%d\"} 1\nc_e{x=\"%d\"} 1\n", i, i))
	}
	if n := s.db.Head().NumSeries(); n > 5 {
		t.Errorf("%d series", n)
	}
	wantAsk(t, s, sec(2), "count(a_b)", "{} 1")
	if got := s.Warnings(); len(got) != 1 || !strings.Contains(got[0], "more than 5 series") {
		t.Errorf("warnings %q", got)
	}
}

func TestChangingLabelsDoNotFillTheMemory(t *testing.T) {
	s := openStore(t, Config{})
	for i := range 50 {
		var page strings.Builder
		page.WriteString("a_b 1\n")
		for j := range 200 {
			fmt.Fprintf(&page, "c_d{x=\"%d\"} 1\n", i*200+j)
		}
		add(t, s, sec(float64(i)), page.String())
	}
	if n := len(s.targetState(vllm).cache); n > 2000 {
		t.Errorf("%d lines are remembered", n)
	}
	wantAsk(t, s, sec(49), "count(c_d)", "{} 200")
	wantAsk(t, s, sec(49), "count_over_time(a_b[1h])", `{instance="vllm-0:8000", job="vllm"} 50`)
}

func TestQuery(t *testing.T) {
	s := openStore(t, Config{})
	for i := range 5 {
		add(t, s, sec(float64(i)), fmt.Sprintf("a_b{x=\"1\"} %d\na_b{x=\"2\"} 7\n", i))
	}
	ctx := t.Context()
	v, err := s.Query(ctx, "1 + 1", sec(4))
	if want := (model.Vector{{Metric: model.Metric{}, Value: 2, Timestamp: model.TimeFromUnixNano(sec(4).UnixNano())}}); err != nil || cmp.Diff(want, v) != "" {
		t.Errorf("a scalar: %v, %v", v, err)
	}
	if v, err := s.Query(ctx, "nothing", sec(4)); err != nil || len(v) != 0 {
		t.Errorf("nothing selected: %v, %v", v, err)
	}
	m, err := s.QueryRange(ctx, `sum by (x) (a_b{x="1"})`, metrics.Range{Start: sec(1), End: sec(3), Step: time.Second})
	if err != nil || len(m) != 1 || len(m[0].Values) != 3 || m[0].Values[2].Value != 3 || m[0].Metric["x"] != "1" {
		t.Errorf("a range: %v, %v", m, err)
	}
	if m, err := s.QueryRange(ctx, "1", metrics.Range{Start: sec(1), End: sec(3), Step: time.Second}); err != nil || len(m) != 1 || len(m[0].Values) != 3 {
		t.Errorf("a scalar over a range: %v, %v", m, err)
	}
	if v, err := s.Query(ctx, `a_b @ end() offset -1s`, sec(3)); err != nil || len(v) != 2 {
		t.Errorf("modifiers: %v, %v", v, err)
	}
	for _, expr := range []string{"a_b[5m]", `"text"`, "sum(", ""} {
		if v, err := s.Query(ctx, expr, sec(4)); err == nil {
			t.Errorf("%q: %v, want an error", expr, v)
		}
	}
	if _, err := s.QueryRange(ctx, "a_b", metrics.Range{Start: sec(1), End: sec(3)}); err == nil {
		t.Error("a range without a step: no error")
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Query(canceled, "a_b", sec(4)); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	for _, err := range []error{promql.ErrTooManySamples("query execution"), promql.ErrQueryTimeout("query execution")} {
		if got := explainQueryError(t.Context(), "a_b", err); !errors.Is(got, err) || !strings.Contains(hint.Of(got), "shorter window") {
			t.Errorf("error %v with hint %q", got, hint.Of(got))
		}
	}
}

func TestATemporaryStoreLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := Open(Config{})
	must.Succeed(t, err)
	add(t, s, sec(0), "a_b 1\n")
	must.Succeed(t, s.Close())
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestANamedStoreOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		s, err := Open(Config{Dir: dir})
		must.Succeed(t, err)
		page := fmt.Sprintf("# TYPE a_total counter\na_total %d\nprocess_start_time_seconds %f\n", i+1, unix(-100))
		add(t, s, sec(float64(i)), page)
		wantAsk(t, s, sec(1), "sum(count_over_time(a_total[10s]))", fmt.Sprintf("{} %d", i+1))
		if i == 1 {
			wantSamples(t, s, "a_total", "0@-100", "1@0", "2@1")
		}
		if w := s.Warnings(); len(w) > 0 {
			t.Errorf("warnings %q", w)
		}
		must.Succeed(t, s.Close())
	}
}

func TestAppendsAndQueriesRunTogether(t *testing.T) {
	s := openStore(t, Config{})
	var wg sync.WaitGroup
	const targets, pages = 4, 20
	for i := range targets {
		wg.Go(func() {
			for j := range pages {
				if _, err := s.Append(Target{Instance: fmt.Sprint(i)}, sec(float64(j)), metricstest.Page(j), "", 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for j := range pages {
				if _, err := s.Query(t.Context(), "sum(rate(vllm:generation_tokens_total[5s]))", sec(float64(j))); err != nil {
					t.Error(err)
				}
				s.Warnings()
				s.Times()
			}
		})
	}
	wg.Wait()
	wantAsk(t, s, sec(pages), "count(up == 1)", fmt.Sprintf("{} %d", targets))
	wantAsk(t, s, sec(pages), "sum(vllm:prompt_tokens_total)", fmt.Sprintf("{} %d", targets*(pages-1)))
}

func TestValuesThatAreNoMeasurementsAreDroppedAndTold(t *testing.T) {
	s := openStore(t, Config{})
	const types = "# TYPE c_total counter\n# TYPE h histogram\n# TYPE q summary\n"
	for i, v := range []string{"1", "NaN", "+Inf", "-Inf", "1e300", "6"} {
		add(t, s, sec(float64(i)), types+"g "+v+"\nc_total "+v+"\nh_bucket{le=\"+Inf\"} 3\nh_sum -2\nq{quantile=\"0.5\"} NaN\n")
	}
	add(t, s, sec(6), types+"g -7\nc_total -7\nlate_total 5\n# TYPE late_total counter\n")
	wantSamples(t, s, "g", "1@0", "6@5", "-7@6")
	wantSamples(t, s, "c_total", "1@0", "6@5")
	wantSamples(t, s, `h_bucket{le="+Inf"}`, "3@0", "3@1", "3@2", "3@3", "3@4", "3@5")
	wantAsk(t, s, sec(2), "c_total") // stale, as if the page did not have it
	if got, want := strings.Join(s.Warnings(), "\n"), "Ignored 9 invalid values (NaN, infinite, too large, or a negative count), first in g"; !strings.Contains(got, want) {
		t.Errorf("warnings %q do not tell that %q", got, want)
	}
}

// A counter whose first value was no measurement was there before, so that no
// zero is known of it.
func TestACounterThatBeginsWithNaNDoesNotJump(t *testing.T) {
	s := openStore(t, Config{})
	for i, v := range []string{"NaN", "1000", "1001"} {
		add(t, s, sec(float64(i)), "# TYPE a gauge\na 1\n# TYPE c_total counter\nc_total "+v+"\n")
	}
	wantSamples(t, s, "c_total", "1000@1", "1001@2")
}

func TestAPageOfTooManySeriesIsRefused(t *testing.T) {
	s := openStore(t, Config{})
	add(t, s, sec(0), "# TYPE c_total counter\nc_total 1\n")
	var page strings.Builder
	page.WriteString("# TYPE c_total counter\nc_total 2\n")
	for i := range MaxPageSeries {
		fmt.Fprintf(&page, "vllm:by_user{user=\"%d\"} 1\n", i)
	}
	_, err := s.Append(vllm, sec(1), []byte(page.String()), "", 0)
	if !IsPageFault(err) || !errors.Is(err, ErrTooManySeries) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"50001 on one page", "at most 50000", "vllm:by_user alone has 50000"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
	if !strings.Contains(hint.Of(err), "metric_relabel_configs") {
		t.Errorf("hint %q", hint.Of(err))
	}
	add(t, s, sec(2), "# TYPE c_total counter\nc_total 3\n")
	wantSamples(t, s, "up", "1@0", "0@1", "1@2")
	wantSamples(t, s, "c_total", "1@0", "3@2")
	if n := len(s.targetState(vllm).cache); n > 10 {
		t.Errorf("%d lines are remembered", n)
	}
}

func TestATargetWithOtherSeriesAtEachScrapeIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	must.Succeed(t, err)
	s.churn.max = 10
	// scrape stores four series that were never there before, of which the last is named by n.
	scrape := func(instance string, n int) error {
		app := s.db.Appender(context.Background())
		defer func() { _ = app.Rollback() }()
		for i := range 4 {
			l := labels.FromStrings("__name__", "c_d", "job", "vllm", "instance", instance, "x", fmt.Sprint(4*n+i))
			if _, err := app.Append(0, l, sec(float64(n)).UnixMilli(), 1); err != nil {
				return err
			}
		}
		return app.Commit()
	}
	for n := range 2 {
		must.Succeed(t, scrape("bad:8000", n))
	}
	for n := 2; n < 5; n++ {
		if err := scrape("bad:8000", n); !errors.Is(err, ErrTooManySeries) || !strings.Contains(err.Error(), "metric_relabel_configs") {
			t.Errorf("scrape %d: %v", n, err)
		}
	}
	if err := scrape("bad:8000", 1); err != nil {
		t.Errorf("a page of known series: %v", err)
	}
	if err := scrape("good:8000", 2); err != nil {
		t.Errorf("another target: %v", err)
	}
	if n := s.db.Head().NumSeries(); n != 14 {
		t.Errorf("%d series in memory, want 10 of one target and 4 of the other", n)
	}
	must.Succeed(t, s.Close())
	again, err := Open(Config{Dir: dir}) // counts what the log holds
	must.Succeed(t, err)
	defer again.Close()
	again.churn.max = 10
	s = again
	if n := s.churn.series[scrapedTarget{"vllm", "bad:8000"}]; n != 8 {
		t.Errorf("%d series of the target are counted after a restart, want the 8 whose scrapes were stored", n)
	}
	if err := scrape("bad:8000", 9); !errors.Is(err, ErrTooManySeries) {
		t.Errorf("after a restart: %v", err)
	}
	must.Succeed(t, s.db.Head().Truncate(sec(1000).UnixMilli()))
	if err := scrape("bad:8000", 2000); err != nil {
		t.Errorf("after truncation: %v", err)
	}
}

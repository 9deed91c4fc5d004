package backfill_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/metrics/backfill"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

func TestPagesBecomeSamplesWithTheirTime(t *testing.T) {
	var b bytes.Buffer
	w := backfill.NewWriter(&b)
	target := labels.FromStrings("instance", "a:8000", "job", "vllm")
	page := "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"a \\\"b\\\"\\\\c\\nd\",job=\"own\"} 3\nfoo_bucket{le=\"+Inf\"} 1e+20\nnothing NaN\n"
	if err := w.AddPage(target, time.UnixMilli(1700000000123), []byte(page)); err != nil {
		t.Fatal(err)
	}
	for _, failed := range []string{"", "<html>"} {
		if err := w.AddPage(target, time.UnixMilli(1700000001000), []byte(failed)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := `vllm:num_requests_running{exported_job="own",instance="a:8000",job="vllm",model_name="a \"b\"\\c\nd"} 3 1700000000.123
foo_bucket{instance="a:8000",job="vllm",le="+Inf"} 1e+20 1700000000.123
nothing{instance="a:8000",job="vllm"} NaN 1700000000.123
up{instance="a:8000",job="vllm"} 1 1700000000.123
up{instance="a:8000",job="vllm"} 0 1700000001.000
up{instance="a:8000",job="vllm"} 0 1700000001.000
# EOF
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is written is an exposition that says the same again.
func TestARealRecordingReadsBack(t *testing.T) {
	rec, err := recording.Open(t.Context(), "../../../testdata/recordings/replica-imbalance.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var b bytes.Buffer
	n, err := backfill.Recording(&b, rec, "vllm")
	if err != nil {
		t.Fatal(err)
	}
	read, up := 0, 0
	first, last := rec.Times()
	info, err := scrape.Parse(b.Bytes(), "application/openmetrics-text", func(l labels.Labels, ts int64, _ float64) {
		read++
		if ts < first.UnixMilli() || ts > last.UnixMilli() || l.Get("instance") == "" || l.Get("job") != "vllm" {
			t.Fatalf("%s at %d", l, ts)
		}
		if l.Get(labels.MetricName) == "up" {
			up++
		}
	})
	if err != nil || info.Skipped > 0 || info.Refused != nil {
		t.Fatalf("%v, %d lines skipped, %v", err, info.Skipped, info.Refused)
	}
	if read != n || up != rec.Len() || n < 50_000 {
		t.Errorf("%d samples of %d written, %d of %d scrapes", read, n, up, rec.Len())
	}
	if !strings.HasSuffix(b.String(), "# EOF\n") {
		t.Error("no end")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

func TestAFullDiskIsTold(t *testing.T) {
	rec, err := recording.Open(t.Context(), "../../../testdata/recordings/two-seats.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if _, err := backfill.Recording(broken{}, rec, ""); err == nil {
		t.Error("no error")
	}
}

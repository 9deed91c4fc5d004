package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// store loads a recording of the repository.
func store(t *testing.T, name string) (*embedded.Store, time.Time, time.Time) {
	t.Helper()
	return embeddedtest.Open(t, "../../../testdata/recordings/"+name+".tar.zst", nil)
}

// The truth beside the recording says: usage steady near 0.8 with steady
// traffic, no queue, no preemption.
func TestMeasureFindsWhatTheRecordingHolds(t *testing.T) {
	s, first, last := store(t, "full-but-quiet")
	files, err := Measure(t.Context(), s, Config{From: first.Add(45 * time.Second), To: last, Window: 20 * time.Second, Short: 10 * time.Second, Source: "full-but-quiet", Created: last})
	must.Succeed(t, err)
	if len(files) != 1 {
		t.Fatalf("%d baselines, want one", len(files))
	}
	f := files[0]
	near := func(signal string, want, tolerance float64) {
		if got := f.Normal[signal]; math.Abs(got-want) > tolerance {
			t.Errorf("%s is %.3g, want %.3g ± %.3g", signal, got, want, tolerance)
		}
	}
	near("kv_cache_usage", 0.8, 0.15)
	near("preemption_rate", 0, 0)
	near("waiting", 0, 0.5)
	// What becomes of a server's requests is normal for the model that it serves.
	for _, share := range []string{"abandoned_share", "http_5xx_share", "http_4xx_share"} {
		if _, ok := f.Normal[share]; !ok {
			t.Errorf("%s is not measured", share)
		}
		near(share, 0, 0.05)
	}
	if f.Model == "" || f.Source != "full-but-quiet" {
		t.Errorf("model %q, source %q", f.Model, f.Source)
	}
	for _, signal := range []string{"ttft_p95", "itl_p95", "e2e_p95"} {
		th, ok := f.Threshold(signal, ">")
		if !ok || !(th.Value > th.Normal) || !(th.Normal > 0) || th.Why == "" {
			t.Errorf("%s: threshold %+v, %v", signal, th, ok)
		}
	}
}

func TestMeasureSaysWhatIsTooLittle(t *testing.T) {
	s, first, last := store(t, "engine-hung")
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"too short a time":  {Config{From: first, To: first.Add(20 * time.Second), Window: 10 * time.Second, Short: 10 * time.Second}, "is too short"},
		"nobody is served":  {Config{From: last.Add(-30 * time.Second), To: last.Add(30 * time.Second), Window: 10 * time.Second, Short: 10 * time.Second}, "fewer than 5 intervals"},
		"no server is seen": {Config{From: first.Add(-time.Hour), To: first.Add(-time.Minute), Window: 10 * time.Second, Short: 10 * time.Second}, "no inference server"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Measure(t.Context(), s, tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if name != "too short a time" && hint.Of(err) == "" {
				t.Error("no way out")
			}
		})
	}
}

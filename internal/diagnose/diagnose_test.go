package diagnose

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	tests := map[string]struct {
		q       float64
		buckets []bucket
		want    indicator.Value
	}{
		"linear within a bucket": {
			0.5, []bucket{{1, 0}, {2, 10}, {4, 20}, {inf, 20}}, indicator.Value{V: 2, OK: true, Bucket: stat.Bucket{Low: 1, High: 2}},
		},
		"a value in the first bucket is at most its bound": {
			0.5, []bucket{{0.3, 10}, {inf, 10}}, indicator.Value{V: 0.15, OK: true, Bucket: stat.Bucket{High: 0.3}, AtMost: true},
		},
		"a value beyond the last bound is at least that": {
			0.95, []bucket{{1, 5}, {60, 6}, {inf, 100}}, indicator.Value{V: 60, OK: true, Bucket: stat.Bucket{Low: 60, High: inf}, AtLeast: true},
		},
		"buckets out of order, and one that lost a count, are mended": {
			0.5, []bucket{{inf, 20}, {2, 9}, {1, 10}, {4, 20}}, indicator.Value{V: 1, OK: true, Bucket: stat.Bucket{High: 1}, AtMost: true},
		},
		"no observations":         {0.5, []bucket{{1, 0}, {inf, 0}}, indicator.Unknown("no observations")},
		"no bucket without bound": {0.5, []bucket{{1, 1}, {2, 2}}, indicator.Unknown("the histogram has no buckets")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := histogramOf(tt.buckets)
			if got := h.quantileReading(tt.q); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestWhatIsPendingIsNoHealth(t *testing.T) {
	at := time.Unix(10000, 0)
	s := &Snapshot{At: at}
	slow := &catalog.Pathology{ID: "slow-decode", Runbook: "# Slow decode\n"}
	finding := func(p *catalog.Pathology, status Status, targets ...string) Finding {
		return Finding{Pathology: p, Status: status, Severity: catalog.Ticket, likely: true, Targets: targets, Since: at.Add(-8 * time.Second)}
	}
	tests := map[string]struct {
		findings []Finding
		want     string
	}{
		"nothing": {[]Finding{finding(slow, OK, "r0")}, ""},
		"one":     {[]Finding{finding(slow, Pending, "r0")}, "Slow decode on r0 for 8 s"},
		"one that explains another": {
			[]Finding{finding(&catalog.Pathology{ID: "slow-prefill", ExplainedBy: []string{"slow-decode"}}, Pending, "r0"), finding(slow, Pending, "r0", "r1")},
			"Slow decode on r0, r1 for 8 s",
		},
		"two on many": {
			[]Finding{finding(slow, Pending, "r0", "r1", "r2", "r3"), finding(&catalog.Pathology{ID: "workload-shift", Runbook: "# Workload shift\n"}, Pending, "r0")},
			"Slow decode on 4 targets for 8 s; Workload shift on r0 for 8 s",
		},
	}
	for name, tt := range tests {
		unsure, over := (&pool{snapshot: s, findings: tt.findings}).pendingFindings()
		if got := strings.Join(unsure, "; "); got != tt.want || len(over) > 0 {
			t.Errorf("%s: %q and %q, want %q", name, got, over, tt.want)
		}
	}
}

// TestWhatAFiringCauseExplainsIsNotSuspected: beside a slow decode that fires, a degradation that nothing explains is no
// suspicion of its own.
func TestWhatAFiringCauseExplainsIsNotSuspected(t *testing.T) {
	slow := &catalog.Pathology{ID: "slow-decode", Runbook: "# Slow decode\n"}
	late := &catalog.Pathology{ID: "unexplained", Runbook: "# Unexplained degradation\n", ExplainedBy: []string{"slow-decode"}}
	for status, want := range map[Status]int{Firing: 0, OK: 1} {
		d := &Diagnosis{Findings: []Finding{{Pathology: slow, Status: status, Model: "m"}, {Pathology: late, Status: Pending, Model: "m"}}}
		if notes := diagnosisNotes(&Snapshot{}, nil, d); len(notes) != want {
			t.Errorf("slow decode is %s: %q, want %d notes", status, notes, want)
		}
	}
}

// TestAHintIsForWhatIsNotExposed holds that what to enable is not named beside a metric that is there, and only has too
// few observations, too little past or nothing to compare with.
func TestAHintIsForWhatIsNotExposed(t *testing.T) {
	limit := &catalog.Threshold{Name: "late"}
	for name, tt := range map[string]struct {
		value indicator.Value
		want  string
	}{
		"not exposed":                {indicator.Unknown("not exposed: vllm:x"), indicator.PrefixHitRatio.Hint},
		"no GPU exporter":            {indicator.Unknown("no GPU exporter"), indicator.PrefixHitRatio.Hint},
		"too few observations":       {indicator.Unknown("too few observations: 0, want 3"), ""},
		"a past that is short":       {indicator.Unknown("needs 5 min of history"), ""},
		"nothing to compare it with": {indicator.Known(0), ""},
	} {
		var g Gap
		g.addMissing([]catalog.Evidence{{Signal: indicator.PrefixHitRatio, Value: tt.value, Threshold: limit.Default}})
		if g.Hint != tt.want || len(g.Missing) != 1 {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

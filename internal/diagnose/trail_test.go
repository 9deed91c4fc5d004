package diagnose_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestGaugesDateFaults: what is read from gauges alone, of a GPU, a process or a log, began when the gauge changed. That stands
// while the fault goes on, and what is called normal was before it.
func TestGaugesDateFaults(t *testing.T) {
	const interval, healthy = 5 * time.Second, 12 * time.Minute
	for name, tc := range map[string]struct {
		pathology string
		server    func(sick time.Duration) string // lines of its page, so long after the onset; negative before it
		gpu       func(sick time.Duration) string
		off       time.Duration      // at most
		normal    map[string]float64 // of the evidence
	}{
		"a GPU that is too hot": {
			pathology: "gpu-throttling", off: 2 * interval, normal: map[string]float64{"gpu_thermal_throttle": 0},
			gpu: func(sick time.Duration) string {
				clock, reasons := 1980, 0
				if sick > 0 {
					clock, reasons = 1100, 0x20
				}
				return fmt.Sprintf("DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} %d\nDCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu=\"0\"} %d\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 100\n", clock, reasons)
			},
		},
		"a clock that falls": {
			pathology: "gpu-throttling", off: 2 * interval,
			gpu: func(sick time.Duration) string {
				clock := 1980
				if sick > 0 {
					clock = 900
				}
				return fmt.Sprintf("DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} %d\nDCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu=\"0\"} 0\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 100\n", clock)
			},
		},
		"memory that only grows": {
			pathology: "memory-leak", off: time.Minute,
			server: func(sick time.Duration) string {
				return fmt.Sprintf("process_resident_memory_bytes %.0f\n", 8e9+max(0, sick.Seconds())*2e7)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := embedded.Open(embedded.Config{})
			must.Succeed(t, err)
			defer store.Close()
			first := time.Unix(1_800_000_000, 0).UTC()
			onset := first.Add(healthy)
			var memory diagnose.Memory
			var said time.Time
			found := 0
			for at := first; !at.After(onset.Add(8 * time.Minute)); at = at.Add(interval) {
				n := int(at.Sub(first).Seconds()) + 3600
				page := fmt.Sprintf(`vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} %[1]d00
vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} %[2]d
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} %[2]d
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} %[2]d
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} %[2]d
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} %[2]d
`, n, 2*n)
				if tc.server != nil {
					page += tc.server(at.Sub(onset))
				}
				_, err := store.Append(embedded.Target{Instance: "h:8000", Job: "vllm"}, at, []byte(page), "", 0)
				must.Succeed(t, err)
				if tc.gpu != nil {
					_, err := store.Append(embedded.Target{Instance: "h:9400", Job: "gpu"}, at, []byte(tc.gpu(at.Sub(onset))), "", 0)
					must.Succeed(t, err)
				}
				if n%15 > 0 || at.Before(onset) {
					continue
				}
				d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: first, Interval: interval, Memory: &memory, Pathologies: pathologies.All()})
				must.Succeed(t, err)
				k := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology.ID == tc.pathology })
				f := &d.Findings[k]
				if f.Status < diagnose.Pending {
					continue
				}
				found++
				if off := f.Since.Sub(onset).Abs(); off > tc.off || f.SinceAtLeast || !said.IsZero() && !said.Equal(f.Since) {
					t.Errorf("%s after the onset: since %s after it (at least: %t), and before %s", at.Sub(onset), f.Since.Sub(onset), f.SinceAtLeast, said.Sub(onset))
				}
				said = f.Since
				for _, e := range f.Evidence {
					if want, asked := tc.normal[e.Signal.Name]; asked && (!e.Baseline.OK || e.Baseline.V != want) {
						t.Errorf("%s after the onset: %s is normally %+v, want %g", at.Sub(onset), e.Signal.Name, e.Baseline, want)
					}
				}
			}
			if found == 0 {
				t.Error("it is not found")
			}
		})
	}
}

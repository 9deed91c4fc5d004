package diagnose_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestARestartBeforeTheOnset: what began soon after a restart says so, and what began long after it, or before it, does not.
func TestARestartBeforeTheOnset(t *testing.T) {
	const interval = 5 * time.Second
	for name, tt := range map[string]struct {
		restart time.Duration // before the onset
		want    bool
	}{"a minute before": {time.Minute, true}, "twelve minutes before": {12 * time.Minute, false}, "never": {0, false}} {
		t.Run(name, func(t *testing.T) {
			store := embeddedtest.New(t)
			begin := time.Unix(1_800_000_000, 0)
			onset := begin.Add(20 * time.Minute)
			end, n, sum := onset.Add(2*time.Minute), 0, 0.0
			for at := begin; !at.After(end); at = at.Add(interval) {
				if tt.restart > 0 && at.Equal(onset.Add(-tt.restart)) {
					n, sum = 0, 0
				}
				waiting, wait := 0, 0.05
				if at.After(onset) {
					waiting, wait = 20, 12
				}
				n += 10
				sum += 10 * wait
				quick := n
				if wait > 1 {
					quick -= 10 * int(at.Sub(onset)/interval)
				}
				embeddedtest.Append(t, store, embedded.Target{Instance: "h:8000", Job: "vllm"}, at, fmt.Sprintf(`vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:num_requests_waiting{model_name="m",engine="0"} %[3]d
vllm:generation_tokens_total{model_name="m",engine="0"} %[1]d00
vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} %[1]d
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} %[4]d
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="20"} %[1]d
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} %[1]d
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} %[2]f
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} %[1]d
`, n, sum, waiting, quick))
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: end, First: begin, Interval: interval, Pathologies: pathologies.All()})
			must.Succeed(t, err)
			if got := strings.Contains(d.Verdict.Summary, "; it began 60 s after a restart"); got != tt.want || d.Verdict.Status != diagnose.Firing {
				t.Errorf("%s since %s after the onset: %s", d.Verdict.ID, d.Verdict.Since.Sub(onset), d.Verdict.Summary)
			}
		})
	}
}

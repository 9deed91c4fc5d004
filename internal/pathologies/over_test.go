package pathologies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
)

// TestWhatIsOverDoesNotFire holds that a fault that is a share of the window fires until it ends, and not after the
// first whole interval without it, although the window still holds its end.
func TestWhatIsOverDoesNotFire(t *testing.T) {
	const before, during, after = 40, 6, 5 // scrapes
	// The rates of a counter: normally, in the fault, and between the two scrapes around the end of the fault.
	counter := func(series string, normal, fault, end float64) string {
		return fmt.Sprintf("rate %s %gx%d,%gx%d,%gx1,%g\n", series, normal, before, fault, during, end, normal)
	}
	for id, text := range map[string]string{
		"kv-transfer-failing": counter(`vllm:nixl_num_failed_transfers_total{model_name="m",engine="0"}`, 0, 0.6, 0.27) +
			"rate vllm:nixl_num_kv_expired_reqs_total{model_name=\"m\",engine=\"0\"} 0\n" +
			"hist vllm:nixl_xfer_time_seconds{model_name=\"m\",engine=\"0\"} mean=0.02 rate=1.2\n" +
			"hist vllm:nixl_bytes_transferred{model_name=\"m\",engine=\"0\"} mean=2e6 rate=1.2\n",
		"http-errors":          counter(`vllm:request_success_total{model_name="m",engine="0",finished_reason="error"}`, 0, 0.6, 0.27),
		"kv-cache-thrashing":   counter(`vllm:num_preemptions_total{model_name="m",engine="0"}`, 0, 1.5, 0.6),
		"client-cancellations": counter(`vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"}`, 2, 0.7, 1.6),
	} {
		t.Run(id, func(t *testing.T) {
			c, err := history.Parse(nil, fmt.Sprintf("every 15s for %ds\nlike healthy\n%s", 15*(before+during+after),
				text))
			must.Succeed(t, err)
			for k := 4; k < during+after; k++ {
				c.At = time.Duration(before+k) * c.Every
				d := diagnoseSeries(t, c)
				i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology.ID == id })
				if fires := d.Findings[i].Status == diagnose.Firing; k != during && fires != (k < during) {
					t.Errorf("%d scrapes after the one that saw the end: %s\n%s", k-during, d.Findings[i].Status,
						explain(d, d.Findings[i]))
				}
			}
		})
	}
}

// TestNothingIsOverWhileScrapesFail holds that a fault does not end because scrapes fail: a missing page does not show
// that clients stopped cancelling.
func TestNothingIsOverWhileScrapesFail(t *testing.T) {
	const before, during, after = 40, 3, 3 // scrapes
	for name, tt := range map[string]struct{ lines, want, says string }{
		"the last page came":        {"", diagnose.Healthy, "Seems to be over"},
		"the last scrape timed out": {fmt.Sprintf("scrape_duration_seconds 0.01x%d 10\ndown %d 1\n", before+during+after-2, before+during+after-1), diagnose.NotCertain, "Client cancellations"},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnoseText(t, fmt.Sprintf("every 15s for %ds\nlike healthy\n%srate vllm:request_success_total{model_name=\"m\",engine=\"0\",finished_reason=\"stop\"} 2x%d,1.3x%d,1.8x1,2\n",
				15*(before+during+after), tt.lines, before, during))
			if d.Verdict.ID != tt.want || !strings.Contains(d.Verdict.Summary, tt.says) {
				t.Errorf("%s: %s, want %s\n%s", d.Verdict.ID, d.Verdict.Summary, tt.want,
					explain(d, finding(t, &d, "client-cancellations")))
			}
		})
	}
}

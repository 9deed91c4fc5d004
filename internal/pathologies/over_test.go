package pathologies_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
)

// A share of a window that begins in a fault is still bad when the fault is over. It fires until the
// fault ends, and no more after the first whole interval without it.
func TestWhatIsOverDoesNotFire(t *testing.T) {
	const before, during, after = 40, 6, 5 // scrapes
	// What a counter grows by in a second: normally, in the fault, and between the two scrapes
	// that the end of the fault lies between.
	counter := func(series string, normal, fault, end float64) string {
		return fmt.Sprintf("rate %s %gx%d,%gx%d,%gx1,%g\n", series, normal, before, fault, during, end, normal)
	}
	for id, text := range map[string]string{
		"kv-transfer-failing": counter(`vllm:nixl_num_failed_transfers_total{model_name="m",engine="0"}`, 0, 0.6, 0.27) +
			"rate vllm:nixl_num_kv_expired_reqs_total{model_name=\"m\",engine=\"0\"} 0\n" +
			"hist vllm:nixl_xfer_time_seconds{model_name=\"m\",engine=\"0\"} mean=0.02 rate=1.2\n" +
			"hist vllm:nixl_bytes_transferred{model_name=\"m\",engine=\"0\"} mean=2e6 rate=1.2\n",
		"http-errors":          counter(`vllm:request_success_total{model_name="m",engine="0",finished_reason="error"}`, 0, 0.6, 0.27),
		"client-cancellations": counter(`vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"}`, 2, 0.7, 1.6),
	} {
		t.Run(id, func(t *testing.T) {
			c, err := history.Parse(nil, fmt.Sprintf("every 15s for %ds\nlike healthy\n%s", 15*(before+during+after), text))
			must.Succeed(t, err)
			for k := 4; k < during+after; k++ {
				c.At = time.Duration(before+k) * c.Every
				d := diagnoseSeries(t, c)
				i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology.ID == id })
				if fires := d.Findings[i].Status == diagnose.Firing; k != during && fires != (k < during) {
					t.Errorf("%d scrapes after the one that saw the end: %s\n%s", k-during, d.Findings[i].Status, explain(d, d.Findings[i]))
				}
			}
		})
	}
}

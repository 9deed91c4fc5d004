package collect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/unanswered"
)

// A delivery knows which Alertmanagers were not told: Prometheus' notifier says it in its log
// and forgets it. The zero value is ready; it is safe for concurrent use.
type delivery struct {
	mu     sync.Mutex
	failed map[string]string // why, by address; "" for there being none
	last   time.Time
}

// post sends alerts to an Alertmanager, as the notifier's own function does.
func (d *delivery) post(ctx context.Context, client *http.Client, r *http.Request) (*http.Response, error) {
	resp, err := client.Do(r.WithContext(ctx))
	why := ""
	switch {
	case err != nil:
		why = unanswered.Cause(err).Error() // the address is said before it
	case resp.StatusCode/100 != 2:
		why = resp.Status
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.failed, "")
	if why == "" {
		delete(d.failed, r.URL.Redacted())
	} else {
		d.fail(r.URL.Redacted(), why)
	}
	return resp, err
}

// noteNoAlertmanager notes that there was no Alertmanager to be told.
func (d *delivery) noteNoAlertmanager() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail("", "alerts are not sent: no Alertmanager was found")
}

func (d *delivery) fail(address, why string) {
	if d.failed == nil {
		d.failed = map[string]string{}
	}
	d.failed[address], d.last = why, time.Now()
}

// problems are those of the Alertmanagers that there are now.
func (d *delivery) problems(now map[string]bool) (out []string, last time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for address, why := range d.failed {
		switch {
		case address == "":
			out = append(out, why)
		case now[address]:
			out = append(out, fmt.Sprintf("alerts do not reach the Alertmanager at %s: %s", address, why))
		}
	}
	slices.Sort(out)
	return out, d.last
}

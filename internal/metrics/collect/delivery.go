package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/unanswered"
)

// A delivery remembers which Alertmanagers did not accept alerts, because Prometheus' notifier only logs that. The zero
// value is ready for use. It is safe for concurrent use.
type delivery struct {
	mu      sync.Mutex
	failed  map[string]string // why, by address; "" is the address if no Alertmanager was found
	last    time.Time
	clients sync.Map // HTTP clients with credentials, by the address of an Alertmanager that accepted alerts
}

// ErrNoAlertmanager says that no Alertmanager has accepted an alert yet.
var ErrNoAlertmanager = errors.New("no Alertmanager has accepted an alert yet")

// Silence silences the alerts whose labels each have one of the values. It tries the Alertmanagers in turn until one
// accepts, because the members of a cluster share silences.
func (c *Collector) Silence(
	ctx context.Context, matching map[string][]string, until time.Time, by, comment string,
) error {
	matchers := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(matching)) {
		var values []string
		for _, v := range matching[name] {
			values = append(values, regexp.QuoteMeta(v))
		}
		matchers = append(matchers, map[string]any{"name": name, "value": strings.Join(values, "|"), "isRegex": true})
	}
	body, err := json.Marshal(map[string]any{
		"matchers": matchers, "startsAt": time.Now().UTC(), "endsAt": until.UTC(), "createdBy": by, "comment": comment,
	})
	if err != nil {
		return err
	}
	err = ErrNoAlertmanager
	for _, u := range c.notify.Alertmanagers() {
		client, ok := c.delivery.clients.Load(u.Redacted())
		if !ok {
			continue
		}
		r, wrong := http.NewRequestWithContext(ctx, http.MethodPost, u.JoinPath("..", "silences").String(),
			bytes.NewReader(body))
		if wrong != nil {
			return wrong
		}
		r.Header.Set("Content-Type", "application/json")
		resp, wrong := client.(*http.Client).Do(r)
		if wrong == nil {
			wrong = resp.Body.Close()
			if wrong == nil && resp.StatusCode/100 == 2 {
				return nil
			}
			wrong = errors.Join(wrong, errors.New(resp.Status))
		}
		err = fmt.Errorf("the Alertmanager at %s: %w", u.Redacted(), unanswered.Cause(wrong))
	}
	return err
}

// postAlerts sends alerts to an Alertmanager, like the notifier's own function.
func (d *delivery) postAlerts(ctx context.Context, client *http.Client, r *http.Request) (*http.Response, error) {
	resp, err := client.Do(r.WithContext(ctx))
	why := ""
	switch {
	case err != nil:
		why = unanswered.Cause(err).Error() // without the address, which listProblems adds
	case resp.StatusCode/100 != 2:
		why = resp.Status
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.failed, "")
	if why == "" {
		delete(d.failed, r.URL.Redacted())
		d.clients.Store(r.URL.Redacted(), client)
	} else {
		d.recordFailure(r.URL.Redacted(), why)
	}
	return resp, err
}

// noteNoAlertmanager records that no Alertmanager was found.
func (d *delivery) noteNoAlertmanager() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recordFailure("", "alerts are not sent: no Alertmanager was found")
}

func (d *delivery) recordFailure(address, why string) {
	if d.failed == nil {
		d.failed = map[string]string{}
	}
	d.failed[address], d.last = why, time.Now()
}

// listProblems returns the delivery problems of the current Alertmanagers.
func (d *delivery) listProblems(now map[string]bool) (out []string, last time.Time) {
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

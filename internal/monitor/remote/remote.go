// Package remote reads another monitor through its HTTP API. A monitor also has Prometheus' API: the schema of its
// overview tells it from a Prometheus server.
package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Bounds of an answer.
const (
	timeout     = 20 * time.Second
	findTimeout = 3 * time.Second // for the first answer
	maxAnswer   = 32 << 20        // bytes
)

// A Monitor is a monitor that has answered. It is safe for concurrent use.
type Monitor struct {
	URL    string    // without secrets
	Judged time.Time // time of its latest evaluation when it was found
	base   *url.URL
	client *http.Client
}

// Find returns the monitor at an address. ok is false if none answers within findTimeout.
func Find(ctx context.Context, address string, access config.HTTPClientConfig) (m *Monitor, ok bool) {
	u, err := url.Parse(strings.TrimSuffix(scrape.Complete(address), "/"))
	if err != nil || u.Host == "" {
		return nil, false
	}
	client, err := config.NewClientFromConfig(access, "sixty")
	if err != nil {
		return nil, false
	}
	client.Timeout = timeout
	m = &Monitor{URL: u.Redacted(), base: u, client: client}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	o, err := m.Overview(ctx)
	if err != nil {
		m.Close()
		return nil, false
	}
	m.Judged = o.At
	return m, true
}

// Close ends idle connections.
func (m *Monitor) Close() { m.client.CloseIdleConnections() }

// Get reads a path of the API. It returns the monitor's own error.
func (m *Monitor) Get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base.String()+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		var e view.Error
		if json.Unmarshal(body, &e) == nil && e.Error != "" {
			return nil, hint.With(fmt.Errorf("%s: %s", m.URL, e.Error), e.Hint)
		}
		return nil, fmt.Errorf("%s%s: %s", m.URL, path, resp.Status)
	}
	return body, nil
}

// Overview returns the latest overview.
func (m *Monitor) Overview(ctx context.Context) (o view.Overview, err error) {
	body, err := m.Get(ctx, "/api/v1/overview")
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(body, &o); err != nil || o.Schema != view.OverviewSchema {
		return o, hint.With(fmt.Errorf("%s is not a monitor of sixty", m.URL),
			"give a server's URL, a recording or prometheus=URL")
	}
	return o, nil
}

// Incidents returns the latest incidents with a state: "open", "closed", or "" for all.
func (m *Monitor) Incidents(ctx context.Context, state string) (list []view.Summary, err error) {
	path := "/api/v1/incidents?limit=1000&state=" + state
	body, err := m.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%s%s: %w", m.URL, path, err)
	}
	return list, nil
}

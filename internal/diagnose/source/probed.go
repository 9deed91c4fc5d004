package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/diagnose/source/probe"
)

// probe sends a server a few tiny requests and notes what a client sees, to be
// read beside what the engine says of itself. It ends with the scraping.
func (r *Live) probe(ctx context.Context, i int) {
	r.mu.Lock()
	models := r.states[i].facts.Models
	r.mu.Unlock()
	told := "no probe was sent: /v1/models lists no model"
	if len(models) > 0 {
		told = probed(ctx, apiBase(r.Targets[i].URL), models[0].ID, r.http)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[i].probed = told
}

// probed is what the requests of one server tell, in one sentence.
func probed(ctx context.Context, base, model string, settings config.HTTPClientConfig) string {
	client, err := config.NewClientFromConfig(settings, "sixty_probe", config.WithUserAgent("sixty"))
	if err != nil {
		return "no probe was sent: " + err.Error()
	}
	defer client.CloseIdleConnections()
	result, err := probe.Run(ctx, probe.Config{BaseURL: base, Model: model, Client: client})
	if ttft, ok := result.TTFT(); ok {
		told := fmt.Sprintf("a client sees its first token after %s (median of %d tiny requests)", ttft.Round(time.Millisecond/10), len(result.Requests))
		if itl, ok := result.ITL(); ok {
			told += fmt.Sprintf(", and another every %s", itl.Round(time.Millisecond/10))
		}
		return told
	}
	if err == nil {
		err = errors.New("no token came in time")
	}
	return "a client gets no token: " + err.Error()
}

// apiBase is where the API of a metrics page's server begins.
func apiBase(metricsURL string) string {
	u, err := url.Parse(metricsURL)
	if err != nil {
		return metricsURL
	}
	u.Path, u.RawPath, u.RawQuery = strings.TrimSuffix(u.Path, "/metrics"), "", ""
	return u.String()
}

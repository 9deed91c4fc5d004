package serve

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
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/gateway"
	"github.com/sixty-dev/sixty/internal/monitor/web"
	"github.com/sixty-dev/sixty/internal/render"
)

// Bounds of what a gateway is asked.
const (
	gatewayTime  = 5 * time.Second
	gatewayBytes = 16 << 20
	listedOpen   = 40 // requests in a text
)

// gateways are queried for requests in flight. Their metrics are scraped like servers'.
type gateways struct {
	urls   []string
	client *http.Client
}

func newGateways(urls []string, access config.HTTPClientConfig) (*gateways, error) {
	client, err := config.NewClientFromConfig(access, "sixty")
	if err != nil {
		return nil, err
	}
	client.Timeout = gatewayTime
	g := &gateways{urls: urls, client: client}
	for _, text := range urls {
		if u, err := url.Parse(text); err != nil || u.Host == "" {
			return nil, hint.With(fmt.Errorf("gateways: %q is not a URL", text), "give the admin address of sixty gateway, such as http://127.0.0.1:8081")
		}
	}
	return g, nil
}

// opened is what one gateway has in flight.
type opened struct {
	Gateway  string            `json:"gateway"`
	Error    string            `json:"error,omitempty"`
	Requests *gateway.Requests `json:"requests,omitempty"`
}

func (g *gateways) fetchRequests(ctx context.Context, base string) (*gateway.Requests, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/requests", nil)
	if err != nil {
		return nil, err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/requests: %s", resp.Status)
	}
	var l gateway.Requests
	return &l, json.NewDecoder(io.LimitReader(resp.Body, gatewayBytes)).Decode(&l)
}

// requests answers with the requests in flight.
func (g *gateways) requests(w http.ResponseWriter, r *http.Request) {
	if len(g.urls) == 0 {
		web.Fail(w, http.StatusNotFound, hint.With(fmt.Errorf("no gateway is configured"), "list them under sixty.gateways in the configuration, or with --gateway"))
		return
	}
	list := []opened{}
	for _, u := range g.urls {
		o := opened{Gateway: source.Redacted(u)}
		var err error
		if o.Requests, err = g.fetchRequests(r.Context(), u); err != nil {
			o.Error, o.Requests = err.Error(), nil
		}
		list = append(list, o)
	}
	if r.URL.Query().Get("format") != "text" {
		web.Answer(w, list)
		return
	}
	t := render.NewText(render.Options{})
	for _, o := range list {
		if o.Error != "" {
			t.Line(o.Gateway + ": " + o.Error)
			continue
		}
		t.Line(fmt.Sprintf("%s: %d open, %d suspected leaks", o.Gateway, o.Requests.Open, o.Requests.Leaks))
		var rows [][]string
		for i, q := range o.Requests.Requests {
			if i == listedOpen {
				break
			}
			state := q.State
			if q.Leak {
				state += ", suspected leak"
			}
			rows = append(rows, []string{render.Clean(q.ID), fmt.Sprintf("%.0f", q.Age), fmt.Sprintf("%d", q.Tokens), render.Clean(q.Model), state})
		}
		t.Table([]render.Column{{Title: "ID", Left: true}, {Title: "AGE (s)"}, {Title: "TOKENS"}, {Title: "MODEL", Left: true}, {Title: "STATE", Left: true}}, rows)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := t.WriteTo(w); err != nil {
		return // the reader left
	}
}

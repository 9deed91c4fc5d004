// Package api is a Querier over any server with Prometheus' HTTP API: Prometheus, Thanos, Mimir, VictoriaMetrics and
// others.
//
// A [Client] uses the endpoints query and query_range, with the parameters that all of these servers accept, and lists
// rules where the server shows them. It parses results itself, because client_golang's parser takes most of the time of
// a large answer. client_golang parses all other answers. A warning of an incomplete answer becomes a [PartialError]
// beside the result. Answers are bounded, impossible values are dropped and counted, and each error names the way out:
// credentials, a path before /api/v1, a shorter window.
//
// The package does not write, and does not cache: package embedded has a Mirror that caches. The command line makes a
// Client for --prometheus; other packages see a metrics.Querier.
package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Limits of one query and its answer.
const (
	queryTimeout = 30 * time.Second
	maxResponse  = 256 << 20
)

// Config configures a Client. URL is required.
type Config struct {
	// URL is the server's base address, before /api/v1, such as
	// http://localhost:9090 or https://mimir.example.com/prometheus.
	URL string

	// HTTP says how to authenticate and encrypt, as in Prometheus' configuration. Its HTTPHeaders may carry
	// X-Scope-OrgID. The zero value stands for config.DefaultHTTPClientConfig.
	HTTP config.HTTPClientConfig
	// Signing authenticates to a cloud's managed Prometheus.
	Signing Signing
}

// Client queries a server. It is safe for concurrent use.
type Client struct {
	baseURL *url.URL
	http    *http.Client
	api     v1.API
	timeout time.Duration

	mu         sync.Mutex
	impossible int    // dropped values that cannot be measurements
	first      string // the expression that the first of them answered
}

var _ metrics.Querier = (*Client)(nil)

// A PartialError reports that the server warned of an incomplete answer, as Thanos and Mimir do when a store does not
// respond. It is returned together with the partial result.
type PartialError struct {
	Warnings []string
}

func (e *PartialError) Error() string {
	return "the server's answer is partial: " + strings.Join(e.Warnings, "; ")
}

// New returns a Client. It sends no requests yet.
func New(cfg Config) (*Client, error) {
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if reflect.ValueOf(cfg.HTTP).IsZero() {
		cfg.HTTP = config.DefaultHTTPClientConfig
	}
	if err := cfg.HTTP.Validate(); err != nil {
		return nil, fmt.Errorf("query API: HTTP settings: %w", err)
	}
	client, err := config.NewClientFromConfig(cfg.HTTP, "sixty_api", config.WithUserAgent("sixty"))
	if err != nil {
		return nil, fmt.Errorf("query API: HTTP settings: %w", err)
	}
	signed, err := cfg.Signing.Wrap(client.Transport)
	if err != nil {
		return nil, fmt.Errorf("query API: %w", err)
	}
	client.Transport = &transport{next: signed, limit: maxResponse}
	c, err := api.NewClient(api.Config{Address: base.String(), Client: client})
	if err != nil {
		return nil, fmt.Errorf("query API: %w", err)
	}
	return &Client{baseURL: base, http: client, api: v1.NewAPI(resultReader{c}), timeout: queryTimeout}, nil
}

// Close closes the connections that are kept for the next query.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func parseURL(address string) (*url.URL, error) {
	const wayOut = "write it as http://HOST:9090, with the path before /api/v1 where there is one"
	s := strings.TrimSpace(address)
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, hint.With(errors.New("query API: the server's address is not a URL"), wayOut)
	}
	// People paste what they see in a browser or in a configuration.
	u.Path = strings.TrimRight(u.Path, "/")
	for _, tail := range [...]string{"/api/v1/query_range", "/api/v1/query", "/api/v1", "/graph", "/query"} {
		if p, ok := strings.CutSuffix(u.Path, tail); ok {
			u.Path = p
			break
		}
	}
	u.RawPath, u.RawQuery, u.Fragment = "", "", ""
	return u, nil
}

// Query implements metrics.Querier.
func (c *Client) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	// Servers count milliseconds. A finer time would be rounded, because it is sent as a float.
	at = at.Truncate(time.Millisecond)
	v, partial, err := c.sendQuery(ctx, expr,
		func(ctx context.Context, expr string) (model.Value, v1.Warnings, v1.Infos, error) {
			return c.api.Query(ctx, expr, at)
		})
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case model.Vector:
		return slices.DeleteFunc(v, func(s *model.Sample) bool { return !c.checkValue(expr, s.Value) }), partial
	case *model.Scalar:
		return model.Vector{{Metric: model.Metric{}, Value: v.Value, Timestamp: v.Timestamp}}, partial
	}
	return nil, fmt.Errorf("query %q: the answer is a %s, not a vector or a scalar", expr, v.Type())
}

// Evaluate implements metrics.Querier.
func (c *Client) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	return c.Query(ctx, e.String(), at)
}

// QueryRange implements metrics.Querier.
func (c *Client) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	if r.Step < time.Millisecond {
		return nil, fmt.Errorf("query %q: step %s is below a millisecond", expr, r.Step)
	}
	v, partial, err := c.sendQuery(ctx, expr,
		func(ctx context.Context, expr string) (model.Value, v1.Warnings, v1.Infos, error) {
			return c.api.QueryRange(ctx, expr, v1.Range{
				Start: r.Start.Truncate(time.Millisecond), End: r.End.Truncate(time.Millisecond), Step: r.Step,
			})
		})
	if err != nil {
		return nil, err
	}
	return c.checkMatrix(expr, v, partial)
}

// checkMatrix returns the matrix of an answer without impossible values.
func (c *Client) checkMatrix(expr string, v model.Value, partial error) (model.Matrix, error) {
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("query %q: the answer is a %s, not a matrix", expr, v.Type())
	}
	for _, s := range m {
		s.Values = slices.DeleteFunc(s.Values, func(p model.SamplePair) bool { return !c.checkValue(expr, p.Value) })
	}
	return m, partial
}

// Samples implements metrics.Querier.
func (c *Client) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	expr := metrics.RangeSelector(selector, span)
	at = at.Truncate(time.Millisecond)
	v, partial, err := c.sendQuery(ctx, expr,
		func(ctx context.Context, expr string) (model.Value, v1.Warnings, v1.Infos, error) {
			return c.api.Query(ctx, expr, at)
		})
	if err != nil {
		return nil, err
	}
	return c.checkMatrix(expr, v, partial)
}

// checkValue reports whether a value is possible, and counts impossible ones. NaN means that there is no value.
func (c *Client) checkValue(expr string, v model.SampleValue) bool {
	if !(math.Abs(float64(v)) > metrics.MaxMagnitude) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.impossible++; c.first == "" {
		c.first = expr
	}
	return false
}

// Warnings returns one sentence for each kind of dropped data.
func (c *Client) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.impossible == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("Ignored %d infinite or too large values in the server's answers, first in %s", c.impossible,
			c.first),
	}
}

// sendFunc sends an expression and returns the answer as client_golang parses it.
type sendFunc func(ctx context.Context, expr string) (model.Value, v1.Warnings, v1.Infos, error)

// sendQuery sends a query within the time limit. It sends the query again if the connection was reset, as a kept
// connection is when the server restarts.
func (c *Client) sendQuery(ctx context.Context, expr string, send sendFunc) (v model.Value, incomplete, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var parsed result
	ctx = context.WithValue(ctx, resultKey{}, &parsed)
	v, warnings, _, err := send(ctx, expr)
	if errors.Is(err, syscall.ECONNRESET) && ctx.Err() == nil {
		v, warnings, _, err = send(ctx, expr)
	}
	if err == nil && v == nil { // client_golang accepts any other JSON without an error
		err = &v1.Error{Type: v1.ErrBadResponse, Msg: "the answer has no data"}
	}
	if err != nil {
		return nil, nil, c.explainError(expr, err)
	}
	switch {
	case len(parsed.vector) > 0:
		v = parsed.vector
	case len(parsed.matrix) > 0:
		v = parsed.matrix
	}
	if w := dataWarnings(warnings); len(w) > 0 {
		incomplete = fmt.Errorf("query %q: %w", expr, &PartialError{Warnings: w})
	}
	return v, incomplete, nil
}

// dataWarnings drops the warnings about the expression, and keeps those about the data.
func dataWarnings(warnings v1.Warnings) []string {
	var w []string
	for _, s := range warnings {
		if !strings.HasPrefix(s, "PromQL ") {
			w = append(w, s)
		}
	}
	return w
}

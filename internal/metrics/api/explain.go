package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/unanswered"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// statusError is the error for an answer that is not the API's JSON.
type statusError struct {
	status int
	html   bool
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("HTTP status %d %s", e.status, http.StatusText(e.status))
	if e.html {
		s += " with an HTML page"
	}
	return s
}

// transport bounds answers, and turns answers of other programs into errors before they are parsed as JSON.
type transport struct {
	next  http.RoundTripper
	limit int64
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	kind := resp.Header.Get("Content-Type")
	html := strings.HasPrefix(kind, "text/html")
	refused := resp.StatusCode/100 != 2 && !strings.HasPrefix(kind, "application/json")
	// client_golang repeats a POST as a GET after one of these statuses.
	again := req.Method == http.MethodPost && (resp.StatusCode == http.StatusForbidden ||
		resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented)
	redirect := resp.StatusCode/100 == 3 && resp.Header.Get("Location") != ""
	if (html || refused) && !again && !redirect {
		resp.Body.Close()
		return nil, &statusError{resp.StatusCode, html}
	}
	resp.Body = &boundedBody{resp.Body, t.limit}
	return resp, nil
}

func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// boundedBody fails after more than left bytes.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, metrics.ErrTooLarge
	}
	return n, err
}

// explainError words a query's error, with a way out.
func (c *Client) explainError(expr string, err error) error {
	err = unanswered.Cause(err) // the URL of a GET holds the whole query
	base := redactURL(c.baseURL)
	wrapped := fmt.Errorf("query %s: %w", base, err)
	var status *statusError
	var answer *v1.Error
	switch {
	case errors.Is(err, context.Canceled):
		return wrapped
	case errors.As(err, &status):
		return hint.With(wrapped, c.hintForStatus(status))
	case errors.Is(err, metrics.ErrTooLarge):
		return hint.With(wrapped, "query less: a shorter window, or matchers that select one fleet")
	case errors.As(err, &answer):
		return explainAnswer(base, expr, answer)
	case unanswered.TimedOut(err):
		return hint.With(fmt.Errorf("query %s: no answer within %s: %w", base, c.timeout, err),
			"use a shorter --window, or fewer series with --match")
	}
	way := unanswered.Hint(err, "check that the server runs and that the port is right: 9090 for Prometheus, 10902 "+
		"for Thanos, 8428 for VictoriaMetrics")
	return hint.With(wrapped, cmp.Or(way, "check the address and the network between here and the server"))
}

func (c *Client) hintForStatus(s *statusError) string {
	switch {
	case s.status == http.StatusUnauthorized && !s.html:
		return "pass the server's credentials; multi-tenant Mimir needs the header X-Scope-OrgID"
	case s.status == http.StatusUnauthorized, s.status == http.StatusForbidden:
		return "pass a bearer token or a user and password (--bearer-token-file, --basic-auth), or how requests " +
			"are signed (--http-config): check the keys if they are"
	case s.status == http.StatusNotFound, s.status/100 == 2:
		v := *c.baseURL
		if v.Path == "" {
			v.Path = "/prometheus"
		} else {
			v.Path = ""
		}
		return "check the path before /api/v1: Mimir's is /prometheus, a proxied Prometheus often has one; perhaps " +
			redactURL(&v)
	case s.status == http.StatusTooManyRequests:
		return "query less often, or raise the server's limit for this tenant"
	case s.status/100 == 3:
		return "use the address that the server redirects to"
	case s.status/100 == 5:
		return "check the server's health and log, and the proxy in front of it"
	}
	return "check the address of the server's query API"
}

// redactURL writes a URL without its user and password.
func redactURL(u *url.URL) string {
	s := *u
	s.User = nil
	return s.String()
}

// readOwnError returns the API's own error, which client_golang leaves in the detail of an error with an unexpected
// HTTP status.
func readOwnError(e *v1.Error) *v1.Error {
	var own struct {
		Type v1.ErrorType `json:"errorType"`
		Msg  string       `json:"error"`
	}
	if json.Unmarshal([]byte(e.Detail), &own) != nil || own.Msg == "" {
		return e
	}
	return &v1.Error{Type: own.Type, Msg: own.Msg}
}

// limitError wraps the error of a query that hit a limit of the server.
type limitError struct{ error }

func (e limitError) Unwrap() error { return e.error }

// Is makes errors.Is recognize metrics.ErrTooLarge.
func (limitError) Is(target error) bool { return target == metrics.ErrTooLarge }

// explainAnswer explains an error that the API itself gave.
func explainAnswer(base, expr string, e *v1.Error) error {
	e = readOwnError(e)
	err := fmt.Errorf("query %s: %q: %w", base, expr, e)
	switch e.Type {
	case v1.ErrBadData:
		if strings.Contains(e.Msg, "no org id") {
			return hint.With(err, "pass the header X-Scope-OrgID with the tenant's name")
		}
		return hint.With(err, "check that the server's version supports every function of the query")
	case v1.ErrTimeout, v1.ErrCanceled:
		return hint.With(err, "use a shorter window, or raise the server's query timeout")
	case v1.ErrExec:
		return hint.With(limitError{err}, "use a shorter window, or matchers that select one fleet: the query "+
			"hit a limit of the server")
	case v1.ErrBadResponse:
		return hint.With(err, "check that the address is that of a Prometheus-compatible query API")
	}
	return hint.With(err, "check the server's health and log")
}

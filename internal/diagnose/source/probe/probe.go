// Package probe sends a few tiny streaming requests to an inference server and
// measures what a client sees of them: the time to the first token, the gaps
// between tokens, and the tokens that the server bills.
//
// It is no load test (that is package load): requests go one after another, so
// that a sick server gets no work worth mentioning. It follows no redirect,
// retries nothing, and neither keeps nor reports any text of a prompt, an answer
// or an error body. Package diagnose calls it when the user passes --probe.
package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/base/unanswered"
	"github.com/sixty-dev/sixty/internal/openai/stream"
)

const (
	requests       = 3
	maxTokens      = 8 // of one answer: there is no gap with less than two
	requestTimeout = 10 * time.Second
	maxAnswer      = 1 << 20 // bytes of one answer; 8 tokens are some 3 kB
)

// Config says what to ask whom.
type Config struct {
	BaseURL string       // such as http://host:8000, with or without /v1
	Model   string       // the name served
	Client  *http.Client // carries authentication and TLS. Its redirects are not followed.
}

// A Result is what the client saw.
type Result struct {
	Path     string // API that answered: "/v1/completions" or "/v1/chat/completions"
	Requests []Request
}

// A Request is one request and how it went.
type Request struct {
	Start time.Time

	// Connect is the time until the request could be sent: name resolution, TCP
	// and TLS. The other times count from then.
	Connect time.Duration
	TTFT    time.Duration   // to the arrival of the first token; 0 when none came
	Gaps    []time.Duration // between tokens; n that came together have an nth each
	Err     error           // nil, or an *Error
}

// TTFT is the median time to the first token of the requests that got one.
func (r Result) TTFT() (median time.Duration, ok bool) {
	var all []time.Duration
	for _, q := range r.Requests {
		if q.TTFT > 0 {
			all = append(all, q.TTFT)
		}
	}
	return stat.Median(all), len(all) > 0
}

// ITL is the median of the gaps of all requests.
func (r Result) ITL() (median time.Duration, ok bool) {
	var all []time.Duration
	for _, q := range r.Requests {
		all = append(all, q.Gaps...)
	}
	return stat.Median(all), len(all) > 0
}

// Kind is what went wrong with a request.
type Kind string

// The kinds of failures.
const (
	Refused     Kind = "connection refused" // nothing listens, or no route, or TLS failed
	Timeout     Kind = "timeout"            // no end within 10 s
	Unauth      Kind = "unauthorised"       // HTTP 401 or 403
	NotFound    Kind = "not found"          // HTTP 404: no such model or API
	Overloaded  Kind = "overloaded"         // HTTP 429 or 503
	BadRequest  Kind = "bad request"        // another HTTP 4xx
	ServerError Kind = "server error"       // another HTTP 5xx
	StreamError Kind = "error in stream"    // an error event after HTTP 200
	Malformed   Kind = "malformed answer"   // not a stream of completions
	Truncated   Kind = "truncated answer"   // the connection ended within the stream
	TooLarge    Kind = "answer too large"
)

// Error is a failed request. Its text never has words of the server's.
type Error struct {
	Kind   Kind
	Status int           // of HTTP, 0 before there is one
	After  time.Duration // since the request's start
	Tokens int           // that came before the failure
	cause  error         // of the client's side, nil otherwise
}

func (e *Error) Error() string {
	switch {
	case e.Kind == Timeout && e.Tokens == 0:
		return fmt.Sprintf("timeout: no token within %s", e.After.Round(100*time.Millisecond))
	case e.Kind == Timeout:
		return fmt.Sprintf("timeout: stalled after %d tokens, %s after the request", e.Tokens, e.After.Round(100*time.Millisecond))
	case e.Status != 0 && e.Status != http.StatusOK:
		return fmt.Sprintf("%s: HTTP status %d", e.Kind, e.Status)
	}
	return string(e.Kind)
}

func (e *Error) Unwrap() error { return e.cause }

// Run sends the requests one after another. A failed one is in the result and
// the next is sent all the same, except where the next would fail in the same
// way: then Run stops. The error is that of a wrong Config, of a ctx that
// ended, or, when every request failed, that of the last one, with a hint; the
// result holds what there was in any case.
func Run(ctx context.Context, cfg Config) (Result, error) {
	p, err := newProber(cfg)
	if err != nil {
		return Result{}, fmt.Errorf("probe: %w", err)
	}
	res := Result{Path: completions}
	good := 0
	var last *Error
	for n := range requests {
		r, failed := p.request(ctx, res.Path, n)
		if failed != nil && res.Path == completions && good == 0 && (failed.Status == http.StatusNotFound || failed.Status == http.StatusMethodNotAllowed || failed.Status == http.StatusBadRequest) {
			res.Path = chat
			r, failed = p.request(ctx, res.Path, n)
		}
		if err := ctx.Err(); err != nil {
			return res, fmt.Errorf("probe: %w", err)
		}
		if failed == nil {
			good++
		} else {
			last, r.Err = failed, failed
		}
		res.Requests = append(res.Requests, r)
		if failed != nil && slices.Contains(final, failed.Kind) {
			break
		}
	}
	if good == 0 {
		return res, hint.With(fmt.Errorf("probe %s: %w", p.base.Redacted(), last), hints[last.Kind])
	}
	return res, nil
}

// final are the failures that another request would meet too.
var final = []Kind{Refused, Unauth, NotFound, BadRequest, Malformed, Timeout}

var hints = map[Kind]string{
	Refused:     "check that the URL is the server's and reachable from here",
	Timeout:     "a server that answers /health but gives no token is hung or saturated: look at running and waiting requests",
	Unauth:      "pass the API key, as for any other client",
	NotFound:    "check the model's name against /v1/models",
	Overloaded:  "the server refuses work: look at its queue",
	BadRequest:  "the server takes neither a completion nor a chat of 8 tokens: is it a generating model?",
	ServerError: "read the server's log: --engine-log",
	StreamError: "read the server's log: --engine-log",
	Malformed:   "check that the URL is that of an OpenAI-compatible server",
	Truncated:   "a proxy between, or a server that crashed: read its log",
	TooLarge:    "check that the URL is that of an OpenAI-compatible server",
}

const (
	completions = "/v1/completions"
	chat        = "/v1/chat/completions"
)

type prober struct {
	base   *url.URL
	model  string
	client http.Client
}

func newProber(cfg Config) (*prober, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		// err may quote a password.
		return nil, hint.With(errors.New("not an http or https URL"), "give the server's address, such as http://localhost:8000")
	}
	if cfg.Model == "" {
		return nil, hint.With(errors.New("no model"), "give a name that /v1/models lists")
	}
	p := &prober{base: base, model: cfg.Model, client: *cfg.Client}
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return p, nil
}

// body is the request. The prompts differ from their first words on, so that
// the prefix cache does not answer for the prefill.
func (p *prober) body(path string, n int) ([]byte, error) {
	prompt := fmt.Sprintf("%d%d: count from one to twenty.", time.Now().UnixNano()%1e6, n)
	m := map[string]any{
		"model": p.model, "max_tokens": maxTokens, "temperature": 0,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	}
	if path == chat {
		m["messages"] = []map[string]string{{"role": "user", "content": prompt}}
	} else {
		m["prompt"] = prompt
	}
	return json.Marshal(m)
}

// request sends one request and reads its answer to the end.
func (p *prober) request(ctx context.Context, path string, n int) (Request, *Error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r := Request{Start: time.Now()}
	tokens := 0
	fail := func(kind Kind, status int, cause error) (Request, *Error) {
		if cause != nil && (errors.Is(ctx.Err(), context.DeadlineExceeded) || unanswered.TimedOut(cause)) {
			kind = Timeout
		}
		return r, &Error{Kind: kind, Status: status, After: time.Since(r.Start), Tokens: tokens, cause: cause}
	}
	body, err := p.body(path, n)
	if err != nil {
		return fail(BadRequest, 0, err)
	}
	u := p.base.JoinPath(path)
	if strings.HasSuffix(strings.TrimRight(p.base.Path, "/"), "/v1") {
		u = p.base.JoinPath(strings.TrimPrefix(path, "/v1"))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return fail(BadRequest, 0, err)
	}
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { r.Connect = time.Since(r.Start) },
	}))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := p.client.Do(req)
	if err != nil {
		return fail(Refused, 0, unanswered.Cause(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fail(kindOf(resp.StatusCode), resp.StatusCode, nil)
	}
	var kind Kind
	if kind, tokens, err = r.read(resp.Body); kind != "" {
		return fail(kind, resp.StatusCode, err)
	}
	return r, nil
}

// elapsed is the time since the request could be sent.
func (r *Request) elapsed() time.Duration { return time.Since(r.Start) - r.Connect }

func kindOf(status int) Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Unauth
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return NotFound
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return Overloaded
	}
	switch {
	case status >= 500:
		return ServerError
	case status >= 400:
		return BadRequest
	}
	return Malformed // a redirect, or a success without content
}

// read takes in a stream of events to its end. It returns the kind of the failure, ""
// for none, and how many tokens came.
func (r *Request) read(body io.Reader) (kind Kind, tokens int, cause error) {
	m := stream.Meter{Kind: stream.Events, To: r}
	defer func() { tokens = m.Count.N }()
	buf := make([]byte, 16<<10)
	for size := 0; ; {
		n, err := body.Read(buf)
		at := int64(r.elapsed())
		m.Data(buf[:n], max(at, 1))
		r.TTFT = time.Duration(m.First)
		size += n
		switch {
		case size > maxAnswer:
			return TooLarge, 0, nil
		case m.Failed:
			return StreamError, 0, nil
		case m.Bad > 0:
			return Malformed, 0, nil
		case err == nil:
			continue
		case err != io.EOF:
			return Truncated, 0, err
		}
		m.End(at)
		switch {
		case m.Failed:
			return StreamError, 0, nil
		case m.Bad > 0 || m.First == 0 && m.Finish == "":
			return Malformed, 0, nil
		case !m.Complete():
			return Truncated, 0, io.ErrUnexpectedEOF
		}
		return "", 0, nil
	}
}

// Tokens implements stream.Counter.
func (r *Request) Tokens(int) {}

// Interval implements stream.Counter.
func (r *Request) Interval(gap int64, n int) {
	r.Gaps = append(r.Gaps, slices.Repeat([]time.Duration{time.Duration(gap) / time.Duration(n)}, n)...)
}

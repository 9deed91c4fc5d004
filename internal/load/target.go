package load

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// An API is one of the completion interfaces.
type API string

// The APIs.
const (
	Chat        API = "chat"        // /v1/chat/completions
	Completions API = "completions" // /v1/completions
)

// A Target is the server under test, with the options of requests.
type Target struct {
	URL     string // base URL (http://host:8000, .../v1) or the endpoint itself
	API     API
	Model   string
	Headers http.Header                           // credentials included; never stored in results
	TLS     *tls.Config                           // nil for the system's roots
	Proxy   func(*http.Request) (*url.URL, error) // nil for none
	Extra   map[string]any                        // further fields of the body; nil removes one

	// IgnoreEOS requests exactly the wanted number of tokens, with ignore_eos and min_tokens, which vLLM and SGLang
	// know.
	IgnoreEOS bool
	// FinalUsage is for servers that report token counts only at the end of an answer. They reject
	// stream_options.continuous_usage_stats, which vLLM and SGLang know.
	FinalUsage bool
}

// An endpoint is a validated Target that writes requests.
type endpoint struct {
	target  Target
	url     *url.URL    // the API's
	base    *url.URL    // the server's
	header  http.Header // for every request, without X-Request-Id
	prefix  []byte      // body up to a prompt of words
	end     string      // body after a prompt of words, up to suffix
	suffix  []byte      // further fields of the body, up to the number of tokens
	minimum bool        // send min_tokens

	prompts    [][]byte      // the user's own: each the body up to and with the prompt; nil for words
	asked      atomic.Uint64 // prompts of the user's own so far
	vocabulary *Vocabulary
	whole      bool // answers are not streamed, for the probe
}

// newEndpoint validates a Target.
func newEndpoint(t Target, vocab *Vocabulary) (*endpoint, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// An invalid URL may hold a password, so the error must not quote it.
		return nil, hint.With(errors.New("the target is not an http or https URL"), "write it as http://host:8000")
	}
	e := &endpoint{target: t, vocabulary: vocab}
	if err := e.setURLs(u); err != nil {
		return nil, err
	}
	if e.header, err = e.newHeaders(); err != nil {
		return nil, err
	}
	return e, e.renderTemplate()
}

// setURLs sets the URL of the API.
func (e *endpoint) setURLs(u *url.URL) error {
	suffixes := map[API]string{Chat: "/chat/completions", Completions: "/completions"}
	path := strings.TrimRight(u.Path, "/")
	for _, named := range []API{Chat, Completions} {
		before, ok := strings.CutSuffix(path, suffixes[named])
		if !ok {
			continue
		}
		if e.target.API != "" && e.target.API != named {
			return fmt.Errorf("the URL is for API %s, but --api is %s", named, e.target.API)
		}
		e.target.API, path = named, before
	}
	e.target.API = cmp.Or(e.target.API, Chat)
	suffix, known := suffixes[e.target.API]
	if !known {
		return fmt.Errorf("API %q: want chat or completions", e.target.API)
	}
	root := strings.TrimSuffix(path, "/v1")
	e.url = u.JoinPath()
	e.url.Path = cmp.Or(path, "/v1") + suffix
	base := *u
	base.Path, base.RawQuery, base.Fragment = root, "", ""
	e.base = &base
	return nil
}

// newHeaders returns the headers of every request.
func (e *endpoint) newHeaders() (http.Header, error) {
	r := http.Request{Header: http.Header{
		"User-Agent": {"sixty"}, "Content-Type": {"application/json"},
		"Accept": {"*/*"},
	}}
	maps.Copy(r.Header, e.target.Headers)
	if u := e.url.User; u != nil && r.Header.Get("Authorization") == "" {
		pass, _ := u.Password()
		r.SetBasicAuth(u.Username(), pass)
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) ||
			slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return nil, fmt.Errorf("header %q cannot be sent", name)
		}
	}
	// Without a value the header is not sent. It lets net/http resend a request if a kept connection was closed
	// before the request arrived.
	r.Header["Idempotency-Key"] = nil
	return r.Header, nil
}

// renderTemplate renders the body around the prompt and the number of tokens.
func (e *endpoint) renderTemplate() error {
	t := &e.target
	model, err := json.Marshal(t.Model)
	if err != nil {
		return fmt.Errorf("model name: %w", err)
	}
	begin, end := `"prompt":"`, `"`
	if t.API == Chat {
		begin, end = `"messages":[{"role":"user","content":"`, `"}]`
	}
	e.prefix = fmt.Appendf(nil, `{"model":%s,%s`, model, begin)
	fields := map[string]any{"temperature": 0, "stream": !e.whole}
	if t.IgnoreEOS {
		fields["ignore_eos"] = true
	}
	if !e.whole {
		o := map[string]any{"include_usage": true}
		if !t.FinalUsage {
			o["continuous_usage_stats"] = true
		}
		fields["stream_options"] = o
	}
	for k, v := range t.Extra {
		if k == "model" || k == "messages" || k == "prompt" || k == "max_tokens" || k == "stream" {
			return fmt.Errorf("extra body field %q is set by the test itself", k)
		}
		if v == nil {
			delete(fields, k) // null removes a field that a server does not know
			continue
		}
		fields[k] = v
	}
	_, fixed := t.Extra["min_tokens"]
	e.minimum = t.IgnoreEOS && !fixed
	encoded, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("extra body fields: %w", err)
	}
	e.end, e.suffix = end, fmt.Appendf(nil, `,%s,"max_tokens":`, encoded[1:len(encoded)-1])
	return nil
}

// appendBody appends the body of a request to dst.
func (e *endpoint) appendBody(dst []byte, t *workload.Turn) []byte {
	if len(e.prompts) > 0 {
		dst = append(dst, e.nextPrompt()...)
	} else {
		dst = append(dst, e.prefix...)
		dst = e.vocabulary.Append(dst, t.Parts)
		dst = append(dst, e.end...)
	}
	dst = append(dst, e.suffix...)
	dst = strconv.AppendInt(dst, int64(t.OutputTokens), 10)
	if e.minimum {
		dst = append(dst, `,"min_tokens":`...)
		dst = strconv.AppendInt(dst, int64(t.OutputTokens), 10)
	}
	return append(dst, '}')
}

// newRequest returns a request with a body. vLLM logs the X-Request-Id with --enable-request-id-headers.
func (e *endpoint) newRequest(ctx context.Context, id string, body []byte) *http.Request {
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := again()
	req := (&http.Request{
		Method: http.MethodPost, URL: e.url, Header: e.header.Clone(), Body: first, GetBody: again,
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	req.Header.Set("X-Request-Id", id)
	return req
}

// defaultTimeout bounds one request.
const defaultTimeout = 10 * time.Minute

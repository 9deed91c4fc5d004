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
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// API is which of the completion interfaces is called.
type API string

// The APIs that can be called.
const (
	Chat        API = "chat"        // /v1/chat/completions
	Completions API = "completions" // /v1/completions
)

// Target is the server under test and how to ask it.
type Target struct {
	URL     string // base URL (http://host:8000, .../v1) or the endpoint itself
	API     API
	Model   string
	Stream  bool
	Headers http.Header                           // credentials included; never stored in results
	TLS     *tls.Config                           // nil for the system's roots
	Proxy   func(*http.Request) (*url.URL, error) // nil for none
	Extra   map[string]any                        // further fields of the body; nil removes one

	// IgnoreEOS asks for exactly the wanted number of tokens with ignore_eos and
	// min_tokens, which vLLM and SGLang know.
	IgnoreEOS bool
	// FinalUsage says that the server tells how many tokens an answer has at its end
	// only: it refuses stream_options.continuous_usage_stats, which vLLM and SGLang know.
	FinalUsage bool
}

// endpoint is a validated Target, ready to write requests.
type endpoint struct {
	target  Target
	url     *url.URL    // of the API
	base    *url.URL    // of the server
	header  http.Header // of every request, but for X-Request-Id
	prefix  []byte      // body up to the prompt
	suffix  []byte      // body after the prompt, up to the number of tokens
	minimum bool        // min_tokens is sent
	vocab   *Vocabulary
}

// newEndpoint validates a Target.
func newEndpoint(t Target, vocab *Vocabulary) (*endpoint, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// What cannot be read may hold a password.
		return nil, hint.With(errors.New("the target is not an http or https URL"), "write it as http://host:8000")
	}
	e := &endpoint{target: t, vocab: vocab}
	if err := e.locate(u); err != nil {
		return nil, err
	}
	if e.header, err = e.headers(); err != nil {
		return nil, err
	}
	if vocab.IDs() && e.target.API == Chat {
		return nil, errors.New("chat prompts cannot be token ids")
	}
	return e, e.template()
}

// locate finds the API's URL.
func (e *endpoint) locate(u *url.URL) error {
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

// headers are the headers of every request.
func (e *endpoint) headers() (http.Header, error) {
	r := http.Request{Header: http.Header{"User-Agent": {"sixty"}, "Content-Type": {"application/json"}, "Accept": {"*/*"}}}
	maps.Copy(r.Header, e.target.Headers)
	if u := e.url.User; u != nil && r.Header.Get("Authorization") == "" {
		pass, _ := u.Password()
		r.SetBasicAuth(u.Username(), pass)
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return nil, fmt.Errorf("header %q cannot be sent", name)
		}
	}
	// Without a value it is not sent: it lets net/http send a request again for which a kept
	// connection had been closed before it arrived.
	r.Header["Idempotency-Key"] = nil
	return r.Header, nil
}

// template renders the body around the prompt and the number of tokens.
func (e *endpoint) template() error {
	t := &e.target
	model, err := json.Marshal(t.Model)
	if err != nil {
		return fmt.Errorf("model name: %w", err)
	}
	e.prefix = fmt.Appendf(nil, `{"model":%s,`, model)
	if e.target.API == Chat {
		e.prefix = append(e.prefix, `"messages":[`...)
	} else {
		e.prefix = append(e.prefix, `"prompt":`...)
	}
	fields := map[string]any{"temperature": 0, "stream": t.Stream}
	if t.IgnoreEOS {
		fields["ignore_eos"] = true
	}
	if t.Stream {
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
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("extra body fields: %w", err)
	}
	e.suffix = fmt.Appendf(nil, `,%s,"max_tokens":`, body[1:len(body)-1])
	return nil
}

// conversation is the JSON of the messages of a chat so far, each followed by a
// comma.
type conversation []byte

// body appends a request's body. History is the conversation before it; tokens
// is how long that was.
func (e *endpoint) body(dst []byte, history conversation, t *workload.Turn) []byte {
	dst = append(dst, e.prefix...)
	switch {
	case e.target.API == Chat:
		dst = append(dst, history...)
		dst = append(dst, `{"role":"user","content":"`...)
		dst = e.vocab.Append(dst, t.Parts, len(history))
		dst = append(dst, `"}]`...)
	case e.vocab.IDs():
		dst = append(dst, '[')
		dst = e.vocab.Append(dst, t.Parts, 0)
		dst = append(dst, ']')
	default:
		dst = append(dst, '"')
		dst = append(dst, history...)
		dst = e.vocab.Append(dst, t.Parts, len(history))
		dst = append(dst, '"')
	}
	dst = append(dst, e.suffix...)
	dst = strconv.AppendInt(dst, int64(t.OutputTokens), 10)
	if e.minimum {
		dst = append(dst, `,"min_tokens":`...)
		dst = strconv.AppendInt(dst, int64(t.OutputTokens), 10)
	}
	return append(dst, '}')
}

// remember extends a conversation by a turn and the answer to it, which is
// still JSON-escaped.
func (e *endpoint) remember(h conversation, t *workload.Turn, answer []byte) conversation {
	if e.target.API == Chat {
		h2 := append(h, `{"role":"user","content":"`...)
		h2 = e.vocab.Append(h2, t.Parts, len(h))
		h2 = append(h2, `"},{"role":"assistant","content":"`...)
		h2 = append(h2, answer...)
		return append(h2, `"},`...)
	}
	h2 := e.vocab.Append(h, t.Parts, len(h))
	return append(h2, answer...)
}

// request makes a request of a body. vLLM logs its X-Request-Id with
// --enable-request-id-headers.
func (e *endpoint) request(ctx context.Context, id string, body []byte) *http.Request {
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := again()
	req := (&http.Request{Method: http.MethodPost, URL: e.url, Header: e.header.Clone(), Body: first, GetBody: again, ContentLength: int64(len(body))}).WithContext(ctx)
	req.Header.Set("X-Request-Id", id)
	return req
}

// defaultTimeout bounds one request: longer than any answer should take, shorter
// than a test's patience.
const defaultTimeout = 10 * time.Minute

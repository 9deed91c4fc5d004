package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/unanswered"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Probed is what a server tells before the test.
type Probed struct {
	Target     Target // with the model filled in and options the server rejects left out
	Vocabulary *Vocabulary
	Version    string // of vLLM, "" elsewhere
	Notes      []string
}

// probe asks a server what the test needs to know. It uses net/http: nothing
// here is measured.
type probe struct {
	client *http.Client
	target Target
	e      *endpoint
	out    Probed
}

const (
	probeTimeout = 5 * time.Second
	firstTimeout = 60 * time.Second // of the first completion, which may load something
	maxProbe     = 16 << 20
)

// Probe asks the server for its model, version and tokenizer, and sends one
// completion of one token to learn which options it knows. Text says that prompts
// must be text even where the server would take token ids, as conversations need.
func Probe(ctx context.Context, t Target, text bool) (*Probed, error) {
	vocab := DefaultVocabulary()
	e, err := newEndpoint(t, vocab)
	if err != nil {
		return nil, err
	}
	t.API = e.target.API
	transport := &http.Transport{TLSClientConfig: t.TLS.Clone(), Proxy: t.Proxy, DisableCompression: true}
	defer transport.CloseIdleConnections()
	p := &probe{client: &http.Client{Transport: transport}, target: t, e: e}
	p.out.Vocabulary = vocab
	if err := p.models(ctx); err != nil {
		return nil, err
	}
	p.version(ctx)
	p.tokenizer(ctx, text)
	if err := p.options(ctx); err != nil {
		return nil, err
	}
	if v := p.out.Vocabulary; v.Source == "assumed" {
		p.calibrate(ctx)
	}
	p.out.Target = p.target
	return &p.out, nil
}

// do sends a request to a path of the server's base URL and decodes the answer.
func (p *probe) do(ctx context.Context, timeout time.Duration, method string, u *url.URL, body, into any) (status int, message string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var rd io.Reader = http.NoBody
	if b, ok := body.([]byte); ok {
		rd = bytes.NewReader(b)
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, "", err
		}
		rd = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), rd)
	if err != nil {
		return 0, "", fmt.Errorf("ask %s: %w", u.Redacted(), err)
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, p.target.Headers)
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("ask %s: %w", u.Redacted(), unanswered.Cause(err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	if err != nil {
		return 0, "", fmt.Errorf("ask %s: %w", u.Redacted(), err)
	}
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Error   struct{ Message string }
			Message string
			Detail  any
		}
		_ = json.Unmarshal(b, &e)
		message = e.Error.Message + e.Message
		if message == "" && e.Detail != nil {
			message = fmt.Sprint(e.Detail)
		}
		return resp.StatusCode, message[:min(len(message), maxMessage)], nil
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			return resp.StatusCode, "", fmt.Errorf("ask %s: answer: %w", u.Redacted(), err)
		}
	}
	return resp.StatusCode, "", nil
}

// models checks the model's name against what the server serves.
func (p *probe) models(ctx context.Context) error {
	u := p.e.url.JoinPath()
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/completions"), "/chat") + "/models"
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	status, message, err := p.do(ctx, probeTimeout, http.MethodGet, u, nil, &list)
	switch {
	case err != nil && status == 0:
		const way = "check that the server runs and that the address is right"
		return hint.With(err, cmp.Or(unanswered.Hint(err, way), way))
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return hint.With(fmt.Errorf("ask %s: HTTP status %d %s", u.Redacted(), status, message), "pass the key with --bearer-token-file FILE")
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	switch {
	case p.target.Model == "" && len(names) == 0:
		return hint.With(errors.New("the server does not list its models"), "name the model with --model")
	case p.target.Model == "":
		p.target.Model = names[0]
	case len(names) > 0 && !slices.Contains(names, p.target.Model):
		return hint.With(fmt.Errorf("the server has no model %q", p.target.Model), "use one of "+strings.Join(names[:min(len(names), 10)], ", "))
	}
	return nil
}

// version asks vLLM for its version; other servers do not tell.
func (p *probe) version(ctx context.Context) {
	var v struct{ Version string }
	if status, _, err := p.do(ctx, probeTimeout, http.MethodGet, p.e.base.JoinPath("/version"), nil, &v); err == nil && status == http.StatusOK {
		p.out.Version = v.Version
	}
}

// tokenized is the answer of vLLM's /tokenize.
type tokenized struct {
	Count  int      `json:"count"`
	Tokens []int    `json:"tokens"`
	Strs   []string `json:"token_strs"`
}

func (p *probe) tokenize(ctx context.Context, body map[string]any) (t tokenized, ok bool) {
	body["model"] = p.target.Model
	status, _, err := p.do(ctx, probeTimeout, http.MethodPost, p.e.base.JoinPath("/tokenize"), body, &t)
	return t, err == nil && status == http.StatusOK && t.Count > 0
}

// tokenizer learns from the server's /tokenize how to write prompts of an exact
// length.
func (p *probe) tokenizer(ctx context.Context, text bool) {
	words := strings.Join(p.out.Vocabulary.words, "")
	all, ok := p.tokenize(ctx, map[string]any{"prompt": words, "add_special_tokens": false, "return_token_strs": true})
	if !ok {
		return
	}
	v := p.buildVocabulary(all, text)
	if p.out.Vocabulary = v; v.IDs() {
		return // ids are taken as they are: nothing is added
	}
	const sample = 64
	content := string(v.Append(nil, []workload.PromptPart{{Seed: 1, Tokens: sample}}, 1))
	body := map[string]any{"prompt": content}
	if p.target.API == Chat {
		body = map[string]any{"messages": []any{map[string]any{"role": "user", "content": content}}, "add_generation_prompt": true}
	}
	if t, ok := p.tokenize(ctx, body); ok {
		written := float64(v.wordsFor(1+sample)-v.wordsFor(1)) * v.TokensPerWord
		v.Overhead = max(int(float64(t.Count)-written+0.5), 0)
	}
}

// buildVocabulary makes a vocabulary of the tokens that the default words consist of.
func (p *probe) buildVocabulary(all tokenized, text bool) *Vocabulary {
	if p.target.API == Completions && !text {
		if v, err := withIDs(all.Tokens, "server"); err == nil {
			return v
		}
	}
	begins := func(s string) bool {
		return strings.HasPrefix(s, "Ġ") || strings.HasPrefix(s, "▁") || strings.HasPrefix(s, " ")
	}
	var whole []string
	for i, s := range all.Strs {
		// A word is whole when the next token begins another one.
		if begins(s) && (i+1 == len(all.Strs) || begins(all.Strs[i+1])) {
			w := strings.TrimLeft(s, "Ġ▁ ")
			if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == "" {
				whole = append(whole, " "+w)
			}
		}
	}
	if v, err := withWords(whole, "server"); err == nil {
		return v
	}
	v := *p.out.Vocabulary
	v.TokensPerWord, v.Source = float64(all.Count)/float64(len(v.words)), "server"
	return &v
}

// options sends a completion of one token as the test will, and leaves out what
// the server refuses.
func (p *probe) options(ctx context.Context) error {
	dropped := []string{}
	for {
		status, message, err := p.complete(ctx, 16, nil)
		switch {
		case err != nil:
			return hint.With(err, "check that the server answers requests")
		case status == http.StatusOK:
			if len(dropped) > 0 {
				p.out.Notes = append(p.out.Notes, "the server rejects "+strings.Join(dropped, " and ")+", so they are left out")
			}
			return nil
		case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
			if p.target.Stream && !p.target.FinalUsage {
				p.target.FinalUsage = true
				dropped = append(dropped, "continuous_usage_stats")
				continue
			}
			if p.target.IgnoreEOS {
				p.target.IgnoreEOS = false
				dropped = append(dropped, "ignore_eos")
				continue
			}
		}
		err = fmt.Errorf("the server answered a first completion with HTTP status %d: %s", status, message)
		switch {
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			return hint.With(err, "pass the key with --bearer-token-file FILE")
		case status == http.StatusNotFound:
			return hint.With(err, "check the API (--api chat or completions) and the model")
		case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
			return hint.With(err, "the server is overloaded before the test: wait, or find its other clients")
		}
		return hint.With(err, "try the request by hand, and pass missing fields with --extra-body")
	}
}

// complete sends one completion of one token; usage, where wanted, is decoded
// from an answer that is not streamed.
func (p *probe) complete(ctx context.Context, tokens int, usage *int) (status int, message string, err error) {
	t := p.target
	if usage != nil {
		t.Stream = false
	}
	e, err := newEndpoint(t, p.out.Vocabulary)
	if err != nil {
		return 0, "", err
	}
	body := e.body(nil, nil, &workload.Turn{OutputTokens: 1, Parts: []workload.PromptPart{{Seed: uint64(time.Now().UnixNano()), Tokens: tokens}}})
	var answer struct {
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	var into any
	if usage != nil {
		into = &answer
	}
	status, message, err = p.do(ctx, firstTimeout, http.MethodPost, e.url, body, into)
	if usage != nil {
		*usage = answer.Usage.PromptTokens
	}
	return status, message, err
}

// calibrate finds the tokens of a word and of the chat template from the usage
// of two prompts, where there is no /tokenize.
func (p *probe) calibrate(ctx context.Context) {
	const short, long = 64, 256
	var a, b int
	v := *p.out.Vocabulary
	s1, _, err1 := p.complete(ctx, short, &a)
	s2, _, err2 := p.complete(ctx, long, &b)
	if err1 != nil || err2 != nil || s1 != http.StatusOK || s2 != http.StatusOK || b <= a || a <= 0 {
		p.out.Notes = append(p.out.Notes, "the server does not count prompt tokens: lengths are words")
		return
	}
	v.TokensPerWord = float64(b-a) / (long - short)
	v.Overhead = max(a-int(v.TokensPerWord*short+0.5), 0)
	v.Source = "usage"
	p.out.Vocabulary = &v
}

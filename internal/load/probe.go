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

// Probed holds what a server reveals before the test.
type Probed struct {
	Target     Target // with the model filled in, and without options that the server rejects
	Vocabulary *Vocabulary
	Version    string // vLLM's version; "" for other servers
	Notes      []string
}

// A probe queries a server before the test. It uses net/http, because nothing is measured.
type probe struct {
	client *http.Client
	target Target
	e      *endpoint
	out    Probed
}

const (
	probeTimeout = 5 * time.Second
	firstTimeout = 60 * time.Second // for the first completion, which may load something
	maxProbe     = 16 << 20
)

// Probe asks the server for its model, version and tokenizer, and sends a completion of one token to learn which
// options it accepts.
func Probe(ctx context.Context, t Target) (*Probed, error) {
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
	if err := p.checkModel(ctx); err != nil {
		return nil, err
	}
	p.askVersion(ctx)
	p.learnTokenizer(ctx)
	if err := p.learnOptions(ctx); err != nil {
		return nil, err
	}
	if v := p.out.Vocabulary; v.Source == "assumed" {
		p.calibrateVocabulary(ctx)
	}
	p.out.Target = p.target
	return &p.out, nil
}

// doRequest sends a request and decodes the answer.
func (p *probe) doRequest(
	ctx context.Context, timeout time.Duration, method string, u *url.URL, body, into any,
) (status int, message string, err error) {
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

// checkModel checks the model's name against the server's list.
func (p *probe) checkModel(ctx context.Context) error {
	u := p.e.url.JoinPath()
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/completions"), "/chat") + "/models"
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	status, message, err := p.doRequest(ctx, probeTimeout, http.MethodGet, u, nil, &list)
	switch {
	case err != nil && status == 0:
		const way = "check that the server runs and that the address is right"
		return hint.With(err, cmp.Or(unanswered.Hint(err, way), way))
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return hint.With(fmt.Errorf("ask %s: HTTP status %d %s", u.Redacted(), status, message),
			"pass the key with --bearer-token-file FILE")
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
		return hint.With(fmt.Errorf("the server has no model %q", p.target.Model),
			"use one of "+strings.Join(names[:min(len(names), 10)], ", "))
	}
	return nil
}

// askVersion asks vLLM for its version. Other servers have no such endpoint.
func (p *probe) askVersion(ctx context.Context) {
	var v struct{ Version string }
	status, _, err := p.doRequest(ctx, probeTimeout, http.MethodGet, p.e.base.JoinPath("/version"), nil, &v)
	if err == nil && status == http.StatusOK {
		p.out.Version = v.Version
	}
}

// tokenized is the answer of vLLM's /tokenize.
type tokenized struct {
	Count int      `json:"count"`
	Strs  []string `json:"token_strs"`
}

func (p *probe) callTokenize(ctx context.Context, body map[string]any) (t tokenized, ok bool) {
	body["model"] = p.target.Model
	status, _, err := p.doRequest(ctx, probeTimeout, http.MethodPost, p.e.base.JoinPath("/tokenize"), body, &t)
	return t, err == nil && status == http.StatusOK && t.Count > 0
}

// learnTokenizer uses the server's /tokenize to build prompts of an exact length.
func (p *probe) learnTokenizer(ctx context.Context) {
	joined := strings.Join(p.out.Vocabulary.words, "")
	all, ok := p.callTokenize(ctx,
		map[string]any{"prompt": joined, "add_special_tokens": false, "return_token_strs": true})
	if !ok {
		return
	}
	v := p.buildVocabulary(all)
	p.out.Vocabulary = v
	const sample = 64
	content := string(v.Append(nil, []workload.PromptPart{{Seed: 1, Tokens: sample}}))
	fields := map[string]any{"prompt": content}
	if p.target.API == Chat {
		fields = map[string]any{
			"messages":              []any{map[string]any{"role": "user", "content": content}},
			"add_generation_prompt": true,
		}
	}
	if t, ok := p.callTokenize(ctx, fields); ok {
		written := float64(v.wordsFor(sample)) * v.TokensPerWord
		v.Overhead = max(int(float64(t.Count)-written+0.5), 0)
	}
}

// buildVocabulary builds a vocabulary from the tokens of the default words.
func (p *probe) buildVocabulary(all tokenized) *Vocabulary {
	begins := func(s string) bool {
		return strings.HasPrefix(s, "Ġ") || strings.HasPrefix(s, "▁") || strings.HasPrefix(s, " ")
	}
	var whole []string
	for i, s := range all.Strs {
		// A token is a whole word if the next token begins another word.
		if begins(s) && (i+1 == len(all.Strs) || begins(all.Strs[i+1])) {
			w := strings.TrimLeft(s, "Ġ▁ ")
			if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == "" {
				whole = append(whole, " "+w)
			}
		}
	}
	if v, err := newWordVocabulary(whole, "server"); err == nil {
		return v
	}
	v := *p.out.Vocabulary
	v.TokensPerWord, v.Source = float64(all.Count)/float64(len(v.words)), "server"
	return &v
}

// learnOptions sends a completion of one token with the options of the test, and drops those that the server rejects.
func (p *probe) learnOptions(ctx context.Context) error {
	dropped := []string{}
	for {
		status, message, err := p.completeOnce(ctx, 16, nil)
		switch {
		case err != nil:
			return hint.With(err, "check that the server answers requests")
		case status == http.StatusOK:
			if len(dropped) > 0 {
				p.out.Notes = append(p.out.Notes, "the server rejects "+strings.Join(dropped, " and ")+
					", so they are left out")
			}
			return nil
		case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
			if !p.target.FinalUsage {
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

// completeOnce requests one token. If usage is not nil, the answer is not streamed and its usage is decoded.
func (p *probe) completeOnce(ctx context.Context, tokens int, usage *int) (status int, message string, err error) {
	e, err := newEndpoint(p.target, p.out.Vocabulary)
	if err == nil && usage != nil {
		e.whole = true
		err = e.renderTemplate()
	}
	if err != nil {
		return 0, "", err
	}
	encoded := e.appendBody(nil, &workload.Turn{
		OutputTokens: 1, Parts: []workload.PromptPart{{Seed: uint64(time.Now().UnixNano()), Tokens: tokens}},
	})
	var answer struct {
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	var into any
	if usage != nil {
		into = &answer
	}
	status, message, err = p.doRequest(ctx, firstTimeout, http.MethodPost, e.url, encoded, into)
	if usage != nil {
		*usage = answer.Usage.PromptTokens
	}
	return status, message, err
}

// calibrateVocabulary estimates the tokens per word and the tokens of the chat template from the usage of two
// prompts, for servers without /tokenize.
func (p *probe) calibrateVocabulary(ctx context.Context) {
	const short, long = 64, 256
	var a, b int
	v := *p.out.Vocabulary
	s1, _, err1 := p.completeOnce(ctx, short, &a)
	s2, _, err2 := p.completeOnce(ctx, long, &b)
	if err1 != nil || err2 != nil || s1 != http.StatusOK || s2 != http.StatusOK || b <= a || a <= 0 {
		p.out.Notes = append(p.out.Notes, "the server does not count prompt tokens: lengths are words")
		return
	}
	v.TokensPerWord = float64(b-a) / (long - short)
	v.Overhead = max(a-int(v.TokensPerWord*short+0.5), 0)
	v.Source = "usage"
	p.out.Vocabulary = &v
}

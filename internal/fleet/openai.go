package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxBody   = 16 << 20
	maxOpen   = 1 << 14 // most requests of a replica, to limit memory
	maxTokens = 1 << 20
)

// An apiRequest has the fields of a completion or chat completion that the fleet reads.
type apiRequest struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
	Priority            int             `json:"priority"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// A refusal is an answer other than 200.
type refusal struct {
	status  int    // for the client
	counted int    // for http_requests_total
	kind    string // vLLM's name
	reason  string
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{statusBad, statusBad, "BadRequestError", fmt.Sprintf(format, args...)}
}

// An apiServer is the API server of one replica.
type apiServer struct {
	fleet *Fleet
	index int
}

func (f *Fleet) replicaHandler(i int) http.Handler {
	s := &apiServer{f, i}
	mux := http.NewServeMux()
	empty := func(w http.ResponseWriter, _ *http.Request) {}
	mux.HandleFunc("GET /health", empty)
	mux.HandleFunc("/ping", empty)
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, statusOK, map[string]string{"version": string(f.cfg.Release)})
	})
	mux.HandleFunc("GET /v1/models", s.serveModels)
	mux.HandleFunc("POST /tokenize", s.serveTokenize)
	mux.HandleFunc("POST /v1/completions",
		func(w http.ResponseWriter, r *http.Request) { s.serveCompletion(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions",
		func(w http.ResponseWriter, r *http.Request) { s.serveCompletion(w, r, true) })
	return mux
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func writeRefusal(w http.ResponseWriter, r *refusal) {
	detail := map[string]any{"message": r.reason, "type": r.kind, "param": nil, "code": r.status}
	writeJSON(w, r.status, map[string]any{"error": detail})
}

func (s *apiServer) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var body []byte
	var err error
	s.fleet.updateCore(func(c *core, _ time.Duration) { body, err = c.replicas[s.index].metricsPage() })
	if err != nil {
		http.Error(w, err.Error(), statusUnavailable)
		return
	}
	w.Header().Set("Content-Type", ContentType)
	_, _ = w.Write(body)
}

func (s *apiServer) serveModels(w http.ResponseWriter, r *http.Request) {
	cfg := s.replicaConfig()
	writeJSON(w, statusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.fleet.cfg.Model, "object": "model", "created": s.fleet.began.Unix(), "owned_by": "vllm",
		"root": s.fleet.cfg.Model, "parent": nil, "max_model_len": cfg.Engine.MaxModelLen, "permission": []any{},
	}}})
	s.countInstant(r, statusOK, 0)
}

// replicaConfig is the replica's configuration, which never changes.
func (s *apiServer) replicaConfig() *Server { return &s.fleet.core.replicas[s.index].cfg }

// countInstant counts an exchange that takes no time.
func (s *apiServer) countInstant(r *http.Request, status, bodyBytes int) {
	s.fleet.updateCore(func(c *core, _ time.Duration) {
		if own := c.replicas[s.index]; own.up {
			x := exchange{handler: r.URL.Path, method: r.Method, status: status, received: bodyBytes}
			own.api.countExchange(x)
		}
	})
}

func (s *apiServer) serveTokenize(w http.ResponseWriter, r *http.Request) {
	var q apiRequest
	p, n, refused := s.readRequest(w, r, &q)
	if refused != nil {
		s.countInstant(r, refused.counted, n)
		writeRefusal(w, refused)
		return
	}
	writeJSON(w, statusOK, map[string]any{
		"count": p.tokens, "max_model_len": s.replicaConfig().Engine.MaxModelLen, "tokens": []int{}, "token_strs": nil,
	})
	s.countInstant(r, statusOK, n)
}

// readRequest parses a request's body and counts its prompt.
func (s *apiServer) readRequest(w http.ResponseWriter, r *http.Request, q *apiRequest) (*prompt, int, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, len(body), badRequest("the body cannot be read: %v", err)
	}
	if err := json.Unmarshal(body, q); err != nil {
		return nil, len(body), badRequest("the body is not the JSON that was expected")
	}
	if q.Model != "" && q.Model != s.fleet.cfg.Model {
		reason := "The model `" + shortenName(q.Model) + "` does not exist."
		return nil, len(body), &refusal{statusNotFound, statusNotFound, "NotFoundError", reason}
	}
	p := newPrompt(s.replicaConfig().Engine.BlockSize)
	switch {
	case len(q.Messages) > 0:
		err = p.addMessages(q.Messages)
	case len(q.Prompt) > 0 && string(q.Prompt) != "null":
		err = p.addRaw(q.Prompt)
	}
	if err != nil {
		return nil, len(body), badRequest("%v", err)
	}
	return p, len(body), nil
}

func shortenName(s string) string { return s[:min(len(s), 64)] }

// decideLength decides how long the answer will be.
func (s *apiServer) decideLength(q *apiRequest, p *prompt, chat bool) (output, limit int, refused *refusal) {
	longest := s.replicaConfig().Engine.MaxModelLen
	if p.tokens == 0 {
		return 0, 0, &refusal{statusBad, countedEmpty, "BadRequestError", "the prompt is empty"}
	}
	limit = 16
	if chat {
		limit = longest - p.tokens
	}
	for _, given := range []*int{q.MaxTokens, q.MaxCompletionTokens} {
		if given != nil {
			limit = *given
		}
	}
	switch {
	case q.N != nil && *q.N != 1:
		return 0, 0, badRequest("n other than 1 is not imitated")
	case limit < 1 || limit > maxTokens:
		return 0, 0, badRequest("max_tokens must be at least 1, got %d", limit)
	case q.MinTokens < 0 || q.MinTokens > limit:
		return 0, 0, badRequest("min_tokens must be between 0 and max_tokens=%d, got %d", limit, q.MinTokens)
	case p.tokens+limit > longest:
		return 0, 0, badRequest("This model's maximum context length is %d tokens. "+
			"You asked for %d: %d in the prompt and %d in the answer.", longest, p.tokens+limit, p.tokens, limit)
	}
	output = limit
	if !q.IgnoreEOS {
		output = min(limit, max(q.MinTokens, 30+int(p.h%240))) // the same prompt, the same answer
	}
	return output, limit, nil
}

// serveCompletion serves both kinds of completion.
func (s *apiServer) serveCompletion(w http.ResponseWriter, r *http.Request, chat bool) {
	var q apiRequest
	p, bodyBytes, refused := s.readRequest(w, r, &q)
	c := &call{handler: r.URL.Path, received: bodyBytes, priority: q.Priority}
	if refused == nil {
		c.output, c.limit, refused = s.decideLength(&q, p, chat)
	}
	f := s.fleet
	if refused != nil {
		f.updateCore(func(core *core, now time.Duration) {
			if own := core.replicas[s.index]; own.up {
				own.turnAway(c, refused.counted, now)
			}
		})
		writeRefusal(w, refused)
		return
	}
	st := &stream{fleet: f, signal: make(chan struct{}, 1)}
	c.prompt, c.blocks, c.caller = p.tokens, p.blocks, st
	callStatus := statusUnavailable
	f.updateCore(func(core *core, now time.Duration) {
		if own := core.replicas[s.index]; own.up && own.openRequests() < maxOpen {
			callStatus = own.submitCall(c, now)
		}
	})
	if callStatus != statusOK {
		reason := "The server takes no more requests for now."
		writeRefusal(w, &refusal{status: callStatus, kind: http.StatusText(callStatus), reason: reason})
		return
	}
	a := newAnswer(f.cfg.Model, c, &q, chat)
	var err error
	if q.Stream {
		err = a.streamTokens(w, r, st)
	} else {
		err = a.answerWhole(w, r, st)
	}
	if err != nil {
		f.updateCore(func(core *core, now time.Duration) { c.replica.abortCall(c, now) })
	}
}

// A stream passes tokens from the core to the goroutine that writes them.
type stream struct {
	fleet *Fleet

	mu        sync.Mutex
	unwritten int // tokens
	done      bool
	dead      bool
	signal    chan struct{} // one token, so that the core never waits
}

func (s *stream) onToken(c *call, at time.Duration, last bool) {
	i := c.replica.gpu.number
	s.fleet.outbox[i] = append(s.fleet.outbox[i], delivery{at, s, last})
}

func (s *stream) deliverToken(last bool) {
	s.mu.Lock()
	s.unwritten++
	s.done = last
	s.mu.Unlock()
	s.wakeWriter()
}

func (s *stream) onBroken(*call, time.Duration) {
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	s.wakeWriter()
}

func (s *stream) wakeWriter() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

var (
	errLeft = errors.New("the client left")
	errDead = errors.New("the server died")
)

// waitTokens waits for tokens and returns their number.
func (s *stream) waitTokens(r *http.Request) (due int, finished bool, err error) {
	select {
	case <-s.signal:
	case <-r.Context().Done():
		return 0, false, errLeft
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return 0, false, errDead
	}
	due, s.unwritten = s.unwritten, 0
	return due, s.done, nil
}

// An answer writes the answer to one call.
type answer struct {
	c            *call
	chat         bool
	usage, every bool // a chunk with the usage at the end, or in every chunk
	head         string
	written      int // tokens
	finish       string
	middle       []byte // the event of a token that is neither the first nor the last
	buf          []byte
}

func newAnswer(model string, c *call, q *apiRequest, chat bool) *answer {
	a := &answer{
		c: c, chat: chat, finish: "length",
		usage: q.StreamOptions.IncludeUsage, every: q.StreamOptions.Continuous && q.StreamOptions.IncludeUsage,
	}
	if c.output < c.limit {
		a.finish = "stop"
	}
	object, id := "text_completion", "cmpl-"
	if chat {
		object, id = "chat.completion", "chatcmpl-"
	}
	if chat && q.Stream {
		object += ".chunk"
	}
	a.head = fmt.Sprintf(`{"id":"%s%08x%04x","object":%q,"created":%d,"model":%q,"choices":[`,
		id, uint32(c.arrived.Microseconds()), uint16(c.prompt), object, time.Now().Unix(), model)
	return a
}

// streamTokens writes tokens as server-sent events. Tokens that come faster than the client reads go out together.
func (a *answer) streamTokens(w http.ResponseWriter, r *http.Request, st *stream) error {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w)
	if err := flush.Flush(); err != nil { // the headers go out before the first token
		return err
	}
	for {
		due, finished, err := st.waitTokens(r)
		if err != nil {
			return err
		}
		a.buf = a.buf[:0]
		for i := range due {
			a.appendToken(finished && i == due-1)
		}
		if finished {
			a.appendEnd()
		}
		if _, err := w.Write(a.buf); err != nil {
			return err
		}
		if err := flush.Flush(); err != nil {
			return err
		}
		if finished {
			return nil
		}
	}
}

// appendToken appends the events of one more token.
func (a *answer) appendToken(last bool) {
	if len(a.middle) > 0 && a.written > 0 && !last {
		a.written++
		a.buf = append(a.buf, a.middle...)
		return
	}
	if a.chat && a.written == 0 {
		a.appendEvent(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`,
			a.every)
	}
	a.written++
	finish := "null"
	if last {
		finish = `"` + a.finish + `"`
	}
	start := len(a.buf)
	if a.chat {
		a.appendEvent(`{"index":0,"delta":{"content":"`+word+`"},"logprobs":null,"finish_reason":`+finish+`}`, a.every)
	} else {
		a.appendEvent(`{"index":0,"text":"`+word+`","logprobs":null,"finish_reason":`+finish+`,"stop_reason":null}`,
			a.every)
	}
	if !last && !a.every {
		a.middle = append(a.middle, a.buf[start:]...)
	}
}

// appendEnd appends the events after the last token.
func (a *answer) appendEnd() {
	if a.usage {
		a.appendEvent("", true)
	}
	a.buf = append(a.buf, "data: [DONE]\n\n"...)
}

func (a *answer) appendEvent(choice string, usage bool) {
	a.buf = append(a.buf, "data: "...)
	a.buf = append(append(a.buf, a.head...), choice...)
	a.buf = append(a.buf, ']')
	if usage {
		a.buf = a.appendUsage(a.buf)
	}
	a.buf = append(a.buf, "}\n\n"...)
}

func (a *answer) appendUsage(b []byte) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(a.c.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(a.c.prompt+a.written), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(a.written), 10)
	return append(b, '}')
}

// answerWhole answers when all tokens have come.
func (a *answer) answerWhole(w http.ResponseWriter, r *http.Request, st *stream) error {
	for {
		due, finished, err := st.waitTokens(r)
		if errors.Is(err, errDead) {
			writeRefusal(w, &refusal{
				status: http.StatusInternalServerError, kind: "InternalServerError", reason: "EngineCore died",
			})
		}
		if err != nil {
			return err
		}
		a.written += due
		if finished {
			break
		}
	}
	text := strings.Repeat(word, a.written)
	b := append(a.buf, a.head...)
	end := `","logprobs":null,"finish_reason":"` + a.finish + `","stop_reason":null}]`
	if a.chat {
		b = append(b, `{"index":0,"message":{"role":"assistant","content":"`+text+`"}`+end[1:]...)
	} else {
		b = append(b, `{"index":0,"text":"`+text+end...)
	}
	b = append(a.appendUsage(b), '}')
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(b)
	return err
}

package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/load/wire"
)

// A script says how every request is answered.
type script struct {
	TTFT           time.Duration `json:"ttft"`             // from the request's last byte to its first token
	ITL            time.Duration `json:"itl"`              // between chunks; 0 writes as fast as it can
	Tokens         int           `json:"tokens"`           // per answer; 0 takes the request's max_tokens
	TokensPerChunk int           `json:"tokens_per_chunk"` // as with speculative decoding; 0 is 1
	ChunksPerWrite int           `json:"chunks_per_write"` // several events in one packet; 0 is 1
	SplitWrites    bool          `json:"split_writes"`     // each write in two halves, 1 ms apart
	RoleChunk      bool          `json:"role_chunk"`       // an empty role chunk at once, as chat APIs send
	NoUsage        bool          `json:"no_usage"`         // an API that reports no usage
	RefuseOptions  bool          `json:"refuse_options"`   // 400 when the request asks for continuous usage
	CloseEachTime  bool          `json:"close_each"`       // the connection, unasked, after each answer
	TokensPerWord  float64       `json:"tokens_per_word"`  // of the simulated tokenizer; 0 is 1
	Overhead       int           `json:"overhead"`         // tokens of the simulated chat template
}

// truth is what happened to one request on the server's side.
type truth struct {
	ID       string        `json:"id"`       // the request's X-Request-Id
	Received int64         `json:"received"` // ns, when its last byte had been read, on the server's clock
	First    time.Duration `json:"first"`    // from there to the write of the first token
	Last     time.Duration `json:"last"`     // to the write of the last token
	Gaps     time.Duration `json:"gaps"`     // summed time between token writes
	Tokens   int           `json:"tokens"`
	Prompt   int           `json:"prompt"` // prompt tokens counted
	Aborted  bool          `json:"aborted"`
}

// scriptServer is an inference server that knows what it did: it answers completions at the times that a
// script says, and records when it really received each request and wrote each event. That is the truth
// against which the load generator's report is judged. It answers on a loopback address until Close.
type scriptServer struct {
	script script
	web    *httptest.Server
	start  time.Time

	mu     sync.Mutex
	truths []truth
}

// stamping is a listener whose connections know when a request arrived, and not when a busy server got to it.
type stamping struct{ net.Listener }

func (l stamping) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wire.NewSocket(c, func(time.Duration) {}), nil
}

// socketKey is the key of a request's socket in its context.
type socketKey struct{}

// startScripted listens on a free loopback port.
func startScripted(script script) *scriptServer {
	s := &scriptServer{script: script, start: time.Now()}
	s.web = httptest.NewUnstartedServer(s)
	s.web.Listener = stamping{s.web.Listener}
	s.web.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, socketKey{}, c)
	}
	s.web.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle && script.CloseEachTime {
			c.Close()
		}
	}
	s.web.Start()
	return s
}

// URL returns the server's address as a base URL.
func (s *scriptServer) URL() string { return s.web.URL }

// Truths returns what happened to the requests answered so far.
func (s *scriptServer) Truths() []truth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]truth(nil), s.truths...)
}

// Close ends all connections and waits for their goroutines.
func (s *scriptServer) Close() {
	s.web.CloseClientConnections()
	s.web.Close()
}

// maxBody bounds a request's body: a long prompt is some 100 kB.
const maxBody = 16 << 20

// scriptedRequest is a request and its answer.
type scriptedRequest struct {
	script   *script
	ctx      context.Context
	w        http.ResponseWriter
	body     []byte
	received time.Time
	chat     bool
	prompt   int // tokens
	asked    struct {
		Stream        bool            `json:"stream"`
		Options       scriptedOptions `json:"stream_options"`
		MaxTokens     int             `json:"max_tokens"`
		MaxCompletion int             `json:"max_completion_tokens"`
	}
}

type scriptedOptions struct {
	IncludeUsage bool `json:"include_usage"`
	Continuous   bool `json:"continuous_usage_stats"`
}

func (s *scriptServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	chat := strings.HasSuffix(r.URL.Path, "/chat/completions")
	q := &scriptedRequest{script: &s.script, ctx: r.Context(), w: w, chat: chat}
	var err error
	if q.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return
	}
	q.received = r.Context().Value(socketKey{}).(*wire.Socket).Arrived()
	q.countPrompt()
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/models"):
		q.json(200, `{"object":"list","data":[{"id":"scripted","object":"model"}]}`)
	case strings.HasSuffix(path, "/tokenize"):
		q.json(200, fmt.Sprintf(`{"count":%d,"tokens":[]}`, q.prompt))
	case strings.HasSuffix(path, "/truth"):
		_ = json.NewEncoder(w).Encode(s.Truths())
	case !strings.HasSuffix(path, "/completions"):
		q.json(404, `{"error":{"message":"not found"}}`)
	case json.Unmarshal(q.body, &q.asked) != nil:
		q.json(400, `{"error":{"message":"bad JSON","type":"BadRequestError"}}`)
	case s.script.RefuseOptions && q.asked.Options.Continuous:
		q.json(400, `{"error":{"message":"unknown field continuous_usage_stats","type":"invalid_request_error"}}`)
	default:
		t := q.answer()
		t.ID, t.Received, t.Prompt = r.Header.Get("X-Request-Id"), int64(q.received.Sub(s.start)), q.prompt
		s.mu.Lock()
		s.truths = append(s.truths, t)
		s.mu.Unlock()
		if q.asked.Stream && !t.Aborted {
			q.end()
		}
	}
}

func (q *scriptedRequest) json(status int, body string) {
	q.w.Header().Set("Content-Type", "application/json")
	q.w.WriteHeader(status)
	_, _ = io.WriteString(q.w, body)
}

// countPrompt counts the prompt: the ids of an array, or words with a space before each.
func (q *scriptedRequest) countPrompt() {
	if _, ids, is := bytes.Cut(q.body, []byte(`"prompt":[`)); is {
		ids, _, _ = bytes.Cut(ids, []byte("]"))
		q.prompt = bytes.Count(ids, []byte(",")) + 1
		return
	}
	q.prompt = bytes.Count(q.body, []byte(" "))
	if per := q.script.TokensPerWord; per > 0 {
		q.prompt = int(float64(q.prompt) * per)
	}
	if !bytes.Contains(q.body, []byte(`"add_special_tokens":false`)) {
		q.prompt += q.script.Overhead
	}
}

func (q *scriptedRequest) tokens() int {
	if q.script.Tokens > 0 {
		return q.script.Tokens
	}
	return cmp.Or(max(q.asked.MaxTokens, q.asked.MaxCompletion), 16) // vLLM's default
}

// waitUntil waits, unless the client leaves or the server is closed.
func (q *scriptedRequest) waitUntil(at time.Time) {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.ctx.Done():
	}
}

// answer writes the tokens, streamed or at once.
func (q *scriptedRequest) answer() truth {
	sc, n := q.script, q.tokens()
	if q.asked.Stream {
		return q.stream(n)
	}
	q.waitUntil(q.received.Add(sc.TTFT + time.Duration(n-1)*sc.ITL))
	usage := ""
	if !sc.NoUsage {
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, q.prompt, n, q.prompt+n)
	}
	at := time.Since(q.received)
	q.json(200, `{"id":"x","object":"text_completion","choices":[{"index":0,"text":" word",`+
		`"message":{"role":"assistant","content":" word"},"finish_reason":"length"}]`+usage+`}`)
	return truth{First: at, Last: at, Tokens: n, Aborted: q.ctx.Err() != nil}
}

// stream writes event by event, each at its time.
func (q *scriptedRequest) stream(n int) (t truth) {
	sc := q.script
	q.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	role := ""
	if sc.RoleChunk {
		role = q.event(`"object":"chat.completion.chunk",`+
			`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`, 0)
	}
	if !q.flush(role) {
		return truth{Aborted: true}
	}
	perChunk, perWrite := max(sc.TokensPerChunk, 1), max(sc.ChunksPerWrite, 1)
	var last time.Duration
	for sent, step := 0, 0; sent < n; {
		if sc.ITL > 0 || step == 0 {
			q.waitUntil(q.received.Add(sc.TTFT + time.Duration(step)*sc.ITL))
		}
		out := ""
		for range perWrite {
			if k := min(perChunk, n-sent); k > 0 {
				sent, step = sent+k, step+1
				out += q.token(k, sent, sent == n)
			}
		}
		at := time.Since(q.received)
		if !q.flush(out) {
			t.Aborted = true
			return t
		}
		if t.Tokens == 0 {
			t.First = at
		} else {
			t.Gaps += at - last
		}
		last, t.Last, t.Tokens = at, at, sent
	}
	return t
}

// token is an event with k tokens, of so many until then.
func (q *scriptedRequest) token(k, total int, last bool) string {
	text, finish := strings.Repeat(" word", min(k, 8)), "null"
	if last {
		finish = `"length"`
	}
	if q.chat {
		return q.event(`"object":"chat.completion.chunk","created":1700000000,"model":"scripted",`+
			`"choices":[{"index":0,"delta":{"content":"`+text+`"},"logprobs":null,"finish_reason":`+finish+`}]`, total)
	}
	return q.event(`"object":"text_completion","created":1700000000,"model":"scripted",`+
		`"choices":[{"index":0,"text":"`+text+`","logprobs":null,"finish_reason":`+finish+`,"stop_reason":null}]`, total)
}

// event is a data line with some fields and, where it is asked for, the usage until then.
func (q *scriptedRequest) event(fields string, completion int) string {
	usage := ""
	if q.asked.Options.Continuous && !q.script.NoUsage {
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, q.prompt, completion)
	}
	return `data: {"id":"chatcmpl-0123456789abcdef",` + fields + usage + "}\n\n"
}

// flush sends a part of the answer, and reports whether the client is still there.
func (q *scriptedRequest) flush(out string) bool {
	send := func(out string) bool {
		_, err := io.WriteString(q.w, out)
		return err == nil && http.NewResponseController(q.w).Flush() == nil && q.ctx.Err() == nil
	}
	if half := len(out) / 2; q.script.SplitWrites && half > 0 {
		if !send(out[:half]) {
			return false
		}
		q.waitUntil(time.Now().Add(time.Millisecond))
		out = out[half:]
	}
	return send(out)
}

// end writes the final usage chunk, where asked for, and [DONE].
func (q *scriptedRequest) end() {
	usage := ""
	if n := q.tokens(); !q.script.NoUsage && q.asked.Options.IncludeUsage {
		usage = fmt.Sprintf(`data: {"id":"x","choices":[],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", q.prompt, n, q.prompt+n)
	}
	q.flush(usage + "data: [DONE]\n\n")
}

package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
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
	ln     net.Listener
	start  time.Time

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	truths []truth
	closed bool
	done   chan struct{}
	wg     sync.WaitGroup
}

// startScripted listens on a free loopback port.
func startScripted(script script) (*scriptServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the scripted server: %w", err)
	}
	s := &scriptServer{script: script, ln: ln, conns: map[net.Conn]struct{}{}, done: make(chan struct{})}
	s.start = time.Now()
	s.wg.Add(1)
	go s.accept()
	return s, nil
}

// URL returns the server's address as a base URL.
func (s *scriptServer) URL() string { return "http://" + s.ln.Addr().String() }

// Truths returns what happened to the requests answered so far.
func (s *scriptServer) Truths() []truth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]truth(nil), s.truths...)
}

// Close ends all connections and waits for their goroutines.
func (s *scriptServer) Close() error {
	err := s.ln.Close()
	s.mu.Lock()
	if !s.closed {
		close(s.done)
	}
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return err
}

func (s *scriptServer) accept() {
	defer s.wg.Done()
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			nc.Close()
			return
		}
		s.conns[nc] = struct{}{}
		s.wg.Add(1)
		s.mu.Unlock()
		go s.serve(nc)
	}
}

// scriptedConn is one connection's state.
type scriptedConn struct {
	s      *scriptServer
	nc     net.Conn
	socket *wire.Socket
	br     *bufio.Reader
	out    []byte
	req    scriptedRequest
}

// scriptedRequest is what the server reads of one.
type scriptedRequest struct {
	method, path, id string
	body             []byte
	stream           bool
	includeUsage     bool
	continuous       bool
	maxTokens        int
	promptTokens     int
	chat             bool
	received         time.Time
}

func (s *scriptServer) serve(nc net.Conn) {
	defer s.wg.Done()
	defer func() {
		nc.Close()
		s.mu.Lock()
		delete(s.conns, nc)
		s.mu.Unlock()
	}()
	// A request was received when it arrived, not when a busy server got to it.
	c := &scriptedConn{s: s, nc: nc, socket: wire.NewSocket(nc, func(time.Duration) {})}
	c.br = bufio.NewReaderSize(c.socket, 4<<10)
	for {
		if err := c.read(); err != nil {
			return
		}
		if err := c.answer(); err != nil || s.script.CloseEachTime {
			return
		}
	}
}

// maxBody bounds a request's body: a long prompt is some 100 kB.
const maxBody = 16 << 20

// sleep waits, for long times in a way that Close ends.
func (s *scriptServer) sleep(d time.Duration) {
	if d < time.Second {
		<-time.After(d)
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.done:
	}
}

func (c *scriptedConn) read() error {
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		return err
	}
	c.req = scriptedRequest{body: c.req.body[:0]}
	var ok bool
	head := string(line)
	if c.req.method, head, ok = strings.Cut(head, " "); !ok {
		return errors.New("bad request line")
	}
	c.req.path, _, _ = strings.Cut(head, " ")
	length := 0
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(bytes.ToLower(name)) {
		case "content-length":
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 || length > maxBody {
				return errors.New("bad content length")
			}
		case "x-request-id":
			c.req.id = string(value)
		}
	}
	if cap(c.req.body) < length {
		c.req.body = make([]byte, length)
	}
	c.req.body = c.req.body[:length]
	_, err = io.ReadFull(c.br, c.req.body)
	c.req.received = c.socket.Arrived()
	return err
}

// answer writes one response.
func (c *scriptedConn) answer() error {
	r := &c.req
	switch {
	case strings.HasSuffix(r.path, "/models"):
		return c.json(200, `{"object":"list","data":[{"id":"scripted","object":"model"}]}`)
	case strings.HasSuffix(r.path, "/tokenize"):
		c.promptTokensOf()
		return c.json(200, fmt.Sprintf(`{"count":%d,"tokens":[]}`, r.promptTokens))
	case strings.HasSuffix(r.path, "/truth"):
		b, err := json.Marshal(c.s.Truths())
		if err != nil {
			return err
		}
		return c.json(200, string(b))
	case !strings.HasSuffix(r.path, "/completions"):
		return c.json(404, `{"error":{"message":"not found"}}`)
	}
	if err := c.parse(); err != nil {
		return c.json(400, `{"error":{"message":"bad JSON","type":"BadRequestError"}}`)
	}
	if c.s.script.RefuseOptions && r.continuous {
		return c.json(400, `{"error":{"message":"unknown field continuous_usage_stats","type":"invalid_request_error"}}`)
	}
	if r.stream {
		return c.stream()
	}
	return c.answerWhole()
}

// parse reads what the script needs. It looks for substrings because the
// generator's speed is what is measured. Other clients may put a space after a
// colon.
func (c *scriptedConn) parse() error {
	r := &c.req
	if len(r.body) == 0 || r.body[0] != '{' {
		return errors.New("no JSON object")
	}
	r.stream = r.isTrue(`"stream":`)
	r.includeUsage = r.isTrue(`"include_usage":`)
	r.continuous = r.isTrue(`"continuous_usage_stats":`)
	r.chat = strings.HasSuffix(r.path, "/chat/completions")
	r.maxTokens = 16
	for _, key := range []string{`"max_tokens":`, `"max_completion_tokens":`} {
		if i := bytes.Index(r.body, []byte(key)); i >= 0 {
			n := 0
			for _, b := range bytes.TrimLeft(r.body[i+len(key):], " ") {
				if b < '0' || b > '9' {
					break
				}
				n = n*10 + int(b-'0')
			}
			r.maxTokens = n
		}
	}
	c.promptTokensOf()
	return nil
}

// isTrue reports whether a key, which comes with its colon, is true.
func (r *scriptedRequest) isTrue(key string) bool {
	i := bytes.Index(r.body, []byte(key))
	return i >= 0 && bytes.HasPrefix(bytes.TrimLeft(r.body[i+len(key):], " "), []byte("true"))
}

// promptTokensOf counts the prompt: the ids of an array, or words.
func (c *scriptedConn) promptTokensOf() {
	r := &c.req
	if i := bytes.Index(r.body, []byte(`"prompt":[`)); i >= 0 {
		ids, _, _ := bytes.Cut(r.body[i+10:], []byte("]"))
		r.promptTokens = bytes.Count(ids, []byte(",")) + 1
		return
	}
	words := bytes.Count(r.body, []byte(" ")) // prompts are words with a space before each
	per := c.s.script.TokensPerWord
	if per == 0 {
		per = 1
	}
	r.promptTokens = int(float64(words) * per)
	if !bytes.Contains(r.body, []byte(`"add_special_tokens":false`)) {
		r.promptTokens += c.s.script.Overhead
	}
}

func (c *scriptedConn) json(status int, body string) error {
	c.out = fmt.Appendf(c.out[:0], "HTTP/1.1 %d Scripted\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
	_, err := c.nc.Write(c.out)
	return err
}

func (c *scriptedConn) tokens() int {
	if c.s.script.Tokens > 0 {
		return c.s.script.Tokens
	}
	return max(c.req.maxTokens, 1)
}

// answerWhole answers without streaming.
func (c *scriptedConn) answerWhole() error {
	sc, n := &c.s.script, c.tokens()
	if d := sc.TTFT + time.Duration(n-1)*sc.ITL; d > 0 {
		c.s.sleep(time.Until(c.req.received.Add(d)))
	}
	text := `{"id":"x","object":"text_completion","choices":[{"index":0,"text":" word","message":{"role":"assistant","content":" word"},"finish_reason":"length"}]`
	c.out = append(c.out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "...)
	var usage []byte
	if !sc.NoUsage {
		usage = fmt.Appendf(nil, `,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, c.req.promptTokens, n, c.req.promptTokens+n)
	}
	c.out = strconv.AppendInt(c.out, int64(len(text)+len(usage)+1), 10)
	c.out = append(append(append(append(c.out, "\r\n\r\n"...), text...), usage...), '}')
	at := time.Since(c.req.received)
	_, err := c.nc.Write(c.out)
	c.note(truth{First: at, Last: at, Tokens: n, Aborted: err != nil})
	return err
}

func (c *scriptedConn) note(t truth) {
	t.ID, t.Received, t.Prompt = c.req.id, int64(c.req.received.Sub(c.s.start)), c.req.promptTokens
	c.s.mu.Lock()
	c.s.truths = append(c.s.truths, t)
	c.s.mu.Unlock()
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

// stream answers event by event, each at its time.
func (c *scriptedConn) stream() error {
	sc, n := &c.s.script, c.tokens()
	if _, err := c.nc.Write([]byte(streamHead)); err != nil {
		return err
	}
	c.out = c.out[:0]
	if sc.RoleChunk {
		c.event(`{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`, 0)
		if err := c.flush(); err != nil {
			return err
		}
	}
	t, err := c.generate(n)
	t.Aborted = err != nil
	c.note(t)
	if err != nil {
		return err
	}
	return c.end(!sc.NoUsage && c.req.includeUsage)
}

// generate writes the tokens and returns their truth.
func (c *scriptedConn) generate(n int) (truth, error) {
	sc := &c.s.script
	perChunk, perWrite := max(sc.TokensPerChunk, 1), max(sc.ChunksPerWrite, 1)
	t := truth{}
	inWrite := 0
	var last time.Duration
	for sent, step := 0, 0; sent < n; step++ {
		due := c.req.received.Add(sc.TTFT + time.Duration(step)*sc.ITL)
		if d := time.Until(due); d > 0 && (sc.ITL > 0 || step == 0) && inWrite == 0 {
			c.s.sleep(d)
		}
		k := min(perChunk, n-sent)
		sent += k
		c.token(k, sent, sent == n)
		if inWrite++; inWrite < perWrite && sent < n {
			continue
		}
		inWrite = 0
		at := time.Since(c.req.received)
		if err := c.flush(); err != nil {
			return t, err
		}
		if t.Tokens == 0 {
			t.First = at
		} else {
			t.Gaps += at - last
		}
		last, t.Last, t.Tokens = at, at, sent
	}
	return t, nil
}

// token appends one event with k tokens.
func (c *scriptedConn) token(k, total int, last bool) {
	const word = " word word word word word word word word"
	text := word[:5*min(k, 8)]
	finish := "null"
	if last {
		finish = `"length"`
	}
	var s string
	if c.req.chat {
		s = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"scripted","choices":[{"index":0,"delta":{"content":"` +
			text + `"},"logprobs":null,"finish_reason":` + finish + `}]`
	} else {
		s = `{"id":"cmpl-0123456789abcdef","object":"text_completion","created":1700000000,"model":"scripted","choices":[{"index":0,"text":"` +
			text + `","logprobs":null,"finish_reason":` + finish + `,"stop_reason":null}]`
	}
	c.event(s, total)
}

// event appends a data line; s lacks its closing brace.
func (c *scriptedConn) event(s string, completion int) {
	var usage [96]byte
	u := usage[:0]
	if c.req.continuous && !c.s.script.NoUsage {
		u = append(u, `,"usage":{"prompt_tokens":`...)
		u = strconv.AppendInt(u, int64(c.req.promptTokens), 10)
		u = append(u, `,"completion_tokens":`...)
		u = strconv.AppendInt(u, int64(completion), 10)
		u = append(u, '}')
	}
	n := len("data: ") + len(s) + len(u) + len("}\n\n")
	c.out = strconv.AppendInt(c.out, int64(n), 16)
	c.out = append(c.out, "\r\ndata: "...)
	c.out = append(append(c.out, s...), u...)
	c.out = append(c.out, "}\n\n\r\n"...)
}

// raw appends one HTTP chunk.
func (c *scriptedConn) raw(s string) {
	c.out = fmt.Appendf(c.out, "%x\r\n%s\r\n", len(s), s)
}

// flush writes what was appended.
func (c *scriptedConn) flush() error {
	out := c.out
	c.out = c.out[:0]
	if c.s.script.SplitWrites && len(out) > 1 {
		if _, err := c.nc.Write(out[:len(out)/2]); err != nil {
			return err
		}
		<-time.After(time.Millisecond)
		out = out[len(out)/2:]
	}
	_, err := c.nc.Write(out)
	return err
}

// end writes the final usage chunk, where asked for, and [DONE].
func (c *scriptedConn) end(usage bool) error {
	if usage {
		n := c.tokens()
		c.raw(fmt.Sprintf(`data: {"id":"x","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n",
			c.req.promptTokens, n, c.req.promptTokens+n))
	}
	c.raw("data: [DONE]\n\n")
	c.out = append(c.out, "0\r\n\r\n"...)
	return c.flush()
}

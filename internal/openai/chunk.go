package openai

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Chunk is what a measurement needs of one event of a streamed completion, or
// of a whole response that was not streamed: of OpenAI's completions, chat
// completions, responses and embeddings, and of Anthropic's messages. Its
// slices point into the scanned bytes and are still JSON-escaped.
type Chunk struct {
	ID    []byte // of the completion, as the engine's log names it
	Model []byte
	// Type is the type of an event of the APIs that have one
	// ("response.output_text.delta", "content_block_delta").
	Type []byte
	// Text is the first non-empty text of a choice: delta.content, text,
	// message.content, and failing these a reasoning text. It stays JSON-escaped.
	Text    []byte
	Choices int // length of choices; the chunk of a final usage has none
	// Bearing counts the choices that carry something generated: text, reasoning,
	// a refusal or a tool call. A role chunk has none.
	Bearing int
	Ended   int // choices with a finish reason
	// TokenIDs counts the ids in token_ids, which vLLM adds on request
	// (return_token_ids, vllm/entrypoints/openai/protocol.py since 0.10.2).
	TokenIDs int
	Finish   []byte // finish_reason of a choice; nil when absent or null
	Usage    Usage
	HasUsage bool
	HasError bool   // the top-level error is not null
	Error    []byte // error's message, JSON-escaped, may be empty
	ErrorTyp []byte // error's type, JSON-escaped, may be empty
}

// Usage is the token account of a response. With stream_options
// continuous_usage_stats vLLM gives it in every chunk, cumulative.
type Usage struct {
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int // prompt_tokens_details.cached_tokens
}

var errJSON = errors.New("malformed JSON")

// Scan reads one JSON object into c. It walks the object once, allocates
// nothing, and skips what it does not know. What it does not understand goes
// through encoding/json, so that the answer whether an event is malformed is
// that of the standard library.
func (c *Chunk) Scan(data []byte) error {
	*c = Chunk{}
	s := scanner{b: data}
	if s.chunk(c) && s.ended() {
		return nil
	}
	return invalid(data)
}

// ended reports whether nothing but white space is left.
func (s *scanner) ended() bool {
	s.space()
	return s.i == len(s.b)
}

// invalid is the error of what was not understood.
func invalid(data []byte) error {
	if !json.Valid(data) {
		return errJSON
	}
	// Valid JSON that is not such an object: an array, a number.
	return errors.New("JSON is not the object that was expected")
}

// scanner walks JSON. Its methods return false on anything unexpected.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) accept(want byte) bool {
	if s.peek() == want && s.i < len(s.b) {
		s.i++
		return true
	}
	return false
}

// str reads a string and returns its content, still escaped.
func (s *scanner) str() ([]byte, bool) {
	if !s.accept('"') {
		return nil, false
	}
	start := s.i
	for {
		j := bytes.IndexByte(s.b[s.i:], '"')
		if j < 0 {
			return nil, false
		}
		s.i += j + 1
		// The quote is escaped when an odd number of backslashes precedes it.
		k := s.i - 2
		for k >= start && s.b[k] == '\\' {
			k--
		}
		if (s.i-2-k)%2 == 0 {
			return s.b[start : s.i-1], true
		}
	}
}

// skip passes over any value.
func (s *scanner) skip() bool {
	s.space()
	switch s.peek() {
	case '"':
		_, ok := s.str()
		return ok
	case '{', '[':
		return s.skipNested()
	}
	start := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return s.i > start
		}
		s.i++
	}
	return s.i > start
}

func (s *scanner) skipNested() bool {
	depth := 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if _, ok := s.str(); !ok {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return true
		}
	}
	return false
}

// null passes over a null and reports whether there was one.
func (s *scanner) null() bool {
	s.space()
	if bytes.HasPrefix(s.b[s.i:], []byte("null")) {
		s.i += 4
		return true
	}
	return false
}

// number reads a number that fits an int; others are skipped and give 0.
func (s *scanner) number() (int, bool) {
	s.space()
	n, start := 0, s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && s.i-start < 18 {
		n = n*10 + int(s.b[s.i]-'0')
		s.i++
	}
	switch s.peek() {
	case ',', '}', ']', ' ', '\n', '\t', '\r':
		if s.i > start {
			return n, true
		}
	}
	s.i = start
	return 0, s.skip()
}

// open enters an object; end of keys comes with nextKey. A null or a value of
// another type is skipped, with in false.
func (s *scanner) open(brace byte) (in, ok bool) {
	s.space()
	if s.accept(brace) {
		return true, true
	}
	return false, s.skip()
}

// nextKey returns the next key of an object, with more false at its end.
func (s *scanner) nextKey(first bool) (key []byte, more, ok bool) {
	s.space()
	if s.accept('}') {
		return nil, false, true
	}
	if !first {
		if !s.accept(',') {
			return nil, false, false
		}
		s.space()
	}
	if key, ok = s.str(); !ok {
		return nil, false, false
	}
	s.space()
	return key, true, s.accept(':')
}

// nextItem reports whether an array has another item.
func (s *scanner) nextItem(first bool) (more, ok bool) {
	s.space()
	if s.accept(']') {
		return false, true
	}
	return true, first || s.accept(',')
}

// members calls member for every key of an object, which reads the value. A
// value of another type is skipped.
func (s *scanner) members(member func(key []byte) bool) (in, ok bool) {
	in, ok = s.open('{')
	for first := true; in && ok; first = false {
		key, more, okay := s.nextKey(first)
		if !okay || !more {
			return in, okay
		}
		ok = member(key)
	}
	return in, ok
}

func (s *scanner) chunk(c *Chunk) bool {
	s.space()
	if s.peek() != '{' {
		return false
	}
	_, ok := s.members(func(key []byte) bool { return s.field(c, key) })
	if string(c.Type) == "error" {
		c.HasError = true
	}
	return ok
}

// field reads the value of a key of the object, or of the one that an event of
// the responses or messages API wraps.
func (s *scanner) field(c *Chunk, key []byte) bool {
	switch string(key) {
	case "id":
		return s.optional(&c.ID)
	case "model":
		return s.optional(&c.Model)
	case "type":
		return s.optional(&c.Type)
	case "choices":
		return s.choices(c)
	case "usage":
		return s.usage(c)
	case "error":
		return s.failure(c)
	case "object":
		return s.object(c)
	case "status":
		return s.status(c)
	case "delta":
		return s.topDelta(c)
	case "response", "message":
		return s.scanWrapped(c)
	}
	return s.skip()
}

// object notes the error object of vLLM before 0.10, which has its message at
// the top.
func (s *scanner) object(c *Chunk) bool {
	var kind []byte
	ok := s.optional(&kind)
	c.HasError = c.HasError || string(kind) == "error"
	return ok
}

// status reads the state of a response: how it ended, once it has.
func (s *scanner) status(c *Chunk) bool {
	var status []byte
	ok := s.optional(&status)
	switch string(status) {
	case "completed", "incomplete", "failed", "cancelled":
		c.Finish = status
	}
	return ok
}

// scanWrapped reads the object within an event of the responses API (response) or
// the messages API (message), or the message of an error.
func (s *scanner) scanWrapped(c *Chunk) bool {
	s.space()
	if s.peek() == '"' {
		return s.optional(&c.Error)
	}
	kind := c.Type
	_, ok := s.members(func(key []byte) bool {
		switch string(key) {
		case "id", "model", "usage", "error", "status":
			return s.field(c, key)
		}
		return s.skip()
	})
	c.Type = kind
	return ok
}

// topDelta reads the delta of an event of the responses API, a text, or of the
// messages API, an object.
func (s *scanner) topDelta(c *Chunk) bool {
	s.space()
	if s.peek() == '"' {
		bears, ok := s.text(&c.Text)
		if bears {
			c.Bearing++
		}
		return ok
	}
	bears := false
	_, ok := s.members(func(key []byte) (ok bool) {
		b := false
		switch string(key) {
		case "text", "thinking", "partial_json":
			b, ok = s.text(&c.Text)
		case "stop_reason":
			ok = s.optional(&c.Finish)
		default:
			ok = s.skip()
		}
		bears = bears || b
		return ok
	})
	if bears {
		c.Bearing++
	}
	return ok
}

func (s *scanner) choices(c *Chunk) bool {
	in, ok := s.open('[')
	for first := true; in && ok; first = false {
		more, okay := s.nextItem(first)
		if !okay || !more {
			return okay
		}
		c.Choices++
		ok = s.choice(c)
	}
	return ok
}

func (s *scanner) choice(c *Chunk) bool {
	in, ok := s.open('{')
	bears := false
	var finish []byte
	for first := true; in && ok; first = false {
		key, more, okay := s.nextKey(first)
		if !okay {
			return false
		}
		if !more {
			break
		}
		switch string(key) {
		case "delta", "message":
			var b bool
			b, ok = s.delta(c)
			bears = bears || b
		case "text":
			var b bool
			b, ok = s.text(&c.Text)
			bears = bears || b
		case "finish_reason":
			ok = s.optional(&finish)
		case "token_ids":
			ok = s.count(&c.TokenIDs)
		default:
			ok = s.skip()
		}
	}
	if bears {
		c.Bearing++
	}
	if finish != nil {
		c.Ended++
		c.Finish = finish
	}
	return ok
}

// delta reads a delta or message and reports whether it carries something
// generated.
func (s *scanner) delta(c *Chunk) (bears, ok bool) {
	in, ok := s.open('{')
	var reasoning []byte
	for first := true; in && ok; first = false {
		key, more, okay := s.nextKey(first)
		if !okay {
			return false, false
		}
		if !more {
			break
		}
		var b bool
		switch string(key) {
		case "content":
			b, ok = s.text(&c.Text)
		case "reasoning_content", "reasoning", "refusal":
			b, ok = s.text(&reasoning)
		case "tool_calls":
			n := 0
			ok = s.count(&n)
			b = n > 0
		default:
			ok = s.skip()
		}
		bears = bears || b
	}
	if c.Text == nil {
		c.Text = reasoning
	}
	return bears, ok
}

// text reads a string or skips another value, and reports whether the string
// was not empty. The first non-empty one is kept.
func (s *scanner) text(to *[]byte) (bears, ok bool) {
	s.space()
	if s.peek() != '"' {
		return false, s.skip()
	}
	t, ok := s.str()
	if len(t) > 0 && *to == nil {
		*to = t
	}
	return len(t) > 0, ok
}

// optional reads a string, or skips a null or another value.
func (s *scanner) optional(to *[]byte) bool {
	s.space()
	if s.peek() != '"' {
		return s.skip()
	}
	t, ok := s.str()
	*to = t
	return ok
}

// count adds the number of an array's items.
func (s *scanner) count(n *int) bool {
	in, ok := s.open('[')
	for first := true; in && ok; first = false {
		more, okay := s.nextItem(first)
		if !okay || !more {
			return okay
		}
		*n++
		ok = s.skip()
	}
	return ok
}

func (s *scanner) usage(c *Chunk) bool {
	in, ok := s.open('{')
	c.HasUsage = c.HasUsage || in
	for first := true; in && ok; first = false {
		key, more, okay := s.nextKey(first)
		if !okay || !more {
			return okay
		}
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			c.Usage.PromptTokens, ok = s.number()
		case "completion_tokens", "output_tokens":
			c.Usage.CompletionTokens, ok = s.number()
		case "prompt_tokens_details", "input_tokens_details":
			ok = s.details(c)
		case "cache_read_input_tokens":
			c.Usage.CachedTokens, ok = s.number()
		default:
			ok = s.skip()
		}
	}
	return ok
}

func (s *scanner) details(c *Chunk) bool {
	in, ok := s.open('{')
	for first := true; in && ok; first = false {
		key, more, okay := s.nextKey(first)
		if !okay || !more {
			return okay
		}
		if string(key) == "cached_tokens" {
			c.Usage.CachedTokens, ok = s.number()
		} else {
			ok = s.skip()
		}
	}
	return ok
}

// failure reads a top-level error: an object with a message, or a string.
func (s *scanner) failure(c *Chunk) bool {
	if s.null() {
		return true
	}
	c.HasError = true
	if s.peek() == '"' {
		return s.optional(&c.Error)
	}
	in, ok := s.open('{')
	for first := true; in && ok; first = false {
		key, more, okay := s.nextKey(first)
		if !okay || !more {
			return okay
		}
		switch string(key) {
		case "message":
			ok = s.optional(&c.Error)
		case "type":
			ok = s.optional(&c.ErrorTyp)
		default:
			ok = s.skip()
		}
	}
	return ok
}

// ScanTail reads the token account out of the end of an answer whose beginning
// is not at hand, and reports whether one was found.
func (c *Chunk) ScanTail(end []byte) bool {
	*c = Chunk{}
	key := []byte(`"usage"`)
	i := bytes.LastIndex(end, key)
	if i < 0 {
		return false
	}
	s := scanner{b: end, i: i + len(key)}
	s.space()
	return s.accept(':') && s.usage(c) && c.HasUsage
}

package openai

import "bytes"

// Chunk is what a measurement needs of one event of a streamed completion, or
// of a whole response that was not streamed: of OpenAI's completions, chat
// completions, responses and embeddings, and of Anthropic's messages. Its
// slices point into the scanned bytes and are still JSON-escaped.
type Chunk struct {
	ID    []byte // of the completion, as the engine's log names it
	Model []byte
	Type  []byte // of an event, in the APIs that have one ("response.output_text.delta", "content_block_delta")
	// Text is the first non-empty text of a choice: delta.content, text,
	// message.content, and failing these a reasoning text.
	Text     []byte
	Choices  int    // length of choices; the chunk of a final usage has none
	Bearing  int    // choices that carry something generated: text, reasoning, a refusal, a tool call; a role chunk has none
	Ended    int    // choices with a finish reason
	TokenIDs int    // in token_ids, which vLLM adds on request (return_token_ids, vllm/entrypoints/openai/protocol.py since 0.10.2)
	Finish   []byte // finish_reason of a choice; nil when absent or null
	Usage    Usage
	HasUsage bool
	HasError bool   // the top-level error is not null
	Error    []byte // error's message, may be empty
	ErrorTyp []byte // error's type, may be empty
}

// Usage is the token account of a response. With stream_options
// continuous_usage_stats vLLM gives it in every chunk, cumulative.
type Usage struct {
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int // prompt_tokens_details.cached_tokens
}

// Scan reads one JSON object into c, and skips what it does not know.
func (c *Chunk) Scan(data []byte) error {
	*c = Chunk{}
	r := newReader(data)
	c.envelope(&r)
	c.HasError = c.HasError || string(c.Type) == "error"
	return r.end()
}

// ScanTail reads the token account out of the end of an answer whose beginning
// is not at hand, and reports whether one was found.
func (c *Chunk) ScanTail(end []byte) bool {
	*c = Chunk{}
	key := []byte(`"usage"`)
	if i := bytes.LastIndex(end, key); i >= 0 {
		if account, ok := bytes.CutPrefix(bytes.TrimLeft(end[i+len(key):], " \t\r\n"), []byte(":")); ok {
			r := newReader(account) // and the rest of the answer
			c.usage(&r)
		}
	}
	return c.HasUsage
}

// envelope reads the object, or the one that an event of the responses or messages API wraps.
func (c *Chunk) envelope(r *reader) {
	for key := range r.members() {
		switch key {
		case "id":
			r.text(&c.ID)
		case "model":
			r.text(&c.Model)
		case "type":
			r.text(&c.Type)
		case "choices":
			for range r.items() {
				p := c.part(r)
				if c.Choices++; p.finish != nil {
					c.Ended, c.Finish = c.Ended+1, p.finish
				}
			}
		case "delta": // a text in the responses API, an object in the messages API
			if p := c.part(r); p.stop != nil {
				c.Finish = p.stop
			}
		case "usage":
			c.usage(r)
		case "error":
			c.HasError = c.HasError || !r.IsNull()
			if !r.object(&c.Error) {
				continue
			}
			for key := range r.members() {
				switch key {
				case "message":
					r.text(&c.Error)
				case "type":
					r.text(&c.ErrorTyp)
				default:
					r.SkipRecursive()
				}
			}
		case "object": // the error object of vLLM before 0.10 has its message at the top
			var kind []byte
			r.text(&kind)
			c.HasError = c.HasError || string(kind) == "error"
		case "status": // of a response: how it ended, once it has
			var status []byte
			r.text(&status)
			switch string(status) {
			case "completed", "incomplete", "failed", "cancelled":
				c.Finish = status
			}
		case "response", "message": // what an event wraps, or the message of an error
			if kind := c.Type; r.object(&c.Error) {
				c.envelope(r)
				c.Type = kind
			}
		default:
			r.SkipRecursive()
		}
	}
}

// part is what one choice or delta holds.
type part struct {
	text, other  []byte // other: reasoning, a refusal, the input of a tool
	finish, stop []byte // of choices, and of messages
	calls        int
}

// part reads a choice or a delta, and counts what it bears.
func (c *Chunk) part(r *reader) (p part) {
	if r.object(&p.text) {
		p.read(r, &c.TokenIDs)
	}
	if len(p.text) == 0 {
		p.text = p.other
	}
	if len(p.text) > 0 || p.calls > 0 {
		c.Bearing++
	}
	if len(c.Text) == 0 && len(p.text) > 0 {
		c.Text = p.text
	}
	return p
}

func (p *part) read(r *reader, ids *int) {
	for key := range r.members() {
		switch key {
		case "delta", "message":
			p.read(r, ids)
		case "content", "text":
			r.text(&p.text)
		case "reasoning_content", "reasoning", "refusal", "thinking", "partial_json":
			r.text(&p.other)
		case "tool_calls":
			r.count(&p.calls)
		case "token_ids":
			r.count(ids)
		case "finish_reason":
			r.text(&p.finish)
		case "stop_reason": // of a choice it may be the text that stopped it
			r.text(&p.stop)
		default:
			r.SkipRecursive()
		}
	}
}

func (c *Chunk) usage(r *reader) {
	c.HasUsage = c.HasUsage || r.IsDelim('{') && r.Ok()
	for key := range r.members() {
		switch key {
		case "prompt_tokens", "input_tokens":
			r.number(&c.Usage.PromptTokens)
		case "completion_tokens", "output_tokens":
			r.number(&c.Usage.CompletionTokens)
		case "cached_tokens", "cache_read_input_tokens":
			r.number(&c.Usage.CachedTokens)
		case "prompt_tokens_details", "input_tokens_details":
			c.usage(r)
		default:
			r.SkipRecursive()
		}
	}
}

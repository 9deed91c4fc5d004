package openai

import "bytes"

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

// Scan reads one JSON object into c. It walks the object once, allocates
// nothing, and skips what it does not know.
func (c *Chunk) Scan(data []byte) error {
	*c = Chunk{}
	return scan(data, func(r *reader) {
		r.each('{', func(key []byte) { c.field(r, key) })
		c.HasError = c.HasError || string(c.Type) == "error"
	})
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
	account, ok := bytes.CutPrefix(bytes.TrimLeft(end[i+len(key):], " \t\r\n"), []byte(":"))
	if ok {
		_ = scan(account, func(r *reader) { c.usage(r) }) // what follows the account is the rest of the answer
	}
	return c.HasUsage
}

// field reads the value of a key of the object, or of the one that an event of
// the responses or messages API wraps.
func (c *Chunk) field(r *reader, key []byte) {
	switch string(key) {
	case "id":
		r.text(&c.ID)
	case "model":
		r.text(&c.Model)
	case "type":
		r.text(&c.Type)
	case "choices":
		c.Choices += r.each('[', func([]byte) { c.choice(r) })
	case "usage":
		c.usage(r)
	case "error":
		c.HasError = c.HasError || !r.is('n')
		r.text(&c.Error)
		r.each('{', func(key []byte) {
			switch string(key) {
			case "message":
				r.text(&c.Error)
			case "type":
				r.text(&c.ErrorTyp)
			}
		})
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
	case "delta": // a text in the responses API, an object in the messages API
		bears := r.text(&c.Text)
		r.each('{', func(key []byte) {
			switch string(key) {
			case "text", "thinking", "partial_json":
				bears = r.text(&c.Text) || bears
			case "stop_reason":
				r.text(&c.Finish)
			}
		})
		c.bears(bears)
	case "response", "message": // what an event wraps, or the message of an error
		r.text(&c.Error)
		r.each('{', func(key []byte) {
			switch string(key) {
			case "id", "model", "usage", "error", "status":
				c.field(r, key)
			}
		})
	}
}

// bears counts a choice that carries something generated.
func (c *Chunk) bears(something bool) {
	if something {
		c.Bearing++
	}
}

func (c *Chunk) choice(r *reader) {
	bears := false
	var finish, text, reasoning []byte
	r.each('{', func(key []byte) {
		switch string(key) {
		case "delta", "message":
			r.each('{', func(key []byte) {
				switch string(key) {
				case "content":
					bears = r.text(&text) || bears
				case "reasoning_content", "reasoning", "refusal":
					bears = r.text(&reasoning) || bears
				case "tool_calls":
					bears = r.each('[', nil) > 0 || bears
				}
			})
		case "text":
			bears = r.text(&text) || bears
		case "finish_reason":
			r.text(&finish)
		case "token_ids":
			c.TokenIDs += r.each('[', nil)
		}
	})
	if len(text) == 0 {
		text = reasoning
	}
	if len(c.Text) == 0 && len(text) > 0 {
		c.Text = text
	}
	c.bears(bears)
	if finish != nil {
		c.Ended, c.Finish = c.Ended+1, finish
	}
}

func (c *Chunk) usage(r *reader) {
	c.HasUsage = c.HasUsage || r.is('{')
	r.each('{', func(key []byte) {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			c.Usage.PromptTokens = r.number()
		case "completion_tokens", "output_tokens":
			c.Usage.CompletionTokens = r.number()
		case "cache_read_input_tokens":
			c.Usage.CachedTokens = r.number()
		case "prompt_tokens_details", "input_tokens_details":
			r.each('{', func(key []byte) {
				if string(key) == "cached_tokens" {
					c.Usage.CachedTokens = r.number()
				}
			})
		}
	})
}

package openai

import "bytes"

// A Chunk has the fields of one event of a streamed completion, or of a whole answer, that a measurement needs. It
// reads OpenAI's APIs for completions, chat completions, responses and embeddings, and Anthropic's for messages. Its
// slices point into the scanned bytes and are still JSON-escaped.
type Chunk struct {
	ID          []byte // the completion's id, as in the engine's log
	Model       []byte
	Type        []byte // the event's type ("response.output_text.delta", "content_block_delta"); nil if it has none
	Choices     int    // length of choices; 0 in the chunk with the final usage
	WithContent int    // choices with generated content: text, reasoning, a refusal or a tool call
	Ended       int    // choices with a finish reason
	TokenIDs    int    // length of token_ids, for return_token_ids (vllm/entrypoints/openai/protocol.py since 0.10.2)
	Finish      []byte // the last finish_reason; nil if it is missing or null
	Usage       Usage
	HasUsage    bool
	HasError    bool   // the top-level error is not null
	Error       []byte // the error's message, may be empty
	ErrorType   []byte // may be empty
}

// Usage has the token counts of an answer. With stream_options continuous_usage_stats, vLLM puts it into every chunk,
// with the counts so far.
type Usage struct {
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int // prompt_tokens_details.cached_tokens
}

// Scan reads one JSON object into c. It skips unknown fields.
func (c *Chunk) Scan(data []byte) error {
	*c = Chunk{}
	r := newReader(data)
	c.readEnvelope(&r)
	c.HasError = c.HasError || string(c.Type) == "error"
	return r.endObject()
}

// ScanTail reads the usage from the end of an answer whose beginning is missing, and reports whether there is one.
func (c *Chunk) ScanTail(end []byte) bool {
	*c = Chunk{}
	key := []byte(`"usage"`)
	if i := bytes.LastIndex(end, key); i >= 0 {
		if rest, ok := bytes.CutPrefix(bytes.TrimLeft(end[i+len(key):], " \t\r\n"), []byte(":")); ok {
			r := newReader(rest)
			c.readUsage(&r)
		}
	}
	return c.HasUsage
}

// readEnvelope reads an answer or an event, or the object inside an event of the responses or messages API.
func (c *Chunk) readEnvelope(r *reader) {
	for key := range r.eachMember() {
		switch key {
		case "id":
			r.readText(&c.ID)
		case "model":
			r.readText(&c.Model)
		case "type":
			r.readText(&c.Type)
		case "choices":
			for range r.eachItem() {
				p := c.readPart(r)
				if c.Choices++; p.finish != nil {
					c.Ended, c.Finish = c.Ended+1, p.finish
				}
			}
		case "delta": // text in the responses API, an object in the messages API
			if p := c.readPart(r); p.stop != nil {
				c.Finish = p.stop
			}
		case "usage":
			c.readUsage(r)
		case "error":
			c.readError(r)
		case "object": // "error" in vLLM before 0.10, whose errors have their message at the top level
			var kind []byte
			r.readText(&kind)
			c.HasError = c.HasError || string(kind) == "error"
		case "status": // says how a response ended
			var status []byte
			r.readText(&status)
			switch string(status) {
			case "completed", "incomplete", "failed", "cancelled":
				c.Finish = status
			}
		case "response", "message": // an object inside an event, or the text of an error
			if kind := c.Type; r.enterObject(&c.Error) {
				c.readEnvelope(r)
				c.Type = kind
			}
		default:
			r.SkipRecursive()
		}
	}
}

func (c *Chunk) readError(r *reader) {
	c.HasError = c.HasError || !r.IsNull()
	if !r.enterObject(&c.Error) {
		return
	}
	for key := range r.eachMember() {
		switch key {
		case "message":
			r.readText(&c.Error)
		case "type":
			r.readText(&c.ErrorType)
		default:
			r.SkipRecursive()
		}
	}
}

// A part is the content of one choice or delta.
type part struct {
	text   []byte
	other  []byte // reasoning, a refusal, or the input of a tool
	finish []byte // finish_reason, of a choice
	stop   []byte // stop_reason, of a message
	calls  int    // number of tool calls
}

// readPart reads a choice or a delta. It counts the part if it has content.
func (c *Chunk) readPart(r *reader) (p part) {
	if r.enterObject(&p.text) {
		p.readFields(r, &c.TokenIDs)
	}
	if len(p.text) == 0 {
		p.text = p.other
	}
	if len(p.text) > 0 || p.calls > 0 {
		c.WithContent++
	}
	return p
}

func (p *part) readFields(r *reader, ids *int) {
	for key := range r.eachMember() {
		switch key {
		case "delta", "message":
			p.readFields(r, ids)
		case "content", "text":
			r.readText(&p.text)
		case "reasoning_content", "reasoning", "refusal", "thinking", "partial_json":
			r.readText(&p.other)
		case "tool_calls":
			r.countItems(&p.calls)
		case "token_ids":
			r.countItems(ids)
		case "finish_reason":
			r.readText(&p.finish)
		case "stop_reason": // in a choice, this may be the text that stopped it
			r.readText(&p.stop)
		default:
			r.SkipRecursive()
		}
	}
}

func (c *Chunk) readUsage(r *reader) {
	c.HasUsage = c.HasUsage || r.IsDelim('{') && r.Ok()
	for key := range r.eachMember() {
		switch key {
		case "prompt_tokens", "input_tokens":
			r.readNumber(&c.Usage.PromptTokens)
		case "completion_tokens", "output_tokens":
			r.readNumber(&c.Usage.CompletionTokens)
		case "cached_tokens", "cache_read_input_tokens":
			r.readNumber(&c.Usage.CachedTokens)
		case "prompt_tokens_details", "input_tokens_details":
			c.readUsage(r)
		default:
			r.SkipRecursive()
		}
	}
}

package openai

// Tokens counts the output tokens in the events of a stream. The zero value is ready to use.
type Tokens struct {
	N          int  // tokens so far
	Continuous bool // the events have usage, not only the last one
	ByIDs      bool // token ids were counted
}

// Add adds the tokens of an event, and returns their number. Without continuous usage and without token ids, a choice
// with content counts as one token, which is too few if the event has several.
func (t *Tokens) Add(c *Chunk) int {
	n := c.WithContent
	firstUsage := t.N == 0 && (c.Usage.CompletionTokens > 0 || c.WithContent == 0)
	switch {
	case c.Choices == 0 && c.Type == nil:
		n = 0 // the final usage, or a keep-alive message
	case c.Choices > 0 && c.HasUsage && (t.Continuous || firstUsage):
		// The difference in usage is this event's tokens. It is right for half a character, whose text is empty, and
		// for a chunk with a role only, which has no token.
		t.Continuous = true
		n = max(c.Usage.CompletionTokens-t.N, 0)
	case c.TokenIDs > 0:
		t.ByIDs = true
		n = c.TokenIDs
	}
	t.N += n
	return n
}

package openai

// Tokens counts the output tokens in the events of a stream. The zero value is ready to use.
type Tokens struct {
	N    int  // tokens so far
	Told bool // usage came with the events, not only at the end
	IDs  bool // token ids were counted
}

// Add returns the number of tokens in an event, and adds them. Without continuous usage or token
// ids, each choice with content counts as one token, which is too few if an event has several.
func (t *Tokens) Add(c *Chunk) int {
	n := c.Bearing
	switch {
	case c.Choices == 0 && c.Type == nil:
		n = 0 // the final usage, or a keep-alive
	case c.Choices > 0 && c.HasUsage && (t.Told || t.N == 0 && (c.Usage.CompletionTokens > 0 || c.Bearing == 0)):
		// Usage with every event: the difference is this event's tokens, even if its text is empty
		// (half a character), and 0 for a role chunk.
		t.Told = true
		n = max(c.Usage.CompletionTokens-t.N, 0)
	case c.TokenIDs > 0:
		t.IDs = true
		n = c.TokenIDs
	}
	t.N += n
	return n
}

package openai

// Tokens counts the output tokens that the events of a stream bring. The zero
// value is ready to use.
type Tokens struct {
	N    int  // brought until now
	Told bool // usage came with the events, not only at the end
	IDs  bool // token ids were counted
}

// Add returns how many tokens an event brought, and adds them. Where neither a
// continuous usage nor token ids tell, each choice that bears something counts
// for one, which is less than the truth where an event holds several tokens.
func (t *Tokens) Add(c *Chunk) int {
	n := c.Bearing
	switch {
	case c.Choices == 0 && c.Type == nil:
		n = 0 // the final usage, or a keep-alive
	case c.Choices > 0 && c.HasUsage && (t.Told || t.N == 0 && (c.Usage.CompletionTokens > 0 || c.Bearing == 0)):
		// Usage with every event: the difference is what this one brought, even
		// if its text is empty (half a character), and 0 if it is a role chunk.
		t.Told = true
		n = max(c.Usage.CompletionTokens-t.N, 0)
	case c.TokenIDs > 0:
		t.IDs = true
		n = c.TokenIDs
	}
	t.N += n
	return n
}

package stream

import (
	"bytes"
	"slices"

	"github.com/sixty-dev/sixty/internal/openai"
)

// A Kind says how to read an answer.
type Kind uint8

// The kinds.
const (
	Opaque Kind = iota // not readable: the content type is unknown, or the body is encoded
	Events             // server-sent events
	Whole              // one JSON object
)

// How the tokens of an answer were counted.
const (
	ByUsage      = "usage"            // by the final usage
	ByContinuous = "continuous_usage" // by the usage in every event
	ByTokenIDs   = "token_ids"
	ByChunks     = "chunks" // one for each choice with content in an event, a lower bound
)

const (
	// maxWhole is the most bytes to keep of an answer that is not streamed. If an answer is longer, such
	// as many embeddings, only the tail is kept, which has the usage.
	maxWhole = 256 << 10
	tail     = 4 << 10

	// maxName limits names that the upstream chooses.
	maxName = 128
)

// A Counter receives what a Meter counts.
type Counter interface {
	// Tokens counts n tokens that have arrived.
	Tokens(n int)
	// Interval counts n tokens that arrived at one time, gap nanoseconds after the tokens before: n intervals of gap/n.
	Interval(gap int64, n int)
}

// A Meter measures one answer. Times are nanoseconds of any monotonic clock.
type Meter struct {
	To Counter // may be nil

	Kind  Kind
	First int64 // time of the first token; 0 without one
	Last  int64 // time of the last token

	Count    openai.Tokens
	Usage    openai.Usage
	HasUsage bool
	Finish   string // the last finish reason
	Model    string // as the answer names it
	ID       string // the completion's id, as in the engine's log
	Failed   bool   // the stream or the answer has an error
	Failure  string // the error's type
	Bad      int    // events that could not be read
	Choices  int    // requested choices, all of which must end; 0 counts as 1

	ended      int  // choices with a finish reason
	done       bool // the last event came: [DONE], or another API's last event
	completion bool // an event was one of a completion

	sse   openai.Events
	whole []byte // bytes of an answer that is not streamed
	cut   bool   // whole has only the end of the answer

	at      int64 // time of the last tokens
	before  int64 // time of the tokens before
	pending int   // tokens that came at the time at, not yet reported as intervals
}

// Data reads a piece of the answer that arrived at a time.
func (m *Meter) Data(p []byte, at int64) {
	switch m.Kind {
	case Events:
		m.readEvents(p, at)
	case Whole:
		m.collectBody(p)
	}
}

// End ends the answer, whether it is complete or not.
func (m *Meter) End(at int64) {
	switch m.Kind {
	case Events:
		if data, ok := m.sse.Flush(); ok {
			m.readEvent(data, at)
		}
		m.reportTokens()
	case Whole:
		m.readWhole(at)
	}
	m.sse, m.whole = openai.Events{}, nil
}

// Complete reports whether the answer ended as its protocol requires. An answer that is not a
// completion counts as complete.
func (m *Meter) Complete() bool { return m.Kind != Events || !m.completion || m.Finished() }

// Finished reports whether the last token of a stream has come: by its last event, or by a finish
// reason of every choice. A client needs nothing of the rest.
func (m *Meter) Finished() bool {
	return m.done || m.completion && m.ended >= max(m.Choices, 1)
}

// Tokens returns the number of output tokens, and how they were counted.
func (m *Meter) Tokens() (n int, how string) {
	switch {
	case m.Count.Continuous && m.Kind == Events:
		return m.Count.N, ByContinuous
	case m.HasUsage && m.Usage.CompletionTokens >= m.Count.N:
		return m.Usage.CompletionTokens, ByUsage
	case m.Count.ByIDs:
		return m.Count.N, ByTokenIDs
	}
	return m.Count.N, ByChunks
}

func (m *Meter) readEvents(p []byte, at int64) {
	for {
		data, rest, ok, err := m.sse.Next(p)
		if err != nil {
			// The event is too large. Later events cannot be separated any more.
			m.Bad++
			m.Kind, m.sse = Opaque, openai.Events{}
			m.reportTokens()
			return
		}
		if !ok {
			return
		}
		m.readEvent(data, at)
		p = rest
	}
}

func (m *Meter) readEvent(data []byte, at int64) {
	if len(data) == 0 || data[0] != '{' {
		switch {
		case bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")):
			m.done = true
		case len(data) > 0:
			m.Bad++
		}
		return
	}
	var c openai.Chunk
	if c.Scan(data) != nil {
		m.Bad++
		return
	}
	m.noteChunk(&c)
	switch string(c.Type) {
	case "response.completed", "response.incomplete", "response.failed", "message_stop":
		m.done = true
	}
	n := m.Count.Add(&c)
	if n == 0 {
		return
	}
	if m.To != nil {
		m.To.Tokens(n)
	}
	if m.First == 0 {
		m.First, m.Last, m.at, m.before = at, at, at, at
		return
	}
	if at > m.at {
		m.reportTokens()
		m.before, m.at = m.Last, at
	}
	if m.at > m.First {
		m.pending += n
	}
	m.Last = m.at
}

// reportTokens reports the pending tokens as intervals.
func (m *Meter) reportTokens() {
	if m.pending > 0 && m.To != nil {
		m.To.Interval(m.at-m.before, m.pending)
	}
	m.pending = 0
}

// noteChunk keeps the fields of an event or an answer, except the tokens.
func (m *Meter) noteChunk(c *openai.Chunk) {
	if m.Model == "" && len(c.Model) > 0 {
		m.Model = string(c.Model[:min(len(c.Model), maxName)])
	}
	if m.ID == "" && len(c.ID) > 0 {
		m.ID = string(c.ID[:min(len(c.ID), maxName)])
	}
	m.completion = m.completion || c.Choices > 0 || c.WithContent > 0
	m.ended += c.Ended
	if len(c.Finish) > 0 {
		m.Finish = finishReason(c.Finish)
	}
	if c.HasUsage {
		// In the messages API, several events have a part of the usage each.
		u := c.Usage
		m.Usage.PromptTokens = max(m.Usage.PromptTokens, u.PromptTokens)
		m.Usage.CompletionTokens = max(m.Usage.CompletionTokens, u.CompletionTokens)
		m.Usage.CachedTokens = max(m.Usage.CachedTokens, u.CachedTokens)
		m.HasUsage = true
	}
	if c.HasError {
		m.Failed = true
		kind := c.ErrorType
		if kind == nil {
			kind = c.Type
		}
		m.Failure = string(kind[:min(len(kind), maxName)])
	}
}

// finishReasons are the known ones. Any other counts as "other", so that a server cannot make any number of series.
var finishReasons = []string{
	"stop", "length", "tool_calls", "function_call", "content_filter", "abort", "error", "repetition",
	"completed", "incomplete", "failed", "cancelled", "end_turn", "max_tokens", "stop_sequence", "tool_use",
}

func finishReason(b []byte) string {
	if r := string(b); slices.Contains(finishReasons, r) {
		return r
	}
	return "other"
}

// collectBody adds a piece to an answer that is not streamed.
func (m *Meter) collectBody(p []byte) {
	if len(m.whole)+len(p) > maxWhole {
		m.cut = true
	}
	if m.cut && len(p) > tail {
		p, m.whole = p[len(p)-tail:], nil
	}
	if m.whole = append(m.whole, p...); m.cut && len(m.whole) > 2*tail {
		m.whole = bytes.Clone(m.whole[len(m.whole)-tail:])
	}
}

func (m *Meter) readWhole(at int64) {
	var c openai.Chunk
	switch {
	case len(m.whole) == 0:
		return
	case m.cut:
		if !c.ScanTail(m.whole) {
			return
		}
	case c.Scan(m.whole) != nil:
		m.Bad++
		return
	}
	m.noteChunk(&c)
	m.Count.N = c.WithContent
	if c.HasUsage {
		m.Count.N = c.Usage.CompletionTokens
	}
	if m.Count.N > 0 && !m.Failed {
		m.First, m.Last = at, at // all tokens came at once
		if m.To != nil {
			m.To.Tokens(m.Count.N)
		}
	}
}

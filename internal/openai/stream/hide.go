package stream

import (
	"bytes"

	"github.com/sixty-dev/sixty/internal/openai"
)

// A Hider takes the token account out of a stream whose client did not ask for
// it: the last event, which has nothing else, and the null that some servers put
// into every other event then. All other bytes stay as they are. The zero value
// is ready to use.
type Hider struct {
	event []byte // the beginning of an event whose end has not arrived
	out   []byte
	big   bool // the event is longer than is kept, and passes
}

var null = []byte(`,"usage":null`)

// Data takes a piece of the stream and returns what the client is to get now,
// which is valid until the next call. It holds back an event until it is whole,
// and at most openai.MaxEvent bytes.
func (h *Hider) Data(p []byte) []byte {
	h.out = h.out[:0]
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			h.bufferEvent(p)
			break
		}
		h.bufferEvent(p[:i+1])
		p = p[i+1:]
		if e := h.event; h.big || bytes.HasSuffix(e, []byte("\n\n")) || bytes.HasSuffix(e, []byte("\n\r\n")) || bytes.HasSuffix(e, []byte("\r\r")) {
			h.flushEvent()
		}
	}
	return h.out
}

// End returns what was held back: an event that the stream's end cut off.
func (h *Hider) End() []byte {
	h.out = append(h.out[:0], h.event...)
	h.event = nil
	return h.out
}

func (h *Hider) bufferEvent(p []byte) {
	if !h.big && len(h.event)+len(p) > openai.MaxEvent {
		h.big = true
		h.out = append(h.out, h.event...)
		h.event = h.event[:0]
	}
	if h.big {
		h.out = append(h.out, p...)
		return
	}
	h.event = append(h.event, p...)
}

// flushEvent puts the whole event out, or what is left of it.
func (h *Hider) flushEvent() {
	e := h.event
	h.event, h.big = h.event[:0], false
	blank := len(e) - len(bytes.TrimLeft(e, "\r\n"))
	h.out, e = append(h.out, e[:blank]...), e[blank:]
	if !bytes.Contains(e, []byte(`"usage"`)) {
		h.out = append(h.out, e...)
		return
	}
	var sse openai.Events
	var c openai.Chunk
	data, _, ok, err := sse.Next(e)
	if err != nil || !ok || c.Scan(data) != nil {
		h.out = append(h.out, e...)
		return
	}
	if c.HasUsage && c.Choices == 0 {
		return
	}
	// In a text the quotes would be escaped.
	if i := bytes.LastIndex(e, null); i >= 0 && !c.HasUsage {
		h.out = append(h.out, e[:i]...)
		e = e[i+len(null):]
	}
	h.out = append(h.out, e...)
}

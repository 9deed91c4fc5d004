package openai

import (
	"bytes"
	"errors"
)

// MaxEvent is the most bytes of one server-sent event. Servers' largest events are a few kB (log
// probabilities, tool calls).
const MaxEvent = 1 << 20

// ErrEventTooLarge is the error of an event over MaxEvent.
var ErrEventTooLarge = errors.New("server-sent event too large")

// Events splits a stream into the data of its server-sent events (WHATWG HTML, section 9.2.6). The stream may come in
// pieces of any size. Lines end with LF, CR LF or CR, and a byte order mark may come first. Fields other than data are
// skipped. The zero value is ready to use.
type Events struct {
	partial  []byte // beginning of a line whose end has not arrived
	gathered []byte // data of the event whose end has not arrived
	pending  bool   // the event has data, perhaps an empty line
	begun    bool   // the first line was read
	cr       bool   // the last line ended with the CR at the end of a piece: an LF may follow
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Reset makes e ready for another stream and keeps its memory.
func (e *Events) Reset() { *e = Events{partial: e.partial[:0], gathered: e.gathered[:0]} }

// Next returns the data of the next event that p completes, and the rest of p for the next call. If ok is false, p
// completes no event, and was consumed. The data is valid until the next call and may point into p.
func (e *Events) Next(p []byte) (data, rest []byte, ok bool, err error) {
	if e.cr && len(p) > 0 {
		e.cr = false
		if p[0] == '\n' {
			p = p[1:]
		}
	}
	for len(p) > 0 {
		i, next := lineEnd(p)
		if i < 0 {
			if len(e.partial)+len(p) > MaxEvent {
				return nil, nil, false, ErrEventTooLarge
			}
			e.partial = append(e.partial, p...)
			return nil, nil, false, nil
		}
		line := p[:i]
		e.cr = next == len(p) && next == i+1 && p[i] == '\r'
		p = p[next:]
		if len(e.partial) > 0 {
			if len(e.partial)+len(line) > MaxEvent {
				return nil, nil, false, ErrEventTooLarge
			}
			e.partial = append(e.partial, line...)
			line, e.partial = e.partial, e.partial[:0]
		}
		if !e.begun {
			e.begun, line = true, bytes.TrimPrefix(line, byteOrderMark)
		}
		if len(line) == 0 {
			if e.pending {
				data, e.gathered, e.pending = e.gathered, e.gathered[:0], false
				return data, p, true, nil
			}
			continue
		}
		value, isData := dataField(line)
		if !isData {
			continue
		}
		if !e.pending && len(p) > 0 && p[0] == '\n' {
			return value, p[1:], true, nil // the whole event is in p, so no copy is needed
		}
		if len(e.gathered)+len(value) > MaxEvent {
			return nil, nil, false, ErrEventTooLarge
		}
		if e.pending {
			e.gathered = append(e.gathered, '\n')
		}
		e.gathered, e.pending = append(e.gathered, value...), true
	}
	return nil, nil, false, nil
}

// lineEnd returns the indexes of the first line's end in p and of the next line's beginning. end is negative if the
// line has no end in p.
func lineEnd(p []byte) (end, next int) {
	end = bytes.IndexByte(p, '\n')
	within := p
	if end >= 0 {
		within = p[:end]
	}
	cr := bytes.IndexByte(within, '\r')
	switch {
	case cr < 0:
		return end, end + 1
	case cr+1 == end:
		return cr, end + 1
	}
	return cr, cr + 1
}

// Flush ends the stream. It returns the data of a last event without its empty line, if there is one. Browsers drop
// such an event, but some servers omit the last line end.
func (e *Events) Flush() (data []byte, ok bool) {
	if len(e.partial) > 0 {
		if v, isData := dataField(e.partial); isData {
			if e.pending {
				e.gathered = append(e.gathered, '\n')
			}
			e.gathered, e.pending = append(e.gathered, v...), true
		}
	}
	data, ok = e.gathered, e.pending
	e.Reset()
	return data, ok
}

// dataField returns the value of a line with a data field, or false for any other line.
func dataField(line []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte("data"))
	if !ok {
		return nil, false
	}
	if len(rest) == 0 {
		return rest, true
	}
	if rest[0] != ':' {
		return nil, false
	}
	rest = rest[1:]
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return rest, true
}

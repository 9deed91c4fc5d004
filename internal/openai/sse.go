package openai

import (
	"bytes"
	"errors"
)

// MaxEvent bounds one server-sent event in bytes. The largest that servers send
// are a few kB (log probabilities, tool calls).
const MaxEvent = 1 << 20

// ErrEventTooLarge is the error of an event over MaxEvent.
var ErrEventTooLarge = errors.New("server-sent event too large")

// Events splits a stream of bytes, in pieces of any size, into the data of its
// server-sent events (WHATWG HTML, section 9.2.6). Lines end with LF or CR LF;
// fields other than data are skipped. The zero value is ready to use.
type Events struct {
	line    []byte // the beginning of a line whose end has not arrived
	data    []byte // data of the event whose end has not arrived
	pending bool   // data holds something, perhaps an empty line
}

// Reset makes e ready for another stream and keeps its memory.
func (e *Events) Reset() { e.line, e.data, e.pending = e.line[:0], e.data[:0], false }

// Next returns the data of the next event that is complete with p, and the rest
// of p. Without one ok is false, and p has been taken in. The data is valid
// until the next call and may point into p.
func (e *Events) Next(p []byte) (data, rest []byte, ok bool, err error) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if len(e.line)+len(p) > MaxEvent {
				return nil, nil, false, ErrEventTooLarge
			}
			e.line = append(e.line, p...)
			return nil, nil, false, nil
		}
		line := p[:i]
		p = p[i+1:]
		if len(e.line) > 0 {
			if len(e.line)+len(line) > MaxEvent {
				return nil, nil, false, ErrEventTooLarge
			}
			e.line = append(e.line, line...)
			line, e.line = e.line, e.line[:0]
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) == 0 {
			if e.pending {
				data, e.data, e.pending = e.data, e.data[:0], false
				return data, p, true, nil
			}
			continue
		}
		value, isData := dataField(line)
		if !isData {
			continue
		}
		if !e.pending && len(p) > 0 && p[0] == '\n' {
			return value, p[1:], true, nil // the whole event lies in p: no copy
		}
		if len(e.data)+len(value) > MaxEvent {
			return nil, nil, false, ErrEventTooLarge
		}
		if e.pending {
			e.data = append(e.data, '\n')
		}
		e.data, e.pending = append(e.data, value...), true
	}
	return nil, nil, false, nil
}

// Flush returns the data of an event that the stream's end cut off before its
// empty line. Browsers drop such an event; some servers omit the last line end.
func (e *Events) Flush() (data []byte, ok bool) {
	if len(e.line) > 0 {
		if v, isData := dataField(bytes.TrimSuffix(e.line, []byte{'\r'})); isData {
			if e.pending {
				e.data = append(e.data, '\n')
			}
			e.data, e.pending = append(e.data, v...), true
		}
	}
	data, ok = e.data, e.pending
	e.Reset()
	return data, ok
}

// dataField returns the value of a data field's line.
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

// Package torch reads traces of torch.profiler into a profile.Timeline: Chrome's trace event format as Kineto writes
// it, for CUDA, HIP and CPUs.
//
// A parser reads a stream once. readDocument finds the events and the fields beside them (torch.go), parseEvent takes
// an event's fields (event.go), addEvent adds the event to the timeline (read.go), and costOf computes the
// work of an operator from its inputs' shapes (cost.go).
//
// The package has a JSON reader of its own, because real traces have many gigabytes, control characters and bytes that
// are not UTF-8, and end in the middle if a process was killed or a file system was full. It skips what it cannot read,
// and counts it.
package torch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/profile"
)

// ErrNoTrace says that a file holds no trace.
var ErrNoTrace = errors.New("not a trace of torch.profiler")

const (
	bufferSize = 1 << 20
	maxEvent   = 16 << 20 // bytes of one event's text
	maxHeader  = 4 << 20  // bytes of one value beside the events
	maxDepth   = 512      // nesting of a value
)

// Read reads a trace, with at most limit events (see profile.New). A stream that ends with an error gives a partial
// timeline. A stream without any event is an error.
func Read(ctx context.Context, r io.Reader, source string, limit int) (*profile.Timeline, error) {
	p := &parser{
		ctx: ctx, r: r, buf: make([]byte, 0, bufferSize), headers: map[string][]byte{},
		t: profile.New(source, "torch.profiler", limit),
	}
	err := p.readDocument()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	switch {
	case p.t.Events == 0 && err == nil && p.sawEvents:
		return nil, hint.With(fmt.Errorf("read %s: the trace has no events", source),
			"the profiler was stopped before a step: let it run for some steps, see sixty profile how")
	case p.t.Events == 0:
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrNoTrace
			if p.offset+int64(p.pos) == 0 && len(p.buf) == 0 {
				err = errors.New("the file is empty")
			}
		}
		switch {
		case p.headers["nodes"] != nil && p.headers["schema"] != nil:
			err = errors.New("an execution trace of PyTorch (Chakra): it has no kernel times")
		case p.headers["rocprofiler-sdk-tool"] != nil:
			err = errors.New("a trace of rocprofv3")
		}
		return nil, hint.Or(fmt.Errorf("read %s: %w", source, err),
			"give a .json or .json.gz of torch.profiler, or an Nsight Systems report as .sqlite")
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.t.Truncated = true
		p.t.Partial = append(p.t.Partial, fmt.Sprintf("the file is truncated after %d events", p.t.Events))
	case err != nil:
		p.t.Partial = append(p.t.Partial, fmt.Sprintf("reading ended after %d events: %v", p.t.Events, err))
	}
	p.readHeaders()
	p.t.Close()
	return p.t, nil
}

// A parser holds a window of the stream: buf[pos:] is unread.
type parser struct {
	ctx    context.Context //nolint:containedctx // of one call of Read
	r      io.Reader
	buf    []byte
	pos    int
	offset int64 // position of buf[0] in the stream
	end    error // error that ended the stream

	t         *profile.Timeline
	sawEvents bool
	headers   map[string][]byte // values beside the events; empty if longer than maxHeader
	cats      [8]struct {       // cache of lookUpCategory
		text string
		cat  category
	}
	ev event // the last event parsed
}

// readMore reads at least one more byte into buf, or reports false. It keeps buf[pos:].
func (p *parser) readMore() bool {
	if p.end != nil {
		return false
	}
	if p.ctx.Err() != nil {
		p.end = p.ctx.Err()
		return false
	}
	if p.pos > 0 {
		n := copy(p.buf[:cap(p.buf)], p.buf[p.pos:])
		p.offset += int64(p.pos)
		p.buf, p.pos = p.buf[:n], 0
	}
	if len(p.buf) == cap(p.buf) {
		bigger := make([]byte, len(p.buf), 2*cap(p.buf))
		copy(bigger, p.buf)
		p.buf = bigger
	}
	for range 100 {
		n, err := p.r.Read(p.buf[len(p.buf):cap(p.buf)])
		p.buf = p.buf[:len(p.buf)+n]
		if err != nil {
			p.end = err
		}
		if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	p.end = io.ErrNoProgress
	return false
}

// endError returns the error for a stream that ends within a value.
func (p *parser) endError() error {
	if p.end == nil || errors.Is(p.end, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return p.end
}

// peekByte returns the next byte that is no space, without consuming it, or false at the end.
func (p *parser) peekByte() (byte, bool) {
	for {
		for p.pos < len(p.buf) {
			switch c := p.buf[p.pos]; c {
			case ' ', '\n', '\r', '\t':
				p.pos++
			default:
				return c, true
			}
		}
		if !p.readMore() {
			return 0, false
		}
	}
}

// readDocument reads the whole stream: an array of events, or an object with one.
func (p *parser) readDocument() error {
	c, ok := p.peekByte()
	if ok && c == 0xEF { // a byte order mark
		for len(p.buf)-p.pos < 3 && p.readMore() {
		}
		p.pos = min(p.pos+3, len(p.buf))
		c, ok = p.peekByte()
	}
	switch {
	case !ok:
		return p.endError()
	case c == '[':
		p.pos++
		return p.readEvents()
	case c != '{':
		return ErrNoTrace
	}
	p.pos++
	for {
		switch c, ok := p.peekByte(); {
		case !ok:
			return p.endError()
		case c == '}':
			return nil
		case c == ',':
			p.pos++
			continue
		case c != '"':
			return fmt.Errorf("no field name at byte %d: %w", p.offset+int64(p.pos), ErrNoTrace)
		}
		if err := p.readField(); err != nil {
			return err
		}
	}
}

// readField reads a field of the document: the events, or a value beside them.
func (p *parser) readField() error {
	key, err := p.captureValue(maxHeader)
	if err != nil {
		return err
	}
	name := unquoteString(key)
	if c, ok := p.peekByte(); !ok || c != ':' {
		if !ok {
			return p.endError()
		}
		return fmt.Errorf("at byte %d: %w", p.offset+int64(p.pos), ErrNoTrace)
	}
	p.pos++
	switch c, ok := p.peekByte(); {
	case !ok:
		return p.endError()
	case name == "traceEvents" && c == '[':
		p.pos++
		return p.readEvents()
	}
	value, err := p.captureValue(maxHeader)
	if err == nil && len(p.headers) < 1000 {
		p.headers[name] = append([]byte{}, value...)
	}
	return err
}

// captureValue consumes a value and returns its text, or nil if it is longer than most. The text
// is valid until the next read.
func (p *parser) captureValue(most int) ([]byte, error) {
	for {
		n, state := skipValue(p.buf[p.pos:], p.end != nil)
		if state == whole {
			v := p.buf[p.pos : p.pos+n]
			p.pos += n
			return v, nil
		}
		if len(p.buf)-p.pos > most {
			return nil, p.skipValue()
		}
		if !p.readMore() {
			return nil, p.endError()
		}
	}
}

// skipValue consumes a value of any length, without holding it.
func (p *parser) skipValue() error {
	depth, inString, escaped := 0, false, false
	for {
		for p.pos < len(p.buf) {
			c := p.buf[p.pos]
			p.pos++
			switch {
			case escaped:
				escaped = false
			case inString && c == '\\':
				escaped = true
			case c == '"':
				inString = !inString
			case inString:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
			if depth <= 0 && !inString && (c == '"' || c == '}' || c == ']') {
				return nil
			}
		}
		if !p.readMore() {
			return p.endError()
		}
	}
}

// readEvents reads the elements of an array of events, and its closing bracket.
func (p *parser) readEvents() error {
	p.sawEvents = true
	for {
		c, ok := p.peekByte()
		switch {
		case !ok:
			return p.endError()
		case c == ']':
			p.pos++
			return nil
		case c == ',':
			p.pos++
			continue
		case c != '{':
			p.t.Dropped[profile.Malformed]++
			if err := p.skipToEvent(); err != nil {
				return err
			}
			continue
		}
		n, state := p.ev.parseEvent(p.buf[p.pos:])
		switch {
		case state == whole:
			p.pos += n
			p.t.Events++
			p.addEvent()
		case state == broken:
			p.t.Dropped[profile.Malformed]++
			p.pos++
			if err := p.skipToEvent(); err != nil {
				return err
			}
		case len(p.buf)-p.pos >= maxEvent:
			p.t.Dropped[profile.Oversized]++
			if err := p.skipValue(); err != nil {
				return err
			}
		case !p.readMore():
			return p.endError()
		}
	}
}

// skipToEvent skips to the likely beginning of the next event: a brace before a known field. So
// only the damaged events are lost.
func (p *parser) skipToEvent() error {
	for {
		i := bytes.IndexByte(p.buf[p.pos:], '{')
		if i < 0 {
			p.pos = len(p.buf)
			if !p.readMore() {
				return p.endError()
			}
			continue
		}
		p.pos += i
		for len(p.buf)-p.pos < 64 && p.readMore() {
		}
		rest := bytes.TrimLeft(p.buf[p.pos+1:min(p.pos+64, len(p.buf))], " \t\r\n")
		if startsEvent(rest) {
			return nil
		}
		p.pos++
	}
}

func startsEvent(b []byte) bool {
	return slices.ContainsFunc([]string{`"ph"`, `"name"`, `"cat"`, `"pid"`, `"ts"`, `"args"`},
		func(s string) bool { return bytes.HasPrefix(b, []byte(s)) })
}

// readHeaders takes the devices and the rank from the values beside the events.
func (p *parser) readHeaders() {
	t := p.t
	if v, err := strconv.ParseInt(strings.Trim(string(p.headers["with_stack"]), `" `), 10, 64); err == nil {
		t.Stacks = v != 0
	}
	var devices []struct {
		ID   int
		Name string
	}
	if json.Unmarshal(p.headers["deviceProperties"], &devices) == nil {
		for _, d := range devices {
			t.GPUs[d.ID] = profile.GPU{Name: d.Name}
		}
	}
	var job struct {
		Rank *int
	}
	if json.Unmarshal(p.headers["distributedInfo"], &job) == nil && job.Rank != nil && *job.Rank >= 0 {
		t.Rank = *job.Rank
	}
}

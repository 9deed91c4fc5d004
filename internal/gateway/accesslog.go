package gateway

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/gateway/stream"
)

// accessLog writes a line for each request. A writer that is too slow loses
// lines, and never delays a request.
type accessLog struct {
	w    io.Writer
	lost atomic.Int64

	mu      sync.Mutex
	lines   []byte        // that wait
	waiting int           // how many these are
	some    chan struct{} // told of the first of them
}

const (
	mostWaiting = 8192    // lines
	mostKept    = 1 << 20 // bytes of a buffer that is used again
	// gather is for how long lines are gathered, so that they wake one goroutine and
	// cost one system call together.
	gather = 10 * time.Millisecond
)

func newAccessLog(w io.Writer) *accessLog { return &accessLog{w: w, some: make(chan struct{}, 1)} }

// run writes until ctx ends, and what is there then.
func (l *accessLog) run(ctx context.Context, wg *sync.WaitGroup) {
	if l.w == nil {
		return
	}
	wg.Go(func() {
		var out []byte
		for {
			select {
			case <-l.some:
				time.Sleep(gather)
			case <-ctx.Done():
				l.put(out)
				return
			}
			out = l.put(out)
		}
	})
}

// put writes the lines that wait, and returns their buffer, which becomes the next
// one's.
func (l *accessLog) put(next []byte) []byte {
	l.mu.Lock()
	lines, n := l.lines, l.waiting
	l.lines, l.waiting = next[:0], 0
	l.mu.Unlock()
	if n > 0 {
		if _, err := l.w.Write(lines); err != nil {
			l.lost.Add(int64(n)) // a full disk may have room again
		}
	}
	if cap(lines) > mostKept {
		return nil
	}
	return lines
}

// write composes the line of a request that has ended. It holds no header, no
// query and no text but names; a field that says nothing is left out.
func (l *accessLog) write(x *exchange, status Status, kind string, now int64) {
	if l.w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= mostWaiting {
		l.lost.Add(1)
		return
	}
	e := line{append(l.lines, `{"time":"`...)}
	e.b = x.wall(now).UTC().AppendFormat(e.b, time.RFC3339Nano)
	e.b = append(e.b, '"')
	m := &x.meter
	e.text("id", clip(x.id))
	e.text("engine_id", m.ID)
	e.text("trace_id", x.traceID())
	e.text("client", x.client)
	e.text("method", clip(x.method))
	e.text("route", x.route)
	e.text("model", x.model)
	e.text("tenant", x.tenant)
	if u := x.up.Load(); u != nil {
		e.text("upstream", u.name)
	}
	e.text("status", status.String())
	e.text("error", kind)
	e.count("code", int64(x.code))
	if m.Kind == stream.Events {
		e.b = append(e.b, `,"stream":true`...)
	}
	e.count("retries", int64(x.retries))
	e.span("queue_seconds", x.arrived, x.admitted)
	e.span("upstream_head_seconds", x.sent, x.head)
	e.span("ttft_seconds", x.arrived, m.First)
	e.span("duration_seconds", x.arrived, now)
	e.span("client_blocked_seconds", 1, 1+x.blocked)
	e.count("prompt_tokens", int64(m.Usage.PromptTokens))
	e.count("cached_tokens", int64(m.Usage.CachedTokens))
	if n, how := m.Tokens(); n > 0 {
		e.count("output_tokens", int64(n))
		e.text("counted_by", how)
	}
	e.text("finish_reason", m.Finish)
	e.count("received_bytes", x.received.Load())
	e.count("sent_bytes", x.answered)
	l.lines = append(e.b, "}\n"...)
	if l.waiting++; l.waiting == 1 {
		select {
		case l.some <- struct{}{}:
		default:
		}
	}
}

// line is a JSON object that is being composed.
type line struct{ b []byte }

func (e *line) key(name string) {
	e.b = append(append(append(e.b, `,"`...), name...), `":`...)
}

func (e *line) text(name, v string) {
	if v == "" {
		return
	}
	e.key(name)
	for _, c := range []byte(v) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(v) // a string has no way to fail
			e.b = append(e.b, quoted...)
			return
		}
	}
	e.b = append(append(append(e.b, '"'), v...), '"')
}

func (e *line) count(name string, v int64) {
	if v != 0 {
		e.key(name)
		e.b = strconv.AppendInt(e.b, v, 10)
	}
}

// span writes the seconds between two times, neither of which is 0, to the
// microsecond.
func (e *line) span(name string, from, to int64) {
	if from != 0 && to != 0 && to != from {
		e.key(name)
		e.b = strconv.AppendFloat(e.b, float64((to-from)/1000)/1e6, 'f', -1, 64)
	}
}

func clip(s string) string { return s[:min(len(s), maxLabel)] }

package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/gateway/stream"
)

// accessLog writes a line for each request. A writer that is too slow loses
// lines, and never delays a request.
type accessLog struct {
	w     io.Writer
	lines chan []byte
	lost  atomic.Int64
}

func newAccessLog(w io.Writer) *accessLog {
	l := &accessLog{w: w}
	if w != nil {
		l.lines = make(chan []byte, 8192)
	}
	return l
}

// run writes until ctx ends, and what is there then.
func (l *accessLog) run(ctx context.Context, wg *sync.WaitGroup) {
	if l.w == nil {
		return
	}
	wg.Go(func() {
		out := bufio.NewWriterSize(l.w, 64<<10)
		put := func(line []byte) {
			if _, err := out.Write(line); err != nil {
				l.lost.Add(1)
				out.Reset(l.w) // a full disk may have room again
			}
		}
		for {
			select {
			case line := <-l.lines:
				put(line)
			default:
				if out.Buffered() > 0 && out.Flush() != nil {
					out.Reset(l.w)
				}
				select {
				case line := <-l.lines:
					put(line)
				case <-ctx.Done():
					for len(l.lines) > 0 {
						put(<-l.lines)
					}
					_ = out.Flush()
					return
				}
			}
		}
	})
}

// entry is a line. It holds no header, no query and no text but names.
type entry struct {
	Time     string  `json:"time"` // of the end
	ID       string  `json:"id"`
	EngineID string  `json:"engine_id,omitempty"`
	Trace    string  `json:"trace_id,omitempty"`
	Client   string  `json:"client"`
	Method   string  `json:"method"`
	Route    string  `json:"route"`
	Model    string  `json:"model,omitempty"`
	Tenant   string  `json:"tenant,omitempty"`
	Upstream string  `json:"upstream,omitempty"`
	Status   string  `json:"status"`
	Error    string  `json:"error,omitempty"`
	Code     int     `json:"code"`
	Stream   bool    `json:"stream"`
	Retries  int     `json:"retries,omitempty"`
	Queue    float64 `json:"queue_seconds,omitempty"`
	Head     float64 `json:"upstream_head_seconds,omitempty"`
	TTFT     float64 `json:"ttft_seconds,omitempty"`
	Duration float64 `json:"duration_seconds"`
	Blocked  float64 `json:"client_blocked_seconds,omitempty"`
	Prompt   int     `json:"prompt_tokens,omitempty"`
	Cached   int     `json:"cached_tokens,omitempty"`
	Output   int     `json:"output_tokens,omitempty"`
	Counted  string  `json:"counted_by,omitempty"`
	Finish   string  `json:"finish_reason,omitempty"`
	Received int64   `json:"received_bytes"`
	Sent     int64   `json:"sent_bytes"`
}

func (l *accessLog) write(x *exchange, status Status, kind string, now int64) {
	if l.w == nil {
		return
	}
	seconds := func(from, to int64) float64 {
		if from == 0 || to == 0 {
			return 0
		}
		return time.Duration(to - from).Seconds()
	}
	m := &x.meter
	e := entry{
		Time: x.g.clock.Epoch().Add(time.Duration(now)).UTC().Format(time.RFC3339Nano), ID: clip(x.id), EngineID: m.ID, Trace: x.traceID(),
		Client: clientIP(x.r), Method: clip(x.method), Route: x.route, Model: x.model, Tenant: x.tenant,
		Status: status.String(), Error: kind, Code: x.code, Stream: m.Kind == stream.Events, Retries: x.retries,
		Queue: seconds(x.arrived, x.admitted), Head: seconds(x.sent, x.head), TTFT: seconds(x.arrived, m.First),
		Duration: seconds(x.arrived, now), Blocked: time.Duration(x.blocked).Seconds(),
		Prompt: m.Usage.PromptTokens, Cached: m.Usage.CachedTokens, Finish: m.Finish, Received: x.received, Sent: x.answered,
	}
	if u := x.up.Load(); u != nil {
		e.Upstream = u.name
	}
	if n, how := m.Tokens(); n > 0 {
		e.Output, e.Counted = n, how
	}
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	select {
	case l.lines <- append(line, '\n'):
	default:
		l.lost.Add(1)
	}
}

func clip(s string) string { return s[:min(len(s), maxLabel)] }

package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/openai/stream"
)

// accessLog writes a line for each request. A writer that is too slow loses
// lines, and never delays a request.
type accessLog struct {
	w     io.Writer
	lines chan []byte
	lost  atomic.Int64
}

const (
	mostWaiting = 8192     // lines
	mostAtOnce  = 64 << 10 // bytes that are gathered for one write
)

func newAccessLog(w io.Writer) *accessLog {
	return &accessLog{w: w, lines: make(chan []byte, mostWaiting)}
}

// run writes until ctx ends, and what is there then.
func (l *accessLog) run(ctx context.Context, wg *sync.WaitGroup) {
	if l.w == nil {
		return
	}
	wg.Go(func() {
		for {
			select {
			case line := <-l.lines:
				l.writeLines(line)
			case <-ctx.Done():
				for len(l.lines) > 0 {
					l.writeLines(<-l.lines)
				}
				return
			}
		}
	})
}

// writeLines writes a line and those that wait behind it.
func (l *accessLog) writeLines(lines []byte) {
	n := int64(1)
	for len(lines) < mostAtOnce && len(l.lines) > 0 {
		lines = append(lines, <-l.lines...)
		n++
	}
	if _, err := l.w.Write(lines); err != nil {
		l.lost.Add(n) // a full disk may have room again
	}
}

// line is one request in the log. It holds no header, no query and no text but
// names; a field that says nothing is left out. Times are seconds.
type line struct {
	Time         time.Time `json:"time"`
	ID           string    `json:"id,omitempty"`
	EngineID     string    `json:"engine_id,omitempty"`
	TraceID      string    `json:"trace_id,omitempty"`
	Client       string    `json:"client,omitempty"`
	Method       string    `json:"method,omitempty"`
	Route        string    `json:"route,omitempty"`
	Model        string    `json:"model,omitempty"`
	Tenant       string    `json:"tenant,omitempty"`
	Upstream     string    `json:"upstream,omitempty"`
	Status       string    `json:"status"`
	Error        string    `json:"error,omitempty"`
	Code         int       `json:"code,omitempty"`
	Stream       bool      `json:"stream,omitempty"`
	Retries      int       `json:"retries,omitempty"`
	Queue        float64   `json:"queue_seconds,omitempty"`
	UpstreamHead float64   `json:"upstream_head_seconds,omitempty"`
	TTFT         float64   `json:"ttft_seconds,omitempty"`
	Duration     float64   `json:"duration_seconds,omitempty"`
	Blocked      float64   `json:"client_blocked_seconds,omitempty"`
	PromptTokens int       `json:"prompt_tokens,omitempty"`
	CachedTokens int       `json:"cached_tokens,omitempty"`
	OutputTokens int       `json:"output_tokens,omitempty"`
	CountedBy    string    `json:"counted_by,omitempty"`
	FinishReason string    `json:"finish_reason,omitempty"`
	Received     int64     `json:"received_bytes,omitempty"`
	Sent         int64     `json:"sent_bytes,omitempty"`
}

// write composes the line of a request that has ended.
func (l *accessLog) write(x *exchange, status Status, kind string, now int64) {
	if l.w == nil {
		return
	}
	m := &x.meter
	client, _, _ := net.SplitHostPort(x.r.RemoteAddr)
	e := line{
		Time: x.g.wall(now).UTC(), ID: clip(x.id), EngineID: m.ID, TraceID: x.traceID(), Client: client,
		Method: clip(x.r.Method), Route: x.route, Model: x.model, Tenant: x.tenant, Status: status.String(), Error: kind, Code: x.code,
		Stream: m.Kind == stream.Events, Retries: x.retries,
		Queue: secondsBetween(x.arrived, x.admitted), UpstreamHead: secondsBetween(x.sent, x.head), TTFT: secondsBetween(x.arrived, m.First),
		Duration: secondsBetween(x.arrived, now), Blocked: secondsBetween(1, 1+x.blocked),
		PromptTokens: m.Usage.PromptTokens, CachedTokens: m.Usage.CachedTokens, FinishReason: m.Finish,
		Received: x.received.Load(), Sent: x.answered,
	}
	if u := x.up.Load(); u != nil {
		e.Upstream = u.name
	}
	if n, how := m.Tokens(); n > 0 {
		e.OutputTokens, e.CountedBy = n, how
	}
	b, _ := json.Marshal(e) // it has no way to fail
	select {
	case l.lines <- append(b, '\n'):
	default:
		l.lost.Add(1)
	}
}

// secondsBetween is the time between two moments in seconds, to the microsecond; 0 where one
// of them never came.
func secondsBetween(from, to int64) float64 {
	if from == 0 || to == 0 {
		return 0
	}
	return float64((to-from)/1000) / 1e6
}

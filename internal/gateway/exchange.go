package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/openai/stream"
)

// state is what a request waits for.
type state uint32

const (
	receiving  state = iota // its body
	connecting              // a connection to an upstream
	waiting                 // the head of the answer
	prefill                 // the first token of a stream
	streaming               // the rest
)

var stateNames = [...]string{"receiving", "connecting", "waiting", "prefill", "streaming"}

func (s state) String() string { return stateNames[s] }

// exchange is one request and its answer. One goroutine owns it; fields that others read are atomic.
type exchange struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request // with ctx
	ctl     *http.ResponseController
	ctx     context.Context // ends with the client, or by cancel
	stop    context.CancelCauseFunc
	work    string // operation of the route, in OpenTelemetry's words; "" if it generates nothing
	id      string
	ours    bool // the id was made here
	route   string
	labels  []string // model and route, under which it is counted; by model once that is known
	meter   stream.Meter
	whole   bool   // the client got all of a stream, up to its last event
	choices int    // that the client asked for
	body    []byte // until the answer begins
	held    int64  // bytes of it that were read
	asked   string // the model that the client named
	model   string // the same, if a server has it; else ""
	offered bool   // counted as arrived

	// Nanoseconds of the gateway's clock; 0 for never.
	arrived, received, sent int64
	last                    atomic.Int64 // when something moved: a byte of the client or of the upstream
	writing                 atomic.Bool  // to the client, which may block
	blocked                 int64        // how long writes did
	state                   atomic.Uint32
	tokens                  atomic.Int64
	up                      atomic.Pointer[upstream]
	shown                   atomic.Pointer[string] // the model, for others

	code    int  // answered
	failure *end // why it failed, where that is known already
}

// generates reports whether the route's answers are made of tokens.
func (x *exchange) generates() bool { return x.work == "chat" || x.work == "text_completion" }

// cancel ends the exchange from outside, for a reason; the first one stays. Its caller
// holds the gateway's lock, so that the exchange has not ended: its connection may serve
// another one then.
func (x *exchange) cancel(cause *end) {
	x.stop(cause)
	// Reads and writes that block on the client end too: HTTP/2 streams and HTTP/1 connections have deadlines.
	past := time.Unix(1, 0)
	if state(x.state.Load()) == receiving {
		_ = x.ctl.SetReadDeadline(past)
	} else if x.writing.Load() {
		_ = x.ctl.SetWriteDeadline(past)
	}
}

// cancelCause returns the reason why the exchange was cancelled instead of the error that followed.
func (x *exchange) cancelCause(err error) error {
	switch cause := context.Cause(x.ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled): // by net/http: the connection is gone
		return errClientGone
	default:
		return cause
	}
}

func (x *exchange) setState(s state) {
	x.state.Store(uint32(s))
	x.touch()
}

func (x *exchange) touch() { x.last.Store(x.g.now()) }

// each calls fn for every open exchange. fn must be quick.
func (g *Gateway) each(fn func(*exchange)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for x := range g.open {
		fn(x)
	}
}

// sweepEvery is how often limits are looked at: an exchange is ended at most so much later
// than the limit says.
const sweepEvery = time.Second / 4

// sweep ends exchanges of which nothing has moved for too long.
func (g *Gateway) sweep() {
	now := g.now()
	g.each(func(x *exchange) {
		switch s := state(x.state.Load()); {
		case g.cfg.IdleTimeout <= 0 || s == connecting || now-x.last.Load() <= int64(g.cfg.IdleTimeout):
		case s == receiving || x.writing.Load():
			x.cancel(errClientStalls)
		default:
			x.cancel(errSilence)
		}
	})
}

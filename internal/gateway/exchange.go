package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/openai/stream"
)

// A state says what a request waits for.
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

// An exchange is one request with its answer. One goroutine owns it. Fields that others read are atomic.
type exchange struct {
	g          *Gateway
	w          http.ResponseWriter
	r          *http.Request // with ctx
	ctl        *http.ResponseController
	ctx        context.Context // ends with the client, or by cancel
	stop       context.CancelCauseFunc
	operation  string // operation of the route, in OpenTelemetry's words; "" if it generates nothing
	id         string
	ownID      bool // the gateway made the ID
	route      string
	labels     []string // model and route in metrics; the model is "" until it is confirmed
	meter      stream.Meter
	sentWhole  bool   // the client got the last event of the stream
	choices    int    // choices of the answer that the client asked for
	body       []byte // until the answer begins
	heldBytes  int64  // bytes of the body that were read
	askedModel string // the model that the client named
	model      string // askedModel if a server has it, else ""
	offered    bool   // counted as arrived

	// Nanoseconds of the gateway's clock; 0 for never.
	arrived, received, sent int64
	last                    atomic.Int64 // when a byte of the client or the upstream moved
	writing                 atomic.Bool  // a write to the client is running
	blocked                 int64        // total time of writes to the client
	state                   atomic.Uint32
	tokens                  atomic.Int64
	up                      atomic.Pointer[upstream]
	shownModel              atomic.Pointer[string] // model, for GET /requests

	code    int  // answered
	failure *end // why it failed; nil if unknown yet
}

// generates reports whether the route generates tokens.
func (x *exchange) generates() bool { return x.operation == "chat" || x.operation == "text_completion" }

// cancel ends the exchange from another goroutine. The first cause stays. The caller holds the gateway's lock, so that
// the exchange has not ended: afterwards its connection may serve another one.
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

// cancelCause returns the cause if the exchange was cancelled, and err otherwise.
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

// eachOpen calls fn for every open exchange, under the lock.
func (g *Gateway) eachOpen(fn func(*exchange)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for x := range g.open {
		fn(x)
	}
}

// sweepEvery is the time between two checks of limits. An exchange outlives its limit by this much at most.
const sweepEvery = time.Second / 4

// endSilent ends exchanges in which nothing has moved for the idle timeout.
func (g *Gateway) endSilent() {
	now := g.now()
	g.eachOpen(func(x *exchange) {
		switch s := state(x.state.Load()); {
		case g.cfg.IdleTimeout <= 0 || s == connecting || now-x.last.Load() <= int64(g.cfg.IdleTimeout):
		case s == receiving || x.writing.Load():
			x.cancel(errClientStalls)
		default:
			x.cancel(errSilence)
		}
	})
}

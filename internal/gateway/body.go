package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/alecthomas/units"
)

// firstRead is the room made for a body before it comes, at most: the length that a
// client announces is not believed beyond.
const firstRead = 1 << 20

// maxHeld bounds the bodies of all requests together, in bytes: each is held until its answer
// begins, and clients that send and do not wait could fill any memory.
const maxHeld = 4 << 30

// readBody reads the whole body of a request. No upstream is asked before, so that none
// sees a body that is malformed, too large, or cut off; and net/http tells from then on
// that the client has left.
func (x *exchange) readBody() error {
	limit := x.g.cfg.MaxBody
	if x.r.ContentLength == 0 {
		return nil
	}
	src := x.r.Body
	if limit > 0 {
		if x.r.ContentLength > limit {
			return tooLarge(limit)
		}
		src = http.MaxBytesReader(x.w, src, limit)
	}
	var b bytes.Buffer
	b.Grow(int(min(max(x.r.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := b.ReadFrom(&counted{x, src})
	x.body = b.Bytes()
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return tooLarge(limit)
	}
	if errors.Is(err, errTooMuch) {
		return errTooMuch
	}
	if err != nil {
		return &end{status: ClientDisconnect, code: http.StatusBadRequest, kind: "body_unreadable", err: err}
	}
	return nil
}

func tooLarge(limit int64) *end {
	return &end{
		status: Rejected, code: http.StatusRequestEntityTooLarge, kind: "body_too_large",
		err: errors.New("the body is longer than " + units.Base2Bytes(limit).String()),
	}
}

// counted reads the client's body and counts its bytes.
type counted struct {
	x   *exchange
	src io.Reader
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.x.received.Add(int64(n))
	c.x.held += int64(n)
	c.x.touch()
	if c.x.g.held.Add(int64(n)) > maxHeld {
		return n, errTooMuch
	}
	return n, err
}

// dropBody gives back what the body was counted for.
func (x *exchange) dropBody() {
	x.g.held.Add(-x.held)
	x.held = 0
}

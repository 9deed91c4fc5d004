package gateway

import (
	"errors"
	"io"
	"net/http"
)

// keepBody is how much of a request's body is read before an upstream is asked:
// a body that fits can be sent again, and is looked into. The rest of a larger
// one passes as it comes.
const keepBody = 4 << 20

// body is that of a request.
type body struct {
	kept  []byte
	rest  io.Reader // what follows; nil where the body was kept whole
	size  int64     // of the whole; -1 where it is not known
	spent bool      // a part of rest was sent, so it cannot be sent again
}

// readBody reads the body of a request, as far as it is kept.
func (x *exchange) readBody() (*body, error) {
	r, limit := x.r, x.g.cfg.MaxBody
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return &body{}, nil
	}
	if limit > 0 && r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	b := &body{size: r.ContentLength}
	src := &counted{x: x, limit: limit}
	room := int64(8 << 10)
	if b.size > 0 {
		room = min(b.size, keepBody)
	}
	b.kept = make([]byte, 0, room)
	for {
		if b.size >= 0 && int64(len(b.kept)) == b.size {
			// The end is read too, for then the server watches for the client to leave.
			if n, err := src.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				return nil, asClientEnd(errors.Join(err, errors.New("the body is longer than its length")))
			}
			return b, nil
		}
		if len(b.kept) == cap(b.kept) {
			if len(b.kept) >= keepBody {
				b.rest = src
				return b, nil
			}
			grown := make([]byte, len(b.kept), min(2*cap(b.kept), keepBody))
			copy(grown, b.kept)
			b.kept = grown
		}
		n, err := src.Read(b.kept[len(b.kept):cap(b.kept)])
		b.kept = b.kept[:len(b.kept)+n]
		if errors.Is(err, io.EOF) {
			b.size = int64(len(b.kept))
			return b, nil
		}
		if err != nil {
			return nil, asClientEnd(err)
		}
	}
}

func tooLarge(limit int64) *end {
	return &end{
		status: Rejected, code: http.StatusRequestEntityTooLarge, kind: "body_too_large",
		err: errors.New("the body is longer than " + bytesText(limit)),
	}
}

// asClientEnd tells apart why a client's body could not be read.
func asClientEnd(err error) error {
	var e *end
	if errors.As(err, &e) {
		return e
	}
	return &end{status: ClientDisconnect, code: http.StatusBadRequest, kind: "body_unreadable", err: err}
}

// counted reads the client's body and counts its bytes.
type counted struct {
	x     *exchange
	limit int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.x.r.Body.Read(p)
	c.x.received += int64(n)
	c.x.touch()
	if c.limit > 0 && c.x.received > c.limit {
		return n, tooLarge(c.limit)
	}
	return n, err
}

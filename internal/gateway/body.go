package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// keepBody is how much of a request's body is read before an upstream is asked:
// a body that fits can be sent again, and is looked into. The rest of a larger
// one passes as it comes.
const keepBody = 4 << 20

// body is that of a request.
type body struct {
	kept  []byte
	rest  io.Reader   // what follows; nil where the body was kept whole
	size  int64       // of the whole; -1 where it is not known
	spent atomic.Bool // a part of rest was sent, so it cannot be sent again
	buf   *[]byte     // of bodies, in which kept lies; nil where it lies elsewhere
}

// bodies are the buffers of small bodies.
var bodies = sync.Pool{New: func() any { b := make([]byte, 0, smallBody); return &b }}

// smallBody holds most prompts that are not conversations.
const smallBody = 8 << 10

// drop lets go of the body. Its buffer is used again where no one else can still
// be reading it.
func (b *body) drop(unread bool) {
	if b.buf != nil && unread {
		bodies.Put(b.buf)
	}
	b.kept, b.buf = nil, nil
}

// readBody reads the body of a request, as far as it is kept.
func (x *exchange) readBody() error {
	r, limit, b := x.r, x.g.cfg.MaxBody, &x.body
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if limit > 0 && r.ContentLength > limit {
		return tooLarge(limit)
	}
	b.size = r.ContentLength
	src := &counted{x: x, src: r.Body, limit: limit}
	if b.size <= smallBody {
		b.buf = bodies.Get().(*[]byte)
		b.kept = (*b.buf)[:0]
	} else {
		b.kept = make([]byte, 0, min(b.size, keepBody))
	}
	for {
		if b.size >= 0 && int64(len(b.kept)) == b.size {
			// The end is read too, for then net/http watches for the client to leave.
			if n, err := src.Read(src.one[:]); n != 0 || !errors.Is(err, io.EOF) {
				return asClientEnd(errors.Join(err, errors.New("the body is longer than its length")))
			}
			return nil
		}
		if len(b.kept) == cap(b.kept) {
			if len(b.kept) >= keepBody {
				b.rest = src
				if c, ok := x.ctl.(byNetHTTP); ok {
					_ = c.EnableFullDuplex() // or net/http drops the rest where the upstream answers first
				}
				return nil
			}
			grown := make([]byte, len(b.kept), min(2*cap(b.kept), keepBody))
			copy(grown, b.kept)
			b.drop(true)
			b.kept = grown
		}
		n, err := src.Read(b.kept[len(b.kept):cap(b.kept)])
		b.kept = b.kept[:len(b.kept)+n]
		if errors.Is(err, io.EOF) {
			b.size = int64(len(b.kept))
			return nil
		}
		if err != nil {
			return asClientEnd(err)
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
	src   io.Reader
	limit int64
	one   [1]byte
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	received := c.x.received.Add(int64(n))
	c.x.touch()
	if c.limit > 0 && received > c.limit {
		return n, tooLarge(c.limit)
	}
	return n, err
}

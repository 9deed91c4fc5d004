package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// firstRead is the room made for a body before it comes, at most: the length that a
// client announces is not believed beyond.
const firstRead = 1 << 20

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
	if err != nil {
		return &end{status: ClientDisconnect, code: http.StatusBadRequest, kind: "body_unreadable", err: err}
	}
	return nil
}

func tooLarge(limit int64) *end {
	return &end{
		status: Rejected, code: http.StatusRequestEntityTooLarge, kind: "body_too_large",
		err: errors.New("the body is longer than " + bytesText(limit)),
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
	c.x.touch()
	return n, err
}

// sending is a body on its way to one upstream. The transport closes it once it is
// sent, which lets go of it: an answer may take long.
type sending struct {
	mu    sync.Mutex
	rest  []byte
	begun bool
}

// Read implements io.Reader.
func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *sending) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = nil
	return nil
}

// untouched reports whether nothing was read of it.
func (s *sending) untouched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.begun
}

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// net/http's server keeps 10 KiB of buffers and two goroutines for each open
// request, and starts one of them anew for each. The lean server serves what
// nearly all clients send, a plain HTTP/1.1 request whose body has a length, with
// one goroutine for each connection and no buffer while nothing moves. It reads
// nothing that it is not sure of: where a head is not plain, the connection goes
// to net/http with every byte that was read of the request, and stays there.
type lean struct {
	handler http.Handler
	maxBody int64         // of a request that is served here
	patient time.Duration // how long a client may take for the end of an answer; 0 for any time
	watch   *watcher
	strange chan net.Conn // for net/http
	closed  chan struct{} // net/http takes no more
	once    sync.Once
	wg      sync.WaitGroup

	mu       sync.Mutex
	conns    map[*leanConn]struct{}
	draining bool
}

const (
	leanReader = 4 << 10  // a head must fit
	leanWriter = 16 << 10 // what is written at once
	// discard is how much of a body that the handler did not read is read for the
	// next request to come on the same connection.
	discard = 256 << 10
	// linger is how long a client has to read an answer to a request that it is
	// still sending, before a reset takes it away.
	linger = 500 * time.Millisecond
)

// newLean returns nil where the system cannot say that a client has left without
// a goroutine that waits for it.
func newLean(h http.Handler, maxBody int64, patient time.Duration) *lean {
	w, err := newWatcher()
	if err != nil {
		return nil
	}
	if maxBody <= 0 || maxBody > keepBody {
		maxBody = keepBody
	}
	return &lean{
		handler: h, maxBody: maxBody, patient: patient, watch: w,
		strange: make(chan net.Conn), closed: make(chan struct{}), conns: map[*leanConn]struct{}{},
	}
}

// serve takes connections until the listener is closed.
func (s *lean) serve(l net.Listener) error {
	wait := time.Duration(0)
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			wait = 0
			tc, ok := c.(*net.TCPConn)
			if !ok {
				s.pass(c)
				continue
			}
			lc := &leanConn{s: s, c: tc}
			s.mu.Lock()
			s.conns[lc] = struct{}{}
			s.mu.Unlock()
			s.wg.Go(lc.serve)
		case errors.Is(err, net.ErrClosed):
			return http.ErrServerClosed
		default: // such as too many open files, which may pass
			var temporary interface{ Temporary() bool }
			if !errors.As(err, &temporary) || !temporary.Temporary() {
				return err
			}
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			time.Sleep(wait)
		}
	}
}

// pass gives a connection to net/http.
func (s *lean) pass(c net.Conn) {
	select {
	case s.strange <- c:
	case <-s.closed:
		c.Close()
	}
}

// drain ends the idle connections, and the others after their answers, and waits
// for them until ctx ends.
func (s *lean) drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	for c := range s.conns {
		if !c.busy {
			_ = c.c.SetReadDeadline(time.Unix(1, 0))
		}
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		left := len(s.conns)
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// stop closes every connection and waits for the goroutines.
func (s *lean) stop() {
	s.once.Do(func() { close(s.closed) })
	s.mu.Lock()
	s.draining = true
	for c := range s.conns {
		c.left() // the kernel does not tell of one's own close
		c.c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.watch.close()
}

// strangers is the listener from which net/http takes what the lean server does
// not serve.
type strangers struct {
	net.Listener
	s *lean
}

func (l *strangers) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.strange:
		return c, nil
	case <-l.s.closed:
		return nil, net.ErrClosed
	}
}

func (l *strangers) Close() error {
	l.s.once.Do(func() { close(l.s.closed) })
	return l.Listener.Close()
}

// begun is a connection of which something was read.
type begun struct {
	net.Conn
	read []byte
}

// CloseWrite lets net/http answer a client that is still sending.
func (c *begun) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

func (c *begun) Read(p []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(p, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// leanConn is a connection of a client. Its goroutine owns it.
type leanConn struct {
	s      *lean
	c      *net.TCPConn
	remote string
	in     *bufio.Reader // nil while nothing is read
	id     uint64        // to the watcher; 0 for not watched
	busy   bool          // serves a request; guarded by the server's mu

	mu     sync.Mutex
	gone   bool // the client has left
	cancel context.CancelFunc
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, leanReader) }}

// release gives the reader back while nothing is in it.
func (c *leanConn) release() {
	if c.in != nil && c.in.Buffered() == 0 {
		c.in.Reset(nil)
		readers.Put(c.in)
		c.in = nil
	}
}

func (c *leanConn) serve() {
	c.remote = c.c.RemoteAddr().String()
	keep := false
	defer func() {
		c.s.watch.forget(c)
		c.s.mu.Lock()
		delete(c.s.conns, c)
		c.s.mu.Unlock()
		if !keep {
			c.c.Close()
		}
	}()
	patience := readHeader // of the first request
	for c.await(patience) {
		patience = idleClient
		head, ok := c.head()
		if !ok {
			read, _ := c.in.Peek(c.in.Buffered())
			keep = true
			_ = c.c.SetReadDeadline(time.Time{})
			rest := &begun{c.c, append([]byte(nil), read...)}
			c.in.Reset(nil)
			readers.Put(c.in)
			c.s.watch.forget(c)
			c.s.pass(rest)
			return
		}
		if !c.exchange(head) {
			return
		}
	}
}

// await waits for the first bytes of a request.
func (c *leanConn) await(patience time.Duration) bool {
	c.s.mu.Lock()
	c.busy = false
	end := c.s.draining
	if !end {
		_ = c.c.SetReadDeadline(time.Now().Add(patience))
	}
	c.s.mu.Unlock()
	if end {
		return false
	}
	if c.in == nil {
		c.in = readers.Get().(*bufio.Reader)
		c.in.Reset(c.c)
	}
	if _, err := c.in.Peek(1); err != nil {
		c.release()
		return false
	}
	c.s.mu.Lock()
	c.busy = true
	c.s.mu.Unlock()
	return true
}

// plain is what the lean server needs to know of a head before it reads it.
type plain struct {
	size  int64
	close bool
}

// head reports whether what has arrived begins with the whole head of a plain
// request. It is stricter than HTTP: what it refuses another server looks at.
func (c *leanConn) head() (plain, bool) {
	b, _ := c.in.Peek(c.in.Buffered())
	return plainHead(b, c.s.maxBody)
}

func plainHead(b []byte, maxBody int64) (p plain, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return p, false
	}
	first, fields, _ := strings.Cut(string(b[:end]), "\r\n")
	method, rest, _ := strings.Cut(first, " ")
	target, version, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" || method != http.MethodPost && method != http.MethodGet || !strings.HasPrefix(target, "/") {
		return p, false
	}
	for _, ch := range []byte(target) {
		if ch <= ' ' || ch >= 0x7f {
			return p, false
		}
	}
	hosts, lengths := 0, 0
	for line := range strings.SplitSeq(fields, "\r\n") {
		name, value, found := strings.Cut(line, ":")
		if !found || !token(name) {
			return p, false
		}
		for _, ch := range []byte(value) {
			if ch < ' ' && ch != '\t' || ch == 0x7f {
				return p, false
			}
		}
		value = strings.Trim(value, " \t")
		switch len(name) {
		case len("host"), len("expect"), len("upgrade"), len("connection"), len("content-length"), len("transfer-encoding"), len("proxy-connection"):
		default: // none of those below
			continue
		}
		switch strings.ToLower(name) {
		case "expect", "upgrade", "trailer", "transfer-encoding", "http2-settings", "proxy-connection":
			return p, false
		case "host":
			hosts++
			if !made(value, &hostBytes) {
				return p, false
			}
		case "connection":
			switch {
			case strings.EqualFold(value, "close"):
				p.close = true
			case !strings.EqualFold(value, "keep-alive"):
				return p, false
			}
		case "content-length":
			lengths++
			if len(value) == 0 || len(value) > 18 || !made(value, &digits) {
				return p, false
			}
			p.size, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return p, hosts == 1 && lengths <= 1 && p.size <= maxBody
}

// exchange serves one request, and reports whether another may follow.
func (c *leanConn) exchange(p plain) (again bool) {
	r, err := http.ReadRequest(c.in)
	if err != nil { // its URL, perhaps
		_, _ = io.WriteString(c.c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request")
		return false
	}
	_ = c.c.SetReadDeadline(time.Time{})
	if c.id == 0 && !c.s.watch.add(c) {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	c.cancel = cancel
	if c.gone {
		cancel()
	}
	c.mu.Unlock()
	r.RemoteAddr = c.remote
	w := &leanAnswer{conn: c, header: make(http.Header, 8), close: p.close, size: -1}
	body := &leanBody{src: r.Body, whole: p.size == 0}
	r.Body, w.body = body, body
	whole := c.handle(w, r.WithContext(ctx))
	c.mu.Lock()
	c.cancel = nil
	gone := c.gone
	c.mu.Unlock()
	cancel()
	if !whole || gone {
		w.drop()
		return false
	}
	if c.s.patient > 0 { // the handler's own limits have ended with it
		_ = c.c.SetWriteDeadline(time.Now().Add(c.s.patient))
	}
	if w.end() != nil {
		return false
	}
	if c.s.patient > 0 {
		_ = c.c.SetWriteDeadline(time.Time{})
	}
	if !c.finishBody(body) {
		return false
	}
	return !w.close
}

// handle runs the handler, and reports whether it came to its end.
func (c *leanConn) handle(w *leanAnswer, r *http.Request) (whole bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the value itself
			panic(p)
		}
	}()
	c.s.handler.ServeHTTP(w, r)
	return true
}

// finishBody reads what the handler left of the request.
func (c *leanConn) finishBody(body *leanBody) bool {
	if body.whole {
		return true
	}
	_ = c.c.SetReadDeadline(time.Now().Add(linger))
	n, err := io.CopyN(io.Discard, body, discard)
	if errors.Is(err, io.EOF) {
		return true
	}
	if err == nil && n == discard {
		_ = c.c.CloseWrite()
		_, _ = io.Copy(io.Discard, c.c)
	}
	return false
}

// leanBody is the body of a request.
type leanBody struct {
	src   io.ReadCloser
	whole bool // it was read to its end
}

func (b *leanBody) Read(p []byte) (int, error) {
	if b.whole {
		return 0, io.EOF
	}
	n, err := b.src.Read(p)
	b.whole = errors.Is(err, io.EOF)
	return n, err
}

func (b *leanBody) Close() error { return b.src.Close() }

// left is told by the watcher that the client has closed its side.
func (c *leanConn) left() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.cancel != nil {
		c.cancel()
	}
}

// leanAnswer is the http.ResponseWriter of the lean server. It holds a buffer
// only between a write and the next flush.
type leanAnswer struct {
	conn    *leanConn
	body    *leanBody // of the request
	header  http.Header
	out     *[]byte
	size    int64 // that the head tells; -1 for chunks
	written int64
	headed  bool
	bare    bool // an answer without a body
	close   bool // the connection ends with this answer
}

var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, leanWriter); return &b }}

// Header implements http.ResponseWriter.
func (w *leanAnswer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *leanAnswer) WriteHeader(code int) {
	if w.headed {
		return
	}
	w.headed = true
	h := w.header
	w.header = nil
	out := w.buffer()
	out = strconv.AppendInt(append(out, "HTTP/1.1 "...), int64(code), 10)
	out = append(append(append(out, ' '), http.StatusText(code)...), "\r\n"...)
	w.bare = code == http.StatusNoContent || code == http.StatusNotModified
	for name, values := range h {
		if !token(name) {
			continue
		}
		for _, v := range values {
			switch name {
			case "Content-Length":
				n, err := strconv.ParseInt(v, 10, 64)
				if err != nil || n < 0 || w.size >= 0 {
					continue
				}
				w.size = n
			case "Connection":
				w.close = w.close || v == "close"
				continue
			}
			out = append(append(append(append(out, name...), ": "...), oneLine.Replace(v)...), "\r\n"...)
		}
	}
	if _, told := h["Date"]; !told {
		out = time.Now().UTC().AppendFormat(append(out, "Date: "...), http.TimeFormat)
		out = append(out, "\r\n"...)
	}
	if w.close {
		out = append(out, "Connection: close\r\n"...)
	}
	if w.size < 0 && !w.bare {
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	*w.out = append(out, "\r\n"...)
	if w.body.whole {
		w.conn.release()
	}
}

// oneLine keeps a header's value from ending its line.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

func (w *leanAnswer) buffer() []byte {
	if w.out == nil {
		w.out = writeBuffers.Get().(*[]byte)
	}
	return *w.out
}

// drop gives the buffer back.
func (w *leanAnswer) drop() {
	if w.out != nil {
		if *w.out = (*w.out)[:0]; cap(*w.out) <= 4*leanWriter {
			writeBuffers.Put(w.out)
		}
		w.out = nil
	}
}

// Write implements http.ResponseWriter.
func (w *leanAnswer) Write(p []byte) (int, error) {
	if !w.headed {
		w.WriteHeader(http.StatusOK)
	}
	if w.bare {
		return 0, http.ErrBodyNotAllowed
	}
	if len(p) == 0 {
		return 0, nil
	}
	w.written += int64(len(p))
	out := w.buffer()
	if w.size < 0 {
		out = append(strconv.AppendInt(out, int64(len(p)), 16), "\r\n"...)
		out = append(append(out, p...), "\r\n"...)
	} else {
		if w.written > w.size {
			return 0, http.ErrContentLength
		}
		out = append(out, p...)
	}
	*w.out = out
	if len(out) >= leanWriter {
		if err := w.FlushError(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// FlushError is what http.ResponseController calls.
func (w *leanAnswer) FlushError() error {
	if !w.headed {
		w.WriteHeader(http.StatusOK)
	}
	if w.out == nil {
		return nil
	}
	_, err := w.conn.c.Write(*w.out)
	w.drop()
	return err
}

// SetReadDeadline is what http.ResponseController calls.
func (w *leanAnswer) SetReadDeadline(t time.Time) error { return w.conn.c.SetReadDeadline(t) }

// SetWriteDeadline is what http.ResponseController calls. The answer is the
// connection's last.
func (w *leanAnswer) SetWriteDeadline(t time.Time) error { return w.conn.c.SetWriteDeadline(t) }

// end completes the answer.
func (w *leanAnswer) end() error {
	switch {
	case !w.headed:
		w.header.Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	case w.bare:
	case w.size < 0:
		*w.out = append(w.buffer(), "0\r\n\r\n"...)
	case w.written != w.size:
		_ = w.FlushError()
		return io.ErrUnexpectedEOF
	}
	return w.FlushError()
}

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/load/wire"
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
	ended   chan struct{} // neither does this server
	once    sync.Once
	wg      sync.WaitGroup

	clock    wire.Clock
	draining atomic.Bool

	mu    sync.Mutex
	conns map[*leanConn]struct{}
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
func newLean(h http.Handler, clock wire.Clock, maxBody int64, patient time.Duration) *lean {
	w, err := newWatcher()
	if err != nil {
		return nil
	}
	if maxBody <= 0 || maxBody > keepBody {
		maxBody = keepBody
	}
	return &lean{
		handler: h, clock: clock, maxBody: maxBody, patient: patient, watch: w,
		strange: make(chan net.Conn), closed: make(chan struct{}), ended: make(chan struct{}), conns: map[*leanConn]struct{}{},
	}
}

// serve takes connections until the listener is closed.
func (s *lean) serve(l net.Listener) error {
	s.wg.Go(s.sweep)
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

// each calls fn for every connection. fn must be quick.
func (s *lean) each(fn func(*leanConn)) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		fn(c)
	}
	return len(s.conns)
}

// sweep ends the connections whose client takes too long, until the server is
// stopped. Limits are looked at here and not by timers, which cost a quarter of a
// short request.
func (s *lean) sweep() {
	t := time.NewTicker(time.Second / 4)
	defer t.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-t.C:
			now := s.clock.Now()
			s.each(func(c *leanConn) {
				if until := c.until.Load(); until > 0 && until < now {
					c.expire(until)
				}
			})
		}
	}
}

// drain ends the idle connections, and the others after their answers, and waits
// for them until ctx ends.
func (s *lean) drain(ctx context.Context) error {
	s.draining.Store(true)
	idle := func(c *leanConn) {
		if until := c.until.Load(); until > 0 && until&1 == idleBit {
			c.expire(until)
		}
	}
	for s.each(idle) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// stop closes every connection and waits for the goroutines.
func (s *lean) stop() {
	s.once.Do(func() { close(s.closed) })
	close(s.ended)
	s.draining.Store(true)
	s.each(func(c *leanConn) {
		c.left() // the kernel does not tell of one's own close
		c.c.Close()
	})
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

	// until is when the client has taken too long for what it is to do now, by the
	// server's clock: send a request (the lowest bit is then idleBit) or read the end
	// of an answer; 0 for nothing, and expired once the sweep has ended the wait.
	until atomic.Int64

	// Of the request that is served. They are used again by the next one.
	r      http.Request
	url    url.URL
	header http.Header
	values []string
	body   leanBody
	answer leanAnswer

	mu     sync.Mutex
	gone   bool   // the client has left
	leaves leaver // told of it
}

const (
	idleBit = 1
	expired = -1
)

// A leaver is told that its client has left.
type leaver interface{ clientLeft() }

// expire ends a wait, unless it has ended.
func (c *leanConn) expire(until int64) {
	if c.until.CompareAndSwap(until, expired) {
		_ = c.c.SetDeadline(time.Unix(1, 0))
	}
}

// within begins a wait.
func (c *leanConn) within(d time.Duration, bit int64) {
	c.until.Store((c.s.clock.Now()+int64(d))&^idleBit | bit)
}

// waited ends a wait, and reports whether it was in time.
func (c *leanConn) waited() bool { return c.until.Swap(0) != expired }

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
		p, ok := c.head()
		if !ok {
			read, _ := c.in.Peek(c.in.Buffered())
			keep = true
			rest := &begun{c.c, append([]byte(nil), read...)}
			c.in.Reset(nil)
			readers.Put(c.in)
			c.s.watch.forget(c)
			c.s.pass(rest)
			return
		}
		if !c.exchange(p) {
			return
		}
	}
}

// await waits for the first bytes of a request.
func (c *leanConn) await(patience time.Duration) bool {
	c.within(patience, idleBit)
	if c.s.draining.Load() {
		return false
	}
	if c.in == nil {
		c.in = readers.Get().(*bufio.Reader)
		c.in.Reset(c.c)
	}
	if _, err := c.in.Peek(1); err != nil || !c.waited() {
		c.release()
		return false
	}
	return true
}

// plain is the head of a request that is served here.
type plain struct {
	method, target, host string
	size                 int64
	length               int // of the head, with the empty line
	close                bool
}

// head reads what has arrived, if it begins with the whole head of a plain request.
func (c *leanConn) head() (plain, bool) {
	b, _ := c.in.Peek(c.in.Buffered())
	if c.header == nil {
		c.header = make(http.Header, 8)
	}
	c.values = c.values[:0]
	p, ok := plainHead(b, c.s.maxBody, c.keep)
	if !ok {
		clear(c.header)
	}
	return p, ok
}

// keep notes a header of the request.
func (c *leanConn) keep(name, value string) {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if more, again := c.header[name]; again {
		c.header[name] = append(more, value)
		return
	}
	c.values = append(c.values, value)
	n := len(c.values)
	c.header[name] = c.values[n-1 : n : n]
}

// plainHead reads the head of a plain request, and gives its headers but Host to
// header. It is stricter than HTTP: what it refuses another server looks at, and of
// what it takes there is one reading only.
func plainHead(b []byte, maxBody int64, header func(name, value string)) (p plain, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return p, false
	}
	p.length = end + 4
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
	p.method, p.target = method, target
	hosts, lengths := 0, 0
	for fields != "" {
		var line string
		line, fields, _ = strings.Cut(fields, "\r\n")
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
		switch {
		case strings.EqualFold(name, "host"):
			hosts++
			if !made(value, &hostBytes) {
				return p, false
			}
			p.host = value
			continue
		case strings.EqualFold(name, "connection"):
			switch {
			case strings.EqualFold(value, "close"):
				p.close = true
			case !strings.EqualFold(value, "keep-alive"):
				return p, false
			}
		case strings.EqualFold(name, "content-length"):
			lengths++
			if len(value) == 0 || len(value) > 18 || !made(value, &digits) {
				return p, false
			}
			p.size, _ = strconv.ParseInt(value, 10, 64)
		case isHop(name):
			return p, false
		}
		header(name, value)
	}
	return p, hosts == 1 && lengths <= 1 && p.size <= maxBody
}

// request makes the request of its head.
func (c *leanConn) request(p plain) (*http.Request, error) {
	c.url = url.URL{Path: p.target}
	if !made(p.target, &pathBytes) {
		u, err := url.ParseRequestURI(p.target)
		if err != nil {
			return nil, err
		}
		c.url = *u
	}
	_, _ = c.in.Discard(p.length)
	c.body = leanBody{in: c.in, left: p.size}
	c.r = http.Request{
		Method: p.method, URL: &c.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: c.header, Body: &c.body, ContentLength: p.size,
		Host: p.host, RemoteAddr: c.remote, RequestURI: p.target, Close: p.close,
	}
	return &c.r, nil
}

// forget lets go of the request, once the answer has begun: a stream may be open
// for long.
func (c *leanConn) forget() {
	clear(c.header)
	clear(c.values)
	c.r, c.url = http.Request{}, url.URL{}
}

// exchange serves one request, and reports whether another may follow.
func (c *leanConn) exchange(p plain) (again bool) {
	r, err := c.request(p)
	if err != nil { // its URL
		_, _ = io.WriteString(c.c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request")
		return false
	}
	if c.id == 0 && !c.s.watch.add(c) {
		return false
	}
	w := &c.answer
	*w = leanAnswer{conn: c, close: p.close, size: -1}
	whole := c.handle(w, r)
	c.forget()
	if !whole || c.hasLeft() {
		w.drop()
		return false
	}
	if c.s.patient > 0 { // the handler's own limits have ended with it
		c.within(c.s.patient, 0)
	}
	if w.end() != nil || !c.waited() || !c.finishBody() {
		return false
	}
	return !w.close && !w.limited.Load()
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
func (c *leanConn) finishBody() bool {
	if c.body.left == 0 {
		return true
	}
	_ = c.c.SetReadDeadline(time.Now().Add(linger))
	n, err := io.CopyN(io.Discard, &c.body, discard)
	if errors.Is(err, io.EOF) {
		return c.c.SetReadDeadline(time.Time{}) == nil
	}
	if err == nil && n == discard {
		_ = c.c.CloseWrite()
		_, _ = io.Copy(io.Discard, c.c)
	}
	return false
}

// leanBody is the body of a request, whose length is known.
type leanBody struct {
	in   *bufio.Reader
	left int64
}

func (b *leanBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *leanBody) Close() error { return nil }

// left is told by the watcher that the client has closed its side.
func (c *leanConn) left() {
	c.mu.Lock()
	c.gone = true
	l := c.leaves
	c.mu.Unlock()
	if l != nil {
		l.clientLeft()
	}
}

func (c *leanConn) hasLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// tell sets who is told that the client leaves, at once if it has left; nil for nobody.
func (c *leanConn) tell(l leaver) {
	c.mu.Lock()
	c.leaves = l
	gone := c.gone
	c.mu.Unlock()
	if gone && l != nil {
		l.clientLeft()
	}
}

// leanAnswer is the http.ResponseWriter of the lean server. It holds a buffer
// only between a write and the next flush.
type leanAnswer struct {
	conn    *leanConn
	header  http.Header
	fields  []field // of the head, before header's
	out     *[]byte
	size    int64 // that the head tells; -1 for chunks
	written int64
	headed  bool
	bare    bool        // an answer without a body
	close   bool        // the connection ends with this answer
	limited atomic.Bool // a deadline was set, so the connection ends too
}

var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, leanWriter); return &b }}

// Header implements http.ResponseWriter.
func (w *leanAnswer) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *leanAnswer) WriteHeader(code int) {
	if w.headed {
		return
	}
	w.headed = true
	out := w.buffer()
	out = strconv.AppendInt(append(out, "HTTP/1.1 "...), int64(code), 10)
	out = append(append(append(out, ' '), http.StatusText(code)...), "\r\n"...)
	w.bare = code == http.StatusNoContent || code == http.StatusNotModified
	dated := false
	for _, f := range w.fields {
		dated = dated || strings.EqualFold(f.name, "date")
		out = w.field(out, f.name, f.value)
	}
	for name, values := range w.header {
		dated = dated || name == "Date"
		for _, v := range values {
			out = w.field(out, name, v)
		}
	}
	w.header, w.fields = nil, nil
	if !dated {
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
	if w.conn.body.left == 0 {
		w.conn.release()
	}
}

// field appends a line of the head.
func (w *leanAnswer) field(out []byte, name, value string) []byte {
	switch {
	case !token(name):
		return out
	case strings.EqualFold(name, "content-length"):
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || w.size >= 0 {
			return out
		}
		w.size = n
	case strings.EqualFold(name, "connection"):
		w.close = w.close || value == "close"
		return out
	}
	if strings.ContainsAny(value, "\r\n") {
		value = oneLine.Replace(value)
	}
	return append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
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

// SetReadDeadline is what http.ResponseController calls. The answer is the
// connection's last.
func (w *leanAnswer) SetReadDeadline(t time.Time) error {
	w.limited.Store(true)
	return w.conn.c.SetReadDeadline(t)
}

// SetWriteDeadline is the same of writing.
func (w *leanAnswer) SetWriteDeadline(t time.Time) error {
	w.limited.Store(true)
	return w.conn.c.SetWriteDeadline(t)
}

// end completes the answer.
func (w *leanAnswer) end() error {
	switch {
	case !w.headed:
		w.Header().Set("Content-Length", "0")
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

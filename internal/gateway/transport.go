package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/load/wire"
)

// answer is the head of an upstream's answer, and the way to its body.
type answer struct {
	status  int
	fields  fields
	chunked bool // its length is that of its chunks, whatever the head says
	from    source
}

// source is where the body of an answer comes from.
type source interface {
	pump(to wire.Flusher) error // gives the body's pieces to a sink
	at() int64                  // when the last piece arrived
	done(clean bool)            // must be called once; clean says that the body was read to its end
}

// field is a line of a head.
type field struct{ name, value string }

type fields []field

// get returns the first value of a header, or nothing.
func (f fields) get(name string) string {
	for _, x := range f {
		if strings.EqualFold(x.name, name) {
			return x.value
		}
	}
	return ""
}

// all returns the values of a header.
func (f fields) all(name string) (values []string) {
	for _, x := range f {
		if strings.EqualFold(x.name, name) {
			values = append(values, x.value)
		}
	}
	return values
}

// attemptError is an attempt without an answer.
type attemptError struct {
	error
	untouched bool // the upstream cannot have begun to work on the request
}

func (e *attemptError) Unwrap() error { return e.error }

// ask sends the request to an upstream and waits for the head of the answer.
func (x *exchange) ask(u *upstream) (*answer, error) {
	if u.dialer == nil {
		return x.askTLS(u)
	}
	x.enter(connecting)
	conn := u.take(x.g.clock.Now())
	if conn == nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if err := x.whenHalted(halting(cancel)); err != nil {
			return nil, err
		}
		var err error
		if conn, err = u.dialer.Dial(ctx); err != nil {
			if ctx.Err() == nil {
				x.g.setDown(u, true, rootCause(err))
			}
			return nil, &attemptError{err, true}
		}
		conn.Lean()
	}
	if err := x.whenHalted(conn); err != nil {
		conn.Close()
		return nil, err
	}
	a, err := x.over(u, conn)
	if err != nil {
		_ = x.whenHalted(nil)
		conn.Close()
	}
	return a, err
}

// heads are the buffers that the heads of requests are composed in, and those of
// answers are read into.
var heads = sync.Pool{New: func() any { return new(head) }}

// head takes the lines of an answer's head.
type head struct {
	buf  []byte
	ends []int // of a name, of its value, and so on
	all  fields
}

// TakeHeader implements wire.HeaderTaker.
func (h *head) TakeHeader(name, value []byte) {
	h.buf = append(h.buf, name...)
	h.ends = append(h.ends, len(h.buf))
	h.buf = append(h.buf, value...)
	h.ends = append(h.ends, len(h.buf))
}

// fields returns the lines, which are valid until the head is used again.
func (h *head) fields() fields {
	text, from := string(h.buf), 0
	h.all = h.all[:0]
	for i := 0; i < len(h.ends); i += 2 {
		h.all = append(h.all, field{text[from:h.ends[i]], text[h.ends[i]:h.ends[i+1]]})
		from = h.ends[i+1]
	}
	return h.all
}

// plainAnswer is an answer over HTTP/1.1 in cleartext.
type plainAnswer struct {
	answer
	x       *exchange
	u       *upstream
	conn    *wire.Conn
	written bool // the whole request was
}

func (a *plainAnswer) pump(to wire.Flusher) error { return a.conn.Stream(to) }

func (a *plainAnswer) at() int64 { return a.conn.ReadAt() }

func (a *plainAnswer) done(clean bool) {
	// A client that left with the last byte may have interrupted it: from here on
	// nobody can, and Reusable tells.
	_ = a.x.whenHalted(nil)
	if clean && a.written && a.conn.Reusable() {
		a.conn.Lean() // gives the buffer back
		a.u.put(a.conn)
	} else {
		a.conn.Close()
	}
}

// over sends the request over a connection.
func (x *exchange) over(u *upstream, conn *wire.Conn) (*answer, error) {
	b := &x.body
	h := heads.Get().(*head)
	out := x.compose(h.buf[:0], u, b)
	rest := b.kept
	if len(rest) <= 16<<10 {
		out, rest = append(out, frame(rest, b)...), nil
	}
	h.buf, h.ends = out[:0], h.ends[:0]
	x.sent = x.g.clock.Now()
	err := conn.Send(out)
	if err == nil && rest != nil {
		_, err = conn.Write(frame(rest, b))
	}
	if err == nil && b.rest != nil {
		b.spent.Store(true)
		err = pass(conn, b)
	}
	var client *end
	if err != nil && errors.As(err, &client) {
		return nil, err
	}
	written := err == nil
	x.enter(waiting)
	conn.Header, conn.Bodyless = h, x.method == http.MethodHead
	var resp wire.Response
	// A server may answer before it has read the body, and then close.
	if headErr := conn.ReadHead(&resp); headErr != nil {
		if err == nil {
			err = headErr
		}
		return nil, &attemptError{err, !written && !b.spent.Load()}
	}
	conn.Header = nil
	x.plain = plainAnswer{answer{resp.Status, h.fields(), conn.Chunked(), &x.plain}, x, u, conn, written}
	x.lines = h
	return &x.plain.answer, nil
}

// pass sends the part of a body that was not kept.
func pass(conn *wire.Conn, b *body) error {
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := b.rest.Read(buf[:])
		if n > 0 {
			if _, err := conn.Write(frame(buf[:n], b)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			if b.size < 0 {
				_, err := conn.Write([]byte("0\r\n\r\n"))
				return err
			}
			return nil
		}
		if err != nil {
			return asClientEnd(err)
		}
	}
}

// frame wraps a piece of a body as a chunk where its length is not known.
func frame(p []byte, b *body) []byte {
	if b.size >= 0 || len(p) == 0 {
		return p
	}
	out := strconv.AppendInt(make([]byte, 0, len(p)+12), int64(len(p)), 16)
	out = append(append(append(out, "\r\n"...), p...), "\r\n"...)
	return out
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// hop lists the headers of one connection, which are not passed on (RFC 9110,
// section 7.6.1), beside those that Connection names.
var hop = [...]string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Proxy-Authorization",
	"Proxy-Authenticate", "Expect", "HTTP2-Settings",
}

func isHop(name string) bool {
	for _, h := range hop {
		if len(h) == len(name) && strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// names reports whether a Connection header names another one.
func names(connection []string, name string) bool {
	for _, v := range connection {
		for named := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(named), name) {
				return true
			}
		}
	}
	return false
}

// requestHeader calls add for every header that the upstream gets.
func (x *exchange) requestHeader(add func(name, value string)) {
	h := x.r.Header
	connection, forwarded := h["Connection"], false
	for name, values := range h {
		switch name {
		case "Content-Length", "Host":
			continue
		case "X-Request-Id":
			if x.ours {
				continue // an empty one
			}
		case "X-Forwarded-For":
			add(name, strings.Join(append(values, x.client), ", "))
			forwarded = true
			continue
		case "Traceparent", "Tracestate":
			if x.span != nil {
				continue // replaced below
			}
		}
		if isHop(name) || names(connection, name) {
			continue
		}
		for _, v := range values {
			add(name, v)
		}
	}
	if !forwarded {
		add("X-Forwarded-For", x.client)
	}
	if h.Get("X-Forwarded-Host") == "" {
		add("X-Forwarded-Host", x.r.Host)
	}
	if h.Get("X-Forwarded-Proto") == "" {
		proto := "http"
		if x.r.TLS != nil {
			proto = "https"
		}
		add("X-Forwarded-Proto", proto)
	}
	if x.ours {
		add("X-Request-Id", x.id)
	}
	x.traceHeader(add)
}

// path is what the upstream is asked for.
func (x *exchange) path(u *upstream) string {
	p := x.r.URL.EscapedPath()
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // "OPTIONS *"
	}
	p = u.base + p
	if x.r.URL.RawQuery != "" || x.r.URL.ForceQuery {
		p += "?" + strings.ReplaceAll(x.r.URL.RawQuery, " ", "%20")
	}
	return p
}

// compose appends the head of the request.
func (x *exchange) compose(out []byte, u *upstream, b *body) []byte {
	out = append(out, x.method...)
	out = append(append(append(out, ' '), x.path(u)...), " HTTP/1.1\r\nHost: "...)
	out = append(append(out, u.url.Host...), "\r\n"...)
	x.requestHeader(func(name, value string) {
		out = append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
	})
	switch {
	case b.size < 0:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case b.size > 0 || len(x.r.Header["Content-Length"]) > 0 || x.method == http.MethodPost || x.method == http.MethodPut:
		out = strconv.AppendInt(append(out, "Content-Length: "...), b.size, 10)
		out = append(out, "\r\n"...)
	}
	return append(out, "\r\n"...)
}

// askTLS is ask over net/http, which speaks TLS and HTTP/2.
func (x *exchange) askTLS(u *upstream) (*answer, error) {
	x.enter(connecting)
	ctx, cancel := context.WithCancel(context.Background())
	x.lent = true
	if err := x.whenHalted(halting(cancel)); err != nil {
		cancel()
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, x.method, u.url.Scheme+"://"+u.url.Host+x.path(u), nil)
	if err != nil {
		cancel()
		return nil, &attemptError{err, true}
	}
	var read bytesReader
	if b := &x.body; b.size != 0 {
		read = bytesReader{p: b.kept, rest: b.rest, b: b}
		req.Body, req.ContentLength = io.NopCloser(&read), b.size
	}
	req.Header.Set("User-Agent", "") // only the client's own
	x.requestHeader(func(name, value string) {
		if name == "User-Agent" {
			req.Header.Set(name, value)
			return
		}
		req.Header[name] = append(req.Header[name], value)
	})
	x.sent = x.g.clock.Now()
	x.enter(waiting)
	resp, err := u.client.Do(req) //nolint:bodyclose // the answer reads it to its end and closes it
	if err != nil {
		cancel()
		_ = x.whenHalted(nil)
		return nil, &attemptError{err, dialing(err) || x.body.size != 0 && !read.used.Load()}
	}
	a := &netAnswer{x: x, resp: resp, cancel: cancel, read: x.g.clock.Now()}
	var all fields
	for name, values := range resp.Header {
		for _, v := range values {
			all = append(all, field{name, v})
		}
	}
	if resp.ContentLength > 0 && all.get("Content-Length") == "" {
		all = append(all, field{"Content-Length", strconv.FormatInt(resp.ContentLength, 10)})
	}
	return &answer{resp.StatusCode, all, false, a}, nil
}

// netAnswer is an answer that net/http reads.
type netAnswer struct {
	x      *exchange
	resp   *http.Response
	cancel context.CancelFunc
	read   int64 // when something was read last
}

func (a *netAnswer) at() int64 { return a.read }

func (a *netAnswer) pump(to wire.Flusher) error {
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := a.resp.Body.Read(buf[:])
		a.read = a.x.g.clock.Now()
		if n > 0 {
			if err := to.Data(buf[:n]); err != nil {
				return err
			}
			if err := to.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (a *netAnswer) done(bool) {
	_ = a.x.whenHalted(nil)
	a.resp.Body.Close()
	a.cancel()
}

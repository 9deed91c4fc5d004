package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/load/wire"
)

// answer is the head of an upstream's answer, and the way to its body.
type answer struct {
	status int
	header http.Header
	pump   func(wire.Flusher) error // gives the body's pieces to a sink
	at     func() int64             // when the last piece arrived
	done   func(clean bool)         // must be called once; clean says that the body was read to its end
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
		if err := x.whenHalted(cancel); err != nil {
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
	if err := x.whenHalted(conn.Interrupt); err != nil {
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

// heads are the buffers that requests are composed in.
var heads = sync.Pool{New: func() any { return new([]byte) }}

// over sends the request over a connection.
func (x *exchange) over(u *upstream, conn *wire.Conn) (*answer, error) {
	b := x.body
	buf := heads.Get().(*[]byte)
	defer heads.Put(buf)
	out := x.compose((*buf)[:0], u, b)
	rest := b.kept
	if len(rest) <= 16<<10 {
		out, rest = append(out, frame(rest, b)...), nil
	}
	*buf = out[:0]
	x.sent = x.g.clock.Now()
	err := conn.Send(out)
	if err == nil && rest != nil {
		_, err = conn.Write(frame(rest, b))
	}
	if err == nil && b.rest != nil {
		b.spent = true
		err = pass(conn, b)
	}
	var client *end
	if errors.As(err, &client) {
		return nil, err
	}
	written := err == nil
	x.enter(waiting)
	header := make(http.Header, 8)
	conn.Header = func(name, value []byte) {
		key := textproto.CanonicalMIMEHeaderKey(string(name))
		header[key] = append(header[key], string(value))
	}
	conn.Bodyless = x.method == http.MethodHead
	var resp wire.Response
	// A server may answer before it has read the body, and then close.
	if headErr := conn.ReadHead(&resp); headErr != nil {
		if err == nil {
			err = headErr
		}
		return nil, &attemptError{err, !written && !b.spent}
	}
	conn.Header = nil
	done := func(clean bool) {
		// A client that left with the last byte may have interrupted it: from here on
		// nobody can, and Reusable tells.
		_ = x.whenHalted(nil)
		if clean && written && conn.Reusable() {
			conn.Lean() // gives the buffer back
			u.put(conn)
		} else {
			conn.Close()
		}
	}
	return &answer{resp.Status, header, func(f wire.Flusher) error { return conn.Stream(f) }, conn.ReadAt, done}, nil
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
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Transfer-Encoding": true, "Te": true,
	"Trailer": true, "Upgrade": true, "Proxy-Authorization": true, "Proxy-Authenticate": true, "Expect": true, "Http2-Settings": true,
}

// passes reports whether a header is passed on.
func passes(name string, h http.Header) bool {
	if hop[name] {
		return false
	}
	for _, v := range h["Connection"] {
		for named := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(named), name) {
				return false
			}
		}
	}
	return true
}

// requestHeader calls add for every header that the upstream gets.
func (x *exchange) requestHeader(add func(name, value string)) {
	h := x.r.Header
	forwarded := false
	for name, values := range h {
		switch name {
		case "Content-Length", "Host":
			continue
		case "X-Request-Id":
			if x.ours {
				continue // an empty one
			}
		case "X-Forwarded-For":
			add(name, strings.Join(append(values, clientIP(x.r)), ", "))
			forwarded = true
			continue
		case "Traceparent", "Tracestate":
			if x.span != nil {
				continue // replaced below
			}
		}
		if !passes(name, h) {
			continue
		}
		for _, v := range values {
			add(name, v)
		}
	}
	if !forwarded {
		add("X-Forwarded-For", clientIP(x.r))
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
	if err := x.whenHalted(cancel); err != nil {
		cancel()
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, x.method, u.url.Scheme+"://"+u.url.Host+x.path(u), nil)
	if err != nil {
		cancel()
		return nil, &attemptError{err, true}
	}
	var read bytesReader
	if b := x.body; b.size != 0 {
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
	at := x.g.clock.Now()
	header := resp.Header
	if resp.ContentLength >= 0 && header.Get("Content-Length") == "" && resp.ContentLength > 0 {
		header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	pump := func(f wire.Flusher) error {
		buf := copyBuffers.Get().(*[32 << 10]byte)
		defer copyBuffers.Put(buf)
		for {
			n, err := resp.Body.Read(buf[:])
			at = x.g.clock.Now()
			if n > 0 {
				if err := f.Data(buf[:n]); err != nil {
					return err
				}
				if err := f.Flush(); err != nil {
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
	done := func(bool) {
		_ = x.whenHalted(nil)
		resp.Body.Close()
		cancel()
	}
	return &answer{resp.StatusCode, header, pump, func() int64 { return at }, done}, nil
}

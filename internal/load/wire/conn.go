package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// readBuffer holds one read. A decode step's event takes 200 to 400 bytes,
	// so it holds a dozen of them, and 10,000 connections take 40 MB.
	readBuffer = 4 << 10

	// maxHead bounds a response's status line and headers.
	maxHead = 64 << 10

	// maxInterim bounds the 1xx responses before the real one.
	maxInterim = 8
)

// Errors of a response that does not follow the protocol.
var (
	ErrMalformed = errors.New("malformed HTTP response")
	ErrTruncated = errors.New("response ended early")
)

// Clock counts nanoseconds since a moment, on the monotonic clock. All
// timestamps of a test come from one Clock.
type Clock struct{ epoch time.Time }

// NewClock returns a Clock that counts from epoch, which must come from
// time.Now so that it carries a monotonic reading.
func NewClock(epoch time.Time) Clock { return Clock{epoch} }

// Now returns the nanoseconds since the epoch.
func (c Clock) Now() int64 { return int64(time.Since(c.epoch)) }

// Epoch returns the moment from which the clock counts.
func (c Clock) Epoch() time.Time { return c.epoch }

// Dialer opens connections to one server.
type Dialer struct {
	addr    string
	tls     *tls.Config // nil without TLS
	clock   Clock
	timeout time.Duration
}

// NewDialer returns a Dialer for the host of u, whose scheme is http or https.
// The TLS configuration is used with https only and may be nil.
func NewDialer(u *url.URL, conf *tls.Config, clock Clock, timeout time.Duration) (*Dialer, error) {
	d := &Dialer{clock: clock, timeout: timeout}
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		if port == "" {
			port = "443"
		}
		d.tls = conf.Clone()
		if d.tls == nil {
			d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		d.tls.NextProtos = []string{"http/1.1"}
		if d.tls.ServerName == "" {
			d.tls.ServerName = u.Hostname()
		}
	default:
		return nil, fmt.Errorf("scheme %q of the target is not http or https", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("target %q names no host", u.Redacted())
	}
	d.addr = net.JoinHostPort(u.Hostname(), port)
	return d, nil
}

// SetClock makes later connections use another clock.
func (d *Dialer) SetClock(c Clock) { d.clock = c }

// Dial opens a connection, with TLS where the target wants it.
func (d *Dialer) Dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c := &Conn{clock: d.clock, buf: make([]byte, readBuffer), DialStart: d.clock.Now()}
	var nd net.Dialer
	nc, err := nd.DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.addr, err)
	}
	if s, ok := NewSocket(nc); ok {
		c.socket, nc = s, s
	}
	if d.tls != nil {
		tc := tls.Client(nc, d.tls)
		if err := tc.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, fmt.Errorf("TLS handshake with %s: %w", d.addr, err)
		}
		nc = tc
	}
	c.nc, c.DialEnd = nc, d.clock.Now()
	return c, nil
}

// Response is the head of a response.
type Response struct {
	Status      int
	EventStream bool // Content-Type is text/event-stream
}

// framing says how a body's end is known.
type framing uint8

const (
	framedByLength framing = iota
	framedByChunks
	framedByClose
)

// Conn is one connection. It is used by one goroutine at a time, for one
// request after another; only Interrupt and Close may come from others.
type Conn struct {
	DialStart, DialEnd int64 // connection set-up including TLS, by the Clock

	nc     net.Conn
	socket *Socket // below nc, where the kernel tells when data arrived; else nil
	clock  Clock
	buf    []byte
	r, w   int   // unread bytes are buf[r:w]
	readAt int64 // when what was read last had arrived

	body    framing
	left    int64 // bytes left of the body, or of the current chunk
	inChunk bool  // a chunk's head has been read
	trailer bool  // the last chunk's head has been read
	done    bool  // the body's end has been read
	close   bool  // the server will close the connection afterwards

	buffered    bool  // do not read: errMore is the answer when more is needed
	deadline    int64 // by the clock, 0 for none
	interrupted atomic.Bool
}

// errMore says that a step needs more than is buffered. Every step of reading a
// body can be tried again afterwards.
var errMore = errors.New("more data needed")

// A Sink takes the pieces of a body. An error of it ends the reading.
type Sink interface {
	Data(p []byte) error
}

// Rebase moves an idle connection to another clock, whose epoch is shift later.
func (c *Conn) Rebase(clock Clock, shift int64) {
	c.clock = clock
	c.DialStart -= shift
	c.DialEnd -= shift
	c.readAt = 0
}

// Lags returns how long data waited in the kernel; empty where it does not tell.
func (c *Conn) Lags() *Lags {
	if c.socket == nil {
		return &Lags{}
	}
	return &c.socket.lags
}

// ReadAt returns when the last returned bytes arrived: in the kernel, where it
// tells, else when the read that delivered them ended.
func (c *Conn) ReadAt() int64 { return c.readAt }

// Reusable reports whether another request may be sent: the response was read
// to its end, neither side asked to close, and nobody interrupted it.
func (c *Conn) Reusable() bool { return c.done && !c.close && c.r == c.w && !c.interrupted.Load() }

// SetDeadline bounds everything until the deadline, by the Clock; 0 removes it.
func (c *Conn) SetDeadline(at int64) error {
	c.deadline = at
	if at == 0 {
		return c.nc.SetDeadline(time.Time{})
	}
	return c.nc.SetDeadline(c.clock.epoch.Add(time.Duration(at)))
}

// Interrupt makes the current and all later reads and writes fail.
func (c *Conn) Interrupt() {
	c.interrupted.Store(true)
	_ = c.nc.SetDeadline(time.Unix(1, 0))
}

// Close closes the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// Send writes a whole request, head and body.
func (c *Conn) Send(request []byte) error {
	c.done, c.r, c.w = false, 0, 0
	_, err := c.nc.Write(request)
	return err
}

// growBuffer makes space in the buffer for another read.
func (c *Conn) growBuffer() error {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case c.w < len(c.buf):
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	case len(c.buf) < maxHead:
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	default:
		return fmt.Errorf("%w: head or chunk line over %d bytes", ErrMalformed, maxHead)
	}
	return nil
}

// fill reads once more into the buffer and stamps the read.
func (c *Conn) fill() error {
	if c.buffered {
		return errMore
	}
	if err := c.growBuffer(); err != nil {
		return err
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.stamp()
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (c *Conn) stamp() {
	if c.socket != nil {
		// The wall clock, which the kernel's times come from, may be set back.
		c.readAt = max(c.readAt, c.socket.Arrived(c.clock))
	} else {
		c.readAt = c.clock.Now()
	}
}

// line returns the next line without its end; it is valid until the next call.
func (c *Conn) line() ([]byte, error) {
	for from := c.r; ; {
		if i := bytes.IndexByte(c.buf[from:c.w], '\n'); i >= 0 {
			l := c.buf[c.r : from+i]
			c.r = from + i + 1
			if n := len(l); n > 0 && l[n-1] == '\r' {
				l = l[:n-1]
			}
			return l, nil
		}
		seen := c.w - c.r
		if err := c.fill(); err != nil {
			return nil, err
		}
		from = c.r + seen
	}
}

// ReadHead reads the status line and headers. An io.EOF error means that the
// connection was closed before the first byte of a response.
func (c *Conn) ReadHead(resp *Response) error {
	for range maxInterim {
		*resp = Response{}
		if err := c.readHead(resp); err != nil {
			return err
		}
		if resp.Status >= 200 {
			return nil
		}
	}
	return fmt.Errorf("%w: more than %d interim responses", ErrMalformed, maxInterim)
}

func (c *Conn) readHead(resp *Response) error {
	l, err := c.line()
	if err != nil {
		if err == io.EOF && c.r < c.w {
			return ErrTruncated
		}
		return err
	}
	if resp.Status, c.close, err = statusLine(l); err != nil {
		return err
	}
	c.body, c.left, c.inChunk, c.trailer = framedByClose, 0, false, false
	for read := len(l); ; read += len(l) + 2 {
		if read > maxHead {
			return fmt.Errorf("%w: head over %d bytes", ErrMalformed, maxHead)
		}
		if l, err = c.line(); err != nil {
			if err == io.EOF {
				err = ErrTruncated
			}
			return err
		}
		if len(l) == 0 {
			break
		}
		if err := c.header(resp, l); err != nil {
			return err
		}
	}
	c.done = false
	if resp.Status == 204 || resp.Status == 304 || resp.Status < 200 ||
		c.body == framedByLength && c.left == 0 {
		c.body, c.left, c.done = framedByLength, 0, true
	}
	if c.body == framedByClose {
		c.close = true
	}
	return nil
}

// statusLine parses "HTTP/1.1 200 OK".
func statusLine(l []byte) (status int, closes bool, err error) {
	rest, ok := bytes.CutPrefix(l, []byte("HTTP/1."))
	if !ok || len(rest) < 5 || rest[1] != ' ' {
		return 0, false, fmt.Errorf("%w: status line %.40q", ErrMalformed, l)
	}
	for _, d := range rest[2:5] {
		if d < '0' || d > '9' {
			return 0, false, fmt.Errorf("%w: status line %.40q", ErrMalformed, l)
		}
		status = status*10 + int(d-'0')
	}
	if status < 100 {
		return 0, false, fmt.Errorf("%w: status %d", ErrMalformed, status)
	}
	return status, rest[0] == '0', nil
}

// header takes what matters from one header line.
func (c *Conn) header(resp *Response, l []byte) error {
	name, value, ok := bytes.Cut(l, []byte{':'})
	// A name with a space in or behind it, or a line that begins with one, is read
	// differently by different readers (RFC 9112, section 5.1).
	if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t\r\x00") {
		return fmt.Errorf("%w: header line %.40q", ErrMalformed, l)
	}
	value = bytes.TrimSpace(value)
	switch {
	case equalFold(name, "content-length"):
		n, err := strconv.ParseUint(string(value), 10, 62)
		if err != nil {
			return fmt.Errorf("%w: Content-Length %.20q", ErrMalformed, value)
		}
		switch {
		case c.body == framedByLength && c.left != int64(n):
			return fmt.Errorf("%w: several values of Content-Length", ErrMalformed)
		case c.body != framedByChunks:
			c.body, c.left = framedByLength, int64(n)
		}
	case equalFold(name, "transfer-encoding"):
		// It goes before a length. What is coded otherwise has no end that is known.
		if equalFold(value, "identity") {
			break
		}
		if !equalFold(value, "chunked") || c.body == framedByChunks {
			return fmt.Errorf("%w: Transfer-Encoding %.40q", ErrMalformed, value)
		}
		c.body, c.left = framedByChunks, 0
	case equalFold(name, "connection"):
		switch {
		case containsFold(value, "close"):
			c.close = true
		case containsFold(value, "keep-alive"):
			c.close = false
		}
	case equalFold(name, "content-type"):
		resp.EventStream = containsFold(value, "text/event-stream")
	}
	return nil
}

// ReadBody returns the next piece of the body, free of chunk framing and valid
// until the next call, or io.EOF after its end. ReadAt tells when it arrived.
// A body that ends early gives ErrTruncated.
func (c *Conn) ReadBody() ([]byte, error) {
	for !c.done {
		if c.body == framedByChunks && !c.inChunk {
			if err := c.nextChunk(); err != nil {
				return nil, truncated(err)
			}
			continue
		}
		if c.r == c.w {
			if err := c.fill(); err != nil {
				if err == io.EOF {
					if err = c.endOfInput(); err == nil {
						break
					}
				}
				return nil, err
			}
		}
		p := c.buf[c.r:c.w]
		if c.body != framedByClose && int64(len(p)) > c.left {
			p = p[:c.left]
		}
		c.r += len(p)
		if c.body != framedByClose {
			c.left -= int64(len(p))
			if c.left == 0 {
				c.endPart()
			}
		}
		if len(p) > 0 {
			return p, nil
		}
	}
	return nil, io.EOF
}

// endPart notes the end of a chunk's data, or of a body of known length.
func (c *Conn) endPart() {
	if c.body == framedByChunks {
		c.inChunk = false
		return
	}
	c.done = true
}

// Stream gives the pieces of the body to sink until its end. It is ReadBody in
// a loop, with fewer system calls where the connection is a plain socket.
func (c *Conn) Stream(sink Sink) error {
	if c.socket != nil && net.Conn(c.socket) == c.nc {
		return c.socket.pump(c, sink)
	}
	for {
		p, err := c.ReadBody()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = sink.Data(p)
		}
		if err != nil {
			return err
		}
	}
}

// deliver gives the buffered part of the body to sink. It returns errMore when
// more must be read, and nil at the body's end.
func (c *Conn) deliver(sink Sink) error {
	c.buffered = true
	defer func() { c.buffered = false }()
	for {
		p, err := c.ReadBody()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = sink.Data(p)
		}
		if err != nil {
			return err
		}
	}
}

// endOfInput is what the end of the connection means for the body.
func (c *Conn) endOfInput() error {
	if c.body != framedByClose {
		return ErrTruncated
	}
	c.done = true
	return nil
}

// nextChunk reads a chunk's size line, and after the last chunk the trailer.
// The empty line that ends a chunk's data is skipped as part of the next one.
func (c *Conn) nextChunk() error {
	for range 64 {
		l, err := c.line()
		if err != nil {
			return err
		}
		if c.trailer {
			if len(l) == 0 {
				c.done = true
				return nil
			}
			continue
		}
		if len(l) == 0 {
			continue
		}
		size, ok := chunkSize(l)
		if !ok {
			return fmt.Errorf("%w: chunk size %.20q", ErrMalformed, l)
		}
		if size > 0 {
			c.left, c.inChunk = size, true
			return nil
		}
		c.trailer = true
	}
	return fmt.Errorf("%w: trailer over 64 lines", ErrMalformed)
}

// chunkSize parses "1a;extension".
func chunkSize(l []byte) (int64, bool) {
	var n int64
	for i, b := range l {
		var d byte
		switch {
		case b >= '0' && b <= '9':
			d = b - '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			d = b | 0x20 - 'a' + 10
		case (b == ';' || b == ' ' || b == '\t') && i > 0:
			return n, true
		default:
			return 0, false
		}
		if i >= 15 {
			return 0, false
		}
		n = n<<4 | int64(d)
	}
	return n, len(l) > 0
}

func truncated(err error) error {
	if err == io.EOF {
		return ErrTruncated
	}
	return err
}

// equalFold compares an ASCII header name with a lower-case one.
func equalFold(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

func containsFold(b []byte, lower string) bool {
	for ; len(b) >= len(lower); b = b[1:] {
		if equalFold(b[:len(lower)], lower) {
			return true
		}
	}
	return false
}

package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sixty-dev/sixty/internal/unanswered"
)

// bytesReader reads the kept part of a body and then the rest.
type bytesReader struct {
	p    []byte
	rest io.Reader
	b    *body
	used atomic.Bool
}

func (r *bytesReader) Read(p []byte) (int, error) {
	r.used.Store(true)
	if len(r.p) > 0 {
		n := copy(p, r.p)
		r.p = r.p[n:]
		return n, nil
	}
	if r.rest == nil {
		return 0, io.EOF
	}
	r.b.spent.Store(true)
	return r.rest.Read(p)
}

// rootCause is the end of an error's chain in words that hold no URL.
func rootCause(err error) string {
	err = unanswered.Cause(err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// withoutPort is the host of an address.
func withoutPort(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

func bytesText(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// mediaType is the type of a Content-Type, without its parameters.
func mediaType(v string) string {
	v, _, _ = strings.Cut(v, ";")
	return strings.ToLower(strings.TrimSpace(v))
}

// token reports whether a method is one by its letters (RFC 9110, section 5.6.2).
func token(s string) bool { return s != "" && made(s, &tokenBytes) }

type byteSet [256]bool

func setOf(s string) (set byteSet) {
	for _, c := range []byte(s) {
		set[c] = true
	}
	return set
}

// made reports whether a string has no other bytes.
func made(s string, of *byteSet) bool {
	for _, c := range []byte(s) {
		if !of[c] {
			return false
		}
	}
	return true
}

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var (
	tokenBytes = setOf(alphanumeric + "!#$%&'*+-.^_`|~")
	hostBytes  = setOf(alphanumeric + "-._~:[]")
	pathBytes  = setOf(alphanumeric + "-._~/") // that mean themselves
	digits     = setOf("0123456789")
)

// dialing reports whether an error came before a connection.
func dialing(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

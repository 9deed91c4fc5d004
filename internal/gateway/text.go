package gateway

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/sixty-dev/sixty/internal/unanswered"
)

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

// isToken reports whether a method is one by its letters (RFC 9110, section 5.6.2):
// net/http does not ask of HTTP/2.
func isToken(s string) bool {
	const special = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.ContainsRune(special, c))
	})
}

// lists reports whether a header that is a list of words, such as Connection, has one.
func lists(values []string, word string) bool {
	for _, v := range values {
		for w := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(w), word) {
				return true
			}
		}
	}
	return false
}

// clip bounds what is kept of a text that a client chose.
func clip(s string) string { return s[:min(len(s), maxLabel)] }

// Package unanswered says why an HTTP request got no answer, and what a user can do about it. The scraper, the client
// of Prometheus' API, the load test and the gateway use it.
package unanswered

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// Cause strips the URL that net/http puts before its errors: it may contain secrets, and callers name the server
// themselves.
func Cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// TimedOut reports whether a deadline or a timeout ended the request.
func TimedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// Unresolved reports whether DNS could not resolve the host's name.
func Unresolved(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}

// NoRoute reports whether the network has no route to the machine.
func NoRoute(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// Hint returns the way out of an error, or "" if the error suggests none. It returns refused for a refused
// connection.
func Hint(err error, refused string) string {
	var unknownCA x509.UnknownAuthorityError
	var badName x509.HostnameError
	var badCert x509.CertificateInvalidError
	switch text := err.Error(); {
	case Unresolved(err):
		return "check the host name, and whether it can be resolved from here"
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case NoRoute(err):
		return "check the address and the network between here and the server"
	case errors.As(err, &unknownCA), errors.As(err, &badName), errors.As(err, &badCert):
		return "pass the certificate authority that signed the server's certificate (--tls-ca)"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"),
		strings.Contains(text, "first record does not look like a TLS handshake"):
		return "use http:// instead of https://"
	case strings.Contains(text, "malformed HTTP response"), errors.Is(err, io.EOF):
		return "check the port, and whether the server wants https://"
	}
	return ""
}

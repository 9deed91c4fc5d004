package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Config configures a Gateway. The zero value has no limits.
type Config struct {
	Upstreams []*url.URL  // http or https; its path is prepended to a request's path
	TLS       *tls.Config // for https upstreams
	// Dial connects to an upstream; nil for TCP, with a timeout of five seconds.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	HealthEvery time.Duration // interval of health checks and of reading the engines' metrics; 5 s if 0

	// Limits; 0 or less for none.
	IdleTimeout time.Duration // of a request in which no byte moves
	MaxBody     int64         // bytes of a request body, which is in memory until the answer begins
	LeakAge     time.Duration // age from which an open request is a suspected leak
	Note        func(string)  // called when an upstream goes down or returns; may be nil
}

const defaultHealthEvery = 5 * time.Second

// withDefaults fills in defaults and validates the configuration.
func (c Config) withDefaults() (Config, error) {
	if len(c.Upstreams) == 0 {
		return c, hint.With(errors.New("no upstream"), "name a server, such as --upstream http://127.0.0.1:8000")
	}
	seen := map[string]bool{}
	for _, u := range c.Upstreams {
		switch {
		case u.Scheme != "http" && u.Scheme != "https":
			return c, fmt.Errorf("upstream %q: the scheme is not http or https", u.Redacted())
		case u.Hostname() == "":
			return c, fmt.Errorf("upstream %q names no host", u.Redacted())
		case u.User != nil:
			return c, hint.With(fmt.Errorf("upstream %q holds a user name", u.Redacted()),
				"clients' own credentials are passed through; leave it out")
		case u.RawQuery != "" || u.Fragment != "":
			return c, fmt.Errorf("upstream %q holds a query", u.Redacted())
		case seen[u.Host+u.Path]:
			return c, fmt.Errorf("upstream %q is given twice", u.Redacted())
		}
		seen[u.Host+u.Path] = true
	}
	if c.HealthEvery <= 0 {
		c.HealthEvery = defaultHealthEvery
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	return c, nil
}

const (
	maxHeader  = 64 << 10
	readHeader = 10 * time.Second
	idleClient = 2 * time.Minute
	maxStreams = 10_000 // per HTTP/2 connection
)

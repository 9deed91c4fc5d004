package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Config says what a Gateway does. Its zero value limits nothing.
type Config struct {
	Upstreams []*url.URL  // http or https, of one model or of several; a path is prepended to that of a request
	TLS       *tls.Config // for https upstreams
	// Dial connects with an upstream; nil for TCP, within ConnectTimeout.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	HealthPath  string        // asked of each upstream; "/health"
	HealthEvery time.Duration // 5 s; also the pace at which the engines' metrics are read
	Sticky      bool          // prefer the upstream that got the same beginning of a prompt
	Retries     int           // further attempts of a request, where that is safe

	// Limits; 0 or less for none.
	ConnectTimeout time.Duration
	HeaderTimeout  time.Duration // from sending a request to the head of its answer
	IdleTimeout    time.Duration // silence within an answer
	RequestTimeout time.Duration // the whole request
	ClientTimeout  time.Duration // a client that neither sends nor reads
	MaxBody        int64         // bytes of a request, each of which is held until the answer begins
	MaxRequests    int           // open requests, beyond which 503 is answered
	LeakAge        time.Duration // age from which an open request is a suspected leak
	AskUsage       bool          // ask the upstream for the token account of every stream, and hide it from clients that did not
	TenantHeader   string        // names the tenant; "" for none
	HashTenants    bool          // show a hash instead
	MaxTenants     int           // told apart; others are "other"
	Admission      Admission     // off by default

	AccessLog io.Writer    // a line of JSON for each request; nil for none
	Tracer    trace.Tracer // nil for none
	Note      func(string) // told of upstreams that come and go; may be nil
}

// Defaults of Config.
const (
	defaultHealthPath  = "/health"
	defaultHealthEvery = 5 * time.Second
)

// withDefaults returns the configuration with its defaults, or says what is
// wrong with it.
func (c Config) withDefaults() (Config, error) {
	if len(c.Upstreams) == 0 {
		return c, hint.With(errors.New("no upstream"), "name a server, such as http://127.0.0.1:8000")
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
	if c.HealthPath == "" {
		c.HealthPath = defaultHealthPath
	}
	if !strings.HasPrefix(c.HealthPath, "/") {
		return c, fmt.Errorf("health path %q does not begin with /", c.HealthPath)
	}
	if c.HealthEvery <= 0 {
		c.HealthEvery = defaultHealthEvery
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	return c, c.Admission.check()
}

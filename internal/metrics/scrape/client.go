package scrape

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/unanswered"
)

// Limits of one fetch.
const (
	// DefaultTimeout is generous because a slow scrape is itself a symptom: a
	// server in trouble took up to 4 s to show a page that took 40 ms before.
	DefaultTimeout = 5 * time.Second

	// maxBody bounds one page, decompressed.
	maxBody = 16 << 20
)

// accept prefers the native format of vLLM's Python server, and omits protobuf, because this package does not parse
// it. prometheus_client 0.25 and later ignores q, and without escaping=allow-utf-8 writes sglang_x for sglang:x in
// OpenMetrics.
const accept = "text/plain;version=0.0.4;q=1," +
	"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.8,*/*;q=0.1"

// Config configures a Client. The zero value is usable.
type Config struct {
	// HTTP says how to authenticate and encrypt, as in a Prometheus scrape configuration. The zero value stands for
	// config.DefaultHTTPClientConfig.
	HTTP config.HTTPClientConfig

	// Client, which may be nil, replaces a client made from HTTP.
	Client *http.Client

	// Timeout of one fetch, DefaultTimeout when 0.
	Timeout time.Duration
}

// Client fetches pages. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	timeout time.Duration
	maxBody int64
}

// New returns a Client, or an error when the configuration is contradictory or
// names a file that cannot be read.
func New(cfg Config) (*Client, error) {
	c := &Client{http: cfg.Client, timeout: cmp.Or(cfg.Timeout, DefaultTimeout), maxBody: maxBody}
	if c.http != nil {
		return c, nil
	}
	if reflect.ValueOf(cfg.HTTP).IsZero() {
		cfg.HTTP = config.DefaultHTTPClientConfig
	}
	if err := cfg.HTTP.Validate(); err != nil {
		return nil, fmt.Errorf("scrape: HTTP settings: %w", err)
	}
	var err error
	if c.http, err = config.NewClientFromConfig(cfg.HTTP, "sixty_scrape", config.WithUserAgent("sixty")); err != nil {
		return nil, fmt.Errorf("scrape: HTTP settings: %w", err)
	}
	return c, nil
}

// Close closes the connections that are kept for the next fetch.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Body is one page as the server sent it.
type Body struct {
	Raw         []byte        // decompressed
	ContentType string        // the Content-Type header
	At          time.Time     // time of the request, which is the time of the samples
	Duration    time.Duration // from the request to the last byte
	Status      int           // HTTP status, 0 without an answer
	Server      string        // the Server header, "" without one
}

// Fetch requests a target's page; target is anything that URL accepts. An error carries a hint, and names the URL
// without its secrets, and the status if the server answered. Body's At, Duration and Status are set even then.
func (c *Client) Fetch(ctx context.Context, target string) (Body, error) {
	u, err := parseURL(target)
	if err != nil {
		return Body{}, err
	}
	b := Body{At: time.Now()}
	err = c.fetchPage(ctx, u, bounds{c.timeout, c.maxBody}, &b)
	b.Duration = time.Since(b.At)
	if err == nil {
		err = explainStatus(u, &b)
	}
	return b, err
}

// bounds are the limits of one request.
type bounds struct {
	timeout time.Duration
	size    int64 // bytes of the answer, decompressed
}

// fetchPage fills in b's Raw, ContentType and Status.
func (c *Client) fetchPage(ctx context.Context, u *url.URL, most bounds, b *Body) error {
	ctx, cancel := context.WithTimeout(ctx, most.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("scrape %s: %w", redactURL(u), unanswered.Cause(err))
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := c.http.Do(req)
	if err != nil {
		return explainUnreachable(u, most.timeout, err)
	}
	defer resp.Body.Close()
	b.Status, b.ContentType, b.Server = resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Server")
	if b.Raw, err = readBody(resp, most.size); err != nil {
		if errors.Is(err, errTooLarge) {
			return hint.With(fmt.Errorf("scrape %s: page is larger than %d bytes", redactURL(u), most.size),
				"check that the address is a metrics page and not a stream or a download")
		}
		return explainUnreachable(u, most.timeout, err)
	}
	return nil
}

var errTooLarge = errors.New("body too large")

// readBody reads and decompresses at most limit bytes.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	r := io.Reader(resp.Body)
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		defer z.Close()
		r = z
	}
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= limit {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := io.Copy(&buf, io.LimitReader(r, limit+1))
	switch {
	case n > limit:
		return nil, errTooLarge
	case err != nil:
		return nil, err
	}
	return buf.Bytes(), nil
}

// ErrNotMetrics is wrapped by errors of addresses that serve no metrics page or require credentials. Another request
// does not help.
var ErrNotMetrics = errors.New("not metrics")

// explainStatus returns the error for an answer without a metrics page.
func explainStatus(u *url.URL, b *Body) error {
	from := ""
	if b.Server != "" {
		from = " of " + b.Server
	}
	if b.Status == http.StatusOK {
		if what := describeContent(b); what != "" {
			return hint.With(fmt.Errorf("scrape %s: answered %s%s, %w", redactURL(u), what, from, ErrNotMetrics),
				hintMetricsPath(u))
		}
		return nil
	}
	err := fmt.Errorf("scrape %s: HTTP status %d %s%s", redactURL(u), b.Status, http.StatusText(b.Status), from)
	if b.Status < 500 && b.Status != http.StatusRequestTimeout && b.Status != http.StatusTooManyRequests {
		err = fmt.Errorf("%w: %w", err, ErrNotMetrics)
	}
	switch {
	case b.Status == http.StatusUnauthorized || b.Status == http.StatusForbidden:
		return hint.With(err, "pass a bearer token or a user and password (--bearer-token-file, --basic-auth)")
	case b.Status == http.StatusNotFound || b.Status == http.StatusMethodNotAllowed:
		return hint.With(err, hintMetricsPath(u))
	case b.Status >= 300 && b.Status < 400:
		return hint.With(err, "use the address that the server redirects to")
	case b.Status == http.StatusBadRequest && u.Scheme == "http":
		return hint.With(err, "check the port, and whether the server wants https://")
	case b.Status >= 500:
		// vLLM with several API servers answers 500 when its multiprocess
		// directory lies on network storage, while inference works (vllm#49983).
		return hint.With(err, "check the server's log and /health: a failed metrics page does not mean a failed server")
	}
	return hint.With(err, "check the address")
}

const checkPort = "check the port: vLLM serves /metrics on its API port, Ray Serve on its metrics export port"

// Misread explains an error of Prometheus' parser if it shows that another program answers; it returns "" for other
// errors.
func Misread(err error) string {
	if err != nil && strings.Contains(err.Error(), "expected a valid start token") {
		return "it answers, but not with metrics; " + checkPort
	}
	return ""
}

// hintMetricsPath returns the hint for a page that is not the metrics page.
func hintMetricsPath(u *url.URL) string {
	if strings.HasSuffix(strings.TrimRight(u.Path, "/"), defaultPath) {
		return checkPort
	}
	v := *u
	v.Path, v.RawQuery = strings.TrimRight(v.Path, "/")+defaultPath, ""
	return redactURL(&v)
}

// describeContent names the content of an answer that is not a metrics page; "" if it may be one.
func describeContent(b *Body) string {
	start := bytes.TrimLeft(b.Raw[:min(len(b.Raw), 4096)], " \t\r\n\ufeff")
	switch {
	case len(start) == 0:
	case start[0] == '<':
		if m := htmlTitle.FindSubmatch(start); m != nil {
			return fmt.Sprintf("an HTML page (%q)", bytes.TrimSpace(m[1]))
		}
		return "an HTML page"
	case start[0] == '[', start[0] == '{' && strings.Contains(b.ContentType, "json"):
		return "JSON"
	case bytes.HasPrefix(start, []byte("Active connections:")):
		return "nginx's stub_status page"
	}
	return ""
}

var htmlTitle = regexp.MustCompile(`(?is)<title[^>]*>([^<]{1,80})</title>`)

// explainUnreachable wraps the error of a request that got no full answer.
func explainUnreachable(u *url.URL, timeout time.Duration, err error) error {
	why := unanswered.Cause(err)
	wrapped := fmt.Errorf("scrape %s: %w", redactURL(u), why)
	switch {
	case errors.Is(err, context.Canceled):
		return wrapped
	case unanswered.TimedOut(err):
		return hint.With(fmt.Errorf("scrape %s: no full answer within %s: %w", redactURL(u), timeout, why),
			"a metrics page that is sometimes slow is a sign of a server in trouble; try again, and check /health")
	}
	way := unanswered.Hint(why, "check that the server runs and that the port is the one of its HTTP API")
	return hint.With(wrapped, cmp.Or(way, "check that the server runs and can be reached from here"))
}

// Outage says how a server is unreachable, from the outcome of a fetch. It returns "" for a page, and for failures of
// other kinds: a wrong address, a missing password, a page without metrics.
func Outage(b Body, err error) string {
	switch {
	case err == nil || unanswered.Unresolved(err):
		return ""
	case unanswered.TimedOut(err):
		return "no answer in time: it hangs, is overloaded, or the network drops packets"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there; the process is gone or still loading its model"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset: the process ended, or something in between rejects it"
	case unanswered.NoRoute(err):
		return "no route: the machine or the network is down"
	case b.Status >= 500:
		return fmt.Sprintf("HTTP status %d: the server fails, or the proxy in front of it has no server", b.Status)
	}
	return ""
}

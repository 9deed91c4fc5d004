package gateway

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// upstream is one server.
type upstream struct {
	url    *url.URL
	name   string // host and path: the label of metrics
	health string // URL

	inFlight atomic.Int64
	down     atomic.Bool
	failed   int // health checks in a row; of the one goroutine that checks

	requests, failures atomic.Int64 // attempts, and those that got no answer

	engine engineState
}

const (
	// keepIdle is how long a connection is kept: uvicorn, which serves vLLM, closes
	// idle ones after 5 s, and a request that meets the close is lost.
	keepIdle = 4 * time.Second
	maxIdle  = 256

	// downAfter is how many health checks in a row must fail. A connection that is
	// refused counts at once.
	downAfter = 2
)

// newTransport returns what speaks to all upstreams.
func newTransport(cfg Config) *http.Transport {
	within := max(cfg.ConnectTimeout, 0)
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: within}).DialContext
	}
	return &http.Transport{
		DialContext: dial, TLSHandshakeTimeout: within,
		TLSClientConfig: cfg.TLS.Clone(), ForceAttemptHTTP2: true,
		DisableCompression: true, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: keepIdle, MaxResponseHeaderBytes: maxHeader,
	}
}

func newUpstream(u *url.URL, healthPath string) *upstream {
	base := *u
	base.Path, base.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.EscapedPath(), "/")
	return &upstream{url: &base, name: strings.ToValidUTF8(u.Host+base.Path, "?"), health: u.Scheme + "://" + u.Host + base.RawPath + healthPath}
}

// target is where a request goes. Its path and query are as the client wrote them.
func (u *upstream) target(asked *url.URL) *url.URL {
	path, raw := asked.Path, asked.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		path, raw = "/"+path, "/"+raw
	}
	return &url.URL{
		Scheme: u.url.Scheme, Host: u.url.Host, Path: u.url.Path + path, RawPath: u.url.RawPath + raw,
		RawQuery: strings.ReplaceAll(asked.RawQuery, " ", "%20"), ForceQuery: asked.ForceQuery,
	}
}

// check asks an upstream for its health. Any answer below 500 is one: a server
// that has no such path is not ill.
func (g *Gateway) check(ctx context.Context, u *upstream) {
	running := ctx
	ctx, cancel := context.WithTimeout(ctx, max(g.cfg.HealthEvery*4/5, time.Second))
	defer cancel()
	ok := false
	var cause string
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.health, nil)
	if err == nil {
		var resp *http.Response
		if resp, err = g.transport.RoundTrip(req); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
			resp.Body.Close()
			ok = resp.StatusCode < 500
			cause = resp.Status
		}
	}
	if err != nil {
		cause = rootCause(err)
	}
	switch {
	case !ok && running.Err() != nil:
		// The check was cut off.
	case ok:
		u.failed = 0
		g.setDown(u, false, "")
	default:
		u.failed++
		if u.failed >= downAfter {
			g.setDown(u, true, cause)
		}
	}
}

func (g *Gateway) setDown(u *upstream, down bool, why string) {
	if u.down.Swap(down) == down {
		return
	}
	if down {
		g.cfg.Note(fmt.Sprintf("upstream %s is down: %s", u.name, why))
	} else {
		g.cfg.Note("upstream " + u.name + " answers again")
	}
}

var prefixSeed = maphash.MakeSeed()

// prefixBytes of a prompt choose the upstream where requests stick: a system
// prompt and more, less than a conversation grows by.
const prefixBytes = 2 << 10

// pick chooses the upstream for an attempt: of those that are up and were not
// tried, the one with the fewest open requests. Where all are down they are
// tried nevertheless: the health check may be wrong, and the answer then says
// what is.
func (g *Gateway) pick(x *exchange, tried []*upstream) *upstream {
	var prefix uint64
	if g.cfg.Sticky && len(x.req.Prompt) > 0 {
		prefix = maphash.Bytes(prefixSeed, x.req.Prompt[:min(len(x.req.Prompt), prefixBytes)])
	}
	for _, desperate := range []bool{false, true} {
		var best *upstream
		var least, open, up int64
		turn := int(g.turn.Add(1))
		for i := range g.upstreams {
			u := g.upstreams[(turn+i)%len(g.upstreams)]
			if slices.Contains(tried, u) || u.down.Load() != desperate {
				continue
			}
			n := u.inFlight.Load()
			open, up = open+n, up+1
			if best == nil || n < least {
				best, least = u, n
			}
		}
		if best != nil && prefix != 0 {
			if home := g.preferredUpstream(prefix, tried, desperate); home.inFlight.Load()*4*up <= open*5+4*up {
				return home // it holds no more than a quarter over the mean, and one
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// preferredUpstream is the upstream of a prefix by rendezvous hashing: when one goes or comes,
// only its own prefixes move.
func (g *Gateway) preferredUpstream(prefix uint64, tried []*upstream, down bool) (best *upstream) {
	var most uint64
	for _, u := range g.upstreams {
		if slices.Contains(tried, u) || u.down.Load() != down {
			continue
		}
		if h := maphash.Comparable(prefixSeed, [2]any{prefix, u.name}); best == nil || h > most {
			best, most = u, h
		}
	}
	return best
}

// budget bounds retries to a fifth of the requests, and a burst of ten: a retry
// storm keeps a service that is overloaded from recovering.
type budget struct{ left atomic.Int64 }

const (
	retryUnit  = 5 // a request earns one, a retry costs this many
	retryBurst = 10 * retryUnit
)

func (b *budget) deposit() {
	if b.left.Load() < retryBurst {
		b.left.Add(1)
	}
}

func (b *budget) withdraw() bool {
	if b.left.Add(-retryUnit) >= 0 {
		return true
	}
	b.left.Add(retryUnit)
	return false
}

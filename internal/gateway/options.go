package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/listen"
)

// Options are the flags of sixty gateway: a Config, and listeners by address. Errors name the flags.
type Options struct {
	Config
	Serving

	upstreams     []string // a scheme may be missing
	maxBodyMiB    int64    // 0 for any
	listen, admin string   // addresses; a port alone listens on loopback, admin "off" disables it
	cert, key     string   // PEM files, for clients
}

// AddFlags adds the flags of sixty gateway.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.upstreams, "upstream", nil,
		"`URL` of a server; may be repeated: the one with the fewest open requests gets the next request")
	fs.StringVar(&o.listen, "listen", ":8080",
		"`address` for clients (loopback unless a host is given; 0.0.0.0:8080 for all)")
	fs.StringVar(&o.admin, "admin", ":8081",
		"`address` of /metrics, /requests, /health and /ready, likewise; off for none")
	fs.StringVar(&o.cert, "tls-cert", "", "PEM `file` of the server certificate; enables HTTP/2")
	fs.StringVar(&o.key, "tls-key", "", "PEM `file` of its key")
	fs.DurationVar(&o.HealthEvery, "health-interval", defaultHealthEvery,
		"interval of health checks and of reading the engine's metrics")
	fs.DurationVar(&o.IdleTimeout, "idle-timeout", 10*time.Minute,
		"timeout of a request of which nothing is sent or read, by its client or the upstream; 0 for none")
	fs.Int64Var(&o.maxBodyMiB, "max-body", 64,
		"largest request body in `MiB`, kept in memory until the answer begins; 0 for unlimited")
	fs.DurationVar(&o.LeakAge, "leak-age", 300*time.Second, "age from which an open request is a suspected leak")
	fs.DurationVar(&o.DrainTimeout, "drain-timeout", 5*time.Minute,
		"after SIGTERM: how long open requests may take; a second signal ends them")
}

// Start opens the listeners and prints their addresses. The returned function serves until its context ends.
func (o Options) Start(ctx context.Context, stderr io.Writer) (serve func(context.Context) error, err error) {
	notes := log.New(stderr, "", log.Ltime)
	o.Note = func(text string) { notes.Print("note: " + text) }
	o.MaxBody = o.maxBodyMiB << 20
	for _, text := range o.upstreams {
		if !strings.Contains(text, "://") {
			text = "http://" + text
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, errors.New("--upstream: not a URL") // it may hold a secret
		}
		o.Upstreams = append(o.Upstreams, u)
	}
	g, err := New(o.Config)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if o.cert != "" || o.key != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, hint.With(fmt.Errorf("--tls-cert, --tls-key: %w", err), "name both PEM files")
		}
		scheme, o.Serving.TLS = "https", &tls.Config{MinVersion: tls.VersionTLS12,
			Certificates: []tls.Certificate{pair}}
	}
	if o.Data, err = listen.TCP(ctx, "--listen", o.listen); err != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "clients      %s://%s\n", scheme, o.Data.Addr())
	for _, u := range o.Upstreams {
		fmt.Fprintf(stderr, "upstream     %s\n", u.Redacted())
	}
	if o.admin != "off" {
		if o.Admin, err = listen.TCP(ctx, "--admin", o.admin); err != nil {
			return nil, errors.Join(err, o.Data.Close())
		}
		fmt.Fprintf(stderr, "metrics      http://%s/metrics\nrequests     http://%[1]s/requests\n", o.Admin.Addr())
	}
	fmt.Fprintln(stderr, "Stop with Ctrl-C or SIGTERM; open requests are completed, a second signal cuts them off.")
	return func(ctx context.Context) error { return g.Serve(ctx, o.Serving) }, nil
}

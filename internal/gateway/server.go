package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	maxHeader  = 64 << 10
	readHeader = 10 * time.Second
	idleClient = 2 * time.Minute
	maxStreams = 10_000 // of an HTTP/2 connection
)

// Serving says how Serve listens and ends.
type Serving struct {
	Data, Admin net.Listener // Admin may be nil

	TLS *tls.Config // for clients; nil for cleartext, which speaks HTTP/2 with prior knowledge too

	// DrainDelay is how long requests are still taken after ctx has ended, while
	// the readiness fails, for load balancers to notice; DrainTimeout how long
	// open requests have from then on.
	DrainDelay, DrainTimeout time.Duration

	lean *lean // nil with TLS, and where the system lacks what it needs
}

// Serve serves until ctx ends, and then until the open requests have ended or
// the time for that is over. It closes the listeners. An error is that of a
// listener, or says that requests were cut off.
func (g *Gateway) Serve(ctx context.Context, s Serving) error {
	quiet := log.New(io.Discard, "", 0) // what net/http logs is what clients did wrong
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	data := &http.Server{
		Handler: g, Protocols: protocols, TLSConfig: s.TLS, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: readHeader,
		IdleTimeout: idleClient, ErrorLog: quiet, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	admin := &http.Server{Handler: g.Admin(), ReadHeaderTimeout: readHeader, IdleTimeout: idleClient, ErrorLog: quiet}

	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { g.Run(running) })
	failed := make(chan error, 3)
	serve := func(srv *http.Server, l net.Listener, secure bool) {
		wg.Go(func() {
			var err error
			if secure {
				err = srv.ServeTLS(l, "", "")
			} else {
				err = srv.Serve(l)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	l := s.Data
	if s.TLS == nil {
		if lean := newLean(g, g.clock, g.cfg.MaxBody, g.cfg.ClientTimeout); lean != nil {
			s.lean = lean
			wg.Go(func() {
				if err := lean.serve(s.Data); !errors.Is(err, http.ErrServerClosed) {
					failed <- err
				}
			})
			l = &strangers{s.Data, lean}
		}
	}
	serve(data, l, s.TLS != nil)
	if s.Admin != nil {
		serve(admin, s.Admin, false)
	}

	var err error
	select {
	case <-ctx.Done():
		err = g.drain(data, s)
	case err = <-failed:
	}
	_ = data.Close()
	if s.lean != nil {
		s.lean.stop()
	}
	_ = admin.Close()
	stop()
	wg.Wait()
	return err
}

// drain lets open requests end.
func (g *Gateway) drain(data *http.Server, s Serving) error {
	g.Drain()
	time.Sleep(s.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
	defer cancel()
	err := data.Shutdown(ctx)
	if s.lean != nil {
		err = errors.Join(err, s.lean.drain(ctx))
	}
	if err == nil {
		return nil
	}
	n := g.InFlight()
	if n == 0 {
		return nil
	}
	g.Abort()
	// They end by themselves now, so that each is counted and logged.
	for end := time.Now().Add(2 * time.Second); g.InFlight() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return &cutOffError{n}
}

// cutOffError is the error of requests that did not end in time.
type cutOffError struct{ n int }

func (e *cutOffError) Error() string {
	if e.n == 1 {
		return "1 request was cut off at the end of the drain timeout"
	}
	return strconv.Itoa(e.n) + " requests were cut off at the end of the drain timeout"
}

package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	maxHeader  = 64 << 10
	readHeader = 10 * time.Second
	idleClient = 2 * time.Minute
	maxStreams = 10_000 // of an HTTP/2 connection
)

// quiet takes what net/http logs, which is what clients and upstreams did wrong: that is
// counted and in the access log.
var quiet = log.New(io.Discard, "", 0)

// Serving says how Serve listens and ends.
type Serving struct {
	Data, Admin net.Listener // Admin may be nil

	TLS *tls.Config // for clients; nil for cleartext, which speaks HTTP/2 with prior knowledge too

	// DrainDelay is how long requests are still taken after ctx has ended, while
	// the readiness fails, for load balancers to notice; DrainTimeout how long
	// open requests have from then on.
	DrainDelay, DrainTimeout time.Duration
}

// Serve serves until ctx ends, and then until the open requests have ended or
// the time for that is over. It closes the listeners. An error is that of a
// listener, or says that requests were cut off.
func (g *Gateway) Serve(ctx context.Context, s Serving) error {
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
	failed := make(chan error, 2)
	serve := func(srv *http.Server, l net.Listener) {
		wg.Go(func() {
			var err error
			if srv.TLSConfig != nil {
				err = srv.ServeTLS(l, "", "")
			} else {
				err = srv.Serve(l)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	serve(data, s.Data)
	if s.Admin != nil {
		serve(admin, s.Admin)
	}

	var err error
	select {
	case <-ctx.Done():
		err = g.drain(data, s)
	case err = <-failed:
	}
	_ = data.Close()
	_ = admin.Close()
	stop()
	wg.Wait()
	return err
}

// drain lets open requests end.
func (g *Gateway) drain(data *http.Server, s Serving) error {
	g.draining.Store(true)
	time.Sleep(s.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
	defer cancel()
	_ = data.Shutdown(ctx)
	for g.InFlight() > 0 && ctx.Err() == nil { // WebSockets, which it does not wait for
		time.Sleep(10 * time.Millisecond)
	}
	n := g.InFlight()
	if n == 0 {
		return nil
	}
	g.open.each(func(x *exchange) { x.cancel(errDraining) })
	// They end by themselves now, so that each is counted and logged.
	for end := time.Now().Add(2 * time.Second); g.InFlight() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n == 1 {
		return errors.New("1 request was cut off at the end of the drain timeout")
	}
	return fmt.Errorf("%d requests were cut off at the end of the drain timeout", n)
}

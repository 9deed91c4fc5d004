package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/render"
)

// discardLog drops net/http's log of clients' and upstreams' errors: metrics count them.
var discardLog = log.New(io.Discard, "", 0)

// Serving holds the listeners of Serve, and how it ends.
type Serving struct {
	Data, Admin net.Listener // Admin may be nil

	TLS *tls.Config // for clients; nil for cleartext, with HTTP/2 by prior knowledge

	DrainTimeout time.Duration // time for open requests after ctx has ended
}

// Serve serves until ctx ends, and then until open requests have ended or the drain time is over. It closes the
// listeners. It returns a listener's error, or an error that says that requests were cut off.
func (g *Gateway) Serve(ctx context.Context, s Serving) error {
	data := &http.Server{
		Handler: g, Protocols: new(http.Protocols), TLSConfig: s.TLS, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: readHeader,
		IdleTimeout:       idleClient, ErrorLog: discardLog, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	data.Protocols.SetHTTP1(true)
	data.Protocols.SetHTTP2(true)
	data.Protocols.SetUnencryptedHTTP2(true)
	admin := &http.Server{Handler: g.Admin(), ReadHeaderTimeout: readHeader, IdleTimeout: idleClient,
		ErrorLog: discardLog}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { g.Run(running) })
	failed := make(chan error, 2)
	wg.Go(func() {
		if s.TLS != nil {
			failed <- data.ServeTLS(s.Data, "", "")
		} else {
			failed <- data.Serve(s.Data)
		}
	})
	if s.Admin != nil {
		wg.Go(func() { failed <- admin.Serve(s.Admin) })
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

// drain waits for open requests, and cuts off those that exceed the drain timeout.
func (g *Gateway) drain(data *http.Server, s Serving) error {
	g.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
	defer cancel()
	_ = data.Shutdown(ctx)
	n := 0
	g.eachOpen(func(x *exchange) {
		n++
		x.cancel(errDraining)
	})
	if n == 0 {
		return nil
	}
	// Cancelled requests end by themselves, so that each is counted.
	ctx, cancel = context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = data.Shutdown(ctx)
	return fmt.Errorf("cut off at the end of the drain timeout: %s", render.Plural(n, "request"))
}

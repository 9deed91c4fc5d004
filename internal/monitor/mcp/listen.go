package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/sixty-dev/sixty/internal/base/listen"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

// Listen serves over HTTP at an address, under /mcp, until the context ends.
func Listen(ctx context.Context, stderr io.Writer, addr string, o Options) error {
	l, err := listen.TCP(ctx, "--listen", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", web.RequireAuth(&url.URL{Host: l.Addr().String()}, "", Handler(o)))
	h := &http.Server{Handler: listen.CutStalled(mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(stderr, "Serving MCP at http://%s/mcp\n", l.Addr())
	if listen.Public(addr) {
		fmt.Fprintf(stderr, "note: other machines can use %s without a password\n", addr)
	}
	ended := context.AfterFunc(ctx, func() { h.Close() })
	defer ended()
	if err := h.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

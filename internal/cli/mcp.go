package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/mcp"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/source"
	"github.com/sixty-dev/sixty/internal/web"
)

type mcpFlags struct {
	source   sourceFlags
	settings settingsFlags
	listen   string
}

func newMCPCommand() *cobra.Command {
	f := &mcpFlags{}
	cmd := &cobra.Command{
		Use:  "mcp",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), cmd.ErrOrStderr(), args) },
	}
	s := cmd.Flags()
	f.source.register(s)
	f.settings.register(s)
	s.DurationVar(&f.source.interval, "interval", 2*time.Second, "with URLs: time between two scrapes")
	s.StringVar(&f.listen, "listen", "", "serve over HTTP at this `address`, under /mcp, instead of standard input and output (loopback unless a host is given)")
	return cmd
}

func (f *mcpFlags) run(ctx context.Context, stderr io.Writer, args []string) error {
	if err := f.source.resolve(args); err != nil {
		return err
	}
	all := pathologies.All()
	set, err := f.settings.settings(all)
	if err != nil {
		return err
	}
	return withSource(ctx, stderr, f.source.spec, func(s *source.Source) error {
		ctx, stop := context.WithCancel(ctx)
		var scraping sync.WaitGroup
		defer scraping.Wait()
		defer stop()
		if s.Live != nil {
			scraping.Go(func() { s.Live.Run(ctx) })
			scraping.Go(func() { s.Live.Learn(ctx) })
		}
		endsWhenInterrupted(ctx)
		o := mcp.Options{Source: s, Explained: explained(), Diagnose: func(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
			if at.IsZero() {
				at = s.Span().Last
				if f.source.spec.Prometheus != "" {
					at = time.Now()
				}
			}
			o, err := s.Options(ctx, at)
			if err != nil {
				return diagnose.Diagnosis{}, err
			}
			o.Pathologies, o.Predict, o.Settings, o.Window = all, planning.PredictFixes, set, window
			return s.Diagnose(ctx, o)
		}}
		if f.listen == "" {
			err := mcp.Stdio(ctx, o)
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		return serveMCP(ctx, stderr, f.listen, o)
	})
}

// serveMCP serves over HTTP until the context ends.
func serveMCP(ctx context.Context, stderr io.Writer, addr string, o mcp.Options) error {
	l, err := web.Listen(ctx, "--listen", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", web.Guarded(&url.URL{Host: l.Addr().String()}, "", mcp.Handler(o)))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(stderr, "tools for assistants at http://%s/mcp\n", l.Addr())
	ended := context.AfterFunc(ctx, func() { h.Close() })
	defer ended()
	if err := h.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

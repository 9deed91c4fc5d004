package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/render"
)

type recordFlags struct {
	out                outFlag
	interval, duration time.Duration
	noHost             bool
	gateways           []string
	http               source.Access
}

func newRecordCommand() *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{Use: "record", Args: cobra.MinimumNArgs(1), RunE: f.run}
	s := cmd.Flags()
	f.out.register(s, "`path` to write: .tar.zst, .tar.gz, .tar, or a directory (required)")
	s.DurationVar(&f.interval, "interval", time.Second, "scrape interval")
	s.DurationVar(&f.duration, "duration", 5*time.Minute, "record for this long")
	source.AddHost(s, &f.noHost)
	source.AddGateways(s, &f.gateways)
	f.http.AddFlags(s)
	return cmd
}

func (f *recordFlags) run(cmd *cobra.Command, addresses []string) (err error) {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if f.out.path == "" {
		return hint.With(errors.New("--out is missing"), "add --out incident.tar.zst")
	}
	if f.interval < source.MinInterval || f.duration < f.interval || f.duration > 24*time.Hour {
		return fmt.Errorf("want --interval of at least %s, and --duration from that to 24h", source.MinInterval)
	}
	http, err := f.http.Config()
	if err != nil {
		return err
	}
	spec := source.Spec{HTTP: http, Interval: f.interval, Host: !f.noHost, Gateways: f.gateways}
	if err := spec.Add(addresses...); err != nil {
		return err
	}
	if spec.Recording != "" || spec.Prometheus != "" {
		return hint.With(errors.New("only live servers can be recorded"),
			"give their URLs, such as http://localhost:8000")
	}
	scraper, err := source.NewScraper(spec)
	if err != nil {
		return err
	}
	defer scraper.Close()
	out, err := recording.Create(f.out.path)
	if err != nil {
		return err
	}
	endsWhenInterrupted(ctx)
	scrapes, stop := context.WithTimeout(ctx, f.duration)
	defer stop()
	line := command.NewProgress(stderr)
	r, err := scraper.Record(scrapes, out, func(r source.Recorded) {
		line.Show("recording: %d scrapes, %d failed; stop with Ctrl-C", r.Pages+r.Empty, r.Empty)
	})
	saving(ctx)
	line.Clear()
	command.Notes(stderr, scraper.Notes())
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return f.report(cmd.OutOrStdout(), stderr, r)
}

// report prints the number of scrapes and the command to diagnose them. If there are none, it returns the reason.
func (f *recordFlags) report(stdout, stderr io.Writer, r source.Recorded) error {
	path := f.out.path
	if r.Pages == 0 {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			os.Remove(path) // this run created it: an archive is never overwritten
		}
		if r.Last == nil {
			return hint.With(errors.New("no scrape finished in time"), "record for longer")
		}
		return fmt.Errorf("nothing recorded: %w", r.Last)
	}
	if r.Full {
		command.Notes(stderr,
			[]string{fmt.Sprintf("stopped at %d MiB, the limit of a recording; use a longer --interval",
				recording.MaxTotal>>20)})
	}
	fmt.Fprintf(stdout, "recorded %d scrapes, %d failed, in %s\n", r.Pages+r.Empty, r.Empty, path)
	fmt.Fprintf(stdout, "Diagnose it: sixty diagnose %s\n", render.ShellWord(path))
	return nil
}

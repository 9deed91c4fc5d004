package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/fleet/demo"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/serve"
)

// demoFlags hold the flags of demo.
type demoFlags struct {
	faults []string
	color  string
	page   bool
	listen string
}

func newDemoCommand() *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{Use: "demo", Args: cobra.NoArgs, RunE: f.run}
	s := cmd.Flags()
	s.StringSliceVar(&f.faults, "fault", []string{"kv-cache-thrashing", "engine-hung", "gpu-throttling"},
		"faults to show, by the `names` of their pathologies, or all")
	command.SetValues(s, "fault",
		command.Values{Names: func() []string { return append([]string{"all"}, fleetScenarios()...) }})
	s.BoolVar(&f.page, "page", false,
		"then watch simulated servers of two models, one failing, and serve the monitor's page")
	s.StringVar(&f.listen, "listen", ":6060", "with --page: its `address`, or another one if that is in use")
	s.StringVar(&f.color, "color", "auto", "colours")
	return cmd
}

func (f *demoFlags) run(cmd *cobra.Command, _ []string) error {
	ctx, stdout := cmd.Context(), cmd.OutOrStdout()
	list, err := fleet.FindScenarios(pathologies.All(), f.faults)
	if err != nil {
		return fmt.Errorf("--fault: %w", err)
	}
	c := demo.Config{
		Scenarios: list, Pathologies: pathologies.All(), Next: demo.Next(os.Args[0], list[len(list)-1].Name),
		Out: stdout, Terminal: command.Terminal(stdout, f.color),
	}
	wrongVerdicts, err := demo.Run(ctx, c)
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	case wrongVerdicts > 0:
		return errFound
	}
	if f.page {
		return f.show(ctx, stdout, cmd.ErrOrStderr())
	}
	return nil
}

// unattended is how long the page is served if standard output is no terminal.
const unattended = time.Minute

// show starts simulated servers and the monitor, and prints the address of its page.
func (f *demoFlags) show(ctx context.Context, stdout, stderr io.Writer) (err error) {
	cast, err := demo.NewCast(pathologies.All())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cast.Close()) }()
	dir, err := os.MkdirTemp("", "sixty-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	until := "stop with Ctrl-C"
	if !command.IsTerminal(stdout) {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, unattended)
		defer cancel()
		until = "for " + unattended.String()
	}
	endsWhenInterrupted(ctx)
	saving(ctx)
	o := serve.Options{Config: serve.Config{
		Deployment: serve.Deployment{Targets: cast.URLs, NoHost: true}, Dir: dir, Addr: f.listen,
		Diagnose: diagnose.Options{Pathologies: pathologies.All(), Predict: planning.PredictFixes},
		Settings: func(*monitor.Section) (diagnose.Settings, error) { return diagnose.Settings{}, nil },
		Ready: func(url string, _ bool) {
			fmt.Fprintf(stdout, "\nWatching seven servers of two models; one of them fails in a minute.\nOpen %s  "+
				"(%s)\n",
				url, until)
		},
	}}
	o.LogTo(stderr)
	if err = serve.Run(ctx, o.Config); errors.Is(err, syscall.EADDRINUSE) {
		o.Addr = ":0"
		err = serve.Run(ctx, o.Config)
	}
	return err
}

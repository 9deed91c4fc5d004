package cli

import (
	"fmt"
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/listen"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/serve"
)

func newServeCommand() *cobra.Command {
	var o serve.Options
	cmd := &cobra.Command{
		Use: "serve",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
			o.Diagnose = diagnose.Options{Pathologies: pathologies.All(), Predict: planning.PredictFixes}
			o.Ready = func(url string, asks bool) {
				fmt.Fprintf(stderr, "Watching. Open %s\n", url)
				if listen.Public(o.Addr) && !asks {
					command.Notes(stderr, []string{"other machines can open " + o.Addr +
						" without a password: set --token-file, --web-config or sixty.access"})
				}
			}
			o.LogTo(stderr)
			if err := o.Read(args); err != nil {
				return err
			}
			if o.DryRun {
				return serve.DryRun(ctx, o.Config, cmd.OutOrStdout())
			}
			slog.SetDefault(o.Log)
			// The garbage collector works harder before a container's limit is reached; GOMEMLIMIT overrides it.
			_, _ = memlimit.Set(memlimit.WithRatio(0.9), memlimit.WithLogger(o.Log))
			endsWhenInterrupted(ctx)
			saving(ctx) // an interrupt waits until the storage is closed; a second one does not
			return serve.Run(ctx, o.Config)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

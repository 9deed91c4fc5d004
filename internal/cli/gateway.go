package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/gateway"
)

func newGatewayCommand() *cobra.Command {
	var o gateway.Options
	cmd := &cobra.Command{
		Use: "gateway",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				err := fmt.Errorf("%s takes no argument %q", cmd.CommandPath(), args[0])
				return hint.With(err, "name each server with --upstream "+args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			serve, err := o.Start(ctx, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			endsWhenInterrupted(ctx)
			saving(ctx) // an interrupt waits for open requests; a second one ends them
			return serve(ctx)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/gateway"
)

func newGatewayCommand() *cobra.Command {
	var o gateway.Options
	cmd := &cobra.Command{
		Use:  "gateway",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			serve, err := o.Start(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			endsWhenInterrupted(ctx)
			saving(ctx) // open requests are let end; a second signal ends them
			return serve(ctx)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

package cli

import (
	"time"

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
	fs := cmd.Flags()
	fs.StringArrayVar(&o.UpstreamURLs, "upstream", nil, "`URL` of a server; may be repeated: the one with the fewest open requests gets the next")
	fs.StringVar(&o.Listen, "listen", ":8080", "`address` for clients (loopback unless a host is given; 0.0.0.0:8080 for all)")
	fs.StringVar(&o.AdminAt, "admin", ":8081", "`address` of /metrics, /requests, /health and /ready, likewise; off for none")
	fs.StringVar(&o.Cert, "tls-cert", "", "PEM `file` of the certificate that clients see; HTTP/2 is then negotiated")
	fs.StringVar(&o.Key, "tls-key", "", "PEM `file` of its key")
	fs.StringVar(&o.UpstreamCA, "upstream-ca", "", "PEM `file` of the authority to trust for https upstreams")
	fs.BoolVar(&o.InsecureUpstreams, "upstream-insecure", false, "do not verify the certificates of https upstreams")
	fs.StringVar(&o.HealthPath, "health-path", "/health", "`path` that is asked of each upstream; an answer below 500 is a good one")
	fs.DurationVar(&o.HealthEvery, "health-interval", 5*time.Second, "time between health checks, and between readings of the engine's metrics")
	fs.BoolVar(&o.Sticky, "prefix-sticky", false, "prefer the upstream that got the same beginning of a prompt, unless it is busier than the mean by a quarter")
	fs.IntVar(&o.Retries, "retries", 2, "further attempts where the upstream cannot have begun to work; -1 for none")
	fs.DurationVar(&o.ConnectTimeout, "connect-timeout", 5*time.Second, "for a connection to an upstream")
	fs.DurationVar(&o.HeaderTimeout, "header-timeout", 10*time.Minute, "from sending a request to the head of its answer; -1s for none")
	fs.DurationVar(&o.IdleTimeout, "idle-timeout", 5*time.Minute, "of silence within an answer; -1s for none")
	fs.DurationVar(&o.RequestTimeout, "request-timeout", 0, "of a whole request (default: none)")
	fs.DurationVar(&o.ClientTimeout, "client-timeout", time.Minute, "of a client that does not read or send; -1s for none")
	fs.Int64Var(&o.MaxBodyMiB, "max-body", 1024, "largest request body in `MiB`; -1 for any")
	fs.IntVar(&o.MaxRequests, "max-requests", 65536, "open requests, beyond which 503 is answered")
	fs.DurationVar(&o.LeakAge, "leak-age", 300*time.Second, "a request that is open for longer is a suspected leak")
	fs.BoolVar(&o.AskUsage, "ask-usage", false, "ask upstreams for the token account of streams, and hide it from clients that did not ask")
	fs.StringVar(&o.TenantHeader, "tenant-header", "", "`header` that names the tenant, a label of the metrics")
	fs.BoolVar(&o.HashTenants, "hash-tenants", false, "show a hash of the tenant instead")
	fs.IntVar(&o.MaxTenants, "max-tenants", 100, "tenants that are told apart; others are \"other\"")
	fs.StringVar(&o.LogFile, "access-log", "", "`file` to which a line of JSON for each request is appended; - for standard output")
	fs.StringVar(&o.Collector, "otlp", "", "`URL` of an OTLP/HTTP collector, such as http://127.0.0.1:4318, for a trace of each request")
	fs.Float64Var(&o.TraceShare, "trace-sample", 1, "`share` of the requests without a sampling decision of their own that are traced")
	fs.IntVar(&o.Admission.MaxConcurrent, "max-concurrent", 0, "admission control: generating requests at a time, for each upstream that is up (default: any number)")
	fs.StringVar(&o.Knee, "knee", "", "admission control: --max-concurrent from the concurrency of a load test, in a baseline `file` that bench wrote")
	fs.IntVar(&o.Admission.MaxQueued, "max-queued", 0, "admission control: requests that wait for their turn; beyond, the least important one gets 429")
	fs.DurationVar(&o.Admission.QueueTimeout, "queue-timeout", 10*time.Second, "admission control: how long a request waits before it gets 429")
	fs.Float64Var(&o.Admission.TokensPerSecond, "max-token-rate", 0, "admission control: prompt and output tokens a `second`, averaged over ten")
	fs.StringVar(&o.PriorityHeader, "priority-header", "X-Priority", "`header` with a request's priority, a number; higher is more important")
	fs.DurationVar(&o.DrainDelay, "drain-delay", 0, "after SIGTERM: how long /ready fails while requests are still taken")
	fs.DurationVar(&o.DrainBy, "drain-timeout", 5*time.Minute, "after SIGTERM: how long open requests may take; a second signal ends them")
	return cmd
}

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sixty-dev/sixty/internal/gateway"
	"github.com/sixty-dev/sixty/internal/hint"
)

type gatewayFlags struct {
	upstreams           []string
	addr, admin         string
	cert, key           string
	upstreamCA          string
	insecure            bool
	accessLog           string
	otlp                string
	sample              float64
	knee                string
	drainDelay, drainBy time.Duration
	maxBody             int64
	cfg                 gateway.Config
}

func newGatewayCommand() *cobra.Command {
	var f gatewayFlags
	cmd := &cobra.Command{
		Use:  "gateway",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs, c := cmd.Flags(), &f.cfg
	fs.StringArrayVar(&f.upstreams, "upstream", nil, "`URL` of a server; may be repeated: the one with the fewest open requests gets the next")
	fs.StringVar(&f.addr, "listen", ":8080", "`address` for clients (loopback unless a host is given; 0.0.0.0:8080 for all)")
	fs.StringVar(&f.admin, "admin", ":8081", "`address` of /metrics, /requests, /health and /ready, likewise; off for none")
	fs.StringVar(&f.cert, "tls-cert", "", "PEM `file` of the certificate that clients see; HTTP/2 is then negotiated")
	fs.StringVar(&f.key, "tls-key", "", "PEM `file` of its key")
	fs.StringVar(&f.upstreamCA, "upstream-ca", "", "PEM `file` of the authority to trust for https upstreams")
	fs.BoolVar(&f.insecure, "upstream-insecure", false, "do not verify the certificates of https upstreams")
	fs.StringVar(&c.HealthPath, "health-path", "/health", "`path` that is asked of each upstream; an answer below 500 is a good one")
	fs.DurationVar(&c.HealthEvery, "health-interval", 5*time.Second, "time between health checks, and between readings of the engine's metrics")
	fs.BoolVar(&c.Sticky, "prefix-sticky", false, "prefer the upstream that got the same beginning of a prompt, unless it is busier than the mean by a quarter")
	fs.IntVar(&c.Retries, "retries", 2, "further attempts where the upstream cannot have begun to work; -1 for none")
	fs.DurationVar(&c.ConnectTimeout, "connect-timeout", 5*time.Second, "for a connection to an upstream")
	fs.DurationVar(&c.HeaderTimeout, "header-timeout", 10*time.Minute, "from sending a request to the head of its answer; -1s for none")
	fs.DurationVar(&c.IdleTimeout, "idle-timeout", 5*time.Minute, "of silence within an answer; -1s for none")
	fs.DurationVar(&c.RequestTimeout, "request-timeout", 0, "of a whole request (default: none)")
	fs.DurationVar(&c.ClientTimeout, "client-timeout", time.Minute, "of a client that does not read or send; -1s for none")
	fs.Int64Var(&f.maxBody, "max-body", 1024, "largest request body in `MiB`; -1 for any")
	fs.IntVar(&c.MaxRequests, "max-requests", 65536, "open requests, beyond which 503 is answered")
	fs.DurationVar(&c.LeakAge, "leak-age", 300*time.Second, "a request that is open for longer is a suspected leak")
	fs.BoolVar(&c.AskUsage, "ask-usage", false, "ask upstreams for the token account of streams, and hide it from clients that did not ask")
	fs.StringVar(&c.TenantHeader, "tenant-header", "", "`header` that names the tenant, a label of the metrics")
	fs.BoolVar(&c.HashTenants, "hash-tenants", false, "show a hash of the tenant instead")
	fs.IntVar(&c.MaxTenants, "max-tenants", 100, "tenants that are told apart; others are \"other\"")
	fs.StringVar(&f.accessLog, "access-log", "", "`file` to which a line of JSON for each request is appended; - for standard output")
	fs.StringVar(&f.otlp, "otlp", "", "`URL` of an OTLP/HTTP collector, such as http://127.0.0.1:4318, for a trace of each request")
	fs.Float64Var(&f.sample, "trace-sample", 1, "`share` of the requests without a sampling decision of their own that are traced")
	fs.IntVar(&c.Admission.MaxConcurrent, "max-concurrent", 0, "admission control: generating requests at a time, for each upstream that is up (default: any number)")
	fs.StringVar(&f.knee, "knee", "", "admission control: --max-concurrent from the concurrency of a load test, in a baseline `file` that bench wrote")
	fs.IntVar(&c.Admission.MaxQueued, "max-queued", 0, "admission control: requests that wait for their turn; beyond, the least important one gets 429")
	fs.DurationVar(&c.Admission.QueueTimeout, "queue-timeout", 10*time.Second, "admission control: how long a request waits before it gets 429")
	fs.Float64Var(&c.Admission.TokensPerSecond, "max-token-rate", 0, "admission control: prompt and output tokens a `second`, averaged over ten")
	fs.StringVar(&c.PriorityHeader, "priority-header", "X-Priority", "`header` with a request's priority, a number; higher is more important")
	fs.DurationVar(&f.drainDelay, "drain-delay", 0, "after SIGTERM: how long /ready fails while requests are still taken")
	fs.DurationVar(&f.drainBy, "drain-timeout", 5*time.Minute, "after SIGTERM: how long open requests may take; a second signal ends them")
	return cmd
}

// loopback makes the address of a port alone one of the loopback interface.
func loopback(addr string) string {
	if strings.HasPrefix(addr, ":") {
		return "127.0.0.1" + addr
	}
	return addr
}

func (f *gatewayFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	var mu sync.Mutex
	f.cfg.Note = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(stderr, "%s note: %s\n", time.Now().Format(time.TimeOnly), text)
	}
	if err := f.configure(); err != nil {
		return err
	}
	closeLog, err := f.openLog(stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	endTraces, err := f.traces(ctx)
	if err != nil {
		return err
	}
	defer endTraces()
	g, err := gateway.New(f.cfg)
	if err != nil {
		return err
	}
	s := gateway.Serving{DrainDelay: f.drainDelay, DrainTimeout: f.drainBy}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return hint.With(fmt.Errorf("--tls-cert, --tls-key: %w", err), "name both PEM files")
		}
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	}
	if s.Data, err = listenAt(ctx, "--listen", f.addr); err != nil {
		return err
	}
	if f.admin != "off" {
		if s.Admin, err = listenAt(ctx, "--admin", f.admin); err != nil {
			return errors.Join(err, s.Data.Close())
		}
	}
	f.describe(stderr, s)
	endsWhenInterrupted(ctx)
	saving(ctx) // open requests are let end; a second signal ends them
	return g.Serve(ctx, s)
}

// configure turns flags into the configuration.
func (f *gatewayFlags) configure() error {
	if len(f.upstreams) == 0 {
		return hint.With(errors.New("--upstream is missing"), "name a server, such as --upstream http://127.0.0.1:8000")
	}
	for _, text := range f.upstreams {
		if !strings.Contains(text, "://") {
			text = "http://" + text
		}
		u, err := url.Parse(text)
		if err != nil {
			return errors.New("--upstream: not a URL") // it may hold a secret
		}
		f.cfg.Upstreams = append(f.cfg.Upstreams, u)
	}
	var err error
	if f.upstreamCA != "" || f.insecure {
		if f.cfg.TLS, err = config.NewTLSConfig(&config.TLSConfig{CAFile: f.upstreamCA, InsecureSkipVerify: f.insecure}); err != nil {
			return fmt.Errorf("--upstream-ca: %w", err)
		}
	}
	if f.cfg.MaxBody = f.maxBody << 20; f.maxBody < 0 {
		f.cfg.MaxBody = -1
	}
	if f.sample < 0 || f.sample > 1 {
		return fmt.Errorf("--trace-sample: %v is not between 0 and 1", f.sample)
	}
	if f.knee != "" {
		b, named, err := baselineFile(f.knee)
		if err == nil && !named {
			err = errors.New("not a file")
		}
		if err != nil {
			return hint.Or(fmt.Errorf("--knee %s: %w", f.knee, err), "write one with: sixty bench URL --search rate --slo chat --baseline FILE")
		}
		n := int(math.Ceil(b.Concurrency))
		if n < 1 {
			return hint.With(fmt.Errorf("--knee: %s tells no concurrency", f.knee), "write one with: sixty bench URL --search rate --slo chat --baseline FILE")
		}
		f.cfg.Admission.MaxConcurrent = n
	}
	return nil
}

// openLog opens the access log.
func (f *gatewayFlags) openLog(stdout io.Writer) (closeLog func() error, err error) {
	switch f.accessLog {
	case "":
	case "-":
		f.cfg.AccessLog = stdout
	default:
		file, err := os.OpenFile(f.accessLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--access-log: %w", err)
		}
		f.cfg.AccessLog = file
		return file.Close, nil
	}
	return func() error { return nil }, nil
}

// traces sets the tracer up, and returns what sends the last spans.
func (f *gatewayFlags) traces(ctx context.Context) (end func(), err error) {
	if f.otlp == "" {
		return func() {}, nil
	}
	u, err := url.Parse(f.otlp)
	if err != nil || u.Host == "" {
		return nil, hint.With(errors.New("--otlp: not a URL"), "name a collector, such as --otlp http://127.0.0.1:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sixty-gateway")), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(f.sample))))
	f.cfg.Tracer = provider.Tracer("sixty-gateway")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			f.cfg.Note("the last traces were not delivered")
		}
	}, nil
}

func listenAt(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(addr))
	if err != nil {
		return nil, hint.With(fmt.Errorf("%s: %w", flag, err), "choose another address, such as "+flag+" :0")
	}
	return l, nil
}

// describe says where what is, on standard error: standard output may be the
// access log.
func (f *gatewayFlags) describe(w io.Writer, s gateway.Serving) {
	scheme := "http"
	if s.TLS != nil {
		scheme = "https"
	}
	fmt.Fprintf(w, "clients      %s://%s\n", scheme, s.Data.Addr())
	for _, u := range f.cfg.Upstreams {
		fmt.Fprintf(w, "upstream     %s\n", u.Redacted())
	}
	if s.Admin != nil {
		fmt.Fprintf(w, "metrics      http://%s/metrics\nrequests     http://%[1]s/requests\n", s.Admin.Addr())
	}
	fmt.Fprintln(w, "end it with ctrl-C or SIGTERM: open requests are let end, a second one ends them")
}

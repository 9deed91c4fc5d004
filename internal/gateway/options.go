package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/listen"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
)

// Options are a Config and the listeners of a Gateway as a user names them: addresses and
// files. Errors name the flags of sixty gateway.
type Options struct {
	Config

	UpstreamURLs        []string // a scheme may be missing
	UpstreamCA          string   // PEM file of an authority to trust
	InsecureUpstreams   bool     // their certificates are not verified
	MaxBodyMiB          int64    // 0 for any
	Listen, AdminAt     string   // addresses; of a port alone on loopback, AdminAt "off" for none
	Cert, Key           string   // PEM files, for clients
	DrainDelay, DrainBy time.Duration
	LogFile             string // of accesses, appended to; "-" for standard output, "" for none
	Collector           string // URL of an OTLP/HTTP collector, "" for none
	Knee                string // baseline file that tells Admission.MaxConcurrent
}

// AddFlags adds the flags of sixty gateway.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.UpstreamURLs, "upstream", nil, "`URL` of a server; may be repeated: the one with the fewest open requests gets the next request")
	fs.StringVar(&o.Listen, "listen", ":8080", "`address` for clients (loopback unless a host is given; 0.0.0.0:8080 for all)")
	fs.StringVar(&o.AdminAt, "admin", ":8081", "`address` of /metrics, /requests, /health and /ready, likewise; off for none")
	fs.StringVar(&o.Cert, "tls-cert", "", "PEM `file` of the server certificate; enables HTTP/2")
	fs.StringVar(&o.Key, "tls-key", "", "PEM `file` of its key")
	fs.StringVar(&o.UpstreamCA, "upstream-ca", "", "PEM `file` of the authority to trust for https upstreams")
	fs.BoolVar(&o.InsecureUpstreams, "upstream-insecure", false, "do not verify the certificates of https upstreams")
	fs.StringVar(&o.HealthPath, "health-path", defaultHealthPath, "health check `path` of each upstream; a status below 500 is healthy")
	fs.DurationVar(&o.HealthEvery, "health-interval", defaultHealthEvery, "interval of health checks and of reading the engine's metrics")
	fs.BoolVar(&o.Sticky, "prefix-sticky", false, "prefer the upstream that got the same prompt prefix, unless it is busier than the mean by a quarter")
	fs.IntVar(&o.Retries, "retries", 2, "retries if the upstream cannot have started to work")
	fs.DurationVar(&o.ConnectTimeout, "connect-timeout", 5*time.Second, "connection timeout of an upstream; 0 for none")
	fs.DurationVar(&o.HeaderTimeout, "header-timeout", 10*time.Minute, "timeout from sending a request to its response header; 0 for none")
	fs.DurationVar(&o.IdleTimeout, "idle-timeout", 5*time.Minute, "timeout of silence within an answer; 0 for none")
	fs.DurationVar(&o.RequestTimeout, "request-timeout", 0, "timeout of a whole request (default: none)")
	fs.DurationVar(&o.ClientTimeout, "client-timeout", time.Minute, "timeout of a client that does not read or send; 0 for none")
	fs.Int64Var(&o.MaxBodyMiB, "max-body", 64, "largest request body in `MiB`, kept in memory until the answer begins; 0 for unlimited")
	fs.IntVar(&o.MaxRequests, "max-requests", 1<<16, "maximum open requests, then HTTP 503; 0 for unlimited")
	fs.DurationVar(&o.LeakAge, "leak-age", 300*time.Second, "age from which an open request is a suspected leak")
	fs.BoolVar(&o.AskUsage, "ask-usage", false, "request token usage of streams from upstreams, and hide it from clients that did not request it")
	fs.StringVar(&o.TenantHeader, "tenant-header", "", "`header` that names the tenant, a label of the metrics")
	fs.BoolVar(&o.HashTenants, "hash-tenants", false, "show a hash of the tenant instead")
	fs.IntVar(&o.MaxTenants, "max-tenants", 100, "maximum number of tenants; others are \"other\"")
	fs.StringVar(&o.LogFile, "access-log", "", "`file` to which a line of JSON for each request is appended; - for standard output")
	fs.StringVar(&o.Collector, "otlp", "", "`URL` of an OTLP/HTTP collector, such as http://127.0.0.1:4318, for a trace of each request, or of those sampled by OTEL_TRACES_SAMPLER")
	fs.IntVar(&o.Admission.MaxConcurrent, "max-concurrent", 0, "admission control: concurrent generation requests per healthy upstream (default: unlimited)")
	fs.StringVar(&o.Knee, "knee", "", "admission control: --max-concurrent from the concurrency of a load test, in a baseline `file` that bench wrote")
	fs.IntVar(&o.Admission.MaxQueued, "max-queued", 0, "admission control: maximum queue; beyond it, the lowest-priority request gets 429")
	fs.Float64Var(&o.Admission.TokensPerSecond, "max-token-rate", 0, "admission control: prompt and output tokens per `second`, averaged over ten")
	fs.DurationVar(&o.DrainDelay, "drain-delay", 0, "after SIGTERM: how long /ready fails while requests are still accepted")
	fs.DurationVar(&o.DrainBy, "drain-timeout", 5*time.Minute, "after SIGTERM: how long open requests may take; a second signal ends them")
}

// Start opens what the options name and says where it listens. The returned function
// serves until its context ends.
func (o Options) Start(ctx context.Context, stdout, stderr io.Writer) (serve func(context.Context) error, err error) {
	var mu sync.Mutex
	o.Note = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(stderr, "%s note: %s\n", time.Now().Format(time.TimeOnly), text)
	}
	if err := o.read(); err != nil {
		return nil, err
	}
	switch o.LogFile {
	case "":
	case "-":
		o.AccessLog = stdout
	default:
		file, err := os.OpenFile(o.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--access-log: %w", err)
		}
		o.AccessLog = file
	}
	endTraces := func() {}
	if o.Collector != "" {
		if endTraces, err = o.traces(ctx); err != nil {
			return nil, fmt.Errorf("--otlp: %w", err)
		}
	}
	g, err := New(o.Config)
	if err != nil {
		return nil, err
	}
	s := Serving{DrainDelay: o.DrainDelay, DrainTimeout: o.DrainBy}
	if o.Cert != "" || o.Key != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, hint.With(fmt.Errorf("--tls-cert, --tls-key: %w", err), "name both PEM files")
		}
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	}
	if s.Data, err = listen.TCP(ctx, "--listen", o.Listen); err != nil {
		return nil, err
	}
	if o.AdminAt != "off" {
		if s.Admin, err = listen.TCP(ctx, "--admin", o.AdminAt); err != nil {
			return nil, errors.Join(err, s.Data.Close())
		}
	}
	o.describe(stderr, s)
	return func(ctx context.Context) error { defer endTraces(); return g.Serve(ctx, s) }, nil
}

// read turns texts and files into the configuration.
func (o *Options) read() (err error) {
	if len(o.UpstreamURLs) == 0 {
		return hint.With(errors.New("--upstream is missing"), "name a server, such as --upstream http://127.0.0.1:8000")
	}
	for _, text := range o.UpstreamURLs {
		if !strings.Contains(text, "://") {
			text = "http://" + text
		}
		u, err := url.Parse(text)
		if err != nil {
			return errors.New("--upstream: not a URL") // it may hold a secret
		}
		o.Upstreams = append(o.Upstreams, u)
	}
	if o.UpstreamCA != "" || o.InsecureUpstreams {
		if o.TLS, err = config.NewTLSConfig(&config.TLSConfig{CAFile: o.UpstreamCA, InsecureSkipVerify: o.InsecureUpstreams}); err != nil {
			return fmt.Errorf("--upstream-ca: %w", err)
		}
	}
	o.MaxBody = o.MaxBodyMiB << 20
	if o.Knee == "" {
		return nil
	}
	var b *baseline.File
	content, err := fileio.Read(o.Knee, baseline.MaxFile)
	if err == nil {
		b, err = baseline.Parse(o.Knee, content)
	}
	if err == nil && b.Concurrency <= 0 {
		err = errors.New("it has no concurrency")
	}
	if err != nil {
		return hint.Or(fmt.Errorf("--knee %s: %w", o.Knee, err), "write one with: sixty bench URL --search rate --use-case chat --save-baseline FILE")
	}
	o.Admission.MaxConcurrent = int(math.Ceil(b.Concurrency))
	return nil
}

// traces sets the tracer up, and returns what sends the last spans.
func (o *Options) traces(ctx context.Context) (end func(), err error) {
	u, err := url.Parse(o.Collector)
	if err != nil || u.Host == "" {
		return nil, hint.With(errors.New("not a URL"), "name a collector, such as --otlp http://127.0.0.1:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sixty-gateway")), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	o.Tracer = provider.Tracer("sixty-gateway")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			o.Note("the last traces were not delivered")
		}
	}, nil
}

// describe says where what is, on standard error: standard output may be the access log.
func (o *Options) describe(w io.Writer, s Serving) {
	scheme := "http"
	if s.TLS != nil {
		scheme = "https"
	}
	fmt.Fprintf(w, "clients      %s://%s\n", scheme, s.Data.Addr())
	for _, u := range o.Upstreams {
		fmt.Fprintf(w, "upstream     %s\n", u.Redacted())
	}
	if s.Admin != nil {
		fmt.Fprintf(w, "metrics      http://%s/metrics\nrequests     http://%[1]s/requests\n", s.Admin.Addr())
	}
	fmt.Fprintln(w, "Stop with Ctrl-C or SIGTERM; open requests are completed, a second signal cuts them off.")
}

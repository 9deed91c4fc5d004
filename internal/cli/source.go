package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/source"
	"github.com/sixty-dev/sixty/internal/workload"
)

// sourceFlags say where samples come from, for every verb that reads any: together with
// the arguments, each a server's URL, a recording, or prometheus=URL.
type sourceFlags struct {
	recording, prometheus string
	match                 []string
	at                    string
	window                time.Duration
	interval, duration    time.Duration // of scraping URLs
	http                  httpFlags
	gateways              []string // before URLs

	spec source.Spec // what they say, once resolved
}

func (f *sourceFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.recording, "recording", "", "a recording; an argument does the same")
	s.StringVar(&f.prometheus, "prometheus", "", "ask a Prometheus-compatible server at this `URL`")
	s.StringArrayVar(&f.match, "match", nil,
		"with --prometheus: `selector` such as '{namespace=\"prod\"}' or namespace=prod; may be repeated, all must match")
	f.http.register(s)
	if err := s.MarkHidden("recording"); err != nil {
		panic(err) // it was registered above
	}
}

// registerHost adds the flag that switches the reading of this machine off.
func registerHost(s *pflag.FlagSet, off *bool) {
	s.BoolVar(off, "no-host-metrics", false, "with URLs of this machine: do not read its GPUs (nvidia-smi, amd-smi, rocm-smi) and its operating system")
}

// registerGateways adds the flag that names gateways.
func registerGateways(s *pflag.FlagSet, urls *[]string) {
	s.StringSliceVar(urls, "gateway", nil, "with URLs: `URLs` of the admin listener of sixty gateway, or of the metrics of Envoy, Istio, HAProxy, nginx, Traefik or Kong: what clients see")
}

// registerPast adds the flags that choose a part of what is at hand.
func (f *sourceFlags) registerPast(s *pflag.FlagSet, at, window string) {
	s.StringVar(&f.at, "at", "", at+" (default: the end of the recording, or now)")
	s.DurationVar(&f.window, "window", 0, window)
}

// registerPace adds the flags that say how URLs are scraped; name is that of the time
// they are scraped for.
func (f *sourceFlags) registerPace(s *pflag.FlagSet, name string, usual time.Duration, help string) {
	s.DurationVar(&f.interval, "interval", source.DefaultInterval, "with URLs: time between two scrapes")
	s.DurationVar(&f.duration, name, usual, help)
}

// resolve takes the flags and the arguments for what they are, and refuses those that
// contradict each other.
func (f *sourceFlags) resolve(args []string) (err error) {
	f.spec = source.Spec{Recording: f.recording, Prometheus: f.prometheus, Gateways: f.gateways, Interval: f.interval}
	if err := f.spec.Add(args...); err != nil {
		return err
	}
	if len(f.match) > 0 && f.spec.Prometheus == "" {
		return errors.New("--match goes with --prometheus")
	}
	if f.spec.Matchers, err = source.ParseMatchers(f.match); err != nil {
		return err
	}
	f.spec.HTTP, err = f.http.Config()
	return err
}

// checkTimes refuses times that the source does not have.
func (f *sourceFlags) checkTimes() error {
	switch live := len(f.spec.URLs) > 0; {
	case live && (f.at != "" || f.window != 0):
		return hint.With(errors.New("--at and --window need a past, and a live run has none"),
			"name a recording or a --prometheus server, or leave them out")
	case f.window < 0:
		return fmt.Errorf("--window: %s is negative", f.window)
	case live && f.interval < minInterval:
		return fmt.Errorf("--interval: %s is less than %s", f.interval, minInterval)
	case live && (f.duration < f.interval || f.duration > maxDuration):
		return fmt.Errorf("--duration: %s is not between --interval (%s) and %s", f.duration, f.interval, maxDuration)
	}
	return nil
}

// Bounds of --interval and --duration.
const (
	minInterval = 100 * time.Millisecond
	maxDuration = time.Hour
)

// withSource opens a source for fn and notes in the end what was passed over.
func withSource(ctx context.Context, stderr io.Writer, spec source.Spec, fn func(*source.Source) error) error {
	return source.With(ctx, spec, func(list []string) { notes(stderr, list) }, fn)
}

// argument is the source that one argument names.
func argument(text string, http *httpFlags, match []*labels.Matcher) (spec source.Spec, err error) {
	if err = spec.Add(text); err != nil {
		return spec, err
	}
	if spec.Prometheus != "" {
		spec.Matchers = match
	}
	spec.HTTP, err = http.Config()
	return spec, err
}

// observedFlags say which running servers are measured, and when.
type observedFlags struct {
	sourceFlags
	model string
}

func (f *observedFlags) register(s *pflag.FlagSet) {
	f.sourceFlags.register(s)
	f.registerPast(s, "measure up to this `time`",
		"measure this much time before --at (default: a whole recording; 15m of a Prometheus server)")
	f.registerPace(s, "watch", time.Minute, "with URLs: scrape for this long")
	s.StringVar(&f.model, "model", "", "with servers of several models: measure those of this `name`")
}

func (f *observedFlags) check(args []string) error {
	if err := f.resolve(args); err != nil {
		return err
	}
	return f.checkTimes()
}

// given reports whether any servers are to be measured.
func (f *observedFlags) given() bool { return f.spec.Given() > 0 }

// observe measures the servers.
func (f *observedFlags) observe(ctx context.Context, stderr io.Writer) (o *workload.Measured, err error) {
	err = withSource(ctx, stderr, f.spec, func(s *source.Source) error {
		if s.Live != nil {
			line := newProgress(stderr)
			s.Live.Learn(ctx)
			s.Live.RunFor(ctx, f.duration, func(ran time.Duration) {
				line.show("watching: %.0f s of %.0f s", ran.Seconds(), f.duration.Seconds())
			})
			line.clear()
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		at, err := s.Span().At(f.at)
		if err != nil {
			return err
		}
		o, err = s.Observe(ctx, f.model, at, f.window)
		return err
	})
	return o, err
}

// httpFlags say how to authenticate and encrypt; letters are curl's.
type httpFlags struct{ source.Access }

func (f *httpFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.File, "http-config", "", "YAML `file` with the HTTP settings of a Prometheus scrape configuration (authorization, oauth2, tls_config, …)")
	s.StringVar(&f.BearerTokenFile, "bearer-token-file", "", "`file` that holds a bearer token")
	s.StringVar(&f.BasicAuth, "basic-auth", "", "`USER:FILE`, the file holding the password")
	s.StringArrayVarP(&f.Headers, "header", "H", nil, "further header, as `'Name: value'`; may be repeated")
	s.StringVar(&f.CA, "tls-ca", "", "PEM `file` of the certificate authority to trust")
	s.StringVar(&f.Cert, "tls-cert", "", "PEM `file` of the client's certificate")
	s.StringVar(&f.Key, "tls-key", "", "PEM `file` of the client's key")
	s.BoolVarP(&f.Insecure, "insecure-skip-verify", "k", false, "do not verify the server's certificate")
}

package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Flags say where samples come from, for every verb that reads any. So do the arguments: each is a server's URL, a
// recording, or prometheus=URL.
type Flags struct {
	Spec // the resolved flags and arguments
	Access
	At               string        // the moment to look at
	Window, Duration time.Duration // judged window; time to scrape URLs
	match            []string
}

// AddFlags adds the flags that every verb has.
func (f *Flags) AddFlags(s *pflag.FlagSet) {
	s.StringVar(&f.Recording, "recording", "", "a recording's `file` or directory; same as an argument")
	s.StringVar(&f.Prometheus, "prometheus", "", "query a Prometheus-compatible server at this `URL`")
	s.StringArrayVar(&f.match, "match", nil,
		"with --prometheus: `selector` such as '{namespace=\"prod\"}' or namespace=prod; may be repeated, all must match")
	f.Access.AddFlags(s)
	if err := s.MarkHidden("recording"); err != nil {
		panic(err) // it was registered above
	}
}

// AddPast adds the flags that select a part of the available time.
func (f *Flags) AddPast(s *pflag.FlagSet, at, window string) {
	s.StringVar(&f.At, "at", "", at+" (default: the end of the recording, or now)")
	s.DurationVar(&f.Window, "window", 0, window)
}

// AddPace adds the flags for scraping URLs. name is the flag for how long, and usual its default.
func (f *Flags) AddPace(s *pflag.FlagSet, name string, usual time.Duration, help string) {
	s.DurationVar(&f.Interval, "interval", DefaultInterval, "with URLs: scrape interval")
	s.DurationVar(&f.Duration, name, usual, help)
}

// AddHost adds the flag that turns off reading this machine.
func AddHost(s *pflag.FlagSet, off *bool) {
	s.BoolVar(off, "no-host-metrics", false,
		"with URLs on this machine: do not read its GPUs (nvidia-smi) and its operating system")
}

// AddGateways adds the flag that names gateways.
func AddGateways(s *pflag.FlagSet, urls *[]string) {
	s.StringSliceVar(urls, "gateway", nil,
		"with URLs: `URLs` of the admin listener of sixty gateway or of the metrics of Envoy, Istio, HAProxy, nginx, Traefik or Kong, for the client's view")
}

// Resolve parses the flags and the arguments into the Spec, and refuses those that contradict each other.
func (f *Flags) Resolve(args []string) (err error) {
	if err := f.Add(args...); err != nil {
		return err
	}
	if len(f.match) > 0 && f.Prometheus == "" {
		return errors.New("--match needs --prometheus")
	}
	if f.Matchers, err = ParseMatchers(f.match); err != nil {
		return err
	}
	if f.HTTP, f.Signing, err = f.Load(); err != nil {
		return err
	}
	return f.checkSigning()
}

// CheckTimes refuses times that the source does not have.
func (f *Flags) CheckTimes() error {
	switch live := len(f.URLs) > 0; {
	case live && (f.At != "" || f.Window != 0):
		return hint.With(errors.New("--at and --window need a past, which a live run does not have"),
			"give a recording or --prometheus URL, or remove the flags")
	case f.Window < 0:
		return fmt.Errorf("--window: %s is negative", f.Window)
	case live && f.Interval < MinInterval:
		return fmt.Errorf("--interval: %s is less than %s", f.Interval, MinInterval)
	case live && (f.Duration < f.Interval || f.Duration > maxDuration):
		return fmt.Errorf("--duration: %s is not between --interval (%s) and %s", f.Duration, f.Interval, maxDuration)
	}
	return nil
}

// Bounds of --interval and --duration.
const (
	MinInterval = 100 * time.Millisecond
	maxDuration = time.Hour
)

// Watch scrapes the servers of URLs for --duration, and shows the elapsed time. Other sources are complete already.
func (f *Flags) Watch(ctx context.Context, s *Source, show func(format string, args ...any)) error {
	if s.Live == nil {
		return nil
	}
	s.Live.FetchFacts(ctx)
	s.Live.RunFor(ctx, f.Duration, func(ran time.Duration) {
		show("watching: %.0f s of %.0f s", ran.Seconds(), f.Duration.Seconds())
	})
	return ctx.Err()
}

// Observed holds the flags that say which running servers to measure, and when.
type Observed struct {
	Flags
	Model string
	// A replica on which one of Pathologies is found is left out; nil leaves out none.
	Pathologies []*catalog.Pathology
}

// AddFlags adds the flags of a measurement.
func (f *Observed) AddFlags(s *pflag.FlagSet) {
	f.Flags.AddFlags(s)
	f.AddPast(s, "measure up to this `time`",
		"measure this much time before --at (default: a whole recording; 15m of a Prometheus server)")
	f.AddPace(s, "observe", time.Minute, "with URLs: scrape for this long")
	s.StringVar(&f.Model, "model", "", "with servers of several models: measure those of this `name`")
}

// Resolve is Flags.Resolve, and refuses times that the source does not have.
func (f *Observed) Resolve(args []string) error {
	if err := f.Flags.Resolve(args); err != nil {
		return err
	}
	return f.CheckTimes()
}

// Observe measures the servers.
func (f *Observed) Observe(ctx context.Context, note func([]string),
	show func(format string, args ...any)) (o *workload.Measured, err error) {
	err = With(ctx, f.Spec, note, func(s *Source) error {
		if err := f.Watch(ctx, s, show); err != nil {
			return err
		}
		at, err := s.Span().At(f.At)
		if err != nil {
			return err
		}
		o, err = s.Observe(ctx, f.Model, at, f.Window, f.Pathologies)
		return err
	})
	return o, err
}

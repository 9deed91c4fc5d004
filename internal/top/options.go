package top

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/remote"
)

// Options select the source and how it is judged. Errors name the flags of sixty top.
type Options struct {
	Source      source.Flags
	Judged      settings.Flags
	Pathologies []*catalog.Pathology
	Monitor     string // URL of the monitor to show without arguments
}

const (
	every       = 5 * time.Second  // between two evaluations of live servers
	step        = 5 * time.Second  // how far an arrow key moves in a recording
	feedTimeout = 20 * time.Second // for an overview or a text
)

// AddFlags adds the flags.
func (o *Options) AddFlags(s *pflag.FlagSet) {
	o.Source.AddFlags(s)
	o.Judged.AddFlags(s)
	s.DurationVar(&o.Source.Interval, "interval", 2*time.Second, "with URLs: scrape interval")
	s.StringVar(&o.Source.At, "at", "", "with a recording: start at this `time` (default: its end)")
}

// Open opens a running monitor, or one of the sources of all verbs.
func (o *Options) Open(ctx context.Context, args []string) (Feed, error) {
	if len(args) == 0 && o.Source.Prometheus == "" {
		args = []string{o.Monitor}
	}
	if err := o.Source.Resolve(args); err != nil {
		return nil, err
	}
	if urls := o.Source.URLs; len(urls) == 1 {
		if m, ok := remote.Find(ctx, urls[0], o.Source.HTTP); ok {
			return &monitorFeed{baseFeed{m.URL, 2 * time.Second}, m}, nil
		}
	}
	set, err := o.Judged.Read(o.Pathologies)
	if err != nil {
		return nil, err
	}
	judged := diagnose.Options{Pathologies: o.Pathologies, Settings: set}
	s, err := source.Open(ctx, o.Source.Spec)
	if err != nil {
		return nil, err
	}
	if o.Source.Recording != "" {
		at, err := s.Span().At(o.Source.At)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return newRecordingFeed(s, judged, at), nil
	}
	return newLiveFeed(ctx, s, judged, o.Source.Interval), nil
}

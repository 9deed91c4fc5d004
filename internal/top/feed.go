// Package top shows servers in a terminal: the verdicts, a line for each replica below them, and the evidence on
// request.
//
// Options.Open makes a Feed from the arguments (options.go): of live servers or a Prometheus server, which are judged
// in this process; of a recording, through whose time keys move; or of a running monitor. The model (top.go) is the
// state of the terminal program: it fetches overviews from the feed at intervals and handles keys. The screen
// (screen.go) draws an overview, and performs no I/O.
package top

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/remote"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// A Feed provides what a screen shows. It is safe for concurrent use.
type Feed interface {
	// Name returns the name of the source, for the first line of the screen.
	Name() string
	// Overview returns the latest overview.
	Overview(ctx context.Context) (view.Overview, error)
	// Text returns the full diagnosis.
	Text(ctx context.Context, o render.Options) (string, error)
	// Seek moves by a number of steps in a recording, and reports whether the time changed.
	Seek(steps int) bool
	// Span returns the time range of a recording; zero for other feeds.
	Span() (first, last time.Time)
	// Every returns the interval between new overviews; 0 if only Seek gives a new one.
	Every() time.Duration
	Close() error
}

// baseFeed has the methods that feeds share. recordingFeed replaces Seek and Span.
type baseFeed struct {
	name  string
	every time.Duration
}

func (p baseFeed) Name() string                { return p.name }
func (p baseFeed) Every() time.Duration        { return p.every }
func (baseFeed) Seek(int) bool                 { return false }
func (baseFeed) Span() (first, last time.Time) { return }

// A liveFeed is a source that this process judges at intervals.
type liveFeed struct {
	baseFeed
	source  *source.Source
	monitor *monitor.Monitor
	stop    context.CancelFunc
	parts   sync.WaitGroup
}

// newLiveFeed judges live servers, which are scraped at an interval, or a Prometheus server. Live servers are first
// judged after two scrapes.
func newLiveFeed(ctx context.Context, s *source.Source, o diagnose.Options, scrapeInterval time.Duration) Feed {
	ctx, stop := context.WithCancel(ctx)
	w := &liveFeed{baseFeed: baseFeed{s.Name, every}, source: s, stop: stop}
	options := monitor.Options{Source: s, Diagnose: o, Every: every, Log: slog.New(slog.DiscardHandler)}
	if s.Live != nil {
		options.InitialDelay = 2*scrapeInterval + time.Second/2
	}
	w.monitor = monitor.New(options)
	if s.Live != nil {
		w.parts.Go(func() { s.Live.Run(ctx) })
		w.parts.Go(func() { s.Live.FetchFacts(ctx) })
	}
	w.parts.Go(func() { w.monitor.Run(ctx) })
	return w
}

func (w *liveFeed) Overview(context.Context) (view.Overview, error) {
	return monitor.NewOverview(w.monitor.Latest(), every, time.Now(), nil, nil), nil
}

func (w *liveFeed) Text(_ context.Context, o render.Options) (string, error) {
	e := w.monitor.Latest()
	if e == nil {
		return "", errors.New("no verdict yet")
	}
	if e.Err != nil {
		return "", e.Err
	}
	return fullText(&e.Diagnosis, o)
}

func (w *liveFeed) Close() error {
	w.stop()
	w.parts.Wait()
	return w.source.Close()
}

// fullText writes the full diagnosis.
func fullText(d *diagnose.Diagnosis, o render.Options) (string, error) {
	var b bytes.Buffer
	err := report.Text(&b, *d, report.Options{Options: o, Full: true})
	return b.String(), err
}

// A recordingFeed is a recording at one time, which Seek changes.
type recordingFeed struct {
	baseFeed
	source  *source.Source
	options diagnose.Options

	mu     sync.Mutex
	at     time.Time
	latest *monitor.Evaluation // the last one
}

func newRecordingFeed(s *source.Source, o diagnose.Options, at time.Time) Feed {
	return &recordingFeed{baseFeed: baseFeed{name: s.Name}, source: s, options: o, at: at}
}

func (r *recordingFeed) Close() error { return r.source.Close() }

func (r *recordingFeed) Span() (first, last time.Time) {
	span := r.source.Span()
	return span.First, span.Last
}

func (r *recordingFeed) Seek(steps int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	span := r.source.Span()
	at := r.at.Add(time.Duration(steps) * step)
	if at.Before(span.First) {
		at = span.First
	}
	if at.After(span.Last) {
		at = span.Last
	}
	moved := !at.Equal(r.at)
	r.at = at
	return moved
}

// diagnoseOnce diagnoses the current time, unless the last evaluation did.
func (r *recordingFeed) diagnoseOnce(ctx context.Context) (*monitor.Evaluation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest != nil && r.latest.At.Equal(r.at) {
		return r.latest, nil
	}
	o, err := r.source.Options(ctx, r.at)
	if err != nil {
		return nil, err
	}
	o.Pathologies, o.Settings = r.options.Pathologies, r.options.Settings
	began := time.Now()
	d, err := r.source.Diagnose(ctx, o)
	if err != nil {
		return nil, err
	}
	r.latest = &monitor.Evaluation{At: r.at, Took: time.Since(began), Diagnosis: d}
	return r.latest, nil
}

func (r *recordingFeed) Overview(ctx context.Context) (view.Overview, error) {
	e, err := r.diagnoseOnce(ctx)
	if err != nil {
		return view.Overview{}, err
	}
	return monitor.NewOverview(e, step, e.At, nil, nil), nil
}

func (r *recordingFeed) Text(ctx context.Context, o render.Options) (string, error) {
	e, err := r.diagnoseOnce(ctx)
	if err != nil {
		return "", err
	}
	return fullText(&e.Diagnosis, o)
}

// A monitorFeed is a running monitor.
type monitorFeed struct {
	baseFeed
	*remote.Monitor
}

func (s *monitorFeed) Close() error { s.Monitor.Close(); return nil }

func (s *monitorFeed) Text(ctx context.Context, _ render.Options) (string, error) {
	body, err := s.Get(ctx, "/api/v1/diagnosis?format=text&full=true")
	return string(body), err
}

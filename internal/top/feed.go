// Package top shows servers in a terminal: the verdicts, a line for each replica below them, and the evidence on
// request. A Feed provides the contents: servers that are scraped, a Prometheus server, a recording with steps
// through its time, or a running monitor.
//
// The screen (screen.go) is a pure function of an overview, a filter, an order and a size. The model (top.go) is the
// state of the terminal program: it fetches overviews at intervals and handles keys.
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

// A Feed provides the contents of a screen. It is safe for concurrent use.
type Feed interface {
	// Name returns the source, for the head of the screen.
	Name() string
	// Overview returns the latest overview.
	Overview(ctx context.Context) (view.Overview, error)
	// Text returns the full diagnosis.
	Text(ctx context.Context, o render.Options) (string, error)
	// Seek moves by a number of steps in a recording, and reports whether the moment changed.
	Seek(steps int) bool
	// Span returns the time range of a recording; zero for other feeds.
	Span() (first, last time.Time)
	// Every returns the time between two overviews that may differ.
	Every() time.Duration
	Close() error
}

// A plain is the common part of feeds without a recording.
type plain struct {
	name  string
	every time.Duration
}

func (p plain) Name() string                { return p.name }
func (p plain) Every() time.Duration        { return p.every }
func (plain) Seek(int) bool                 { return false }
func (plain) Span() (first, last time.Time) { return }

// A watched is a source that this process judges.
type watched struct {
	plain
	source  *source.Source
	monitor *monitor.Monitor
	stop    context.CancelFunc
	parts   sync.WaitGroup
}

// watchSource judges live servers, or a Prometheus server, from now on. Live servers are judged after two scrapes.
func watchSource(ctx context.Context, s *source.Source, o diagnose.Options, scraped time.Duration) Feed {
	ctx, stop := context.WithCancel(ctx)
	w := &watched{plain: plain{s.Name, every}, source: s, stop: stop}
	judged := monitor.Options{Source: s, Diagnose: o, Every: every, Log: slog.New(slog.DiscardHandler)}
	if s.Live != nil {
		judged.First = 2*scraped + time.Second/2
	}
	w.monitor = monitor.New(judged)
	if s.Live != nil {
		w.parts.Go(func() { s.Live.Run(ctx) })
		w.parts.Go(func() { s.Live.FetchFacts(ctx) })
	}
	w.parts.Go(func() { w.monitor.Run(ctx) })
	return w
}

func (w *watched) Overview(context.Context) (view.Overview, error) {
	return monitor.NewOverview(w.monitor.Latest(), every, time.Now(), nil, nil), nil
}

func (w *watched) Text(_ context.Context, o render.Options) (string, error) {
	e := w.monitor.Latest()
	if e == nil {
		return "", errors.New("no verdict yet")
	}
	if e.Err != nil {
		return "", e.Err
	}
	return fullText(&e.Diagnosis, o)
}

func (w *watched) Close() error {
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

// A replayed is a recording with steps through its time.
type replayed struct {
	plain
	source  *source.Source
	options diagnose.Options

	mu     sync.Mutex
	at     time.Time
	latest *monitor.Evaluation // evaluation of the moment at
}

// replayRecording shows a recording from a moment on.
func replayRecording(s *source.Source, o diagnose.Options, at time.Time) Feed {
	return &replayed{plain: plain{name: s.Name}, source: s, options: o, at: at}
}

func (r *replayed) Close() error { return r.source.Close() }

func (r *replayed) Span() (first, last time.Time) {
	span := r.source.Span()
	return span.First, span.Last
}

func (r *replayed) Seek(steps int) bool {
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

// diagnoseOnce diagnoses the current moment, unless it has done so already.
func (r *replayed) diagnoseOnce(ctx context.Context) (*monitor.Evaluation, error) {
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

func (r *replayed) Overview(ctx context.Context) (view.Overview, error) {
	e, err := r.diagnoseOnce(ctx)
	if err != nil {
		return view.Overview{}, err
	}
	return monitor.NewOverview(e, step, e.At, nil, nil), nil
}

func (r *replayed) Text(ctx context.Context, o render.Options) (string, error) {
	e, err := r.diagnoseOnce(ctx)
	if err != nil {
		return "", err
	}
	return fullText(&e.Diagnosis, o)
}

// A served is a monitor that runs elsewhere.
type served struct {
	plain
	*remote.Monitor
}

func (s *served) Close() error { s.Monitor.Close(); return nil }

func (s *served) Text(ctx context.Context, _ render.Options) (string, error) {
	body, err := s.Get(ctx, "/api/v1/diagnosis?format=text&full=true")
	return string(body), err
}

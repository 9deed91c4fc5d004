// Package top shows servers in a terminal: a line for each replica, the verdict above
// them, and the evidence of one on request. What it shows comes from servers that it
// scrapes, from a Prometheus server, from a recording, through which one can travel, or
// from a monitor that runs.
package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
	"github.com/sixty-dev/sixty/internal/source"
)

// A Feed is where a screen comes from. It is safe for concurrent use.
type Feed interface {
	// Name is of what is looked at, for the head of the screen.
	Name() string
	// Overview is the latest one.
	Overview(ctx context.Context) (view.Overview, error)
	// Text is the diagnosis, at length.
	Text(ctx context.Context, o render.Options) (string, error)
	// Requests are those in flight, where a gateway is known; "" where none is.
	Requests(ctx context.Context) (string, error)
	// Seek moves by so many steps through the past, where there is one to travel.
	Seek(steps int) bool
	// Every is the time between two overviews that may differ.
	Every() time.Duration
	Close() error
}

// watched is a source that is judged here.
type watched struct {
	source  *source.Source
	monitor *monitor.Monitor
	every   time.Duration
	stop    context.CancelFunc
	parts   sync.WaitGroup
}

// Watch judges a source of live servers, or a Prometheus server, from now on.
func Watch(ctx context.Context, s *source.Source, o diagnose.Options, every time.Duration, m func(monitor.Options) *monitor.Monitor) Feed {
	ctx, stop := context.WithCancel(ctx)
	w := &watched{source: s, stop: stop, every: every}
	w.monitor = m(monitor.Options{Source: s, Diagnose: o, Every: every})
	if s.Live != nil {
		w.parts.Go(func() { s.Live.Run(ctx) })
		w.parts.Go(func() { s.Live.Learn(ctx) })
	}
	w.parts.Go(func() { w.monitor.Run(ctx) })
	return w
}

func (w *watched) Name() string         { return w.source.Name }
func (w *watched) Every() time.Duration { return w.every }
func (w *watched) Seek(int) bool        { return false }

func (w *watched) Overview(context.Context) (view.Overview, error) {
	return w.monitor.Overview(time.Now(), nil, nil), nil
}

func (w *watched) Text(_ context.Context, o render.Options) (string, error) {
	e := w.monitor.Latest()
	if e == nil {
		return "", errors.New("nothing was judged yet")
	}
	if e.Err != nil {
		return "", e.Err
	}
	return text(&e.Diagnosis, o)
}

func (w *watched) Requests(context.Context) (string, error) { return "", nil }

func (w *watched) Close() error {
	w.stop()
	w.parts.Wait()
	return w.source.Close()
}

// text is a diagnosis at length.
func text(d *diagnose.Diagnosis, o render.Options) (string, error) {
	var b bytes.Buffer
	err := report.Text(&b, *d, report.Options{Options: o, Full: true})
	return b.String(), err
}

// replayed is a recording through which one travels.
type replayed struct {
	source  *source.Source
	options diagnose.Options
	step    time.Duration

	mu     sync.Mutex
	at     time.Time
	latest *monitor.Evaluation // at
}

// Replay begins at the end of a recording; steps lead through it.
func Replay(s *source.Source, o diagnose.Options, at time.Time, step time.Duration) Feed {
	return &replayed{source: s, options: o, step: step, at: at}
}

func (r *replayed) Name() string         { return r.source.Name }
func (r *replayed) Every() time.Duration { return 0 }
func (r *replayed) Close() error         { return r.source.Close() }

func (r *replayed) Seek(steps int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	span := r.source.Span()
	at := r.at.Add(time.Duration(steps) * r.step)
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

// look diagnoses the moment, once.
func (r *replayed) look(ctx context.Context) (*monitor.Evaluation, error) {
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
	e, err := r.look(ctx)
	if err != nil {
		return view.Overview{}, err
	}
	return monitor.NewOverview(e, r.step, e.At, nil, nil), nil
}

func (r *replayed) Text(ctx context.Context, o render.Options) (string, error) {
	e, err := r.look(ctx)
	if err != nil {
		return "", err
	}
	return text(&e.Diagnosis, o)
}

func (r *replayed) Requests(context.Context) (string, error) { return "", nil }

// served is a monitor that runs somewhere.
type served struct {
	base   *url.URL
	client *http.Client
}

// Bounds of what a monitor answers.
const (
	servedTimeout = 20 * time.Second
	servedBytes   = 32 << 20
)

// Served asks a monitor at an address.
func Served(address string, access config.HTTPClientConfig) (Feed, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || u.Host == "" {
		return nil, hint.With(fmt.Errorf("%q is no URL of a monitor", address), "write it like http://localhost:6060")
	}
	client, err := config.NewClientFromConfig(access, "sixty")
	if err != nil {
		return nil, err
	}
	client.Timeout = servedTimeout
	return &served{base: u, client: client}, nil
}

func (s *served) Name() string         { return s.base.Redacted() }
func (s *served) Every() time.Duration { return 2 * time.Second }
func (s *served) Seek(int) bool        { return false }
func (s *served) Close() error         { s.client.CloseIdleConnections(); return nil }

func (s *served) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.String()+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, servedBytes))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		var e view.Error
		if json.Unmarshal(body, &e) == nil && e.Error != "" {
			return nil, hint.With(fmt.Errorf("%s: %s", s.base.Redacted(), e.Error), e.Hint)
		}
		return nil, fmt.Errorf("%s%s: %s", s.base.Redacted(), path, resp.Status)
	}
	return body, nil
}

func (s *served) Overview(ctx context.Context) (o view.Overview, err error) {
	body, err := s.get(ctx, "/api/v1/overview")
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(body, &o); err != nil || o.Schema != view.OverviewSchema {
		return o, hint.With(fmt.Errorf("%s is no monitor of sixty", s.base.Redacted()), "name a server, a recording or prometheus=URL for everything else")
	}
	return o, nil
}

func (s *served) Text(ctx context.Context, _ render.Options) (string, error) {
	body, err := s.get(ctx, "/api/v1/diagnosis?format=text&full=true")
	return string(body), err
}

func (s *served) Requests(ctx context.Context) (string, error) {
	body, err := s.get(ctx, "/api/v1/requests?format=text")
	if err != nil {
		return "", nil //nolint:nilerr // a monitor without a gateway has none
	}
	return string(body), nil
}

// Is reports whether a monitor answers at an address, within a moment.
func Is(ctx context.Context, address string, access config.HTTPClientConfig) bool {
	f, err := Served(address, access)
	if err != nil {
		return false
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err = f.Overview(ctx)
	return err == nil
}

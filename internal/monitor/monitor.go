// Package monitor judges servers continuously: it diagnoses a source every few seconds, keeps the latest evaluation,
// and notifies listeners. Samples come from package collect or from any Prometheus-compatible server; package web
// shows the result.
package monitor

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// An Evaluation is the judgement of one moment.
type Evaluation struct {
	At        time.Time
	Took      time.Duration
	Diagnosis diagnose.Diagnosis
	// Err says why there is no diagnosis. Before is then the latest evaluation with one, or nil.
	Err    error
	Before *Evaluation
	// Warnings are the source's: dropped data, and partial answers.
	Warnings []string
}

// Options configure a Monitor.
type Options struct {
	Source *source.Source
	// Narrow, which may be nil, returns the part of the source that is judged at a moment.
	Narrow func(context.Context, *source.Source, time.Time) (*source.Source, error)
	// Diagnose holds the options that all evaluations share.
	Diagnose diagnose.Options
	Every    time.Duration // DefaultEvery when 0
	First    time.Duration // until the first evaluation
	// Remote marks a source that others query too. Each recent sample is read once, and evaluations pause for at
	// least as long as the last one took.
	Remote bool
	// Log hears of evaluations that fail.
	Log      *slog.Logger
	Registry prometheus.Registerer
	// Observe, which may be nil, is given each evaluation before anybody sees it, and Conform, which may be too, every
	// diagnosis: incidents are made of the ones, and decide what the others say.
	Observe func(*Evaluation)
	Conform func(*diagnose.Diagnosis)
	// Listeners are called after each evaluation, one after the other, before the next one.
	Listeners []func(context.Context, *Evaluation)
}

// A Monitor evaluates; see the package.
type Monitor struct {
	o        Options
	settings atomic.Pointer[diagnose.Settings]
	memory   diagnose.Memory
	mirror   embedded.Mirror
	patience time.Duration // how long the next evaluation may take, where that is more than usual
	latest   atomic.Pointer[Evaluation]
	judging  atomic.Pointer[chan struct{}] // closed at the end of the evaluation that runs; nil while none does

	mu     sync.Mutex
	served map[string]string // model by server

	took   prometheus.Histogram
	failed prometheus.Counter
	last   prometheus.Gauge
}

// New returns a Monitor that Run starts.
func New(o Options) *Monitor {
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.Conform == nil {
		o.Conform = func(*diagnose.Diagnosis) {}
	}
	register := promauto.With(o.Registry)
	m := &Monitor{
		o: o, served: map[string]string{},
		took: register.NewHistogram(prometheus.HistogramOpts{
			Name: "sixty_evaluation_duration_seconds",
			Help: "Duration of one evaluation of all pathologies.", Buckets: []float64{.02, .05, .1, .2, .5, 1, 2, 5,
				10, 15, 30},
		}),
		failed: register.NewCounter(prometheus.CounterOpts{Name: "sixty_evaluation_failures_total",
			Help: "Evaluations without a diagnosis."}),
		last: register.NewGauge(prometheus.GaugeOpts{Name: "sixty_last_evaluation_timestamp_seconds",
			Help: "Time of the latest evaluation with a diagnosis."}),
	}
	m.SetSettings(o.Diagnose.Settings)
	return m
}

// SetSettings replaces the objectives and thresholds, from the next evaluation on.
func (m *Monitor) SetSettings(s diagnose.Settings) { m.settings.Store(&s) }

// Settings are the objectives and thresholds that hold.
func (m *Monitor) Settings() diagnose.Settings { return *m.settings.Load() }

// Every is the time between two evaluations.
func (m *Monitor) Every() time.Duration { return m.o.Every }

// Latest is the last evaluation, nil before the first one.
func (m *Monitor) Latest() *Evaluation { return m.latest.Load() }

// Judged returns a channel that is closed when the running evaluation ends, nil if none is running.
func (m *Monitor) Judged() <-chan struct{} {
	if judged := m.judging.Load(); judged != nil {
		return *judged
	}
	return nil
}

// Run evaluates until the context ends. An evaluation that takes longer than the time
// between two leaves the next ones out.
func (m *Monitor) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(m.o.First):
	}
	tick := time.NewTicker(m.o.Every)
	defer tick.Stop()
	for {
		began := time.Now()
		m.Evaluate(ctx, began)
		waits := []<-chan time.Time{tick.C}
		if m.o.Remote {
			waits = append(waits, time.After(time.Since(began)))
		}
		for _, wait := range waits {
			select {
			case <-ctx.Done():
				return
			case <-wait:
			}
		}
	}
}

// longestEvaluation is how long an evaluation may take of a store that answers slowly. One that is
// complete after a minute says more than four that are not.
const longestEvaluation = time.Minute

// Evaluate judges a moment, which is not before the last one, and tells those who listen.
func (m *Monitor) Evaluate(ctx context.Context, at time.Time) {
	began := time.Now()
	judged := make(chan struct{})
	m.judging.Store(&judged)
	defer func() {
		m.judging.Store(nil)
		close(judged)
	}()
	e := &Evaluation{At: at}
	limit := max(m.o.Every, 10*time.Second, m.patience)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	from, o, err := m.options(ctx, at)
	if err == nil {
		o.Memory = &m.memory
		if m.o.Remote {
			from.Querier = m.mirror.Over(from.Querier, o.Matchers, at, identity.LongestPast, 5*o.Interval/2)
		}
		e.Diagnosis, err = from.Diagnose(ctx, o)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return // it is over
	}
	e.Took, e.Err, e.Warnings = time.Since(began), err, from.Warnings()
	switch {
	case err != nil:
		m.patience = 0
	case ctx.Err() != nil: // a store answers, but not in time
		m.patience = min(2*limit, longestEvaluation)
	default:
		m.patience = min(2*e.Took, longestEvaluation)
	}
	m.took.Observe(e.Took.Seconds())
	if err != nil {
		m.failed.Inc()
		last := m.latest.Load()
		if last == nil || last.Err == nil || last.Err.Error() != err.Error() {
			m.o.Log.Warn("evaluation failed", "err", err)
		}
		if e.Before = last; last != nil && last.Err != nil {
			e.Before = last.Before
		}
	} else {
		m.last.Set(float64(at.UnixMilli()) / 1000)
	}
	if m.o.Observe != nil {
		m.o.Observe(e)
	}
	m.o.Conform(&e.Diagnosis)
	m.latest.Store(e)
	for _, listen := range m.o.Listeners {
		listen(ctx, e)
	}
}

// options returns the options of a diagnosis at one time, and its source.
func (m *Monitor) options(ctx context.Context, at time.Time) (from *source.Source, o diagnose.Options, err error) {
	from = m.o.Source.WithoutPartials()
	if m.o.Narrow != nil {
		part, err := m.o.Narrow(ctx, from, at)
		if err != nil {
			return from, o, err
		}
		from = part
	}
	if o, err = from.Options(ctx, at); err != nil {
		return from, o, err
	}
	o.Pathologies, o.Settings = m.o.Diagnose.Pathologies, m.Settings()
	told := o.Annotate
	if more := m.o.Diagnose.Annotate; more != nil {
		told = more
	}
	o.Annotate = func(ts []diagnose.Target) {
		m.restoreModels(ts)
		if told != nil {
			told(ts)
		}
	}
	return from, o, nil
}

// restoreModels gives a server that is down the model that it served: it still belongs to it, and
// its alert has the same labels as when it began.
func (m *Monitor) restoreModels(ts []diagnose.Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[string]string{} // model by server; "" where there are several
	key := func(t *diagnose.Target) string { return scrapedAs(t.Labels) }
	for i := range ts {
		if model, k := ts[i].Labels["model_name"], key(&ts[i]); model != "" {
			if other, ok := now[k]; ok && other != model {
				model = ""
			}
			now[k] = model
		}
	}
	for i := range ts {
		t := &ts[i]
		if model := m.served[key(t)]; t.Labels["model_name"] == "" && t.Serves() && now[key(t)] == "" && model != "" {
			t.Labels["model_name"] = model
			now[key(t)] = model
		}
	}
	maps.Copy(m.served, now)
	if len(m.served) > maxServed {
		m.served = now
	}
}

// scrapedAs identifies a server by the labels of its scrape job and address.
func scrapedAs(l map[string]string) string { return l["job"] + "\xff" + l["instance"] }

// maxServed bounds the servers that are remembered: pods come and go under new names.
const maxServed = 10_000

// ErrNothingYet is the error before the first evaluation.
var ErrNothingYet = hint.With(errors.New("not evaluated yet"), "the first verdict comes within a minute of start-up")

// DiagnoseAt returns the diagnosis of the latest evaluation, so that everybody gets the same one. For a given moment or
// window it makes a new diagnosis and predicts its fixes.
func (m *Monitor) DiagnoseAt(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
	if !at.IsZero() || window != 0 {
		return m.diagnoseAt(ctx, at, window, m.o.Diagnose.Predict)
	}
	e := m.Latest()
	if e == nil {
		return diagnose.Diagnosis{}, ErrNothingYet
	}
	return e.Diagnosis, e.Err
}

// JudgeAt diagnoses one moment without predictions.
func (m *Monitor) JudgeAt(ctx context.Context, at time.Time) (diagnose.Diagnosis, error) {
	return m.diagnoseAt(ctx, at, 0, nil)
}

func (m *Monitor) diagnoseAt(ctx context.Context, at time.Time, window time.Duration,
	predict diagnose.Predictor) (diagnose.Diagnosis, error) {
	if at.IsZero() {
		at = time.Now()
	}
	from, o, err := m.options(ctx, at)
	if err != nil {
		return diagnose.Diagnosis{}, err
	}
	o.Window, o.Predict = window, predict
	d, err := from.Diagnose(ctx, o)
	m.o.Conform(&d)
	return d, err
}

// Plot adds to a diagnosis what its verdicts rest on, over time.
func (m *Monitor) Plot(ctx context.Context, d *diagnose.Diagnosis) error {
	d.Verdicts = slices.Clone(d.Verdicts) // they may be others' too
	return d.Plot(ctx, m.o.Source)
}

// Package monitor judges servers continuously, for `sixty serve`.
//
// A [Monitor] diagnoses a source every few seconds. Samples come from package collect or from any Prometheus-compatible
// server. Each diagnosis becomes an [Evaluation], in this order: Options.Observe turns it into incidents (package
// incident/keeper), Options.Conform writes what they decided back into the diagnosis, the evaluation becomes the latest
// one, and the listeners are called. They are
//
//   - an [Alerter], which turns findings into alerts and sends them until some time after their end;
//   - [Anomalies], a plain statistical detector beside the judgement, off by default.
//
// A [Watchdog] runs on its own and sends an alert when nothing is judged, a disk is full, or a receiver fails.
// [NewOverview] says of an evaluation what the page shows first. [LoadConfig] reads the configuration file.
//
// The package neither stores nor scrapes nor notifies, and serves no HTTP: packages collect, keeper, receivers, web and
// serve do.
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

// An Evaluation is one diagnosis of the monitor, or the reason why there is none.
type Evaluation struct {
	At        time.Time
	Took      time.Duration
	Diagnosis diagnose.Diagnosis
	// Err says why there is no diagnosis. Before is then the latest evaluation with one, or nil.
	Err      error
	Before   *Evaluation
	Warnings []string // of the source: dropped data, partial answers
}

// Options configure a Monitor.
type Options struct {
	Source *source.Source
	// Narrow, which may be nil, returns the part of the source that is judged at a time.
	Narrow func(context.Context, *source.Source, time.Time) (*source.Source, error)
	// Diagnose holds the options that all evaluations share.
	Diagnose     diagnose.Options
	Every        time.Duration // DefaultEvery when 0
	InitialDelay time.Duration // before the first evaluation
	// Remote marks a source that others query too. Each recent sample is read once, and evaluations pause for at
	// least as long as the last one took.
	Remote   bool
	Log      *slog.Logger
	Registry prometheus.Registerer
	// Observe gets each evaluation before anybody sees it. Conform changes each diagnosis, also those of DiagnoseAt.
	// Both may be nil.
	Observe func(*Evaluation)
	Conform func(*diagnose.Diagnosis)
	// Listeners are called in turn after each evaluation, before the next one.
	Listeners []func(context.Context, *Evaluation)
}

// A Monitor evaluates a source. Apart from Run and Evaluate, it is safe for concurrent use.
type Monitor struct {
	opts       Options
	settings   atomic.Pointer[diagnose.Settings]
	memory     diagnose.Memory
	mirror     embedded.Mirror
	timeout    time.Duration // for the next evaluation, if longer than usual
	latest     atomic.Pointer[Evaluation]
	evaluating atomic.Pointer[chan struct{}] // closed at the end of the running evaluation; nil while none runs

	mu            sync.Mutex
	modelByServer map[string]string // by serverKey

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
		opts: o, modelByServer: map[string]string{},
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

// Settings returns the present objectives and thresholds.
func (m *Monitor) Settings() diagnose.Settings { return *m.settings.Load() }

// Every returns the time between two evaluations.
func (m *Monitor) Every() time.Duration { return m.opts.Every }

// Latest returns the latest evaluation, nil before the first one.
func (m *Monitor) Latest() *Evaluation { return m.latest.Load() }

// Judged returns a channel that is closed at the end of the running evaluation. It returns nil if none is running.
func (m *Monitor) Judged() <-chan struct{} {
	if judged := m.evaluating.Load(); judged != nil {
		return *judged
	}
	return nil
}

// Run evaluates until the context ends. While an evaluation takes longer than Every, the next ones are left out.
func (m *Monitor) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(m.opts.InitialDelay):
	}
	tick := time.NewTicker(m.opts.Every)
	defer tick.Stop()
	for {
		began := time.Now()
		m.Evaluate(ctx, began)
		waits := []<-chan time.Time{tick.C}
		if m.opts.Remote {
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

// maxEvaluation bounds an evaluation of a slow store: one complete evaluation a minute is better than four partial
// ones.
const maxEvaluation = time.Minute

// Evaluate makes the evaluation of one time, which is not before the last one, and calls the listeners.
func (m *Monitor) Evaluate(ctx context.Context, at time.Time) {
	began := time.Now()
	judged := make(chan struct{})
	m.evaluating.Store(&judged)
	defer func() {
		m.evaluating.Store(nil)
		close(judged)
	}()
	e := &Evaluation{At: at}
	limit := max(m.opts.Every, 10*time.Second, m.timeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	from, o, err := m.optionsAt(ctx, at)
	if err == nil {
		o.Memory = &m.memory
		if m.opts.Remote {
			from.Querier = m.mirror.Over(from.Querier, o.Matchers, at, identity.LongestPast, o.Interval)
		}
		e.Diagnosis, err = from.Diagnose(ctx, o)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return // the monitor ends
	}
	e.Took, e.Err, e.Warnings = time.Since(began), err, from.Warnings()
	switch {
	case err != nil:
		m.timeout = 0
		m.noteFailure(e)
	case ctx.Err() != nil: // the store answers, but not in time
		m.timeout = min(2*limit, maxEvaluation)
	default:
		m.timeout = min(2*e.Took, maxEvaluation)
	}
	m.took.Observe(e.Took.Seconds())
	if err == nil {
		m.last.Set(float64(at.UnixMilli()) / 1000)
	}
	if m.opts.Observe != nil {
		m.opts.Observe(e)
	}
	m.opts.Conform(&e.Diagnosis)
	m.latest.Store(e)
	for _, listen := range m.opts.Listeners {
		listen(ctx, e)
	}
}

// noteFailure counts a failed evaluation, logs a new error, and keeps the latest evaluation that succeeded.
func (m *Monitor) noteFailure(e *Evaluation) {
	m.failed.Inc()
	last := m.latest.Load()
	if last == nil || last.Err == nil || last.Err.Error() != e.Err.Error() {
		m.opts.Log.Warn("evaluation failed", "err", e.Err)
	}
	if e.Before = last; last != nil && last.Err != nil {
		e.Before = last.Before
	}
}

// optionsAt returns the source and the options of a diagnosis at one time.
func (m *Monitor) optionsAt(ctx context.Context, at time.Time) (from *source.Source, o diagnose.Options, err error) {
	from = m.opts.Source.WithoutPartials()
	if m.opts.Narrow != nil {
		part, err := m.opts.Narrow(ctx, from, at)
		if err != nil {
			return from, o, err
		}
		from = part
	}
	if o, err = from.Options(ctx, at); err != nil {
		return from, o, err
	}
	o.Pathologies, o.Settings = m.opts.Diagnose.Pathologies, m.Settings()
	annotate := o.Annotate
	if own := m.opts.Diagnose.Annotate; own != nil {
		annotate = own
	}
	o.Annotate = func(ts []diagnose.Target) {
		m.restoreModels(ts)
		if annotate != nil {
			annotate(ts)
		}
	}
	return from, o, nil
}

// restoreModels gives a server that is down the model that it served, so that its alert keeps its labels.
func (m *Monitor) restoreModels(ts []diagnose.Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[string]string{} // model by server; "" for several models
	key := func(t *diagnose.Target) string { return serverKey(t.Labels) }
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
		if model := m.modelByServer[key(t)]; t.Labels["model_name"] == "" && t.Serves() && now[key(t)] == "" &&
			model != "" {
			t.Labels["model_name"] = model
			now[key(t)] = model
		}
	}
	maps.Copy(m.modelByServer, now)
	if len(m.modelByServer) > maxServed {
		m.modelByServer = now
	}
}

// serverKey identifies a server by its job and instance labels.
func serverKey(l map[string]string) string { return l["job"] + "\xff" + l["instance"] }

// maxServed bounds Monitor.modelByServer: pods come and go under new names.
const maxServed = 10_000

// ErrNothingYet is the error before the first evaluation.
var ErrNothingYet = hint.With(errors.New("not evaluated yet"), "the first verdict comes within a minute of start-up")

// DiagnoseAt returns the diagnosis of the latest evaluation, so that everybody gets the same one. For a given time or
// window it makes a new diagnosis and predicts its fixes.
func (m *Monitor) DiagnoseAt(ctx context.Context, at time.Time, window time.Duration) (diagnose.Diagnosis, error) {
	if !at.IsZero() || window != 0 {
		return m.diagnoseAt(ctx, at, window, m.opts.Diagnose.Predict)
	}
	e := m.Latest()
	if e == nil {
		return diagnose.Diagnosis{}, ErrNothingYet
	}
	return e.Diagnosis, e.Err
}

// JudgeAt makes a new diagnosis of one time, without predictions.
func (m *Monitor) JudgeAt(ctx context.Context, at time.Time) (diagnose.Diagnosis, error) {
	return m.diagnoseAt(ctx, at, 0, nil)
}

func (m *Monitor) diagnoseAt(ctx context.Context, at time.Time, window time.Duration,
	predict diagnose.Predictor) (diagnose.Diagnosis, error) {
	if at.IsZero() {
		at = time.Now()
	}
	from, o, err := m.optionsAt(ctx, at)
	if err != nil {
		return diagnose.Diagnosis{}, err
	}
	o.Window, o.Predict = window, predict
	d, err := from.Diagnose(ctx, o)
	m.opts.Conform(&d)
	return d, err
}

// Plot adds to a diagnosis the courses of the signals on which its verdicts rest.
func (m *Monitor) Plot(ctx context.Context, d *diagnose.Diagnosis) error {
	d.Verdicts = slices.Clone(d.Verdicts) // others may share them
	return d.Plot(ctx, m.opts.Source)
}

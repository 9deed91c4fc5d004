package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/anomaly"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// maxAnomalies bounds the anomalies that are shown, present and past.
const maxAnomalies = 50

// AnomalySettings switch the detector of package anomaly on. In YAML they are true, false, or a mapping of numbers.
type AnomalySettings struct {
	On             bool `yaml:"-"`
	anomaly.Limits `yaml:",inline"`
	Notify         string `yaml:"notify"` // page or ticket: severity of the alerts; "" for no alerts
}

// UnmarshalYAML reads a bool, or a mapping, which switches the detector on.
func (s *AnomalySettings) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(&s.On) == nil {
		return nil
	}
	type plain AnomalySettings
	s.On = true
	return unmarshal((*plain)(s))
}

func (s *AnomalySettings) validate() error {
	if s.Notify != "" && s.Notify != catalog.Page.String() && s.Notify != catalog.Ticket.String() {
		return hint.With(fmt.Errorf("sixty.anomalies.notify: %q is not a severity that people are told of", s.Notify),
			"write page or ticket")
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("sixty.anomalies.%w", err)
	}
	return nil
}

// Anomalies runs the detector of package anomaly on the evaluations while it is switched on. SetSettings and Latest are
// safe for concurrent use.
type Anomalies struct {
	Catalogue []*catalog.Pathology
	Send      func(...collect.Alert) // called if AnomalySettings.Notify is set
	Settings  func() AlertSettings   // for labels and severities of the alerts

	settings atomic.Pointer[AnomalySettings]
	current  AnomalySettings // by the watcher
	watcher  *anomaly.Watcher
	samples  []collect.Sample
	latest   atomic.Pointer[[]view.Anomaly]
}

// SetSettings replaces the settings, from the next evaluation on.
func (a *Anomalies) SetSettings(s AnomalySettings) { a.settings.Store(&s) }

// Observe takes the next evaluation.
func (a *Anomalies) Observe(_ context.Context, e *Evaluation) {
	set := a.settings.Load()
	if a.samples = nil; set == nil || !set.On {
		a.watcher = nil
		a.latest.Store(nil)
		return
	}
	if e.Err != nil {
		return
	}
	if a.watcher == nil || a.current.Limits != set.Limits {
		a.watcher = &anomaly.Watcher{Catalogue: a.Catalogue, Limits: set.Limits}
	}
	a.current = *set
	out, told := []view.Anomaly{}, []collect.Alert(nil)
	known := a.Latest()
	for _, f := range a.watcher.Observe(&e.Diagnosis) {
		v := view.Anomaly{At: e.At.UTC(), Target: f.Target, Metric: f.Metric, Text: f.Text}
		if i := slices.IndexFunc(known, v.Continues); i >= 0 {
			v.At = known[i].At
		}
		value := f.Value
		if f.Pathology != nil {
			v.Pathology = f.Pathology.ID
		} else {
			v.Z, value = &f.Z, f.Z
		}
		out = append(out, v)
		a.samples = append(a.samples,
			collect.Sample{Labels: labelAnomaly(map[string]string{"__name__": "sixty_anomaly"}, f), Value: value})
		if set.Notify != "" {
			told = append(told, a.newAlert(f, v.At, e.At.Add(validFor)))
		}
	}
	// Anomalies with a cause first, then the most unusual ones.
	slices.SortStableFunc(out, func(x, y view.Anomaly) int { return cmp.Compare(y.Size(), x.Size()) })
	for _, v := range known {
		if !slices.ContainsFunc(out, v.Continues) {
			v.Ended = cmp.Or(v.Ended, new(e.At.UTC()))
			out = append(out, v)
		}
	}
	out = out[:min(len(out), maxAnomalies)]
	a.latest.Store(&out)
	if set.Notify != "" {
		a.Send(told...)
	}
}

// newAlert returns the alert of an anomaly. It ends unless it is sent again.
func (a *Anomalies) newAlert(f anomaly.Alert, began, ends time.Time) collect.Alert {
	severity, _ := catalog.ParseSeverity(a.current.Notify) // checked with the configuration
	return collect.Alert{
		Labels: labelAnomaly(a.Settings().baseLabels("SixtyAnomaly", severity), f), Began: began, Ends: ends, Path: "/",
		Annotations: map[string]string{"summary": f.Target + ": " + f.Text, "runbook_url": docs.URL + "lab/anomaly.md"},
	}
}

// labelAnomaly adds the labels of an anomaly's target, and its metric.
func labelAnomaly(to map[string]string, f anomaly.Alert) map[string]string {
	for _, name := range slices.Concat(dialect.UsualInstance, []string{"model_name", "engine"}) {
		if v := f.Labels[name]; v != "" {
			to[name] = v
		}
	}
	to["metric"] = f.Metric
	return to
}

// Samples returns the anomalies of the last evaluation as samples of sixty_anomaly: standard deviations from the mean,
// or the correlation of two metrics.
func (a *Anomalies) Samples() []collect.Sample { return a.samples }

// Latest returns the anomalies of the last evaluation, followed by past anomalies, the latest first. It returns nil if
// the detector is off.
func (a *Anomalies) Latest() []view.Anomaly {
	if p := a.latest.Load(); p != nil {
		return *p
	}
	return nil
}

// Package anomaly is the plain statistical detector that many a monitor has: a value is
// anomalous when it lies more than three standard deviations from the mean of the last
// hundred, and the KV cache is blamed when its usage and TTFT rise and fall together. It is
// there to be compared with, and for who wants it; the judgement of package diagnose is
// what sixty goes by (docs/lab/anomaly.md has both in numbers).
package anomaly

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// The detector's numbers.
const (
	Window     = 100 // values that a new one is compared with, at most
	Least      = 20  // and at least
	Z          = 3   // standard deviations
	Together   = 20  // values that are correlated, the latest
	Correlated = 0.8
)

// Limits are the detector's settings; 0 selects the default.
type Limits struct {
	Window int     `yaml:"window"`
	Least  int     `yaml:"least"`
	Z      float64 `yaml:"z"`
}

// maxWindow bounds what is kept of each metric.
const maxWindow = 10_000

// Check refuses limits with which nothing could be found.
func (l Limits) Check() error {
	l = l.orUsual()
	switch {
	case l.Window < 2 || l.Window > maxWindow:
		return fmt.Errorf("window: %d is not between 2 and %d values", l.Window, maxWindow)
	case l.Least < 2 || l.Least > l.Window:
		return fmt.Errorf("least: %d is not between 2 and the window of %d values", l.Least, l.Window)
	case !(l.Z > 0) || math.IsInf(l.Z, 0):
		return fmt.Errorf("z: %v is not a number of standard deviations above 0", l.Z)
	}
	return nil
}

func (l Limits) orUsual() Limits {
	l.Window, l.Z = cmp.Or(l.Window, Window), cmp.Or(l.Z, Z)
	l.Least = cmp.Or(l.Least, min(Least, l.Window))
	return l
}

// A Detector keeps the last values of each metric. The zero value has seen none. It is not
// safe for concurrent use.
type Detector struct {
	Limits

	windows map[string][]float64
}

// Observe compares a value with those before it, and then keeps it. It returns by how many standard deviations an
// anomaly lies above the mean of those, below where that is negative, and the mean; 0 is no anomaly.
func (d *Detector) Observe(metric string, value float64) (z, mean float64) {
	if d.windows == nil {
		d.windows = map[string][]float64{}
	}
	window, limits := d.windows[metric], d.orUsual()
	if len(window) >= limits.Least {
		usual, std := stat.PopMeanStdDev(window, nil)
		if off := (value - usual) / std; std > 0 && math.Abs(off) > limits.Z {
			z, mean = off, usual
		}
	}
	if window = append(window, value); len(window) > limits.Window {
		window = slices.Delete(window, 0, 1)
	}
	d.windows[metric] = window
	return z, mean
}

// Names of the metrics that are correlated.
const (
	KVUsage = "kv_cache_utilization"
	TTFTP95 = "ttft_p95"
)

// KVPressure returns how the last values of the KV cache's usage and TTFT go together, -1 to 1, and whether the one
// raises the other; NaN before there are more than Together of each, and where one of them does not change.
func (d *Detector) KVPressure() (correlation float64, raises bool) {
	x, y := d.windows[KVUsage], d.windows[TTFTP95]
	if len(x) <= Together || len(y) <= Together {
		return math.NaN(), false
	}
	correlation = stat.Correlation(x[len(x)-Together:], y[len(y)-Together:], nil)
	return correlation, correlation > Correlated && !math.IsInf(correlation, 0)
}

// pressure returns the failure mode that is about KV usage and TTFT, nil without one in the catalogue.
func pressure(catalogue []*catalog.Pathology) *catalog.Pathology {
	for _, p := range catalogue {
		usage, ttft := false, false
		p.When.Signals(func(of *indicator.Signal) {
			usage, ttft = usage || of.Shares(indicator.KVUsage), ttft || of.Shares(indicator.TTFTP95)
		})
		if usage && ttft {
			return p
		}
	}
	return nil
}

// metrics are what a Watcher reads of each target: the numbers of an engine that the
// detector was written for, by its names.
var metrics = []struct {
	name   string
	signal *indicator.Signal
}{
	{KVUsage, indicator.KVUsage},
	{TTFTP95, indicator.TTFTP95},
	{"num_waiting", indicator.Waiting},
	{"num_running", indicator.Running},
	{"tbt_p95", indicator.ITLP95},
	{"output_tokens_rate", indicator.GenerationTokenRate},
	{"gpu_utilization", indicator.GPUUtil},
}

// An Alert is an anomaly of a target, or that its KV cache is raising TTFT.
type Alert struct {
	Target string
	Labels map[string]string // the target's
	Metric string
	Value  float64
	Z      float64 // standard deviations from the mean; 0 of a correlation
	// Pathology is what the catalogue has for a correlation; nil for an anomaly of one
	// metric, which says nothing of its cause.
	Pathology *catalog.Pathology
	Text      string
}

// A Watcher feeds a detector for each target with the readings of diagnoses. The zero
// value has seen none.
type Watcher struct {
	Catalogue []*catalog.Pathology
	Limits

	detectors map[string]*Detector
}

// Observe takes the readings of the next diagnosis. A target that is gone is forgotten.
func (w *Watcher) Observe(d *diagnose.Diagnosis) []Alert {
	before := w.detectors
	w.detectors = map[string]*Detector{}
	var out []Alert
	for i := range d.Targets {
		name := d.Targets[i].Name
		own := before[name]
		if own == nil {
			own = &Detector{Limits: w.Limits}
		}
		w.detectors[name] = own
		for _, m := range metrics {
			v, _ := d.Reading(i, m.signal)
			if !v.OK {
				continue
			}
			if z, mean := own.Observe(m.name, v.V); z != 0 {
				word := "high"
				if z < 0 {
					word = "low"
				}
				out = append(out, Alert{
					Target: name, Labels: d.Targets[i].Labels, Metric: m.name, Value: v.V, Z: z,
					Text: fmt.Sprintf("%s is unusually %s: %s, usually %s", m.signal.Title, word,
						indicator.FormatNumber(v.V, m.signal.Unit), indicator.FormatNumber(mean, m.signal.Unit)),
				})
			}
		}
		if r, raises := own.KVPressure(); raises {
			a := Alert{
				Target: name, Labels: d.Targets[i].Labels, Metric: "kv_cache_ttft_correlation", Value: r,
				Pathology: pressure(w.Catalogue), Text: "KV cache pressure is raising TTFT",
			}
			if p := a.Pathology; p != nil {
				a.Text += ": look at " + p.ID
				if len(p.Fixes) > 0 {
					a.Text += "; possible fix: " + p.Fixes[0].Summary
				}
			}
			out = append(out, a)
		}
	}
	return out
}

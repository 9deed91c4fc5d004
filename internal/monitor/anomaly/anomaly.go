// Package anomaly is a plain statistical detector, as many monitors have it. A value is anomalous if it is more than
// three standard deviations from the mean of the last hundred values. The KV cache is blamed if its usage correlates
// with TTFT.
//
// The detector is a baseline for comparison, and an option for users. Verdicts come from package diagnose alone;
// docs/lab/anomaly.md compares the two in numbers.
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
	Window           = 100 // values that a new one is compared with, at most
	MinWindow        = 20  // the same, at least
	Z                = 3   // standard deviations
	CorrelatedValues = 20  // the latest values that a correlation is of
	MinCorrelation   = 0.8
)

// Limits are the detector's settings; 0 selects the default.
type Limits struct {
	Window int     `yaml:"window"`
	Least  int     `yaml:"least"`
	Z      float64 `yaml:"z"`
}

// maxWindow bounds the values in memory for each metric.
const maxWindow = 10_000

// Check returns an error for limits that cannot work.
func (l Limits) Check() error {
	l = l.withDefaults()
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

func (l Limits) withDefaults() Limits {
	l.Window, l.Z = cmp.Or(l.Window, Window), cmp.Or(l.Z, Z)
	l.Least = cmp.Or(l.Least, min(MinWindow, l.Window))
	return l
}

// A Detector keeps the last values of each metric. The zero value has seen none. It is not
// safe for concurrent use.
type Detector struct {
	Limits

	windows map[string][]float64
}

// Observe compares a value with the window, and adds it. For an anomaly it returns the distance from the mean in
// standard deviations, which is negative below the mean, and the mean; otherwise 0, 0.
func (d *Detector) Observe(metric string, value float64) (z, mean float64) {
	if d.windows == nil {
		d.windows = map[string][]float64{}
	}
	window, limits := d.windows[metric], d.withDefaults()
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

// KVPressure returns the correlation of the latest KV cache usage and TTFT, -1 to 1, and whether it exceeds
// MinCorrelation. It returns NaN until there are more than CorrelatedValues of each, and if one of them is constant.
func (d *Detector) KVPressure() (correlation float64, raises bool) {
	x, y := d.windows[KVUsage], d.windows[TTFTP95]
	if len(x) <= CorrelatedValues || len(y) <= CorrelatedValues {
		return math.NaN(), false
	}
	correlation = stat.Correlation(x[len(x)-CorrelatedValues:], y[len(y)-CorrelatedValues:], nil)
	return correlation, correlation > MinCorrelation && !math.IsInf(correlation, 0)
}

// pressurePathology returns the first pathology whose condition has KV usage and TTFT, or nil.
func pressurePathology(catalogue []*catalog.Pathology) *catalog.Pathology {
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

// watchedMetrics are the signals that a Watcher reads of each target. The names are those of usual vLLM dashboards.
var watchedMetrics = []struct {
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

// An Alert is an anomaly of one metric, or the correlation of KV cache usage with TTFT.
type Alert struct {
	Target string
	Labels map[string]string // the target's
	Metric string
	Value  float64
	Z      float64 // standard deviations from the mean; 0 for a correlation
	// Pathology is the possible cause of a correlation. It is nil for an anomaly of one metric.
	Pathology *catalog.Pathology
	Text      string
}

// A Watcher feeds the readings of diagnoses to a detector for each target. The zero value is ready.
type Watcher struct {
	Catalogue []*catalog.Pathology
	Limits

	detectors map[string]*Detector
}

// Observe takes the readings of the next diagnosis, and forgets targets that are not in it.
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
		for _, m := range watchedMetrics {
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
				Pathology: pressurePathology(w.Catalogue), Text: "KV cache pressure is raising TTFT",
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

package calibrate

import (
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/sim"
)

// An Interval is a predicted quantity with its 95 % interval over the fit's
// bootstrap samples, empty where there are none. It has the uncertainty of the constants, not that of a
// workload that differs from the one simulated.
type Interval struct{ Value, Low, High float64 }

// relative is the interval's width as a share of its value.
func (i Interval) relative() float64 {
	if i.Value == 0 {
		return 0
	}
	return (i.High - i.Low) / i.Value
}

// Prediction is what a calibrated simulation says of a workload. Durations are
// in seconds.
type Prediction struct {
	Result *sim.Result // with the fitted constants

	TTFTMean, TTFTP50, TTFTP95 Interval
	TPOTMean, ITLP95, E2EP95   Interval
	OutputPerSecond            Interval
	Preemptions                Interval

	// Warnings are reasons not to trust the numbers. A prediction with warnings
	// must not be shown without them.
	Warnings []string
}

// Number of bootstrap samples simulated for the intervals.
const predictionDraws = 20

// Limits of trust. Beyond a range seen by a quarter, the constants extrapolate;
// an interval wider than half its value says that a small error of the constants
// decides about a queue, which is what nearness to saturation means.
const (
	extrapolation  = 1.25
	extrapolated   = 0.05 // share of requests
	saturatedWidth = 0.5
)

// Predict simulates a workload with a fit.
func Predict(f *Fit, cfg sim.Config, requests []sim.Request) (*Prediction, error) {
	res, err := sim.Run(cfg, f.Cost, requests, sim.Options{})
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	p := &Prediction{Result: res}
	fields := []*Interval{
		&p.TTFTMean, &p.TTFTP50, &p.TTFTP95, &p.TPOTMean, &p.ITLP95, &p.E2EP95, &p.OutputPerSecond, &p.Preemptions,
	}
	samples := make([][]float64, len(fields))
	for i, v := range quantities(res) {
		*fields[i] = Interval{v, v, v}
	}
	draws := f.Draws[:min(len(f.Draws), predictionDraws)]
	for _, cost := range draws {
		r, err := sim.Run(cfg, cost, requests, sim.Options{})
		if err != nil {
			return nil, fmt.Errorf("predict: %w", err)
		}
		for i, v := range quantities(r) {
			samples[i] = append(samples[i], v)
		}
	}
	for i, s := range samples {
		if len(s) == 0 {
			continue
		}
		slices.Sort(s) // of 20, the extremes are the nearest to 95 %
		fields[i].Low, fields[i].High = min(s[0], fields[i].Value), max(s[len(s)-1], fields[i].Value)
	}
	p.Warnings = f.Extrapolation(res)
	if w := p.TTFTP95.relative(); w > saturatedWidth {
		p.Warnings = append(p.Warnings, fmt.Sprintf(
			"near saturation: within the uncertainty of the calibration P95 TTFT is anything from %.3g s to %.3g s", p.TTFTP95.Low, p.TTFTP95.High))
	}
	return p, nil
}

// quantities are in the order of Predict's fields.
func quantities(r *sim.Result) []float64 {
	s := r.Summary()
	return []float64{
		s.TTFT.Mean.Seconds(), s.TTFT.P50.Seconds(), s.TTFT.P95.Seconds(), s.TPOT.Mean.Seconds(),
		s.ITL.P95.Seconds(), s.E2E.P95.Seconds(), s.OutputPerSecond, float64(s.Preemptions),
	}
}

// Extrapolation says, in sentences, where a simulation goes beyond what the fit
// has seen. Empty means nowhere.
func (f *Fit) Extrapolation(res *sim.Result) []string {
	if f.Observations == 0 {
		return []string{"not calibrated: the constants are estimates from data sheets"}
	}
	var used Range
	var total, small, large, long int
	for i := range res.Requests {
		r := &res.Requests[i]
		w := r.WorkAtLast.Sub(r.WorkAtFirst)
		if w.Steps < 1 {
			continue
		}
		used.include(w)
		total++
		one := rangeOf(w)
		if one.MaxSeqs > f.Seen.MaxSeqs*extrapolation {
			large++
		}
		if one.MinSeqs < f.Seen.MinSeqs/extrapolation {
			small++
		}
		if one.MaxKV > f.Seen.MaxKV*extrapolation {
			long++
		}
	}
	var out []string
	say := func(n int, format string, args ...any) {
		if float64(n) > extrapolated*float64(total) {
			out = append(out, fmt.Sprintf(format, args...)+fmt.Sprintf(", for %d of %d requests", n, total))
		}
	}
	say(large, "extrapolated: batches of up to %.0f requests, calibrated up to %.0f", used.MaxSeqs, f.Seen.MaxSeqs)
	say(small, "extrapolated: batches of down to %.0f requests, calibrated down to %.0f", used.MinSeqs, f.Seen.MinSeqs)
	say(long, "extrapolated: up to %.0f context tokens in a step, calibrated up to %.0f", used.MaxKV, f.Seen.MaxKV)
	return out
}

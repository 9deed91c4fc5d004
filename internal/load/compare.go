package load

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/base/version"
)

// A Change is the difference of one quantity between two sides.
type Change struct {
	Quantity string  `json:"quantity"`
	Unit     string  `json:"unit"` // "s" or "1/s"
	A        float64 `json:"a"`
	B        float64 `json:"b"`
	Relative float64 `json:"relative"` // B/A - 1, 0 if either is missing
	// P is adjusted for the number of comparisons (Holm); nil if there are too few values.
	P       *float64 `json:"p"`
	Verdict string   `json:"verdict"`
}

// Verdicts on a change.
const (
	Better  = "better"
	Worse   = "worse"
	Same    = "same"    // not significant, or too small to matter
	Unknown = "unknown" // too few values
)

// A Comparison is the difference between two results.
type Comparison struct {
	Tool    version.Tool `json:"tool"`
	Changes []Change     `json:"changes"`
	Notes   []string     `json:"notes,omitempty"`
}

// Worse reports whether a quantity became significantly worse.
func (c *Comparison) Worse() bool {
	for _, x := range c.Changes {
		if x.Verdict == Worse {
			return true
		}
	}
	return false
}

// significance is the adjusted p-value below which a difference is real.
const significance = 0.05

// An estimate is a quantity with its standard error and sample size.
type estimate struct {
	value, variance, n float64 // variance is the variance of one of n independent values
	ok                 bool
}

// Compare compares result B with result A. Their intervals separate changes from chance; tolerance is the relative
// change that does not matter.
func Compare(a, b *Result, tolerance float64) (*Comparison, error) {
	if !(tolerance >= 0 && tolerance < 10) {
		return nil, fmt.Errorf("tolerance %v: want 0 to 10", tolerance)
	}
	c := &Comparison{Tool: version.This()}
	var p []float64
	for _, q := range comparedQuantities() {
		ea, eb := q.of(a), q.of(b)
		if !ea.ok && !eb.ok && (ea.value == 0 || eb.value == 0) {
			continue
		}
		x := Change{Quantity: q.name, Unit: q.unit, A: ea.value, B: eb.value, Verdict: Unknown}
		pv := math.NaN()
		if ea.value != 0 && eb.value != 0 {
			x.Relative = eb.value/ea.value - 1
		}
		if ea.ok && eb.ok && ea.value != 0 {
			pv = stat.WelchP([2]float64{ea.value, eb.value}, [2]float64{ea.variance, eb.variance},
				[2]float64{ea.n, eb.n})
		}
		p = append(p, pv)
		c.Changes = append(c.Changes, x)
	}
	for i, adjusted := range adjustByHolm(p) {
		c.Changes[i].judge(adjusted, tolerance)
	}
	c.addNotes(a, b)
	return c, nil
}

// judge sets the verdict of a change from its adjusted p-value, which is NaN if there are too few values.
func (x *Change) judge(p, tolerance float64) {
	if math.IsNaN(p) {
		return
	}
	x.P = &p
	higherIsBetter := x.Unit == "1/s"
	switch {
	case p > significance || math.Abs(x.Relative) <= tolerance:
		x.Verdict = Same
	case (x.Relative > 0) == higherIsBetter:
		x.Verdict = Better
	default:
		x.Verdict = Worse
	}
}

// addNotes lists what makes the two results hard to compare.
func (c *Comparison) addNotes(a, b *Result) {
	add := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	for i, r := range []*Result{a, b} {
		letter := string(rune('A' + i))
		if r.Generator.Spoiled {
			add("result %s was distorted by its load generator", letter)
		}
		if !r.Window.Steady {
			add("result %s: %s", letter, r.Window.Why)
		}
		if e := r.Requests.ErrorRate(); e > maxErrorRate {
			add("%.1f %% of the requests of result %s failed: latencies cover only the others", 100*e, letter)
		}
	}
	if a.Tokens.Prompt > 0 && math.Abs(b.Tokens.Prompt/a.Tokens.Prompt-1) > 0.02 {
		add("prompt lengths differ: %.0f and %.0f tokens", a.Tokens.Prompt, b.Tokens.Prompt)
	}
	if a.Tokens.Output > 0 && math.Abs(b.Tokens.Output/a.Tokens.Output-1) > 0.02 {
		add("answer lengths differ: %.0f and %.0f tokens", a.Tokens.Output, b.Tokens.Output)
	}
	if a.Load.Concurrency != b.Load.Concurrency {
		add("the loads differ: concurrency %d and %d", a.Load.Concurrency, b.Load.Concurrency)
	}
}

// A comparedQuantity is one line of a comparison.
type comparedQuantity struct {
	name, unit string
	of         func(*Result) estimate
}

func comparedQuantities() []comparedQuantity {
	var list []comparedQuantity
	for _, m := range []Metric{TTFT, TTFTScheduled, ITL, TPOT, E2E, E2EScheduled} {
		list = append(list, comparedQuantity{string(m) + "_mean", "s", func(r *Result) estimate {
			d := r.Latency[m]
			if d == nil || d.Count == 0 {
				return estimate{}
			}
			se := (d.MeanHigh - d.Mean) / studentT(d.Effective-1) // the interval's lower end stops at 0
			return estimate{d.Mean, se * se * d.Effective, d.Effective, true}
		}})
		for _, q := range []float64{0.5, 0.95, 0.99} {
			list = append(list, comparedQuantity{
				fmt.Sprintf("%s_p%g", m, 100*q), "s",
				func(r *Result) estimate { return quantileEstimate(r.Latency[m], q) },
			})
		}
	}
	return append(list,
		comparedQuantity{"requests", "1/s", func(r *Result) estimate {
			t := &r.Throughput
			return intervalEstimate(t.Requests, t.RequestsLow, t.RequestsHigh, maxBatches)
		}},
		comparedQuantity{"output_tokens", "1/s", func(r *Result) estimate {
			t := &r.Throughput
			return intervalEstimate(t.OutputTokens, t.OutputLow, t.OutputHigh, maxBatches)
		}},
	)
}

// quantileEstimate derives a quantile's error from its interval.
func quantileEstimate(d *Distribution, q float64) estimate {
	x, ok := d.At(q)
	if !ok || x.Few {
		return estimate{value: x.Value}
	}
	return intervalEstimate(x.Value, x.Low, x.High, d.Effective)
}

// intervalEstimate derives a standard error from a 95 % interval over n values.
func intervalEstimate(v, low, high, n float64) estimate {
	if n < 2 || !(high > low) {
		return estimate{value: v, n: n, variance: 0, ok: v > 0 && high >= low && n >= 2}
	}
	se := (high - low) / (2 * studentT(n-1))
	return estimate{v, se * se * n, n, true}
}

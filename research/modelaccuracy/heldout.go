package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A prediction of a point comes from a fit that has not seen it, nor any other point at its level (its GPU, for
// example), and that knows nothing about its host.
type prediction struct {
	Name      string   `json:"name"`
	Without   string   `json:"without"` // the level at which points were left out; inSample: none were
	Predicted Measures `json:"predicted"`
	// Low and High are the 5th and 95th percentile of the samples. They are not yet widened.
	Low  Measures `json:"low"`
	High Measures `json:"high"`
	// Fastest is the performance of a GPU that reaches every number of its data sheet. No interval ends beyond it.
	Fastest Measures `json:"fastest"`
}

// levels are the ways to leave points out. The function names the group of a point; points of one group are left out
// together. Points without a group are never left out.
var levels = map[string]func(*Point) string{
	"GPU": (*Point).chip, "model": (*Point).architecture, "publisher": (*Point).publisher, "release": (*Point).later,
}

// inSample is the level at which no point is left out.
const inSample = "nothing"

const (
	smallFold = 5 // if less than one in five points is left out, the slopes at the fit to all points give the new fit
	foldSteps = 1 // otherwise, so many steps of a fit do
)

// folds predicts every point in sample, and by fits without its group at each level.
func (f *fitter) folds() ([]prediction, error) {
	near := map[*prepared]*linear{}
	for i, c := range f.cases {
		near[c] = f.linear[i]
	}
	seen := make([]prediction, len(f.cases))
	if err := parallel(len(f.cases), func(i int) error {
		v := f.values(f.cases[i].plain, f.x)
		m, err := f.cases[i].simulate(&v)
		m = m.fourDigits()
		seen[i] = prediction{Name: f.cases[i].Name, Without: inSample, Predicted: m, Low: m, High: m}
		return err
	}); err != nil {
		return nil, err
	}
	out := seen
	for _, without := range []string{"GPU", "model", "publisher", "release"} {
		key := levels[without]
		var order []string
		for _, c := range f.cases {
			if level := key(&c.Point); level != "" && !slices.Contains(order, level) {
				order = append(order, level)
			}
		}
		for _, level := range order {
			use := func(c *prepared) bool { return c.fits && key(&c.Point) != level }
			var held []*prepared
			for _, c := range f.cases {
				if key(&c.Point) == level {
					held = append(held, c)
				}
			}
			fold := *f
			var err error
			if len(held) < len(f.cases)/smallFold {
				fold.x, _, err = f.solve(f.rows(use))
			} else {
				err = fold.fit(use, foldSteps, func(int, float64) {})
			}
			if err != nil {
				return nil, err
			}
			p, err := fold.posterior(use)
			if err != nil {
				return nil, err
			}
			predicted := make([]prediction, len(held))
			if err := parallel(len(held), func(i int) (err error) {
				predicted[i], err = held[i].interval(p, near[held[i]])
				predicted[i].Without = without
				return err
			}); err != nil {
				return nil, err
			}
			out = append(out, predicted...)
		}
	}
	return out, nil
}

// interval predicts a case as a user's server, about whose host nothing is known. Its samples follow the slopes near
// the fit. Without slopes, and if the load is a rate, they are simulated: slopes do not describe queues near the
// capacity.
func (c *prepared) interval(p *perfmodel.Posterior, near *linear) (prediction, error) {
	mean := p.Values(c.plain)
	out := prediction{Name: c.Name}
	var err error
	if out.Predicted, err = c.simulate(&mean); err != nil {
		return out, err
	}
	at := out.Predicted.values()
	var samples [5][]float64
	for k := range perfmodel.PosteriorDraws {
		d := p.Deviation(c.plain, k)
		v := at
		switch {
		case near != nil && c.Load.Rate == 0:
			for q := range v {
				for j, off := range d {
					v[q] *= math.Exp(off * near.slope[j][q])
				}
			}
		case k < simulatedDraws:
			for j := range d {
				d[j] += mean[j]
			}
			m, err := c.simulate(&d)
			if err != nil {
				return out, err
			}
			v = m.values()
		default:
			continue
		}
		for q := range v {
			samples[q] = append(samples[q], v[q])
		}
	}
	quantile := func(share float64) Measures {
		var v [5]float64
		for q := range v {
			slices.Sort(samples[q])
			v[q] = stat.Quantile(samples[q], share)
		}
		return measures(v)
	}
	out.Predicted, out.Low, out.High = out.Predicted.fourDigits(), quantile(0.05).fourDigits(), quantile(0.95).fourDigits()
	out.Fastest, _, err = c.predict(c.plain.Roofline(), sim.Frontend{})
	out.Fastest = out.Fastest.fourDigits()
	return out, err
}

// simulate predicts a case on an unknown host.
func (c *prepared) simulate(v *perfmodel.Values) (Measures, error) {
	m, _, err := c.predict(c.plain.Cost(v))
	return m, err
}

// of returns the interval of a quantity, from the samples.
func (p *prediction) of(q int) perfmodel.Estimate {
	v, low, high := p.Predicted.values()[q], p.Low.values()[q], p.High.values()[q]
	return perfmodel.Estimate{Value: v, Low: min(low, v), High: max(high, v)}
}

// physical bounds an interval by what the GPU can do at most.
func (p *prediction) physical(q int, e perfmodel.Estimate) perfmodel.Estimate {
	if fastest := p.Fastest.values()[q]; kinds[q] == perfmodel.Tokens {
		e.High = max(min(e.High, fastest), e.Value)
	} else {
		e.Low = min(max(e.Low, fastest), e.Value)
	}
	return e
}

// simulatedDraws is the number of samples of an interval that are simulated.
const simulatedDraws = 24

func measures(v [5]float64) Measures { return Measures{v[0], v[1], v[2], v[3], v[4]} }

func (m Measures) fourDigits() Measures {
	v := m.values()
	for q := range v {
		v[q] = fourDigits(v[q])
	}
	return measures(v)
}

// fourDigits rounds to four significant digits.
func fourDigits(v float64) float64 {
	if !(v > 0) {
		return v
	}
	digits := math.Pow(10, 3-math.Floor(math.Log10(v)))
	return math.Round(v*digits) / digits
}

// standing returns how far a measured value lies beyond the nearer end of an interval, as a logarithm. It is negative
// within the interval.
func standing(measured float64, i perfmodel.Estimate) float64 {
	return max(math.Log(i.Low/measured), math.Log(measured/i.High))
}

// An entry is one quantity of one prediction, with its measured value.
type entry struct {
	point    *Point
	without  string
	quantity int
	measured float64
	interval perfmodel.Estimate // from the samples
	of       *prediction
	widen    float64 // the widening of its kind, found without its group

	left     string  // the group that was left out, such as a GPU
	standing float64 // of the measured value in the interval
}

// off returns the relative error of the prediction.
func (e *entry) off() float64 { return e.interval.Value/e.measured - 1 }

// widened returns the interval as users see it.
func (e *entry) widened() perfmodel.Estimate {
	return e.of.physical(e.quantity, e.interval.Widened(e.widen))
}

// held reports whether the widened interval holds the measured value.
func (e *entry) held() bool { return e.standing <= e.widen }

// kinds has the kind of each quantity. Quantities of one kind share a widening.
var kinds = [5]perfmodel.Kind{perfmodel.TTFT, perfmodel.TPOT, perfmodel.TPOT, perfmodel.E2E, perfmodel.Tokens}

// entriesOf pairs the predictions with the measured values, in the order of their standing.
func entriesOf(points []Point, predictions []prediction) []*entry {
	byName := map[string]*Point{}
	at := map[*Point]map[string]string{} // a point's group, by level
	for i := range points {
		p := &points[i]
		byName[p.Name], at[p] = p, map[string]string{}
		for without, of := range levels {
			at[p][without] = of(p)
		}
	}
	var out []*entry
	for i := range predictions {
		p := &predictions[i]
		point := byName[p.Name]
		if point == nil {
			continue
		}
		for q, m := range point.scored() {
			if m > 0 && p.of(q).Value > 0 {
				out = append(out, &entry{
					point: point, without: p.Without, quantity: q, measured: m, interval: p.of(q), of: p,
					left: at[point][p.Without], standing: standing(m, p.of(q)),
				})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *entry) int { return cmp.Compare(a.standing, b.standing) })
	known := map[string]float64{}
	for _, e := range out {
		if e.without == inSample {
			continue
		}
		kind := kinds[e.quantity]
		of := string(kind) + e.without + e.left
		if _, ok := known[of]; !ok {
			without := e.without
			if without == "release" {
				without = "publisher" // releases have too few groups
			}
			known[of] = widening(out, kind, without, func(o *entry) bool { return at[o.point][e.without] != e.left })
		}
		e.widen = known[of]
	}
	return out
}

// scored returns the measured values that count, 0 for the others. If all requests have the same length and no E2E was
// published, E2E is computed from TTFT and TPOT.
func (p *Point) scored() [5]float64 {
	v := p.Measured.values()
	for q := range v {
		if noise := p.noise(q); noise == 0 || noise > 0.5 {
			v[q] = 0
		}
	}
	if v[3] == 0 && v[0] > 0 && v[1] > 0 && p.Load.Shape == "constant" {
		v[3] = v[0] + (p.Load.Output-1)*v[1]
	}
	return v
}

// widening returns how far both ends of the intervals of a kind must move, as a logarithm, to hold nine in ten points
// of nine in ten groups, and of one more (double conformal prediction: Dunn, Wasserman and Ramdas, 2023,
// Distribution-Free Prediction Sets for Two-Layer Hierarchical Models).
//
// Each group counts once, however many points it has: if a publisher, GPU or model is unlike the others, all of its
// points are wrong, and a user's server, which is a group of its own, is predicted many times. Nine in ten needs nine
// groups. Only TTFT has that many; the other quantities, which the time of the same steps determines, share their
// groups. With fewer groups the worst one counts.
//
// Intervals without the GPU are at least as wide as those without the publisher.
func widening(entries []*entry, kind perfmodel.Kind, without string, counts func(*entry) bool) float64 {
	groups := map[string][]float64{} // the standings of each, in ascending order
	for _, e := range entries {
		if e.without == without && counts(e) && (kinds[e.quantity] == perfmodel.TTFT) == (kind == perfmodel.TTFT) {
			groups[e.left] = append(groups[e.left], e.standing)
		}
	}
	var each []float64
	for _, standings := range groups {
		each = append(each, standings[nineInTen(len(standings))-1])
	}
	if len(each) == 0 {
		return 0
	}
	slices.Sort(each)
	by := each[min(nineInTen(len(each)+1), len(each))-1]
	if without == "GPU" {
		by = max(by, widening(entries, kind, "publisher", counts))
	}
	return by
}

// nineInTen returns how many of n are at least nine in ten.
func nineInTen(n int) int { return (9*n + 9) / 10 }

// widen returns the widening of each kind. For a GPU that was measured, without is "publisher", because nobody
// published a user's server; for another GPU it is "GPU".
func widen(entries []*entry, without string) perfmodel.Widening {
	out := perfmodel.Widening{}
	for _, kind := range kinds {
		out[kind] = rounded(widening(entries, kind, without, func(*entry) bool { return true }))
	}
	return out
}

package main

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A prediction is what is predicted of a point by a fit that has not seen it, nor any
// other point of its GPU or of its model, and that knows nothing of its host.
type prediction struct {
	Name      string   `json:"name"`
	Without   string   `json:"without"` // what all points that were left out share; inSample: nothing was
	Predicted Measures `json:"predicted"`
	// Low and High are the interval of the samples, from the 5th to the 95th percentile,
	// before it is widened by what was found of such intervals.
	Low  Measures `json:"low"`
	High Measures `json:"high"`
	// Fastest is what a GPU would do that reaches every number of its data sheet: no interval
	// ends beyond it.
	Fastest Measures `json:"fastest"`
}

// The ways in which points are left out: all that share what a function tells, together. Where
// it tells "" they stay.
var levels = map[string]func(*Point) string{
	"GPU": (*Point).chip, "model": (*Point).architecture, "publisher": (*Point).publisher, "release": (*Point).later,
}

// inSample is the way in which none is.
const inSample = "nothing"

// smallFold: where less than one in so many points is left out, the slopes near the fit to all
// tell where the fit to the others is. Where more is, so many steps of a fit do, from there.
const (
	smallFold = 5
	foldSteps = 1
)

// folds predicts every point by a fit without its GPU and by one without its model.
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

// interval predicts a case as a user's server, of whose host nothing is known. Its samples
// are those near the fit, where slopes are known, and simulated where not, and where the load
// is a rate: how long queues are near a server's capacity no slope tells.
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

// simulate predicts a case on a host of which nothing is known.
func (c *prepared) simulate(v *perfmodel.Values) (Measures, error) {
	m, _, err := c.predict(c.plain.Cost(v))
	return m, err
}

// of is the interval of a quantity as the samples give it.
func (p *prediction) of(q int) perfmodel.Estimate {
	v, low, high := p.Predicted.values()[q], p.Low.values()[q], p.High.values()[q]
	return perfmodel.Estimate{Value: v, Low: min(low, v), High: max(high, v)}
}

// physical ends an interval of a quantity where physics does.
func (p *prediction) physical(q int, e perfmodel.Estimate) perfmodel.Estimate {
	if fastest := p.Fastest.values()[q]; kinds[q] == perfmodel.Tokens {
		e.High = max(min(e.High, fastest), e.Value)
	} else {
		e.Low = min(max(e.Low, fastest), e.Value)
	}
	return e
}

// simulatedDraws are the samples of an interval where slopes are not known.
const simulatedDraws = 24

func measures(v [5]float64) Measures { return Measures{v[0], v[1], v[2], v[3], v[4]} }

func (m Measures) fourDigits() Measures {
	v := m.values()
	for q := range v {
		v[q] = fourDigits(v[q])
	}
	return measures(v)
}

// fourDigits keeps four digits.
func fourDigits(v float64) float64 {
	if !(v > 0) {
		return v
	}
	digits := math.Pow(10, 3-math.Floor(math.Log10(v)))
	return math.Round(v*digits) / digits
}

// standing is how far a measured value lies beyond the nearer end of an interval, as a
// logarithm; negative within it.
func standing(measured float64, i perfmodel.Estimate) float64 {
	return max(math.Log(i.Low/measured), math.Log(measured/i.High))
}

// An entry is one quantity of one held-out prediction beside what was measured.
type entry struct {
	point    *Point
	without  string
	quantity int
	measured float64
	interval perfmodel.Estimate // as the samples give it
	of       *prediction
	widen    float64 // by which its kind is widened, as found without its model

	kind     string  // what entries have in common that share a widening
	left     string  // which GPU or model was left out
	standing float64 // of the measured value in the interval
}

// off is the relative error of the prediction.
func (e *entry) off() float64 { return e.interval.Value/e.measured - 1 }

// held reports whether the widened interval holds what was measured.
func (e *entry) held() bool { return e.standing <= e.widen }

// kinds are those of the quantities that share a widening.
var kinds = [5]perfmodel.Kind{perfmodel.TTFT, perfmodel.TPOT, perfmodel.TPOT, perfmodel.E2E, perfmodel.Tokens}

// entriesOf pairs the predictions with what was measured, those that lie furthest within their
// intervals first.
func entriesOf(points []Point, predictions []prediction) []*entry {
	byName := map[string]*Point{}
	at := map[*Point]map[string]string{} // what is left out with a point, in each way
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
		class := perfmodel.WideningClass(point.saturated(), point.parallel() > 1, p.Without != "GPU")
		for q, m := range point.scored() {
			if m > 0 && p.of(q).Value > 0 {
				out = append(out, &entry{
					point: point, without: p.Without, quantity: q, measured: m, interval: p.of(q), of: p,
					kind: class + ": " + string(kinds[q]), left: at[point][p.Without], standing: standing(m, p.of(q)),
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
		of := e.without + e.kind + e.left
		if _, ok := known[of]; !ok {
			without := e.without
			if without == "release" {
				without = "publisher" // those of the earlier releases must tell
			}
			known[of] = widening(out, e.point.saturated(), e.point.parallel() > 1, kinds[e.quantity], without,
				func(o *entry) bool { return at[o.point][e.without] != e.left })
		}
		e.widen = known[of]
	}
	return out
}

// scored are the measured values that count, 0 for others. Where all requests have as many tokens
// and no E2E was published, it is that of the first token and of each after it.
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

// level is the share of points that intervals are to hold.
const level = 0.9

// enoughGroups, of points that were left out together, can tell what holds the level's share of
// others: of fewer the furthest would not be far enough. Fewer than fewGroups tell nothing.
const enoughGroups, fewGroups = 9, 6

// leastWidening is what no interval is narrowed by more than, however many points it holds.
const leastWidening = -0.1

// widening is by how far the ends of intervals of a class and a kind must, or may, be moved to
// hold the level's share of the entries that count and of one more. Nobody knows a server better
// because requests wait for it, or because its GPU was never measured.
func widening(entries []*entry, saturated, parallel bool, kind perfmodel.Kind, without string, counts func(*entry) bool) float64 {
	of := perfmodel.WideningClass(saturated, parallel, without != "GPU") + ": " + string(kind)
	by := alike(entries, of, without, counts)
	if saturated {
		by = max(by, widening(entries, false, parallel, kind, without, counts))
	}
	if without == "GPU" {
		by = max(by, widening(entries, saturated, parallel, kind, "publisher", counts))
	}
	return by
}

// alike is what the entries of a kind, left out in the same way, tell of the widening. Kinds
// with too few groups to tell are moved as far as all of the same quantity, or further;
// quantities with few groups as far as all that were left out in the same way.
func alike(entries []*entry, kind, without string, counts func(*entry) bool) float64 {
	var own, same, all []*entry
	_, quantity, _ := strings.Cut(kind, ": ")
	for _, e := range entries {
		if e.without != without || !counts(e) {
			continue
		}
		all = append(all, e)
		if kinds[e.quantity] == perfmodel.Kind(quantity) {
			same = append(same, e)
		}
		if e.kind == kind {
			own = append(own, e)
		}
	}
	if len(all) == 0 {
		return 0
	}
	by := leastWidening
	for _, of := range []struct {
		entries []*entry
		enough  int
	}{{own, enoughGroups}, {same, fewGroups}, {all, 0}} {
		groups, beyond := conformal(of.entries)
		if groups >= min(fewGroups, of.enough) {
			by = max(by, beyond)
		}
		if groups >= of.enough {
			break
		}
	}
	return by
}

// conformal is how many groups there are among entries in their order, and by how far intervals must
// be moved to hold the level's share of them and of one more (split conformal prediction: Vovk, Gammerman and
// Shafer, 2005). All that were left out together count as one, as they are all wrong where
// their GPU, model or publisher is unlike the others.
func conformal(entries []*entry) (groups int, by float64) {
	alike := map[string]float64{}
	for _, e := range entries {
		alike[e.left]++
	}
	total, sum := float64(len(alike)), 0.0
	target := min(level*(total+1), lastOfAll*total)
	for _, e := range entries {
		by = e.standing
		if sum += 1 / alike[e.left]; sum >= target {
			break
		}
	}
	return len(alike), by
}

// lastOfAll is the largest share of entries that intervals are widened for: beyond are those
// of which a queue was foretold that was not there, or not foretold.
const lastOfAll = 0.97

// widen is by how much the intervals of each class are widened: of a GPU that was measured by
// what intervals of servers miss whose publisher was left out, for a user's server is one
// that nobody published; of another by what they miss without the chip.
func widen(entries []*entry) map[string]perfmodel.Widening {
	out := map[string]perfmodel.Widening{}
	for _, without := range []string{"publisher", "GPU"} {
		for _, parallel := range []bool{false, true} {
			for _, saturated := range []bool{false, true} {
				class := perfmodel.WideningClass(saturated, parallel, without != "GPU")
				out[class] = perfmodel.Widening{}
				for _, kind := range kinds {
					out[class][kind] = rounded(widening(entries, saturated, parallel, kind, without, func(*entry) bool { return true }))
				}
			}
		}
	}
	return out
}

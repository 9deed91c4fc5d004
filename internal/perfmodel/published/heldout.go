package published

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/stat"
)

//go:embed heldout.json
var heldOutFile embed.FS

// A Prediction is what is predicted of a point by a fit that has not seen it, nor any
// other point of its GPU or of its model, and that knows nothing of its host.
type Prediction struct {
	Name      string   `json:"name"`
	Without   string   `json:"without"` // "GPU" or "model": all points that share it were left out
	Predicted Measures `json:"predicted"`
	// Low and High are the interval of the samples, from the 5th to the 95th percentile,
	// before it is widened by what was found of such intervals.
	Low  Measures `json:"low"`
	High Measures `json:"high"`
}

// Folds are the ways in which points are left out.
var folds = map[string]func(*Case) string{
	"GPU":   func(c *Case) string { return c.chip() },
	"model": func(c *Case) string { return c.architecture() },
}

// HeldOut returns the predictions that were made when the posterior was fitted.
func HeldOut() ([]Prediction, error) {
	content, err := heldOutFile.ReadFile("heldout.json")
	if err != nil {
		return nil, err
	}
	var ps []Prediction
	if err := json.Unmarshal(content, &ps); err != nil {
		return nil, fmt.Errorf("heldout.json: %w", err)
	}
	return ps, nil
}

// Folds predicts every point by a fit without its GPU and by one without its model. The
// slopes are those near the fit to all.
func (f *Fitter) Folds() ([]Prediction, error) {
	near := map[*Case]*linear{}
	for i, c := range f.cases {
		near[c] = f.linear[i]
	}
	var out []Prediction
	for _, without := range []string{"GPU", "model"} {
		key := folds[without]
		var levels []string
		for _, c := range f.cases {
			if !slices.Contains(levels, key(c)) {
				levels = append(levels, key(c))
			}
		}
		for _, level := range levels {
			use := func(c *Case) bool { return c.Fits && key(c) != level }
			x, _, err := f.solve(f.rows(use))
			if err != nil {
				return nil, err
			}
			fold := *f
			fold.x = x
			p, err := fold.posterior(f, use)
			if err != nil {
				return nil, err
			}
			var held []*Case
			for _, c := range f.cases {
				if key(c) == level {
					held = append(held, c)
				}
			}
			predicted := make([]Prediction, len(held))
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
// are those near the fit, where slopes are known, and simulated where not.
func (c *Case) interval(p *perfmodel.Posterior, near *linear) (Prediction, error) {
	mean := p.Values(c.plain)
	out := Prediction{Name: c.Name}
	var err error
	if out.Predicted, err = c.Predict(c.plain.Cost(&mean)); err != nil {
		return out, err
	}
	at := out.Predicted.values()
	var samples [5][]float64
	for k := range perfmodel.PosteriorDraws {
		d := p.Deviation(c.plain, k)
		v := at
		switch {
		case near != nil:
			for q := range v {
				for j, off := range d {
					v[q] *= math.Exp(off * near.slope[j][q])
				}
			}
		case k < simulatedDraws:
			for j := range d {
				d[j] += mean[j]
			}
			m, err := c.Predict(c.plain.Cost(&d))
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
	out.Predicted, out.Low, out.High = out.Predicted.rounded(), quantile(0.05).rounded(), quantile(0.95).rounded()
	return out, nil
}

// simulatedDraws are the samples of an interval where slopes are not known.
const simulatedDraws = 16

func measures(v [5]float64) Measures { return Measures{v[0], v[1], v[2], v[3], v[4]} }

func (m Measures) rounded() Measures {
	v := m.values()
	for q := range v {
		v[q] = Digits(v[q])
	}
	return measures(v)
}

// Digits keeps four digits.
func Digits(v float64) float64 {
	if !(v > 0) {
		return v
	}
	digits := math.Pow(10, 3-math.Floor(math.Log10(v)))
	return math.Round(v*digits) / digits
}

// Standing is how far a measured value lies from a prediction, in halves of its interval:
// 1 is at its edge.
func standing(measured float64, i perfmodel.Interval) float64 {
	w := i.Widened(1)
	if measured < w.Value {
		return math.Log(w.Value/measured) / math.Log(w.Value/w.Low)
	}
	return math.Log(measured/w.Value) / math.Log(w.High/w.Value)
}

// An Entry is one quantity of one held-out prediction beside what was measured.
type Entry struct {
	Point    *Point
	Without  string
	Quantity int
	Measured float64
	Interval perfmodel.Interval // as the samples give it
	Widen    float64            // by which its kind is widened, as found without its model

	class    string  // of the point
	kind     string  // what entries have in common that share a widening
	model    string  // without its quantization
	standing float64 // of the measured value in the interval
}

// Error is the relative error of the prediction.
func (e *Entry) Error() float64 { return e.Interval.Value/e.Measured - 1 }

// Held reports whether the widened interval holds what was measured.
func (e *Entry) Held() bool { return e.standing <= e.Widen }

// Entries pairs the predictions with what was measured.
func Entries(points []Point, predictions []Prediction) []*Entry {
	byName := map[string]*Point{}
	for i := range points {
		byName[points[i].Name] = &points[i]
	}
	var out []*Entry
	for _, p := range predictions {
		point := byName[p.Name]
		if point == nil {
			continue
		}
		class, model := perfmodel.WideningClass(point.Saturated(), point.Parallel() > 1)+": ", point.architecture()
		m, v, low, high := point.Measured.values(), p.Predicted.values(), p.Low.values(), p.High.values()
		for q := range m {
			if point.noise(q) > 0 && point.noise(q) < 0.5 && v[q] > 0 {
				e := &Entry{Point: point, Without: p.Without, Quantity: q, Measured: m[q],
					Interval: perfmodel.Interval{Value: v[q], Low: min(low[q], v[q]), High: max(high[q], v[q])},
					kind:     class + [5]string{"ttft", "tpot", "tpot", "e2e", "tokens"}[q], model: model, class: point.Class()}
				e.standing = standing(e.Measured, e.Interval)
				out = append(out, e)
			}
		}
	}
	known := map[string]float64{}
	for _, e := range out {
		of := e.kind + e.model
		if _, ok := known[of]; !ok {
			known[of] = widening(out, e.kind, func(o *Entry) bool { return o.model != e.model })
		}
		e.Widen = known[of]
	}
	return out
}

// level is the share of points that intervals are to hold.
const level = 0.9

// fewEntries are too few to tell of their own kind.
const fewEntries = 7

// widening is by how much intervals of a kind must be widened to hold the level's share of
// the entries that count, both of those without their GPU and of those without their model
// (split conformal prediction: Vovk, Gammerman and Shafer, 2005). It is 1 at least: nobody
// is surer than the samples. Kinds with few entries take all entries' widening.
func widening(entries []*Entry, kind string, counts func(*Entry) bool) float64 {
	out := 1.0
	for without := range folds {
		var own, all []float64
		for _, e := range entries {
			if e.Without == without && counts(e) {
				all = append(all, e.standing)
				if e.kind == kind {
					own = append(own, e.standing)
				}
			}
		}
		if len(own) < fewEntries {
			own = all
		}
		if len(own) > 0 {
			slices.Sort(own)
			out = max(out, own[int(math.Ceil(level*float64(len(own))))-1])
		}
	}
	return out
}

// Widen is by how much the intervals of each class are widened.
func Widen(entries []*Entry) map[string]perfmodel.Widening {
	out := map[string]perfmodel.Widening{}
	for _, saturated := range []bool{false, true} {
		for _, parallel := range []bool{false, true} {
			class := perfmodel.WideningClass(saturated, parallel)
			of := func(q string) float64 {
				return Round(widening(entries, class+": "+q, func(*Entry) bool { return true }))
			}
			out[class] = perfmodel.Widening{TTFT: of("ttft"), TPOT: of("tpot"), E2E: of("e2e"), Tokens: of("tokens")}
		}
	}
	return out
}

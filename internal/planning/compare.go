package planning

import (
	"errors"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Choice is a kind of GPU and a form of the weights, "" for that of the checkpoint.
type Choice struct {
	Device       perfmodel.GPU
	Memory       perfmodel.Estimate
	Quantization string
}

// An Alternative is what came of a Choice.
type Alternative struct {
	Choice
	Tuned *Tuned
	Err   error // why there is no answer: what vLLM refuses
}

// Point is the configuration that was found or comes closest, nil where there is none.
func (t *Tuned) Point() *Point {
	switch {
	case t.Result == nil:
		return nil
	case t.Result.Best != nil:
		return t.Result.Best
	}
	return t.Result.Nearest
}

// Meets reports whether the targets are met or, without any, whether the model fits.
func (t *Tuned) Meets() bool {
	if t.Plan != nil {
		return t.Result != nil && t.Result.Best != nil
	}
	return t.Ledger.Concurrency.Value >= 1
}

// Likely reports whether the targets are met at the likeliest step times, and not surely.
func (t *Tuned) Likely() bool {
	return t.Result != nil && t.Result.Best == nil && t.Result.Likely != nil
}

// Cost is what the deployment costs an hour, and a million of its output tokens, at the
// load that was asked for; 0 where the price or the load is not known.
func (t *Tuned) Cost() (perHour, perMillionOutput, perMillionTokens float64) {
	price := t.Price.PerHour
	s := &t.Ledger.Settings
	gpus := s.TP * s.PP * s.DP
	p := t.Point()
	if p == nil {
		return float64(gpus) * price, 0, 0
	}
	all := p.TokensPerSecond
	if out := t.Plan.Demand.MeanOutput; out > 0 {
		all *= 1 + t.Plan.Demand.MeanPrompt/out
	}
	return float64(p.GPUs) * price, perMillion(p.GPUs, price, p.TokensPerSecond), perMillion(p.GPUs, price, all)
}

// Compare answers the question for each of the choices, as many at once as there are
// cores, and says which is best: the cheapest that surely meets the targets, then one that
// probably does; where prices are missing, the one with fewest GPUs.
func (t *Tuning) Compare(choices []Choice) (all []Alternative, best int, err error) {
	all = make([]Alternative, len(choices))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var first sync.Once
	for i, c := range choices {
		g.Go(func() error {
			one := *t
			one.Device, one.Memory = c.Device, c.Memory
			one.Args = engine.Config{}
			if c.Quantization != "" {
				one.Args.Set(engine.Quantization, c.Quantization, "the comparison")
			}
			one.Args.Merge(t.Args)
			tuned, e := one.Answer()
			all[i] = Alternative{c, tuned, e}
			if t.Check != nil && t.Check() != nil {
				return t.Check()
			}
			if e != nil {
				first.Do(func() { err = e })
			}
			return nil
		})
	}
	if e := g.Wait(); e != nil {
		return nil, 0, e
	}
	best = -1
	for i := range all {
		if all[i].Tuned != nil && (best < 0 || all[i].better(&all[best])) {
			best = i
		}
	}
	if best < 0 {
		return nil, 0, errors.Join(errors.New("none of the alternatives can be"), err)
	}
	return all, best, nil
}

// better reports whether an alternative is better than another.
func (a *Alternative) better(b *Alternative) bool {
	x, y := a.Tuned, b.Tuned
	if x.Meets() != y.Meets() {
		return x.Meets()
	}
	if x.Likely() != y.Likely() {
		return x.Likely()
	}
	p, q := x.Point(), y.Point()
	if !x.Meets() && p != nil && q != nil {
		return p.score < q.score
	}
	if hour, _, _ := x.Cost(); hour > 0 {
		if other, _, _ := y.Cost(); other > 0 {
			return hour < other
		}
	}
	gpus := func(t *Tuned, p *Point) float64 {
		if p == nil {
			return math.Inf(1)
		}
		return float64(p.GPUs)
	}
	return gpus(x, p) < gpus(y, q)
}

package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/mat"

	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// unknown is one number that is fitted: a parameter, or an effect on a parameter.
type unknown struct {
	key       string
	on        int
	start, sd float64
}

// A fitter finds the parameters and effects that make the points likeliest, by nonlinear least squares of logarithmic
// errors (Gauss-Newton steps). The prior of each unknown is a penalty. Huber's weights bound the influence of points
// with causes that the model lacks. Effects share one prior spread, so that a level with few points stays near the
// others.
type fitter struct {
	cases    []*prepared
	unknowns []unknown
	index    map[string]int
	linear   []*linear // by case
	x        []float64
}

// linear is a case's prediction near the current unknowns.
type linear struct {
	at    Measures
	slope [][5]float64 // by unknown, of the logarithms of the quantities
}

// newFitter returns a fitter of all cases, which begins at the fitted parameters.
func newFitter(cases []*prepared) *fitter {
	f := &fitter{cases: cases, index: map[string]int{}}
	add := func(key string, on int, start, sd float64) {
		if _, ok := f.index[key]; !ok {
			f.index[key] = len(f.unknowns)
			f.unknowns = append(f.unknowns, unknown{key, on, start, sd})
		}
	}
	for i, p := range perfmodel.Parameters() {
		add(p.Name, i, p.Start(), p.SD)
	}
	for _, c := range cases {
		for _, e := range c.shape.Effects {
			add(e.Key(), e.On, e.Mean, e.SD)
		}
	}
	for _, u := range f.unknowns {
		x := u.start
		if m, ok := perfmodel.Fitted().Fitted[u.key]; ok && math.Abs(m.Mean-u.start) < farOff*u.sd {
			x = m.Mean // near the solution
		}
		f.x = append(f.x, x)
	}
	return f
}

// farOff is the distance from the prior, in standard deviations, beyond which a fitted parameter belongs to another
// prior.
const farOff = 8

// values returns a shape's parameters for a vector of unknowns.
func (f *fitter) values(s *perfmodel.Shape, x []float64) perfmodel.Values {
	var v perfmodel.Values
	copy(v[:], x)
	for _, e := range s.Effects {
		v[e.On] += x[f.index[e.Key()]]
	}
	return v
}

// predict returns a case's prediction for a vector of unknowns.
func (f *fitter) predict(c *prepared, x []float64) (Measures, error) {
	v := f.values(c.shape, x)
	m, _, err := c.predict(c.shape.Cost(&v))
	return m, err
}

// turn is the change of a logarithm for finite differences. It is large, because queues change in steps.
const turn = 0.15

// negligible is a share of the steps' time below which a constant's slope is taken as 0.
const negligible = 3e-4

// constants returns the constants of a simulation that parameters determine: the eight of a step, the API server's time
// in which it handles no other request, for prompts of the mean length, and its other time.
func constants(c sim.StepCost, f sim.Frontend, prompt float64) [10]float64 {
	return [10]float64{
		c.Base, c.Mixed, c.PerSeq, c.PerToken, c.PerKV, c.PerPair, c.Experts, float64(c.Knee),
		f.PerRequest + f.PerToken*prompt, f.Reading + f.Serial + f.SerialPerToken*prompt,
	}
}

// times multiplies the constants by factors.
func times(c sim.StepCost, f sim.Frontend, by [10]float64) (sim.StepCost, sim.Frontend) {
	c.Base, c.Mixed, c.PerSeq, c.PerToken = c.Base*by[0], c.Mixed*by[1], c.PerSeq*by[2], c.PerToken*by[3]
	c.PerKV, c.PerPair, c.Experts = c.PerKV*by[4], c.PerPair*by[5], c.Experts*by[6]
	c.Knee = int(math.Round(float64(c.Knee) * by[7]))
	f.PerRequest, f.PerToken = f.PerRequest*by[8], f.PerToken*by[8]
	f.Reading, f.Serial, f.SerialPerToken = f.Reading*by[9], f.Serial*by[9], f.SerialPerToken*by[9]
	return c, f
}

// linearize predicts a case, and computes the slopes of the prediction by the chain rule: by the constants of the
// simulation, and of these by the parameters.
func (f *fitter) linearize(c *prepared, x []float64) (*linear, error) {
	v := f.values(c.shape, x)
	cost, front := c.shape.Cost(&v)
	at, work, err := c.predict(cost, front)
	if err != nil {
		return nil, err
	}
	prompt, _ := c.Load.means()
	now := constants(cost, front, prompt)
	var slopes [10][5]float64
	for k := range now {
		var by [10]float64
		for i := range by {
			by[i] = 1
		}
		by[k] = math.Exp(turn)
		changed, frontend := times(cost, front, by)
		if frontend == front && changed.Knee == cost.Knee && changed.Seconds(work)/cost.Seconds(work)-1 < negligible {
			continue
		}
		up, _, err := c.predict(changed, frontend)
		if err != nil {
			return nil, err
		}
		u, d := up.values(), at.values()
		for q := range u {
			if u[q] > 0 && d[q] > 0 {
				slopes[k][q] = math.Log(u[q]/d[q]) / turn
			}
		}
	}
	out := &linear{at: at, slope: make([][5]float64, len(f.unknowns))}
	for on := range perfmodel.Parameters() { // the first unknowns
		w := v
		w[on] += turn
		changed, frontend := c.shape.Cost(&w)
		for k, then := range constants(changed, frontend, prompt) {
			for q := range slopes[k] {
				if now[k] > 0 && then > 0 {
					out.slope[on][q] += slopes[k][q] * math.Log(then/now[k]) / turn
				}
			}
		}
	}
	for _, e := range c.shape.Effects {
		out.slope[f.index[e.Key()]] = out.slope[e.On]
	}
	return out, nil
}

// noise returns the standard deviation that a good model has for the logarithm of a quantity, or 0 if the quantity does
// not count for the point.
func (p *Point) noise(q int) float64 {
	if p.Measured.values()[q] <= 0 || q == 0 && p.Cached {
		return 0
	}
	if p.Cached && q == 4 {
		return 0.2 // prompts that were not computed
	}
	if !p.saturated() {
		return [5]float64{0.10, 0.06, 0.06, 0.06, 0.06}[q]
	}
	if _, output := p.Load.means(); output < 20 && q == 1 {
		return 0.6 // a few tokens in a burst: mostly chance
	}
	return [5]float64{0.20, 0.20, 0.20, 0.15, 0.08}[q]
}

// capacityError is the error of the best model of a server's speed, as a logarithm.
const capacityError = 0.03

// noise returns the point's noise, plus the effect of an error of the server's speed. Near the capacity a few percent
// decide whether there is a queue, so such points show hardly more than that it is near.
func (f *fitter) noise(i, q int) float64 {
	sd := f.cases[i].noise(q) * max(1, f.cases[i].Doubt)
	if sd == 0 || f.linear == nil || f.linear[i] == nil {
		return sd
	}
	return math.Hypot(sd, capacityError*f.linear[i].slope[f.index["overall"]][q])
}

// equation is one of the linear problem.
type equation struct {
	a []float64
	b float64
}

// errors calls do for each quantity of a case that counts, with the logarithm of measured over predicted, its standard
// deviation, and the factor by which it counts less because its server has many points.
func (f *fitter) errors(i int, at Measures, alike map[string]float64, do func(q int, off, sd, less float64)) {
	predicted, measured := at.values(), f.cases[i].Measured.values()
	for q := range predicted {
		if sd := f.noise(i, q); sd > 0 && predicted[q] > 0 {
			do(q, math.Log(measured[q]/predicted[q]), sd, crowd(alike[f.cases[i].deployment()]))
		}
	}
}

// rows returns the weighted equations of the points that count.
func (f *fitter) rows(use func(*prepared) bool) []equation {
	alike := f.alike(use)
	var out []equation
	for i, c := range f.cases {
		if !use(c) || f.linear[i] == nil {
			continue
		}
		f.errors(i, f.linear[i].at, alike, func(q int, off, sd, less float64) {
			w := 1 / (sd * math.Sqrt(less))
			if e := math.Abs(off) / sd; e > huber {
				w *= math.Sqrt(huber / e)
			}
			r := equation{a: make([]float64, len(f.unknowns)), b: off * w}
			for j := range r.a {
				r.a[j] = f.linear[i].slope[j][q] * w
				r.b += r.a[j] * f.x[j]
			}
			out = append(out, r)
		})
	}
	return out
}

// huber is the error, in standard deviations, beyond which a point counts less.
const huber = 2

// deployment returns a name that the points of one server share.
func (p *Point) deployment() string { return p.Model + p.GPU + p.Host + string(rune('0'+p.parallel())) }

// solve returns the unknowns that best fit the rows and the priors, and the Cholesky factor of their precision.
func (f *fitter) solve(rows []equation) ([]float64, *mat.Cholesky, error) {
	n := len(f.unknowns)
	precision := mat.NewSymDense(n, nil)
	right := mat.NewVecDense(n, nil)
	for j, u := range f.unknowns {
		precision.SetSym(j, j, 1/(u.sd*u.sd))
		right.SetVec(j, u.start/(u.sd*u.sd))
	}
	for _, r := range rows {
		v := mat.NewVecDense(n, r.a)
		precision.SymRankOne(precision, 1, v)
		right.AddScaledVec(right, r.b, v)
	}
	var chol mat.Cholesky
	if !chol.Factorize(precision) {
		return nil, nil, errors.New("the points and the prior do not determine the parameters")
	}
	var x mat.VecDense
	if err := chol.SolveVecTo(&x, right); err != nil {
		return nil, nil, err
	}
	return slices.Clone(x.RawVector().Data), &chol, nil
}

// relinearize computes all predictions and slopes at the current unknowns.
func (f *fitter) relinearize(use func(*prepared) bool) error {
	f.linear = make([]*linear, len(f.cases))
	return parallel(len(f.cases), func(i int) error {
		if !use(f.cases[i]) {
			return nil
		}
		l, err := f.linearize(f.cases[i], f.x)
		f.linear[i] = l
		return err
	})
}

// parallel calls do for 0 to n−1 on all processors.
func parallel(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// fit fits the unknowns to the points that count, in at most steps steps. It calls report with the objective before
// each step. The first step uses the present slopes, if there are any; at the end the slopes are those of the last
// step's start.
func (f *fitter) fit(use func(*prepared) bool, steps int, report func(step int, objective float64)) error {
	for step := range steps {
		if f.linear == nil || step > 0 {
			if err := f.relinearize(use); err != nil {
				return err
			}
		}
		now, err := f.objective(use, f.x)
		if err != nil {
			return err
		}
		report(step, now)
		next, _, err := f.solve(f.rows(use))
		if err != nil {
			return err
		}
		// Shorten the step until it is an improvement: slopes hold only nearby.
		better := now
		for length := 1.0; length > 0.01 && better == now; length /= 2.5 {
			x := slices.Clone(f.x)
			for j := range x {
				x[j] += length * max(min(next[j]-x[j], 1), -1)
			}
			then, err := f.objective(use, x)
			if err != nil {
				return err
			}
			if then < now {
				f.x, better = x, then
			}
		}
		if now-better < 1e-3*now {
			return nil
		}
	}
	return nil
}

// objective returns what the fit minimizes: the squared errors and the squared distances from the priors.
func (f *fitter) objective(use func(*prepared) bool, x []float64) (float64, error) {
	sum := 0.0
	for j, u := range f.unknowns {
		d := (x[j] - u.start) / u.sd
		sum += d * d
	}
	alike := f.alike(use)
	losses := make([]float64, len(f.cases))
	err := parallel(len(f.cases), func(i int) error {
		c := f.cases[i]
		if !use(c) {
			return nil
		}
		m, err := f.predict(c, x)
		if err != nil {
			return err
		}
		f.errors(i, m, alike, func(_ int, off, sd, less float64) {
			e := math.Abs(off) / sd
			if e > huber {
				e = math.Sqrt(huber * (2*e - huber))
			}
			losses[i] += e * e / less
		})
		return nil
	})
	for _, l := range losses {
		sum += l
	}
	return sum, err
}

// alike counts the points of each deployment, which are not independent.
func (f *fitter) alike(use func(*prepared) bool) map[string]float64 {
	n := map[string]float64{}
	for _, c := range f.cases {
		if use(c) {
			n[c.deployment()]++
		}
	}
	return n
}

// crowd returns the factor by which each of n points of a deployment counts less.
func crowd(n float64) float64 { return 1 + 0.2*(n-1) }

// posterior samples the unknowns.
func (f *fitter) posterior(use func(*prepared) bool) (*perfmodel.Posterior, error) {
	_, chol, err := f.solve(f.rows(use))
	if err != nil {
		return nil, err
	}
	n := len(f.unknowns)
	out := &perfmodel.Posterior{Fitted: map[string]perfmodel.Marginal{}}
	draws := make([][]float64, n)
	rng := rand.New(rand.NewPCG(5, 7))
	var u mat.TriDense
	chol.UTo(&u) // precision is UᵀU, so that U⁻¹ z has its inverse as covariance
	for range perfmodel.PosteriorDraws {
		z := mat.NewVecDense(n, nil)
		for j := range n {
			z.SetVec(j, rng.NormFloat64())
		}
		var d mat.VecDense
		if err := d.SolveVec(&u, z); err != nil {
			return nil, err
		}
		for j := range n {
			draws[j] = append(draws[j], rounded(f.x[j]+d.AtVec(j)))
		}
	}
	for j, unknown := range f.unknowns {
		out.Fitted[unknown.key] = perfmodel.Marginal{Mean: rounded(f.x[j]), Draws: draws[j]}
	}
	return out, nil
}

// rounded rounds a logarithm to thousandths.
func rounded(v float64) float64 { return math.Round(v*1e3) / 1e3 }

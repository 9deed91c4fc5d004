package perfmodel

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A MeasuredRequest is one request of a load test. All times are from one clock.
type MeasuredRequest struct {
	Request    sim.Request
	Scheduled  time.Duration // first scheduled; negative: not known
	FirstToken time.Duration
	LastToken  time.Duration
	Use        bool // fit to it; false: it is only part of the load
}

// rounds is how often the work is simulated again with the constants just found. They settle in a few rounds, except
// near a server's capacity. There a slightly shorter step makes a much shorter queue and a smaller batch, and each
// round's constants overshoot. From round settled on, the result is the mean of all rounds since (stochastic
// approximation: Robbins and Monro, 1951).
const (
	rounds  = 12
	settled = 3
)

// FitRequests fits to a load test's results. These do not show the work that each request waited for, so it is
// simulated. Each round simulates the load with the constants known so far, and fits the constants to the measured
// durations and the simulated work. The deployment must be the server's. Check, which may be nil, is called now and
// then; its error ends the fit, as a context's would.
func FitRequests(d Deployment, measured []MeasuredRequest, prior *Prior, check func() error) (*Fit, error) {
	requests := make([]sim.Request, len(measured))
	used := 0
	for i, m := range measured {
		requests[i] = m.Request
		if m.Use {
			used++
		}
	}
	if used == 0 {
		return nil, hint.With(errors.New("calibrate: no request to fit to"), "give the results of finished requests")
	}
	start := sim.StepCost{Base: cmp.Or(typicalRequest(measured), 20e-3)} // an order of magnitude
	if prior != nil && !prior.isGuess() {
		start = prior.StepCost
	}
	best, others, err := overKnees(d.Config, prior, func(knee int) (*point, error) {
		return iterateFit(d, requests, measured, start, knee, prior, check)
	})
	if err != nil {
		return nil, err
	}
	f, err := best.toFit(others, check)
	if err != nil {
		return nil, err
	}
	return f, f.replayLoadTest(d, requests, measured, check)
}

// overKnees returns the best solution over the candidates for the knee, and solutions with other knees that describe
// the observations nearly as well, or ErrUndetermined if no knee has a solution. Among solutions that differ by no more
// than chance, the prior decides.
func overKnees(
	cfg sim.Config, prior *Prior, solve func(knee int) (*point, error),
) (*point, []*point, error) {
	var all []*point
	for _, knee := range candidateKnees(cfg, prior) {
		p, err := solve(knee)
		if errors.Is(err, ErrUndetermined) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, nil, ErrUndetermined
	}
	byLoss := func(a, b *point) int { return cmp.Compare(a.loss, b.loss) }
	// A knee that no hardware has can fit these observations, but nothing else.
	likely := slices.DeleteFunc(slices.Clone(all), func(p *point) bool { return !p.isPlausible() })
	if len(likely) == 0 {
		return slices.MinFunc(all, byLoss), nil, nil
	}
	least := slices.MinFunc(likely, byLoss).loss
	limit := least
	if prior != nil && !prior.isGuess() { // the prior orders the candidates
		limit *= asGood
	}
	best := likely[slices.IndexFunc(likely, func(p *point) bool { return p.loss <= limit })]
	others := slices.DeleteFunc(likely, func(p *point) bool { return p == best || p.loss >= nearlyAsGood*least })
	return best, others, nil
}

// nearlyAsGood limits the loss, over the least, up to which another knee may be the right one. asGood is the variation
// of one knee's loss from one search to the next.
const (
	nearlyAsGood = 1.5
	asGood       = 1.1
)

func (p *point) isPlausible() bool { return isPlausibleKnee(p.x, p.fixed) }

// candidateKnees lists candidates for the number of tokens below which a step is bound by memory. With a prior they lie
// around its knee, the nearest first. Otherwise they cover the arithmetic of hardware per byte of memory traffic, 100
// to 600 operations, and beyond.
func candidateKnees(cfg sim.Config, prior *Prior) []int {
	if prior != nil && !prior.isGuess() {
		return []int{prior.Knee, prior.Knee * 3 / 4, prior.Knee * 3 / 2, prior.Knee / 2, prior.Knee * 2}
	}
	ks := []int{0, 16, 32} // processors
	for k := 64; k <= min(1024, cfg.MaxNumBatchedTokens/2); k += 64 {
		ks = append(ks, k)
	}
	return ks
}

// iterateFit alternates simulation and fit.
func iterateFit(
	d Deployment, requests []sim.Request, measured []MeasuredRequest, start sim.StepCost, knee int, prior *Prior,
	check func() error,
) (*point, error) {
	x, shape, loss := fromCost(start), shapeOf(knee, prior), 0.0
	for round := 1; ; round++ {
		cost := toCost(x, shape)
		res, err := d.runSimulation(cost, requests, sim.Options{Frontend: toFrontend(x), Check: check})
		if err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		p, err := solveKnee(pairObservations(d, measured, res, cost), knee, prior, check)
		if err != nil {
			return nil, err
		}
		moved, gain := math.Abs(p.x[0]/x[0]-1), 1/float64(max(round-settled+1, 1))
		for j := range x {
			x[j] += gain * (p.x[j] - x[j])
		}
		loss += gain * (lossOf(p.rows, x) - loss)
		if moved < 1e-4 || round == rounds {
			p.x, p.loss = x, loss
			return p, nil
		}
	}
}

// pairObservations pairs measured durations with simulated work.
func pairObservations(d Deployment, measured []MeasuredRequest, res *sim.Result, cost sim.StepCost) []Observation {
	var obs []Observation
	for i, m := range measured {
		r := &res.Requests[i]
		if !m.Use || r.Outcome != sim.Finished {
			continue
		}
		// It is not known whether a request was preempted as often as simulated.
		d, w := m.LastToken-m.FirstToken, r.WorkAtLast.Sub(r.WorkAtFirst)
		if d > 0 && w.Steps > 0 && r.Preemptions == 0 {
			obs = append(obs, Observation{Work: w, Seconds: d.Seconds()})
		}
		prefillTime, outside := m.FirstToken-m.Scheduled, int64(0)
		if m.Scheduled < 0 {
			outside = 1
			// Without the time of scheduling, only requests that hardly queued are useful.
			prefillTime = m.FirstToken - m.Request.Arrival - r.Queue()
			if r.Queue() > r.TTFT()/5 || prefillTime > mostOutside && prefillTime > 5*(r.TTFT()-r.Queue()) {
				continue // it queued, or requests outside the results delayed it
			}
		}
		if w := r.WorkAtFirst.Sub(r.WorkAtScheduled); prefillTime > 0 && w.Steps > 0 {
			obs = append(obs,
				Observation{Work: w, Seconds: prefillTime.Seconds(), Weight: prefillWeight, Requests: outside})
		}
	}
	if d.Replicas > max(d.Lockstep, 1) {
		return obs // each engine has its own progress
	}
	return append(obs, pairMilestones(measured, res, cost)...)
}

// mostOutside is more than an API server takes for a request; a longer time is a queue.
const mostOutside = time.Second

// pairMilestones compares the progress of the whole server: the time from one request's end to a later one's, in order
// of ends and whichever requests they were. It holds even if measured and simulated requests were admitted in another
// order.
func pairMilestones(measured []MeasuredRequest, res *sim.Result, cost sim.StepCost) []Observation {
	type end struct {
		at   time.Duration
		work sim.Work
	}
	var real, simulated []end
	for i, m := range measured {
		if r := &res.Requests[i]; m.Use && r.Outcome == sim.Finished {
			real = append(real, end{at: m.LastToken})
			simulated = append(simulated, end{r.LastToken, r.WorkAtLast})
		}
	}
	for _, ends := range [][]end{real, simulated} {
		slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	}
	var obs []Observation
	for i, j := 0, milestoneEnds; j < len(real); i, j = j, j+milestoneEnds {
		d, w := (real[j].at - real[i].at).Seconds(), simulated[j].work.Sub(simulated[i].work)
		elapsed := (simulated[j].at - simulated[i].at).Seconds()
		if d <= 0 || w.Steps == 0 || cost.Seconds(w) < 0.99*elapsed {
			continue // idle for a while
		}
		obs = append(obs, Observation{Work: w, Seconds: d, Weight: milestoneEnds})
	}
	return obs
}

// milestoneEnds is how many requests end between two milestones.
const milestoneEnds = 10

// prefillWeight makes up for a prefill's few steps, whose relative error is larger than the error of a decode's
// hundreds of steps.
const prefillWeight = 0.1

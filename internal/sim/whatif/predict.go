package whatif

import (
	"errors"
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/calibrate"
)

// Route is how requests are spread over replicas.
type Route string

// The routes that a deployment can have.
const (
	RoundRobin     Route = "round-robin"
	LeastLoaded    Route = "least-loaded"
	PrefixAffinity Route = "prefix-affinity"

	// Observed gives each replica the share of the requests that it was seen to get.
	// It is known of the replicas that were observed, and cannot be chosen.
	Observed Route = "as observed"
)

// Routes lists those that can be chosen.
func Routes() []Route { return []Route{RoundRobin, LeastLoaded, PrefixAffinity} }

// affinityBlocks is how many blocks of content decide about a replica, 1,024 tokens of
// 16 a block: beyond a system prompt that all requests have, which would send them
// all to one.
const affinityBlocks = 64

func (d Deployment) router() (sim.Router, error) {
	switch r := d.Route; r {
	case Observed:
		if len(d.Shares) != max(d.Replicas, 1) {
			return nil, fmt.Errorf("shares of %d replicas were observed, %d are simulated", len(d.Shares), max(d.Replicas, 1))
		}
		sum := 0.0
		for _, s := range d.Shares {
			if !(s >= 0) || math.IsInf(s, 0) {
				return nil, fmt.Errorf("a replica with a share of %v of the requests", s)
			}
			sum += s
		}
		if !(sum > 0) {
			return nil, errors.New("no replica has a share of the requests")
		}
		return sim.Weighted(d.Shares), nil
	case RoundRobin, "":
		return sim.RoundRobin(), nil
	case LeastLoaded:
		return sim.LeastLoaded(), nil
	case PrefixAffinity:
		return sim.PrefixAffinity(affinityBlocks), nil
	}
	return nil, hint.With(fmt.Errorf("unknown route %q", d.Route), fmt.Sprintf("one of %v", Routes()))
}

// A Deployment is what is simulated.
type Deployment struct {
	Config   sim.Config
	Replicas int // engines with that configuration; 0 is 1
	Route    Route
	Shares   []float64 // of the replicas, under Observed
}

// Validate reports what no deployment could be.
func (d Deployment) Validate() error {
	if d.Replicas < 0 || d.Replicas > maxReplicas {
		return fmt.Errorf("%d replicas: want 1 to %d", d.Replicas, maxReplicas)
	}
	if _, err := d.router(); err != nil {
		return err
	}
	return d.Config.Validate()
}

const maxReplicas = 1024

// Unlimited is the number of samples of the calibration that give the best
// interval.
const Unlimited = calibrate.PredictionDraws

// Draws returns how many samples of the calibration an interval is worth, for a
// workload of so many requests: all of them for a short one, the two extremes
// where each costs a good part of a second.
func Draws(requests int) int {
	const budget = 75_000 // simulated requests
	return min(max(budget/max(requests, 1), 2), Unlimited)
}

// Predict simulates a workload on a deployment with the calibration's constants,
// and again with so many samples of them for the intervals; 0 draws give none.
// The API server's time is the calibration's, unless the options say otherwise.
// The prediction's warnings say where it goes beyond what the calibration saw.
func (c *Calibration) Predict(d Deployment, requests []sim.Request, draws int, o sim.Options) (*calibrate.Prediction, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("simulate: the workload has no requests")
	}
	return calibrate.PredictRun(c.Fit, draws, func(cost sim.StepCost, first bool) (*sim.Result, error) {
		router, err := d.router()
		if err != nil {
			return nil, err
		}
		replicas := make([]sim.Replica, max(d.Replicas, 1))
		for i := range replicas {
			replicas[i] = sim.Replica{Config: d.Config, Cost: cost}
		}
		options := o
		if options.Frontend == (sim.Frontend{}) {
			options.Frontend = c.Fit.Frontend
		}
		if !first {
			options.SampleEvery = 0
		}
		return sim.RunReplicas(replicas, router, requests, options)
	})
}

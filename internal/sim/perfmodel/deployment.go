package perfmodel

import (
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/sim"
)

// Route is how requests are spread over replicas.
type Route string

// The routes that a deployment can have.
const (
	RoundRobin  Route = "round-robin"
	LeastLoaded Route = "least-loaded" // of data-parallel ranks
	AsObserved  Route = "as observed"  // each replica gets its observed share of the requests
)

func (d Deployment) makeRouter() (sim.Router, error) {
	switch r := d.Route; r {
	case AsObserved:
		if len(d.Shares) != max(d.Replicas, 1) {
			return nil, fmt.Errorf("shares of %d replicas were observed, %d are simulated", len(d.Shares),
				max(d.Replicas, 1))
		}
		return sim.Weighted(d.Shares), nil
	case RoundRobin, "":
		return sim.RoundRobin(), nil
	case LeastLoaded:
		return sim.LeastLoaded(), nil
	}
	return nil, fmt.Errorf("unknown route %q", d.Route)
}

// A Deployment is the subject of a simulation: engines behind a router.
type Deployment struct {
	Config   sim.Config
	Replicas int // engines with that configuration; 0 is 1
	Route    Route

	// Lockstep is how many of the engines step together: the data-parallel ranks of a mixture of experts. 0 and 1: each
	// engine steps alone.
	Lockstep int

	Shares []float64 // each replica's share of the requests under AsObserved, from a workload.Measured
}

// Validate reports an impossible deployment.
func (d Deployment) Validate() error {
	if d.Replicas < 0 || d.Replicas > maxReplicas {
		return fmt.Errorf("%d replicas: want 1 to %d", d.Replicas, maxReplicas)
	}
	if d.Lockstep > 1 && max(d.Replicas, 1)%d.Lockstep != 0 {
		return fmt.Errorf("%d replicas: want a multiple of the %d data-parallel ranks that step together",
			d.Replicas, d.Lockstep)
	}
	if _, err := d.makeRouter(); err != nil {
		return err
	}
	return d.Config.Validate()
}

const maxReplicas = 1024

// Draws returns how many samples of the calibration an interval is worth for a workload of this many requests: all of
// them for a short workload, and only the two extremes where each simulation takes a good part of a second.
func Draws(requests int) int {
	const budget = 75_000 // simulated requests
	return min(max(budget/max(requests, 1), 2), PredictionDraws)
}

// runSimulation simulates the deployment with one step cost.
func (d Deployment) runSimulation(cost sim.StepCost, requests []sim.Request, o sim.Options) (*sim.Result, error) {
	router, err := d.makeRouter()
	if err != nil {
		return nil, err
	}
	o.Lockstep = d.Lockstep
	engines := slices.Repeat([]sim.Replica{{Config: d.Config, Cost: cost}}, max(d.Replicas, 1))
	return sim.RunReplicas(engines, router, requests, o)
}

// PredictionDraws is the number of bootstrap samples that make the best interval.
const PredictionDraws = 20

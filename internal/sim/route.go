package sim

import "slices"

// Load is what a router sees of a replica when a request arrives.
type Load struct {
	Running, Waiting int
}

// A Router chooses the replica of each request, in order of arrival. It may keep state, and then serves one simulation.
type Router interface {
	Pick(r *Request, replicas []Load) int
}

// A loadBlind router does not look at the loads.
type loadBlind interface{ blind() }

// RoundRobin sends requests to the replicas in turn.
func RoundRobin() Router { return &roundRobin{} }

type roundRobin struct{ next int }

func (*roundRobin) blind() {}

func (rr *roundRobin) Pick(_ *Request, replicas []Load) int {
	k := rr.next % len(replicas)
	rr.next = k + 1
	return k
}

// Weighted spreads requests over the replicas in proportion to weights, as evenly as possible: each goes to the replica
// that is the furthest behind its share. All weights must be finite and not negative, and at least one above 0;
// replicas without a weight get nothing.
func Weighted(weights []float64) Router {
	return &weighted{weights: slices.Clone(weights), credit: make([]float64, len(weights))}
}

type weighted struct{ weights, credit []float64 }

func (*weighted) blind() {}

// Pick is the smooth weighted round-robin of nginx: every replica earns its weight, and the one chosen pays what all
// earned.
func (w *weighted) Pick(_ *Request, replicas []Load) int {
	best, sum := -1, 0.0
	for k := range min(len(w.weights), len(replicas)) {
		w.credit[k] += w.weights[k]
		sum += w.weights[k]
		if w.weights[k] > 0 && (best < 0 || w.credit[k] > w.credit[best]) {
			best = k
		}
	}
	if best >= 0 {
		w.credit[best] -= sum
	}
	return best
}

// LeastLoaded sends a request to the first of the replicas with the lowest score: running requests plus four times the
// waiting ones. This is the rule of vLLM's own data-parallel load balancer (v1/engine/core_client.py@v0.23.0,
// get_core_engine_for_request), whose counts are up to 100 ms old; here they are current.
func LeastLoaded() Router { return leastLoaded{} }

type leastLoaded struct{}

func (leastLoaded) Pick(_ *Request, replicas []Load) int {
	best, least := 0, -1
	for i, l := range replicas {
		if score := 4*l.Waiting + l.Running; least < 0 || score < least {
			best, least = i, score
		}
	}
	return best
}

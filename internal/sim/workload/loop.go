package workload

import (
	"math"
	"slices"
	"time"
)

// In a closed loop the number of requests in flight stays near its maximum while many requests come and go. Requests of
// independent users would make it vary by the square root of its mean, as a Poisson number does (Palm's theorem for
// M/G/∞), or drift if they exceed the server's capacity.
const (
	loopSpread   = 0.3 // most spread in flight, relative to independent users
	loopTurnover = 0.5 // least number of arrivals, relative to requests in flight
	loopSamples  = 8   // least intervals
	loopClients  = 2   // least clients; fewer look like a trickle of requests
	loopTop      = 0.9 // quantile of the number in flight that is the number of clients
)

// findLoop looks for clients that wait for an answer before they send the next request. A pause of more than a tenth of
// a request's time makes them look independent. Requests that come evenly and take equally long look as if they waited
// for each other.
func (f *Measured) findLoop(step time.Duration) {
	held := f.inFlight(step)
	if len(held) < loopSamples {
		return
	}
	mean, came, seconds := 0.0, 0.0, 0.0
	for _, n := range held {
		mean += n / float64(len(held))
	}
	slices.Sort(held)
	for _, n := range f.Workload.Arrived {
		if !math.IsNaN(n) {
			came += n
			seconds += f.Workload.Every.Seconds()
		}
	}
	if mean < loopClients || came < loopTurnover*mean || halfSpread(held) > loopSpread*math.Sqrt(min(mean, came)) {
		return
	}
	clients := math.Round(held[int(loopTop*float64(len(held)-1))])
	// Little's law: clients that are not in the engine are on their way.
	pause := max(clients-mean, 0) * seconds / came
	f.Workload.Loop = Loop{Clients: int(clients), Pause: time.Duration(pause * float64(time.Second))}
}

// halfSpread is half the distance between the 16th and the 84th percentile of sorted values, which is the standard
// deviation of a normal distribution. It ignores rare scrapes that saw a client between two requests.
func halfSpread(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[min(n*84/100, n-1)] - sorted[n*16/100]) / 2
}

// inFlight returns the number of requests in flight on all engines together, at the times for which every engine has a
// value.
func (f *Measured) inFlight(step time.Duration) []float64 {
	held := make([]float64, int(f.To.Sub(f.From)/step)+1)
	reported := make([]int, len(held))
	for _, e := range f.Ranks {
		for _, v := range e.Intervals {
			k := int(v.End.Sub(f.From) / step)
			if n := v.Running + v.Waiting; k >= 0 && k < len(held) && !math.IsNaN(n) {
				held[k] += n
				reported[k]++
			}
		}
	}
	out := held[:0]
	for k, n := range held {
		if reported[k] == len(f.Ranks) {
			out = append(out, n)
		}
	}
	return out
}

// Shares returns each engine's share of the requests, in the order of Ranks; nil without requests.
func (f *Measured) Shares() []float64 {
	shares, total := make([]float64, len(f.Ranks)), 0.0
	for i, e := range f.Ranks {
		for _, v := range e.Intervals {
			if !math.IsNaN(v.Arrived) {
				shares[i] += v.Arrived
				total += v.Arrived
			}
		}
	}
	if !(total > 0) {
		return nil
	}
	for i := range shares {
		shares[i] /= total
	}
	return shares
}

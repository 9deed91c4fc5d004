package workload

import (
	"math"
	"slices"
	"time"
)

// A closed loop shows by a number of requests in flight that stays at its highest
// while many come and go. Requests of independent users would make it vary by the
// square root of its mean, as a Poisson number does (Palm's theorem for M/G/∞), or
// drift where they are more than the server can do.
const (
	loopSpread   = 0.3 // most spread in flight, times that of independent users
	loopTurnover = 0.5 // least requests that came, times those in flight
	loopSamples  = 8   // least intervals
	loopClients  = 2   // fewer are not told from a trickle
	loopTop      = 0.9 // the quantile of the number in flight that is the number of clients
)

// loop looks for clients that wait for an answer before they ask again. A pause of
// more than a tenth of a request's time makes them look independent, and requests
// that come evenly and take equally long look as if they waited for each other.
func (f *Measured) loop(step time.Duration) {
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
	if mean < loopClients || came < loopTurnover*mean || spread(held) > loopSpread*math.Sqrt(min(mean, came)) {
		return
	}
	clients := math.Round(held[int(loopTop*float64(len(held)-1))])
	// Little's law: clients that are not in the engine are on their way.
	pause := max(clients-mean, 0) * seconds / came
	f.Workload.Loop = Loop{Clients: int(clients), Pause: time.Duration(pause * float64(time.Second))}
}

// spread is half the distance between the 16th and the 84th percentile of sorted
// values, the standard deviation of a normal distribution: a scrape that saw a client
// between two requests does not count.
func spread(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[min(n*84/100, n-1)] - sorted[n*16/100]) / 2
}

// inFlight returns how many requests all engines together held, at moments of which
// all of them tell.
func (f *Measured) inFlight(step time.Duration) []float64 {
	held := make([]float64, int(f.To.Sub(f.From)/step)+1)
	told := make([]int, len(held))
	for _, e := range f.Ranks {
		for _, v := range e.Intervals {
			k := int(v.End.Sub(f.From) / step)
			if n := v.Running + v.Waiting; k >= 0 && k < len(held) && !math.IsNaN(n) {
				held[k] += n
				told[k]++
			}
		}
	}
	out := held[:0]
	for k, n := range held {
		if told[k] == len(f.Ranks) {
			out = append(out, n)
		}
	}
	return out
}

// Shares returns which part of the requests came to each engine, in the order of
// Ranks; nil where nothing came.
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

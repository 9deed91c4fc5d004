package sim

import (
	"errors"
	"math"
	"time"

	"github.com/sixty-dev/sixty/internal/base/heap"
)

// A Frontend is the time that the API server takes for a request outside the engine: HTTP, tokenisation, the way to the
// engine's process, and the way back of the first token. In the simulation all of it passes before the engine has the
// request, so it counts for the time to first token and not for the queue. It does not limit the number of requests.
// The zero value takes no time.
type Frontend struct {
	PerRequest float64 // seconds
	PerToken   float64 // seconds for each prompt token

	// Reading, Serial and SerialPerToken are work of a single process that handles one request at a time: first it
	// reads the request (Reading), later it hands it to the engine (Serial, and SerialPerToken for each prompt token).
	// Both are done in the order in which they become ready, so the first request of a burst is handed over when the
	// whole burst has been read. PerRequest and PerToken follow, and overlap with other requests.
	Reading, Serial, SerialPerToken float64
}

// Delay returns the time for a prompt that arrives alone.
func (f Frontend) Delay(promptTokens int) time.Duration {
	return toDuration(f.Reading) + f.handoverTime(promptTokens) + f.parallelTime(promptTokens)
}

func toDuration(v float64) time.Duration { return time.Duration(math.Round(v * 1e9)) }

// handoverTime is the time in which the process hands over a prompt.
func (f Frontend) handoverTime(promptTokens int) time.Duration {
	return toDuration(f.Serial + f.SerialPerToken*float64(promptTokens))
}

// parallelTime is the time for a prompt that other requests do not extend.
func (f Frontend) parallelTime(promptTokens int) time.Duration {
	return toDuration(f.PerRequest + f.PerToken*float64(promptTokens))
}

// An apiServer is one API server process in a simulation: a queue in which every request is served twice, once to be
// read and once to be handed over.
type apiServer struct {
	Frontend
	coming heap.Heap[arrival] // by the time at which clients sent them
	ready  []visit            // in order; those before head are done
	head   int
	now    time.Duration // end of the last visit
}

// A visit is a request's turn at the API server.
type visit struct {
	arrival
	prompt int
	read   bool // the request was read and is handed over now
}

// addArrival adds a request, sent no earlier than the end of the last visit.
func (a *apiServer) addArrival(x arrival) { a.coming.Push(x) }

// nextEvent is when the next visit ends, unless other requests arrive before it begins. It is forever if none is left.
func (a *apiServer) nextEvent() time.Duration {
	switch {
	case a.head < len(a.ready):
		return a.now + a.serviceTime(&a.ready[a.head])
	case len(a.coming) > 0:
		return max(a.now, a.coming[0].sentAt) + a.serviceTime(&visit{arrival: a.coming[0]})
	}
	return forever
}

// serviceTime is how long a visit takes, at least 1 ns.
func (a *apiServer) serviceTime(v *visit) time.Duration {
	if v.read {
		return max(a.handoverTime(v.prompt), 1)
	}
	return max(toDuration(a.Reading), 1)
}

// admitArrived queues the requests that have arrived by now.
func (a *apiServer) admitArrived(requests []Request) {
	for len(a.coming) > 0 && a.coming[0].sentAt <= a.now {
		x := a.coming.Pop()
		a.ready = append(a.ready, visit{x, requests[x.index].PromptTokens, false})
	}
}

// completeVisit ends the visit that nextEvent announced. It returns the request if it is now on its way to the engine.
func (a *apiServer) completeVisit(requests []Request) (arrival, bool) {
	if a.head == len(a.ready) {
		a.now = max(a.now, a.coming[0].sentAt)
		a.admitArrived(requests)
	}
	v := a.ready[a.head]
	a.now += a.serviceTime(&v)
	if a.head++; 2*a.head > len(a.ready) {
		a.ready, a.head = append(a.ready[:0], a.ready[a.head:]...), 0
	}
	a.admitArrived(requests)
	if v.read {
		v.at = a.now + a.parallelTime(v.prompt)
		return v.arrival, true
	}
	v.read = true
	a.ready = append(a.ready, v)
	return arrival{}, false
}

// advanceTo completes the visits before a time and notes how long requests take to reach the engine.
func (a *apiServer) advanceTo(at time.Duration, requests []Request, delays []time.Duration) {
	for a.nextEvent() < at {
		if x, ok := a.completeVisit(requests); ok {
			delays[x.index] = x.at - x.sentAt
		}
	}
}

// newServers makes n API servers, or none if requests do not wait for each other.
func newServers(f Frontend, n int) []apiServer {
	if !f.isSerial() {
		return nil
	}
	out := make([]apiServer, n)
	for k := range out {
		out[k].Frontend = f
	}
	return out
}

// isSerial reports whether requests wait for each other.
func (f Frontend) isSerial() bool { return f.Reading+f.Serial+f.SerialPerToken > 0 }

// Validate reports impossible times.
func (f Frontend) Validate() error {
	for _, v := range []float64{f.PerRequest, f.PerToken, f.Reading, f.Serial, f.SerialPerToken} {
		if !(v >= 0 && v <= 3600) {
			return errors.New("frontend: times must be 0 to an hour")
		}
	}
	return nil
}

package sim

import (
	"errors"
	"math"
	"time"
)

// A Frontend is the time that the API server takes for a request outside of the
// engine: HTTP, tokenisation, the way to the engine's process and that of the first
// token back. It delays requests and does not limit how many there can be. All of it
// comes before the engine has the request, so that it is in the time to first token
// and not in the queue. The zero value takes no time.
type Frontend struct {
	PerRequest float64 // seconds
	PerToken   float64 // seconds for each prompt token

	// Reading is the part in which it reads the request and takes no other, and Serial and
	// SerialPerToken that of each prompt token the part, later, in which it hands it to the
	// engine and takes no other either. One process does both, of all requests in the order
	// in which it comes to them: the first of a burst is handed over when all have been read.
	// They come before the rest.
	Reading, Serial, SerialPerToken float64
}

// Delay returns the time for a prompt that comes alone.
func (f Frontend) Delay(promptTokens int) time.Duration {
	return seconds64(f.Reading) + f.handoverTime(promptTokens) + f.after(promptTokens)
}

func seconds64(v float64) time.Duration { return time.Duration(math.Round(v * 1e9)) }

// handoverTime is the time in which the process hands a prompt over.
func (f Frontend) handoverTime(promptTokens int) time.Duration {
	return seconds64(f.Serial + f.SerialPerToken*float64(promptTokens))
}

// after is what a prompt takes then, whatever the process does.
func (f Frontend) after(promptTokens int) time.Duration {
	return seconds64(f.PerRequest + f.PerToken*float64(promptTokens))
}

// apiServer is one process of it in a simulation: a queue of requests that come to its
// front twice.
type apiServer struct {
	Frontend
	coming arrivalHeap // that were sent, by that time
	ready  []visit     // in the order in which they wait, from the first on
	first  int
	now    time.Duration // the end of the last visit
}

// visit is a request's turn.
type visit struct {
	arrival
	prompt int
	read   bool // before: it is handed over now
}

// send tells it of a request to come, none before a visit that has ended.
func (a *apiServer) send(x arrival) { a.coming.push(x) }

// next is when the next visit ends, unless others come before it begins; forever where
// nobody comes.
func (a *apiServer) next() time.Duration {
	switch {
	case a.first < len(a.ready):
		return a.now + a.serviceTime(&a.ready[a.first])
	case len(a.coming) > 0:
		return max(a.now, a.coming[0].sent) + a.serviceTime(&visit{arrival: a.coming[0]})
	}
	return forever
}

// serviceTime is how long a visit takes: a moment at least.
func (a *apiServer) serviceTime(v *visit) time.Duration {
	if v.read {
		return max(a.handoverTime(v.prompt), 1)
	}
	return max(seconds64(a.Reading), 1)
}

// admit lines up those who have come by now.
func (a *apiServer) admit(requests []Request) {
	for len(a.coming) > 0 && a.coming[0].sent <= a.now {
		x := a.coming.pop()
		a.ready = append(a.ready, visit{x, requests[x.request].PromptTokens, false})
	}
}

// step ends the visit that next told of, and reports the request that is on its way to the
// engine then.
func (a *apiServer) step(requests []Request) (arrival, bool) {
	if a.first == len(a.ready) {
		a.now = max(a.now, a.coming[0].sent)
		a.admit(requests)
	}
	v := a.ready[a.first]
	a.now += a.serviceTime(&v)
	if a.first++; 2*a.first > len(a.ready) {
		a.ready, a.first = append(a.ready[:0], a.ready[a.first:]...), 0
	}
	a.admit(requests)
	if v.read {
		v.at = a.now + a.after(v.prompt)
		return v.arrival, true
	}
	v.read = true
	a.ready = append(a.ready, v)
	return arrival{}, false
}

// advanceTo goes on until a time, and notes what requests take until they are at the engine.
func (a *apiServer) advanceTo(at time.Duration, requests []Request, delays []time.Duration) {
	for a.next() < at {
		if x, ok := a.step(requests); ok {
			delays[x.request] = x.at - x.sent
		}
	}
}

// servers makes so many of them.
func servers(f Frontend, n int) []apiServer {
	if !f.serial() {
		return nil
	}
	out := make([]apiServer, n)
	for k := range out {
		out[k].Frontend = f
	}
	return out
}

// serial reports whether requests wait for each other.
func (f Frontend) serial() bool { return f.Reading+f.Serial+f.SerialPerToken > 0 }

// Validate reports times that cannot be.
func (f Frontend) Validate() error {
	for _, v := range []float64{f.PerRequest, f.PerToken, f.Reading, f.Serial, f.SerialPerToken} {
		if !(v >= 0 && v <= 3600) {
			return errors.New("frontend: times must be 0 to an hour")
		}
	}
	return nil
}

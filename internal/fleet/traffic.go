package fleet

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Traffic describes the requests of virtual clients in this process. They pass the same API server as requests over
// HTTP.
type Traffic struct {
	Rate     float64           // requests a second, Poisson
	Arrivals workload.Arrivals `yaml:"-"` // further requests, from the beginning of the phase on
	Clients  int               // further clients, which send again after each answer
	Spec     workload.Spec     `yaml:",inline"`
	// Patience is how long a client waits for its first token; 0: for ever.
	Patience time.Duration
	// Bad is the share of requests that are refused: an unknown model, no prompt, or a limit that no model could hold,
	// in turn.
	Bad float64
}

// A Sight is an event that a client sees.
type Sight uint8

// The events that a client sees.
const (
	Asked      Sight = iota // it was accepted
	FirstToken              // the first token came
	Answered                // the last token came
	Left                    // the client left
	Broken                  // the server died
)

// An Experience is one event of a virtual client's request. Times are since the beginning.
type Experience struct {
	Replica   int // the replica's unique number
	What      Sight
	Asked, At time.Duration
	First     time.Duration // time of the first token, if Tokens is not 0
	Tokens    int           // number so far
}

// A traffic has the virtual clients of one phase.
type traffic struct {
	core    *core
	t       Traffic
	source  *workload.Generator
	session workload.Session
	rng     *rand.Rand
	bad     int
	stopped bool
}

func startTraffic(c *core, t Traffic, seed uint64) (*traffic, error) {
	x := &traffic{core: c, t: t, rng: rand.New(rand.NewPCG(seed, 2))}
	if t.Rate == 0 && t.Clients == 0 && len(t.Arrivals.Profile) == 0 {
		return x, nil
	}
	var err error
	if x.source, err = workload.NewGenerator(t.Spec, seed); err != nil {
		return nil, fmt.Errorf("traffic: %w", err)
	}
	if t.Rate > 0 {
		x.scheduleArrival(c.clock)
	}
	if len(t.Arrivals.Profile) > 0 {
		pacer, err := t.Arrivals.Pacer(seed)
		if err != nil {
			return nil, fmt.Errorf("traffic: %w", err)
		}
		x.schedulePaced(pacer, c.clock)
	}
	for range t.Clients { // spread over two seconds
		at := c.clock + time.Duration(x.rng.Float64()*float64(2*time.Second))
		c.scheduleEvent(at, func(at time.Duration) { x.sendRequest(at, true) })
	}
	return x, nil
}

// scheduleArrival schedules the next arrival, which schedules its successor.
func (x *traffic) scheduleArrival(now time.Duration) {
	gap := time.Duration(x.rng.ExpFloat64() / x.t.Rate * float64(time.Second))
	x.core.scheduleEvent(now+gap, func(at time.Duration) {
		if !x.stopped {
			x.sendRequest(at, false)
			x.scheduleArrival(at)
		}
	})
}

// schedulePaced schedules the next arrival of a pacer, which schedules its successor.
func (x *traffic) schedulePaced(pacer workload.Pacer, start time.Duration) {
	due, ok := pacer.Next()
	if !ok {
		return
	}
	x.core.scheduleEvent(start+due, func(at time.Duration) {
		if !x.stopped {
			x.sendRequest(at, false)
			x.schedulePaced(pacer, start)
		}
	})
}

// sendRequest sends one request.
func (x *traffic) sendRequest(at time.Duration, again bool) {
	if x.stopped {
		return
	}
	x.source.Next(&x.session)
	turn := &x.session.Turns[0]
	r := x.core.pickReplica(x.rng)
	v := &visitor{traffic: x, again: again, leaveAfter: turn.CancelAfter, asked: at}
	if r == nil || !r.up {
		v.again = false
		if again { // try later
			x.core.scheduleEvent(at+time.Second, func(at time.Duration) { x.sendRequest(at, true) })
		}
		return
	}
	c := &call{
		handler: "/v1/completions", caller: v,
		prompt: turn.PromptTokens(), output: turn.OutputTokens, limit: turn.OutputTokens,
	}
	c.received = 4*c.prompt + 120
	c.blocks = blocksOf(turn.Parts, r.cfg.Engine.BlockSize)
	if x.rng.Float64() < x.t.Bad {
		x.bad++
		switch x.bad % 3 {
		case 0:
			r.turnAway(c, statusNotFound, at)
			return
		case 1:
			r.turnAway(c, countedEmpty, at)
			return
		}
		c.limit = r.cfg.Engine.MaxModelLen + 1
	}
	if r.submitCall(c, at) != statusOK {
		v.askAgain(at + time.Second)
		return
	}
	v.reportSight(c, Asked, at)
	if p := x.t.Patience; p > 0 {
		x.core.scheduleEvent(at+p, func(at time.Duration) {
			if c.tokens == 0 && c.stage != over {
				r.abortCall(c, at)
				v.reportSight(c, Left, at)
				v.askAgain(at)
			}
		})
	}
}

// turnAway answers a call without any further processing.
func (r *replica) turnAway(c *call, status int, at time.Duration) {
	c.arrived, c.stage, c.replica = at, over, r
	r.api.connections++
	r.countAnswer(c, status, at)
}

// A visitor is a virtual client during one request.
type visitor struct {
	traffic    *traffic
	again      bool
	leaveAfter int // tokens; 0: it stays
	asked      time.Duration
}

func (v *visitor) onToken(c *call, at time.Duration, last bool) {
	if c.tokens == 1 {
		v.reportSight(c, FirstToken, at)
	}
	switch {
	case last:
		v.reportSight(c, Answered, at)
		v.askAgain(at)
	case v.leaveAfter > 0 && c.tokens >= v.leaveAfter:
		c.replica.abortCall(c, at)
		v.reportSight(c, Left, at)
		v.askAgain(at)
	}
}

func (v *visitor) onBroken(c *call, at time.Duration) {
	v.reportSight(c, Broken, at)
	v.askAgain(at + time.Second)
}

// reportSight reports an event to the core's watch.
func (v *visitor) reportSight(c *call, what Sight, at time.Duration) {
	if watch := v.traffic.core.watch; watch != nil {
		watch(Experience{
			Replica: c.replica.number, What: what, Asked: v.asked, First: c.first, At: at, Tokens: c.tokens,
		})
	}
}

// askAgain sends the next request a millisecond later, so that it never changes the step in which the last one ended.
func (v *visitor) askAgain(at time.Duration) {
	if v.again {
		v.traffic.core.scheduleEvent(at+time.Millisecond, func(at time.Duration) { v.traffic.sendRequest(at, true) })
	}
}

// blocksOf returns the identities of a prompt's full blocks; each covers all blocks before it too.
func blocksOf(parts []workload.PromptPart, size int) []uint64 {
	var (
		blocks []uint64
		h      uint64 = 14695981039346656037
		filled int
	)
	for _, p := range parts {
		for at := 0; at < p.Tokens; {
			n := min(size-filled, p.Tokens-at)
			h = hashWord(hashWord(h, p.Seed), uint64(at)<<32|uint64(n))
			at += n
			if filled += n; filled == size {
				blocks = append(blocks, h)
				filled = 0
			}
		}
	}
	return blocks
}

// hashWord is a step of FNV-1a over words (Fowler, Noll and Vo), mixed because its low bits alone are weak.
func hashWord(h, x uint64) uint64 {
	h = (h ^ x) * 1099511628211
	return h ^ h>>29
}

package fleet

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sixty-dev/sixty/internal/base/heap"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A core is a fleet in simulated time: replicas, the virtual clients, and their faults. It reads no clock: its driver
// advances it. The same random seed and the same calls give the same fleet. It is not safe for concurrent use.
type core struct {
	scenario Scenario
	replicas []*replica
	clock    time.Duration
	events   heap.Heap[event]
	number   uint64 // number of the last event, to order equal times
	turn     int    // counts the router's choices
	phase    int
	phaseEnd time.Duration
	traffic  *traffic
	wall     func(time.Duration) time.Time
	watch    func(Experience) // receives the experiences of virtual clients; may be nil
}

// newCore returns a fleet at the beginning of its scenario's first phase.
func newCore(sc Scenario, server Server, replicas int, seed uint64, wall func(time.Duration) time.Time) (*core, error) {
	c := &core{scenario: sc, wall: wall, phase: -1}
	for i := range replicas {
		r := newReplica(server, i, wall)
		if err := r.startServer(0); err != nil {
			return nil, fmt.Errorf("replica %d: %w", i, err)
		}
		r.later = c.scheduleEvent
		c.replicas = append(c.replicas, r)
	}
	return c, c.beginPhase(0, seed)
}

// An event happens at a time.
type event struct {
	at     time.Duration
	number uint64
	do     func(at time.Duration)
}

// ComesBefore orders events by time, then by number.
func (e event) ComesBefore(o event) bool { return e.at < o.at || e.at == o.at && e.number < o.number }

// scheduleEvent schedules an event.
func (c *core) scheduleEvent(at time.Duration, do func(at time.Duration)) {
	c.number++
	c.events.Push(event{max(at, c.clock), c.number, do})
}

// nextEvent returns the time of the next event, or false without one.
func (c *core) nextEvent() (time.Duration, bool) {
	best, any := time.Duration(0), false
	if len(c.events) > 0 {
		best, any = c.events[0].at, true
	}
	for _, r := range c.replicas {
		if at, ok := r.nextEvent(); ok && (!any || at < best) {
			best, any = at, true
		}
	}
	return best, any
}

// advanceTo runs all events up to a time.
func (c *core) advanceTo(until time.Duration) {
	for {
		at, ok := c.nextEvent()
		if !ok || at > until {
			break
		}
		c.clock = max(c.clock, at)
		if len(c.events) > 0 && c.events[0].at <= at {
			c.events.Pop().do(at)
			continue
		}
		for _, r := range c.replicas {
			if next, ok := r.nextEvent(); ok && next <= at {
				r.advanceTo(at)
			}
		}
	}
	c.clock = max(c.clock, until)
}

// pickReplica chooses a replica as the router does: at random by weight if there are weights, else the least loaded. It
// returns nil if all are down.
func (c *core) pickReplica(rng *rand.Rand) *replica {
	total := 0.0
	for _, r := range c.replicas {
		total += r.weight
	}
	if total > 0 {
		x := rng.Float64() * total
		for _, r := range c.replicas {
			if x -= r.weight; x < 0 {
				return r
			}
		}
	}
	loads := make([]sim.Load, 0, len(c.replicas))
	up := make([]*replica, 0, len(c.replicas))
	for i := range c.replicas {
		r := c.replicas[(i+c.turn)%len(c.replicas)] // equals take turns
		if r.up {
			up = append(up, r)
			loads = append(loads, sim.Load{Running: r.openRequests()})
		}
	}
	c.turn++
	if len(up) == 0 {
		return nil
	}
	return up[sim.LeastLoaded().Pick(nil, loads)]
}

// beginPhase enters a phase.
func (c *core) beginPhase(phase int, seed uint64) error {
	p := &c.scenario.Phases[phase]
	previous := Faults{}
	if c.phase >= 0 {
		previous = c.scenario.Phases[c.phase].Faults
	}
	c.phase = phase
	c.phaseEnd = c.clock + p.For
	for i, r := range c.replicas {
		if r.weight = 0; i < len(p.Route) {
			r.weight = p.Route[i]
		}
		if p.Faults.Only > 0 && i != p.Faults.Only-1 {
			continue
		}
		if err := r.applyFaults(previous, p.Faults, c.clock); err != nil {
			return fmt.Errorf("phase %q: %w", p.Name, err)
		}
	}
	if c.traffic != nil {
		c.traffic.stopped = true
	}
	var err error
	if c.traffic, err = startTraffic(c, p.Traffic, seed^uint64(phase+1)<<32); err != nil {
		return fmt.Errorf("phase %q: %w", p.Name, err)
	}
	if phase+1 < len(c.scenario.Phases) {
		// The error is dropped: tests run every phase of the catalogue's scenarios.
		c.scheduleEvent(c.phaseEnd, func(time.Duration) { _ = c.beginPhase(phase+1, seed) })
	}
	return nil
}

// applyFaults applies a phase's faults to a replica.
func (r *replica) applyFaults(previous, f Faults, at time.Duration) error {
	if previous.Down && !f.Down {
		if err := r.startServer(at); err != nil {
			return err
		}
	}
	if f.Down {
		r.stopServer(at)
	}
	r.setHung(f.Hang, at)
	r.leak, r.held, r.missing = f.LeakPerRequest, f.HeldBefore, f.Page
	r.gpu.fault = f.GPU
	r.accepted, r.failing.of, r.corrupt.of = f.acceptedShare(), f.TransfersFail, f.Corrupt
	r.unfilled, r.transferTakes = f.NoPrefill, cmp.Or(f.TransferTakes, 20*time.Millisecond)
	if !r.up {
		return nil
	}
	return r.engine.SetCost(f.slowedCost(r.cfg))
}

package fleet

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
)

// core is a fleet in simulated time: replicas, the virtual clients, and what is
// done to them. It knows no clock: whoever drives it says how far time has come.
// The same seed and the same calls give the same fleet. It is not safe for
// concurrent use.
type core struct {
	scenario Scenario
	replicas []*replica
	now      time.Duration
	events   eventHeap
	number   uint64 // of events, to order equal times
	turn     int    // of the router
	phase    int
	phaseEnd time.Duration
	traffic  *traffic
	wall     func(time.Duration) time.Time
	watch    func(Experience) // hears what virtual clients see; nil: nobody
}

// newCore returns a fleet at the beginning of its scenario's first phase.
func newCore(sc Scenario, server Server, replicas int, seed uint64, wall func(time.Duration) time.Time) (*core, error) {
	c := &core{scenario: sc, wall: wall, phase: -1}
	for i := range replicas {
		r := newReplica(server, i, wall)
		if err := r.start(0); err != nil {
			return nil, fmt.Errorf("replica %d: %w", i, err)
		}
		r.later = c.schedule
		c.replicas = append(c.replicas, r)
	}
	return c, c.begin(0, seed)
}

// event is something that happens at a time.
type event struct {
	at     time.Duration
	number uint64
	do     func(at time.Duration)
}

// schedule schedules something.
func (c *core) schedule(schedule time.Duration, do func(schedule time.Duration)) {
	c.number++
	heap.Push(&c.events, event{max(schedule, c.now), c.number, do})
}

// next is when something happens.
func (c *core) next() (time.Duration, bool) {
	best, any := time.Duration(0), false
	if len(c.events) > 0 {
		best, any = c.events[0].at, true
	}
	for _, r := range c.replicas {
		if at, ok := r.next(); ok && (!any || at < best) {
			best, any = at, true
		}
	}
	return best, any
}

// advance lets everything happen that is due up to a time.
func (c *core) advance(until time.Duration) {
	for {
		at, ok := c.next()
		if !ok || at > until {
			break
		}
		c.now = max(c.now, at)
		if len(c.events) > 0 && c.events[0].at <= at {
			heap.Pop(&c.events).(event).do(at)
			continue
		}
		for _, r := range c.replicas {
			if due, ok := r.next(); ok && due <= at {
				r.advance(at)
			}
		}
	}
	c.now = max(c.now, until)
}

// pick chooses a replica as the router does: at random by their weights where they
// have some, else where the load is least. It is nil when all are down.
func (c *core) pick(rng *rand.Rand) *replica {
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
		r := c.replicas[(i+c.turn)%len(c.replicas)] // of equals, another each time
		if r.up {
			up = append(up, r)
			loads = append(loads, sim.Load{Running: r.open()})
		}
	}
	c.turn++
	if len(up) == 0 {
		return nil
	}
	return up[sim.LeastLoaded().Pick(nil, loads)]
}

// begin enters a phase.
func (c *core) begin(phase int, seed uint64) error {
	p := &c.scenario.Phases[phase]
	before := Faults{}
	if c.phase >= 0 {
		before = c.scenario.Phases[c.phase].Faults
	}
	c.phase = phase
	c.phaseEnd = c.now + p.For
	for i, r := range c.replicas {
		if r.weight = 0; i < len(p.Route) {
			r.weight = p.Route[i]
		}
		if p.Faults.Only > 0 && i != p.Faults.Only-1 {
			continue
		}
		if err := r.applyFaults(before, p.Faults, c.now); err != nil {
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
		// A phase was validated by running it; New has done so with its traffic.
		c.schedule(c.phaseEnd, func(time.Duration) { _ = c.begin(phase+1, seed) })
	}
	return nil
}

// applyFaults does to a replica what a phase does beyond the one before it.
func (r *replica) applyFaults(before, f Faults, at time.Duration) error {
	if before.Down && !f.Down {
		if err := r.start(at); err != nil {
			return err
		}
	}
	if f.Down {
		r.stop(at)
	}
	r.setHung(f.Hang, at)
	r.leak, r.held, r.missing = f.LeakPerRequest, f.HeldBefore, f.Page
	r.gpu.fault = f.GPU
	r.accepted, r.failing.of, r.corrupt.of = f.accepted(), f.TransfersFail, f.Corrupt
	r.unfilled, r.transferTakes = f.NoPrefill, cmp.Or(f.TransferTakes, 20*time.Millisecond)
	if !r.up {
		return nil
	}
	return r.engine.SetCost(f.slow(r.cfg))
}

// eventHeap orders by time, then by number.
type eventHeap []event

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h eventHeap) Len() int { return len(h) }

func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

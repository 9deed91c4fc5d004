package sim

import (
	"fmt"
	"time"
)

// A group is a set of engines that step together: the data-parallel ranks of a mixture of experts. Their experts are
// spread over all ranks, and every layer waits for the tokens of all ranks. So a step ends on every rank when it ends
// on the slowest. A rank without requests takes part with a dummy batch (DPEngineCoreProc.run_busy_loop,
// v1/engine/core.py@v0.23.0).
type group struct {
	drivers []*replicaDriver
	now     time.Duration
	end     time.Duration // when the last step that was formed ends
	steps   []groupStep   // in execution, the oldest first
	idle    int           // steps in a row without work
}

// A groupStep is a step of a group.
type groupStep struct {
	ranks []*replicaDriver // those with a batch in the step
	work  Work             // work of the slowest rank
	end   time.Duration
}

func (g *group) hasUnfinished() bool {
	for _, d := range g.drivers {
		if d.Engine.hasUnfinished() {
			return true
		}
	}
	return false
}

// nextEvent is the time of the group's next event without new requests, or forever.
func (g *group) nextEvent() time.Duration {
	switch {
	case len(g.steps) > 0:
		return g.steps[0].end
	case g.hasUnfinished():
		return g.now
	}
	return forever
}

// completeStep ends the oldest step in execution and forms the next ones.
func (g *group) completeStep() error {
	if len(g.steps) > 0 {
		s := g.steps[0]
		g.steps = append(g.steps[:0], g.steps[1:]...)
		for _, d := range g.drivers {
			d.cancelUntil(s.end)
			d.Engine.stats.Work.Add(s.work)
		}
		g.now = max(g.now, s.end)
		for _, d := range s.ranks {
			d.Now = g.now
			d.Ended(d.Engine.Complete(s.end))
		}
	}
	for _, d := range g.drivers {
		if !d.mayContinue() {
			return d.err
		}
		d.cancelUntil(g.now)
	}
	if g.now > horizon {
		return fmt.Errorf("simulate: after %v of simulated time there are requests left", horizon)
	}
	for len(g.steps) < g.drivers[0].Engine.depth && g.hasUnfinished() {
		if g.formStep(); g.idle > mostIdle {
			return fmt.Errorf("simulate: the scheduler is stuck at %v", g.now)
		}
	}
	return nil
}

// formStep forms a step of all ranks that have requests.
func (g *group) formStep() {
	var s groupStep
	var batches []*batch
	var stepTokens int64
	g.idle++
	for _, d := range g.drivers {
		e := d.Engine
		if !e.hasUnfinished() {
			continue
		}
		e.moveClock(g.now)
		b := e.formBatch()
		stepTokens += b.work.Tokens
		s.ranks, batches = append(s.ranks, d), append(batches, b)
	}
	var longest time.Duration
	for i, b := range batches {
		if len(b.entries) > 0 {
			g.idle = 0
			if took := s.ranks[i].Engine.cost.timeStepAmong(&b.work, stepTokens); took > longest {
				longest, s.work = took, b.work
			}
		}
	}
	s.end = max(g.now, g.end) + longest
	g.end = s.end
	for i, d := range s.ranks {
		d.Engine.launchBatch(batches[i], s.end, longest)
		batches[i].work = Work{} // the step's work is counted for all ranks
	}
	g.steps = append(g.steps, s)
}

// runLockstep simulates groups of engines that step together.
func (s *simulation) runLockstep() error {
	var groups []*group
	for k, d := range s.drivers {
		d.watched = true
		if k%s.o.Lockstep == 0 {
			groups = append(groups, &group{})
		}
		g := groups[len(groups)-1]
		g.drivers = append(g.drivers, d)
	}
	s.sendFirst()
	for {
		first := groups[0]
		for _, g := range groups[1:] {
			if g.nextEvent() < first.nextEvent() {
				first = g
			}
		}
		arrives := s.nextArrival()
		switch at := first.nextEvent(); {
		case at < arrives || len(first.steps) > 0 && at == arrives && at < forever:
			if err := first.completeStep(); err != nil {
				return err
			}
			for _, d := range first.drivers {
				s.sendFollowUps(d)
			}
		case arrives == forever:
			return nil
		default:
			if err := s.dispatchToGroup(groups, arrives); err != nil {
				return err
			}
		}
	}
}

// dispatchToGroup gives the request that arrives at a time, if any, to the rank that the router picks.
func (s *simulation) dispatchToGroup(groups []*group, arrives time.Duration) error {
	a, ok := s.popArrival(arrives)
	if !ok {
		return nil
	}
	for k := range s.drivers {
		s.updateLoad(k)
	}
	k, err := s.pickReplica(a.index)
	if err != nil {
		return err
	}
	if g := groups[k/s.o.Lockstep]; len(g.steps) == 0 {
		g.now = max(g.now, a.at)
	}
	s.drivers[k].addRequest(a.index, &s.requests[a.index], a.sentAt, a.at-a.sentAt)
	s.sendFollowUps(s.drivers[k])
	return nil
}

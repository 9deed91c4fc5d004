package sim

import (
	"fmt"
	"time"
)

// group is engines that step together: the data-parallel ranks of a mixture of experts,
// whose experts are spread over all of them. Every layer waits for the tokens of all
// ranks, so a step ends for all of them when it does for the one that has the most to do;
// a rank without requests takes part with a dummy batch
// (DPEngineCoreProc.run_busy_loop, v1/engine/core.py@v0.23.0).
type group struct {
	drivers []*driver
	now     time.Duration
	end     time.Duration // of the last step that was formed
	steps   []together    // in execution, the oldest first
	idle    int           // steps in a row without work
}

// together is a step of a group: the ranks that have a batch in it.
type together struct {
	ranks []*driver
	work  Work // of the rank that takes the longest, which all wait for
	end   time.Duration
}

func (g *group) unfinished() bool {
	for _, d := range g.drivers {
		if d.Engine.unfinished() {
			return true
		}
	}
	return false
}

// next is when something next happens in the group by itself; forever where nothing will.
func (g *group) next() time.Duration {
	switch {
	case len(g.steps) > 0:
		return g.steps[0].end
	case g.unfinished():
		return g.now
	}
	return forever
}

// step ends the oldest step in execution, and forms the next ones.
func (g *group) step() error {
	if len(g.steps) > 0 {
		s := g.steps[0]
		g.steps = append(g.steps[:0], g.steps[1:]...)
		for _, d := range g.drivers {
			d.cancel(s.end)
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
		d.cancel(g.now)
	}
	if g.now > horizon {
		return fmt.Errorf("simulate: after %v of simulated time there are requests left", horizon)
	}
	for len(g.steps) < g.drivers[0].Engine.depth && g.unfinished() {
		if g.form(); g.idle > mostIdle {
			return fmt.Errorf("simulate: the scheduler is stuck at %v", g.now)
		}
	}
	return nil
}

// form forms a step of all ranks that have requests.
func (g *group) form() {
	var s together
	var batches []*batch
	var tokens int64
	g.idle++
	for _, d := range g.drivers {
		e := d.Engine
		if !e.unfinished() {
			continue
		}
		e.advance(g.now)
		b := e.form()
		tokens += b.work.Tokens
		s.ranks, batches = append(s.ranks, d), append(batches, b)
	}
	var longest time.Duration
	for i, b := range batches {
		if len(b.entries) > 0 {
			g.idle = 0
			if took := s.ranks[i].Engine.cost.stepAmong(&b.work, tokens); took > longest {
				longest, s.work = took, b.work
			}
		}
	}
	s.end = max(g.now, g.end) + longest
	g.end = s.end
	for i, d := range s.ranks {
		d.Engine.launch(batches[i], s.end, longest)
		batches[i].work = Work{} // that of the step is counted for all ranks
	}
	g.steps = append(g.steps, s)
}

// lockstep simulates groups of engines that step together.
func (s *simulation) lockstep() error {
	var groups []*group
	for k, d := range s.drivers {
		d.watched = true
		if k%s.o.Lockstep == 0 {
			groups = append(groups, &group{})
		}
		g := groups[len(groups)-1]
		g.drivers = append(g.drivers, d)
	}
	s.begin()
	for {
		first := groups[0]
		for _, g := range groups[1:] {
			if g.next() < first.next() {
				first = g
			}
		}
		arrives := s.arrives()
		switch at := first.next(); {
		case at < arrives || len(first.steps) > 0 && at == arrives && at < forever:
			if err := first.step(); err != nil {
				return err
			}
			for _, d := range first.drivers {
				s.sendFollowUps(d)
			}
		case arrives == forever:
			return nil
		default:
			a, ok := s.arrival(arrives)
			if !ok {
				continue
			}
			for k := range s.drivers {
				s.updateLoad(k)
			}
			k, err := s.pick(a.request)
			if err != nil {
				return err
			}
			g := groups[k/s.o.Lockstep]
			if len(g.steps) == 0 {
				g.now = max(g.now, a.at)
			}
			s.drivers[k].arrive(a.request, &s.requests[a.request], a.sent, a.at-a.sent)
			s.sendFollowUps(s.drivers[k])
		}
	}
}

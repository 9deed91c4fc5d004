package sim

import "time"

// An arrival is a request that will come to an engine.
type arrival struct {
	at     time.Duration // at the engine
	sentAt time.Duration // when its client sent it
	index  int           // its place in the list
}

// ComesBefore orders arrivals by time, then by their place in the list.
func (a arrival) ComesBefore(b arrival) bool { return a.at < b.at || a.at == b.at && a.index < b.index }

// runDependent simulates dependent requests: when a request ends, another may be sent, to any engine. So all engines
// advance together, always the one with the earliest event.
func (s *simulation) runDependent() error {
	for _, d := range s.drivers {
		d.watched = true
	}
	s.sendFirst()
	for {
		arrives := s.nextArrival()
		d, until := s.earliestDriver(arrives)
		switch at := d.nextEvent(); {
		case min(at, arrives) >= d.measuredTo:
			return nil
		case at < arrives || d.Executing && at == arrives && at < forever:
			if err := d.advanceTo(until); err != nil {
				return err
			}
			s.sendFollowUps(d)
		default:
			a, ok := s.popArrival(arrives)
			if !ok {
				continue
			}
			for k := range s.drivers {
				s.updateLoad(k)
			}
			d, err := s.dispatchRequest(a.index, a.sentAt, a.at-a.sentAt)
			if err != nil {
				return err
			}
			s.sendFollowUps(d) // a request that was refused has ended
		}
	}
}

// sendFirst sends the requests that follow no other.
func (s *simulation) sendFirst() {
	s.servers = newServers(s.o.Frontend, len(s.drivers))
	if s.o.Clients > 0 {
		s.sentCount = s.o.Held
		for range min(s.o.Clients, len(s.requests)) - s.o.Held {
			s.startClientRequest(0, true)
		}
		s.sendFollowUps(s.drivers[0])
	} else {
		s.follow = make([][]int, len(s.requests))
		for i := range s.requests {
			if r := &s.requests[i]; r.After > 0 {
				s.follow[r.After-1] = append(s.follow[r.After-1], i)
			} else if i >= s.o.Held {
				s.sendRequest(i, r.Arrival)
			}
		}
	}
}

// earliestDriver returns the engine with the earliest event, and the time up to which it may advance: the next event of
// any other engine, which could send it a request. At equal times an engine in execution comes before one that forms a
// batch.
func (s *simulation) earliestDriver(arrives time.Duration) (*replicaDriver, time.Duration) {
	first, until := s.drivers[0], arrives
	for _, d := range s.drivers[1:] {
		at, least := d.nextEvent(), first.nextEvent()
		if at < least || at == least && d.Executing && !first.Executing {
			until = min(until, least)
			first = d
		} else {
			until = min(until, at)
		}
	}
	if !first.Executing && until == first.Now {
		until++ // other engines form a batch at the same time
	}
	return first, until
}

// retryAfter is how long a client waits after a refusal before it sends its next request.
const retryAfter = time.Second

// sendFollowUps sends the requests that follow those that ended on an engine.
func (s *simulation) sendFollowUps(d *replicaDriver) {
	for _, x := range d.ended {
		if s.o.Clients > 0 {
			if x.refused {
				x.at += retryAfter
			}
			s.startClientRequest(x.at, false)
			continue
		}
		for _, k := range s.follow[x.index] {
			s.sendRequest(k, max(x.at+s.requests[k].Pause, s.requests[k].Arrival))
		}
	}
	d.ended = d.ended[:0]
}

// startClientRequest gives the next request to a client that is free from a time on. There is no pause before the first
// request of a client.
func (s *simulation) startClientRequest(free time.Duration, first bool) {
	if s.sentCount == len(s.requests) {
		return
	}
	r := &s.requests[s.sentCount]
	at := max(free+r.Pause, r.Arrival)
	if first {
		at = r.Arrival
	}
	if s.o.Until > 0 && at >= s.o.Until {
		return
	}
	s.sendRequest(s.sentCount, at)
	s.sentCount++
}

// sendRequest sends a request at a time.
func (s *simulation) sendRequest(i int, at time.Duration) {
	x := arrival{at, at, i}
	s.result.Records[i].Arrival = at
	if f := s.o.Frontend; !f.isSerial() {
		x.at += f.parallelTime(s.requests[i].PromptTokens)
		s.pending.Push(x)
		return
	}
	s.servers[s.came%len(s.servers)].addArrival(x)
	s.came++
}

// nextArrival is the next time at which a request comes to an engine or an API server ends a visit, or forever.
func (s *simulation) nextArrival() time.Duration {
	at := forever
	if len(s.pending) > 0 {
		at = s.pending[0].at
	}
	for k := range s.servers {
		at = min(at, s.servers[k].nextEvent())
	}
	return at
}

// popArrival returns the request that comes to an engine at the time that nextArrival returned. If an API server ends a
// visit then, it returns false: the request, now pending, may come later.
func (s *simulation) popArrival(at time.Duration) (arrival, bool) {
	for k := range s.servers {
		if a := &s.servers[k]; a.nextEvent() == at {
			if x, ok := a.completeVisit(s.requests); ok {
				s.pending.Push(x)
			}
			return arrival{}, false
		}
	}
	return s.pending.Pop(), true
}

package sim

import "time"

// arrival is a request that is known to come.
type arrival struct {
	at      time.Duration // at the engine
	sent    time.Duration // by its client
	request int
}

// arrivalHeap has them by time, then as they were given: the first is the least.
type arrivalHeap []arrival

func (h arrivalHeap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].request < h[j].request
}

// push and pop are those of container/heap, without an allocation for each.
func (h *arrivalHeap) push(x arrival) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(i, up) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *arrivalHeap) pop() arrival {
	s := *h
	first, n := s[0], len(s)-1
	s[0] = s[n]
	s = s[:n]
	for i := 0; ; {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < n && s.less(k, least) {
				least = k
			}
		}
		if least == i {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	*h = s
	return first
}

// runDependent simulates requests that may depend on each other: the end of one, on
// whichever engine, brings about another, on any. So the engines go forward
// together, and the one that is furthest behind is always the next.
func (s *simulation) runDependent() error {
	for _, d := range s.drivers {
		d.watched = true
	}
	s.begin()
	for {
		arrives := s.arrives()
		d, until := s.earliestDriver(arrives)
		switch at := d.next(); {
		case min(at, arrives) >= d.end:
			return nil
		case at < arrives || d.Executing && at == arrives && at < forever:
			if err := d.advance(until); err != nil {
				return err
			}
			s.sendFollowUps(d)
		default:
			a, ok := s.arrival(arrives)
			if !ok {
				continue
			}
			for k := range s.drivers {
				s.updateLoad(k)
			}
			d, err := s.dispatch(a.request, a.sent, a.at-a.sent)
			if err != nil {
				return err
			}
			s.sendFollowUps(d) // a request that was refused has ended
		}
	}
}

// begin sends the requests that wait for no other.
func (s *simulation) begin() {
	s.servers = servers(s.o.Frontend, len(s.drivers))
	if s.o.Clients > 0 {
		s.sent = s.o.Held
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
				s.send(i, r.Arrival)
			}
		}
	}
}

// earliestDriver returns the engine whose next event is the earliest, one in execution
// before one that forms a batch, and how far it may go: to the next event of any
// other, from which something could come to it.
func (s *simulation) earliestDriver(arrives time.Duration) (*driver, time.Duration) {
	first, until := s.drivers[0], arrives
	for _, d := range s.drivers[1:] {
		at, least := d.next(), first.next()
		if at < least || at == least && d.Executing && !first.Executing {
			until = min(until, least)
			first = d
		} else {
			until = min(until, at)
		}
	}
	if !first.Executing && until == first.Now {
		until++ // others form a batch at the same time
	}
	return first, until
}

// retryAfter is when a client that was turned away asks again.
const retryAfter = time.Second

// sendFollowUps sends what the requests that ended on an engine bring about.
func (s *simulation) sendFollowUps(d *driver) {
	for _, x := range d.ended {
		if s.o.Clients > 0 {
			if x.refused {
				x.at += retryAfter
			}
			s.startClientRequest(x.at, false)
			continue
		}
		for _, k := range s.follow[x.request] {
			s.send(k, max(x.at+s.requests[k].Pause, s.requests[k].Arrival))
		}
	}
	d.ended = d.ended[:0]
}

// startClientRequest lets a client that is free from a time on take the next request, before the
// first of which it makes no pause.
func (s *simulation) startClientRequest(free time.Duration, first bool) {
	if s.sent == len(s.requests) {
		return
	}
	r := &s.requests[s.sent]
	at := max(free+r.Pause, r.Arrival)
	if first {
		at = r.Arrival
	}
	if s.o.Until > 0 && at >= s.o.Until {
		return
	}
	s.send(s.sent, at)
	s.sent++
}

func (s *simulation) send(i int, at time.Duration) {
	x := arrival{at, at, i}
	s.result.Records[i].Arrival = at
	if f := s.o.Frontend; !f.serial() {
		x.at += f.after(s.requests[i].PromptTokens)
		s.pending.push(x)
		return
	}
	s.servers[s.came%len(s.servers)].send(x)
	s.came++
}

// arrives is when a request next comes to an engine, or an API server next ends
// something; forever where nothing comes.
func (s *simulation) arrives() time.Duration {
	at := forever
	if len(s.pending) > 0 {
		at = s.pending[0].at
	}
	for k := range s.servers {
		at = min(at, s.servers[k].next())
	}
	return at
}

// arrival is the request that comes to an engine at a time that arrives told of, if one
// does: API servers go on first.
func (s *simulation) arrival(at time.Duration) (arrival, bool) {
	for k := range s.servers {
		if a := &s.servers[k]; a.next() == at {
			if x, ok := a.step(s.requests); ok {
				s.pending.push(x)
			}
			return arrival{}, false
		}
	}
	return s.pending.pop(), true
}

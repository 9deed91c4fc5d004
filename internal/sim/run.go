package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// forever is later than any event.
const forever = time.Duration(math.MaxInt64)

// horizon is the simulated time beyond which nobody is served: something in the
// input is absurd. Sums of a few such times still fit into a Duration.
const horizon = 50 * 365 * 24 * time.Hour

// maxITL is the longest gap that the histogram of gaps resolves.
const maxITL = time.Hour

// A Sample is an engine's state at an instant, after all that happened then.
type Sample struct {
	At               time.Duration
	Running, Waiting int
	UsedBlocks       int
}

type sampler struct {
	every, next time.Duration
	samples     []Sample
}

func (s *sampler) until(e *Engine, now time.Duration) {
	for ; s.next < min(now, horizon); s.next += s.every {
		if len(s.samples) == maxSamples {
			s.thin()
		}
		s.samples = append(s.samples, Sample{s.next, len(e.running), e.waiting.len(), e.usedBlocks()})
	}
}

// maxSamples of one replica are kept; a run that goes on for longer has them at a
// longer interval.
const maxSamples = 1 << 16

// thin drops every other sample. Those that are kept lie as if they had been taken
// at twice the interval from the beginning.
func (s *sampler) thin() {
	for i := range maxSamples / 2 {
		s.samples[i] = s.samples[2*i]
	}
	s.samples = s.samples[:maxSamples/2]
	s.every *= 2
}

// A Replica is one engine of a deployment.
type Replica struct {
	Config Config
	Cost   StepCost
}

// Options are choices about a simulation.
type Options struct {
	// Clients makes a closed loop: so many clients take the requests in the order
	// given, each the next one when its last has ended, refused or not, and its Pause
	// has passed, but none before its Arrival. 0: requests come at their Arrival,
	// whatever happens.
	Clients int
	// Until is when clients stop sending; 0: when no request is left. Those that were
	// not sent are not in the result.
	Until time.Duration
	// Frontend is the server's time outside the engine.
	Frontend Frontend

	// SampleEvery adds the state of every replica at that interval to the result.
	SampleEvery time.Duration
	// Check, which may be nil, is asked every so many steps whether to go on, as a
	// context's Err: its error ends the simulation.
	Check func() error
	// StepByStep simulates every step on its own: the slow way that tests compare
	// with.
	StepByStep bool
}

// Result is the outcome of a simulation.
type Result struct {
	Requests []RequestResult // in the order of the requests given
	Replicas []ReplicaResult
	End      time.Duration // when the last request ended
	itl      *hdrhistogram.Histogram
}

// ReplicaResult is what one engine did.
type ReplicaResult struct {
	Stats   Stats
	Samples []Sample
}

// Run simulates one engine. It is deterministic, and its cost is linear in the
// number of requests.
func Run(cfg Config, cost StepCost, requests []Request, o Options) (*Result, error) {
	return RunReplicas([]Replica{{cfg, cost}}, RoundRobin(), requests, o)
}

// RunReplicas simulates independent engines behind a router. Requests may be
// given in any order; among equal arrivals theirs decides. Engines of a mixture
// of experts that step in lockstep are not modelled.
func RunReplicas(replicas []Replica, router Router, requests []Request, o Options) (*Result, error) {
	if len(replicas) == 0 {
		return nil, errors.New("simulate: no replica")
	}
	if o.Check != nil {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	if err := o.Frontend.Validate(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if o.Clients < 0 || o.Until < 0 {
		return nil, fmt.Errorf("simulate: %d clients until %v", o.Clients, o.Until)
	}
	res := &Result{
		Requests: make([]RequestResult, len(requests)),
		itl:      hdrhistogram.New(1000, int64(maxITL), 3),
	}
	s := &simulation{o: o, requests: requests, router: router, loads: make([]Load, len(replicas))}
	for i, rep := range replicas {
		e, err := New(rep.Config, rep.Cost)
		if err != nil {
			return nil, fmt.Errorf("simulate replica %d: %w", i, err)
		}
		e.itl = res.itl
		if o.SampleEvery > 0 {
			e.sampler = &sampler{every: o.SampleEvery}
		}
		s.drivers = append(s.drivers, newDriver(e, i, &o, res.Requests))
	}
	fed := o.Clients > 0
	for i := range requests {
		if err := requests[i].validate(); err != nil {
			return nil, fmt.Errorf("simulate request %d: %w", i, err)
		}
		if after := requests[i].After; after != 0 {
			if fed = true; after > i || o.Clients > 0 {
				return nil, fmt.Errorf("simulate request %d: it comes after request %d: want one before it in the list, and no clients in a loop", i, after-1)
			}
		}
	}
	run := s.open
	if fed {
		run = s.fed
	}
	if err := run(); err != nil {
		return nil, err
	}
	if o.Clients > 0 {
		res.Requests = res.Requests[:s.sent]
	}
	for _, d := range s.drivers {
		rr := ReplicaResult{Stats: d.Engine.Stats()}
		if s := d.Engine.sampler; s != nil {
			rr.Samples = s.samples
		}
		res.Replicas = append(res.Replicas, rr)
		res.End = max(res.End, d.Now)
	}
	return res, nil
}

// simulation is what a run has beside its engines.
type simulation struct {
	o        Options
	requests []Request
	router   Router
	drivers  []*driver
	loads    []Load        // scratch
	busy     time.Duration // until when the API server is, with a request's Serial part

	// Of a loop.
	pending arrivalHeap
	sent    int     // requests that clients took
	follow  [][]int // by request, those that come after it
}

// open simulates requests that come whatever happens.
func (s *simulation) open() error {
	order := make([]int, len(s.requests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.requests[a].Arrival, s.requests[b].Arrival) })
	delays := make([]time.Duration, len(s.requests))
	for _, i := range order {
		delays[i] = s.o.Frontend.queue(s.requests[i].Arrival, &s.busy, s.requests[i].PromptTokens)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(s.requests[a].Arrival+delays[a], s.requests[b].Arrival+delays[b])
	})
	for _, i := range order {
		r, delay := &s.requests[i], delays[i]
		for _, d := range s.drivers {
			if err := d.advance(r.Arrival + delay); err != nil {
				return err
			}
		}
		if _, err := s.dispatch(i, r.Arrival, delay); err != nil {
			return err
		}
	}
	for _, d := range s.drivers {
		if err := d.advance(forever); err != nil {
			return err
		}
	}
	return nil
}

// dispatch hands request i, which its client sent at a time, to the engine that the
// router picks. It reports whether the engine refused it.
func (s *simulation) dispatch(i int, sent, delay time.Duration) (refused bool, err error) {
	for k, d := range s.drivers {
		s.loads[k] = Load{Waiting: d.Engine.waiting.len(), Running: len(d.Engine.running), UsedBlocks: d.Engine.usedBlocks()}
	}
	k := s.router.Pick(&s.requests[i], s.loads)
	if k < 0 || k >= len(s.drivers) {
		return false, fmt.Errorf("simulate: router picked replica %d of %d", k, len(s.drivers))
	}
	r := s.requests[i]
	r.Arrival = sent + delay
	if r.CancelAfter > 0 {
		r.CancelAfter = max(r.CancelAfter-delay, 1)
	}
	return s.drivers[k].arrive(i, &r, delay), nil
}

// driver runs an engine through simulated time.
type driver struct {
	Driver
	replica int
	check   func() error // nil: nobody asks it to end
	steps   int          // since the beginning, to ask check now and then
	until   time.Duration
	err     error
	cancels cancelHeap
	taken   []taken // by engine request number
	results []RequestResult

	watched bool  // advance returns when a request ends
	ended   []int // requests, since the watcher looked
}

func newDriver(e *Engine, replica int, o *Options, results []RequestResult) *driver {
	d := &driver{Driver: Driver{Engine: e}, replica: replica, check: o.Check, results: results}
	d.Between = d.between
	d.Ending = func() { d.cancel(d.Due) } // EngineCore._process_aborts_queue
	d.Ended = func(outputs []Output) {
		for _, out := range outputs {
			if out.Result != nil {
				d.finish(out.ID, out.Result)
			}
		}
	}
	if !o.StepByStep {
		d.leap = func() time.Duration {
			limit := min(d.until, horizon)
			if len(d.cancels) > 0 {
				limit = min(limit, d.cancels[0].at-1)
			}
			return e.fastForward(d.Now, limit)
		}
	}
	return d
}

// taken is a request that an engine took.
type taken struct {
	request int
	delay   time.Duration // in the frontend, before
}

// arrive gives a request, whose arrival is that at the engine, to it. It reports
// whether the engine refused it.
func (d *driver) arrive(i int, r *Request, delay time.Duration) bool {
	if !d.Executing {
		d.Now = max(d.Now, r.Arrival)
	}
	id, err := d.Engine.Add(*r)
	if err != nil {
		res := RequestResult{Arrival: r.Arrival - delay, Frontend: delay, Finish: r.Arrival, PromptTokens: r.PromptTokens, Replica: d.replica}
		switch {
		case errors.Is(err, ErrQueueFull):
			res.Outcome = QueueFull
		case errors.Is(err, ErrPromptTooLong):
			res.Outcome = PromptTooLong
		default:
			res.Outcome = NeverFits
		}
		d.results[i] = res
		return true
	}
	d.taken = append(d.taken, taken{i, delay}) // numbers count up from 0
	if r.CancelAfter > 0 {
		d.cancels.push(cancel{r.Arrival + r.CancelAfter, id})
	}
	return false
}

// stepsPerCheck steps of the largest batches take some milliseconds.
const stepsPerCheck = 256

// advance runs the engine up to a time, at which something may arrive before
// the next batch is formed, or, where it is watched, to the end of a request.
func (d *driver) advance(until time.Duration) error {
	d.until = until
	if d.asked() && d.Advance(until) {
		return fmt.Errorf("simulate: the scheduler is stuck at %v with %d running and %d waiting", d.Now, len(d.Engine.running), d.Engine.waiting.len())
	}
	return d.err
}

// asked asks now and then whether to go on.
func (d *driver) asked() bool {
	if d.steps++; d.check != nil && d.steps%stepsPerCheck == 0 {
		d.err = d.check()
	}
	return d.err == nil
}

// between reports whether to form another batch.
func (d *driver) between() bool {
	if !d.asked() || d.Now >= d.until || len(d.ended) > 0 {
		return false
	}
	if d.Now > horizon {
		d.err = fmt.Errorf("simulate: after %v of simulated time there are %d running and %d waiting", horizon, len(d.Engine.running), d.Engine.waiting.len())
		return false
	}
	d.cancel(d.Now)
	return len(d.ended) == 0
}

func (d *driver) cancel(now time.Duration) {
	for len(d.cancels) > 0 && d.cancels[0].at <= now {
		c := d.cancels.pop()
		if res := d.Engine.Cancel(c.id, c.at); res != nil {
			d.finish(c.id, res)
		}
	}
}

// next is when something next happens in the engine by itself; forever where
// nothing will.
func (d *driver) next() time.Duration {
	switch {
	case d.Executing:
		return d.Due
	case d.Engine.HasWork():
		return d.Now
	}
	return forever
}

func (d *driver) finish(id int, res *RequestResult) {
	out, t := *res, d.taken[id]
	out.Replica = d.replica
	out.Frontend = t.delay
	out.Arrival -= t.delay
	d.results[t.request] = out
	if d.watched {
		d.ended = append(d.ended, t.request)
	}
}

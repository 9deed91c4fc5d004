package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/heap"
)

// forever is later than any event.
const forever = time.Duration(math.MaxInt64)

// horizon bounds the simulated time: an input that needs more is absurd. Sums of a few such times still fit into a
// Duration.
const horizon = 50 * 365 * 24 * time.Hour

// maxITL is the longest gap between tokens that the histogram resolves.
const maxITL = time.Hour

// A Sample is an engine's state at an instant, after all events of that instant.
type Sample struct {
	At               time.Duration
	Running, Waiting int
	UsedBlocks       int
}

// A sampler samples an engine's state at an interval.
type sampler struct {
	every, next time.Duration
	samples     []Sample
}

func (s *sampler) recordUntil(e *Engine, now time.Duration) {
	for ; s.next < min(now, horizon); s.next += s.every {
		if len(s.samples) == maxSamples {
			s.halveSamples()
		}
		s.samples = append(s.samples, Sample{s.next, len(e.running), e.waiting.len(), e.usedBlocks()})
	}
}

// maxSamples limits the samples of one replica; a longer run has them at a longer interval.
const maxSamples = 1 << 16

// halveSamples drops every other sample, as if the interval had been twice as long from the beginning.
func (s *sampler) halveSamples() {
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
	// Clients makes a closed loop of this many clients. They take the requests in the given order, each the next one
	// when its last has ended, served or refused, and its Pause has passed, but never before its Arrival. 0: requests
	// come at their Arrival.
	Clients int
	// Until is when clients stop sending; 0: when no request is left. Requests that were not sent are not in the
	// result.
	Until time.Duration
	// Frontend is the server's time outside the engine.
	Frontend Frontend

	// Lockstep is how many consecutive replicas in the list step together: the data-parallel ranks of a mixture of
	// experts. 0 and 1: each replica steps alone.
	Lockstep int

	// SampleEvery adds the state of every replica at this interval to the result.
	SampleEvery time.Duration
	// Brief keeps only the Records, which a Summary needs, and no Requests.
	Brief bool
	// Check, which may be nil, is called every so many steps, by several replicas at once. Its error ends the
	// simulation, as a context's would.
	Check func() error
	// StepByStep simulates every step on its own, the slow way that tests compare with.
	StepByStep bool

	// Limits end the simulation of a single engine early.
	Limits Limits

	// Held is how many requests, the first of the list, a single engine already has when the simulation begins. The
	// steps that compute their prompts take no time. Requests for which there is no room wait.
	Held int
	// From and To delimit the measured time of a single engine. ReplicaResult.Before is its state at From. From then on
	// Gap receives the gaps between tokens, each with its count. At To the simulation ends, and requests may be
	// Unfinished; if To is 0, it ends with the last request.
	From, To time.Duration
	Gap      func(d time.Duration, n int64)
}

// Result is the outcome of a simulation.
type Result struct {
	Records  []Record        // in the order of the requests given
	Requests []RequestResult // the same in full, unless Options.Brief
	Replicas []ReplicaResult
	End      time.Duration // when the last request ended

	Exceeded Quantity // the limit that ended the simulation early; "": none
	itl      *hdrhistogram.Histogram
}

// ReplicaResult is what one engine did.
type ReplicaResult struct {
	Stats   Stats
	Before  Stats // at Options.From
	Samples []Sample
}

// Run simulates one engine. It is deterministic, and its cost is linear in the number of requests.
func Run(cfg Config, cost StepCost, requests []Request, o Options) (*Result, error) {
	return RunReplicas([]Replica{{cfg, cost}}, RoundRobin(), requests, o)
}

// RunReplicas simulates independent engines behind a router. Requests may be given in any order, which decides among
// equal arrivals. Engines that do not depend on each other are simulated on all cores; the result does not depend on
// the number of cores.
func RunReplicas(replicas []Replica, router Router, requests []Request, o Options) (*Result, error) {
	if len(replicas) == 0 {
		return nil, errors.New("simulate: no replica")
	}
	if err := o.validate(len(replicas), len(requests)); err != nil {
		return nil, err
	}
	for i, rep := range replicas {
		if err := errors.Join(rep.Config.Validate(), rep.Cost.Validate()); err != nil {
			return nil, fmt.Errorf("simulate replica %d: %w", i, err)
		}
	}
	dependent, err := validateRequests(requests, o.Clients)
	if err != nil {
		return nil, err
	}
	s := &simulation{o: o, requests: requests, router: router, replicas: replicas, loads: make([]Load, len(replicas))}
	s.result = &Result{
		Records: make([]Record, len(requests)), Replicas: make([]ReplicaResult, len(replicas)), itl: newGaps(),
	}
	if !o.Brief {
		s.result.Requests = make([]RequestResult, len(requests))
	}
	if _, ok := router.(loadBlind); ok && !dependent && o.Lockstep < 2 {
		err = s.runIndependent()
	} else {
		err = s.runTogether(dependent)
	}
	if err != nil && !errors.Is(err, errExceeded) {
		return nil, err
	}
	return s.result, nil
}

func (o *Options) validate(replicas, requests int) error {
	if n := o.Held; n < 0 || n > requests || o.Clients > 0 && n > o.Clients ||
		replicas > 1 && (n > 0 || o.From > 0 || o.To > 0) {
		return fmt.Errorf("simulate: %d of %d requests held, measured from %v to %v, by %d replicas",
			n, requests, o.From, o.To, replicas)
	}
	if requests > math.MaxInt32 {
		return fmt.Errorf("simulate: %d requests", requests)
	}
	if o.Check != nil {
		if err := o.Check(); err != nil {
			return err
		}
	}
	if err := o.Frontend.Validate(); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	if o.Clients < 0 || o.Until < 0 {
		return fmt.Errorf("simulate: %d clients until %v", o.Clients, o.Until)
	}
	if o.Lockstep > 1 && replicas%o.Lockstep != 0 {
		return fmt.Errorf("simulate: %d replicas are not groups of %d", replicas, o.Lockstep)
	}
	return nil
}

// validateRequests checks each request, and reports whether some are dependent: sent only after another's end.
func validateRequests(requests []Request, clients int) (dependent bool, _ error) {
	dependent = clients > 0
	for i := range requests {
		if err := requests[i].validate(); err != nil {
			return false, fmt.Errorf("simulate request %d: %w", i, err)
		}
		if after := requests[i].After; after != 0 {
			if dependent = true; after > i || clients > 0 {
				return false, fmt.Errorf("simulate request %d: it follows request %d: "+
					"it must come later in the list, without closed-loop clients", i, after-1)
			}
		}
	}
	return dependent, nil
}

func newGaps() *hdrhistogram.Histogram { return hdrhistogram.New(1000, int64(maxITL), 3) }

// A simulation is the state of a run outside its engines.
type simulation struct {
	o        Options
	requests []Request
	router   Router
	replicas []Replica
	result   *Result

	// For engines that are simulated together:
	drivers []*replicaDriver
	loads   []Load // as the router sees them

	// For dependent requests:
	pending   heap.Heap[arrival]
	servers   []apiServer // they take requests in turn
	came      int         // number of requests that came to the API servers
	sentCount int         // number of requests that clients took
	follow    [][]int     // by request, the requests that follow it
}

// makeDriver makes the driver of one replica.
func (s *simulation) makeDriver(replica int) (*replicaDriver, error) {
	rep := s.replicas[replica]
	e, err := New(rep.Config, rep.Cost)
	if err != nil {
		return nil, fmt.Errorf("simulate replica %d: %w", replica, err)
	}
	e.gaps.histogram = s.result.itl
	if s.o.SampleEvery > 0 {
		e.sampler = &sampler{every: s.o.SampleEvery}
	}
	d := newReplicaDriver(e, replica, &s.o, s.result)
	if len(s.replicas) == 1 {
		if d.limits = newLimiter(s.o.Limits, s.requests); d.limits != nil {
			e.gaps.limit = d.limits.ITL + d.limits.ITL/500 // beyond the histogram's resolution
		}
	}
	return d, d.holdRequests(rep.Cost, s.requests[:s.o.Held])
}

// collectStats stores the results of an engine that has ended.
func (s *simulation) collectStats(d *replicaDriver) {
	d.Engine.gaps.flush()
	for id, t := range d.accepted { // at Options.To
		r := d.Engine.requests[id].result
		r.Finish, r.WorkAtLast = max(r.LastToken, r.Arrival), d.Engine.stats.Work
		d.storeAccepted(&t, &r)
	}
	rr := &s.result.Replicas[d.replica]
	if rr.Stats, rr.Before = d.Engine.Stats(), d.before; !d.measuring {
		rr.Before = rr.Stats
	}
	if d.Engine.sampler != nil {
		rr.Samples = d.Engine.sampler.samples
	}
}

// sortArrivals returns the order in which the requests come to the engines, and the delay of each request in the
// frontend, or nil without a frontend. There are as many API servers as engines. They take requests in turn.
func (s *simulation) sortArrivals() ([]int32, []time.Duration) {
	order := make([]int32, len(s.requests))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(s.requests[a].Arrival, s.requests[b].Arrival)
	})
	if s.o.Frontend == (Frontend{}) {
		return order, nil
	}
	delays, f := make([]time.Duration, len(s.requests)), s.o.Frontend
	if !f.isSerial() {
		for i := range s.requests {
			delays[i] = f.parallelTime(s.requests[i].PromptTokens)
		}
	} else {
		servers := newServers(f, len(s.replicas))
		for at, i := range order {
			a, sent := &servers[at%len(servers)], s.requests[i].Arrival
			a.advanceTo(sent, s.requests, delays)
			a.addArrival(arrival{sent, sent, int(i)})
		}
		for k := range servers {
			servers[k].advanceTo(forever, s.requests, delays)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(s.requests[a].Arrival+delays[a], s.requests[b].Arrival+delays[b])
	})
	return order, delays
}

func delayOf(delays []time.Duration, request int32) time.Duration {
	if delays == nil {
		return 0
	}
	return delays[request]
}

// runIndependent simulates each engine by itself, on all cores. Neither the requests nor the router may depend on what
// an engine does.
func (s *simulation) runIndependent() error {
	order, delays := s.sortArrivals()
	shares := make([][]int32, len(s.replicas))
	if len(shares) == 1 {
		shares[0], order = order, nil
	}
	for _, i := range order {
		k, err := s.pickReplica(int(i))
		if err != nil {
			return err
		}
		shares[k] = append(shares[k], i)
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex // guards what the replicas share
	for k := range s.replicas {
		g.Go(func() error {
			d, err := s.makeDriver(k)
			if err != nil {
				return err
			}
			if len(s.replicas) > 1 {
				d.Engine.gaps.histogram = newGaps()
			}
			defer s.collectStats(d)
			for _, i := range shares[k] {
				r, delay := &s.requests[i], delayOf(delays, i)
				if int(i) < s.o.Held {
					continue
				}
				if err = d.advanceTo(r.Arrival + delay); err != nil || r.Arrival+delay >= d.measuredTo {
					break
				}
				d.addRequest(int(i), r, r.Arrival, delay)
			}
			if err == nil {
				err = d.advanceTo(forever)
			}
			if err != nil && !errors.Is(err, errExceeded) {
				return err
			}
			d.Engine.gaps.flush()
			mu.Lock()
			defer mu.Unlock()
			if len(s.replicas) > 1 {
				s.result.itl.Merge(d.Engine.gaps.histogram)
			}
			s.result.End = max(s.result.End, d.Now)
			return nil
		})
	}
	return g.Wait()
}

// runTogether simulates engines that may depend on each other: the router sees their loads, or requests are dependent.
func (s *simulation) runTogether(dependent bool) error {
	for k := range s.replicas {
		d, err := s.makeDriver(k)
		if err != nil {
			return err
		}
		s.drivers = append(s.drivers, d)
	}
	run := s.runOpenLoop
	switch {
	case s.o.Lockstep > 1:
		run = s.runLockstep
	case dependent:
		run = s.runDependent
	}
	if err := run(); err != nil && !errors.Is(err, errExceeded) {
		return err
	}
	if s.o.Clients > 0 {
		s.result.Records = s.result.Records[:s.sentCount]
		if !s.o.Brief {
			s.result.Requests = s.result.Requests[:s.sentCount]
		}
	}
	for _, d := range s.drivers {
		s.collectStats(d)
		s.result.End = max(s.result.End, d.Now)
	}
	return nil
}

// runOpenLoop simulates requests that come at their own times.
func (s *simulation) runOpenLoop() error {
	order, delays := s.sortArrivals()
	for _, i := range order {
		sent, delay := s.requests[i].Arrival, delayOf(delays, i)
		at := sent + delay
		for k, d := range s.drivers {
			if d.calm > at {
				continue // the router sees the same load until then
			}
			if err := d.advanceTo(at); err != nil {
				return err
			}
			d.calm = d.calmUntil()
			s.updateLoad(k)
		}
		if _, err := s.dispatchRequest(int(i), sent, delay); err != nil {
			return err
		}
	}
	for _, d := range s.drivers {
		if err := d.advanceTo(forever); err != nil {
			return err
		}
	}
	return nil
}

// updateLoad updates the load of an engine that the router sees.
func (s *simulation) updateLoad(replica int) {
	e := s.drivers[replica].Engine
	s.loads[replica] = Load{Waiting: e.waiting.len(), Running: len(e.running)}
}

func (s *simulation) pickReplica(i int) (int, error) {
	k := s.router.Pick(&s.requests[i], s.loads)
	if k < 0 || k >= len(s.replicas) {
		return 0, fmt.Errorf("simulate: router picked replica %d of %d", k, len(s.replicas))
	}
	return k, nil
}

// dispatchRequest hands request i, sent at a time, to the engine that the router picks, and returns that engine's
// driver.
func (s *simulation) dispatchRequest(i int, sent, delay time.Duration) (*replicaDriver, error) {
	k, err := s.pickReplica(i)
	if err != nil {
		return nil, err
	}
	d := s.drivers[k]
	if err := d.advanceTo(sent + delay); err != nil {
		return nil, err
	}
	d.addRequest(i, &s.requests[i], sent, delay)
	d.calm = 0
	s.updateLoad(k)
	return d, nil
}

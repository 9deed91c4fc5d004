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

// horizon is the simulated time beyond which nobody is served: the input is absurd. Sums of a few
// such times still fit into a Duration.
const horizon = 50 * 365 * 24 * time.Hour

// maxITL is the longest gap between tokens that the histogram resolves.
const maxITL = time.Hour

// A Sample is an engine's state at an instant, after everything that happened then.
type Sample struct {
	At               time.Duration
	Running, Waiting int
	UsedBlocks       int
}

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

// halveSamples drops every other sample. The rest lie as if the interval had been twice as long
// from the beginning.
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
	// Clients makes a closed loop of this many clients. They take the requests in the given order,
	// each the next one when its last has ended, served or refused, and its Pause has passed, but
	// never before its Arrival. 0: requests come at their Arrival.
	Clients int
	// Until is when clients stop sending; 0: when no request is left. Requests that were not sent
	// are not in the result.
	Until time.Duration
	// Frontend is the server's time outside the engine.
	Frontend Frontend

	// Lockstep is how many consecutive replicas in the list step together: the data-parallel ranks
	// of a mixture of experts. 0 and 1: each replica steps alone.
	Lockstep int

	// SampleEvery adds the state of every replica at this interval to the result.
	SampleEvery time.Duration
	// Brief keeps only the Records, which a Summary needs, and no Requests.
	Brief bool
	// Check, which may be nil, is called every so many steps, by several replicas at once. Its
	// error ends the simulation, as a context's would.
	Check func() error
	// StepByStep simulates every step on its own, the slow way that tests compare with.
	StepByStep bool

	// Limits end the simulation of a single engine early.
	Limits Limits

	// Held is how many requests, the first of the list, a single engine already has when the
	// simulation begins. Steps that compute their prompts, as far as there is room, take no time.
	Held int
	// From and To delimit the measured time of a single engine. ReplicaResult.Before is its state
	// at From, and Gap receives the gaps between tokens since, each with its count. At To the
	// simulation ends, with requests that are Unfinished; 0: when the last request ends.
	From, To time.Duration
	Gap      func(d time.Duration, n int64)
}

// Limits are on 95th percentiles, and 0 is no limit. A simulation of one engine ends as soon as
// more than one in twenty of all its requests, or of all their gaps between tokens, exceed a limit:
// by then the percentile exceeds it, however the run goes on. It also ends after this many Tokens.
type Limits struct {
	TTFT, ITL, E2E time.Duration
	Tokens         int64
}

// Result is the outcome of a simulation.
type Result struct {
	Records  []Record        // in the order of the requests given
	Requests []RequestResult // the same in full, unless Options.Brief
	Replicas []ReplicaResult
	End      time.Duration // when the last request ended

	Exceeded Quantity // the first of Options.Limits that was exceeded, which ended the simulation; "": none
	itl      *hdrhistogram.Histogram
}

// A Quantity is one that Limits can limit.
type Quantity string

// The quantities.
const (
	TTFT      Quantity = "TTFT"
	ITL       Quantity = "ITL"
	E2E       Quantity = "E2E"
	Generated Quantity = "generated tokens"
)

// errExceeded ends a simulation at a limit.
var errExceeded = errors.New("a limit is exceeded")

// limiter counts requests above limits. Nil counts nothing.
type limiter struct {
	Limits
	requests, gaps int64 // how many may be above a limit
	ttft, e2e      int64 // how many are
}

// newLimiter returns a limiter for the requests of a run.
func newLimiter(l Limits, requests []Request) *limiter {
	if l == (Limits{}) {
		return nil
	}
	out := &limiter{Limits: l, requests: int64(len(requests)) / 20}
	for i := range requests {
		out.gaps += int64(requests[i].OutputTokens - 1)
	}
	out.gaps /= 20
	return out
}

// firstExceeded returns the first limit that is exceeded.
func (l *limiter) firstExceeded(gaps, tokens int64) Quantity {
	switch {
	case l.Tokens > 0 && tokens > l.Tokens:
		return Generated
	case l.ttft > l.requests:
		return TTFT
	case gaps > l.gaps:
		return ITL
	case l.e2e > l.requests:
		return E2E
	}
	return ""
}

// countRequest counts a request that ended.
func (l *limiter) countRequest(r *RequestResult) {
	if l.TTFT > 0 && r.OutputTokens > 0 && r.TTFT() > l.TTFT {
		l.ttft++
	}
	if l.E2E > 0 && r.Outcome == Finished && r.E2E() > l.E2E {
		l.e2e++
	}
}

// ReplicaResult is what one engine did.
type ReplicaResult struct {
	Stats   Stats
	Before  Stats // at Options.From
	Samples []Sample
}

// Run simulates one engine. It is deterministic, and its cost is linear in the
// number of requests.
func Run(cfg Config, cost StepCost, requests []Request, o Options) (*Result, error) {
	return RunReplicas([]Replica{{cfg, cost}}, RoundRobin(), requests, o)
}

// RunReplicas simulates independent engines behind a router. Requests may be given in any order,
// which decides among equal arrivals. Engines that do not depend on each other are simulated on all
// cores; the result does not depend on the number of cores.
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
	fed, err := validateRequests(requests, o.Clients)
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
	if _, ok := router.(loadBlind); ok && !fed && o.Lockstep < 2 {
		err = s.runIndependent()
	} else {
		err = s.runTogether(fed)
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

// validateRequests checks each request, and reports whether the end of one can bring about another.
func validateRequests(requests []Request, clients int) (fed bool, _ error) {
	fed = clients > 0
	for i := range requests {
		if err := requests[i].validate(); err != nil {
			return false, fmt.Errorf("simulate request %d: %w", i, err)
		}
		if after := requests[i].After; after != 0 {
			if fed = true; after > i || clients > 0 {
				return false, fmt.Errorf("simulate request %d: it follows request %d: "+
					"it must come later in the list, without closed-loop clients", i, after-1)
			}
		}
	}
	return fed, nil
}

func newGaps() *hdrhistogram.Histogram { return hdrhistogram.New(1000, int64(maxITL), 3) }

// simulation is the state of a run outside its engines.
type simulation struct {
	o        Options
	requests []Request
	router   Router
	replicas []Replica
	result   *Result

	// Engines that go forward together:
	drivers []*driver
	loads   []Load // as the router sees them

	// A loop of requests that bring about others:
	pending   heap.Heap[arrival]
	servers   []apiServer // they take requests in turn
	came      int         // requests that came to the API servers
	sentCount int         // requests that clients took
	follow    [][]int     // by request, the requests that follow it
}

// makeDriver makes the driver of one replica.
func (s *simulation) makeDriver(replica int) (*driver, error) {
	rep := s.replicas[replica]
	e, err := New(rep.Config, rep.Cost)
	if err != nil {
		return nil, fmt.Errorf("simulate replica %d: %w", replica, err)
	}
	e.gaps.into = s.result.itl
	if s.o.SampleEvery > 0 {
		e.sampler = &sampler{every: s.o.SampleEvery}
	}
	d := newDriver(e, replica, &s.o, s.result)
	if len(s.replicas) == 1 {
		if d.limits = newLimiter(s.o.Limits, s.requests); d.limits != nil {
			e.gaps.limit = d.limits.ITL + d.limits.ITL/500 // beyond the histogram's resolution
		}
	}
	return d, d.holdRequests(rep.Cost, s.requests[:s.o.Held])
}

// instant is the cost of the steps in which an engine gets its held requests.
var instant = StepCost{Base: 1e-9}

// mostHolding limits these steps.
const mostHolding = 2000

// holdRequests gives the engine requests that it has had for some time.
func (d *driver) holdRequests(cost StepCost, held []Request) error {
	if len(held) == 0 {
		return nil
	}
	e, between, ended, leap := d.Engine, d.Between, d.Ended, d.leap
	defer func() { d.Between, d.Ended, d.leap = between, ended, leap }()
	stepped := false
	d.Between, d.leap = func() bool { return !stepped }, nil
	d.Ended = func(outputs []Output) {
		stepped = true
		ended(outputs)
	}
	if err := e.SetCost(instant); err != nil {
		return err
	}
	for i := range held {
		d.addRequest(i, &held[i], 0, 0)
	}
	for steps := 0; steps < mostHolding && e.waiting.len() > 0; steps++ {
		waiting, prompts := e.waiting.len(), e.stats.PromptTokens
		stepped = false
		d.Advance(forever)
		if e.waiting.len() >= waiting && e.stats.PromptTokens == prompts && steps > len(held)+8 {
			break // the rest does not fit
		}
	}
	return e.SetCost(cost)
}

// collectStats stores the results of an engine that has ended.
func (s *simulation) collectStats(d *driver) {
	d.Engine.gaps.flush()
	for id, t := range d.taken { // at Options.To
		r := d.Engine.requests[id].result
		r.Finish, r.WorkAtLast = max(r.LastToken, r.Arrival), d.Engine.stats.Work
		d.storeTaken(&t, &r)
	}
	rr := &s.result.Replicas[d.replica]
	if rr.Stats, rr.Before = d.Engine.Stats(), d.before; !d.measuring {
		rr.Before = rr.Stats
	}
	if d.Engine.sampler != nil {
		rr.Samples = d.Engine.sampler.samples
	}
}

// inOrder returns the order in which the requests come to the engines, and the delay of each
// request in the frontend, nil without a frontend. There are as many API servers as engines, and
// they take requests in turn.
func (s *simulation) inOrder() ([]int32, []time.Duration) {
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

// runIndependent simulates engines whose requests do not depend on what any engine does: each
// engine by itself, on all cores.
func (s *simulation) runIndependent() error {
	order, delays := s.inOrder()
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
				d.Engine.gaps.into = newGaps()
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
				s.result.itl.Merge(d.Engine.gaps.into)
			}
			s.result.End = max(s.result.End, d.Now)
			return nil
		})
	}
	return g.Wait()
}

// runTogether simulates engines that may depend on each other, by the loads that the router sees or
// by requests that wait for others.
func (s *simulation) runTogether(chained bool) error {
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
	case chained:
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
	order, delays := s.inOrder()
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

// updateLoad shows the router an engine's present load.
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

// dispatchRequest hands request i, sent at a time, to the engine that the router picks, and returns
// that engine's driver.
func (s *simulation) dispatchRequest(i int, sent, delay time.Duration) (*driver, error) {
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

// driver runs an engine through simulated time.
type driver struct {
	Driver
	replica  int
	check    func() error // asks whether to go on; may be nil
	steps    int          // since the beginning; check is called every stepsPerCheck
	runUntil time.Duration
	err      error
	cancels  heap.Heap[cancel]
	taken    map[int]taken // by engine request number
	result   *Result       // shared; each engine writes its own requests
	calm     time.Duration // until when its numbers of running and waiting requests stay the same
	limits   *limiter

	watched bool     // advance returns when a request ends
	ended   []ending // since the watcher looked

	measuredFrom, measuredTo time.Duration // the measured time
	measuring                bool
	before                   Stats // state when measuring began
	gap                      func(d time.Duration, n int64)
}

func newDriver(e *Engine, replica int, o *Options, result *Result) *driver {
	d := &driver{
		Driver: Driver{Engine: e}, replica: replica, check: o.Check, result: result,
		taken: make(map[int]taken), watched: o.Clients > 0,
		measuredFrom: o.From, measuredTo: cmp.Or(o.To, forever), gap: o.Gap,
	}
	d.Between = d.mayFormBatch
	d.Ending = func() { d.cancelUntil(d.Due) } // EngineCore._process_aborts_queue
	d.Ended = func(outputs []Output) {
		for _, out := range outputs {
			if out.Result != nil {
				d.finishRequest(out.ID, out.Result)
			}
		}
	}
	if !o.StepByStep {
		d.leap = func() time.Duration {
			limit := min(d.runUntil, horizon)
			if len(d.cancels) > 0 {
				limit = min(limit, d.cancels[0].at-1)
			}
			if !d.measuring {
				limit = min(limit, d.measuredFrom)
			}
			return e.fastForward(d.Now, limit)
		}
	}
	return d
}

// taken is a request that an engine accepted.
type taken struct {
	index         int
	frontendDelay time.Duration // time in the frontend, before the engine
}

// ending is the end of a request.
type ending struct {
	index   int
	at      time.Duration
	refused bool
}

// addRequest gives the engine a request, sent at a time, after the frontend's delay.
func (d *driver) addRequest(i int, request *Request, sent, delay time.Duration) {
	r := *request
	r.Arrival = sent + delay
	if r.CancelAfter > 0 {
		r.CancelAfter = max(r.CancelAfter-delay, 1)
	}
	if !d.Executing {
		d.Now = max(d.Now, r.Arrival)
	}
	id, err := d.Engine.Add(r)
	if err != nil {
		res := RequestResult{
			Arrival: r.Arrival - delay, Frontend: delay, Finish: r.Arrival,
			PromptTokens: r.PromptTokens, Replica: d.replica,
		}
		switch {
		case errors.Is(err, ErrQueueFull):
			res.Outcome = QueueFull
		case errors.Is(err, ErrPromptTooLong):
			res.Outcome = PromptTooLong
		default:
			res.Outcome = NeverFits
		}
		d.storeResult(i, &res)
		d.tellEnd(i, &res)
		return
	}
	d.taken[id] = taken{i, delay}
	if r.CancelAfter > 0 {
		d.cancels.Push(cancel{r.Arrival + r.CancelAfter, id, r.Unanswered})
	}
}

// stepsPerCheck steps take some milliseconds with the largest batches.
const stepsPerCheck = 256

// advanceTo runs the engine up to a time, before it forms a batch then, or, if it is watched, to
// the end of a request.
func (d *driver) advanceTo(until time.Duration) error {
	until = min(until, d.measuredTo)
	d.runUntil = until
	if d.mayContinue() && d.Advance(until) {
		return fmt.Errorf("simulate: the scheduler is stuck at %v with %d running and %d waiting",
			d.Now, len(d.Engine.running), d.Engine.waiting.len())
	}
	return d.err
}

// mayContinue reports whether to go on, and asks check now and then.
func (d *driver) mayContinue() bool {
	if d.steps++; d.check != nil && d.steps%stepsPerCheck == 0 {
		d.err = d.check()
	}
	if d.limits != nil && d.err == nil {
		if q := d.limits.firstExceeded(d.Engine.gaps.above, d.Engine.stats.GenerationTokens); q != "" {
			d.result.Exceeded, d.err = q, errExceeded
		}
	}
	return d.err == nil
}

// mayFormBatch reports whether to form another batch.
func (d *driver) mayFormBatch() bool {
	if !d.mayContinue() || d.Now >= d.runUntil || len(d.ended) > 0 {
		return false
	}
	if d.Now > horizon {
		d.err = fmt.Errorf("simulate: after %v of simulated time there are %d running and %d waiting",
			horizon, len(d.Engine.running), d.Engine.waiting.len())
		return false
	}
	if !d.measuring && d.Now >= d.measuredFrom {
		d.Engine.gaps.flush()
		d.measuring, d.before, d.Engine.gaps.tell = true, d.Engine.Stats(), d.gap
	}
	d.cancelUntil(d.Now)
	return len(d.ended) == 0
}

func (d *driver) cancelUntil(now time.Duration) {
	for len(d.cancels) > 0 && d.cancels[0].at <= now {
		c := d.cancels.Pop()
		if r := d.Engine.requests[c.id]; c.unanswered && r != nil && r.result.OutputTokens > 0 {
			continue
		}
		if res := d.Engine.Cancel(c.id, c.at); res != nil {
			d.finishRequest(c.id, res)
		}
	}
}

// nextEvent is when something next happens in the engine by itself; forever if nothing will.
func (d *driver) nextEvent() time.Duration {
	switch {
	case d.Executing:
		return d.Due
	case d.Engine.HasWork():
		return d.Now
	}
	return forever
}

func (d *driver) finishRequest(id int, res *RequestResult) {
	out, t := *res, d.taken[id]
	delete(d.taken, id)
	d.storeTaken(&t, &out)
	d.tellEnd(t.index, &out)
}

// storeTaken stores the result of a request that the engine accepted.
func (d *driver) storeTaken(t *taken, out *RequestResult) {
	out.Replica = d.replica
	out.Frontend = t.frontendDelay
	out.Arrival -= t.frontendDelay
	d.storeResult(t.index, out)
}

func (d *driver) storeResult(i int, res *RequestResult) {
	d.result.Records[i] = res.Record()
	if d.result.Requests != nil {
		d.result.Requests[i] = *res
	}
}

// tellEnd notes the end of a request for the limits and for the watcher.
func (d *driver) tellEnd(i int, res *RequestResult) {
	if d.limits != nil {
		d.limits.countRequest(res)
	}
	if !d.watched {
		return
	}
	d.ended = append(d.ended, ending{i, res.Finish, res.Outcome != Finished && res.Outcome != Cancelled})
}

// calmUntil is a time before which the numbers of running and waiting requests do not change if
// nothing arrives.
func (d *driver) calmUntil() time.Duration {
	e := d.Engine
	switch {
	case !e.HasWork():
		return forever
	case !d.Executing:
		return d.Now
	}
	until := d.Due + time.Duration(max(e.calmSteps()-1, 0))*e.shortestStep()
	if len(d.cancels) > 0 {
		until = min(until, d.cancels[0].at)
	}
	return until
}

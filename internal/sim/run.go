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
	for ; s.next < now; s.next += s.every {
		s.samples = append(s.samples, Sample{s.next, len(e.running), e.waiting.len(), e.usedBlocks()})
	}
}

// A Replica is one engine of a deployment.
type Replica struct {
	Config Config
	Cost   StepCost
}

// Options are choices about a simulation that do not change its outcome.
type Options struct {
	// SampleEvery adds the state of every replica at that interval to the result.
	SampleEvery time.Duration
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
	res := &Result{
		Requests: make([]RequestResult, len(requests)),
		itl:      hdrhistogram.New(1000, int64(maxITL), 3),
	}
	drivers := make([]*driver, len(replicas))
	for i, rep := range replicas {
		e, err := New(rep.Config, rep.Cost)
		if err != nil {
			return nil, fmt.Errorf("simulate replica %d: %w", i, err)
		}
		e.itl = res.itl
		if o.SampleEvery > 0 {
			e.sampler = &sampler{every: o.SampleEvery}
		}
		drivers[i] = &driver{engine: e, replica: i, stepByStep: o.StepByStep, results: res.Requests}
	}
	order := make([]int, len(requests))
	for i := range order {
		if err := requests[i].validate(); err != nil {
			return nil, fmt.Errorf("simulate request %d: %w", i, err)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(requests[a].Arrival, requests[b].Arrival) })
	loads := make([]Load, len(replicas))
	for _, i := range order {
		r := &requests[i]
		for k, d := range drivers {
			if err := d.advance(r.Arrival); err != nil {
				return nil, err
			}
			loads[k] = Load{Waiting: d.engine.waiting.len(), Running: len(d.engine.running), UsedBlocks: d.engine.usedBlocks()}
		}
		k := router.Pick(r, loads)
		if k < 0 || k >= len(drivers) {
			return nil, fmt.Errorf("simulate: router picked replica %d of %d", k, len(drivers))
		}
		drivers[k].arrive(i, r)
	}
	for _, d := range drivers {
		if err := d.advance(forever); err != nil {
			return nil, err
		}
		rr := ReplicaResult{Stats: d.engine.Stats()}
		if s := d.engine.sampler; s != nil {
			rr.Samples = s.samples
		}
		res.Replicas = append(res.Replicas, rr)
		res.End = max(res.End, d.now)
	}
	return res, nil
}

// driver runs an engine through simulated time, as EngineCore's busy loop does
// through real time.
type driver struct {
	engine     *Engine
	replica    int
	stepByStep bool
	now        time.Duration
	due        time.Duration
	executing  bool // until due
	cancels    cancelHeap
	index      []int // by engine request number
	results    []RequestResult
}

func (d *driver) arrive(i int, r *Request) {
	if !d.executing {
		d.now = max(d.now, r.Arrival)
	}
	id, err := d.engine.Add(*r)
	if err != nil {
		res := RequestResult{Arrival: r.Arrival, Finish: r.Arrival, PromptTokens: r.PromptTokens, Replica: d.replica}
		switch {
		case errors.Is(err, ErrQueueFull):
			res.Outcome = QueueFull
		case errors.Is(err, ErrPromptTooLong):
			res.Outcome = PromptTooLong
		default:
			res.Outcome = NeverFits
		}
		d.results[i] = res
		return
	}
	d.index = append(d.index, i) // numbers count up from 0
	if r.CancelAfter > 0 {
		d.cancels.push(cancel{r.Arrival + r.CancelAfter, id})
	}
}

// advance runs the engine up to a time, at which something may arrive before
// the next batch is formed.
func (d *driver) advance(until time.Duration) error {
	idle := 0
	for {
		if d.executing {
			if d.due > until {
				return nil
			}
			d.cancel(d.due) // EngineCore._process_aborts_queue
			d.now, d.executing = d.due, false
			for _, out := range d.engine.Complete(d.due) {
				if out.Result != nil {
					d.finish(out.ID, out.Result)
				}
			}
		}
		if d.now >= until {
			return nil
		}
		d.cancel(d.now)
		if !d.engine.HasWork() {
			return nil
		}
		if !d.stepByStep {
			limit := until
			if len(d.cancels) > 0 {
				limit = min(limit, d.cancels[0].at-1)
			}
			if now := d.engine.fastForward(d.now, limit); now > d.now {
				d.now, idle = now, 0
				continue
			}
		}
		before := d.engine.deviceEnd
		d.due, d.executing = d.engine.Schedule(d.now)
		if d.engine.deviceEnd > before {
			idle = 0
		} else if idle++; idle > 8 {
			return fmt.Errorf("simulate: the scheduler is stuck at %v with %d running and %d waiting",
				d.now, len(d.engine.running), d.engine.waiting.len())
		}
	}
}

func (d *driver) cancel(now time.Duration) {
	for len(d.cancels) > 0 && d.cancels[0].at <= now {
		c := d.cancels.pop()
		if res := d.engine.Cancel(c.id, c.at); res != nil {
			d.finish(c.id, res)
		}
	}
}

func (d *driver) finish(id int, res *RequestResult) {
	out := *res
	out.Replica = d.replica
	d.results[d.index[id]] = out
}

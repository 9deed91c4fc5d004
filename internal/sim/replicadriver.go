package sim

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/base/heap"
)

// A replicaDriver runs the engine of a replica through simulated time.
type replicaDriver struct {
	Driver
	replica  int
	check    func() error // its error ends the simulation; may be nil
	steps    int          // since the beginning; check is called every stepsPerCheck
	runUntil time.Duration
	err      error
	cancels  heap.Heap[cancel]
	accepted map[int]acceptedRequest // by engine request number
	result   *Result                 // shared; each engine writes its own requests
	calm     time.Duration           // until then the numbers of running and waiting requests stay the same
	limits   *limiter

	watched bool     // advance returns when a request ends
	ended   []ending // since the watcher looked

	measuredFrom, measuredTo time.Duration // the measured time
	measuring                bool
	before                   Stats // state when measuring began
	gap                      func(d time.Duration, n int64)
}

func newReplicaDriver(e *Engine, replica int, o *Options, result *Result) *replicaDriver {
	d := &replicaDriver{
		Driver: Driver{Engine: e}, replica: replica, check: o.Check, result: result,
		accepted: make(map[int]acceptedRequest), watched: o.Clients > 0,
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

// An acceptedRequest is a request that the engine accepted and that has not ended.
type acceptedRequest struct {
	index         int
	frontendDelay time.Duration // time in the frontend, before the engine
}

// An ending is the end of a request.
type ending struct {
	index   int
	at      time.Duration
	refused bool
}

// addRequest gives the engine a request, sent at a time, after the frontend's delay.
func (d *replicaDriver) addRequest(i int, request *Request, sent, delay time.Duration) {
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
		d.noteEnd(i, &res)
		return
	}
	d.accepted[id] = acceptedRequest{i, delay}
	if r.CancelAfter > 0 {
		d.cancels.Push(cancel{r.Arrival + r.CancelAfter, id, r.Unanswered})
	}
}

// stepsPerCheck steps take some milliseconds with the largest batches.
const stepsPerCheck = 256

// advanceTo runs the engine up to a time, before it forms a batch then, or, if it is watched, to the end of a request.
func (d *replicaDriver) advanceTo(until time.Duration) error {
	until = min(until, d.measuredTo)
	d.runUntil = until
	if d.mayContinue() && d.Advance(until) {
		return fmt.Errorf("simulate: the scheduler is stuck at %v with %d running and %d waiting",
			d.Now, len(d.Engine.running), d.Engine.waiting.len())
	}
	return d.err
}

// mayContinue reports whether to go on. It calls check every stepsPerCheck steps.
func (d *replicaDriver) mayContinue() bool {
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
func (d *replicaDriver) mayFormBatch() bool {
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
		d.measuring, d.before, d.Engine.gaps.report = true, d.Engine.Stats(), d.gap
	}
	d.cancelUntil(d.Now)
	return len(d.ended) == 0
}

// cancelUntil ends the requests whose clients have left by a time.
func (d *replicaDriver) cancelUntil(now time.Duration) {
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

// nextEvent is the time of the engine's next event without new requests, or forever.
func (d *replicaDriver) nextEvent() time.Duration {
	switch {
	case d.Executing:
		return d.Due
	case d.Engine.HasWork():
		return d.Now
	}
	return forever
}

func (d *replicaDriver) finishRequest(id int, res *RequestResult) {
	out, t := *res, d.accepted[id]
	delete(d.accepted, id)
	d.storeAccepted(&t, &out)
	d.noteEnd(t.index, &out)
}

// storeAccepted stores the result of a request that the engine accepted.
func (d *replicaDriver) storeAccepted(t *acceptedRequest, out *RequestResult) {
	out.Replica = d.replica
	out.Frontend = t.frontendDelay
	out.Arrival -= t.frontendDelay
	d.storeResult(t.index, out)
}

func (d *replicaDriver) storeResult(i int, res *RequestResult) {
	d.result.Records[i] = res.Record()
	if d.result.Requests != nil {
		d.result.Requests[i] = *res
	}
}

// noteEnd records the end of a request for the limits and, if the driver is watched, in ended.
func (d *replicaDriver) noteEnd(i int, res *RequestResult) {
	if d.limits != nil {
		d.limits.countRequest(res)
	}
	if !d.watched {
		return
	}
	d.ended = append(d.ended, ending{i, res.Finish, res.Outcome != Finished && res.Outcome != Cancelled})
}

// calmUntil is a time before which the numbers of running and waiting requests do not change if nothing arrives.
func (d *replicaDriver) calmUntil() time.Duration {
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

// A cancel is a client that will leave.
type cancel struct {
	at         time.Duration
	id         int
	unanswered bool // the client leaves only if it has no token yet
}

// ComesBefore orders cancels by time, then by number.
func (c cancel) ComesBefore(o cancel) bool { return c.at < o.at || c.at == o.at && c.id < o.id }

// instant is the cost of the steps in which an engine gets its held requests.
var instant = StepCost{Base: 1e-9}

// maxHoldSteps limits these steps.
const maxHoldSteps = 2000

// holdRequests gives the engine the requests that it already has when the simulation begins (Options.Held).
func (d *replicaDriver) holdRequests(cost StepCost, held []Request) error {
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
	for steps := 0; steps < maxHoldSteps && e.waiting.len() > 0; steps++ {
		waiting, prompts := e.waiting.len(), e.stats.PromptTokens
		stepped = false
		d.Advance(forever)
		if e.waiting.len() >= waiting && e.stats.PromptTokens == prompts && steps > len(held)+8 {
			break // the rest does not fit
		}
	}
	return e.SetCost(cost)
}

package planning

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A trial is the input of one engine's simulation.
type trial struct {
	config sim.Config
	cost   sim.StepCost

	pool     []sim.Request // lengths, taken in turn; none is too large for config
	arrivals []time.Duration
	period   time.Duration // after it the arrivals repeat; 0: they do not
	clients  float64       // clients in a closed loop; 0: an open loop
	pause    time.Duration // a client's, from an answer until its next request is in the engine
	patience patience

	running, waiting int           // in flight at the beginning
	waited           time.Duration // by the first waiting request
	frontend         sim.Frontend  // delay before the engine sees a request
	held             float64       // share of the KV cache that running requests hold; 0: unknown
	gap, first       time.Duration // usual gap between tokens, and wait for the first, to age running requests

	warm, length time.Duration // measurement starts after warm and lasts for length
	maxTokens    int           // bounds the cost of the simulation
	seed         uint64
	shown        *workload.Observed // its histograms define the buckets of the outcome
}

// A patience is how long clients wait before they leave: for their first token or, if whole, on average for the whole
// answer. Zero is forever.
type patience struct {
	time.Duration
	whole bool
}

// An outcome holds what the engine's metrics would have shown in the measured time. Its histograms have the server's
// buckets, so that percentiles are comparable.
type outcome struct {
	seconds          float64
	generatedTokens  int
	ttft, itl, e2e   workload.Histogram
	tokens           float64
	preemptions      float64
	recomputed       float64 // tokens, after preemptions
	running, waiting float64 // sums over time
	kv               float64 // used share of the cache, likewise
	early, late      float64 // waiting in the first and the last quarter
	ended            []sim.Record
	arrived, refused float64 // requests that arrived, and that were refused
	left             float64 // clients that lost patience
	peak             int64   // tokens in the KV cache in its fullest step
}

// runTrial simulates a trial.
func runTrial(s *trial) (*outcome, error) {
	p := player{trial: s, rand: rand.New(rand.NewPCG(s.seed, 0x5eed))}
	p.next = p.rand.IntN(len(s.pool))
	p.addRunning()
	held := len(p.requests)
	p.addWaiting()
	p.addFuture()
	out := &outcome{
		seconds: s.length.Seconds(), ttft: s.shown.TTFT.Empty(), itl: s.shown.ITL.Empty(), e2e: s.shown.E2E.Empty(),
	}
	res, err := sim.Run(s.config, s.cost, p.requests, sim.Options{
		Clients: int(s.clients), Held: held, From: s.warm, To: s.warm + s.length, Frontend: s.frontend,
		Gap:         func(d time.Duration, n int64) { out.itl.Add(d.Seconds(), float64(n)) },
		SampleEvery: max(s.length/gaugeSamples, time.Millisecond), Limits: sim.Limits{Tokens: int64(s.maxTokens)},
		Brief: true,
	})
	if err != nil {
		return nil, err
	}
	if res.Exceeded != "" {
		out.seconds = max(res.End-s.warm, 0).Seconds()
	}
	out.addEngine(s, &res.Replicas[0])
	for i := range res.Records {
		earlier := time.Duration(0)
		if i < len(p.agesAtStart) {
			earlier = p.agesAtStart[i]
		}
		out.addRequest(s, &res.Records[i], earlier, i < held)
	}
	return out, nil
}

// gaugeSamples is how many samples the averages of gauges rest on.
const gaugeSamples = 1000

func (o *outcome) addEngine(s *trial, r *sim.ReplicaResult) {
	end, before := &r.Stats, &r.Before
	o.generatedTokens, o.peak = int(end.GenerationTokens), end.Peak.KVTokens
	o.tokens = float64(end.GenerationTokens - before.GenerationTokens)
	o.preemptions = float64(end.Preemptions - before.Preemptions)
	o.recomputed = max(0, recomputedTokens(end)-recomputedTokens(before))
	n, quarter := 0.0, s.length/4
	for _, x := range r.Samples {
		if x.At < s.warm {
			continue
		}
		n++
		o.running, o.waiting = o.running+float64(x.Running), o.waiting+float64(x.Waiting)
		o.kv += float64(x.UsedBlocks) / float64(max(s.config.NumBlocks-1, 1))
		switch {
		case x.At < s.warm+quarter:
			o.early += float64(x.Waiting)
		case x.At >= s.warm+s.length-quarter:
			o.late += float64(x.Waiting)
		}
	}
	for _, sum := range []*float64{&o.running, &o.waiting, &o.kv, &o.early, &o.late} {
		*sum *= o.seconds / max(n, 1)
	}
}

// recomputedTokens returns the tokens computed beyond answers and the first computation of prompts.
func recomputedTokens(s *sim.Stats) float64 {
	return float64(s.Work.Tokens - s.GenerationTokens - s.PromptTokens + s.PrefixAdmittedHit)
}

// addRequest adds the measurements of a request that arrived earlier than its record says. answered means that its
// first token came before the beginning.
func (o *outcome) addRequest(s *trial, r *sim.Record, earlier time.Duration, answered bool) {
	counts := func(at time.Duration) bool { return at >= s.warm && at < s.warm+s.length }
	first, end := r.Arrival+r.TTFT(), r.Arrival+r.E2E()
	if earlier == 0 && r.Arrival >= s.warm {
		o.arrived++
		if r.Outcome == sim.QueueFull || r.Outcome == sim.PromptTooLong || r.Outcome == sim.NeverFits {
			o.refused++
		}
	}
	if r.OutputTokens > 0 && !answered && counts(first) {
		o.ttft.Add((first - r.Arrival + earlier).Seconds(), 1)
	}
	switch {
	case r.Outcome == sim.Cancelled && end >= s.warm:
		o.left++
	case r.Outcome == sim.Finished && counts(end):
		o.e2e.Add((end - r.Arrival + earlier).Seconds(), 1)
		o.ended = append(o.ended, *r)
	}
}

// A player generates the requests of one trial.
type player struct {
	*trial
	rand        *rand.Rand
	next        int // index in the pool
	requests    []sim.Request
	agesAtStart []time.Duration // how long before the beginning the first requests arrived
}

// drawRequest takes a request from the pool.
func (p *player) drawRequest() sim.Request {
	r := p.pool[p.next]
	p.next = (p.next + 1) % len(p.pool)
	return r
}

// addRunning adds the requests that run at the beginning, the oldest first. Their prefill and a part of their answer
// are done.
func (p *player) addRunning() {
	var flight []inFlight
	for range p.running {
		r := p.drawLonger()
		flight = append(flight, inFlight{r, p.rand.IntN(r.OutputTokens)})
	}
	p.adjustProgress(flight)
	slices.SortStableFunc(flight, func(a, b inFlight) int { return b.generated - a.generated })
	for _, f := range flight {
		f.r.PromptTokens += f.generated
		f.r.OutputTokens -= f.generated
		if f.r.PromptTokens >= p.config.MaxModelLen {
			continue
		}
		if p.patience.whole {
			f.r.CancelAfter = p.untilLeft(0)
		}
		p.requests = append(p.requests, f.r)
		p.agesAtStart = append(p.agesAtStart, p.first+time.Duration(f.generated)*p.gap)
	}
}

// addWaiting adds the requests that wait at the beginning. They arrived one after the other.
func (p *player) addWaiting() {
	for i := range p.waiting {
		earlier := p.waited * time.Duration(p.waiting-i) / time.Duration(p.waiting)
		p.addRequest(0, 0, earlier)
		p.agesAtStart = append(p.agesAtStart, earlier)
	}
}

// addRequest adds a request that arrives at a time, or after a client's pause, and has waited.
func (p *player) addRequest(at, pause, waited time.Duration) {
	r := p.drawRequest()
	r.Arrival, r.Pause = at, pause
	if p.patience.Duration > 0 {
		r.CancelAfter, r.Unanswered = p.frontend.Delay(0)+p.untilLeft(waited), !p.patience.whole
	}
	p.requests = append(p.requests, r)
}

// untilLeft returns when the client of a waiting request leaves: at its timeout while it has no token or, if clients
// leave during answers, at a random time.
func (p *player) untilLeft(waited time.Duration) time.Duration {
	if p.patience.whole {
		return max(time.Duration(float64(p.patience.Duration)*p.rand.ExpFloat64()), 1)
	}
	return max(p.patience.Duration-waited, 1)
}

// addFuture adds the future requests. Measured arrivals and pauses include the API server's time.
func (p *player) addFuture() {
	end, passed := p.warm+p.length, p.frontend.Delay(0)
	if p.clients > 0 {
		enginePause := max(p.pause-passed, 0)
		missing := max(int(p.clients)-len(p.requests), 0)
		for i := range missing {
			p.addRequest(max(p.pause*time.Duration(i)/time.Duration(missing)-passed, 0), enginePause, 0)
		}
		tokens, seconds := 0, 0.0 // lower bounds of the answers, with steps to themselves
		for n := p.mayStayUnanswered(end); tokens <= p.maxTokens && seconds <= p.clients*end.Seconds() || n > 0; n-- {
			p.addRequest(0, enginePause, 0)
			output := p.requests[len(p.requests)-1].OutputTokens
			tokens, seconds = tokens+output, seconds+float64(output)*p.cost.Base+enginePause.Seconds()
		}
		return
	}
	for n, k := len(p.arrivals), 0; n > 0 && (k < n || p.period > 0); k++ {
		at := p.arrivals[k%n] + time.Duration(k/n)*p.period
		if at >= end {
			break
		}
		p.addRequest(max(at-passed, 0), 0, 0)
	}
}

// mostUnanswered bounds the requests that are drawn for clients that may leave or be refused.
const mostUnanswered = 100_000

// mayStayUnanswered returns how many requests of clients may stay unanswered until a time. Each is followed by another
// request.
func (p *player) mayStayUnanswered(end time.Duration) int {
	if p.patience.Duration == 0 && p.config.MaxQueuedRequests == 0 && p.config.MaxQueuedTokens == 0 {
		return 0
	}
	return int(min(2*p.clients*end.Seconds(), mostUnanswered))
}

// An inFlight is a request with a partial answer.
type inFlight struct {
	r         sim.Request
	generated int
}

// adjustProgress adjusts the partial answers of running requests to the measured use of the KV cache, if it is known.
func (p *player) adjustProgress(flight []inFlight) {
	prompts, all, most := 0.0, 0.0, 0.0
	for _, f := range flight {
		prompts, all, most = prompts+float64(f.r.PromptTokens), all+float64(f.generated), most+float64(f.r.OutputTokens)
	}
	heldTokens := p.held*float64(p.config.Tokens()) - prompts - float64(len(flight)*p.config.BlockSize)/2
	if !(p.held > 0) || !(all > 0) {
		return
	}
	heldTokens = min(max(heldTokens, 0), most)
	for i := range flight {
		// Scale towards 0 if less is held, and towards the end if more is.
		if f := &flight[i]; heldTokens <= all {
			f.generated = int(float64(f.generated) * heldTokens / all)
		} else {
			f.generated += int(float64(f.r.OutputTokens-1-f.generated) * (heldTokens - all) / max(most-all, 1))
		}
	}
}

// drawLonger draws a request with a probability in proportion to its answer, as requests in flight are distributed.
func (p *player) drawLonger() sim.Request {
	a := p.drawRequest()
	for range 8 {
		b := p.pool[p.rand.IntN(len(p.pool))]
		// Metropolis sampling: the chain's distribution is weighted by length.
		if p.rand.Float64()*float64(a.OutputTokens) < float64(b.OutputTokens) {
			a = b
		}
	}
	return a
}

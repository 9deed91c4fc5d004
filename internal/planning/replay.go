package planning

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A trial is what one engine is put through.
type trial struct {
	cfg  sim.Config
	cost sim.StepCost

	pool     []sim.Request // lengths, taken in turn; none is too large for cfg
	arrivals []time.Duration
	period   time.Duration // after which the arrivals begin again; 0: they do not
	clients  float64       // that each send a request when they have their answer; 0: arrivals come whatever happens
	pause    time.Duration // of a client, from an answer until the next request is in the engine
	patience patience

	running, waiting int           // in flight at the beginning
	waited           time.Duration // by the first of those that wait
	frontend         sim.Frontend  // before the engine sees a request
	held             float64       // share of the KV cache that those hold that run, 0: not known
	gap, first       time.Duration // a usual gap between tokens and wait for the first, to age those that run

	warm, length time.Duration // what is measured begins after warm
	maxTokens    int           // bounds the cost of the simulation
	seed         uint64
	shown        *workload.Observed // its histograms have the buckets of the outcome's
}

// A patience is for how long clients wait before they leave: for their first token, or, on
// average, for the whole answer. Zero is for ever.
type patience struct {
	time.Duration
	whole bool
}

// An outcome is what the engine's metrics would have shown in the time that was
// measured, in the buckets of the server's own histograms, so that both tell percentiles alike.
type outcome struct {
	seconds          float64
	simulated        int // tokens in all
	ttft, itl, e2e   workload.Histogram
	tokens           float64
	preemptions      float64
	recomputed       float64 // tokens, after preemptions
	running, waiting float64 // sums over time
	early, late      float64 // the same of waiting, in the first and the last quarter
	ended            []sim.Record
	came, refused    float64 // requests, and those of them that were turned away
	left             float64 // clients that lost patience
	peak             int64   // tokens in the KV cache in the fullest step
}

// replay simulates a trial.
func replay(s *trial) (*outcome, error) {
	p := player{trial: s, rng: rand.New(rand.NewPCG(s.seed, 0x5eed))}
	p.next = p.rng.IntN(len(s.pool))
	p.hold()
	held := len(p.requests)
	p.queue()
	p.come()
	out := &outcome{seconds: s.length.Seconds(), ttft: s.shown.TTFT.Empty(), itl: s.shown.ITL.Empty(), e2e: s.shown.E2E.Empty()}
	res, err := sim.Run(s.cfg, s.cost, p.requests, sim.Options{
		Clients: int(s.clients), Held: held, From: s.warm, To: s.warm + s.length, Frontend: s.frontend,
		Gap:         func(d time.Duration, n int64) { out.itl.Add(d.Seconds(), float64(n)) },
		SampleEvery: max(s.length/gaugeSamples, time.Millisecond), Limits: sim.Limits{Tokens: int64(s.maxTokens)}, Brief: true,
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
		if i < len(p.earlier) {
			earlier = p.earlier[i]
		}
		out.addRequest(s, &res.Records[i], earlier, i < held)
	}
	return out, nil
}

// gaugeSamples are how many moments of the measured time the gauges are averaged over.
const gaugeSamples = 1000

// addEngine adds what the engine's counters and gauges gained.
func (o *outcome) addEngine(s *trial, r *sim.ReplicaResult) {
	end, before := &r.Stats, &r.Before
	o.simulated, o.peak = int(end.GenerationTokens), end.Peak.KVTokens
	o.tokens = float64(end.GenerationTokens - before.GenerationTokens)
	o.preemptions = float64(end.Preemptions - before.Preemptions)
	o.recomputed = max(0, computed(end)-computed(before))
	n, quarter := 0.0, s.length/4
	for _, x := range r.Samples {
		if x.At < s.warm {
			continue
		}
		n++
		o.running, o.waiting = o.running+float64(x.Running), o.waiting+float64(x.Waiting)
		switch {
		case x.At < s.warm+quarter:
			o.early += float64(x.Waiting)
		case x.At >= s.warm+s.length-quarter:
			o.late += float64(x.Waiting)
		}
	}
	for _, sum := range []*float64{&o.running, &o.waiting, &o.early, &o.late} {
		*sum *= o.seconds / max(n, 1)
	}
}

// computed is what was computed beyond answers and what prompts need once.
func computed(s *sim.Stats) float64 {
	return float64(s.Work.Tokens - s.GenerationTokens - s.PromptTokens + s.PrefixAdmittedHit)
}

// addRequest adds what is measured of a request that came so much earlier than its record says,
// and was answered before the beginning or was not.
func (o *outcome) addRequest(s *trial, r *sim.Record, earlier time.Duration, answered bool) {
	counts := func(at time.Duration) bool { return at >= s.warm && at < s.warm+s.length }
	first, end := r.Arrival+r.TTFT(), r.Arrival+r.E2E()
	if earlier == 0 && r.Arrival >= s.warm {
		o.came++
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

// player makes the requests of one trial.
type player struct {
	*trial
	rng      *rand.Rand
	next     int // of the pool
	requests []sim.Request
	earlier  []time.Duration // how long before the beginning the first of them came
}

// drawRequest takes a request from the pool.
func (p *player) drawRequest() sim.Request {
	r := p.pool[p.next]
	p.next = (p.next + 1) % len(p.pool)
	return r
}

// hold adds the requests that run at the beginning, the oldest first: they have had their
// prefill and a part of their answer.
func (p *player) hold() {
	var flight []inFlight
	for range p.running {
		r := p.longer()
		flight = append(flight, inFlight{r, p.rng.IntN(r.OutputTokens)})
	}
	p.progress(flight)
	slices.SortStableFunc(flight, func(a, b inFlight) int { return b.done - a.done })
	for _, f := range flight {
		f.r.PromptTokens += f.done
		f.r.OutputTokens -= f.done
		if f.r.PromptTokens >= p.cfg.MaxModelLen {
			continue
		}
		if p.patience.whole {
			f.r.CancelAfter = p.untilLeft(0)
		}
		p.requests = append(p.requests, f.r)
		p.earlier = append(p.earlier, p.first+time.Duration(f.done)*p.gap)
	}
}

// queue adds the requests that wait at the beginning, which came one after the other.
func (p *player) queue() {
	for i := range p.waiting {
		earlier := p.waited * time.Duration(p.waiting-i) / time.Duration(p.waiting)
		p.add(0, 0, earlier)
		p.earlier = append(p.earlier, earlier)
	}
}

// add adds a request that comes at a time, or after a client's pause, and has waited.
func (p *player) add(at, pause, waited time.Duration) {
	r := p.drawRequest()
	r.Arrival, r.Pause = at, pause
	if p.patience.Duration > 0 {
		r.CancelAfter, r.Unanswered = p.frontend.Delay(0)+p.untilLeft(waited), !p.patience.whole
	}
	p.requests = append(p.requests, r)
}

// untilLeft is when the client of a request that has waited leaves: at its timeout, while it
// has no token; or at any moment alike, while it gets its answer.
func (p *player) untilLeft(waited time.Duration) time.Duration {
	if p.patience.whole {
		return max(time.Duration(float64(p.patience.Duration)*p.rng.ExpFloat64()), 1)
	}
	return max(p.patience.Duration-waited, 1)
}

// come adds the requests to come. The API server's time has passed where arrivals and pauses
// were measured.
func (p *player) come() {
	end, passed := p.warm+p.length, p.frontend.Delay(0)
	if p.clients > 0 {
		pause := max(p.pause-passed, 0)
		missing := max(int(p.clients)-len(p.requests), 0)
		for i := range missing {
			p.add(max(p.pause*time.Duration(i)/time.Duration(missing)-passed, 0), pause, 0)
		}
		tokens, seconds := 0, 0.0 // that answers take at least, where no step has other work
		for n := p.unanswered(end); tokens <= p.maxTokens && seconds <= p.clients*end.Seconds() || n > 0; n-- {
			p.add(0, pause, 0)
			output := p.requests[len(p.requests)-1].OutputTokens
			tokens, seconds = tokens+output, seconds+float64(output)*p.cost.Base+pause.Seconds()
		}
		return
	}
	for n, k := len(p.arrivals), 0; n > 0 && (k < n || p.period > 0); k++ {
		at := p.arrivals[k%n] + time.Duration(k/n)*p.period
		if at >= end {
			break
		}
		p.add(max(at-passed, 0), 0, 0)
	}
}

// mostUnanswered bounds the requests that are drawn for clients without their answers.
const mostUnanswered = 100_000

// unanswered is how many requests of clients may get no answer until a time: each is followed
// by another.
func (p *player) unanswered(end time.Duration) int {
	if p.patience.Duration == 0 && p.cfg.MaxQueuedRequests == 0 && p.cfg.MaxQueuedTokens == 0 {
		return 0
	}
	return int(min(2*p.clients*end.Seconds(), mostUnanswered))
}

// inFlight is a request of which a part of the answer is done.
type inFlight struct {
	r    sim.Request
	done int
}

// progress lets those that run have as much of their answers as the KV cache held, if that is
// known, shared out as chance has it.
func (p *player) progress(flight []inFlight) {
	prompts, all, most := 0.0, 0.0, 0.0
	for _, f := range flight {
		prompts, all, most = prompts+float64(f.r.PromptTokens), all+float64(f.done), most+float64(f.r.OutputTokens)
	}
	want := p.held*float64(p.cfg.Tokens()) - prompts - float64(len(flight)*p.cfg.BlockSize)/2
	if !(p.held > 0) || !(all > 0) {
		return
	}
	want = min(max(want, 0), most)
	for i := range flight {
		// Towards nothing where less is held, towards the end where more is.
		if f := &flight[i]; want <= all {
			f.done = int(float64(f.done) * want / all)
		} else {
			f.done += int(float64(f.r.OutputTokens-1-f.done) * (want - all) / max(most-all, 1))
		}
	}
}

// longer draws a request as those in flight are: the longer an answer, the more
// likely it is under way.
func (p *player) longer() sim.Request {
	a := p.drawRequest()
	for range 8 {
		b := p.pool[p.rng.IntN(len(p.pool))]
		// Metropolis: the chain's distribution has weights in proportion to length.
		if p.rng.Float64()*float64(a.OutputTokens) < float64(b.OutputTokens) {
			a = b
		}
	}
	return a
}

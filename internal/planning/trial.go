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
	period   time.Duration // the arrivals repeat after it; 0: never
	clients  float64       // clients in a closed loop; 0: an open loop
	pause    time.Duration // a client's, from an answer until its next request is in the engine
	patience patience

	running, waiting int           // requests in flight at the beginning
	longestWait      time.Duration // how long the first waiting request has waited
	frontend         sim.Frontend  // delay before the engine sees a request
	held             float64       // share of the KV cache that running requests hold; 0: unknown
	gap, first       time.Duration // mean ITL and TTFT, from which the age of running requests follows

	warm, length time.Duration // measurement starts after warm and lasts for length
	maxTokens    int           // bounds the cost of the simulation
	seed         uint64
	observed     *workload.Observed // its histograms define the buckets of the outcome
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
	seconds          float64 // the measured time
	generatedTokens  int     // in the whole simulation, as a measure of its cost
	ttft, itl, e2e   workload.Histogram
	tokens           float64 // generated
	preemptions      float64
	recomputed       float64 // tokens computed again after preemptions
	running, waiting float64 // requests, summed over the seconds
	kv               float64 // used share of the cache, summed over the seconds
	early, late      float64 // waiting requests in the first and the last quarter, summed over the seconds
	ended            []sim.Record
	arrived, refused float64 // requests
	left             float64 // clients that lost patience
	peak             int64   // tokens in the KV cache in its fullest step
}

// runTrial simulates a trial.
func runTrial(s *trial) (*outcome, error) {
	m := requestMaker{trial: s, rand: rand.New(rand.NewPCG(s.seed, 0x5eed))}
	m.next = m.rand.IntN(len(s.pool))
	m.addRunning()
	running := len(m.requests)
	m.addWaiting()
	m.addFuture()
	h := s.observed
	out := &outcome{seconds: s.length.Seconds(), ttft: h.TTFT.Empty(), itl: h.ITL.Empty(), e2e: h.E2E.Empty()}
	res, err := sim.Run(s.config, s.cost, m.requests, sim.Options{
		Clients: int(s.clients), Held: running, From: s.warm, To: s.warm + s.length, Frontend: s.frontend,
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
		age := time.Duration(0)
		if i < len(m.agesAtStart) {
			age = m.agesAtStart[i]
		}
		out.addRequest(s, &res.Records[i], age, i < running)
	}
	return out, nil
}

// gaugeSamples is how many samples the averages of gauges rest on.
const gaugeSamples = 1000

// addEngine adds the measurements of the engine.
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

// addRequest adds the measurements of a request. age is how long before the simulation's beginning it arrived; answered
// says that its first token came before the beginning, too.
func (o *outcome) addRequest(s *trial, r *sim.Record, age time.Duration, answered bool) {
	counts := func(at time.Duration) bool { return at >= s.warm && at < s.warm+s.length }
	first, end := r.Arrival+r.TTFT(), r.Arrival+r.E2E()
	if age == 0 && r.Arrival >= s.warm {
		o.arrived++
		if r.Outcome == sim.QueueFull || r.Outcome == sim.PromptTooLong || r.Outcome == sim.NeverFits {
			o.refused++
		}
	}
	if r.OutputTokens > 0 && !answered && counts(first) {
		o.ttft.Add((first - r.Arrival + age).Seconds(), 1)
	}
	switch {
	case r.Outcome == sim.Cancelled && end >= s.warm:
		o.left++
	case r.Outcome == sim.Finished && counts(end):
		o.e2e.Add((end - r.Arrival + age).Seconds(), 1)
		o.ended = append(o.ended, *r)
	}
}

// A requestMaker makes the requests of one trial.
type requestMaker struct {
	*trial
	rand        *rand.Rand
	next        int // index in the pool
	requests    []sim.Request
	agesAtStart []time.Duration // how long before the beginning each of the first requests arrived
}

// drawRequest takes a request from the pool.
func (m *requestMaker) drawRequest() sim.Request {
	r := m.pool[m.next]
	m.next = (m.next + 1) % len(m.pool)
	return r
}

// addRunning adds the requests that run at the beginning, the oldest first. Their prefill and a part of their answer
// are done.
func (m *requestMaker) addRunning() {
	var flight []inFlight
	for range m.running {
		r := m.drawLonger()
		flight = append(flight, inFlight{r, m.rand.IntN(r.OutputTokens)})
	}
	m.adjustProgress(flight)
	slices.SortStableFunc(flight, func(a, b inFlight) int { return b.generated - a.generated })
	for _, f := range flight {
		f.r.PromptTokens += f.generated
		f.r.OutputTokens -= f.generated
		if f.r.PromptTokens >= m.config.MaxModelLen {
			continue
		}
		if m.patience.whole {
			f.r.CancelAfter = m.untilLeft(0)
		}
		m.requests = append(m.requests, f.r)
		m.agesAtStart = append(m.agesAtStart, m.first+time.Duration(f.generated)*m.gap)
	}
}

// addWaiting adds the requests that wait at the beginning. They arrived one after the other.
func (m *requestMaker) addWaiting() {
	for i := range m.waiting {
		waited := m.longestWait * time.Duration(m.waiting-i) / time.Duration(m.waiting)
		m.addRequest(0, 0, waited)
		m.agesAtStart = append(m.agesAtStart, waited)
	}
}

// addRequest adds a request that arrives at a time, or after a client's pause, and has already waited.
func (m *requestMaker) addRequest(at, pause, waited time.Duration) {
	r := m.drawRequest()
	r.Arrival, r.Pause = at, pause
	if m.patience.Duration > 0 {
		r.CancelAfter, r.Unanswered = m.frontend.Delay(0)+m.untilLeft(waited), !m.patience.whole
	}
	m.requests = append(m.requests, r)
}

// untilLeft returns in what time the client of a request leaves: at its timeout while it has no token or, if clients
// leave during answers, at a random time.
func (m *requestMaker) untilLeft(waited time.Duration) time.Duration {
	if m.patience.whole {
		return max(time.Duration(float64(m.patience.Duration)*m.rand.ExpFloat64()), 1)
	}
	return max(m.patience.Duration-waited, 1)
}

// addFuture adds the future requests. Measured arrivals and pauses include the API server's time.
func (m *requestMaker) addFuture() {
	end, passed := m.warm+m.length, m.frontend.Delay(0)
	if m.clients > 0 {
		enginePause := max(m.pause-passed, 0)
		missing := max(int(m.clients)-len(m.requests), 0)
		for i := range missing {
			m.addRequest(max(m.pause*time.Duration(i)/time.Duration(missing)-passed, 0), enginePause, 0)
		}
		tokens, seconds := 0, 0.0 // lower bounds for the answers, as if each step were of one request
		for n := m.mayStayUnanswered(end); tokens <= m.maxTokens && seconds <= m.clients*end.Seconds() || n > 0; n-- {
			m.addRequest(0, enginePause, 0)
			output := m.requests[len(m.requests)-1].OutputTokens
			tokens, seconds = tokens+output, seconds+float64(output)*m.cost.Base+enginePause.Seconds()
		}
		return
	}
	for n, k := len(m.arrivals), 0; n > 0 && (k < n || m.period > 0); k++ {
		at := m.arrivals[k%n] + time.Duration(k/n)*m.period
		if at >= end {
			break
		}
		m.addRequest(max(at-passed, 0), 0, 0)
	}
}

// mostUnanswered bounds the requests that are drawn for clients that may leave or be refused.
const mostUnanswered = 100_000

// mayStayUnanswered returns how many requests may stay unanswered until a time. The client of each sends another one.
func (m *requestMaker) mayStayUnanswered(end time.Duration) int {
	if m.patience.Duration == 0 && m.config.MaxQueuedRequests == 0 && m.config.MaxQueuedTokens == 0 {
		return 0
	}
	return int(min(2*m.clients*end.Seconds(), mostUnanswered))
}

// An inFlight is a request with a partial answer.
type inFlight struct {
	r         sim.Request
	generated int
}

// adjustProgress adjusts the partial answers of running requests to the measured use of the KV cache, if it is known:
// towards 0 if fewer tokens were measured than the answers have, and towards their ends if more were.
func (m *requestMaker) adjustProgress(flight []inFlight) {
	prompts, drawn, most := 0.0, 0.0, 0.0 // tokens: of prompts, of partial answers, of whole answers
	for _, f := range flight {
		prompts += float64(f.r.PromptTokens)
		drawn += float64(f.generated)
		most += float64(f.r.OutputTokens)
	}
	measured := m.held*float64(m.config.Tokens()) - prompts - float64(len(flight)*m.config.BlockSize)/2
	if !(m.held > 0) || !(drawn > 0) {
		return
	}
	measured = min(max(measured, 0), most)
	for i := range flight {
		if f := &flight[i]; measured <= drawn {
			f.generated = int(float64(f.generated) * measured / drawn)
		} else {
			f.generated += int(float64(f.r.OutputTokens-1-f.generated) * (measured - drawn) / max(most-drawn, 1))
		}
	}
}

// drawLonger draws a request with a probability in proportion to the length of its answer, because longer requests are
// longer in flight.
func (m *requestMaker) drawLonger() sim.Request {
	a := m.drawRequest()
	for range 8 {
		b := m.pool[m.rand.IntN(len(m.pool))]
		// Metropolis sampling: the chain's distribution is weighted by length.
		if m.rand.Float64()*float64(a.OutputTokens) < float64(b.OutputTokens) {
			a = b
		}
	}
	return a
}

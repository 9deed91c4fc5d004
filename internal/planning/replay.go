package planning

import (
	"cmp"
	"math"
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
	truncated        bool
}

// instant is a step's cost while a trial is set: what is in flight at the
// beginning has had its prefill.
var instant = sim.StepCost{Base: 1e-9}

// replay simulates a trial.
func replay(s *trial) (*outcome, error) {
	e, err := sim.New(s.cfg, instant)
	if err != nil {
		return nil, err
	}
	p := &player{
		trial: s, overhead: s.frontend.Delay(0), rng: rand.New(rand.NewPCG(s.seed, 0x5eed)),
		out: outcome{seconds: s.length.Seconds(), ttft: s.shown.TTFT.Empty(), itl: s.shown.ITL.Empty(), e2e: s.shown.E2E.Empty()},
	}
	p.engine = sim.Driver{Engine: e, Between: p.beforeStep, Ending: p.ending, Ended: p.tokensOf}
	p.next = p.rng.IntN(len(s.pool))
	p.begin()
	if err := e.SetCost(s.cost); err != nil {
		return nil, err
	}
	p.run()
	return &p.out, nil
}

// player runs one trial.
type player struct {
	*trial
	engine   sim.Driver
	overhead time.Duration // of the frontend, for each request
	rng      *rand.Rand
	next     int // of the pool

	setting   bool // the trial is being set, step by step
	stepped   bool // a step ended since
	measuring bool

	came    int             // arrivals so far
	leaving []leaving       // in order
	back    []time.Duration // when clients come again, in order
	began   []time.Duration // when each request came, by number; before 0 for those in flight at the beginning
	last    []time.Duration // its last token, or -1
	tokens  int
	before  sim.Stats // when the measured time began
	out     outcome
}

// drawRequest takes a request from the pool.
func (p *player) drawRequest() sim.Request {
	r := p.pool[p.next]
	p.next = (p.next + 1) % len(p.pool)
	return r
}

// add hands a request that came at a time to the engine.
func (p *player) add(r sim.Request, at time.Duration) {
	r.Arrival = max(at, 0)
	counts := at >= p.warm
	if counts {
		p.out.came++
	}
	if _, err := p.engine.Add(r); err != nil {
		if counts {
			p.out.refused++
		}
		if p.clients > 0 {
			p.scheduleReturn(at + retryAfter)
		}
		return
	}
	p.began, p.last = append(p.began, at), append(p.last, -1)
	if p.patience.Duration > 0 {
		p.waits()
	}
}

// begin sets the trial: requests that run have had their prefill and a part of
// their answer, the oldest first; those that wait came one after the other.
func (p *player) begin() {
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
		p.add(f.r, -p.first-time.Duration(f.done)*p.gap)
	}
	p.setting = true
	for steps := 0; steps < maxSetting && p.engine.Stats().Waiting > 0; steps++ {
		before := p.engine.Stats()
		p.stepped = false
		p.engine.Advance(forever)
		if after := p.engine.Stats(); after.Waiting >= before.Waiting && after.PromptTokens == before.PromptTokens && steps > len(flight)+8 {
			break // the rest does not fit
		}
	}
	p.setting = false
	for i := range p.last {
		p.last[i] = 0 // they had tokens, here or before
	}
	for i := range p.waiting {
		p.add(p.drawRequest(), -p.waited*time.Duration(p.waiting-i)/time.Duration(p.waiting))
	}
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

// maxSetting bounds the steps in which a trial is set.
const maxSetting = 2000

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

// retryAfter is when a client that was turned away asks again.
const retryAfter = time.Second

// scheduleReturn lets a client come again.
func (p *player) scheduleReturn(at time.Duration) {
	i, _ := slices.BinarySearch(p.back, at+1) // behind those of the same time
	p.back = slices.Insert(p.back, i, at)
}

// nextDue returns when the next request comes that depends on no answer.
func (p *player) nextDue() (time.Duration, bool) {
	n := len(p.arrivals)
	if len(p.back) > 0 {
		return p.back[0], true
	}
	if p.clients > 0 || n == 0 || p.came >= n && p.period == 0 {
		return 0, false
	}
	return p.arrivals[p.came%n] + time.Duration(p.came/n)*p.period, true
}

// addArrivals adds what comes until a time.
func (p *player) addArrivals(until time.Duration) {
	for {
		at, ok := p.nextDue()
		if !ok || at > until {
			return
		}
		if len(p.back) > 0 {
			p.back = p.back[1:]
		} else {
			p.came++
		}
		p.add(p.drawRequest(), at)
	}
}

// cancelImpatient lets those go whose patience is at its end.
func (p *player) cancelImpatient(until time.Duration) {
	for ; len(p.leaving) > 0 && p.leaving[0].at <= until; p.leaving = p.leaving[1:] {
		l := p.leaving[0]
		if !p.patience.whole && p.last[l.id] >= 0 || p.engine.Cancel(l.id, l.at) == nil {
			continue
		}
		if l.at >= p.warm {
			p.out.left++
		}
		if p.clients > 0 {
			p.scheduleReturn(l.at + p.pause)
		}
	}
}

// waits notes when the client of the last request leaves: at its timeout, while it has no
// token; or at any moment alike, while it gets its answer.
func (p *player) waits() {
	id := len(p.began) - 1
	l := leaving{max(p.began[id]+p.patience.Duration, 0), id}
	if p.patience.whole {
		l.at = max(p.began[id], 0) + time.Duration(float64(p.patience.Duration)*p.rng.ExpFloat64())
	}
	i, _ := slices.BinarySearchFunc(p.leaving, l, func(a, b leaving) int { return cmp.Compare(a.at, b.at) })
	p.leaving = slices.Insert(p.leaving, i, l)
}

// A leaving is when the client of a request leaves, if it has not got what it waits for.
type leaving struct {
	at time.Duration
	id int
}

func (p *player) run() {
	held := p.engine.Stats()
	missing := int(p.clients) - held.Running - held.Waiting
	for i := range missing {
		p.scheduleReturn(p.pause * time.Duration(i) / time.Duration(missing))
	}
	for {
		p.engine.Advance(forever)
		at, ok := p.nextDue()
		if !ok || at >= p.end() || p.engine.Now >= p.end() || p.out.truncated {
			break
		}
		p.engine.Now = max(p.engine.Now, at)
	}
	p.out.simulated = p.tokens
	end := p.engine.Stats()
	p.out.preemptions = float64(end.Preemptions - p.before.Preemptions)
	p.out.peak = end.Peak.KVTokens
	p.out.recomputed = max(0, computed(end)-computed(p.before))
}

// computed is what was computed beyond answers and what prompts need once.
func computed(s sim.Stats) float64 {
	return float64(s.Work.Tokens - s.GenerationTokens - s.PromptTokens + s.PrefixAdmittedHit)
}

// forever is later than anything here.
const forever = time.Duration(math.MaxInt64)

// end is when the measured time ends.
func (p *player) end() time.Duration { return p.warm + p.length }

// beforeStep is called between two steps: it begins to measure where it is time for that,
// and adds what has come. It reports whether to go on.
func (p *player) beforeStep() bool {
	now := p.engine.Now
	switch {
	case p.setting:
		return !p.stepped
	case now >= p.end():
		return false
	}
	if !p.measuring && now >= p.warm {
		p.measuring, p.before = true, p.engine.Stats()
	}
	if p.tokens > p.maxTokens {
		p.out.truncated = true
		p.out.seconds = max(now-p.warm, 0).Seconds()
		return false
	}
	p.addArrivals(now)
	p.cancelImpatient(now)
	return true
}

// ending is called before a step ends.
func (p *player) ending() {
	if !p.setting {
		p.addGauges(p.engine.Due)
		p.addArrivals(p.engine.Due)
	}
}

// tokensOf counts the tokens of a step.
func (p *player) tokensOf(outputs []sim.Output) {
	p.stepped = true
	for _, out := range outputs {
		p.token(out, !p.setting)
	}
}

// addGauges adds up the gauges until a time.
func (p *player) addGauges(until time.Duration) {
	from, to := max(p.engine.Now, p.warm), min(until, p.warm+p.length)
	seconds := (to - from).Seconds()
	if seconds <= 0 {
		return
	}
	s := p.engine.Stats()
	p.out.running += float64(s.Running) * seconds
	p.out.waiting += float64(s.Waiting) * seconds
	switch quarter := p.length / 4; {
	case from < p.warm+quarter:
		p.out.early += float64(s.Waiting) * seconds
	case from >= p.warm+p.length-quarter:
		p.out.late += float64(s.Waiting) * seconds
	}
}

// token counts a token, and sends a client's next request after its last.
func (p *player) token(out sim.Output, count bool) {
	id, now := out.ID, p.engine.Now
	p.tokens++
	waited := now - p.began[id] + p.overhead
	if count && now >= p.warm && now < p.warm+p.length {
		p.out.tokens++
		if p.last[id] < 0 {
			p.out.ttft.Add(waited.Seconds())
		} else {
			p.out.itl.Add((now - p.last[id]).Seconds())
		}
		if out.Result != nil {
			p.out.e2e.Add(waited.Seconds())
			p.out.ended = append(p.out.ended, out.Result.Record())
		}
	}
	p.last[id] = now
	if out.Result != nil && count && p.clients > 0 {
		p.scheduleReturn(now + max(p.pause, p.overhead))
	}
}

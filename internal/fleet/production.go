package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/engine"
)

// Production is a deployment in ordinary operation: days of traffic on machines
// that are never quite steady, scraped by a server that now and then misses one,
// with deployments, and without a fault.
type Production struct {
	Replicas int
	Settings Settings
	Traffic  Traffic
	Shares   []float64 // of the replicas in the traffic, relative to each other; nil: equal
	For      time.Duration

	Deployments []time.Duration // when rolling restarts of all replicas begin
	Noise       Noise
	Scrapes     Scrapes
}

// Noise is what machines do that nobody would call a fault. Events of each kind
// come independently of each other, at random with the given mean number.
type Noise struct {
	// Spread is the standard deviation of the logarithm of the duration of steps.
	// It wanders: two moments that are Wander apart are correlated by 1/e.
	Spread float64
	Wander time.Duration

	SpellsPerDay  float64 // of 1 to 3 minutes in which steps take 1.1 to 1.5 times as long
	StallsPerDay  float64 // of 1 to 4 seconds in which the engine does nothing
	PausesPerHour float64 // of 50 to 300 milliseconds, such as garbage collections
}

// Scrapes is how pages are fetched: each target at its own phase of the interval.
type Scrapes struct {
	Interval time.Duration
	Jitter   time.Duration // standard deviation of when a scrape begins
	Lost     float64       // share that fails: half of them by an error, of the others there is no trace
	Slow     float64       // share that takes 0.3 to 3 seconds, and shows values of its end
}

// OrdinaryNoise and OrdinaryScrapes are of the order of what one sees in a data
// centre; they are estimates, not measurements.
var (
	OrdinaryNoise   = Noise{Spread: 0.05, Wander: 5 * time.Minute, SpellsPerDay: 6, StallsPerDay: 3, PausesPerHour: 40}
	OrdinaryScrapes = Scrapes{Interval: 15 * time.Second, Jitter: 20 * time.Millisecond, Lost: 0.001, Slow: 0.005}
)

// How a rolling restart goes: a replica gets no more requests, is stopped, is
// gone, and serves for a while before it is the next one's turn.
const (
	drainFor   = 20 * time.Second
	restartFor = time.Minute
	settleFor  = time.Minute
)

// A Sight is what the client of a request has come to see.
type Sight uint8

const (
	Asked      Sight = iota // it was accepted
	FirstToken              // the first token came
	Answered                // the last token came
	Left                    // the client left
	Broken                  // the server died
)

// An Experience is a moment of a virtual client's request. Times are since the
// beginning.
type Experience struct {
	Replica   int
	What      Sight
	Asked, At time.Duration
	First     time.Duration // of the first token, where Tokens is not 0
	Tokens    int           // that came so far
}

// A Spectator follows a production. Each of its functions may be nil.
type Spectator struct {
	Page   func(Page) error         // a scrape has ended
	Client func(Experience)         // a client has seen something
	Stop   func(int, time.Duration) // a replica was stopped for a deployment
	Start  func(int, time.Duration) // and serves again
	// Slow tells by how much a replica's machine is slower from now on; 1 is not at all.
	Slow func(replica int, at time.Duration, factor float64)
	Tick func(time.Duration) error
}

// PlayProduction lets a production happen in simulated time and calls Tick after
// each scrape interval.
func PlayProduction(ctx context.Context, p Production, release engine.Release, seed uint64, began time.Time, to Spectator) error {
	if p.Replicas < 1 || p.Replicas > MaxReplicas {
		return fmt.Errorf("%d replicas: want 1 to %d", p.Replicas, MaxReplicas)
	}
	if p.Shares != nil && len(p.Shares) != p.Replicas {
		return fmt.Errorf("%d shares for %d replicas", len(p.Shares), p.Replicas)
	}
	if p.Scrapes.Interval < time.Second {
		return errors.New("a production is scraped once a second at most")
	}
	server, err := p.Settings.Server(release, "llama-8b")
	if err != nil {
		return err
	}
	shares := slices.Clone(p.Shares)
	if shares == nil {
		shares = slices.Repeat([]float64{1}, p.Replicas)
	}
	sc := Scenario{Name: "production", Phases: []Phase{{Name: "production", For: p.For, Traffic: p.Traffic, Route: slices.Clone(shares)}}}
	c, err := newCore(sc, server, p.Replicas, seed, func(d time.Duration) time.Time { return began.Add(d) })
	if err != nil {
		return err
	}
	c.watch = to.Client
	x := &production{core: c, p: p, to: to, rng: rand.New(rand.NewPCG(seed, 3)), shares: shares, frozen: make([]time.Duration, p.Replicas)}
	for i := range c.replicas {
		x.unsteady(i)
	}
	for i := range p.Replicas + 1 {
		x.scrape(i)
	}
	for _, at := range p.Deployments {
		x.restart(0, at)
	}
	for at := p.Scrapes.Interval; at <= p.For; at += p.Scrapes.Interval {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.advance(at)
		if x.err == nil && to.Tick != nil {
			x.err = to.Tick(at)
		}
		if x.err != nil {
			return x.err
		}
	}
	return nil
}

// production is one that is under way.
type production struct {
	*core
	p      Production
	to     Spectator
	rng    *rand.Rand
	shares []float64
	frozen []time.Duration // by replica: until when its engine stands still
	err    error
}

// often lets something happen at random times, with a mean number per span.
func (x *production) often(mean float64, span time.Duration, do func(at time.Duration)) {
	if mean <= 0 {
		return
	}
	var next func(time.Duration)
	next = func(at time.Duration) {
		x.at(at+time.Duration(x.rng.ExpFloat64()/mean*float64(span)), func(at time.Duration) {
			do(at)
			next(at)
		})
	}
	next(x.now)
}

func (x *production) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(x.rng.Float64()*float64(hi-lo))
}

// unsteady begins a replica's noise.
func (x *production) unsteady(i int) {
	const every = 5 * time.Second
	r, n := x.replicas[i], x.p.Noise
	wander, spell := x.rng.NormFloat64(), 1.0
	memory := 0.0
	var drift func(time.Duration)
	drift = func(at time.Duration) {
		if n.Wander > 0 {
			keep := math.Exp(-every.Seconds() / n.Wander.Seconds())
			wander = keep*wander + math.Sqrt(1-keep*keep)*x.rng.NormFloat64()
		}
		memory = 0.99*memory + 0.14*x.rng.NormFloat64()
		if r.up {
			f := Faults{Slow: spell * math.Exp(n.Spread*wander)}
			if err := r.engine.SetCost(f.slow(r.cfg.Cost)); err != nil {
				x.err = err
			}
			r.api.memory = resident(at-r.born, memory, r.open())
		}
		x.at(at+every, drift)
	}
	drift(0)
	x.often(n.SpellsPerDay, 24*time.Hour, func(at time.Duration) {
		set := func(at time.Duration, factor float64) {
			spell = factor
			if x.to.Slow != nil {
				x.to.Slow(i, at, factor)
			}
		}
		set(at, 1.1+0.4*x.rng.Float64())
		x.at(at+x.between(time.Minute, 3*time.Minute), func(at time.Duration) { set(at, 1) })
	})
	x.often(n.StallsPerDay, 24*time.Hour, func(at time.Duration) { x.freeze(i, at, x.between(time.Second, 4*time.Second)) })
	x.often(n.PausesPerHour, time.Hour, func(at time.Duration) {
		x.freeze(i, at, x.between(50*time.Millisecond, 300*time.Millisecond))
	})
}

// resident is the memory of an API server: caches that fill in its first hour,
// what open requests hold, and an allocator that gives back when it likes.
func resident(age time.Duration, noise float64, open int) float64 {
	return baseMemory*(1+0.06*(1-math.Exp(-age.Minutes()/20))+0.005*noise) + 60e3*float64(open)
}

// freeze stops an engine for a moment.
func (x *production) freeze(i int, at, d time.Duration) {
	r := x.replicas[i]
	r.hang(true, at)
	x.frozen[i] = max(x.frozen[i], at+d)
	x.at(at+d, func(at time.Duration) {
		if at >= x.frozen[i] {
			r.hang(false, at)
		}
	})
}

// scrape begins the scrapes of a replica, or of the GPU exporter behind them.
func (x *production) scrape(target int) {
	s := x.p.Scrapes
	phase := time.Duration(x.rng.Float64() * float64(s.Interval))
	var next func(number int)
	next = func(number int) {
		begin := phase + time.Duration(number)*s.Interval + time.Duration(x.rng.NormFloat64()*float64(s.Jitter))
		x.at(begin, func(begin time.Duration) {
			next(number + 1)
			luck := x.rng.Float64()
			if luck < s.Lost/2 {
				return
			}
			took := x.between(4*time.Millisecond, 40*time.Millisecond)
			if x.rng.Float64() < s.Slow {
				took = x.between(300*time.Millisecond, 3*time.Second)
			}
			x.at(begin+took, func(at time.Duration) {
				x.fetched(target, begin, at, luck < s.Lost)
			})
		})
	}
	next(0)
}

// fetched hands over what a scrape got.
func (x *production) fetched(target int, begin, at time.Duration, lost bool) {
	if x.err != nil || x.to.Page == nil {
		return
	}
	p := Page{Target: ExporterTarget, At: x.wall(begin), Took: at - begin}
	switch {
	case target < len(x.replicas):
		p.Target = ReplicaTarget(target)
		if !lost {
			p.Body, _ = x.replicas[target].page() // the error is that it is down
		}
	case !lost:
		p.Body = gpuPage(x.replicas, at)
	}
	x.err = x.to.Page(p)
}

// restart takes a replica and then those behind it through a deployment.
func (x *production) restart(i int, at time.Duration) {
	if i == len(x.replicas) {
		return
	}
	route := x.scenario.Phases[0].Route
	x.at(at, func(at time.Duration) { route[i] = 0 })
	x.at(at+drainFor, func(at time.Duration) {
		x.replicas[i].stop(at)
		if x.to.Stop != nil {
			x.to.Stop(i, at)
		}
	})
	x.at(at+drainFor+restartFor, func(at time.Duration) {
		if err := x.replicas[i].start(at); err != nil {
			x.err = err
			return
		}
		route[i] = x.shares[i]
		if x.to.Start != nil {
			x.to.Start(i, at)
		}
		x.restart(i+1, at+settleFor)
	})
}

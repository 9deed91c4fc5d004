package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// Production is a deployment of one model in operation: days of traffic on machines that
// are never quite steady, scraped by servers that now and then miss a page, and all that
// is done to it.
type Production struct {
	Model    string // llama-8b when ""
	Replicas int    // at the beginning
	Settings Settings
	Traffic  Traffic
	For      time.Duration

	// Pods have an address of their own, which nothing that comes after them has, are
	// discovered before they serve and leave discovery when they are gone. Other servers
	// are started again at the same address, and always asked.
	Pods    bool
	Address string            // of the first server, without its port: the others' follow from it; fleet when ""
	Labels  map[string]string // of all targets
	Views   []string          // replica labels of Prometheus servers that both scrape all of it; nil is one without
	GPUs    bool              // an exporter stands beside the servers
	Clocks  time.Duration     // standard deviation of the servers' clocks

	Events  []Event
	Noise   Noise
	Scrapes Scrapes
}

// A Deed is what is done to a production.
type Deed string

// What happens in a production, by design or not.
const (
	Scale      Deed = "scale"       // to N replicas
	Upgrade    Deed = "upgrade"     // all servers are replaced, one after the other, by such with Settings
	Stuck      Deed = "stuck"       // an upgrade whose first new server does not come up, and is taken back after For
	DrainNode  Deed = "drain-node"  // N pods are evicted, and others take their place
	PagesLate  Deed = "pages-late"  // the pages of N servers take seconds for a while
	AskMore    Deed = "ask-more"    // Traffic comes too, for a while
	AskAnother Deed = "ask-another" // Traffic comes from then on in the place of what came before
	Break      Deed = "break"       // N servers, 0 is all, have Faults for a while
)

// An Event is something that is done to a production.
type Event struct {
	At       time.Duration
	Do       Deed
	For      time.Duration
	N        int
	Settings Settings
	Traffic  Traffic
	Faults   Faults
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

// A span is how long something takes: between two times, at random.
type span struct{ least, most time.Duration }

// How replicas come and go. A pod loads its model before it serves, and is ready a probe
// later; one that is to go gets no more requests, and has a while to end those that it has.
var (
	loads   = span{90 * time.Second, 200 * time.Second}
	reboots = span{45 * time.Second, 120 * time.Second} // of a server whose machine has all at hand
	probed  = span{time.Second, 10 * time.Second}
	drains  = span{30 * time.Second, 90 * time.Second}
	lingers = span{0, 10 * time.Second} // in discovery
	settles = span{10 * time.Second, time.Minute}
	lately  = span{2 * time.Second, 8 * time.Second} // a late page; one in five comes after the scrape's timeout
)

// A Spectator follows a production. Each of its functions may be nil.
type Spectator struct {
	Page   func(Scrape) error // a scrape has ended
	Client func(Experience)   // a client has seen something
	// Slow tells by how much a replica's machine is slower from now on; 1 is not at all.
	Slow func(replica int, at time.Duration, factor float64)
}

// A Stage is a production that is under way, in simulated time.
type Stage struct {
	*core
	p       Production
	to      Spectator
	rng     *rand.Rand
	release engine.Release
	server  Server // what a replica is started with
	pods    []*pod // in the order of their beginnings
	started int    // so many
	err     error
}

// A pod is a replica, and how it is seen from outside.
type pod struct {
	*replica
	target string
	labels map[string]string
	faults Faults
	spell  float64       // by how much its machine is slower
	frozen time.Duration // until when its engine stands still
	late   time.Duration // until when its pages are late
	left   bool          // discovery
}

// NewStage begins a production.
func NewStage(p Production, release engine.Release, seed uint64, began time.Time, to Spectator) (*Stage, error) {
	switch {
	case p.Replicas < 1 || p.Replicas > MaxReplicas:
		return nil, fmt.Errorf("%d replicas: want 1 to %d", p.Replicas, MaxReplicas)
	case p.Scrapes.Interval < time.Second:
		return nil, errors.New("a production is scraped once a second at most")
	}
	p.Model, p.Address = cmp.Or(p.Model, "llama-8b"), cmp.Or(p.Address, "fleet")
	server, err := p.Settings.Server(release, p.Model)
	if err != nil {
		return nil, err
	}
	sc := Scenario{Name: "production", Phases: []Phase{{Name: "production", For: p.For, Traffic: p.Traffic}}}
	c, err := newCore(sc, server, 0, seed, func(d time.Duration) time.Time { return began.Add(d) })
	if err != nil {
		return nil, err
	}
	c.watch = to.Client
	x := &Stage{core: c, p: p, to: to, rng: rand.New(rand.NewPCG(seed, 3)), release: release, server: server}
	for range p.Replicas {
		x.ready(x.add(), 0)
	}
	if p.GPUs {
		x.scrapes(func(begin, at time.Duration, lost bool) {
			page := Scrape{Target: p.Address + ":9400", Labels: p.Labels, At: x.wall(begin), Took: at - begin}
			if !lost {
				page.Body = gpuPage(x.replicas, at)
			}
			x.show(page)
		}, nil)
	}
	for i := range p.Events {
		x.scheduleEvent(p.Events[i].At, func(at time.Duration) { x.do(&p.Events[i], seed+uint64(i), at) })
	}
	return x, x.err
}

// Advance lets everything happen that is due up to a time.
func (x *Stage) Advance(ctx context.Context, until time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	x.advanceTo(until)
	return x.err
}

// Replicas are those that are there now, whether they serve or not.
func (x *Stage) Replicas() int { return len(x.pods) }

// fail keeps the first error.
func (x *Stage) fail(err error) { x.err = cmp.Or(x.err, err) }

func (x *Stage) draw(s span) time.Duration { return x.between(s.least, s.most) }

func (x *Stage) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(x.rng.Float64()*float64(hi-lo))
}

// often lets something happen at random times, with a mean number per span, while a pod is
// there.
func (x *Stage) often(p *pod, mean float64, span time.Duration, do func(at time.Duration)) {
	if mean <= 0 {
		return
	}
	var next func(time.Duration)
	next = func(at time.Duration) {
		x.scheduleEvent(at+time.Duration(x.rng.ExpFloat64()/mean*float64(span)), func(at time.Duration) {
			if !p.left {
				do(at)
				next(at)
			}
		})
	}
	next(x.clock)
}

// add adds a replica that does not serve yet.
func (x *Stage) add() *pod {
	n, skew := x.started, time.Duration(x.rng.NormFloat64()*float64(x.p.Clocks))
	x.started++
	r := newReplica(x.server, n, func(d time.Duration) time.Time { return x.wall(d).Add(skew) })
	r.later = x.core.scheduleEvent
	p := &pod{replica: r, target: x.p.Address + ":" + strconv.Itoa(8000+n), labels: x.p.Labels, spell: 1}
	if x.p.Pods {
		p.target, p.labels = fmt.Sprintf("%s.%d.%d:8000", x.p.Address, n/250, n%250+1),
			labelled(x.p.Labels, "pod", fmt.Sprintf("%s-%d", x.p.Model, n))
	}
	x.pods, x.replicas = append(x.pods, p), append(x.replicas, r)
	x.unsteady(p)
	for _, view := range slices.Concat(x.p.Views, []string{""})[:max(len(x.p.Views), 1)] {
		labels := labelled(p.labels, "prometheus_replica", view)
		x.scrapes(func(begin, at time.Duration, lost bool) { x.fetched(p, labels, begin, at, lost) }, p)
	}
	return p
}

// labelled adds a label to others, "" for none.
func labelled(labels map[string]string, name, value string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	if value != "" {
		out[name] = value
	}
	return out
}

// ready starts a replica, which gets its share of the requests.
func (x *Stage) ready(p *pod, at time.Duration) {
	if p.left || p.up {
		return
	}
	p.cfg = x.server
	if err := p.startServer(at); err != nil {
		x.fail(err)
		return
	}
	turn := func(time.Duration) {
		if p.up {
			p.weight = 1 + 0.1*float64(p.number%4)/4 // a router never shares quite evenly
		}
	}
	if at == 0 {
		turn(at)
	} else {
		x.scheduleEvent(at+x.draw(probed), turn)
	}
}

// load adds a pod, which is ready a while later; then is called when it is.
func (x *Stage) load(at time.Duration, then func(at time.Duration)) {
	p := x.add()
	x.scheduleEvent(at+x.draw(loads), func(at time.Duration) {
		x.ready(p, at)
		then(at)
	})
}

// drain takes requests from a replica, and stops it a while later.
func (x *Stage) drain(p *pod, at time.Duration, then func(at time.Duration)) {
	p.weight = 0
	x.scheduleEvent(at+x.draw(drains), func(at time.Duration) {
		p.stopServer(at)
		then(at)
	})
}

// retire drains a replica that does not come back.
func (x *Stage) retire(p *pod, at time.Duration) {
	x.drain(p, at, func(at time.Duration) {
		x.scheduleEvent(at+x.draw(lingers), func(time.Duration) { x.leave(p) })
	})
}

// leave takes a replica out of discovery.
func (x *Stage) leave(p *pod) {
	p.left, p.weight = true, 0
	p.stopServer(x.clock)
	x.pods = slices.DeleteFunc(x.pods, func(o *pod) bool { return o == p })
	x.replicas = slices.DeleteFunc(x.replicas, func(r *replica) bool { return r == p.replica })
}

// serving are the replicas that get requests.
func (x *Stage) serving() []*pod {
	return slices.DeleteFunc(slices.Clone(x.pods), func(p *pod) bool { return p.weight == 0 })
}

// some are n of the replicas that get requests, 0 is all.
func (x *Stage) some(n int) []*pod {
	all := x.serving()
	x.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	if n == 0 {
		return all
	}
	return all[:min(n, len(all))]
}

// do lets an event happen.
func (x *Stage) do(e *Event, seed uint64, at time.Duration) {
	switch e.Do {
	case Scale:
		for n := len(x.pods); n < e.N; n++ {
			x.load(at, func(time.Duration) {})
		}
		for all := x.serving(); len(all) > e.N; all = all[:len(all)-1] {
			x.retire(all[len(all)-1], at)
		}
	case Upgrade, Stuck:
		server, err := e.Settings.Server(x.release, x.p.Model)
		if err != nil {
			x.fail(err)
			return
		}
		if e.Do == Upgrade {
			x.server = server
			x.roll(x.serving(), at)
			return
		}
		if x.p.Pods {
			p := x.add()
			x.scheduleEvent(at+e.For, func(time.Duration) { x.leave(p) })
		} else if all := x.serving(); len(all) > 0 {
			x.drain(all[0], at, func(at time.Duration) {
				x.scheduleEvent(at+e.For, func(at time.Duration) { x.ready(all[0], at) })
			})
		}
	case DrainNode:
		for _, p := range x.some(e.N) {
			x.retire(p, at)
			x.load(at, func(time.Duration) {})
		}
	case PagesLate:
		for _, p := range x.some(e.N) {
			p.late = at + e.For
		}
	case AskMore:
		more, err := startTraffic(x.core, e.Traffic, seed)
		x.fail(err)
		x.scheduleEvent(at+e.For, func(time.Duration) { more.stopped = true })
	case AskAnother:
		x.traffic.stopped = true
		var err error
		x.traffic, err = startTraffic(x.core, e.Traffic, seed)
		x.fail(err)
	case Break:
		for _, p := range x.some(e.N) {
			x.hurt(p, e.Faults, at)
			x.scheduleEvent(at+e.For, func(at time.Duration) { x.hurt(p, Faults{}, at) })
		}
	}
}

// roll replaces replicas one after the other: pods by new ones, which come before they go,
// others by themselves.
func (x *Stage) roll(olds []*pod, at time.Duration) {
	if len(olds) == 0 {
		return
	}
	old := olds[0]
	next := func(at time.Duration) {
		x.scheduleEvent(at+x.draw(settles), func(at time.Duration) { x.roll(olds[1:], at) })
	}
	switch {
	case old.left:
		x.roll(olds[1:], at)
	case x.p.Pods:
		x.load(at, func(at time.Duration) {
			x.scheduleEvent(at+probed.most, func(at time.Duration) {
				x.retire(old, at)
				next(at)
			})
		})
	default:
		x.drain(old, at, func(at time.Duration) {
			x.scheduleEvent(at+x.draw(reboots), func(at time.Duration) {
				x.ready(old, at)
				next(at)
			})
		})
	}
}

// hurt does to a replica what faults do, or takes them away. One that died gets no more
// requests when a probe has failed.
func (x *Stage) hurt(p *pod, f Faults, at time.Duration) {
	before := p.faults
	if p.faults = f; p.left {
		return
	}
	if f.Down {
		p.stopServer(at)
		x.scheduleEvent(at+probed.most, func(time.Duration) { p.weight = 0 })
		return
	}
	if before.Down {
		x.ready(p, at)
		return
	}
	x.fail(p.applyFaults(before, f, at))
}

// unsteady begins a replica's noise.
func (x *Stage) unsteady(p *pod) {
	const every = 5 * time.Second
	n := x.p.Noise
	wander, memory := x.rng.NormFloat64(), 0.0
	var drift func(time.Duration)
	drift = func(at time.Duration) {
		if n.Wander > 0 {
			keep := math.Exp(-every.Seconds() / n.Wander.Seconds())
			wander = keep*wander + math.Sqrt(1-keep*keep)*x.rng.NormFloat64()
		}
		memory = 0.99*memory + 0.14*x.rng.NormFloat64()
		if p.up {
			f := p.faults
			f.Slow = max(f.Slow, 1) * p.spell * math.Exp(n.Spread*wander)
			x.fail(p.engine.SetCost(f.slowedCost(p.cfg)))
			p.api.memory = resident(at-p.born, memory, p.openRequests())
		}
		if !p.left {
			x.scheduleEvent(at+every, drift)
		}
	}
	x.scheduleEvent(x.clock, drift)
	x.often(p, n.SpellsPerDay, 24*time.Hour, func(at time.Duration) {
		set := func(at time.Duration, factor float64) {
			p.spell = factor
			if x.to.Slow != nil {
				x.to.Slow(p.number, at, factor)
			}
		}
		set(at, 1.1+0.4*x.rng.Float64())
		x.scheduleEvent(at+x.between(time.Minute, 3*time.Minute), func(at time.Duration) { set(at, 1) })
	})
	x.often(p, n.StallsPerDay, 24*time.Hour,
		func(at time.Duration) { x.freeze(p, at, x.between(time.Second, 4*time.Second)) })
	x.often(p, n.PausesPerHour, time.Hour, func(at time.Duration) {
		x.freeze(p, at, x.between(50*time.Millisecond, 300*time.Millisecond))
	})
}

// resident is the memory of an API server: caches that fill in its first hour,
// what open requests hold, and an allocator that gives back when it likes.
func resident(age time.Duration, noise float64, open int) float64 {
	return baseMemory*(1+0.06*(1-math.Exp(-age.Minutes()/20))+0.005*noise) + 60e3*float64(open)
}

// freeze stops an engine for a moment.
func (x *Stage) freeze(p *pod, at, d time.Duration) {
	p.setHung(true, at)
	p.frozen = max(p.frozen, at+d)
	x.scheduleEvent(at+d, func(at time.Duration) {
		if at >= p.frozen {
			p.setHung(p.faults.Hang, at)
		}
	})
}

// scrapes begins the scrapes of something, those of a pod until it leaves discovery.
func (x *Stage) scrapes(fetched func(begin, at time.Duration, lost bool), of *pod) {
	s := x.p.Scrapes
	phase := x.clock + time.Duration(x.rng.Float64()*float64(s.Interval))
	var next func(number int)
	next = func(number int) {
		begin := phase + time.Duration(number)*s.Interval + time.Duration(x.rng.NormFloat64()*float64(s.Jitter))
		x.scheduleEvent(begin, func(begin time.Duration) {
			if of != nil && of.left {
				return
			}
			next(number + 1)
			luck := x.rng.Float64()
			if luck < s.Lost/2 {
				return
			}
			lost := luck < s.Lost
			took := x.between(4*time.Millisecond, 40*time.Millisecond)
			switch {
			case of != nil && !of.up:
				took = time.Millisecond // to be refused
			case of != nil && begin < of.late:
				if took = x.draw(lately); x.rng.Float64() < 0.2 {
					took, lost = scrapeTimeout, true
				}
			case x.rng.Float64() < s.Slow:
				took = x.between(300*time.Millisecond, 3*time.Second)
			}
			x.scheduleEvent(begin+took, func(at time.Duration) { fetched(begin, at, lost) })
		})
	}
	next(0)
}

// fetched hands over what a scrape of a replica got.
func (x *Stage) fetched(p *pod, labels map[string]string, begin, at time.Duration, lost bool) {
	if p.left {
		return
	}
	page := Scrape{Target: p.target, Labels: labels, At: x.wall(begin), Took: at - begin}
	if !lost {
		page.Body, _ = p.metricsPage() // the error is that it is down
	}
	x.show(page)
}

func (x *Stage) show(p Scrape) {
	if x.err == nil && x.to.Page != nil {
		x.fail(x.to.Page(p))
	}
}

package fleet_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Deployment is one model with the events of its week.
type Deployment struct {
	Number int // tells its seeds and addresses from others'
	Name   string
	Shape  Shape
	Pods   bool
	Views  []string
	GPUs   bool
	Spread bool // the shape's replicas are those of its peak: they come and go with the traffic
	Events []Event
}

// An Event changes a deployment. Events with a Name are faults, of which an alarm must come within Found or two
// evaluations.
type Event struct {
	Day, Hour, Minute int // Monday is 0
	fleet.Event
	Name  string
	Found time.Duration
}

// at is its time after Monday's midnight.
func (e *Event) at() time.Duration {
	return time.Duration(e.Day*24+e.Hour)*time.Hour + time.Duration(e.Minute)*time.Minute
}

// The kinds of events.
func upgrade(day, hour, minute int, s fleet.Settings) Event {
	return Event{Day: day, Hour: hour, Minute: minute, Event: fleet.Event{Do: fleet.Upgrade, Settings: s}}
}

func deed(day, hour, minute int, do fleet.Deed, n int, length time.Duration) Event {
	return Event{Day: day, Hour: hour, Minute: minute, Event: fleet.Event{Do: do, N: n, For: length}}
}

func fault(name string, day, hour, minute, n int, length time.Duration, f fleet.Faults) Event {
	return Event{Day: day, Hour: hour, Minute: minute,
		Event: fleet.Event{Do: fleet.Break, N: n, For: length, Faults: f}, Name: name, Found: 30 * time.Second}
}

// stuck is an upgrade that hangs. How long a start takes is not known at first: it is
// longer than that after ten minutes.
func stuck(day, hour, minute int) Event {
	e := deed(day, hour, minute, fleet.Stuck, 0, 40*time.Minute)
	e.Name, e.Found = "an upgrade hangs", 12*time.Minute
	return e
}

// flags returns a shape's settings with another number of seats.
func (s *Shape) flags(seats int) fleet.Settings {
	out := s.Settings
	out.MaxNumSeqs = seats
	return out
}

// nightly returns a batch at two each night: clients in a closed loop.
func nightly(clients int, prompt, output string) (out []Event) {
	for day := range 7 {
		e := deed(day, 2, 0, fleet.AskMore, 0, 40*time.Minute)
		e.Traffic = fleet.Traffic{Clients: clients,
			Spec: workload.Spec{Prompt: lengths(prompt), Output: lengths(output), PrefixShare: 0.2, PrefixGroups: 2}}
		out = append(out, e)
	}
	return out
}

// find returns a shape whose steps take longer, and whose requests are fewer by as much: a
// larger model, of which a week takes as much less of the processor's time. At its peak it is
// busy by a part of what the shape is, whose bursts go beyond what clients are content with.
func find(name string, replicas int, longer, busy float64) Shape {
	all := Shapes()
	s := all[slices.IndexFunc(all, func(s Shape) bool { return s.Name == name })]
	s.Settings.Cost = cmp.Or(s.Settings.Cost, fleet.DefaultCost).Scale(sim.Uniform(longer))
	s.Peak, s.Replicas = busy*s.Peak/longer, replicas
	s.Limits.TTFT, s.Limits.TPOT = s.Limits.TTFT*3/2, s.Limits.TPOT*3/2
	return s
}

// Cluster is what one monitor watches: five deployments, two of which are no pods. Days
// repeat each week.
func Cluster() []Deployment {
	chat, code, long, bursty, office := find("azure-conversation", 4, 3, 0.75), find("azure-code", 5, 3, 0.4),
		find("mooncake", 2, 3, 0.7), find("bursty-chat", 4, 2, 0.6), find("office-assistant", 2, 3, 0.7)
	code.Spec.CancelShare = 0.6 // by design: what is typed meanwhile makes a completion useless
	code.Hours = conversations
	batch := "lognormal:900,0.4:100-3000"
	return []Deployment{
		{
			Number: 0, Name: "chat", Shape: chat, Pods: true, Spread: true,
			Events: slices.Concat([]Event{
				upgrade(0, 10, 0, chat.flags(192)), upgrade(2, 22, 10, chat.flags(0)),
				upgrade(3, 15, 40, chat.flags(320)),
				deed(1, 16, 0, fleet.DrainNode, 1, 0), deed(4, 10, 30, fleet.DrainNode, 2, 0),
				deed(5, 12, 0, fleet.PagesLate, 1, time.Hour),
				stuck(1, 11, 0), fault("one replica dies", 0, 16, 0, 1, 10*time.Minute, fleet.Faults{Down: true}),
				fault("one engine hangs", 2, 14, 0, 1, 6*time.Minute, fleet.Faults{Hang: true}),
				fault("two replicas die at once", 3, 13, 0, 2, 8*time.Minute, fleet.Faults{Down: true}),
				fault("every step takes five times as long", 5, 16, 0, 0, 6*time.Minute, fleet.Faults{Slow: 5}),
			}, nightly(10, batch, "lognormal:150,0.5:20-500")),
		},
		{
			Number: 1, Name: "code", Shape: code, Pods: true, Spread: true,
			Events: []Event{
				upgrade(0, 14, 0, code.flags(0)), upgrade(2, 11, 0, code.flags(64)),
				deed(0, 12, 0, fleet.PagesLate, 2, 50*time.Minute),
				deed(3, 9, 45, fleet.DrainNode, 1, 0), upgrade(4, 16, 20, code.flags(0)), stuck(3, 18, 0),
				fault("one replica dies", 1, 15, 0, 1, 15*time.Minute, fleet.Faults{Down: true}),
				fault("one engine hangs", 4, 13, 0, 1, 5*time.Minute, fleet.Faults{Hang: true}),
			},
		},
		{
			Number: 2, Name: "long-prompts", Shape: long, Views: []string{"a", "b"},
			Events: []Event{
				upgrade(1, 9, 30, long.flags(0)), upgrade(4, 21, 0, long.flags(128)),
				deed(2, 13, 0, fleet.PagesLate, 1, 40*time.Minute),
				fault("one replica dies", 2, 10, 0, 1, 10*time.Minute, fleet.Faults{Down: true}),
				fault("prompts cost eight times as much", 3, 11, 0, 0, 8*time.Minute, fleet.Faults{SlowPrefill: 8}),
			},
		},
		{
			Number: 3, Name: "bursty", Shape: bursty, Pods: true,
			Events: slices.Concat([]Event{
				upgrade(0, 18, 0, bursty.flags(200)), deed(1, 13, 0, fleet.Scale, 6, 0),
				deed(1, 20, 0, fleet.Scale, 3, 0), deed(3, 8, 0, fleet.Scale, 5, 0),
				deed(2, 15, 0, fleet.DrainNode, 2, 0), upgrade(4, 9, 15, bursty.flags(0)),
				deed(6, 10, 0, fleet.PagesLate, 1, 2*time.Hour),
				fault("one engine hangs", 1, 10, 30, 1, 6*time.Minute, fleet.Faults{Hang: true}),
				fault("all engines hang", 4, 18, 0, 0, 5*time.Minute, fleet.Faults{Hang: true}),
			}, nightly(12, batch, "lognormal:300,0.5:20-900")),
		},
		{
			Number: 4, Name: "office", Shape: office, GPUs: true,
			Events: slices.Concat([]Event{
				upgrade(0, 9, 20, office.flags(0)), upgrade(3, 19, 30, office.flags(96)), stuck(4, 14, 30),
				fault("both replicas die", 1, 14, 0, 0, 6*time.Minute, fleet.Faults{Down: true}),
				fault("every step takes four times as long", 2, 15, 30, 0, 6*time.Minute, fleet.Faults{Slow: 4}),
			}, nightly(8, batch, "lognormal:120,0.5:20-400")),
		},
	}
}

// drift is how often the workload of a deployment changes: its lengths and shared prefixes vary over days.
const drift = 6 * time.Hour

// events returns the events of a deployment within a time, each shifted by some minutes. It adds the changes of the
// workload, and of the replicas with the traffic.
func (d *Deployment) events(from, length time.Duration, seed uint64) (out []Event, first workload.Spec) {
	rng := rand.New(rand.NewPCG(seed, 0x11fe))
	for w := from / week; w <= (from+length)/week; w++ {
		for _, e := range d.Events {
			e.At = w*week + e.at() + time.Duration(rng.Float64()*float64(25*time.Minute)) - from
			if e.At >= time.Hour && e.At < length {
				out = append(out, e)
			}
		}
	}
	wander := rng.NormFloat64()
	for at := time.Duration(0); at < length; at += drift {
		wander = 0.8*wander + 0.6*rng.NormFloat64()
		spec := d.Shape.Spec
		spec.Prompt, spec.Output = spec.Prompt.Scale(math.Exp(0.1*wander)), spec.Output.Scale(math.Exp(-0.07*wander))
		spec.PrefixShare = min(max(spec.PrefixShare+0.04*wander, 0), 0.9)
		if at == 0 {
			first = spec
			continue
		}
		e := Event{Event: fleet.Event{At: at, Do: fleet.AskAnother}}
		e.Traffic.Spec = spec
		out = append(out, e)
	}
	if d.Spread {
		n := d.wants(from)
		for at := 20 * time.Minute; at < length; at += 10 * time.Minute {
			if want := d.wants(from + at); want > n || want < n &&
				want == d.wants(from+at-20*time.Minute) { // slow to shrink
				n = want
				out = append(out, Event{Event: fleet.Event{At: at, Do: fleet.Scale, N: n}})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return out, first
}

// wants returns how many replicas the usual traffic needs at a time after Monday's midnight.
func (d *Deployment) wants(at time.Duration) int {
	if !d.Spread {
		return d.Shape.Replicas
	}
	return min(max(int(math.Ceil(d.Shape.usual(monday.Add(at))*float64(d.Shape.Replicas)/(0.8*d.Shape.Peak))), 2), 8)
}

// production is the deployment from a time after Monday's midnight on.
func (d *Deployment) production(o *Options) (p fleet.Production, events []Event) {
	s := &d.Shape
	seed := o.Seed<<8 + uint64(d.Number)
	events, first := d.events(o.From, o.For, seed)
	p = fleet.Production{
		Model: d.Name, Replicas: d.wants(o.From), Settings: s.Settings, For: o.For, Pods: d.Pods, Views: d.Views,
		GPUs:    d.GPUs,
		Address: fmt.Sprintf("host-%d", d.Number), Labels: map[string]string{}, Clocks: 20 * time.Second,
		Noise: o.Noise, Scrapes: o.Scrapes,
		Traffic: fleet.Traffic{Spec: first, Bad: s.Bad},
	}
	if d.Pods {
		p.Address, p.Labels["namespace"] = fmt.Sprintf("10.%d", d.Number), "models"
	}
	traffic := &p.Traffic
	fill := func(at, until time.Duration) {
		traffic.Arrivals, traffic.Bad = s.Arrivals(monday.Add(o.From+at), until-at, seed+uint64(at)), s.Bad
	}
	at := time.Duration(0)
	for i := range events {
		if e := &events[i]; e.Do == fleet.AskAnother {
			fill(at, e.At)
			at, traffic = e.At, &e.Traffic
		}
	}
	fill(at, o.For)
	for i := range events {
		p.Events = append(p.Events, events[i].Event)
	}
	return p, events
}

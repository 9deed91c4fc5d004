package falsealarms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/source"
)

// Options says what to play.
type Options struct {
	Shape Shape
	From  time.Time
	For   time.Duration
	Seed  uint64
	// Deployments are when rolling restarts of all replicas begin.
	Deployments []time.Time
	Noise       fleet.Noise
	Scrapes     fleet.Scrapes
	// Every is the time between two diagnoses; 0 is the scrape interval.
	Every time.Duration

	Pathologies []*catalog.Pathology
	// Seen, which may be nil, is handed every diagnosis, with what an alarm of a target
	// would be worth then.
	Seen func(d *diagnose.Diagnosis, class func(target, pathology string) Class)
	// Dir gets a recording of each false alarm, at most MaxRecordings of a pathology;
	// "" keeps none.
	Dir           string
	MaxRecordings int
}

// A Result is what came of a play.
type Result struct {
	Shape    string
	Replicas int
	Played   time.Duration

	Runs      int // diagnoses, of all replicas together
	Unsure    int // of which could not tell
	Idle      int // of which called all idle
	Evaluated int // replicas × Runs

	Moments  int // replicas × scrape intervals
	Degraded int // of which clients had been badly served within the last minutes
	Requests int // outcomes that clients saw: first tokens and answers
	Bad      int // of which late or slow

	Episodes []*Episode
}

// An Episode is a pathology that was reported on one target by one evaluation
// after the other.
type Episode struct {
	Target    string
	Pathology string
	Severity  catalog.Severity
	From      time.Time
	Length    int           // evaluations
	By        [4]int        // evaluations by Class
	Summary   string        // of its first false evaluation
	At        time.Time     // of that evaluation
	Recording string        // of that moment, "" without one
	Before    time.Duration // how long ago its server was started
}

// False reports whether it was ever a false alarm.
func (e *Episode) False() bool { return e.By[False] > 0 }

// Alarm reports whether it gets somebody to look.
func (e *Episode) Alarm() bool { return e.Severity >= catalog.Ticket }

// Play plays and judges. With an error, such as that of ctx, comes the result of
// what was played before it.
func Play(ctx context.Context, o Options) (*Result, error) {
	s := &o.Shape
	x := &play{o: o, result: &Result{Shape: s.Name, Replicas: s.Replicas}, active: map[key]*Episode{}, written: map[string]int{}}
	defer x.close()
	for range s.Replicas {
		x.truths = append(x.truths, newTruth(s.Limits))
	}
	if err := x.open(); err != nil {
		return nil, err
	}
	p := fleet.Production{
		Replicas: s.Replicas, Settings: s.Settings, For: o.For, Noise: o.Noise, Scrapes: o.Scrapes,
		Traffic: fleet.Traffic{Arrivals: s.Arrivals(o.From, o.For, o.Seed), Spec: s.Spec, Bad: s.Bad},
	}
	for _, at := range o.Deployments {
		if d := at.Sub(o.From); d >= 0 && d < o.For {
			p.Deployments = append(p.Deployments, d)
		}
	}
	for i := range s.Replicas { // a router never shares quite evenly
		p.Shares = append(p.Shares, 1+0.1*float64(i)/float64(s.Replicas))
	}
	err := fleet.PlayProduction(ctx, p, fleet.DefaultRelease, o.Seed, o.From, fleet.Spectator{
		Page:   x.page,
		Client: func(e fleet.Experience) { x.truths[e.Replica].hear(e) },
		Stop:   func(i int, _ time.Duration) { x.truths[i].stop() },
		Start:  func(i int, at time.Duration) { x.truths[i].start(at) },
		Slow:   func(i int, at time.Duration, factor float64) { x.truths[i].slow(at, factor) },
		Tick:   func(at time.Duration) error { return x.judge(ctx, at) },
	})
	err = errors.Join(err, x.record(o.From.Add(o.For)))
	for _, t := range x.truths {
		x.result.Requests += t.requests
		x.result.Bad += t.bad
	}
	return x.result, err
}

type key struct{ target, pathology string }

// play is one that is under way.
type play struct {
	o       Options
	result  *Result
	store   *source.Source
	memory  diagnose.Memory
	opened  time.Time    // the time of the last page when the store was opened
	pages   []fleet.Page // of the time that is kept, in the order of their arrival
	truths  []*truth
	active  map[key]*Episode
	written map[string]int // recordings by pathology
	pending []*Episode     // whose recordings wait for what comes after them
}

// The store holds at least what a diagnosis looks at, and is renewed when it
// holds much more: what was long ago only costs time.
const (
	keep  = 70 * time.Minute
	renew = 4 * time.Hour
	later = 2 * time.Minute // that a recording goes on after its alarm
)

func (x *play) open() error {
	x.close()
	var err error
	if x.store, err = source.OpenPages(x.o.Scrapes.Interval, embedded.Config{Timeout: time.Hour}); err != nil {
		return err
	}
	for _, p := range x.pages {
		if err := x.add(p); err != nil {
			return err
		}
	}
	return nil
}

func (x *play) close() {
	if x.store != nil {
		_ = x.store.Close() // temporary
	}
}

func (x *play) page(p fleet.Page) error {
	x.pages = append(x.pages, p)
	return x.add(p)
}

func (x *play) add(p fleet.Page) error {
	return x.store.AddPage(p.Target, scrape.Body{Raw: p.Body, ContentType: fleet.ContentType, At: p.At})
}

// judge diagnoses at a moment and compares.
func (x *play) judge(ctx context.Context, at time.Duration) error {
	now := x.o.From.Add(at)
	if err := x.record(now.Add(-later)); err != nil {
		return err
	}
	if x.opened.IsZero() {
		x.opened = now
	}
	if now.Sub(x.opened) >= renew {
		x.opened = now
		old, _ := slices.BinarySearchFunc(x.pages, now.Add(-keep-later), func(p fleet.Page, t time.Time) int { return cmp.Compare(p.At.UnixNano(), t.UnixNano()) })
		x.pages = slices.Clone(x.pages[old:])
		if err := x.open(); err != nil {
			return err
		}
	}
	x.result.Played = at
	for _, t := range x.truths {
		t.look(at)
		x.result.Moments++
		if at-t.lastSick < afterSick {
			x.result.Degraded++
		}
	}
	if x.o.Every > 0 && at%x.o.Every >= x.o.Scrapes.Interval {
		return nil
	}
	d, err := x.diagnose(ctx, now)
	if err != nil {
		return fmt.Errorf("%s at %s: %w", x.o.Shape.Name, now, err)
	}
	if x.o.Seen != nil {
		x.o.Seen(&d, func(target, id string) Class {
			c, _ := x.class(key{target, id}, at)
			return c
		})
	}
	x.result.Runs++
	x.result.Evaluated += len(x.truths)
	switch d.Verdict.ID {
	case diagnose.InsufficientData:
		x.result.Unsure++
	case diagnose.Idle:
		x.result.Idle++
	}
	return x.compare(&d, at)
}

func (x *play) diagnose(ctx context.Context, at time.Time) (diagnose.Diagnosis, error) {
	o, err := x.store.Options(ctx, at)
	if err != nil {
		return diagnose.Diagnosis{}, err
	}
	o.Pathologies, o.Memory = x.o.Pathologies, &x.memory
	return x.store.Diagnose(ctx, o)
}

// An alarm is something that a diagnosis reports.
type alarm struct {
	id, summary string
	severity    catalog.Severity
	targets     []string
}

// alarms lists what is reported: findings that fire and are not explained by
// others, and a verdict that is none of them.
func alarms(d *diagnose.Diagnosis) []alarm {
	var out []alarm
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing && f.InhibitedBy == "" {
			out = append(out, alarm{f.Pathology.ID, f.Summary, f.Severity, f.Targets})
		}
	}
	v := d.Verdict
	quiet := slices.Contains([]string{diagnose.Healthy, diagnose.Idle, diagnose.InsufficientData}, v.ID)
	if !quiet && !slices.ContainsFunc(out, func(a alarm) bool { return a.id == v.ID }) {
		out = append(out, alarm{v.ID, v.Summary, catalog.Ticket, v.Targets})
	}
	for i := range out {
		if len(out[i].targets) == 0 {
			out[i].targets = []string{"all"}
		}
	}
	return out
}

// compare takes what a diagnosis reports into the episodes.
func (x *play) compare(d *diagnose.Diagnosis, at time.Duration) error {
	firing := map[key]bool{}
	for _, a := range alarms(d) {
		for _, target := range a.targets {
			k := key{target, a.id}
			if firing[k] {
				continue
			}
			firing[k] = true
			if err := x.report(d, k, a, at); err != nil {
				return err
			}
		}
	}
	maps.DeleteFunc(x.active, func(k key, _ *Episode) bool { return !firing[k] })
	return nil
}

func (x *play) report(d *diagnose.Diagnosis, k key, a alarm, at time.Duration) error {
	e := x.active[k]
	if e == nil {
		e = &Episode{Target: k.target, Pathology: k.pathology, From: d.At}
		x.active[k] = e
		x.result.Episodes = append(x.result.Episodes, e)
	}
	e.Severity = max(e.Severity, a.severity)
	e.Length++
	class, before := x.class(k, at)
	e.By[class]++
	if class != False || e.By[False] > 1 {
		return nil
	}
	e.At, e.Summary, e.Before = d.At, a.summary, before
	if x.o.Dir == "" || !e.Alarm() || x.written[k.pathology] >= x.o.MaxRecordings {
		return nil
	}
	x.written[k.pathology]++
	e.Recording = filepath.Join(x.o.Dir, fmt.Sprintf("%s-%s-%d-%s-%s.tar.zst",
		k.pathology, x.o.Shape.Name, x.o.Seed, d.At.Format("0102T150405"), strings.ReplaceAll(k.target, ":", "-")))
	x.pending = append(x.pending, e)
	return nil
}

// class says what an alarm is worth, and how long ago its server was started. What
// is said of no replica, but of all of them or of the exporter, is excused by any.
func (x *play) class(k key, at time.Duration) (class Class, before time.Duration) {
	for i, t := range x.truths {
		c := t.class(k.pathology, at)
		if fleet.ReplicaTarget(i) == k.target {
			return c, at - max(t.startedAt, 0)
		}
		class = max(class, c)
	}
	return class, 0
}

// record writes the recordings of alarms that were some time ago.
func (x *play) record(upTo time.Time) error {
	for len(x.pending) > 0 && !x.pending[0].At.After(upTo) {
		if err := x.write(x.pending[0]); err != nil {
			return err
		}
		x.pending = x.pending[1:]
	}
	return nil
}

// write records what was at hand at an alarm, and what has come since. A page that
// was under way then is left out: it was not known.
func (x *play) write(e *Episode) error {
	w, err := recording.Create(e.Recording)
	if err != nil {
		return err
	}
	meta, err := json.MarshalIndent(map[string]any{
		"alarm": e.Pathology, "severity": e.Severity.String(), "target": e.Target, "at": e.At, "summary": e.Summary,
		"truth": "healthy: the clients of this replica were well served in the last five minutes",
		"shape": x.o.Shape.Name, "seed": x.o.Seed, "since_start_of_server": e.Before.String(),
		"command": "sixty diagnose --recording " + filepath.Base(e.Recording) + " --at " + e.At.Format(time.RFC3339),
	}, "", "  ")
	if err == nil {
		err = w.SetMeta(meta)
	}
	for _, p := range x.pages {
		underWay := !p.At.After(e.At) && p.At.Add(p.Took).After(e.At)
		if err == nil && p.At.After(e.At.Add(-keep)) && !underWay {
			err = w.Add(p.Target, p.At, p.Body)
		}
	}
	return errors.Join(err, w.Close())
}

package fleet_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Options select what to play.
type Options struct {
	Name        string
	Deployments []Deployment
	From        time.Duration // after Monday's midnight
	For         time.Duration
	Seed        uint64
	Noise       fleet.Noise
	Scrapes     fleet.Scrapes
	Every       time.Duration // between two evaluations; 0 is the scrape interval

	Pathologies []*catalog.Pathology
	// Seen, which may be nil, is called with every evaluation, and the class that an alarm of a model would have then.
	Seen func(e *monitor.Evaluation, class func(model, pathology string) Class)
	// Tell, which may be nil, is called with each false alarm and each missed fault.
	Tell func(format string, args ...any)
	// Hourly, which may be nil, is called after each hour with the result so far.
	Hourly func(*Result)
	// Dir gets a recording of each false alarm, "" for none.
	Dir string
}

// A Result is the outcome of a play.
type Result struct {
	Name   string
	Played time.Duration

	Evaluations int
	Failed      int           // evaluations that gave no diagnosis
	Healthy     time.Duration // of replicas, all together, in which no fault was injected
	Hurt        time.Duration // of which clients had been badly served in the last minutes
	Requests    int           // outcomes that clients saw: first tokens and answers
	Bad         int           // of which late or slow
	Done        map[fleet.Deed]int

	Alarms []*Alarm
	Faults []*Fault
}

// An Alarm is an alert that was sent.
type Alarm struct {
	At               time.Time
	Model, Pathology string
	Severity         string
	Text             string
	Class            Class
	Recording        string

	ends time.Time
}

// Wakes reports whether the alarm makes somebody look.
func (a *Alarm) Wakes() bool { return a.Severity != catalog.Info.String() }

// A Fault is an injected fault, which an alarm found or not.
type Fault struct {
	Name, Model string
	From, To    time.Duration
	Due         time.Duration // by when it is to be found
	Found       []string      // the pathologies of its alarms, in their order
	After       time.Duration // the first of them, from its beginning on; 0: none
	missed      bool
	over        bool
}

// Missed reports whether no alarm came in time.
func (f *Fault) Missed() bool { return f.missed }

// settled is how long after its end a fault explains an alarm.
const settled = 10 * time.Minute

// A play is the state of Play.
type play struct {
	o      Options
	result *Result
	stages []*stage
	store  stores
	at     time.Duration

	monitor *monitor.Monitor
	tracker *incident.Tracker
	active  map[string]*Alarm
	pages   []fleet.Scrape // of the time that a recording is made of
	pending []*Alarm       // whose recordings wait for what comes after them
}

// A stage is a deployment with the experience of its clients.
type stage struct {
	*fleet.Stage
	*Deployment
	events []Event
	truths map[int]*truth
	faults []*Fault

	requests, bad int
	hurt          time.Duration // in which clients had been badly served
}

// stores answers for the samples. One store holds all of the past that a diagnosis looks at;
// it is replaced when it holds much more, by one that was filled meanwhile: what was long ago
// only costs memory.
type stores struct {
	now, next *embedded.Store
	opened    time.Time
}

const (
	keep  = 70 * time.Minute
	renew = 5 * time.Hour
	later = 2 * time.Minute // that a recording goes on after its alarm
)

func (s *stores) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	return s.now.Query(ctx, expr, at)
}

func (s *stores) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	return s.now.Evaluate(ctx, e, at)
}

func (s *stores) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	return s.now.QueryRange(ctx, expr, r)
}

func (s *stores) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	return s.now.Samples(ctx, selector, at, span)
}

func (s *stores) close() {
	for _, store := range []*embedded.Store{s.now, s.next} {
		if store != nil {
			_ = store.Close() // temporary
		}
	}
}

// turn opens and replaces stores.
func (s *stores) turn(now time.Time) (err error) {
	cfg := embedded.Config{Timeout: time.Hour}
	switch age := now.Sub(s.opened); {
	case s.now == nil:
		s.opened = now
		s.now, err = embedded.Open(cfg)
	case s.next == nil && age >= renew:
		s.next, err = embedded.Open(cfg)
	case age >= renew+keep:
		old := s.now
		s.now, s.next, s.opened = s.next, nil, now.Add(-keep)
		err = old.Close()
	}
	return err
}

func (s *stores) add(p fleet.Scrape) error {
	t := embedded.Target{Instance: p.Target, Job: "vllm", Labels: p.Labels}
	for _, store := range []*embedded.Store{s.now, s.next} {
		if store == nil {
			continue
		}
		var err error
		if p.Body == nil {
			err = store.AppendFailureAfter(t, p.At, p.Took)
		} else {
			_, err = store.Append(t, p.At, p.Body, fleet.ContentType, p.Took)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Play plays and judges. With an error, such as ctx's, it returns the result so far.
func Play(ctx context.Context, o Options) (*Result, error) {
	x := &play{o: o, result: &Result{Name: o.Name, Done: map[fleet.Deed]int{}}, active: map[string]*Alarm{}}
	defer x.store.close()
	began := monday.Add(o.From)
	if err := x.store.turn(began); err != nil {
		return nil, err
	}
	for i := range o.Deployments {
		s := &stage{Deployment: &o.Deployments[i], truths: map[int]*truth{}}
		var p fleet.Production
		p, s.events = s.production(&o)
		for _, e := range s.events {
			if e.Name != "" {
				due := e.At + max(e.Found, o.Scrapes.Interval+2*x.every())
				s.faults = append(s.faults, &Fault{Name: e.Name, Model: s.Name, From: e.At, To: e.At + e.For, Due: due})
			}
		}
		x.result.Faults = append(x.result.Faults, s.faults...)
		var err error
		if s.Stage, err = fleet.NewStage(p, fleet.DefaultRelease, o.Seed<<8+uint64(s.Number), began, fleet.Spectator{
			Page:   x.page,
			Client: func(e fleet.Experience) { s.truth(e.Replica).hear(e) },
			Slow:   func(r int, at time.Duration, factor float64) { s.truth(r).slow(at, factor) },
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		x.stages = append(x.stages, s)
	}
	x.watch()
	err := x.run(ctx)
	err = errors.Join(err, x.record(began.Add(o.For)))
	x.count()
	for _, s := range x.stages {
		x.tell("%s: %d of %d requests badly served, clients hurt in %s", s.Name, s.bad, s.requests, s.hurt)
	}
	return x.result, err
}

func (x *play) every() time.Duration { return cmp.Or(x.o.Every, x.o.Scrapes.Interval) }

// watch builds the monitor, as package serve does.
func (x *play) watch() {
	log := slog.New(slog.DiscardHandler)
	x.tracker = incident.NewTracker(x.o.Pathologies, nil, nil)
	records := map[string]*incident.Record{}
	alerter := &monitor.Alerter{Send: x.sent,
		Incident: func(id string) *view.Summary {
			if records[id] == nil {
				return nil
			}
			return &records[id].Copy().Summary
		}}
	x.monitor = monitor.New(monitor.Options{
		Source:   source.OfCollector("the simulated cluster", &x.store),
		Diagnose: diagnose.Options{Pathologies: x.o.Pathologies}, Every: time.Hour, Log: log,
		Listeners: []func(context.Context, *monitor.Evaluation){
			func(_ context.Context, e *monitor.Evaluation) {
				if x.result.Evaluations++; e.Err != nil {
					x.result.Failed++
					x.tell("%s: no diagnosis: %v", e.At.Format(time.RFC3339), e.Err)
					return
				}
				for _, event := range x.tracker.Observe(&e.Diagnosis) {
					records[event.Record.ID] = event.Record
				}
				x.tracker.Conform(&e.Diagnosis)
			},
			alerter.Observe,
			func(_ context.Context, e *monitor.Evaluation) {
				if x.o.Seen != nil && e.Err == nil {
					x.o.Seen(e, func(model, id string) Class { return x.class(model, id) })
				}
			},
		},
	})
}

func (x *play) tell(format string, args ...any) {
	if x.o.Tell != nil {
		x.o.Tell(x.o.Name+": "+format, args...)
	}
}

func (s *stage) truth(replica int) *truth {
	if s.truths[replica] == nil {
		s.truths[replica] = newTruth(s.Shape.Limits)
	}
	return s.truths[replica]
}

// run advances the play.
func (x *play) run(ctx context.Context) error {
	step := x.o.Scrapes.Interval
	for x.at = step; x.at <= x.o.For; x.at += step {
		now := monday.Add(x.o.From + x.at)
		if err := x.store.turn(now); err != nil {
			return err
		}
		for _, s := range x.stages {
			if err := s.Advance(ctx, x.at); err != nil {
				return err
			}
			s.look(x.at, step, x.result)
		}
		if err := x.record(now.Add(-later)); err != nil {
			return err
		}
		x.result.Played = x.at
		if x.at%x.every() < step && x.at >= 2*step {
			x.monitor.Evaluate(ctx, now)
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		for _, s := range x.stages {
			for _, f := range s.faults {
				if !f.over && x.at > f.To {
					if f.over = true; f.After == 0 || f.After > f.Due-f.From {
						f.missed = true
						x.tell("missed: %s, %s at %s, not found within %s: %s %q", f.Name, f.Model, x.clock(f.From),
							f.Due-f.From, f.After, f.Found)
					}
				}
			}
		}
		if x.o.Hourly != nil && x.at%time.Hour < step {
			x.count()
			x.o.Hourly(x.result)
		}
	}
	return nil
}

func (x *play) clock(at time.Duration) string {
	return monday.Add(x.o.From + at).Format("Mon 15:04:05")
}

// count sums up the clients' experience and the events.
func (x *play) count() {
	r := x.result
	r.Requests, r.Bad, r.Done = 0, 0, map[fleet.Deed]int{}
	for _, s := range x.stages {
		s.requests, s.bad = 0, 0
		for _, t := range s.truths {
			s.requests += t.requests
			s.bad += t.bad
		}
		r.Requests += s.requests
		r.Bad += s.bad
		for _, e := range s.events {
			if e.At < r.Played {
				r.Done[e.Do]++
			}
		}
	}
}

// look sees how clients are served.
func (s *stage) look(at, step time.Duration, r *Result) {
	hurt := false
	for _, t := range s.truths {
		t.look(at)
		hurt = hurt || at-t.lastSick < afterSick
	}
	if slices.ContainsFunc(s.faults, func(f *Fault) bool { return f.covers(at) }) {
		return
	}
	time := step * time.Duration(s.Replicas())
	r.Healthy += time
	if hurt {
		r.Hurt += time
		s.hurt += step
	}
}

// covers reports whether the fault explains an alarm at a time.
func (f *Fault) covers(at time.Duration) bool { return at >= f.From && at < f.To+settled }

func (x *play) page(p fleet.Scrape) error {
	if x.o.Dir != "" {
		x.pages = append(x.pages, p)
		if n := len(x.pages); n%10_000 == 0 {
			old := slices.IndexFunc(x.pages, func(o fleet.Scrape) bool { return o.At.After(p.At.Add(-keep)) })
			x.pages = slices.Clone(x.pages[old:])
		}
	}
	return x.store.add(p)
}

// sent receives the alerter's messages, which repeat while an alert lasts.
func (x *play) sent(alerts ...collect.Alert) {
	now := monday.Add(x.o.From + x.at)
	for _, al := range alerts {
		l := al.Labels
		key := fmt.Sprint(l)
		a := x.active[key]
		if a != nil {
			if a.ends = al.Ends; !al.Ends.After(now) {
				delete(x.active, key)
			}
			continue
		}
		if !al.Ends.After(now) {
			continue
		}
		a = &Alarm{
			At: now, Model: l["model_name"], Pathology: l["pathology"], Severity: l["severity"], ends: al.Ends,
			Text: al.Annotations["summary"] + " | " + al.Annotations["description"] + " | since " + al.Began.Format("15:04:05"),
		}
		x.active[key] = a
		x.result.Alarms = append(x.result.Alarms, a)
		x.raised(a)
	}
}

// raised classifies an alarm.
func (x *play) raised(a *Alarm) {
	a.Class = x.class(a.Model, a.Pathology)
	if !a.Wakes() {
		return
	}
	x.tell("%s: %s (%s) of %s at %s: %s", a.Class, a.Pathology, a.Severity, cmp.Or(a.Model, "no model"), x.clock(x.at),
		a.Text)
	if f := x.fault(a.Model); f != nil {
		if f.Found = append(f.Found, a.Pathology); f.After == 0 {
			f.After = x.at - f.From
		}
	}
	if a.Class != False {
		return
	}
	if x.o.Dir != "" {
		a.Recording = filepath.Join(x.o.Dir, fmt.Sprintf("%s-%s-%s-%d.tar.zst", a.Pathology, a.Model,
			a.At.Format("0102T150405"), x.o.Seed))
		x.pending = append(x.pending, a)
	}
}

// fault returns the fault that explains an alarm of a model now. An alarm without a model is explained by any fault.
func (x *play) fault(model string) *Fault {
	for _, s := range x.stages {
		for _, f := range s.faults {
			if (model == "" || model == s.Name) && f.covers(x.at) {
				return f
			}
		}
	}
	return nil
}

// class returns the class of an alarm of a model that no fault explains. An alarm without a model is excused by any
// model.
func (x *play) class(model, id string) (class Class) {
	if x.fault(model) != nil {
		return Injected
	}
	for _, s := range x.stages {
		if model == "" || model == s.Name {
			for _, t := range s.truths {
				class = max(class, t.class(id, x.at))
			}
		}
	}
	return class
}

// record writes the recordings of alarms after some time.
func (x *play) record(upTo time.Time) error {
	for len(x.pending) > 0 && !x.pending[0].At.After(upTo) {
		if err := x.write(x.pending[0]); err != nil {
			return err
		}
		x.pending = x.pending[1:]
	}
	return nil
}

// write records the pages of the alarm's model, before the alarm and after it. It leaves out a page that was not
// complete at the alarm.
func (x *play) write(a *Alarm) error {
	w, err := recording.Create(a.Recording)
	if err != nil {
		return err
	}
	meta, err := json.MarshalIndent(map[string]any{
		"alarm": a.Pathology, "severity": a.Severity, "model": a.Model, "at": a.At, "summary": a.Text, "seed": x.o.Seed,
		"truth":   "healthy: nothing was broken, and clients were well served in the last five minutes",
		"command": "sixty diagnose --recording " + filepath.Base(a.Recording) + " --at " + a.At.Format(time.RFC3339),
	}, "", "  ")
	if err == nil {
		err = w.SetMeta(meta)
	}
	for _, p := range x.pages {
		underWay := !p.At.After(a.At) && p.At.Add(p.Took).After(a.At)
		if err == nil && p.At.After(a.At.Add(-keep)) && !underWay {
			err = w.Add(p.Target, p.At, p.Body, p.Took)
		}
	}
	return errors.Join(err, w.Close())
}

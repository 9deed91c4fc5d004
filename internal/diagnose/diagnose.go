// Package diagnose turns samples into a verdict: which pathologies hold on which targets, since when, which one
// explains the others, what changed in the workload, and what could not be checked.
//
// # What it holds
//
// A [Snapshot] holds the readings of all signals, of all targets, in the window that is judged and in the baseline that
// says what is normal. A view is the readings of one target, with its limits; a condition is evaluated on it. A
// judgement holds the outcome of each pathology on one target. A pool is the targets that serve one model. A
// [Diagnosis] is what follows: one verdict for each pool. A [Memory] carries over to the next diagnosis what does not
// change.
//
// # The order
//
// [Run] goes through it from top to bottom:
//
//   - Package identity finds the targets. Package segments finds what changed when, and chooses the window and the
//     baseline.
//   - [Fetch] queries every signal in both, once for each group of targets that share a dialect and a time (fetch.go,
//     answers.go). Some readings are computed from several targets: a server's GPUs from the exporter beside it, and
//     what a gateway holds that its engines do not (outside.go).
//   - Evaluation judges each target (judgement.go): a condition holds or not (view.go), beyond doubt or not (doubt.go),
//     since a moment (since.go). Where no history tells since when, a trail does: the signal is queried at past
//     moments, and the snapshot is judged again (trail.go). Causes and effects make a chain (chain.go). Where nothing
//     fires, health.go looks for reasons against "healthy".
//   - It judges each pool (pool.go, finding.go, gateway.go): the outcomes on several targets are one finding, and a
//     finding explains others, on one target and across the pool.
//
// Evaluation does no I/O, reads no clock and returns no error: the same Snapshot gives the same Diagnosis. Nothing is
// healthy because nothing was found: "healthy" needs a server that could be judged, and no reason against it.
//
// A Diagnosis also answers later questions: plots (plot.go), and the path of a request (deployment.go).
package diagnose

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Options says what to diagnose.
type Options struct {
	// At is the moment of the diagnosis.
	At time.Time
	// First is the time of the first sample at hand.
	First time.Time
	// Created is when the servers' counters began, if that is known and the Querier holds a zero sample there. With it,
	// a first scrape already has a baseline.
	Created time.Time
	// Interval is the scrape interval.
	Interval time.Duration

	// Window and Baseline override the chosen ones.
	Window   time.Duration
	Baseline period.Period

	Matchers []*labels.Matcher
	// Every includes targets that expose no engine metrics: the user named them.
	Every bool
	// Scraper means that this process scrapes the servers. If none ever answered, its targets are starting servers.
	Scraper bool
	// Annotate, which may be nil, adds facts about the targets that their metrics lack.
	Annotate func([]identity.Target)
	// Predict, which may be nil, predicts what the fixes will do, once the verdict is known.
	Predict Predictor

	// Memory, which may be nil, carries over from earlier diagnoses of the same Querier.
	Memory *Memory

	Pathologies []*catalog.Pathology
	Settings    Settings
}

// A Predictor predicts what each fix of a diagnosis' first finding will do, and sorts the fixes by the order in which
// to try them.
type Predictor func(context.Context, metrics.Querier, Request, *Snapshot, *Diagnosis)

// Run finds the targets, chooses the window and the baseline, fetches the
// readings and judges them.
func Run(ctx context.Context, q metrics.Querier, o Options) (Diagnosis, error) {
	memory, since, seen := o.Memory, new(dates), (*identity.Sightings)(nil)
	if memory == nil {
		memory = new(Memory)
	} else {
		since.onsets, seen = memory.recallOnsets(o.At), &memory.sightings
	}
	past := period.Period{From: o.First, To: o.At}
	if past.From.IsZero() || past.Length() > identity.LongestPast {
		past.From = o.At.Add(-identity.LongestPast)
	}
	if o.Window > identity.LongestPast {
		// A window beyond the servers' life would dilute every rate.
		v, err := q.Query(ctx, fmt.Sprintf("max(count_over_time(%s[%s]))", identity.SelectorOf(identity.Pulse,
			o.Matchers), model.Duration(o.Window)), o.At)
		if err != nil {
			return Diagnosis{}, fmt.Errorf("find how long servers have been watched: %w", err)
		}
		if len(v) > 0 {
			o.Window = min(o.Window, max(identity.LongestPast, time.Duration(v[0].Value)*o.Interval))
		}
	}
	lookback := max(past.Length(), o.Window, segments.UsualWindow(0)) + time.Second
	targets, layout, err := identity.Discover(ctx, q, identity.Search{
		At: o.At, Lookback: lookback, Matchers: o.Matchers, Every: o.Every, Scraper: o.Scraper, Seen: seen,
	})
	if err != nil {
		return Diagnosis{}, err
	}
	if o.Annotate != nil {
		o.Annotate(targets)
	}
	r := Request{
		Scope: identity.Scope{Targets: targets, Instance: layout.Instance, Model: layout.Model,
			Matchers: slices.Concat(o.Matchers, layout.Without)},
		At: o.At, Interval: o.Interval, Past: past.Length(), Answers: &memory.answers,
		Baselines: o.Settings.Baselines,
	}
	departed, err := r.chooseSpans(ctx, q, &o, memory, past)
	if err != nil {
		return Diagnosis{}, err
	}
	s, err := Fetch(ctx, q, r)
	if err != nil {
		return Diagnosis{}, err
	}
	d := evaluate(s, since, o.Pathologies, o.Settings)
	if len(since.wanted) > 0 {
		if err := since.readTrails(ctx, q, &r, s); err != nil {
			return Diagnosis{}, err
		}
		d = evaluate(s, since, o.Pathologies, o.Settings)
	}
	d.Notes = append(d.Notes, departed...)
	d.inquiry = &inquiry{request: r, snapshot: s, settings: o.Settings}
	d.inquiry.request.Answers = nil
	if o.Predict != nil {
		o.Predict(ctx, q, r, s, &d)
	}
	d.noteGateways()
	for i := range d.Spans {
		r.Spans[i].Course, d.Spans[i].Course = nil, nil // no further onset is read
		r.Spans[i].OpenedSince, d.Spans[i].OpenedSince = nil, nil
	}
	for i := range r.Spans {
		n := len(r.Spans[i].Timeline)
		if o.Window > 0 && n > 1 && r.Spans[i].Timeline[n-2].To.After(r.Spans[i].Window.From.Add(r.Interval)) {
			d.Notes = append(d.Notes,
				fmt.Sprintf("something changed at %s, within the window: diagnose without --window to judge only what came after",
					r.Spans[i].Timeline[n-2].To.UTC().Format(time.RFC3339)))
			break
		}
	}
	return d, nil
}

// chooseSpans reads the histories of the targets and chooses the spans. It drops the targets that departed, and returns
// a note on each.
func (r *Request) chooseSpans(ctx context.Context, q metrics.Querier, o *Options, m *Memory,
	past period.Period) (departed []string, err error) {
	hs, returned, err := segments.ReadHistories(ctx, q, &r.Scope, past, r.Interval, m.histories)
	if err != nil {
		return nil, err
	}
	m.histories = segments.RememberHistories(&r.Scope, hs)
	if returned {
		m.answers = nil
	}
	c := segments.Choice{
		At: o.At, Created: o.Created, Interval: r.Interval, Window: o.Window, Baseline: o.Baseline,
		FromFile: len(o.Settings.Baselines) > 0, Limits: o.Settings.Set,
	}
	r.Targets, r.Spans, departed = c.ChooseSpans(&r.Scope, hs, past)
	return departed, nil
}

// A Memory carries over, between diagnoses of the same servers, what does not change: answers about the past (half of
// all), seen series, histories, and onsets. It holds what the last diagnosis used. It is not safe for concurrent use.
// The zero value is empty.
type Memory struct {
	sightings identity.Sightings
	histories segments.Histories
	answers   Answers
	onsets    onsets
}

// recallOnsets returns the onsets that were reported within the longest past, and forgets the others.
func (m *Memory) recallOnsets(at time.Time) onsets {
	if m.onsets == nil {
		m.onsets = onsets{}
	}
	m.onsets.forgetBefore(at.Add(-identity.LongestPast))
	return m.onsets
}

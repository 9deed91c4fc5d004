package diagnose

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Options says what to diagnose.
type Options struct {
	// At is the moment of the diagnosis.
	At time.Time
	// First is the time of the first sample at hand.
	First time.Time
	// Created is when the servers' counters began, where that is known and the
	// Querier holds a zero sample there; it makes a baseline of a first scrape.
	Created time.Time
	// Interval is the time between two scrapes.
	Interval time.Duration

	// Window overrides the choice of the window; Baseline that of the baseline.
	Window   time.Duration
	Baseline Range

	Matchers []*labels.Matcher
	// Every includes targets that expose no engine metrics: the user named them.
	Every bool
	// Annotate, which may be nil, adds what is known of the targets beside
	// their metrics.
	Annotate func([]Target)
	// Predict, which may be nil, says once the verdict is known what the fixes of
	// its finding will do.
	Predict func(context.Context, metrics.Querier, Request, *Snapshot, *Diagnosis)

	Pathologies []*catalog.Pathology
	Settings    Settings
}

// Lengths of the window and of the past, in wall time; a slower scrape needs
// longer ones.
const (
	usualWindow = time.Minute
	longestPast = time.Hour
	// minHistory is the shortest history that says what is normal.
	minHistory = 20 * time.Second
	// minLifetime is the shortest life whose sums say what is normal.
	minLifetime = time.Minute
)

func (o *Options) maxWindow() time.Duration { return max(usualWindow, 20*o.Interval) }
func (o *Options) minWindow() time.Duration { return max(10*time.Second, minRate*o.Interval) }

// Run finds the targets, chooses the window and the baseline, fetches the
// readings and judges them.
func Run(ctx context.Context, q metrics.Querier, o Options) (Diagnosis, error) {
	past := Range{o.First, o.At}
	if past.From.IsZero() || past.Length() > longestPast {
		past.From = o.At.Add(-longestPast)
	}
	lookback := max(past.Length(), o.Window, o.minWindow()) + time.Second
	targets, layout, err := Discover(ctx, q, o.At, lookback, o.Matchers, o.Every)
	if err != nil {
		return Diagnosis{}, err
	}
	if o.Annotate != nil {
		o.Annotate(targets)
	}
	r := Request{
		Targets: targets, At: o.At, Interval: o.Interval, Past: past.Length(),
		Instance: layout.Instance, Model: layout.Model, Matchers: o.Matchers,
	}
	var change, normal time.Time
	if past.Length() >= o.minWindow()+minBefore*o.Interval {
		trends, step, err := Trends(ctx, q, r, past)
		if err != nil {
			return Diagnosis{}, err
		}
		if c, changed := Onset(trends, int(o.maxWindow()/step)); changed {
			r.Onset, change = past.From.Add(time.Duration(c.Began)*step), past.From.Add(time.Duration(c.At)*step)
			normal = past.From.Add(time.Duration(c.Normal) * step)
		}
	}
	o.choose(&r, past, change, normal)
	s, err := Fetch(ctx, q, r)
	if err != nil {
		return Diagnosis{}, err
	}
	d := Evaluate(s, o.Pathologies, o.Settings)
	if o.Predict != nil {
		o.Predict(ctx, q, r, s, &d)
	}
	if o.Window > 0 && r.Onset.After(r.Window.From.Add(o.minWindow())) {
		d.Notes = append(d.Notes, fmt.Sprintf("something changed at %s, inside the window, which averages over it: diagnose without --window to judge what came after", r.Onset.UTC().Format(time.RFC3339)))
	}
	return d, nil
}

// choose sets the window and the baseline. The window begins at the latest
// change, where there is one, so that an incident is seen undiluted. What lies
// before it is normal, or before an earlier change, if that leaves a history.
func (o *Options) choose(r *Request, past Range, change, normal time.Time) {
	r.Window = Range{o.At.Add(-o.maxWindow()), o.At}
	switch {
	case o.Window > 0:
		r.Window.From = o.At.Add(-o.Window)
	case !change.IsZero():
		r.Window.From = clamp(change, o.At.Add(-o.maxWindow()), o.At.Add(-o.minWindow()))
	}
	if r.Window.From.Before(past.From) && o.Window == 0 {
		r.Window.From = clamp(past.From, r.Window.From, o.At.Add(-o.minWindow()))
	}
	normalUntil := r.Window.From
	if o.Window == 0 && !change.IsZero() && change.Before(normalUntil) {
		normalUntil = change
	}
	if o.Window == 0 && normal.Before(normalUntil) && normal.Sub(past.From) >= minHistory {
		normalUntil = normal
	}
	switch {
	case len(o.Settings.Baselines) > 0:
		r.Baselines, r.Source = o.Settings.Baselines, File
	case !o.Baseline.From.IsZero():
		r.Baseline, r.Source = o.Baseline, History
	case normalUntil.Sub(past.From) >= minHistory:
		r.Baseline, r.Source = Range{past.From, normalUntil}, History
	case !o.Created.IsZero() && past.From.Sub(o.Created) >= minLifetime:
		r.Baseline, r.Source = Range{o.Created.Add(-time.Second), past.From}, Lifetime
	default:
		r.Source = NoBaseline
	}
}

func clamp(t, lo, hi time.Time) time.Time {
	switch {
	case t.Before(lo):
		return lo
	case t.After(hi):
		return hi
	}
	return t
}

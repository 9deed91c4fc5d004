package diagnose

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
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
	// Interval is the scrape interval.
	Interval time.Duration

	// Window and Baseline override the chosen ones.
	Window   time.Duration
	Baseline Range

	Matchers []*labels.Matcher
	// Every includes targets that expose no engine metrics: the user named them.
	Every bool
	// Scraper means that this process scrapes the servers. If none ever answered, its targets are starting servers.
	Scraper bool
	// Annotate, which may be nil, adds facts about the targets that their metrics lack.
	Annotate func([]Target)
	// Predict, which may be nil, says once the verdict is known what the fixes of
	// its finding will do.
	Predict Predictor

	// Memory, which may be nil, carries over from earlier diagnoses of the same Querier.
	Memory *Memory

	Pathologies []*catalog.Pathology
	Settings    Settings
}

// A Predictor says of the fixes of a diagnosis' first finding what they will do, and puts them in
// the order in which to try them.
type Predictor func(context.Context, metrics.Querier, Request, *Snapshot, *Diagnosis)

// Run finds the targets, chooses the window and the baseline, fetches the
// readings and judges them.
func Run(ctx context.Context, q metrics.Querier, o Options) (Diagnosis, error) {
	past := Range{o.First, o.At}
	if past.From.IsZero() || past.Length() > LongestPast {
		past.From = o.At.Add(-LongestPast)
	}
	if o.Window > LongestPast {
		// No longer than the servers' life, beyond which rates fall to nothing.
		v, err := q.Query(ctx, fmt.Sprintf("max(count_over_time(%s[%s]))", selectorOf(pulse, o.Matchers), model.Duration(o.Window)), o.At)
		if err != nil {
			return Diagnosis{}, fmt.Errorf("find how long servers have been watched: %w", err)
		}
		if len(v) > 0 {
			o.Window = min(o.Window, max(LongestPast, time.Duration(v[0].Value)*o.Interval))
		}
	}
	lookback := max(past.Length(), o.Window, usualWindow) + time.Second
	targets, layout, err := discoverTargets(ctx, q, &o, lookback)
	if err != nil {
		return Diagnosis{}, err
	}
	if o.Annotate != nil {
		o.Annotate(targets)
	}
	r := Request{
		Targets: targets, At: o.At, Interval: o.Interval, Past: past.Length(),
		Instance: layout.Instance, Model: layout.Model, Matchers: slices.Concat(o.Matchers, layout.Without), Memory: o.Memory, Baselines: o.Settings.Baselines,
	}
	hs, err := readHistories(ctx, q, &r, past)
	if err != nil {
		return Diagnosis{}, err
	}
	for i, h := range hs {
		r.Spans = append(r.Spans, o.chooseSpans(&targets[i], h, past, r.Interval))
	}
	left := r.dropDeparted(hs)
	shareSpans(r.Spans, r.Interval)
	s, err := Fetch(ctx, q, r)
	if err != nil {
		return Diagnosis{}, err
	}
	d := Evaluate(s, o.Pathologies, o.Settings)
	if len(s.wanted) > 0 {
		if err := s.readTrails(ctx, q, &r); err != nil {
			return Diagnosis{}, err
		}
		d = Evaluate(s, o.Pathologies, o.Settings)
	}
	s.memory = nil
	d.Notes = append(d.Notes, left...)
	d.inquiry = &inquiry{request: r, snapshot: s, settings: o.Settings}
	d.inquiry.request.Memory = nil
	if o.Predict != nil {
		o.Predict(ctx, q, r, s, &d)
	}
	d.noteGateways()
	for i := range d.Spans {
		r.Spans[i].course, d.Spans[i].course = nil, nil // nobody asks for another onset
		r.Spans[i].opened, d.Spans[i].opened = nil, nil
	}
	for i := range r.Spans {
		n := len(r.Spans[i].Timeline)
		if o.Window > 0 && n > 1 && r.Spans[i].Timeline[n-2].To.After(r.Spans[i].Window.From.Add(r.Interval)) {
			d.Notes = append(d.Notes, fmt.Sprintf("something changed at %s, within the window: diagnose without --window to judge only what came after",
				r.Spans[i].Timeline[n-2].To.UTC().Format(time.RFC3339)))
			break
		}
	}
	return d, nil
}

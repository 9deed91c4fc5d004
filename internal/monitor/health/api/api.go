// Package api measures the health of what a source holds, for the command line and for
// GET /api/v1/health.
package api

import (
	"context"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Options configure the report.
type Options struct {
	At          time.Time
	Since       time.Duration
	Pathologies []*catalog.Pathology
	Settings    diagnose.Settings
	Price       health.Price
	// Incidents, which may be nil, returns those that were open after a time; a nil list
	// says that nobody keeps any.
	Incidents func(from time.Time) []view.Summary
}

// Measure measures the health over the time before a moment, as far as the source reaches.
func Measure(ctx context.Context, s *source.Source, o Options) (*health.Report, error) {
	d, err := s.Options(ctx, o.At)
	if err != nil {
		return nil, err
	}
	c := health.Config{
		From: o.At.Add(-o.Since), To: o.At, First: d.First, Interval: d.Interval, Matchers: d.Matchers, Every: d.Every, Settings: o.Settings, Price: o.Price,
	}
	if first := s.Span().First; !first.IsZero() && c.From.Before(first) {
		c.From = first
	}
	if s.Span().First.IsZero() {
		c.First = time.Time{} // a diagnosis reads less than a server holds
	}
	d.Pathologies, d.Settings = o.Pathologies, o.Settings
	var problem string
	if now, err := s.Diagnose(ctx, d); err == nil {
		c.Now = &now
	} else if ctx.Err() != nil {
		return nil, err
	} else {
		problem = "the end of the period cannot be judged: " + err.Error()
	}
	if o.Incidents != nil {
		c.Incidents = o.Incidents(c.From)
	}
	r, err := health.Measure(ctx, s, c)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		r.Notes = append(r.Notes, problem)
	}
	return r, nil
}

// replayed is how often the past of a recording is judged at most, and judged how often a
// monitor does.
const (
	replayed = 240
	judged   = 15 * time.Second
)

// Replay finds the incidents of a recording again, as sixty serve would have. It shows the
// moment that is judged.
func Replay(ctx context.Context, s *source.Source, o Options, show func(at time.Time)) ([]view.Summary, error) {
	from := o.At.Add(-o.Since)
	if first := s.Span().First; from.Before(first) {
		from = first
	}
	found := map[string]*incident.Record{}
	tracker := incident.NewTracker(o.Pathologies, nil, func(id string) bool { return found[id] != nil })
	step := max(judged, o.At.Sub(from)/replayed).Round(time.Second)
	err := s.Replay(ctx, diagnose.Options{Pathologies: o.Pathologies, Settings: o.Settings}, from.Add(min(step, o.At.Sub(from))), o.At, step, func(d *diagnose.Diagnosis) error {
		show(d.At)
		for _, e := range tracker.Observe(d) {
			found[e.Record.ID] = e.Record
		}
		return nil
	})
	out := []view.Summary{}
	for _, r := range found {
		out = append(out, r.Copy().Summary)
	}
	slices.SortFunc(out, func(a, b view.Summary) int { return b.Began.Compare(a.Began) })
	return out, err
}

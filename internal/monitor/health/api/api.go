// Package api measures the health of what a source holds, for the command line and for
// GET /api/v1/health.
package api

import (
	"context"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Options say what is measured.
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
		c.First = time.Time{} // what a diagnosis looks at is not all that a server holds
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

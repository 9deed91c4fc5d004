package api

import (
	"context"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

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

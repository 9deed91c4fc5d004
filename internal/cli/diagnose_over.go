package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// replayPast diagnoses the time before --at repeatedly. It returns the incidents that sixty serve would have recorded,
// the earliest first, and the last diagnosis.
func (f *diagnoseFlags) replayPast(
	ctx context.Context, stderr io.Writer, s *source.Source, o diagnose.Options,
) (past []view.Summary, last diagnose.Diagnosis, err error) {
	since, err := source.ParseDuration(f.since)
	if err != nil || since <= 0 {
		return nil, last, hint.With(fmt.Errorf("--since: %q is not a positive duration", f.since), "write 1h or 90m")
	}
	to, err := s.Span().At(f.source.At)
	if err != nil {
		return nil, last, err
	}
	first := s.Span().First
	if first.IsZero() { // a Prometheus server, which may not reach back so far
		if first, err = s.First(ctx, to.Add(-since), to); err != nil {
			return nil, last, err
		}
	}
	if !first.IsZero() {
		since = min(since, to.Sub(first))
	}
	line := command.NewProgress(stderr)
	defer line.Clear()
	found := map[string]*incident.Record{}
	tracker := incident.NewTracker(o.Pathologies, nil, func(id string) bool { return found[id] != nil })
	// The past is diagnosed at most 240 times, at steps of at least a usual scrape interval.
	step := max(15*time.Second, since/240).Round(time.Second)
	o = diagnose.Options{Pathologies: o.Pathologies, Settings: o.Settings}
	err = s.Replay(ctx, o, to.Add(min(step, since)-since), to, step, func(d *diagnose.Diagnosis) error {
		last = *d
		line.Show("diagnosing %s", d.At.UTC().Format(time.DateTime))
		for _, e := range tracker.Observe(d) {
			found[e.Record.ID] = e.Record
		}
		return nil
	})
	for _, r := range found {
		past = append(past, r.Copy().Summary)
	}
	slices.SortFunc(past, func(a, b view.Summary) int { return a.Began.Compare(b.Began) })
	return past, last, err
}

// printPast prints a line for each incident of the past, and the verdict at its end.
func (f *diagnoseFlags) printPast(stdout io.Writer, past []view.Summary, d *diagnose.Diagnosis) error {
	if f.output.Form() == "json" {
		lines := json.NewEncoder(stdout)
		for i := range past {
			if err := lines.Encode(&past[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range past {
		fmt.Fprintln(stdout, formatIncident(&past[i]))
	}
	name := diagnose.NameOf(d.Verdict.ID)
	if lead := d.LeadingFinding(&d.Verdict); lead != nil {
		name = lead.Pathology.Name()
	}
	_, err := fmt.Fprintf(stdout, "%s %s: %s\n", d.At.UTC().Format(time.DateTime), name,
		render.Sentence(strings.TrimPrefix(d.Verdict.Summary, name+": ")))
	return err
}

// formatIncident returns an incident as a line.
func formatIncident(s *view.Summary) string {
	ended := "open"
	if s.Ended != nil {
		ended = "ended " + s.Ended.UTC().Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s %s (%s) on %s, %s: %s", s.Began.UTC().Format(time.DateTime), s.Title, s.Severity,
		render.Clean(render.And(s.Targets)), ended, render.Sentence(s.Summary))
}

// hasFired reports whether an incident was at least as severe as --fail-on.
func hasFired(past []view.Summary, threshold catalog.Severity) bool {
	return slices.ContainsFunc(past, func(s view.Summary) bool {
		severity, err := catalog.ParseSeverity(s.Severity)
		return err == nil && severity >= threshold
	})
}

// checkSince refuses flags that contradict --since.
func (f *diagnoseFlags) checkSince() error {
	switch {
	case f.since == "":
		return nil
	case len(f.source.URLs) > 0:
		return hint.With(errors.New("--since needs a past, which a live run does not have"),
			"give a recording or --prometheus URL; sixty top watches servers")
	case !slices.Contains([]string{"text", "json"}, f.output.Form()):
		return fmt.Errorf("--since prints lines: --output must be text or json, not %s", f.output.Form())
	case f.output.File != "":
		return hint.With(errors.New("--since prints to standard output"), "redirect standard output")
	case f.baseline != "" || f.engineLog != "" && f.source.SourceCount() == 0:
		return errors.New("--since needs a recording or --prometheus, and excludes --baseline")
	}
	return nil
}

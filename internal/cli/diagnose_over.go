package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/report"
)

// How often servers are judged over time: live ones, those behind a Prometheus server, and
// the past, of which at most so many moments are judged.
const (
	watchEvery  = 5 * time.Second
	askEvery    = 15 * time.Second
	mostMoments = 240
)

// printChanges diagnoses what happens, or what happened, and prints the changes of state.
func (f *diagnoseFlags) printChanges(ctx context.Context, stdout, stderr io.Writer, s *source.Source, o diagnose.Options, known *diagnose.Known, failOn catalog.Severity) error {
	log := report.NewChanges(stdout, f.output.Form() == "json", command.Terminal(stdout, f.output.Color))
	o.Predict, o.Annotate, o.Window = nil, known.Annotate, f.source.Window
	if f.watch {
		every := askEvery
		if s.Live != nil {
			every = max(watchEvery, f.source.Interval)
		}
		command.Notes(stderr, []string{fmt.Sprintf("diagnosing every %s; stop with Ctrl-C", every)})
		return s.Follow(ctx, o, every, func(d *diagnose.Diagnosis, err error) error {
			if err != nil {
				return log.Fail(time.Now(), err)
			}
			return log.Observe(d)
		})
	}
	to, err := s.Span().At(f.source.At)
	if err != nil {
		return err
	}
	since, err := source.ParseDuration(f.since)
	if err != nil || since <= 0 {
		return hint.With(fmt.Errorf("--since: %q is not a positive duration", f.since), "write 1h or 90m")
	}
	from := to.Add(-since)
	pace, err := s.Pace(ctx, to)
	if err != nil {
		return err
	}
	step := max(askEvery, pace.Interval, (since / mostMoments).Round(time.Second))
	first := s.Span().First
	if first.IsZero() {
		if first, err = s.First(ctx, from, to); err != nil {
			return err
		}
	}
	if !first.IsZero() && from.Before(first) {
		from = first.Add(min(step, to.Sub(first)))
		step = max(watchEvery, pace.Interval, (to.Sub(from) / mostMoments).Round(time.Second))
	}
	line := command.NewProgress(stderr)
	defer line.Clear()
	log.Before = line.Clear
	moments, done := int(to.Sub(from)/step)+1, 0
	line.Show("reading %s", s.Name)
	if err := s.Replay(ctx, o, from, to, step, func(d *diagnose.Diagnosis) error {
		done++
		line.Show("diagnosing %s, %d of %d", d.At.UTC().Format(time.DateTime), done, moments)
		return log.Observe(d)
	}); err != nil {
		if errors.Is(context.Cause(ctx), errTooLate) {
			return hint.With(lateError(f.timeout, err), "raise --timeout, such as --timeout 5m, or ask for a shorter time")
		}
		return err
	}
	uncertain, err := log.End()
	switch {
	case err != nil:
		return err
	case log.Seen && log.Worst >= failOn:
		return errFound
	case !log.Known:
		return errCannotTell
	case uncertain:
		return command.ErrNotCertain
	}
	return nil
}

// checkOver refuses what does not go with changes over time.
func (f *diagnoseFlags) checkOver() error {
	switch live := len(f.source.URLs) > 0; {
	case !f.watch && f.since == "":
		return nil
	case f.watch && f.since != "":
		return errors.New("--watch and --since exclude each other")
	case f.watch && f.source.Recording != "":
		return hint.With(errors.New("--watch needs live servers, not a recording"), "--since 1h prints what changed in it")
	case f.watch && f.source.At != "":
		return errors.New("--watch and --at exclude each other")
	case f.since != "" && live:
		return hint.With(errors.New("--since needs a past, which a live run does not have"), "give a recording or --prometheus URL, or use --watch")
	case !slices.Contains([]string{"text", "json"}, f.output.Form()):
		return fmt.Errorf("--watch and --since print lines: --output must be text or json, not %s", f.output.Form())
	case f.output.File != "":
		return hint.With(errors.New("--watch and --since print to standard output"), "redirect standard output")
	case f.baseline != "" || f.engineLog != "" && f.source.SourceCount() == 0:
		return errors.New("--watch and --since need servers, a recording or --prometheus, and exclude --baseline")
	}
	return nil
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/source"
)

// How often servers are judged over time: live ones, those behind a Prometheus server, and
// the past, of which at most so many moments are judged.
const (
	watchEvery  = 5 * time.Second
	askEvery    = 15 * time.Second
	mostMoments = 240
)

// agreed is how many diagnoses in a row make a change of state.
const agreed = 2

// over diagnoses what happens, or what happened, and prints the changes of state.
func (f *diagnoseFlags) over(ctx context.Context, stdout, stderr io.Writer, s *source.Source, o diagnose.Options, known *diagnose.Known, failOn catalog.Severity) error {
	log := changes{w: stdout, json: f.output.form() == "json", style: render.NewText(terminal(stdout, f.output.color)), models: map[string]*state{}}
	o.Predict, o.Annotate, o.Window = nil, known.Annotate, f.source.window
	if f.watch {
		endsWhenInterrupted(ctx)
		every := askEvery
		if s.Live != nil {
			every = max(watchEvery, f.source.interval)
		}
		notes(stderr, []string{fmt.Sprintf("judging every %s; ctrl-C ends it", every)})
		return s.Follow(ctx, o, every, log.see)
	}
	to, err := s.Span().At(f.source.at)
	if err != nil {
		return err
	}
	since, err := source.ParseDuration(f.since)
	if err != nil || since <= 0 {
		return hint.With(fmt.Errorf("--since: %q is no time", f.since), "write 1h or 90m")
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
	line := newProgress(stderr)
	defer line.clear()
	log.before = line.clear
	if err := s.Replay(ctx, o, from, to, step, func(d *diagnose.Diagnosis) error {
		line.show("judging %s", d.At.UTC().Format(time.DateTime))
		return log.see(d, nil)
	}); err != nil {
		if errors.Is(context.Cause(ctx), errTooLate) {
			return hint.With(lateError(f.timeout, err), "allow more with --timeout 5m, or ask for less")
		}
		return err
	}
	switch {
	case log.seen && log.worst >= failOn:
		return errFound
	case !log.told:
		return errCannotTell
	}
	return nil
}

// changes prints a line where the verdict on a model becomes another one and stays it.
type changes struct {
	w      io.Writer
	json   bool
	style  *render.Text
	before func() // a line is written
	models map[string]*state

	seen  bool             // something fired
	worst catalog.Severity // of it
	told  bool             // something was known
}

// state is the verdict on one model.
type state struct {
	last, next string // what was printed, and what may follow
	at         time.Time
	times      int
}

// A change is a line, in JSON.
type change struct {
	At       time.Time  `json:"at"`
	Model    string     `json:"model"`
	ID       string     `json:"id"`
	Status   string     `json:"status"`
	Severity *string    `json:"severity"`
	Since    *time.Time `json:"since"`
	Targets  []string   `json:"targets"`
	Summary  string     `json:"summary"`
}

// see takes the next diagnosis, or why there is none.
func (c *changes) see(d *diagnose.Diagnosis, err error) error {
	if err != nil {
		now := time.Now()
		return c.note("", diagnose.InsufficientData, change{At: now.UTC(), ID: diagnose.InsufficientData, Status: diagnose.Unknown.String(), Targets: []string{}, Summary: err.Error()})
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		line := change{At: d.At.UTC(), Model: v.Model, ID: v.ID, Status: v.Status.String(), Targets: append([]string{}, v.Targets...), Summary: v.Summary}
		what := v.ID
		if v.Status == diagnose.Firing {
			severity, since := v.Severity.String(), v.Since.UTC()
			line.Severity, line.Since = &severity, &since
			what += " " + severity
			c.seen, c.worst = true, max(c.worst, v.Severity)
		}
		c.told = c.told || v.Status != diagnose.Unknown
		if err := c.note(v.Model, what, line); err != nil {
			return err
		}
	}
	return nil
}

// note prints what has become another state.
func (c *changes) note(model, what string, line change) error {
	s := c.models[model]
	first := s == nil
	if first {
		s = &state{}
		c.models[model] = s
	}
	switch {
	case what == s.last:
		s.next, s.times = "", 0
		return nil
	case what != s.next:
		s.next, s.at, s.times = what, line.At, 0
	}
	if s.times++; s.times < agreed && !first {
		return nil
	}
	line.At = s.at
	s.last, s.next, s.times = what, "", 0
	if c.before != nil {
		c.before()
	}
	if c.json {
		b, err := json.Marshal(line)
		if err != nil {
			return err
		}
		_, err = c.w.Write(append(b, '\n'))
		return err
	}
	_, err := fmt.Fprintln(c.w, c.text(&line))
	return err
}

// text is a change in a line.
func (c *changes) text(l *change) string {
	head := l.ID
	style := render.Good
	switch {
	case l.Severity != nil:
		head += " (" + *l.Severity + ")"
		style = render.Warning
		if *l.Severity == catalog.Page.String() {
			style = render.Bad
		}
	case l.Status == diagnose.Unknown.String():
		style = render.Dim
	}
	where := ""
	if l.Model != "" {
		where = " on " + render.Clean(l.Model)
	}
	if l.Since != nil && len(l.Targets) > 0 {
		targets := render.Clean(l.Targets[0])
		if n := len(l.Targets); n > 1 {
			targets += fmt.Sprintf(" and %d more", n-1)
		}
		where += ", " + targets + ", since " + l.Since.Format(time.TimeOnly)
	}
	return l.At.Format(time.DateTime) + " " + c.style.Style(style, head) + where + ": " + render.Clean(render.Sentence(l.Summary))
}

// checkOver refuses what does not go with changes over time.
func (f *diagnoseFlags) checkOver() error {
	switch live := len(f.source.spec.URLs) > 0; {
	case !f.watch && f.since == "":
		return nil
	case f.watch && f.since != "":
		return errors.New("--watch looks at what comes, --since at what was: give one of them")
	case f.watch && f.source.spec.Recording != "":
		return hint.With(errors.New("--watch needs servers, and a recording has ended"), "--since 1h prints what changed in it")
	case f.watch && f.source.at != "":
		return errors.New("--watch looks at now, and --at at another time")
	case f.since != "" && live:
		return hint.With(errors.New("--since needs a past, and a live run has none"), "name a recording or a --prometheus server, or --watch from now on")
	case !slices.Contains([]string{"text", "json"}, f.output.form()):
		return fmt.Errorf("--watch and --since print lines: --output is text or json, not %s", f.output.form())
	case f.output.file != "":
		return hint.With(errors.New("--watch and --since print to standard output"), "redirect it")
	case f.probe || f.gateway != "" || f.baseline != "" || f.engineLog != "" && f.source.spec.Given() == 0:
		return errors.New("--watch and --since go with servers, recordings and --prometheus alone, without --probe, --gateway or --baseline")
	}
	return nil
}

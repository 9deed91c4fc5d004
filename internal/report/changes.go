package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// agreed is how many diagnoses in a row make a change of state.
const agreed = 2

// Changes prints a line when a model's verdict changes and holds.
type Changes struct {
	Before func()           // is called before a line is written; may be nil
	Seen   bool             // something fired
	Worst  catalog.Severity // of it
	Known  bool             // some verdict was not unknown

	w      io.Writer
	json   bool
	style  *render.Text
	models map[string]*state
	at     time.Time // of the last diagnosis
}

// End prints states that only the last diagnosis found uncertain, and reports whether any model ends in one.
func (c *Changes) End() (uncertain bool, err error) {
	for _, model := range slices.Sorted(maps.Keys(c.models)) {
		switch s := c.models[model]; {
		case !s.seen.Equal(c.at): // it is gone
		case s.next == diagnose.NotCertain:
			uncertain, err = true, errors.Join(err, c.print(&s.line))
		default:
			uncertain = uncertain || s.last == diagnose.NotCertain
		}
	}
	return uncertain, err
}

// NewChanges prints to a writer, in lines of text or of JSON.
func NewChanges(w io.Writer, json bool, o render.Options) *Changes {
	return &Changes{w: w, json: json, style: render.NewText(o), models: map[string]*state{}}
}

// state is the verdict on one model.
type state struct {
	last, next string // the printed states, and the state that may follow
	line       change // the first of what may follow
	times      int
	seen       time.Time // the last diagnosis that has a verdict on it
}

// A change is a line, in JSON.
type change struct {
	At       time.Time  `json:"at"`
	Model    string     `json:"model"`
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Status   string     `json:"status"`
	Severity *string    `json:"severity"`
	Since    *time.Time `json:"since"`
	Targets  []string   `json:"targets"`
	Summary  string     `json:"summary"`
}

// Fail says why there is no diagnosis of a moment.
func (c *Changes) Fail(at time.Time, err error) error {
	return c.printChange("", diagnose.InsufficientData, change{At: at.UTC(), ID: diagnose.InsufficientData, Name: "Unknown", Status: diagnose.Unknown.String(), Targets: []string{}, Summary: err.Error()})
}

// Observe takes the next diagnosis.
func (c *Changes) Observe(d *diagnose.Diagnosis) error {
	c.at = d.At
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		line := change{At: d.At.UTC(), Model: v.Model, ID: v.ID, Name: nameOf(d, v), Status: v.Status.String(), Targets: append([]string{}, v.Targets...), Summary: v.Summary}
		what := v.ID
		if v.Status == diagnose.Firing {
			severity, since := v.Severity.String(), v.Since.UTC()
			line.Severity, line.Since = &severity, &since
			what += " " + severity
			c.Seen, c.Worst = true, max(c.Worst, v.Severity)
		}
		c.Known = c.Known || v.Status != diagnose.Unknown
		if err := c.printChange(v.Model, what, line); err != nil {
			return err
		}
		c.models[v.Model].seen = d.At
	}
	return nil
}

// printChange prints a change of state.
func (c *Changes) printChange(model, what string, line change) error {
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
		s.next, s.line, s.times = what, line, 0
	}
	if s.times++; s.times < agreed && !first {
		return nil
	}
	line.At = s.line.At
	s.last, s.next, s.times = what, "", 0
	return c.print(&line)
}

// print writes a line.
func (c *Changes) print(line *change) error {
	if c.Before != nil {
		c.Before()
	}
	if c.json {
		b, err := json.Marshal(line)
		if err != nil {
			return err
		}
		_, err = c.w.Write(append(b, '\n'))
		return err
	}
	_, err := fmt.Fprintln(c.w, c.text(line))
	return err
}

// text is a change in a line.
func (c *Changes) text(l *change) string {
	head := l.Name
	style := render.Good
	switch {
	case l.Severity != nil:
		head += " (" + *l.Severity + ")"
		style = render.Warning
		if *l.Severity == catalog.Page.String() {
			style = render.Bad
		}
	case l.Status == diagnose.Pending.String():
		style = render.Uncertain
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
	return l.At.Format(time.DateTime) + " " + c.style.Style(style, head) + where + ": " + render.Sentence(strings.TrimPrefix(l.Summary, l.Name+": "))
}

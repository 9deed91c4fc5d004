// Package audit reports what a deployment's monitoring lacks and what in it is broken: a checklist of what should be
// measured, and what the linter (package checks) found in rules, dashboards and autoscalers (package files).
//
// The package is pure. Package surface asks the servers and reads the files.
package audit

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/render"
)

// Schema is the JSON output's version; changes to it only add.
const Schema = "sixty.audit/v2"

// A Report is the outcome of an audit.
type Report struct {
	Surface *checks.Surface
	Areas   []Area // empty where no server was looked at
	Files   []string

	// Expressions is how many were judged: none found in many is another
	// message than none in none.
	Expressions int
	Unjudged    int // are not PromQL

	Findings []checks.Problem
	Errors   []error // files that could not be read
	Repaired int     // how many names were written anew
}

// Worst returns the highest severity of the findings; ok is false without findings.
func (r *Report) Worst() (worst catalog.Severity, ok bool) {
	worst, ok = r.Linted()
	for _, it := range itemsToTell(r.Areas, false) {
		worst, ok = max(worst, it.Severity), true
	}
	return worst, ok
}

// Linted returns the highest severity of what the linter found in rules and dashboards,
// doubts aside; ok is false where it found nothing.
func (r *Report) Linted() (worst catalog.Severity, ok bool) {
	for _, f := range r.Findings {
		if !f.Doubt {
			worst, ok = max(worst, f.Severity), true
		}
	}
	return worst, ok
}

// JSON writes the report as sixty.audit/v2.
func (r *Report) JSON(w io.Writer) error {
	status, errors := "ok", any(render.None{})
	if _, found := r.Worst(); found {
		status = "found"
	}
	if len(r.Errors) > 0 {
		status, errors = "unknown", render.Each(r.Errors, func(err *error) string { return (*err).Error() })
	}
	s := r.Surface
	return render.JSON(w, render.Object{
		"schema", Schema, "tool", version.This(), "status", status,
		"source", render.Object{
			"description", s.Source, "live", s.Live,
			"dialects", render.Each(s.Dialects, func(d *dialect.Dialect) string { return d.ID }),
			"models", append([]string{}, s.Models...), "instances", len(s.Instances),
			"interval_seconds", render.OrNone(s.Interval.Seconds()),
		},
		"areas", render.Each(r.Areas, func(a *Area) render.Object {
			return render.Object{"id", a.ID, "title", a.Title, "status", a.Status(), "items",
				append([]Item{}, a.Items...)}
		}),
		"findings", append([]checks.Problem{}, r.Findings...), "files", append([]string{}, r.Files...),
		"expressions", r.Expressions, "errors", errors,
	})
}

// Text writes the report for a terminal: the answer, the checklist, then the faults of each file, the worst first. In
// short it is a screen; full shows every item of the checklist and every place.
func (r *Report) Text(w io.Writer, o render.Options, full bool) error {
	if len(r.Files)+len(r.Areas) == 0 {
		return nil // no file could be read
	}
	d := render.NewDocument("Audit")
	d.Answer(render.Bold, "", r.headline())
	against := "Against " + r.comparedWith() + "."
	if len(r.Files) > 0 {
		against += " What PromQL alone proves is left to pint: pint lint FILE."
	}
	d.Paragraph("", against)
	if len(r.Areas)+len(r.Findings) > 0 {
		d.More = "every item, every place, and why"
	}
	if len(r.Areas) > 0 {
		addChecklist(d, r.Areas, full)
	}
	for _, name := range r.Files {
		r.addFile(d, name, full)
	}
	return d.Text(w, o, full)
}

// comparedWith says what the files were held against.
func (r *Report) comparedWith() string {
	s, text, between := r.Surface, r.Surface.Source, ": "
	for _, d := range s.Dialects {
		if s.Live { // otherwise Source names them
			text, between = text+between+strings.TrimSpace(d.ID+" "+d.Version), "; "
		}
	}
	if n := len(s.Models); n > 0 {
		text += "; " + render.Plural(n, "model")
	}
	return text
}

// headline is the answer in a sentence: how much is measured, and how many faults there are.
func (r *Report) headline() string {
	var text string
	say := func(n int, format string, args ...any) {
		if n > 0 {
			text += fmt.Sprintf(format, args...)
		}
	}
	if n := len(r.Areas); n > 0 {
		of := map[Status]int{}
		for i := range r.Areas {
			of[r.Areas[i].Status()]++
		}
		say(n, "%d of %d areas are measured", of[Present], n)
		say(of[Unknown], ", %d could not be seen", of[Unknown])
		if lacks := itemsToTell(r.Areas, false); len(lacks) > 0 {
			say(1, "; %s to enable, the worst %s", render.Plural(len(lacks), "thing"), lacks[0].Severity)
		}
		say(n, ". ")
	}
	if len(r.Files) == 0 {
		return strings.TrimSpace(text)
	}
	counts := map[string]int{}
	for _, f := range r.Findings {
		counts[f.Label()]++
		if f.Fixable {
			counts["fixable"]++
		}
	}
	say(1, "%s, %s: %d page, %d ticket, %d info", render.Plural(len(r.Files), "file"),
		render.Plural(r.Expressions, "expression"), counts["page"], counts["ticket"], counts["info"])
	say(counts[checks.Doubtful], "; %s", render.Plural(counts[checks.Doubtful], checks.Doubtful))
	say(r.Unjudged, "; %d not judged, which are not PromQL", r.Unjudged)
	say(counts["fixable"], "; --fix repairs %d", counts["fixable"])
	say(r.Repaired, "; %d repaired", r.Repaired)
	return text + "."
}

// Ranks of the parts of a short text. If the screen is too small, positions of faults leave first, then checklist
// items that are present.
const (
	rankPlace = iota + 1
	rankPresent
	rankItem
	rankClean
	rankLesser // faults that are no page
	rankLacking
	rankPage
)

var areaStyles = map[Status]render.Style{Present: render.Good, Partial: render.Warning, Missing: render.Bad}

// addChecklist adds a line for each area, and the items that can be enabled or, in full, all of them.
func addChecklist(d *render.Document, areas []Area, full bool) {
	d.Rank(rankLacking)
	d.Section("Checklist", "")
	for _, a := range areas {
		names := map[Status][]string{}
		for _, it := range a.Items {
			names[it.Status] = append(names[it.Status], it.Name)
		}
		said := a.Status().String()
		if lacking := append(names[Missing], names[Partial]...); len(lacking) > 0 {
			said += "; lacks " + strings.Join(lacking, ", ")
		}
		if unseen := names[Unknown]; len(unseen) > 0 {
			said += "; not seen: " + strings.Join(unseen, ", ")
		}
		if d.Rank(rankLacking); a.Status() == Present {
			d.Rank(rankPresent)
		}
		line := d.Item(a.Title, said)
		line.Style, line.Most = areaStyles[a.Status()], 1
	}
	d.Rank(rankItem)
	for i, it := range itemsToTell(areas, full) {
		if i == 0 {
			d.Section(map[bool]string{false: "To enable", true: "Items"}[full], "")
		}
		state := it.Status.String()
		if it.isLacking() {
			state = it.Severity.String()
		}
		text := it.Name + ": " + it.Detail
		if it.Hint != "" {
			text += "; try: " + it.Hint
		}
		d.Item(state, text).Most = 3
	}
}

// itemsToTell returns the items that can be enabled, the worst first; in full, all items in their order.
func itemsToTell(areas []Area, all bool) (out []Item) {
	for _, a := range areas {
		out = append(out, a.Items...)
	}
	if !all {
		out = slices.DeleteFunc(out, func(it Item) bool { return !it.isLacking() })
		slices.SortStableFunc(out, func(a, b Item) int { return int(b.Severity) - int(a.Severity) })
	}
	return out
}

// addFile adds the faults of a file: what is wrong and what to do, once for all places with the same fault.
func (r *Report) addFile(d *render.Document, name string, full bool) {
	d.Rank(rankClean)
	groups := groupFindings(r.Findings, name)
	if len(groups) > 0 && groups[0][0].Label() == catalog.Page.String() {
		d.Rank(rankPage)
	} else if len(groups) > 0 {
		d.Rank(rankLesser)
	}
	d.Section(name, "").Name = true
	if len(groups) == 0 {
		d.Paragraph("", "nothing found").Style = render.Good
	}
	for _, g := range groups {
		f, where, fix := g[0], "", "; try: "
		if d.Rank(rankPage); f.Label() != catalog.Page.String() {
			d.Rank(rankLesser)
		}
		if f.Line > 0 {
			where = fmt.Sprintf(", line %d", f.Line)
		}
		if more := len(g) - 1; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
		if f.Fixable {
			fix = "; --fix does it: "
		}
		d.Item(f.Label(), f.Check+where+": "+f.Why+fix+f.Fix).Style = styles[f.Label()]
		d.Rank(rankPlace)
		for _, f := range g {
			place, fragment := f.Where, strings.Join(strings.Fields(f.Fragment), " ")
			if f.Line > 0 {
				place = fmt.Sprintf("line %d, %s", f.Line, f.Where)
			}
			if !full {
				fragment = render.Clip(fragment, clipped)
			}
			d.Item("", place+": "+fragment)
		}
	}
}

// styles are those of findings; Bold for the others.
var styles = map[string]render.Style{catalog.Page.String(): render.Bad, catalog.Ticket.String(): render.Warning}

// clipped is how much of an expression a short text shows.
const clipped = 80

// groupFindings gathers the findings in a file of which the same is true, the most severe first and doubts last.
func groupFindings(all []checks.Problem, file string) (out [][]checks.Problem) {
	for _, label := range []string{catalog.Page.String(), catalog.Ticket.String(), catalog.Info.String(),
		checks.Doubtful} {
		for _, f := range all {
			if f.File != file || f.Label() != label {
				continue
			}
			i := slices.IndexFunc(out, func(g []checks.Problem) bool {
				return g[0].Check == f.Check && g[0].Why == f.Why && g[0].Fix == f.Fix && g[0].Label() == label
			})
			if i < 0 {
				i, out = len(out), append(out, nil)
			}
			out[i] = append(out[i], f)
		}
	}
	return out
}

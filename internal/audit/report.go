// Package audit reports what a deployment's monitoring lacks and what in it is broken.
//
// A Report has two halves. The checklist (checklist.go) compares a deployment with what should be measured, area by
// area; it needs servers that were read. The findings are the faults in rules, dashboards and autoscalers; they need
// files, and servers only to be sure. A report is written as text or JSON (report.go), and its worst severity decides
// on the exit code.
//
// Four packages work in this order: package surface reads the servers and the files, package files takes the queries
// out of the files, package checks lints them, and this package puts the result together. It is pure.
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
	Areas   []Area // empty if no server was read
	Files   []string

	Expressions int // in the files
	Unjudged    int // of them, not PromQL
	Findings    []checks.Finding
	Errors      []error // of files that could not be read
	Repaired    int     // findings that --fix repaired; they are not in Findings
}

// Worst returns the highest severity of findings and lacking items; ok is false if there are none.
func (r *Report) Worst() (worst catalog.Severity, ok bool) {
	worst, ok = r.WorstFinding()
	for _, it := range itemsToShow(r.Areas, false) {
		worst, ok = max(worst, it.Severity), true
	}
	return worst, ok
}

// WorstFinding returns the highest severity of the findings, without doubts; ok is false if there are none.
func (r *Report) WorstFinding() (worst catalog.Severity, ok bool) {
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
		"findings", append([]checks.Finding{}, r.Findings...), "files", append([]string{}, r.Files...),
		"expressions", r.Expressions, "errors", errors,
	})
}

// Text writes the report for a terminal: the answer, the checklist, then the findings of each file, the worst first. It
// fits a screen; full shows every item of the checklist and every place.
func (r *Report) Text(w io.Writer, o render.Options, full bool) error {
	if len(r.Files)+len(r.Areas) == 0 {
		return nil // no file could be read
	}
	d := render.NewDocument("Audit")
	d.Answer(render.Bold, "", r.headline())
	against := "Against " + r.reference() + "."
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

// reference says what the files were compared with.
func (r *Report) reference() string {
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

// headline says in a sentence how much is measured, and how many findings there are.
func (r *Report) headline() string {
	var text string
	sayIf := func(n int, format string, args ...any) {
		if n > 0 {
			text += fmt.Sprintf(format, args...)
		}
	}
	if n := len(r.Areas); n > 0 {
		count := map[Status]int{}
		for i := range r.Areas {
			count[r.Areas[i].Status()]++
		}
		text = fmt.Sprintf("%d of %d areas are measured", count[Present], n)
		sayIf(count[Unknown], ", %d could not be seen", count[Unknown])
		if lacking := itemsToShow(r.Areas, false); len(lacking) > 0 {
			things := render.Plural(len(lacking), "thing")
			text += fmt.Sprintf("; %s to enable, the worst %s", things, lacking[0].Severity)
		}
		text += ". "
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
	text += fmt.Sprintf("%s, %s: %d page, %d ticket, %d info", render.Plural(len(r.Files), "file"),
		render.Plural(r.Expressions, "expression"), counts["page"], counts["ticket"], counts["info"])
	sayIf(counts[checks.DoubtLabel], "; %s", render.Plural(counts[checks.DoubtLabel], checks.DoubtLabel))
	sayIf(r.Unjudged, "; %d not judged, which are not PromQL", r.Unjudged)
	sayIf(counts["fixable"], "; --fix repairs %d", counts["fixable"])
	sayIf(r.Repaired, "; %d repaired", r.Repaired)
	return text + "."
}

// Ranks of the parts of a short text. If the screen is too small, those of the lowest rank are left out first.
const (
	rankPlace   = iota + 1 // places of findings
	rankPresent            // areas that are measured
	rankItem               // items to enable
	rankClean              // files without findings
	rankLesser             // findings below a page
	rankLacking            // areas that are not measured
	rankPage
)

var areaStyles = map[Status]render.Style{Present: render.Good, Partial: render.Warning, Missing: render.Bad}

// addChecklist adds a line for each area, then the lacking items or, in full, all items.
func addChecklist(d *render.Document, areas []Area, full bool) {
	d.Rank(rankLacking)
	d.Section("Checklist", "")
	for _, a := range areas {
		names := map[Status][]string{}
		for _, it := range a.Items {
			names[it.Status] = append(names[it.Status], it.Name)
		}
		text := a.Status().String()
		if lacking := append(names[Missing], names[Partial]...); len(lacking) > 0 {
			text += "; lacks " + strings.Join(lacking, ", ")
		}
		if unseen := names[Unknown]; len(unseen) > 0 {
			text += "; not seen: " + strings.Join(unseen, ", ")
		}
		if d.Rank(rankLacking); a.Status() == Present {
			d.Rank(rankPresent)
		}
		line := d.Item(a.Title, text)
		line.Style, line.Most = areaStyles[a.Status()], 1
	}
	d.Rank(rankItem)
	for i, it := range itemsToShow(areas, full) {
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

// itemsToShow returns the lacking items, the worst first, or all items in their order.
func itemsToShow(areas []Area, all bool) (out []Item) {
	for _, a := range areas {
		out = append(out, a.Items...)
	}
	if !all {
		out = slices.DeleteFunc(out, func(it Item) bool { return !it.isLacking() })
		slices.SortStableFunc(out, func(a, b Item) int { return int(b.Severity) - int(a.Severity) })
	}
	return out
}

// addFile adds the findings in a file. Those that differ only in their place are one item.
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
				fragment = render.Clip(fragment, clippedWidth)
			}
			d.Item("", place+": "+fragment)
		}
	}
}

// styles maps labels of findings to styles.
var styles = map[string]render.Style{catalog.Page.String(): render.Bad, catalog.Ticket.String(): render.Warning}

// clippedWidth is how many columns of an expression a short text shows.
const clippedWidth = 80

// groupFindings groups the findings in a file that differ only in their place, the most severe first and doubts last.
func groupFindings(all []checks.Finding, file string) (out [][]checks.Finding) {
	for _, label := range []string{catalog.Page.String(), catalog.Ticket.String(), catalog.Info.String(),
		checks.DoubtLabel} {
		for _, f := range all {
			if f.File != file || f.Label() != label {
				continue
			}
			i := slices.IndexFunc(out, func(g []checks.Finding) bool {
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

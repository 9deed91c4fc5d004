package audit

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/version"
)

// Schema is the JSON output's version; changes to it only add.
const Schema = "sixty.audit/v1"

// A Report is the outcome of an audit.
type Report struct {
	Surface *Surface
	Areas   []Area // empty where no server was looked at
	Files   []string

	// Expressions is how many were judged: none found in many is another
	// message than none in none.
	Expressions int

	Findings []Finding
	Errors   []error // files that could not be read
	Fixed    map[string]Fixed
}

// Worst returns the highest severity of what was found; ok is false where
// nothing was.
func (r *Report) Worst() (worst catalog.Severity, ok bool) {
	worst, ok = r.Linted()
	for _, a := range r.Areas {
		for _, it := range a.Items {
			if it.Status == Missing || it.Status == Partial {
				worst, ok = max(worst, it.Severity), true
			}
		}
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

type jsonReport struct {
	Schema      string       `json:"schema"`
	Tool        version.Tool `json:"tool"`
	Status      string       `json:"status"` // ok, found, unknown
	Source      jsonSource   `json:"source"`
	Areas       []jsonArea   `json:"areas"`
	Findings    []Finding    `json:"findings"`
	Files       []string     `json:"files"`
	Expressions int          `json:"expressions"`
	Errors      []string     `json:"errors,omitempty"`
	Fixed       []jsonFixed  `json:"fixed,omitempty"`
}

type jsonSource struct {
	Description     string   `json:"description"`
	Live            bool     `json:"live"`
	Dialects        []string `json:"dialects"`
	Models          []string `json:"models"`
	Instances       int      `json:"instances"`
	IntervalSeconds float64  `json:"interval_seconds,omitempty"`
}

type jsonArea struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status Status `json:"status"`
	Items  []Item `json:"items"`
}

type jsonFixed struct {
	File     string `json:"file"`
	Repaired int    `json:"repaired"`
	Left     int    `json:"left"`
}

// JSON writes the report as sixty.audit/v1.
func (r *Report) JSON(w io.Writer) error {
	out := jsonReport{
		Schema: Schema, Tool: version.This(), Status: "ok", Areas: []jsonArea{}, Findings: append([]Finding{}, r.Findings...),
		Files: append([]string{}, r.Files...), Expressions: r.Expressions,
	}
	out.Source = jsonSource{
		Description: r.Surface.Source, Live: r.Surface.Live, Dialects: []string{}, Models: append([]string{}, r.Surface.Models...),
		Instances: len(r.Surface.Instances), IntervalSeconds: r.Surface.Interval.Seconds(),
	}
	for _, d := range r.Surface.Dialects {
		out.Source.Dialects = append(out.Source.Dialects, d.ID)
	}
	if _, found := r.Worst(); found {
		out.Status = "found"
	}
	for _, err := range r.Errors {
		out.Status = "unknown"
		out.Errors = append(out.Errors, err.Error())
	}
	for _, a := range r.Areas {
		out.Areas = append(out.Areas, jsonArea{a.ID, a.Title, a.Status(), append([]Item{}, a.Items...)})
	}
	for _, name := range r.Files {
		if f, ok := r.Fixed[name]; ok {
			out.Fixed = append(out.Fixed, jsonFixed{name, len(f.Repaired), len(f.Left)})
		}
	}
	return render.JSON(w, out)
}

// TextOptions say how Text looks.
type TextOptions struct {
	render.Options
	Verbose bool // every item of the checklist, and every place of a fault
}

type printer struct {
	*render.Text
	verbose bool
	full    map[string]bool // kinds of faults that are shown with their reasons, by file, label and check
}

// Text writes the report for a terminal: the checklist, then the faults, the
// worst first within each file.
func (r *Report) Text(w io.Writer, o TextOptions) error {
	if len(r.Files)+len(r.Areas) == 0 {
		return nil // no file could be read
	}
	p := &printer{render.NewText(o.Options), o.Verbose, r.worstKinds()}
	p.Styled(render.Bold, "", "  ", r.headline())
	p.head(r)
	if len(r.Areas) > 0 {
		p.areas(r.Areas)
	}
	for _, name := range r.Files {
		p.file(r, name)
	}
	if !p.verbose {
		brief := func(f Finding) bool { return !p.full[kindOf(f)] }
		if whole := p.Fit(2); !whole || len(r.Areas) > 0 || slices.ContainsFunc(r.Findings, brief) {
			p.Line("")
			p.Brief(1, "", "", "-v shows every item, every place, and why.")
		}
	}
	_, err := p.WriteTo(w)
	return err
}

func (p *printer) head(r *Report) {
	s := r.Surface
	text := "Against " + s.Source
	var dialects []string
	for _, d := range s.Dialects {
		if !s.Live {
			break // Source names them
		}
		name := d.ID
		if d.Version != "" {
			name += " " + d.Version
		}
		dialects = append(dialects, name)
	}
	if len(dialects) > 0 {
		text += ": " + strings.Join(dialects, "; ")
	}
	if n := len(s.Models); n > 0 {
		text += fmt.Sprintf("; %s", render.Plural(n, "model"))
	}
	p.Paragraph("", "  ", render.Clean(text)+".")
}

var areaStyles = map[Status]render.Style{Present: render.Good, Partial: render.Warning, Missing: render.Bad}

// How long parts of a short text stay where there is no room for all of them: places of faults
// leave first, then the checklist but for what lacks.
const (
	rankPlace = iota + 1
	rankPresent
	rankItem
	rankClean
	rankLacking
	rankFile
)

func (p *printer) areas(areas []Area) {
	p.Part(rankLacking)
	p.Heading("CHECKLIST")
	for _, a := range areas {
		status := a.Status()
		line := fmt.Sprintf("  %-20s %s", a.Title, p.Style(areaStyles[status], fmt.Sprintf("%-8s", status)))
		var has, lacking, unseen []string
		for _, it := range a.Items {
			switch it.Status {
			case Present:
				has = append(has, it.Name)
			case Missing, Partial:
				lacking = append(lacking, it.Name)
			case Unknown:
				unseen = append(unseen, it.Name)
			}
		}
		var rest []string
		if len(lacking) > 0 {
			rest = append(rest, "lacks "+strings.Join(lacking, ", "))
		}
		if len(unseen) > 0 {
			rest = append(rest, "not seen: "+strings.Join(unseen, ", "))
		}
		if len(has) > 0 && (p.verbose || len(rest) == 0) {
			rest = append([]string{strings.Join(has, ", ")}, rest...)
		}
		said := render.Clean(strings.Join(rest, "; "))
		if p.verbose {
			p.Paragraph(line+"  ", strings.Repeat(" ", 33), said)
			continue
		}
		if p.Part(rankLacking); status == Present {
			p.Part(rankPresent)
		}
		p.Brief(1, line+"  ", strings.Repeat(" ", 33), said)
	}
	for i, it := range toTell(areas, p.verbose) {
		if p.Part(rankItem); i == 0 {
			title := "TO SWITCH ON"
			if p.verbose {
				title = "ITEMS"
			}
			p.Heading(title)
		}
		p.item(it)
	}
}

// toTell are the items that are told of: what can be switched on, the worst first, or all
// of them as they stand.
func toTell(areas []Area, all bool) []Item {
	var out []Item
	for _, a := range areas {
		for _, it := range a.Items {
			if all || it.Status == Missing || it.Status == Partial {
				out = append(out, it)
			}
		}
	}
	if !all {
		slices.SortStableFunc(out, func(a, b Item) int { return int(b.Severity) - int(a.Severity) })
	}
	return out
}

// headline is the answer in a sentence: how much is measured, and how many faults there are.
func (r *Report) headline() string {
	var parts []string
	if n := len(r.Areas); n > 0 {
		of := map[Status]int{}
		for i := range r.Areas {
			of[r.Areas[i].Status()]++
		}
		text := fmt.Sprintf("%d of %d areas are measured", of[Present], n)
		if k := of[Unknown]; k > 0 {
			text += fmt.Sprintf(", %d could not be seen", k)
		}
		if lacks := toTell(r.Areas, false); len(lacks) > 0 {
			text += fmt.Sprintf("; %s to switch on, the worst %s", render.Plural(len(lacks), "thing"), lacks[0].Severity)
		}
		parts = append(parts, text)
	}
	if len(r.Files) > 0 {
		parts = append(parts, r.counts())
	}
	return strings.Join(parts, ". ") + "."
}

func (p *printer) item(it Item) {
	state := it.Severity.String()
	if it.Status == Present || it.Status == Unknown {
		state = it.Status.String()
	}
	lines, way := 1, 2
	if p.verbose {
		lines, way = math.MaxInt, math.MaxInt
	}
	p.Brief(lines, fmt.Sprintf("  %-7s ", state), strings.Repeat(" ", 10), render.Clean(it.Name+": "+it.Detail))
	if it.Hint != "" {
		p.Brief(way, "          try: ", strings.Repeat(" ", 15), render.Clean(it.Hint))
	}
}

// How much is told without being asked for more, so that it fits a screen: kinds of faults with
// their reasons, of all files together, and lines of further places.
const (
	shownKinds = 3
	shownLines = 8
)

// kindOf tells kinds of faults apart.
func kindOf(f Finding) string { return f.File + "\x00" + f.label() + "\x00" + f.Check }

// worstKinds are the kinds of faults that are told with their reasons.
func (r *Report) worstKinds() map[string]bool {
	out := map[string]bool{}
	for _, g := range grouped(r.Findings) {
		for _, f := range g {
			if len(out) < shownKinds {
				out[kindOf(f)] = true
			}
		}
	}
	return out
}

// shownPlaces is how many places of one kind of fault are shown in full.
const shownPlaces = 2

func (p *printer) file(r *Report, name string) {
	var mine []Finding
	for _, f := range r.Findings {
		if f.File == name {
			mine = append(mine, f)
		}
	}
	fixed, repaired := r.Fixed[name]
	if p.Part(rankFile); len(mine) == 0 && !repaired {
		p.Part(rankClean)
	}
	p.Heading(render.Clean(name))
	if repaired {
		p.Paragraph("  ", "  ", fixed.Summary()+".")
		for _, line := range counted(fixed.Repaired) {
			p.Paragraph("    ", "      ", line)
		}
	}
	if len(mine) == 0 {
		if !repaired {
			p.Line("  " + p.Style(render.Good, "nothing found"))
		}
		return
	}
	for i, group := range grouped(mine) {
		if i > 0 {
			p.Part(rankFile) // the first one stays with the name
		}
		p.group(group)
	}
}

// counted says what was repaired, and how often.
func counted(all []Finding) []string {
	var out []string
	times := map[string]int{}
	for _, g := range grouped(all) {
		for _, f := range g {
			text := f.Check + ": " + f.Fix
			if times[text]++; times[text] == 1 {
				out = append(out, text)
			}
		}
	}
	for i, text := range out {
		if n := times[text]; n > 1 {
			out[i] = fmt.Sprintf("%s (%d times)", text, n)
		}
	}
	return out
}

// grouped gathers the findings by what is wrong, the most severe first and doubts last,
// in the order of the file.
func grouped(all []Finding) [][]Finding {
	var out [][]Finding
	at := map[string]int{}
	for _, label := range []string{catalog.Page.String(), catalog.Ticket.String(), catalog.Info.String(), doubtful} {
		for _, f := range all {
			if f.label() != label {
				continue
			}
			key := fmt.Sprint(label, f.Check)
			i, ok := at[key]
			if !ok {
				i = len(out)
				at[key] = i
				out = append(out, nil)
			}
			out[i] = append(out[i], f)
		}
	}
	return out
}

// doubtful is the word for findings of which the files do not tell whether they are any.
const doubtful = "doubt"

// label is what a finding is to people: its severity, or a doubt.
func (f *Finding) label() string {
	if f.Doubt {
		return doubtful
	}
	return f.Severity.String()
}

func (p *printer) group(all []Finding) {
	style := map[catalog.Severity]render.Style{catalog.Page: render.Bad, catalog.Ticket: render.Warning}[all[0].Severity] // Bold for the others
	head := fmt.Sprintf("  %-6s %s", all[0].label(), all[0].Check)
	if len(all) > 1 {
		head += fmt.Sprintf(" (%d places)", len(all))
	}
	if !p.verbose && !p.full[kindOf(all[0])] {
		p.Line(p.Style(style, head) + linesOf(all))
		return
	}
	p.Line(p.Style(style, head))
	shown := len(all)
	if !p.verbose && shown > shownPlaces+1 {
		shown = shownPlaces
	}
	for i, f := range all[:shown] {
		p.Part(rankPlace)
		place := f.Where
		if f.Line > 0 {
			place = fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Where)
		}
		p.Paragraph("    ", "      ", render.Clean(place))
		p.Line("      " + render.Clip(oneLine(f.Fragment), p.Width()-6))
		if i == 0 || f.Why != all[i-1].Why {
			p.Paragraph("      ", "      ", render.Clean(sentence(f.Why)))
		}
		if i == 0 || f.Fix != all[i-1].Fix {
			label := "      Fix: "
			if f.Fixable {
				label = "      Fix (--fix does it): "
			}
			p.Paragraph(label, "        ", render.Clean(sentence(f.Fix)))
		}
	}
	if shown < len(all) {
		p.Paragraph("    ", "      ", fmt.Sprintf("and in %d more%s", len(all)-shown, linesOf(all[shown:])))
	}
}

// linesOf tells where findings stand, the first lines of many.
func linesOf(all []Finding) string {
	var lines []string
	for _, f := range all {
		if line := fmt.Sprint(f.Line); f.Line > 0 && !slices.Contains(lines, line) {
			if lines = append(lines, line); len(lines) > shownLines {
				lines[shownLines] = "…"
				break
			}
		}
	}
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return ", line " + lines[0]
	}
	return ", lines " + strings.Join(lines, ", ")
}

// counts says how many files were read, and what was found in them.
func (r *Report) counts() string {
	var counts [catalog.Page + 1]int
	fixable, doubts := 0, 0
	for _, f := range r.Findings {
		if f.Doubt {
			doubts++
			continue
		}
		counts[f.Severity]++
		if f.Fixable {
			fixable++
		}
	}
	text := fmt.Sprintf("%s, %s: %d page, %d ticket, %d info", render.Plural(len(r.Files), "file"), render.Plural(r.Expressions, "expression"), counts[catalog.Page], counts[catalog.Ticket], counts[catalog.Info])
	if doubts > 0 {
		text += "; " + render.Plural(doubts, doubtful)
	}
	if fixable > 0 {
		text += fmt.Sprintf("; --fix repairs %d", fixable)
	}
	return text
}

func sentence(s string) string {
	if word, _, _ := strings.Cut(s, " "); word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "]") || strings.HasSuffix(s, ")") && strings.Contains(s, "rate(") {
		return s
	}
	return s + "."
}

func oneLine(s string) string { return strings.Join(strings.Fields(render.Clean(s)), " ") }

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// ANSI styles (ECMA-48, Select Graphic Rendition).
const (
	bold   = "1"
	dim    = "2"
	red    = "1;31"
	green  = "1;32"
	yellow = "1;33"
)

// text lays a diagnosis out for a terminal.
type text struct {
	b       bytes.Buffer
	options Options
	width   int
}

func (t *text) diagnosis(d *diagnose.Diagnosis) {
	for i, v := range told(d) {
		if i > 0 {
			t.line("")
		}
		t.verdict(d, v)
		if more := alsoSick(d); i == 0 && more != "" {
			t.paragraph("  ", "  ", more)
		}
		if f := lead(d, v); f != nil {
			t.finding(d, f)
		}
		t.others(d, v, "ALSO FIRING", alsoFiring)
		t.others(d, v, "EXPLAINED BY "+v.ID, explained)
		t.others(d, v, "NOT YET LONG ENOUGH", pending)
		t.changes(d, v)
	}
	for i, v := range others(d) {
		if i == 0 {
			t.heading(strings.ToUpper(othersHead(d)))
		}
		t.paragraph("  ", "    ", otherLine(d, v, t.options.Verbose))
	}
	t.ruledOut(d)
	t.coverage(d)
	t.footer(d)
}

func (t *text) verdict(d *diagnose.Diagnosis, v *diagnose.Verdict) {
	style := yellow
	switch f := lead(d, v); {
	case v.Status == diagnose.OK:
		style = green
	case f != nil && f.Severity == catalog.Page:
		style = red
	}
	head := head(d, v)
	body := strings.TrimSpace(clean(sentence(v.Summary)) + " " + whereSince(d, v, t.options.Verbose))
	lines := wrap(head+": "+body, t.width, "  ")
	for i, line := range lines {
		if i == 0 && strings.HasPrefix(line, head) {
			line = t.style(style, head) + line[len(head):]
		}
		t.line(line)
	}
	if s := objectivesLine(lead(d, v)); s != "" {
		t.paragraph("  ", "  ", s)
	}
}

func (t *text) finding(d *diagnose.Diagnosis, f *diagnose.Finding) {
	if rows := evidenceRows(f.Evidence, t.options.Verbose); len(rows) > 0 {
		head := "EVIDENCE"
		if len(d.Targets) > 1 {
			head += " from " + clean(f.Targets[0])
		}
		t.heading(head)
		t.table(evidenceHead, rows)
	}
	if len(f.Reasons) > 0 {
		t.heading("WHY")
		for _, r := range f.Reasons {
			t.paragraph("  ", "  ", clean(sentence(r)))
		}
	}
	for i := range f.Fixes {
		fix := &f.Fixes[i]
		switch {
		case i == 0:
			t.heading("FIX")
			t.fix(fix)
		case t.options.Verbose:
			t.heading("OR")
			t.fix(fix)
		default:
			t.paragraph("  or: ", "      ", alternative(fix))
		}
	}
	t.paragraph("  Runbook: ", "    ", "sixty explain "+f.Pathology.ID)
}

// fix shows a remedy in full.
func (t *text) fix(f *catalog.Fix) {
	for i, line := range wrap("  "+clean(sentence(f.Summary)), t.width, "  ") {
		if i == 0 {
			line = "  " + t.style(bold, strings.TrimPrefix(line, "  "))
		}
		t.line(line)
	}
	for _, line := range commandLines(f) {
		t.line("    " + line) // not wrapped: to be copied
	}
	for _, a := range f.Arithmetic {
		t.paragraph("      ", "        ", clean(a))
	}
	if f.Tradeoff != "" {
		t.paragraph("    Cost: ", "      ", clean(sentence(f.Tradeoff)))
	}
	for _, line := range predictionLines(f.Predicted, t.options.Verbose) {
		t.paragraph("    ", "      ", clean(sentence(line)))
	}
	if f.Verify != "" {
		t.paragraph("    Verify: ", "      ", clean(sentence(f.Verify)))
	}
}

// alternative is a remedy in one line.
func alternative(f *catalog.Fix) string {
	s := clean(strings.TrimSuffix(f.Summary, "."))
	if args := f.Args(); args != "" {
		s += " (" + clean(args) + ")"
	}
	if brief := predictionBrief(f.Predicted); brief != "" {
		s += "; " + clean(brief)
	}
	return sentence(s)
}

func (t *text) others(d *diagnose.Diagnosis, v *diagnose.Verdict, head string, keep func(*diagnose.Finding) bool) {
	for i, f := range selected(d, v, keep) {
		if i == 0 {
			t.heading(head)
		}
		by := ""
		if f.InhibitedBy != "" && f.InhibitedBy != v.ID {
			by = " (explained by " + f.InhibitedBy + ")"
		}
		t.paragraph("  "+f.Pathology.ID+by+": ", "    ", summaryOf(d, f))
	}
}

func (t *text) changes(d *diagnose.Diagnosis, v *diagnose.Verdict) {
	intro, rows := changes(d, &v.Workload, t.options.Verbose)
	if intro == "" || quiet(d) && !v.Workload.Changed && !t.options.Verbose {
		return
	}
	if quiet(d) && !t.options.Verbose {
		t.paragraph("  ", "  ", strings.TrimSuffix(intro, ".")+whose(d, &v.Workload)+": "+inline(rows))
		return
	}
	t.heading("WHAT CHANGED" + whose(d, &v.Workload))
	t.paragraph("  ", "  ", intro)
	t.table(nil, rows)
}

// inline writes the rows of changes as one sentence.
func inline(rows [][]string) string {
	return sentence(strings.Join(each(rows, func(r *[]string) string {
		s := (*r)[0] + " " + (*r)[1]
		if (*r)[2] != "" {
			s += " (" + (*r)[2] + ")"
		}
		return s
	}), ", "))
}

func (t *text) ruledOut(d *diagnose.Diagnosis) {
	if quiet(d) && !t.options.Verbose {
		if len(d.Findings) > 0 {
			t.paragraph("  ", "  ", tally(d))
		}
		return
	}
	var rows [][]string
	for _, f := range selected(d, &d.Verdict, ruledOut) {
		rows = append(rows, []string{f.Pathology.ID, ruledOutLine(f)})
	}
	if len(rows) > 0 {
		t.heading("RULED OUT" + ofModel(&d.Verdict))
		t.pairs(rows)
	}
}

// How many groups of gaps are listed unless all are wanted: beside a finding,
// and where there is none.
const manyGaps, manyQuietGaps = 4, 2

func (t *text) coverage(d *diagnose.Diagnosis) {
	groups := gaps(d.Coverage)
	if len(groups) == 0 {
		return
	}
	brief, most, prefix := quiet(d) && !t.options.Verbose, manyGaps, "  "
	if brief {
		most, prefix = manyQuietGaps, "  Not checked: "
	} else {
		t.heading("NOT CHECKED")
	}
	for i := range groups {
		if i == most && !t.options.Verbose {
			n := 0
			for _, g := range groups[i:] {
				n += len(g.ids)
			}
			t.paragraph(prefix, "    ", fmt.Sprintf("%d more (--verbose lists them).", n))
			break
		}
		t.paragraph(prefix, "    ", groups[i].line(brief, t.options.Verbose))
	}
}

func (t *text) footer(d *diagnose.Diagnosis) {
	for _, n := range d.Notes {
		t.paragraph("  Note: ", "    ", clean(sentence(n)))
	}
	t.line("")
	for _, row := range footer(d, t.options.Verbose) {
		for _, line := range wrap(fmt.Sprintf("%-11s%s", row[0], row[1]), t.width, strings.Repeat(" ", 11)) {
			t.line(t.style(dim, line))
		}
	}
}

func (t *text) heading(s string) {
	t.line("")
	t.line(t.style(bold, s))
}

func (t *text) line(s string) {
	t.b.WriteString(strings.TrimRight(s, " "))
	t.b.WriteByte('\n')
}

// paragraph writes wrapped text behind a prefix, with a hanging indent.
func (t *text) paragraph(prefix, indent, s string) {
	for _, line := range wrap(prefix+s, t.width, indent) {
		t.line(line)
	}
}

// pairs writes names and texts in two columns, the second one wrapped.
func (t *text) pairs(rows [][]string) {
	w := 0
	for _, r := range rows {
		w = max(w, cells(r[0]))
	}
	for _, r := range rows {
		t.paragraph("  "+pad(r[0], w)+"  ", strings.Repeat(" ", min(w+4, t.width/2)), clean(cmp.Or(r[1], "its conditions do not hold")))
	}
}

// table writes columns aligned, numbers to the right; the head may be nil. In a
// terminal too narrow for it, each row becomes a paragraph.
func (t *text) table(head []string, rows [][]string) {
	all := rows
	if head != nil {
		all = append([][]string{head}, rows...)
	}
	widths := make([]int, len(rows[0]))
	total := -1
	for i := range widths {
		for _, r := range all {
			widths[i] = max(widths[i], cells(r[i]))
		}
		total += widths[i] + 3
	}
	if total > t.width {
		t.narrowTable(head, rows)
		return
	}
	last := len(widths) - 1
	for n, r := range all {
		line := "  " + pad(r[0], widths[0])
		for i, c := range r[1:] {
			if i+1 < last || head == nil { // thresholds line up by their operator, on the left
				c = strings.Repeat(" ", widths[i+1]-cells(c)) + c
			}
			line += "   " + c
		}
		if head != nil && n == 0 {
			line = t.style(dim, strings.TrimRight(line, " "))
		}
		t.line(line)
	}
}

func (t *text) narrowTable(head []string, rows [][]string) {
	for _, r := range rows {
		var parts []string
		for i, c := range r[1:] {
			if head != nil {
				c = head[i+1] + " " + c
			}
			if c != "" {
				parts = append(parts, c)
			}
		}
		t.paragraph("  "+r[0]+": ", "    ", strings.Join(parts, ", "))
	}
}

func (t *text) style(code, s string) string {
	if !t.options.Color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// cells is the width of a text; nothing here is wider than one cell a rune.
func cells(s string) int { return utf8.RuneCountInString(s) }

func pad(s string, w int) string { return s + strings.Repeat(" ", max(0, w-cells(s))) }

// beforeUnit reports whether the space at i stands between a number and a short
// word, most likely its unit.
func beforeUnit(r []rune, i int) bool {
	word := strings.TrimRight(strings.SplitN(string(r[i+1:min(len(r), i+8)]), " ", 2)[0], ".,;:)")
	return r[i-1] >= '0' && r[i-1] <= '9' && word != "" && cells(word) <= 3
}

// wrap breaks a text at spaces; lines but the first begin with the indent. The
// leading spaces of the text and runs of spaces within its first line are kept,
// for they align columns. A word longer than a line gets one of its own.
func wrap(s string, width int, indent string) []string {
	var lines []string
	for cells(s) > width {
		r := []rune(s)
		start := len(r) - len([]rune(strings.TrimLeft(s, " ")))
		cut := -1
		for i := start + 1; i < len(r) && (i <= width || cut < 0); i++ {
			if r[i] == ' ' && !beforeUnit(r, i) {
				cut = i
			}
		}
		if cut < 0 {
			break
		}
		lines = append(lines, strings.TrimRight(string(r[:cut]), " "))
		s = indent + strings.TrimLeft(string(r[cut:]), " ")
		if strings.TrimSpace(s) == "" {
			return lines
		}
	}
	return append(lines, s)
}

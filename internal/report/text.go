package report

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// text lays a diagnosis out for a terminal.
type text struct {
	*render.Text
	options Options
}

func (t *text) diagnosis(d *diagnose.Diagnosis) {
	for i, v := range told(d) {
		if i > 0 {
			t.Line("")
		}
		t.verdict(d, v)
		if more := alsoSick(d); i == 0 && more != "" {
			t.Paragraph("  ", "  ", more)
		}
		if f := d.Lead(v); f != nil {
			t.finding(d, f)
		}
		t.others(d, v, "ALSO FIRING", alsoFiring)
		t.others(d, v, "EXPLAINED BY "+v.ID, explained)
		t.others(d, v, "NOT YET LONG ENOUGH", pending)
		t.changes(d, v)
	}
	for i, v := range others(d) {
		if i == 0 {
			t.Heading(strings.ToUpper(othersHead(d)))
		}
		t.Paragraph("  ", "    ", otherLine(d, v, t.options.Verbose))
	}
	t.boundary(d)
	t.ruledOut(d)
	t.coverage(d)
	t.footer(d)
}

// boundary says what a gateway saw.
func (t *text) boundary(d *diagnose.Diagnosis) {
	if d.Boundary == nil {
		return
	}
	t.Heading("AT THE GATEWAY")
	for _, line := range d.Boundary.Lines() {
		t.Paragraph("  ", "    ", render.Clean(render.Sentence(line)))
	}
	for _, f := range d.Boundary.Findings {
		if f.ID != d.Verdict.ID {
			t.Paragraph("  "+f.ID+": ", "    ", render.Clean(render.Sentence(f.Summary)))
		}
	}
}

func (t *text) verdict(d *diagnose.Diagnosis, v *diagnose.Verdict) {
	style := render.Warning
	switch f := d.Lead(v); {
	case v.Status == diagnose.OK:
		style = render.Good
	case f != nil && f.Severity == catalog.Page:
		style = render.Bad
	}
	head := head(d, v)
	body := strings.TrimSpace(render.Clean(render.Sentence(v.Summary)) + " " + whereSince(d, v, t.options.Verbose))
	lines := render.Wrap(head+": "+body, t.Width(), "  ")
	for i, line := range lines {
		if i == 0 && strings.HasPrefix(line, head) {
			line = t.Style(style, head) + line[len(head):]
		}
		t.Line(line)
	}
	if s := objectivesLine(d.Lead(v)); s != "" {
		t.Paragraph("  ", "  ", s)
	}
}

func (t *text) finding(d *diagnose.Diagnosis, f *diagnose.Finding) {
	if rows := evidenceRows(f.Evidence, t.options.Verbose); len(rows) > 0 {
		head := "EVIDENCE"
		if len(d.Targets) > 1 {
			head += " from " + render.Clean(f.Targets[0])
		}
		t.Heading(head)
		t.Table(evidenceColumns(), rows)
	}
	if len(f.Reasons) > 0 {
		t.Heading("WHY")
		for _, r := range f.Reasons {
			t.Paragraph("  ", "  ", render.Clean(render.Sentence(r)))
		}
	}
	t.fixes(f.Fixes)
	t.Paragraph("  Runbook: ", "    ", "sixty explain "+f.Pathology.ID)
}

// fixes shows the first remedy in full.
func (t *text) fixes(fixes []catalog.Fix) {
	for i := range fixes {
		fix := &fixes[i]
		switch {
		case i == 0:
			t.Heading("FIX")
			t.fix(fix)
		case t.options.Verbose:
			t.Heading("OR")
			t.fix(fix)
		default:
			t.Paragraph("  or: ", "      ", alternative(fix))
		}
	}
}

// fix shows a remedy in full.
func (t *text) fix(f *catalog.Fix) {
	t.Styled(render.Bold, "  ", "  ", render.Clean(render.Sentence(f.Summary)))
	for _, line := range commandLines(f) {
		t.Line("    " + line) // not wrapped: to be copied
	}
	for _, a := range f.Arithmetic {
		t.Paragraph("      ", "        ", render.Clean(a))
	}
	if f.Tradeoff != "" {
		t.Paragraph("    Cost: ", "      ", render.Clean(render.Sentence(f.Tradeoff)))
	}
	for _, line := range predictionLines(f.Predicted, t.options.Verbose) {
		t.Paragraph("    ", "      ", render.Clean(render.Sentence(line)))
	}
	if f.Verify != "" {
		t.Paragraph("    Verify: ", "      ", render.Clean(render.Sentence(f.Verify)))
	}
}

// alternative is a remedy in one line.
func alternative(f *catalog.Fix) string {
	s := render.Clean(strings.TrimSuffix(f.Summary, "."))
	if args := f.Args(); args != "" {
		s += " (" + render.Clean(args) + ")"
	}
	if brief := predictionBrief(f.Predicted); brief != "" {
		s += "; " + render.Clean(brief)
	}
	return render.Sentence(s)
}

func (t *text) others(d *diagnose.Diagnosis, v *diagnose.Verdict, head string, keep func(*diagnose.Finding) bool) {
	for i, f := range selected(d, v, keep) {
		if i == 0 {
			t.Heading(head)
		}
		by := ""
		if f.InhibitedBy != "" && f.InhibitedBy != v.ID {
			by = " (explained by " + f.InhibitedBy + ")"
		}
		t.Paragraph("  "+f.Pathology.ID+by+": ", "    ", summaryOf(d, f))
	}
}

func (t *text) changes(d *diagnose.Diagnosis, v *diagnose.Verdict) {
	intro, rows := changes(d, &v.Workload, t.options.Verbose)
	if intro == "" || quiet(d) && !v.Workload.Changed && !t.options.Verbose {
		return
	}
	if quiet(d) && !t.options.Verbose {
		t.Paragraph("  ", "  ", strings.TrimSuffix(intro, ".")+whose(d, &v.Workload)+": "+inline(rows))
		return
	}
	t.Heading("WHAT CHANGED" + whose(d, &v.Workload))
	t.Paragraph("  ", "  ", intro)
	t.Table(render.Columns("", "", ""), rows)
}

// inline writes the rows of changes as one sentence.
func inline(rows [][]string) string {
	return render.Sentence(strings.Join(each(rows, func(r *[]string) string {
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
			t.Paragraph("  ", "  ", tally(d))
		}
		return
	}
	var rows [][]string
	for _, f := range selected(d, &d.Verdict, ruledOut) {
		rows = append(rows, []string{f.Pathology.ID, ruledOutLine(f)})
	}
	if len(rows) > 0 {
		t.Heading("RULED OUT" + ofModel(&d.Verdict))
		t.Pairs(rows)
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
		t.Heading("NOT CHECKED")
	}
	for i := range groups {
		if i == most && !t.options.Verbose {
			n := 0
			for _, g := range groups[i:] {
				n += len(g.ids)
			}
			t.Paragraph(prefix, "    ", fmt.Sprintf("%d more (--verbose lists them).", n))
			break
		}
		t.Paragraph(prefix, "    ", groups[i].line(brief, t.options.Verbose))
	}
}

func (t *text) footer(d *diagnose.Diagnosis) {
	for _, n := range d.Notes {
		t.Paragraph("  Note: ", "    ", render.Clean(render.Sentence(n)))
	}
	t.Line("")
	for _, row := range footer(d, t.options.Verbose) {
		t.Styled(render.Dim, render.Pad(row[0], 11), strings.Repeat(" ", 11), row[1])
	}
}

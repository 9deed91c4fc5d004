package report

import (
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// text lays a diagnosis out for a terminal.
type text struct {
	*render.Text
	options Options
	said    map[string]bool // of predictions: fixes rest on the same simulation
}

// full lays out everything that there is to say.
func full(d *diagnose.Diagnosis, o Options) *render.Text {
	t := text{render.NewText(o.Options), o, map[string]bool{}}
	for i, v := range told(d) {
		if i > 0 {
			t.Line("")
		}
		t.verdict(d, v, unbounded)
		if more := alsoSick(d); i == 0 && more != "" {
			t.Paragraph("  ", "  ", more)
		}
		if f := d.Lead(v); f != nil {
			if s := objectivesLine(f); s != "" {
				t.Paragraph("  ", "  ", s)
			}
			t.finding(d, f)
		}
		t.sections(verdictSections(d, v, true))
	}
	t.sections(lastSections(d, false, true))
	t.footer(d)
	return t.Text
}

func (t *text) sections(all []section) {
	for _, s := range all {
		t.Heading(strings.ToUpper(s.head) + s.of)
		if s.intro != "" {
			t.Paragraph("  ", "  ", s.intro)
		}
		t.Table(render.Columns("", "", ""), s.rows)
		var pairs [][]string
		for _, i := range s.items {
			switch {
			case s.short:
				pairs = append(pairs, []string{i.name, i.text})
			case i.name != "":
				t.Paragraph("  "+i.name+i.by+": ", "    ", i.text)
			default:
				t.Paragraph("  ", "    ", i.text)
			}
		}
		t.Pairs(pairs)
	}
}

// unbounded is more lines than a verdict takes.
const unbounded = 1 << 10

// verdict says what is wrong, where and since when, in at most so many lines.
func (t *text) verdict(d *diagnose.Diagnosis, v *diagnose.Verdict, lines int) {
	style := render.Warning
	switch f := d.Lead(v); {
	case v.Status == diagnose.OK:
		style = render.Good
	case f != nil && f.Severity == catalog.Page:
		style = render.Bad
	}
	t.Brief(lines, t.Style(style, head(d, v)), "  ", ": "+render.Sentence(v.Summary))
	if where := whereSince(d, v, t.options.Full); where != "" {
		t.Brief(max(1, lines/2), "  ", "  ", where)
	}
}

func (t *text) finding(d *diagnose.Diagnosis, f *diagnose.Finding) {
	if rows := evidenceRows(f.Evidence, false); len(rows) > 0 {
		head := "EVIDENCE"
		if len(d.Targets) > 1 {
			head += " from " + render.Clean(f.Targets[0])
		}
		t.Heading(head)
		t.Table(evidenceColumns(), rows)
		t.beside(f.Evidence)
	}
	if len(f.Reasons) > 0 {
		t.Heading("WHY")
		for _, r := range f.Reasons {
			t.Paragraph("  ", "  ", render.Sentence(r))
		}
	}
	for i := range f.Fixes {
		t.Heading([]string{"FIX", "OR"}[min(i, 1)])
		t.fix(&f.Fixes[i], first(f.Targets))
	}
	t.Paragraph("  Runbook: ", "    ", "sixty explain "+f.Pathology.ID)
}

// beside tells of the comparisons that speak for nothing, and what the thresholds are
// called.
func (t *text) beside(evidence []catalog.Evidence) {
	var not, unknown, names []string
	for _, e := range farthest(evidence, true) {
		switch e.Holds {
		case catalog.False:
			if !math.IsNaN(e.Threshold) { // an objective that nobody set
				not = append(not, comparison(&e))
			}
		case catalog.Unknown:
			unknown = append(unknown, e.Signal.Title)
		}
		if e.Name != "" && !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	for _, p := range []struct {
		head  string
		parts []string
	}{{"Does not hold: ", not}, {"Not known: ", unknown}, {"Thresholds, for --set: ", names}} {
		if len(p.parts) > 0 {
			t.Paragraph("  "+p.head, "    ", render.Clean(strings.Join(p.parts, "; "))+".")
		}
	}
}

// fix shows a remedy in full.
func (t *text) fix(f *catalog.Fix, target string) {
	t.Styled(render.Bold, "  ", "  ", render.Sentence(f.Summary))
	for i, line := range commandLines(f, target) {
		if i == 0 {
			t.Command("    ", line)
			continue
		}
		t.Paragraph("    ", "      ", line)
	}
	for _, a := range f.Arithmetic {
		t.Paragraph("      ", "        ", render.Clean(a))
	}
	if f.Tradeoff != "" {
		t.Paragraph("    Cost: ", "      ", render.Sentence(f.Tradeoff))
	}
	for _, line := range predictionLines(f.Predicted, true) {
		if !t.said[line] {
			t.Paragraph("    ", "      ", render.Sentence(line))
		}
		t.said[line] = true
	}
	if f.Verify != "" {
		t.Paragraph("    Verify: ", "      ", render.Sentence(f.Verify))
	}
}

func (t *text) footer(d *diagnose.Diagnosis) {
	for _, n := range d.Notes {
		t.Paragraph("  Note: ", "    ", render.Sentence(n))
	}
	t.Line("")
	for _, row := range footer(d, true) {
		t.Styled(render.Dim, render.Pad(row[0], 11), strings.Repeat(" ", 11), row[1])
	}
}

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// markdown lays a diagnosis out for a ticket or a chat.
type markdown struct {
	b       bytes.Buffer
	options Options
}

func (m *markdown) diagnosis(d *diagnose.Diagnosis) {
	for i, v := range told(d) {
		more := ""
		if i == 0 {
			more = alsoSick(d)
		}
		m.verdict(d, v, more)
	}
	m.sections(lastSections(d, quiet(d), m.options.Full))
	m.printf("\n### Basis\n\n")
	for _, n := range d.Notes {
		m.printf("- note: %s\n", render.Escape(render.Sentence(n)))
	}
	for _, row := range footer(d, m.options.Full) {
		m.printf("- %s: %s\n", cmp.Or(row[0], "target"), render.Escape(row[1]))
	}
}

func (m *markdown) verdict(d *diagnose.Diagnosis, v *diagnose.Verdict, more string) {
	if m.b.Len() > 0 {
		m.printf("\n")
	}
	head := "**" + v.ID + "**"
	if q := qualifier(d, v); q != "" {
		head += " (" + q + ")"
	}
	said := strings.TrimSpace(render.Sentence(v.Summary) + " " + whereSince(d, v, m.options.Full))
	m.printf("%s%s: %s\n", head, render.Escape(ofModel(v)), render.Escape(said))
	if more != "" {
		m.printf("\n%s\n", render.Escape(more))
	}
	if f := d.Lead(v); f != nil {
		if s := objectivesLine(f); s != "" {
			m.printf("\n%s\n", s)
		}
		m.finding(d, f)
	}
	m.sections(verdictSections(d, v, m.options.Full))
}

func (m *markdown) sections(all []section) {
	for _, s := range all {
		if s.head != "" {
			m.printf("\n### %s%s\n", s.head, render.Escape(s.of))
		}
		m.printf("\n")
		if s.intro != "" {
			m.printf("%s\n", render.Escape(s.intro))
		}
		if len(s.rows) > 0 {
			m.printf("\n")
			m.table([]string{"quantity", "normal → now", "change"}, s.rows)
		}
		for _, i := range s.items {
			name := ""
			switch {
			case s.short:
				name = i.name + ": "
			case i.name != "":
				name = "**" + i.name + "**" + i.by + ": "
			}
			m.printf("- %s%s\n", name, render.Escape(i.text))
		}
	}
}

func (m *markdown) finding(d *diagnose.Diagnosis, f *diagnose.Finding) {
	if rows := evidenceRows(f.Evidence, m.options.Full); len(rows) > 0 {
		from := ""
		if len(d.Targets) > 1 {
			from = " from " + render.Escape(render.Clean(f.Targets[0]))
		}
		m.printf("\n### Evidence%s\n\n", from)
		m.table(evidenceHead, rows)
	}
	if len(f.Reasons) > 0 {
		m.printf("\n### Why\n\n")
		for _, r := range f.Reasons {
			m.printf("- %s\n", render.Escape(render.Sentence(r)))
		}
	}
	if len(f.Fixes) > 0 {
		m.printf("\n### Fix\n\n")
		for i := range f.Fixes {
			m.fix(i+1, &f.Fixes[i], first(f.Targets))
		}
	}
	m.printf("\nRunbook: [%s](%s)\n", f.Pathology.ID, m.options.runbook(f.Pathology))
}

func (m *markdown) fix(n int, f *catalog.Fix, target string) {
	if n > 1 && !m.options.Full {
		m.printf("%d. %s\n", n, render.Escape(alternative(f)))
		return
	}
	m.printf("%d. %s\n", n, render.Escape(render.Sentence(f.Summary)))
	if lines := commandLines(f, target); len(lines)+len(f.Arithmetic) > 0 {
		for _, a := range f.Arithmetic {
			lines = append(lines, "  "+render.Clean(a))
		}
		code := strings.Join(lines, "\n   ")
		m.printf("\n   %[1]stext\n   %[2]s\n   %[1]s\n\n", render.Fence(code), code)
	}
	if f.Tradeoff != "" {
		m.printf("   Cost: %s  \n", render.Escape(render.Sentence(f.Tradeoff)))
	}
	for _, line := range predictionLines(f.Predicted, m.options.Full) {
		m.printf("   %s  \n", render.Escape(render.Sentence(line)))
	}
	if f.Verify != "" {
		m.printf("   Verify: %s\n", render.Escape(render.Sentence(f.Verify)))
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

func (m *markdown) table(head []string, rows [][]string) {
	m.row(head)
	m.printf("|%s\n", strings.Repeat(" --- |", len(head)))
	for _, r := range rows {
		m.row(r)
	}
}

func (m *markdown) row(cells []string) {
	m.printf("|")
	for _, c := range cells {
		m.printf(" %s |", render.Escape(render.Clean(c)))
	}
	m.printf("\n")
}

func (m *markdown) printf(format string, args ...any) { fmt.Fprintf(&m.b, format, args...) }

package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// Markdown writes a diagnosis as GitHub-flavoured Markdown.
func Markdown(w io.Writer, d diagnose.Diagnosis, o Options) error {
	doc, err := newDocument(&d, o)
	if err != nil {
		return err
	}
	doc.Title = ""
	return doc.Markdown(w)
}

// Plain writes the whole document as text, in which nothing is escaped.
func Plain(w io.Writer, d diagnose.Diagnosis, o Options) error {
	doc, err := newDocument(&d, o)
	if err != nil {
		return err
	}
	return doc.Text(w, o.Options, true)
}

// HTML writes a diagnosis as a self-contained page, with the plots that diagnose.Diagnosis.Plot fetched.
func HTML(w io.Writer, d diagnose.Diagnosis, o Options) error {
	doc, err := newDocument(&d, o)
	if err != nil {
		return err
	}
	return doc.HTML(w)
}

// A document is a report on a diagnosis that is being written. Without Options.Full it leaves out what few people read.
type document struct {
	*render.Document
	d       *diagnose.Diagnosis
	o       Options
	printed map[string]bool // lines of predictions that were added: fixes may share a simulation
}

// maxVerdicts bounds the verdicts with details, and maxListed the lines of a list, so that the document of a large
// fleet can still be sent.
const maxVerdicts, maxListed = 12, 60

// newDocument returns the document that Markdown, Plain and HTML write.
func newDocument(d *diagnose.Diagnosis, o Options) (*render.Document, error) {
	t := &document{render.NewDocument(nameVerdict(d, &d.Verdict) + d.At.UTC().Format(" at 2006-01-02 15:04 UTC")), d, o,
		map[string]bool{}}
	all := fullVerdicts(d)
	for i, v := range all[:min(len(all), maxVerdicts)] {
		others := ""
		if i == 0 {
			others = nameOtherFiring(d)
		}
		if err := t.addVerdict(v, others); err != nil {
			return nil, err
		}
	}
	t.addRest(len(all) - maxVerdicts)
	t.addBasis()
	return t.Document, nil
}

// addVerdict adds one verdict: the answer, targets and time, the finding, plots, related findings, changes and the
// runbook. others names the other models with findings, or is "".
func (t *document) addVerdict(v *diagnose.Verdict, others string) error {
	d := t.d
	t.Answer(styleOf(d, v), nameVerdict(d, v), summarize(v))
	f := d.LeadingFinding(v)
	for _, s := range []string{whereSince(d, v, t.o.Full), objectivesLine(f), others} {
		if s != "" {
			t.Paragraph("", s)
		}
	}
	t.Paragraph("", "Diagnosed at "+d.At.UTC().Format("2006-01-02 15:04:05 UTC")+".").In(render.Page)
	if f != nil {
		t.addFinding(f)
	}
	if figures, legend := drawPlots(d, v, f); len(figures) > 0 {
		t.ShowIn(render.Page)
		t.Section("Over time", "")
		t.Paragraph("", legend).Style = render.Dim
		t.Figures(figures...)
		t.ShowIn(render.Everywhere)
	}
	for _, s := range []struct {
		head, of string
		keep     func(*diagnose.Finding) bool
	}{{"Also firing", "", alsoFiring}, {"Explained by", " " + v.ID, explained}, {"Not confirmed yet", "", pending}} {
		for i, f := range selected(d, v, s.keep) {
			if i == 0 {
				t.Section(s.head, s.of)
			}
			by := ""
			if f.InhibitedBy != "" && f.InhibitedBy != v.ID {
				by = " (explained by " + f.InhibitedBy + ")"
			}
			t.Item(f.Pathology.ID+by, summaryOf(d, f))
		}
	}
	if intro, rows := changes(d, &v.Workload, t.o.Full); intro != "" &&
		(t.o.Full || !isBrief(d) || v.Workload.Changed) {
		t.Section("What changed", nameTarget(d, &v.Workload))
		t.Paragraph("", intro)
		t.Table(changeColumns(), rows)
	}
	if f == nil {
		return nil
	}
	runbook, err := render.MarkdownHTML(withoutTitle(f.Pathology.Runbook))
	t.ShowIn(render.Page)
	t.Section("Runbook", ": "+f.Pathology.Title).Folded = true
	t.Drawing(runbook)
	t.Paragraph("Also", t.o.runbook(f.Pathology)).Style = render.Dim
	t.Section("All comparisons", "").Folded = true
	t.Table(evidenceColumns(), EvidenceRows(f.Evidence, true))
	t.ShowIn(render.Everywhere)
	return err
}

// addFinding adds a finding's story, evidence, fixes and reasons.
func (t *document) addFinding(f *diagnose.Finding) {
	if story := f.Story(); story != "" {
		t.Paragraph("", story)
	}
	if rows := EvidenceRows(f.Evidence, t.o.Full); len(rows) > 0 {
		from := ""
		if len(t.d.Targets) > 1 {
			from = " from " + f.Targets[0]
		}
		t.Section("Evidence", from)
		t.Table(evidenceColumns(), rows)
	}
	for i, head := range catalog.Heads(f.Fixes) {
		fix := &f.Fixes[i]
		if head == catalog.Else && !t.o.Full {
			t.ShowIn(render.Markdown | render.Full)
			t.List("Or: " + describeAlternative(fix))
			t.ShowIn(render.Page)
		}
		t.Section(head, ": "+render.Sentence(fix.Summary)).Folded = head == catalog.Else
		addFix(t.Document, fix, first(f.Targets), t.o.Full, t.printed)
		t.ShowIn(render.Everywhere)
	}
	if len(f.Reasons) > 0 {
		t.Section("Why", "")
		for _, r := range f.Reasons {
			t.List(render.Sentence(r))
		}
	}
	t.Paragraph("Runbook", "sixty explain "+f.Pathology.ID).In(render.Full)
	t.Paragraph("Runbook", t.o.runbook(f.Pathology)).In(render.Markdown)
}

// addRest adds the sections after the verdicts: other models, the gateway, pathologies that were ruled out or not
// checked. omitted is the number of verdicts beyond maxVerdicts.
func (t *document) addRest(omitted int) {
	d := t.d
	var lines []string
	if omitted > 0 {
		lines = append(lines, fmt.Sprintf("%d more models have findings; select one with --match.", omitted))
	}
	for _, v := range briefVerdicts(d) {
		lines = append(lines, otherLine(d, v, t.o.Full))
	}
	if len(lines) > maxListed {
		lines = append(lines[:maxListed:maxListed], fmt.Sprintf("and %d more", len(lines)-maxListed))
	}
	t.addSentences(othersHead(d), lines)
	if i := d.Gateway(); i >= 0 && t.o.Full {
		if rows := gatewayRows(d, i); len(rows) > 0 {
			t.Section("At the gateway", " "+d.Targets[i].Name)
			t.Table(render.Columns("quantity", d.Targets[i].Version, "engines"), rows)
		}
	}
	switch ruled := selected(d, &d.Verdict, ruledOut); {
	case t.o.Full || !isBrief(d):
		if len(ruled) > 0 {
			t.Section("Ruled out", ofModel(&d.Verdict)).Folded = true
		}
		for _, f := range ruled {
			t.Item(f.Pathology.ID, ruledOutLine(f))
		}
	case len(d.Findings) > 0:
		t.Paragraph("", countOutcomes(d))
	}
	t.addSentences("Not checked",
		each(groupGaps(d.Coverage), func(g *gapGroup) string { return g.line(isBrief(d) && !t.o.Full, t.o.Full) }))
}

// addSentences adds a section of sentences, unless there are none.
func (t *document) addSentences(title string, sentences []string) {
	if len(sentences) > 0 {
		t.Section(title, "")
		t.List(sentences...)
	}
}

// addBasis adds what the answer is based on: notes, targets, window and baseline.
func (t *document) addBasis() {
	t.Section("Basis", "")
	for _, n := range t.d.Notes {
		t.Item("note", render.Sentence(n))
	}
	for _, row := range basisRows(t.d, t.o.Full) {
		t.Item(row[0], row[1])
	}
	if t.o.Full {
		return
	}
	t.ShowIn(render.Page)
	n := 0
	for i := range t.d.Targets {
		for _, row := range configRows(&t.d.Targets[i]) {
			if n++; n == 1 {
				t.Section("Configuration", "").Folded = true
			}
			if n <= maxListed {
				t.List(row[1])
			}
		}
	}
	t.ShowIn(render.Everywhere)
}

// styleOf returns the style of a verdict's name.
func styleOf(d *diagnose.Diagnosis, v *diagnose.Verdict) render.Style {
	switch f := d.LeadingFinding(v); {
	case f != nil && f.Severity == catalog.Page:
		return render.Bad
	case f != nil && f.Severity == catalog.Ticket:
		return render.Warning
	case v.Status == diagnose.Pending:
		return render.Uncertain
	case v.Status == diagnose.OK:
		return render.Good
	}
	return render.Bold
}

// describeAlternative returns a fix in one line.
func describeAlternative(f *catalog.Fix) string {
	s := strings.TrimSuffix(f.Summary, ".")
	if args := f.Args(); args != "" {
		s += " (" + args + ")"
	}
	if brief := predictionBrief(f.Predicted); brief != "" {
		s += "; " + brief
	}
	return render.Sentence(s)
}

// withoutTitle returns a runbook without its title, which the page has already.
func withoutTitle(markdown string) string {
	if _, rest, ok := strings.Cut(markdown, "\n"); ok && strings.HasPrefix(markdown, "# ") {
		return rest
	}
	return markdown
}

// AddFixes adds fixes to a document as a diagnosis in full shows them.
func AddFixes(d *render.Document, fixes []catalog.Fix) {
	shown := map[string]bool{}
	for i, head := range catalog.Heads(fixes) {
		d.Subsection(head, ": "+render.Sentence(fixes[i].Summary))
		addFix(d, &fixes[i], "", true, shown)
	}
}

// addFix adds a fix without its summary. It leaves out lines of predictions that are in printed, and adds the others
// there.
func addFix(d *render.Document, f *catalog.Fix, target string, verbose bool, printed map[string]bool) {
	lines := commandLines(f, target)
	if f.Args() != "" || f.Command != "" {
		d.Command(lines[0])
		lines = lines[1:]
	}
	for _, line := range lines {
		d.Paragraph("", line)
	}
	d.List(f.Arithmetic...)
	if f.Tradeoff != "" {
		d.Paragraph("Cost", render.Sentence(f.Tradeoff))
	}
	for _, line := range predictionLines(f.Predicted, verbose) {
		if !printed[line] {
			d.Paragraph("", render.Sentence(line))
		}
		printed[line] = true
	}
	if f.Verify != "" {
		d.Paragraph("Confirm", render.Sentence(f.Verify))
	}
}

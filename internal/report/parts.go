package report

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// Parts of a diagnosis that reports of other verdicts have too.

// EvidenceJSON is evidence as in the JSON of a diagnosis.
func EvidenceJSON(evidence []catalog.Evidence) any { return each(evidence, newEvidenceJSON) }

// FixesJSON is fixes as in the JSON of a diagnosis.
func FixesJSON(fixes []catalog.Fix) any { return each(fixes, newFixJSON) }

// WriteFixes writes fixes as in the text of a diagnosis: the first in full, the others in
// a line each; where all is asked for, all in full.
func WriteFixes(t *render.Text, fixes []catalog.Fix, full bool) {
	to := &text{t, Options{Full: full}, map[string]bool{}}
	for i := range fixes {
		if i > 0 && !full {
			t.Paragraph("  or: ", "      ", alternative(&fixes[i]))
			continue
		}
		t.Heading([]string{"FIX", "OR"}[min(i, 1)])
		to.fix(&fixes[i], "")
	}
}

// A section is a part of a diagnosis that the full text and the Markdown both have.
type section struct {
	head  string // of a terminal in capitals
	of    string // what the head is about
	intro string
	rows  [][]string // a quantity, its normal and its value now, and the difference
	items []item
	short bool // the items' texts are a few words
}

// An item has a name, or is a text alone.
type item struct{ name, by, text string }

// verdictSections are what there is to say of a verdict beside its cause.
func verdictSections(d *diagnose.Diagnosis, v *diagnose.Verdict, verbose bool) []section {
	var out []section
	for _, s := range []struct {
		section
		keep func(*diagnose.Finding) bool
	}{
		{section{head: "Also firing"}, alsoFiring},
		{section{head: "Explained by", of: " " + v.ID}, explained},
		{section{head: "Not yet long enough"}, pending},
	} {
		for _, f := range selected(d, v, s.keep) {
			by := ""
			if f.InhibitedBy != "" && f.InhibitedBy != v.ID {
				by = " (explained by " + f.InhibitedBy + ")"
			}
			s.items = append(s.items, item{f.Pathology.ID, by, summaryOf(d, f)})
		}
		if len(s.items) > 0 {
			out = append(out, s.section)
		}
	}
	intro, rows := changes(d, &v.Workload, verbose)
	if intro != "" && (verbose || !quiet(d) || v.Workload.Changed) {
		out = append(out, section{head: "What changed", of: whose(d, &v.Workload), intro: intro, rows: rows})
	}
	return out
}

// lastSections are what there is to say after all verdicts; brief, without the inputs that
// were missing where a hint says enough.
func lastSections(d *diagnose.Diagnosis, brief, verbose bool) []section {
	rest, ruled := section{head: othersHead(d)}, section{head: "Ruled out", of: ofModel(&d.Verdict), short: true}
	gateway, unchecked := section{head: "At the gateway"}, section{head: "Not checked"}
	for _, v := range others(d) {
		rest.items = append(rest.items, item{text: otherLine(d, v, verbose)})
	}
	if d.Boundary != nil {
		for _, line := range d.Boundary.Lines() {
			gateway.items = append(gateway.items, item{text: render.Sentence(line)})
		}
	}
	switch {
	case verbose || !quiet(d):
		for _, f := range selected(d, &d.Verdict, ruledOut) {
			ruled.items = append(ruled.items, item{name: f.Pathology.ID, text: ruledOutLine(f)})
		}
	case len(d.Findings) > 0:
		ruled = section{intro: tally(d)}
	}
	for _, g := range gaps(d.Coverage) {
		unchecked.items = append(unchecked.items, item{text: g.line(brief, verbose)})
	}
	return slices.DeleteFunc([]section{rest, gateway, ruled, unchecked}, func(s section) bool {
		return s.intro == "" && len(s.items) == 0
	})
}

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

// AddFixes adds fixes to a document as the text of a diagnosis shows them.
func AddFixes(d *render.Document, fixes []catalog.Fix) {
	said := map[string]bool{}
	for i := range fixes {
		f := &fixes[i]
		d.Part([]string{"Fix", "Or"}[min(i, 1)], "")
		addFix(d, f, "", said)
	}
}

// addFix adds a remedy in full. Predictions that were said are left out: fixes rest on the
// same simulation.
func addFix(d *render.Document, f *catalog.Fix, target string, said map[string]bool) {
	d.Say("", render.Sentence(f.Summary)).Strong = true
	for i, line := range commandLines(f, target) {
		if i == 0 {
			d.Command(line)
			continue
		}
		d.Say("", line)
	}
	d.List(f.Arithmetic...)
	if f.Tradeoff != "" {
		d.Say("Cost", render.Sentence(f.Tradeoff))
	}
	for _, line := range predictionLines(f.Predicted, true) {
		if !said[line] {
			d.Say("", render.Sentence(line))
		}
		said[line] = true
	}
	if f.Verify != "" {
		d.Say("Verify", render.Sentence(f.Verify))
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

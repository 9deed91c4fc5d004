package report

import (
	"github.com/sixty-dev/sixty/internal/catalog"
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

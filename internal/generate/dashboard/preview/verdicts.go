package preview

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/report"
)

// A Verdict is what a diagnosis says of a model, "" where there is only one.
type Verdict struct {
	report.Answer
	Onset time.Time // zero where nothing is wrong, or nobody saw it begin

	// Bad are the signals on which what fires rests.
	Bad []*indicator.Signal
}

// Verdicts are those of a diagnosis, for the head of the page.
func Verdicts(d *diagnose.Diagnosis) []Verdict {
	var out []Verdict
	for _, a := range report.Answers(d) {
		shown := Verdict{Answer: a}
		if !a.SinceAtLeast {
			shown.Onset = a.Since
		}
		for _, f := range d.Findings {
			if f.Status != diagnose.Firing || f.Model != a.Model {
				continue
			}
			for _, e := range f.Evidence {
				if e.Holds == catalog.True {
					shown.Bad = append(shown.Bad, e.Signal)
				}
			}
		}
		out = append(out, shown)
	}
	return out
}

package preview

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/report"
)

// Verdicts are those of a diagnosis, for the head of the page.
func Verdicts(d *diagnose.Diagnosis) []Verdict {
	var out []Verdict
	vs, banners := report.Banners(d)
	for i, v := range vs {
		shown := Verdict{Banner: banners[i], ID: v.ID, Model: v.Model}
		if !v.SinceAtLeast {
			shown.Onset = v.Since
		}
		for _, f := range d.Findings {
			if f.Status != diagnose.Firing || f.Model != v.Model {
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

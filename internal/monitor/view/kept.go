package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Kept is what the diagnosis of an incident says of its pathology, for people.
type Kept struct {
	At       time.Time
	Runbook  string
	Reasons  []string
	Evidence [][]string // quantity, value, normal value and threshold of each comparison that holds
}

// Kept reads the stored diagnosis of an incident; it is empty without one.
func (i *Incident) Kept() (out Kept) {
	var d struct {
		At       time.Time
		Findings []struct {
			ID, Status, Runbook string
			Reasons             []string
			Evidence            []struct {
				Title, Unit, Signal, Role string
				Value, Baseline           *float64
				ValueText                 string `json:"value_text"`
				BaselineText              string `json:"baseline_text"`
				LimitText                 string `json:"limit_text"`
				Holds                     *bool
			}
		}
	}
	if json.Unmarshal(i.Diagnosis, &d) != nil {
		return out
	}
	for _, f := range d.Findings {
		if f.ID != i.Pathology || f.Status != "firing" {
			continue
		}
		out = Kept{At: d.At, Runbook: f.Runbook, Reasons: f.Reasons}
		var shown []string // each quantity once, with its first comparison
		for _, e := range f.Evidence {
			if e.Holds == nil || !*e.Holds || e.Role == catalog.Guarded.String() || slices.Contains(shown, e.Signal) {
				continue
			}
			shown = append(shown, e.Signal)
			number := func(v *float64) string {
				if v == nil {
					return ""
				}
				return indicator.FormatNumber(*v, indicator.Unit(e.Unit))
			}
			out.Evidence = append(out.Evidence, []string{cmp.Or(e.Title, e.Signal), cmp.Or(e.ValueText, number(e.Value)), cmp.Or(e.BaselineText, number(e.Baseline)), e.LimitText})
		}
		break
	}
	return out
}

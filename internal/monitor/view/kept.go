package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Kept is what the diagnosis of an incident says of its pathology, for people.
type Kept struct {
	At             time.Time
	Title, Runbook string
	Reasons        []string
	Evidence       [][]string // quantity, value, normal and threshold of what holds
	Fixes          []KeptFix
}

// A KeptFix is a fix of a diagnosis, as its JSON has it.
type KeptFix struct{ Summary, Args, Command, Tradeoff, Verify string }

// Kept reads the diagnosis that is kept of an incident; it is empty where there is none.
func (i *Incident) Kept() (out Kept) {
	var d struct {
		At       time.Time
		Findings []struct {
			ID, Title, Status, Runbook string
			Reasons                    []string
			Evidence                   []struct {
				Title, Unit, Op, Signal    string
				Value, Baseline, Threshold *float64
				ValueText                  string `json:"value_text"`
				BaselineText               string `json:"baseline_text"`
				Holds                      *bool
			}
			Fixes []KeptFix
		}
	}
	if json.Unmarshal(i.Diagnosis, &d) != nil {
		return out
	}
	for _, f := range d.Findings {
		if f.ID != i.Pathology || f.Status != "firing" {
			continue
		}
		out = Kept{At: d.At, Title: f.Title, Runbook: f.Runbook, Reasons: f.Reasons, Fixes: f.Fixes}
		var shown []string // a quantity once: what it is compared with first decided
		for _, e := range f.Evidence {
			if e.Holds == nil || !*e.Holds || slices.Contains(shown, e.Signal) {
				continue
			}
			shown = append(shown, e.Signal)
			number := func(v *float64) string {
				if v == nil {
					return ""
				}
				return indicator.FormatNumber(*v, indicator.Unit(e.Unit))
			}
			limit := number(e.Threshold)
			if limit != "" {
				limit = e.Op + " " + limit
			}
			out.Evidence = append(out.Evidence, []string{cmp.Or(e.Title, e.Signal), cmp.Or(e.ValueText, number(e.Value)), cmp.Or(e.BaselineText, number(e.Baseline)), limit})
		}
		break
	}
	return out
}

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
	At             time.Time
	Title, Runbook string
	Reasons        []string
	Evidence       [][]string // quantity, value, normal value and threshold of each comparison that holds
	Fixes          []KeptFix  // the advice of the incident first
}

// A KeptFix is a fix of a diagnosis, as its JSON has it.
type KeptFix struct {
	Summary, Args, Command, Tradeoff, Verify string
	Stops                                    bool
	Head                                     string `json:"-"` // as catalog.Heads says
}

// Kept reads the stored diagnosis of an incident; it is empty without one.
func (i *Incident) Kept() (out Kept) {
	var d struct {
		At       time.Time
		Findings []struct {
			ID, Title, Status, Runbook string
			Reasons                    []string
			Evidence                   []struct {
				Title, Unit, Signal, Role string
				Value, Baseline           *float64
				ValueText                 string `json:"value_text"`
				BaselineText              string `json:"baseline_text"`
				LimitText                 string `json:"limit_text"`
				Holds                     *bool
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
		out = Kept{At: d.At, Title: f.Title, Runbook: f.Runbook, Reasons: f.Reasons, Fixes: i.advised(f.Fixes)}
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

// advised puts the chosen fixes first, each with its heading.
func (i *Incident) advised(fixes []KeptFix) (out []KeptFix) {
	if i.Advice != nil {
		for _, f := range i.Advice.Fixes {
			out = append(out, KeptFix{Summary: f.Summary, Args: f.Args(), Command: f.Command, Tradeoff: f.Tradeoff, Verify: f.Verify, Stops: f.Stops})
		}
	}
	for _, f := range fixes {
		if !slices.ContainsFunc(out, func(o KeptFix) bool { return o.Summary == f.Summary }) {
			out = append(out, f)
		}
	}
	ranked := make([]catalog.Fix, len(out))
	for k := range out {
		ranked[k].Stops = out[k].Stops
	}
	for k, head := range catalog.Heads(ranked) {
		out[k].Head = head
	}
	return out
}

package diagnose

import (
	"fmt"
	"slices"
	"time"
)

const (
	agreeing   = 3                // consecutive diagnoses, a second apart, that make a verdict certain
	sure       = 0.9              // the confidence that each of them needs
	remembered = 10 * time.Second // how long a fault outlasts quiet diagnoses
)

// A Hysteresis follows the successive diagnoses of watched servers. It says when a verdict is certain, and keeps a
// fault through moments that look healthy. The zero value has seen nothing.
type Hysteresis struct {
	first, last Diagnosis // the first and the last diagnosis that named the latest fault
	times       int       // how often it was named

	verdict string // the last verdict, if the diagnoses were sure of it
	same    int    // how many of them in a row
}

// Observe takes note of a diagnosis and reports whether its verdict is certain: given three
// times in a row, each time sure of itself, and without another fault seen before.
func (h *Hysteresis) Observe(d *Diagnosis) (certain bool) {
	h.rememberFault(d)
	if d.Verdict.Confidence < sure || d.Status != Firing && h.times > 0 {
		h.Restart()
		return false
	}
	if d.Verdict.ID != h.verdict {
		h.verdict, h.same = d.Verdict.ID, 0
	}
	h.same++
	return h.same >= agreeing
}

// Restart forgets the agreeing diagnoses, such as after one that could not be made.
func (h *Hysteresis) Restart() { h.verdict, h.same = "", 0 }

// rememberFault keeps the latest fault. A quiet diagnosis does not clear it, because some moments of a continuing fault
// look healthy.
func (h *Hysteresis) rememberFault(d *Diagnosis) {
	switch {
	case d.Status != Firing:
	case h.times > 0 && h.last.Verdict.ID == d.Verdict.ID:
		h.last = *d
		h.times++
	case h.times < agreeing || d.Verdict.Confidence >= h.last.Verdict.Confidence:
		h.first, h.last, h.times = *d, *d, 1
	}
}

// RestoreVerdict replaces a quiet last diagnosis by the fault that diagnoses agreed upon, if that was a moment ago;
// otherwise it adds a note. A finding that fires at the end leads in any case.
func (h *Hysteresis) RestoreVerdict(d *Diagnosis) {
	if d.Status == Firing || h.times < agreeing {
		return
	}
	clock := func(d *Diagnosis) string { return d.At.UTC().Format("15:04:05Z") }
	if ago := d.At.Sub(h.last.At); ago < remembered {
		now := d.Verdict.ID
		*d = h.last
		d.Notes = append(slices.Clip(d.Notes),
			fmt.Sprintf("found from %s to %s; the verdict of the last %.0f s is %s, too short to resolve it",
				clock(&h.first), clock(&h.last), ago.Seconds(), now))
		return
	}
	d.Notes = append(d.Notes, fmt.Sprintf("%s was found from %s to %s and no longer is: %s",
		h.last.Verdict.ID, clock(&h.first), clock(&h.last), h.last.Verdict.Summary))
}

// LimitConfidence lowers the confidence of a diagnosis to at most a bound.
func (d *Diagnosis) LimitConfidence(most float64) {
	for _, v := range d.allVerdicts() {
		v.Confidence = min(v.Confidence, most)
	}
	for i := range d.Findings {
		d.Findings[i].Confidence = min(d.Findings[i].Confidence, most)
	}
}

// MarkPartial limits the confidence of a diagnosis and turns healthy verdicts into unknown ones, because the unseen
// part may be wrong. why ends the sentence "Cannot tell: …".
func (d *Diagnosis) MarkPartial(most float64, why string) {
	d.LimitConfidence(most)
	for _, v := range d.allVerdicts() {
		if v.Status == OK {
			*v = Verdict{ID: InsufficientData, Summary: "Cannot tell: " + why, Model: v.Model, Targets: v.Targets,
				All: v.All, Workload: v.Workload}
		}
	}
	if d.Status == OK {
		d.Status = Unknown
	}
}

// WatchNeeded returns how much longer servers must be watched before the fixes of the verdict can be predicted; 0 if
// they are predicted already or never can be.
func (d *Diagnosis) WatchNeeded() time.Duration {
	most := time.Duration(0)
	if d.Status == Firing && len(d.Findings) > 0 {
		for i := range d.Findings[0].Fixes {
			if p := d.Findings[0].Fixes[i].Predicted; p != nil {
				most = max(most, p.Needs)
			}
		}
	}
	return most
}

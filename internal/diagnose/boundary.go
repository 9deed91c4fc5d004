package diagnose

import (
	"github.com/sixty-dev/sixty/internal/boundary"
	"github.com/sixty-dev/sixty/internal/catalog"
)

// boundaryConfidence is that of a verdict from the gateway's counts alone: they
// are exact, but say less of the cause than an engine's.
const boundaryConfidence = 0.8

// Join sets what a gateway saw beside the diagnosis. What is wrong there and in no
// engine becomes the verdict, for engines that look healthy, or idle, do not make
// the service so.
func (d *Diagnosis) Join(v *boundary.View) {
	d.Boundary = v
	if d.Status == Firing || len(v.Findings) == 0 {
		return
	}
	f := v.Findings[0]
	severity := catalog.Ticket
	if f.Page {
		severity = catalog.Page
	}
	verdict := Verdict{
		ID: f.ID, Status: Firing, Severity: severity, Summary: f.Summary + ". The engines' own metrics do not show it",
		Targets: d.Verdict.Targets, Confidence: boundaryConfidence, Workload: d.Verdict.Workload,
	}
	d.Status, d.Verdict = Firing, verdict
	d.Verdicts = append([]Verdict{verdict}, d.Verdicts...)
}

// BoundaryLimits are the shares from which on a gateway's counts are a finding: those that
// were set for the pathologies of the same names, an objective of availability as they
// follow it, or their defaults.
func (s *Settings) BoundaryLimits() boundary.Limits {
	l := boundary.Limits{ErrorShare: s.Set["http_5xx_share"], GaveUpShare: s.Set["abandoned_share"]}
	if o, ok := s.Objectives.For(nil); ok && l.ErrorShare == 0 && o.Availability > 0 && o.Availability < 1 {
		l.ErrorShare = 14.4 * (1 - o.Availability)
	}
	return l
}

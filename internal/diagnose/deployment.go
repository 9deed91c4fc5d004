package diagnose

import (
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
)

// findDeployments returns the paths of requests that pass servers of several roles, one for each model.
func findDeployments(s *Snapshot, d *Diagnosis) (out []Deployment) {
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		all := v.All
		for k := range s.Targets {
			if t := &s.Targets[k]; t.IsGateway() && !slices.Contains(all, t.Name) &&
				(len(d.Verdicts) == 1 || slices.Contains(t.Models, v.Model)) {
				all = append(slices.Clip(all), t.Name)
			}
		}
		by := map[engine.Role][]int{}
		for k := range s.Targets {
			if t := &s.Targets[k]; slices.Contains(all, t.Name) && (t.Serves() || t.IsGateway()) {
				r := s.roleOf(k)
				by[r] = append(by[r], k)
			}
		}
		if len(by) < 2 {
			continue
		}
		path := Deployment{Model: v.Model}
		for _, r := range engine.Roles() {
			if len(by[r]) > 0 {
				path.addStage(s, d, r, by[r])
			}
		}
		path.placeFindings(d, v)
		out = append(out, path)
	}
	return out
}

// addStage appends a stage, and the link to it.
func (w *Deployment) addStage(s *Snapshot, d *Diagnosis, r engine.Role, targets []int) {
	st := Stage{Role: r, Waiting: math.NaN(), Seconds: weightedMean(s, targets, indicator.TTFTMean,
		indicator.FirstTokenRate)}
	waiting := indicator.Waiting
	if r == engine.Router {
		waiting = indicator.GatewayHeld
		st.Seconds = weightedMean(s, targets, indicator.GatewayHeldFor, nil)
	}
	for _, i := range targets {
		st.Targets = append(st.Targets, s.Targets[i].Name)
		if d.Targets[i].Life == identity.LifeLost {
			st.Lost++
		}
		if v := s.Now(i, waiting); v.OK {
			if math.IsNaN(st.Waiting) {
				st.Waiting = 0
			}
			st.Waiting += v.V
		}
	}
	if n := len(w.Stages); n > 0 {
		l := Link{Carries: "requests", Seconds: math.NaN(), FailShare: math.NaN()}
		if r == engine.Decode && w.Stages[n-1].Role == engine.Prefill {
			l.Carries = "KV cache"
			l.Seconds = weightedMean(s, targets, indicator.TransferTime, indicator.FirstTokenRate)
			l.FailShare = weightedMean(s, targets, indicator.TransferFailShare, indicator.FirstTokenRate)
		}
		w.Links = append(w.Links, l)
		w.FirstToken += st.Seconds
	} else {
		w.FirstToken = st.Seconds
	}
	if r == engine.Router && math.IsNaN(st.Seconds) {
		w.FirstToken = 0
	}
	w.Stages = append(w.Stages, st)
}

// placeFindings assigns each firing finding of a model to the stage or the link that it is about.
func (w *Deployment) placeFindings(d *Diagnosis, v *Verdict) {
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Status != Firing || f.Model != v.Model || f.InhibitedBy != "" || f.Note {
			continue
		}
		if stage, link := w.hopOf(f); stage != nil {
			stage.Found = append(stage.Found, f.Pathology.ID)
		} else if link != nil {
			link.Found = append(link.Found, f.Pathology.ID)
		}
	}
}

// hopOf returns the stage or the link that a finding is about.
func (w *Deployment) hopOf(f *Finding) (*Stage, *Link) {
	for i := range w.Stages {
		st := &w.Stages[i]
		switch f.Pathology.Hop {
		case catalog.HopTransfer:
			if i > 0 && w.Links[i-1].Carries != "requests" {
				return nil, &w.Links[i-1]
			}
		case catalog.HopPrefill, catalog.HopDecode:
			if string(st.Role) == string(f.Pathology.Hop) {
				return st, nil
			}
		default:
			if len(f.Targets) > 0 && slices.Contains(st.Targets, f.Targets[0]) {
				return st, nil
			}
		}
	}
	return nil, nil
}

// Hop names the stage or the link that a verdict is about, such as "prefill" or "KV cache from
// prefill to decode"; "" where requests do not pass several roles.
func (d *Diagnosis) Hop(v *Verdict) string {
	for i := range d.Deployments {
		w := &d.Deployments[i]
		if w.Model != v.Model || v.Status != Firing {
			continue
		}
		for k := range w.Stages {
			if slices.Contains(w.Stages[k].Found, v.ID) {
				return string(w.Stages[k].Role)
			}
			if k > 0 && slices.Contains(w.Links[k-1].Found, v.ID) {
				return w.Links[k-1].Carries + " from " + string(w.Stages[k-1].Role) + " to " + string(w.Stages[k].Role)
			}
		}
	}
	return ""
}

// weightedMean returns the mean of a signal over targets, weighted by another signal; NaN where no target has it.
func weightedMean(s *Snapshot, targets []int, sig, by *indicator.Signal) float64 {
	var sum, weights float64
	for _, i := range targets {
		weight := 1.0
		if by != nil {
			weight = s.Now(i, by).Or(0)
		}
		if v := s.Now(i, sig); v.OK {
			sum, weights = sum+weight*v.V, weights+weight
		}
	}
	return sum / weights
}

package incident

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// A pool names the servers of one model.
type pool struct{ cluster, namespace, model string }

func (r *Record) pool() pool { return pool{r.Cluster, r.Namespace, r.Model} }

// A sign is something that a diagnosis found wrong in a pool, and that nothing found there
// explains.
type sign struct {
	pool
	*diagnose.Finding
	instances []string
	since     time.Time // in UTC, and not after the diagnosis
}

// An indexedDiagnosis is a diagnosis with indexes for lookups.
type indexedDiagnosis struct {
	*diagnose.Diagnosis
	at     time.Time                    // in UTC, as all times that are kept
	labels map[string]map[string]string // by target
	signs  []sign                       // the worst of each pool first
}

func newLook(d *diagnose.Diagnosis) *indexedDiagnosis {
	v := &indexedDiagnosis{Diagnosis: d, at: d.At.UTC(), labels: map[string]map[string]string{}}
	for i := range d.Targets {
		v.labels[d.Targets[i].Name] = d.Targets[i].Labels
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		// An informative finding is no sign of an incident.
		if f.Status != diagnose.Firing || f.InhibitedBy != "" || f.Severity < catalog.Ticket {
			continue
		}
		s := sign{pool: v.poolOf(f.Model, f.Targets), Finding: f, instances: v.instancesOf(f.Targets),
			since: f.Since.UTC()}
		if s.since.IsZero() || s.since.After(v.at) {
			s.since = v.at
		}
		v.signs = append(v.signs, s)
	}
	return v
}

// poolOf names the pool of targets: by their labels, since the name that a diagnosis gives
// depends on which other models there are.
func (v *indexedDiagnosis) poolOf(name string, targets []string) pool {
	l := v.Labels(name, targets)
	if l["model_name"] == "" {
		return pool{model: name}
	}
	return pool{l["cluster"], l["namespace"], l["model_name"]}
}

// instancesOf returns the label of targets that stays while their names change.
func (v *indexedDiagnosis) instancesOf(targets []string) []string {
	var out []string
	for _, t := range targets {
		i := v.labels[t]["instance"]
		if i == "" {
			i = t
		}
		if !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// share reports whether two lists have something in common.
func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// samePool reports whether an incident is one of a pool. Servers that are down from the
// beginning do not say which model they serve.
func (r *Record) samePool(p pool, instances []string) bool {
	return r.pool() == p || (r.Model == "" || p.model == "") && share(r.State.Instances, instances)
}

// verdictOf returns the index of the verdict on an incident's model, negative if there is none.
func (v *indexedDiagnosis) verdictOf(r *Record) int {
	return slices.IndexFunc(v.Verdicts, func(w diagnose.Verdict) bool {
		return r.samePool(v.poolOf(w.Model, w.Targets), v.instancesOf(slices.Concat(w.Targets, w.All)))
	})
}

// verdictWithout returns the verdict of a diagnosis without a sign of an incident, where it was judged and is not
// there. If it could not be judged, or is suspected, it is not over: that is nil.
func (v *indexedDiagnosis) verdictWithout(r *Record) *diagnose.Verdict {
	i := v.verdictOf(r)
	if i < 0 || v.Verdicts[i].Status == diagnose.Unknown || v.Verdicts[i].Status == diagnose.Pending {
		return nil
	}
	for _, u := range v.Unjudged {
		if share(r.State.Instances, v.instancesOf([]string{u.Target})) {
			return nil
		}
	}
	for k := range v.Findings {
		f := &v.Findings[k]
		if f.Status != diagnose.Unknown && f.Status != diagnose.Pending ||
			!slices.Contains(r.State.Members, f.Pathology.ID) {
			continue
		}
		if at := v.instancesOf(f.Targets); share(r.State.Instances, at) &&
			r.samePool(v.poolOf(f.Model, f.Targets), at) {
			return nil
		}
	}
	return &v.Verdicts[i]
}

// rulesOut reports whether a diagnosis rules the cause out that an incident is called by.
func (v *indexedDiagnosis) rulesOut(r *Record) bool {
	return slices.ContainsFunc(v.Findings, func(f diagnose.Finding) bool {
		return f.Pathology.ID == r.Pathology && f.Status == diagnose.OK && r.samePool(v.poolOf(f.Model, f.Targets),
			v.instancesOf(f.Targets))
	})
}

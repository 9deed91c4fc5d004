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

// A sign is a finding of an incident: it fires, is a page or a ticket, and no other finding explains it.
type sign struct {
	pool
	*diagnose.Finding
	instances []string  // instance labels of its servers
	since     time.Time // in UTC, and not after the diagnosis
}

// An indexedDiagnosis is a diagnosis with indexes for lookups.
type indexedDiagnosis struct {
	*diagnose.Diagnosis
	at     time.Time                    // of the diagnosis, in UTC
	labels map[string]map[string]string // by target
	signs  []sign                       // in the order of the findings: the worst of each pool first
}

func indexDiagnosis(diagnosis *diagnose.Diagnosis) *indexedDiagnosis {
	d := &indexedDiagnosis{Diagnosis: diagnosis, at: diagnosis.At.UTC(), labels: map[string]map[string]string{}}
	for i := range d.Targets {
		d.labels[d.Targets[i].Name] = d.Targets[i].Labels
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Status != diagnose.Firing || f.InhibitedBy != "" || f.Severity < catalog.Ticket {
			continue
		}
		s := sign{pool: d.poolOf(f.Model, f.Targets), Finding: f, instances: d.instancesOf(f.Targets),
			since: f.Since.UTC()}
		if s.since.IsZero() || s.since.After(d.at) {
			s.since = d.at
		}
		d.signs = append(d.signs, s)
	}
	return d
}

// poolOf returns the pool of targets, from their labels: the name that a diagnosis gives a model depends on its other
// models.
func (d *indexedDiagnosis) poolOf(name string, targets []string) pool {
	l := d.Labels(name, targets)
	if l["model_name"] == "" {
		return pool{model: name}
	}
	return pool{l["cluster"], l["namespace"], l["model_name"]}
}

// instancesOf returns the instance labels of targets. They stay the same when the targets' names change.
func (d *indexedDiagnosis) instancesOf(targets []string) []string {
	var out []string
	for _, t := range targets {
		i := d.labels[t]["instance"]
		if i == "" {
			i = t
		}
		if !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// overlap reports whether two lists have something in common.
func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// samePool reports whether an incident belongs to a pool. A server that was down from the beginning has no known model:
// its incident is matched by instances.
func (r *Record) samePool(p pool, instances []string) bool {
	return r.pool() == p || (r.Model == "" || p.model == "") && overlap(r.State.Instances, instances)
}

// verdictOf returns the index of the verdict on an incident's model, negative if there is none.
func (d *indexedDiagnosis) verdictOf(r *Record) int {
	return slices.IndexFunc(d.Verdicts, func(w diagnose.Verdict) bool {
		return r.samePool(d.poolOf(w.Model, w.Targets), d.instancesOf(slices.Concat(w.Targets, w.All)))
	})
}

// verdictWithout returns the verdict on an incident's model if the incident was judged and not found. It returns nil if
// the incident could not be judged or is suspected.
func (d *indexedDiagnosis) verdictWithout(r *Record) *diagnose.Verdict {
	i := d.verdictOf(r)
	if i < 0 || d.Verdicts[i].Status == diagnose.Unknown || d.Verdicts[i].Status == diagnose.Pending {
		return nil
	}
	for _, u := range d.Unjudged {
		if overlap(r.State.Instances, d.instancesOf([]string{u.Target})) {
			return nil
		}
	}
	for k := range d.Findings {
		f := &d.Findings[k]
		open := f.Status == diagnose.Unknown || f.Status == diagnose.Pending
		if !open || !slices.Contains(r.State.Members, f.Pathology.ID) {
			continue
		}
		instances := d.instancesOf(f.Targets)
		if overlap(r.State.Instances, instances) && r.samePool(d.poolOf(f.Model, f.Targets), instances) {
			return nil
		}
	}
	return &d.Verdicts[i]
}

// rulesOut reports whether a diagnosis rules out the cause that names an incident.
func (d *indexedDiagnosis) rulesOut(r *Record) bool {
	return slices.ContainsFunc(d.Findings, func(f diagnose.Finding) bool {
		return f.Pathology.ID == r.Pathology && f.Status == diagnose.OK &&
			r.samePool(d.poolOf(f.Model, f.Targets), d.instancesOf(f.Targets))
	})
}

package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// staleAfter is the number of missed evaluations, each as long as the last one, after which an evaluation is stale.
const staleAfter = 4

// NewOverview returns the overview of an evaluation, which may be nil. scraped lists the targets that a collector
// scrapes; it and find may be nil.
func NewOverview(e *Evaluation, every time.Duration, now time.Time, scraped []collect.Target,
	find FindIncident) view.Overview {
	o := view.Overview{Schema: view.OverviewSchema, At: now.UTC(), EveryS: every.Seconds(), State: view.Starting,
		Problems: []string{}, Models: []view.Model{}}
	if e == nil {
		o.Problems = append(o.Problems, "not evaluated yet: the first verdict comes within a minute")
		return o
	}
	o.At, o.EvaluatedS, o.State = e.At.UTC(), e.Took.Seconds(), view.OK
	shown := e
	if e.Err != nil && e.Before != nil {
		shown = e.Before
	}
	d := &shown.Diagnosis
	down := addProblems(&o, e, shown, scraped)
	if e.Took > every {
		o.Problems = append(o.Problems, fmt.Sprintf("an evaluation takes %.0f s, longer than the %.0f s between two: "+
			"the page is late by that", e.Took.Seconds(), every.Seconds()))
	}
	if age := now.Sub(e.At); age > staleAfter*max(every, e.Took) {
		addDoubt(&o, view.Stale, "the last evaluation is %.0f s old", age.Seconds())
	}
	for i := range d.Verdicts {
		o.Models = append(o.Models, newModel(d, &d.Verdicts[i], find))
	}
	addScrapeErrors(&o, scraped)
	if o.State == view.Stale || shown != e {
		forgetHealthy(&o)
	}
	o.Doubt()
	if len(d.Verdicts) == 0 && e.Err == nil {
		o.State = view.Partial
		if down == 0 {
			o.Problems = append(o.Problems, "no inference server among the scraped targets")
		}
	}
	return o
}

// addScrapeErrors adds the errors of scrapes to replicas that are down or unknown.
func addScrapeErrors(o *view.Overview, scraped []collect.Target) {
	for _, t := range scraped {
		if t.Error == "" {
			continue
		}
		for i := range o.Models {
			for k := range o.Models[i].Replicas {
				r := &o.Models[i].Replicas[k]
				if (r.Status == view.Down || r.Status == view.Unknown) && r.Labels["instance"] == t.Labels["instance"] {
					r.Reason += ": " + t.Error
				}
			}
		}
	}
}

// forgetHealthy makes healthy models and replicas unknown, because the evaluation is not recent.
func forgetHealthy(o *view.Overview) {
	for i := range o.Models {
		m := &o.Models[i]
		if m.Verdict.Status == view.Healthy {
			m.Verdict = view.Verdict{ID: diagnose.InsufficientData, Status: view.Unknown}
			m.Verdict.Summary = "Cannot tell: no recent samples"
			m.Text = m.Verdict.Summary + "."
		}
		for k := range m.Replicas {
			if r := &m.Replicas[k]; r.Status == view.Healthy || r.Status == view.Idle {
				r.Status, r.Reason = view.Unknown, "no recent samples"
			}
		}
	}
}

// addDoubt adds a problem that changes the state of the overview.
func addDoubt(o *view.Overview, state view.State, format string, args ...any) {
	o.State = state
	o.Problems = append(o.Problems, fmt.Sprintf(format, args...))
}

// addProblems adds the problems of the scrapes and of the evaluation. It returns how many targets do not answer.
func addProblems(o *view.Overview, e, shown *Evaluation, scraped []collect.Target) int {
	down, strangers := unjudgedTargets(scraped, &shown.Diagnosis)
	for _, t := range down {
		addDoubt(o, view.Partial, "%s does not answer: %s", t.Labels["instance"], cmp.Or(t.Error, "no scrape yet"))
	}
	for _, t := range strangers {
		addDoubt(o, view.Partial, "%s answers, but not with an inference server's metrics: check the address",
			t.Labels["instance"])
	}
	o.Problems = append(o.Problems, e.Warnings...)
	if e.Err != nil {
		addDoubt(o, view.Partial, "no diagnosis: %v", e.Err)
	}
	if shown != e {
		addDoubt(o, view.Partial, "what is known is of %s", shown.At.UTC().Format("15:04:05 UTC"))
	}
	for _, n := range shown.Diagnosis.Notes {
		if strings.HasPrefix(n, "partial:") {
			addDoubt(o, view.Partial, "%s", n)
		}
	}
	return len(down)
}

// unjudgedTargets lists scraped targets without a verdict, by address: down do not answer; strangers are in a job of
// inference servers and answer with other metrics.
func unjudgedTargets(scraped []collect.Target, d *diagnose.Diagnosis) (down, strangers []collect.Target) {
	jobs, judged := map[string]bool{}, map[string]bool{}
	for _, t := range d.Targets {
		judged[t.Labels["instance"]] = true
		jobs[t.Labels["job"]] = jobs[t.Labels["job"]] || t.Serves()
	}
	for _, t := range slices.SortedFunc(slices.Values(scraped),
		func(a, b collect.Target) int { return strings.Compare(a.Labels["instance"], b.Labels["instance"]) }) {
		switch {
		case judged[t.Labels["instance"]]:
		case t.Health != "up":
			down = append(down, t)
		case jobs[t.Labels["job"]]:
			strangers = append(strangers, t)
		}
	}
	return down, strangers
}

func newModel(d *diagnose.Diagnosis, v *diagnose.Verdict, find FindIncident) view.Model {
	out := view.Model{Model: v.Model, Verdict: view.Verdict{
		ID: v.ID, Status: statusOf(v.Status), Summary: v.Summary, Since: timeOf(v.Since), SinceAtLeast: v.SinceAtLeast,
		Confidence: new(v.Confidence),
	}, Replicas: []view.Replica{}}
	if v.Status == diagnose.Firing {
		out.Verdict.Severity = v.Severity.String()
	}
	incident := find.byID(v.Incident)
	if incident != nil {
		out.Incident, out.Phase = &incident.ID, incident.Phase
	}
	for i := range d.Targets {
		t := &d.Targets[i]
		if !t.Serves() || !speaksFor(d, v, t) {
			continue
		}
		out.Model = cmp.Or(t.Labels["model_name"], out.Model) // without cluster and namespace
		out.Namespace, out.Cluster = cmp.Or(out.Namespace, t.Labels["namespace"]),
			cmp.Or(out.Cluster, t.Labels["cluster"])
		out.Replicas = append(out.Replicas, newReplica(d, i, v))
	}
	slices.SortStableFunc(out.Replicas, func(a, b view.Replica) int { return strings.Compare(a.Target, b.Target) })
	addReplicaDoubts(&out, incident)
	name, affected, servers := diagnose.NameOf(v.ID), 0, len(out.Replicas)
	for i := range out.Replicas {
		if out.Replicas[i].Pathology == v.ID {
			affected++
		}
	}
	if f := d.LeadingFinding(v); f != nil {
		name = f.Pathology.Name()
		if v.Status == diagnose.Firing {
			out.Advice = firstFix(f)
		}
	}
	if incident != nil && incident.Pathology == v.ID {
		affected, servers = len(incident.Affected), incident.Servers
	}
	out.Describe(name, affected, servers)
	if incident != nil && v.Status != diagnose.Firing {
		out.Text = "Nothing of it is found now. It was: " + render.Sentence(incident.Summary)
	}
	return out
}

// addReplicaDoubts makes healthy replicas pending if the model's open incident was found on them last, or if they get
// no requests while the model is faulty and other replicas get some.
func addReplicaDoubts(m *view.Model, incident *view.Summary) {
	orZero := func(v *float64) float64 { return *cmp.Or(v, new(float64)) }
	found := m.Phase == view.Failing || m.Phase == view.Degraded
	othersServe := m.Verdict.Status == view.Firing &&
		slices.ContainsFunc(m.Replicas, func(r view.Replica) bool { return orZero(r.Now.RequestRate) > 0 })
	for i := range m.Replicas {
		switch r := &m.Replicas[i]; {
		case r.Status != view.Healthy || r.Pathology != "":
		case found && slices.Contains(incident.Affected, r.Target):
			r.Status, r.Reason = view.Pending, "its incident is not over"
		case othersServe && r.Now.RequestRate != nil && *r.Now.RequestRate == 0 && orZero(r.Now.RequestsRunning) == 0:
			r.Status, r.Reason = view.Pending, "starved: no request reaches it"
		}
	}
}

// speaksFor reports whether a verdict is on a target's model.
func speaksFor(d *diagnose.Diagnosis, v *diagnose.Verdict, t *diagnose.Target) bool {
	return len(d.Verdicts) == 1 || slices.Contains(v.All, t.Name)
}

func newReplica(d *diagnose.Diagnosis, i int, v *diagnose.Verdict) view.Replica {
	t := &d.Targets[i]
	r := view.Replica{Target: t.Name, Labels: t.Labels, Engine: string(t.Dialect.Engine), Version: t.Version,
		Status: view.Healthy, Life: string(t.Life)}
	switch {
	case t.Problem != "":
		r.Status, r.Reason = view.Unknown, t.Problem
	case v.ID == diagnose.Idle:
		r.Status = view.Idle
	case v.ID == diagnose.InsufficientData:
		r.Status, r.Reason = view.Unknown, v.Summary
	}
	for _, u := range d.Unjudged {
		if u.Target == t.Name {
			r.Status, r.Reason = view.Unknown, u.Reason
		}
	}
	if f := worstFinding(d, t); f != nil {
		r.Status, r.Pathology, r.Severity = statusOf(f.Status), f.Pathology.ID, f.Severity.String()
		r.Reason, r.Since = f.Summary, timeOf(f.Since)
		if f.Pathology.ID == "target-down" {
			r.Status = view.Down
		}
	}
	for _, doubt := range d.Doubts {
		switch found := r.Status == view.Firing || r.Status == view.Down; {
		case doubt.Target != t.Name || found && r.Severity != catalog.Info.String():
		case found: // a waiting client matters more than an informative finding
			r.Pathology, r.Severity, r.Since = "", "", nil
			fallthrough
		default:
			r.Status, r.Reason = view.Pending, doubt.Reason
		}
	}
	addNumbers(&r, d, i)
	return r
}

// worstFinding returns the first firing or suspected finding on a target that no other finding explains, or nil. The
// findings are ordered, the worst first.
func worstFinding(d *diagnose.Diagnosis, t *diagnose.Target) *diagnose.Finding {
	for k := range d.Findings {
		f := &d.Findings[k]
		if (f.Status == diagnose.Firing || f.Suspected()) && f.InhibitedBy == "" && !f.Note &&
			slices.Contains(f.Targets, t.Name) {
			return f
		}
	}
	return nil
}

// addNumbers adds a target's readings in the window and in the baseline.
func addNumbers(r *view.Replica, d *diagnose.Diagnosis, i int) {
	now, normal := &r.Now, &r.Normal
	add := func(s *indicator.Signal, ofNow, ofNormal **float64) {
		v, was := d.Reading(i, s)
		*ofNormal = numberOf(was)
		addBounds(normal, s, was)
		if r.Status != view.Down { // otherwise the values are old
			*ofNow = numberOf(v)
			addBounds(now, s, v)
		}
	}
	add(indicator.TTFTP95, &now.TTFTP95, &normal.TTFTP95)
	add(indicator.ITLP95, &now.ITLP95, &normal.ITLP95)
	add(indicator.Running, &now.RequestsRunning, &normal.RequestsRunning)
	add(indicator.Waiting, &now.RequestsWaiting, &normal.RequestsWaiting)
	add(indicator.KVUsage, &now.KVCacheUsage, &normal.KVCacheUsage)
	add(indicator.FirstTokenRate, &now.RequestRate, &normal.RequestRate)
	add(indicator.GenerationTokenRate, &now.OutputTokensRate, &normal.OutputTokensRate)
}

// addBounds adds the text of a value that is only known as a bucket or a bound.
func addBounds(n *view.Numbers, s *indicator.Signal, v indicator.Value) {
	text := indicator.FormatBound(v, s.Unit)
	if text == "" {
		return
	}
	if n.Bounds == nil {
		n.Bounds = map[string]string{}
	}
	n.Bounds[s.Name] = text
}

func numberOf(v indicator.Value) *float64 {
	if !v.OK {
		return nil
	}
	return &v.V
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func statusOf(s diagnose.Status) view.Status {
	switch s {
	case diagnose.Firing:
		return view.Firing
	case diagnose.Pending:
		return view.Pending
	case diagnose.OK:
		return view.Healthy
	}
	return view.Unknown
}

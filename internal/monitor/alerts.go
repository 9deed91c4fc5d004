package monitor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Alerts are sent as Prometheus sends them: every minute while they are active, so that an Alertmanager that was away
// learns of them, and for a quarter of an hour after their end. If an Alertmanager could not be reached meanwhile,
// the quarter of an hour begins at the last failure.
const (
	resend        = time.Minute
	resendEnded   = 15 * time.Minute
	awayAtMost    = 24 * time.Hour
	validFor      = 4 * resend
	goneFor       = time.Hour   // until an alert ends of whose model no server is known any more
	keepFiringFor = time.Minute // default
)

// An Alerter raises alerts: one for each finding of a model that no other finding explains. Observe is not safe for
// concurrent use.
type Alerter struct {
	// Send sends alerts; they are sent again until they end.
	Send func(...collect.Alert)
	// Away is the last time when one was not delivered; it may be nil.
	Away func() time.Time
	// Incident, which may be nil, finds what a finding is of.
	Incident FindIncident

	settings atomic.Pointer[Alerts]
	active   map[string]*activeAlert
}

// FindIncident returns the incident with an id, or nil.
type FindIncident func(id string) *view.Summary

func (find FindIncident) of(id string) *view.Summary {
	if find == nil || id == "" {
		return nil
	}
	return find(id)
}

type activeAlert struct {
	collect.Alert
	found      time.Time // first
	waits      bool      // it may be over before somebody looks, and nobody was told of it
	seen, sent time.Time
	ended      time.Time // zero while ongoing
	gateway    bool      // only a gateway sees it
}

// SetAlerts sets how findings become alerts, from the next evaluation on.
func (a *Alerter) SetAlerts(s Alerts) { a.settings.Store(&s) }

// Alerts are the settings that hold.
func (a *Alerter) Alerts() Alerts {
	if s := a.settings.Load(); s != nil {
		return *s
	}
	return Alerts{}
}

// Rank returns the rank of a severity by its configured name; the worst has the highest. Unknown severities, which
// users' rules may have, are unordered, and their rank is negative.
func (a Alerts) Rank(severity string) int {
	for _, s := range []catalog.Severity{catalog.Page, catalog.Ticket, catalog.Info} {
		if severity == cmp.Or(a.Severities[s.String()], s.String()) {
			return int(s)
		}
	}
	return -1
}

// Restore takes up alerts that went on when the monitor ended: they go on until their models are judged, also
// where the samples that they rest on are lost. It is called before the first evaluation.
func (a *Alerter) Restore(alerts []collect.Alert, now time.Time) {
	a.active = map[string]*activeAlert{}
	for _, al := range alerts {
		if al.Labels["pathology"] != "" { // otherwise it is the alert of a rule, or of the watchdog
			a.active[alertKey(al.Labels)] = &activeAlert{Alert: al, found: al.Began, seen: now}
		}
	}
}

// Observe processes the next evaluation. Alerts of targets that could not be judged stay active.
func (a *Alerter) Observe(_ context.Context, e *Evaluation) {
	if a.active == nil {
		a.active = map[string]*activeAlert{}
	}
	d := &e.Diagnosis
	known := map[[3]string]bool{}
	if e.Err == nil {
		a.fireAll(d, e.At)
		known = listJudged(d)
	}
	hold := cmp.Or(time.Duration(a.Alerts().KeepFiringFor), keepFiringFor)
	var out []collect.Alert
	// An alert about a gateway stays active until the gateway is read again, or is gone.
	unread := slices.ContainsFunc(d.Targets, func(t diagnose.Target) bool {
		return !t.Serves() && t.Life == identity.LifeLost
	})
	var away time.Time
	if a.Away != nil {
		away = a.Away()
	}
	for key, al := range a.active {
		if al.waits {
			if e.At.Sub(al.seen) >= hold {
				delete(a.active, key)
			}
			continue
		}
		judged, there := known[placeOf(al.Labels)]
		unseen := e.At.Sub(al.seen)
		over := judged && !(al.gateway && unread) && unseen >= hold || !there && e.Err == nil && unseen >= goneFor
		if over {
			al.end(e.At)
		}
		switch {
		case al.wasTold(e.At, away):
			delete(a.active, key)
		case e.At.Sub(al.sent) >= resend:
			al.sent, al.Ends = e.At, al.ended
			if al.ended.IsZero() {
				al.Ends = e.At.Add(validFor)
			}
			out = append(out, al.Alert)
		}
	}
	slices.SortFunc(out, func(x, y collect.Alert) int { return x.Began.Compare(y.Began) })
	a.Send(out...)
}

// fireAll raises the alerts of a diagnosis.
func (a *Alerter) fireAll(d *diagnose.Diagnosis, at time.Time) {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Status == diagnose.Firing && f.InhibitedBy == "" && !f.Note {
			for _, prefix := range alertPrefixes(d, f) {
				a.fires(d, f, prefix+f.Pathology.Alert, at)
			}
		}
	}
}

// end ends an alert that goes on.
func (al *activeAlert) end(at time.Time) {
	if al.ended.IsZero() {
		al.ended, al.sent = at, time.Time{}
	}
}

// wasTold reports whether the alert's end was sent for long enough since receivers were away last.
func (al *activeAlert) wasTold(at, away time.Time) bool {
	ago := at.Sub(al.ended)
	return !al.ended.IsZero() && ago > resendEnded && (at.Sub(away) > resendEnded || ago > awayAtMost)
}

// listJudged lists the models that a diagnosis could judge. A fault that it did not find on them is absent. A finding
// without a model belongs to the worst model.
func listJudged(d *diagnose.Diagnosis) map[[3]string]bool {
	out, labels := map[[3]string]bool{}, map[string]map[string]string{} // of targets
	for i := range d.Targets {
		labels[d.Targets[i].Name] = d.Targets[i].Labels
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		known := v.Status != diagnose.Unknown && v.Status != diagnose.Pending
		if i == 0 {
			out[[3]string{}] = known
		}
		all := d.Labels(v.Model, v.All)
		for _, name := range v.All {
			l := all // of a server that never answered, which has no model of its own
			if own := labels[name]; own["model_name"] != "" || all["model_name"] == "" {
				l = own
			}
			out[placeOf(l)] = known
		}
	}
	return out
}

// placeOf tells models of one name apart.
func placeOf(l map[string]string) [3]string {
	return [3]string{l["cluster"], l["namespace"], l["model_name"]}
}

// alertPrefixes are what the names of a finding's alerts begin with: one for each engine that it is found on.
func alertPrefixes(d *diagnose.Diagnosis, f *diagnose.Finding) []string {
	return dialect.AlertPrefixes(f.Pathology.Scope(), func(id engine.ID) bool {
		return slices.ContainsFunc(d.Targets, func(t diagnose.Target) bool {
			return t.Dialect.Engine == id && slices.Contains(f.Targets, t.Name)
		})
	})
}

// fires raises an alert of a finding.
func (a *Alerter) fires(d *diagnose.Diagnosis, f *diagnose.Finding, name string, at time.Time) {
	l := a.labels(d, f, name)
	of := a.Incident.of(f.Incident)
	key := alertKey(l)
	al := a.active[key]
	if al == nil || !al.ended.IsZero() {
		al = &activeAlert{Alert: collect.Alert{Labels: l, Began: f.Since, Path: "/"}, found: at, waits: true}
		a.active[key] = al
	}
	al.seen, al.gateway = at, f.Pathology.Scope() == indicator.Gateway
	al.waits = al.waits && at.Sub(al.found) < notifyAfter(d, f)
	text, was := describe(f, of), al.Annotations["description"]
	if of != nil {
		al.Path = "/incident/" + of.ID
		if !al.Began.Equal(f.Since) || lastLine(text) != lastLine(was) {
			al.Began, al.sent = f.Since, time.Time{} // as the incident says, from now on
		}
	}
	al.Annotations = map[string]string{"summary": f.Summary,
		"runbook_url": docs.PublishedRunbooks.PageURL(f.Pathology.ID)}
	if text != "" {
		al.Annotations["description"] = text
	}
}

// alertKey identifies an alert by its labels.
func alertKey(l map[string]string) string { return fmt.Sprint(l) } // which is sorted

// notifyAfter is for how long a finding must go on before people are told: a ticket as long as its
// alert rule waits; a page, where the rule waits at all, until it is in the next scrape too: a
// burst, or a second in which the machine stood still, may do it for a moment.
func notifyAfter(d *diagnose.Diagnosis, f *diagnose.Finding) time.Duration {
	if f.Severity < catalog.Page {
		return f.Wait
	}
	return min(f.Wait, d.Interval)
}

// labels identify an alert: they stay while its fault goes on and is as bad. The severity is
// the finding's, which is lower than the pathology's while the objectives are known to hold.
func (a *Alerter) labels(d *diagnose.Diagnosis, f *diagnose.Finding, name string) map[string]string {
	l := map[string]string{"pathology": f.Pathology.ID}
	maps.Copy(l, a.Alerts().labels(name, f.Severity))
	maps.Copy(l, d.Labels(f.Model, f.Targets))
	return l
}

// labels returns the labels of an alert with a name and a severity.
func (a Alerts) labels(name string, s catalog.Severity) map[string]string {
	l := map[string]string{"alertname": name, "severity": cmp.Or(a.Severities[s.String()], s.String())}
	maps.Copy(l, a.Labels)
	return l
}

// describe writes two lines: whom the incident hurts and how it came about, and what to do first. The notification
// adds a link.
func describe(f *diagnose.Finding, of *view.Summary) string {
	var lines []string
	if n := len(f.Targets); n > 0 {
		where := strings.Join(f.Targets[:min(n, 3)], ", ")
		if f.Servers > 1 {
			where = fmt.Sprintf("%d of %d servers: %s", n, f.Servers, where)
		}
		where = "On " + where
		if how := f.Links(); how != "" {
			where = how + ". " + where
		}
		if of != nil && of.Impact != nil {
			where = of.Impact.Text + ". " + where
		}
		lines = append(lines, where+".")
	}
	if fix := firstFix(f); fix != "" {
		lines = append(lines, fix)
	}
	return strings.Join(lines, "\n")
}

// firstFix is what to do first about a finding: "Now: Cap this model at 48 requests in flight." It is empty where
// nothing is advised.
func firstFix(f *diagnose.Finding) string {
	if heads := catalog.Heads(f.Fixes); len(heads) > 0 && heads[0] != catalog.Else {
		return heads[0] + ": " + strings.TrimRight(f.Fixes[0].Summary, ".") + "."
	}
	return ""
}

// lastLine is what an alert says to do.
func lastLine(description string) string {
	return description[strings.LastIndexByte(description, '\n')+1:]
}

// Samples are an evaluation as samples: sixty_finding for what fires or is pending, and
// sixty_verdict for each model, for those who keep them and for pages that show many
// monitors at once.
func (e *Evaluation) Samples() (out []collect.Sample) {
	if e.Err != nil {
		return nil
	}
	d, seen := &e.Diagnosis, map[string]bool{}
	add := func(l map[string]string, of string, targets []string, value float64) {
		maps.Copy(l, d.Labels(of, targets))
		for _, t := range d.Targets {
			if len(targets) == 1 && t.Name == targets[0] {
				l["instance"] = t.Labels["instance"]
			}
		}
		maps.DeleteFunc(l, func(_, v string) bool { return v == "" })
		if key := alertKey(l); !seen[key] {
			seen[key] = true
			out = append(out, collect.Sample{Labels: l, Value: value})
		}
	}
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Status >= diagnose.Pending {
			add(map[string]string{
				"__name__": "sixty_finding", "pathology": f.Pathology.ID, "status": f.Status.String(),
				"severity":     f.Severity.String(),
				"explained_by": f.InhibitedBy,
			}, f.Model, f.Targets, f.Confidence)
		}
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		add(map[string]string{
			"__name__": "sixty_verdict", "verdict": v.ID, "status": v.Status.String(), "model_name": v.Model,
		}, v.Model, v.Targets, v.Confidence)
	}
	return out
}

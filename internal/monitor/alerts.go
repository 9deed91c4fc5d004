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

// Alerts are sent as Prometheus sends them: every minute while they are active, so that a restarted Alertmanager learns
// of them, and for a quarter of an hour after their end or after the last failed delivery.
const (
	resend          = time.Minute
	resendEnded     = 15 * time.Minute
	maxAway         = 24 * time.Hour // until an ended alert is given up although deliveries still fail
	validFor        = 4 * resend
	endUnknownAfter = time.Hour   // until an alert of a model without servers ends
	keepFiringFor   = time.Minute // the default of AlertSettings.KeepFiringFor
)

// An Alerter raises an alert for each firing finding that no other finding explains. Observe is not safe for concurrent
// use.
type Alerter struct {
	Send     func(...collect.Alert)
	Away     func() time.Time // the time of the last failed delivery; may be nil
	Incident FindIncident     // may be nil

	settings atomic.Pointer[AlertSettings]
	active   map[string]*activeAlert
}

// FindIncident returns the incident with an ID, or nil.
type FindIncident func(id string) *view.Summary

// byID returns the incident with an ID. It returns nil for "" and for a nil FindIncident.
func (find FindIncident) byID(id string) *view.Summary {
	if find == nil || id == "" {
		return nil
	}
	return find(id)
}

type activeAlert struct {
	collect.Alert
	firstFound, lastFound time.Time
	unnotified            bool // within its hold duration: not sent yet
	sent                  time.Time
	ended                 time.Time // zero while it lasts
	gatewayScope          bool      // only a gateway shows it
}

// SetSettings sets how findings become alerts, from the next evaluation on.
func (a *Alerter) SetSettings(s AlertSettings) { a.settings.Store(&s) }

// Settings returns the present settings.
func (a *Alerter) Settings() AlertSettings {
	if s := a.settings.Load(); s != nil {
		return *s
	}
	return AlertSettings{}
}

// Rank returns the rank of a severity by its configured name; the worst has the highest. Other severities, which users'
// rules may have, have a negative rank.
func (a AlertSettings) Rank(severity string) int {
	for _, s := range []catalog.Severity{catalog.Page, catalog.Ticket, catalog.Info} {
		if severity == cmp.Or(a.Severities[s.String()], s.String()) {
			return int(s)
		}
	}
	return -1
}

// Restore continues the alerts that were active when the monitor ended. They stay active until their models are judged,
// even if their samples are lost. It is called before the first evaluation.
func (a *Alerter) Restore(alerts []collect.Alert, now time.Time) {
	a.active = map[string]*activeAlert{}
	for _, al := range alerts {
		if al.Labels["pathology"] != "" { // not the alert of a rule or of the watchdog
			a.active[alertKey(al.Labels)] = &activeAlert{Alert: al, firstFound: al.Began, lastFound: now}
		}
	}
}

// Observe processes the next evaluation. Alerts of targets that could not be judged stay active.
func (a *Alerter) Observe(_ context.Context, e *Evaluation) {
	if a.active == nil {
		a.active = map[string]*activeAlert{}
	}
	if e.Err == nil {
		a.raiseAlerts(&e.Diagnosis, e.At)
	}
	a.endAlerts(e)
	var away time.Time
	if a.Away != nil {
		away = a.Away()
	}
	var out []collect.Alert
	for key, al := range a.active {
		switch {
		case al.unnotified:
		case al.isDelivered(e.At, away):
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

// endAlerts ends the alerts that have not been found for the keep-firing time on a model that was judged, or for
// endUnknownAfter on a model without servers. The alert that names an incident goes on until that is quiet. An alert
// that was never sent is forgotten.
func (a *Alerter) endAlerts(e *Evaluation) {
	var places map[place]bool
	if e.Err == nil {
		places = judgedPlaces(&e.Diagnosis)
	}
	// An alert about a gateway stays active until the gateway is read again, or is gone.
	gatewayLost := slices.ContainsFunc(e.Diagnosis.Targets, func(t diagnose.Target) bool {
		return !t.Serves() && t.Life == identity.LifeLost
	})
	keepFor := cmp.Or(time.Duration(a.Settings().KeepFiringFor), keepFiringFor)
	incidentOf := func(al *activeAlert) string { return al.Path + " " + al.Labels["pathology"] }
	latest := map[string]time.Time{} // when each incident that goes on was found last
	for _, al := range a.active {
		if k := incidentOf(al); a.names(al) && al.lastFound.After(latest[k]) {
			latest[k] = al.lastFound
		}
	}
	for key, al := range a.active {
		absentFor := e.At.Sub(al.lastFound)
		at := placeOf(al.Labels)
		if _, known := places[at]; !known && al.Labels["model_name"] == "" {
			at = place{} // its server tells its model now
		}
		judged, exists := places[at]
		judged = judged && !al.lastFound.Equal(latest[incidentOf(al)])
		switch {
		case al.unnotified && absentFor >= keepFor:
			delete(a.active, key)
		case al.unnotified:
		case judged && !(al.gatewayScope && gatewayLost) && absentFor >= keepFor,
			!exists && e.Err == nil && absentFor >= endUnknownAfter:
			al.end(e.At)
		}
	}
}

// names reports whether an alert's pathology names its incident, which is open and not quiet.
func (a *Alerter) names(al *activeAlert) bool {
	i := a.Incident.byID(strings.TrimPrefix(al.Path, "/incident/"))
	return i != nil && i.Open() && i.QuietSince == nil && i.Pathology == al.Labels["pathology"]
}

// raiseAlerts raises or continues the alerts of a diagnosis.
func (a *Alerter) raiseAlerts(d *diagnose.Diagnosis, at time.Time) {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Status == diagnose.Firing && f.InhibitedBy == "" && !f.Note {
			for _, prefix := range alertPrefixes(d, f) {
				a.raiseAlert(d, f, prefix+f.Pathology.Alert, at)
			}
		}
	}
}

// end ends an alert that has not ended. It is sent at once.
func (al *activeAlert) end(at time.Time) {
	if al.ended.IsZero() {
		al.ended, al.sent = at, time.Time{}
	}
}

// isDelivered reports whether the alert's end was sent for resendEnded after the last failed delivery.
func (al *activeAlert) isDelivered(at, away time.Time) bool {
	ago := at.Sub(al.ended)
	return !al.ended.IsZero() && ago > resendEnded && (at.Sub(away) > resendEnded || ago > maxAway)
}

// A place identifies a model: cluster, namespace and name. The zero place stands for findings without a model.
type place [3]string

// judgedPlaces returns the models of a diagnosis. The value says whether the model was judged: an alert that is not
// found there is over. Findings without a model are judged with the worst model.
func judgedPlaces(d *diagnose.Diagnosis) map[place]bool {
	out, labels := map[place]bool{}, map[string]map[string]string{} // labels by target
	for i := range d.Targets {
		labels[d.Targets[i].Name] = d.Targets[i].Labels
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		judged := v.Status != diagnose.Unknown && v.Status != diagnose.Pending
		if i == 0 {
			out[place{}] = judged
		}
		common := d.Labels(v.Model, v.All)
		for _, name := range v.All {
			l := labels[name]
			if l["model_name"] == "" && common["model_name"] != "" { // the server has never answered
				l = common
			}
			out[placeOf(l)] = judged
		}
	}
	return out
}

func placeOf(l map[string]string) place { return place{l["cluster"], l["namespace"], l["model_name"]} }

// alertPrefixes returns the prefixes of a finding's alert names: one for each engine that it was found on.
func alertPrefixes(d *diagnose.Diagnosis, f *diagnose.Finding) []string {
	return dialect.AlertPrefixes(f.Pathology.Scope(), func(id engine.ID) bool {
		return slices.ContainsFunc(d.Targets, func(t diagnose.Target) bool {
			return t.Dialect.Engine == id && slices.Contains(f.Targets, t.Name)
		})
	})
}

// raiseAlert raises or continues an alert of a finding.
func (a *Alerter) raiseAlert(d *diagnose.Diagnosis, f *diagnose.Finding, name string, at time.Time) {
	l := a.labelsOf(d, f, name)
	incident := a.Incident.byID(f.Incident)
	key := alertKey(l)
	al := a.active[key]
	if al == nil || !al.ended.IsZero() {
		al = &activeAlert{Alert: collect.Alert{Labels: l, Began: f.Since, Path: "/"}, firstFound: at, unnotified: true}
		a.active[key] = al
	}
	al.lastFound, al.gatewayScope = at, f.Pathology.Scope() == indicator.Gateway
	al.unnotified = al.unnotified && at.Sub(al.firstFound) < notifyAfter(d, f)
	text := describeFinding(f, incident)
	if incident != nil {
		al.Path = "/incident/" + incident.ID
		if !al.Began.Equal(f.Since) || adviceLine(text) != adviceLine(al.Annotations["description"]) {
			al.Began, al.sent = f.Since, time.Time{} // send the change at once
		}
	}
	al.Annotations = map[string]string{"summary": f.Summary,
		"runbook_url": docs.PublishedRunbooks.PageURL(f.Pathology.ID)}
	if text != "" {
		al.Annotations["description"] = text
	}
}

// alertKey identifies an alert by its labels. Sprint sorts them.
func alertKey(l map[string]string) string { return fmt.Sprint(l) }

// notifyAfter returns the hold duration of a finding, until people are notified. A ticket has the hold duration of its
// alert rule. A page has one scrape interval, if its rule has any: a burst or a frozen machine may last one scrape.
func notifyAfter(d *diagnose.Diagnosis, f *diagnose.Finding) time.Duration {
	if f.Severity < catalog.Page {
		return f.Wait
	}
	return min(f.Wait, d.Interval)
}

// labelsOf returns the labels of a finding's alert. They identify it, and do not change while the severity is the same.
// The severity is the finding's: it is lower than the pathology's while the objectives are met.
func (a *Alerter) labelsOf(d *diagnose.Diagnosis, f *diagnose.Finding, name string) map[string]string {
	l := map[string]string{"pathology": f.Pathology.ID}
	maps.Copy(l, a.Settings().baseLabels(name, f.Severity))
	maps.Copy(l, d.Labels(f.Model, f.Targets))
	return l
}

// baseLabels returns the labels of any alert with a name and a severity.
func (a AlertSettings) baseLabels(name string, s catalog.Severity) map[string]string {
	l := map[string]string{"alertname": name, "severity": cmp.Or(a.Severities[s.String()], s.String())}
	maps.Copy(l, a.Labels)
	return l
}

// describeFinding writes two lines: the impact, the chain and the servers; and what to do first. The notification adds
// a link. incident may be nil.
func describeFinding(f *diagnose.Finding, incident *view.Summary) string {
	var lines []string
	if n := len(f.Targets); n > 0 {
		where := strings.Join(f.Targets[:min(n, 3)], ", ")
		if f.Servers > 1 {
			where = fmt.Sprintf("%d of %d servers: %s", n, f.Servers, where)
		}
		where = "On " + where
		if chain := f.Links(); chain != "" {
			where = chain + ". " + where
		}
		if incident != nil && incident.Impact != nil {
			where = incident.Impact.Text + ". " + where
		}
		lines = append(lines, where+".")
	}
	if fix := firstFix(f); fix != "" {
		lines = append(lines, fix)
	}
	return strings.Join(lines, "\n")
}

// firstFix returns what to do first about a finding: "Now: Cap this model at 48 requests in flight." It returns "" if
// nothing is advised.
func firstFix(f *diagnose.Finding) string {
	if heads := catalog.Heads(f.Fixes); len(heads) > 0 && heads[0] != catalog.Else {
		return heads[0] + ": " + strings.TrimRight(f.Fixes[0].Summary, ".") + "."
	}
	return ""
}

// adviceLine returns the last line of an alert's description: what to do first.
func adviceLine(description string) string {
	return description[strings.LastIndexByte(description, '\n')+1:]
}

// Samples returns an evaluation as samples, for storage and for dashboards of many monitors: sixty_finding for each
// firing or pending finding, and sixty_verdict for each model. The value is the confidence.
func (e *Evaluation) Samples() (out []collect.Sample) {
	if e.Err != nil {
		return nil
	}
	d, seen := &e.Diagnosis, map[string]bool{}
	add := func(l map[string]string, modelName string, targets []string, value float64) {
		maps.Copy(l, d.Labels(modelName, targets))
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

package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor/receivers"
)

const (
	blindAfter       = time.Minute // without an evaluation, until people are notified
	undeliveredAfter = time.Minute // of failing deliveries, until the other receivers are notified
	checkEvery       = 15 * time.Second
)

// A Watchdog sends an alert when nothing is judged. It needs neither the storage nor an evaluation. Meanwhile it raises
// the alerts of servers that do not answer, from the scrape loop alone, with the labels of the last evaluation.
type Watchdog struct {
	Monitor *Monitor
	Alerter *Alerter
	// Unstored says why the last samples were not stored; "" if they were.
	Unstored func() string
	// Full says how sixty handles a full disk; "" if the disk is not full.
	Full     func() string
	Targets  func() []collect.Target    // the scraped targets
	Failures func() []receivers.Failure // of receivers
	Send     func(...collect.Alert)
	Beat     func(collect.Alert) // sends a heartbeat

	lastCheck    time.Time   // the look before
	lastJudged   time.Time   // when a judgement last held
	evaluation   *Evaluation // that judgement, the first one where none has held
	active       map[string]collect.Alert
	isBlind      atomic.Bool
	failingSince map[string]time.Time // since when scrapes fail, by job and instance
}

// Blind reports whether nothing is judged.
func (w *Watchdog) Blind() bool { return w.isBlind.Load() }

// Run checks every few seconds until the context ends.
func (w *Watchdog) Run(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		w.Check(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// checkJudged returns since when nothing is judged, and why. blind is true once that lasts for longer than blindAfter.
func (w *Watchdog) checkJudged(now time.Time) (since time.Time, why string, blind bool) {
	e := w.Monitor.Latest()
	why = w.Unstored()
	if w.evaluation == nil && e != nil && e.Err == nil {
		w.evaluation = e // it names the servers, even if its samples were not stored
	}
	if step := now.Sub(w.lastCheck); step < 0 || step > blindAfter { // it begins, or the clock was set
		w.lastJudged = now
		clear(w.failingSince)
	}
	w.lastCheck = now
	// An evaluation in the future is from before the clock was set back.
	if e != nil && e.Err == nil && why == "" && e.At.After(w.lastJudged) && !e.At.After(now) {
		w.lastJudged, w.evaluation = e.At, e
	}
	switch {
	case why != "":
	case e != nil && e.Err != nil:
		why = e.Err.Error()
	default:
		why = fmt.Sprintf("no evaluation ended in the last %.0f s", now.Sub(w.lastJudged).Seconds())
	}
	return w.lastJudged, why, now.Sub(w.lastJudged) > max(blindAfter, staleAfter*w.Monitor.Every())
}

// noteFailures updates failingSince.
func (w *Watchdog) noteFailures(now time.Time) {
	failed := map[string]time.Time{}
	for _, t := range w.Targets() {
		if t.Health != "down" {
			continue
		}
		key := serverKey(t.Labels)
		if failed[key] = now; !w.failingSince[key].IsZero() {
			failed[key] = w.failingSince[key]
		}
	}
	w.failingSince = failed
}

// makeDownAlerts returns the alerts of servers that have not answered for blindAfter, one for each model and engine.
func (w *Watchdog) makeDownAlerts(now time.Time) (out []collect.Alert) {
	i := slices.IndexFunc(w.Monitor.opts.Diagnose.Pathologies,
		func(p *catalog.Pathology) bool { return p.ID == "target-down" })
	if w.evaluation == nil || i < 0 {
		return nil
	}
	d, p := &w.evaluation.Diagnosis, w.Monitor.opts.Diagnose.Pathologies[i]
	for _, v := range d.Verdicts {
		f := diagnose.Finding{Pathology: p, Model: v.Model, Severity: catalog.Ticket}
		all := 0
		for _, t := range d.Targets {
			if !t.Serves() || !speaksFor(d, &v, &t) {
				continue
			}
			all++
			if since := w.failingSince[serverKey(t.Labels)]; !since.IsZero() && now.Sub(since) > blindAfter {
				f.Targets = append(f.Targets, t.Name)
			}
		}
		if len(f.Targets) == 0 {
			continue
		}
		if 2*len(f.Targets) > all {
			f.Severity = catalog.Page
		}
		f.Summary = fmt.Sprintf("%d of %d servers do not answer: %s", len(f.Targets), all,
			strings.Join(f.Targets[:min(3, len(f.Targets))], ", "))
		for _, prefix := range alertPrefixes(d, &f) {
			out = append(out, collect.Alert{
				Labels: w.Alerter.labelsOf(d, &f, prefix+p.Alert), Began: now, Path: "/",
				Annotations: map[string]string{"summary": f.Summary,
					"runbook_url": docs.PublishedRunbooks.PageURL(p.ID)},
			})
		}
	}
	return out
}

// newAlert returns an alert about sixty itself.
func (w *Watchdog) newAlert(name string, severity catalog.Severity, began time.Time, summary string) collect.Alert {
	return collect.Alert{Labels: w.Alerter.Settings().baseLabels(name, severity),
		Annotations: map[string]string{"summary": summary}, Began: began, Path: "/"}
}

// Check sends the present alerts, the end of earlier ones and, unless sixty is blind, a heartbeat.
func (w *Watchdog) Check(now time.Time) {
	now = now.Round(0) // wall clock, as the times of samples
	var alerts []collect.Alert
	since, why, blind := w.checkJudged(now)
	if w.noteFailures(now); blind {
		a := w.newAlert("SixtyBlind", catalog.Page, since, fmt.Sprintf("sixty judges nothing since %s: %s",
			since.UTC().Format("15:04:05 UTC"), why))
		a.Annotations["description"] = "No fault is found until this is fixed. " +
			"Servers that do not answer are still reported."
		alerts = append(w.makeDownAlerts(now), a)
	} else {
		beat := w.newAlert(receivers.Heartbeat, catalog.Page, now, "sixty judges")
		delete(beat.Labels, "severity")
		beat.Ends = now.Add(2 * checkEvery)
		w.Beat(beat)
		if w.isBlind.Load() {
			for _, a := range w.makeDownAlerts(now) {
				delete(w.active, alertKey(a.Labels)) // the Alerter continues it
			}
		}
	}
	if text := w.Full(); text != "" {
		alerts = append(alerts, w.newAlert("SixtyDiskFull", catalog.Ticket, now, text))
	}
	for _, f := range w.Failures() {
		if now.Sub(f.Since) > undeliveredAfter {
			a := w.newAlert(receivers.Failing, catalog.Ticket, f.Since, f.String())
			a.Labels["receiver"] = f.Receiver
			alerts = append(alerts, a)
		}
	}
	w.isBlind.Store(blind)
	w.send(now, alerts)
}

// send sends alerts, and the end of earlier alerts that are not among them.
func (w *Watchdog) send(now time.Time, alerts []collect.Alert) {
	active := map[string]collect.Alert{}
	for _, a := range alerts {
		key := alertKey(a.Labels)
		if before, goes := w.active[key]; goes && before.Began.Before(now) { // unless the clock was set back
			a.Began = before.Began
		}
		a.Ends = now.Add(validFor)
		active[key] = a
	}
	out := slices.Collect(maps.Values(active))
	for key, a := range w.active {
		if _, goes := active[key]; !goes {
			a.Ends = now
			if a.Began.After(now) {
				a.Began = now
			}
			out = append(out, a)
		}
	}
	w.active = active
	w.Send(out...)
}

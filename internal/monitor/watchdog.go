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

// blindAfter is how long nothing may be judged until people are told; undeliveredAfter how long a receiver
// may fail until the others are.
const (
	blindAfter       = time.Minute
	undeliveredAfter = time.Minute
	beatEvery        = 15 * time.Second // between two looks
)

// A Watchdog alerts when there are no evaluations. It needs neither the storage nor an evaluation. Meanwhile it
// raises the alerts of servers that do not answer, from the scrape loop alone, with the labels that an evaluation
// would give them.
type Watchdog struct {
	Monitor *Monitor
	Alerter *Alerter
	// Unstored says why the last samples were not stored, "" where they were.
	Unstored func() string
	// Full says what sixty does about a full disk; "" without one.
	Full func() string
	// Targets returns the scraped targets.
	Targets func() []collect.Target
	// Failures returns the failures of receivers.
	Failures func() []receivers.Failure
	Send     func(...collect.Alert)
	// Beat sends a heartbeat.
	Beat func(collect.Alert)

	looked     time.Time   // the look before
	judged     time.Time   // when a judgement last held
	evaluation *Evaluation // that judgement, the first one where none has held
	active     map[string]collect.Alert
	isBlind    atomic.Bool
	failed     map[string]time.Time // since when scrapes fail, by job and instance
}

// Blind reports whether nothing is judged.
func (w *Watchdog) Blind() bool { return w.isBlind.Load() }

// Run looks every few seconds until the context ends.
func (w *Watchdog) Run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
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

// checkSight says since when nothing is judged, and why; blind is false while something is, or was a moment
// ago.
func (w *Watchdog) checkSight(now time.Time) (since time.Time, why string, blind bool) {
	e := w.Monitor.Latest()
	why = w.Unstored()
	if w.evaluation == nil && e != nil && e.Err == nil {
		w.evaluation = e // which may know what there is, if no more
	}
	if step := now.Sub(w.looked); step < 0 || step > blindAfter { // it begins, or the clock was set
		w.judged = now
		clear(w.failed)
	}
	w.looked = now
	// none of a clock that was ahead
	if e != nil && e.Err == nil && why == "" && e.At.After(w.judged) && !e.At.After(now) {
		w.judged, w.evaluation = e.At, e
	}
	switch {
	case why != "":
	case e != nil && e.Err != nil:
		why = e.Err.Error()
	default:
		why = fmt.Sprintf("no evaluation ended in the last %.0f s", now.Sub(w.judged).Seconds())
	}
	return w.judged, why, now.Sub(w.judged) > max(blindAfter, staleAfter*w.Monitor.Every())
}

// noteFailures notes since when scrapes of targets fail.
func (w *Watchdog) noteFailures(now time.Time) {
	failed := map[string]time.Time{}
	for _, t := range w.Targets() {
		if t.Health != "down" {
			continue
		}
		key := scrapedAs(t.Labels)
		if failed[key] = now; !w.failed[key].IsZero() {
			failed[key] = w.failed[key]
		}
	}
	w.failed = failed
}

// makeDownAlerts returns the alerts of servers that have not answered for a minute, one for each model and engine.
func (w *Watchdog) makeDownAlerts(now time.Time) (out []collect.Alert) {
	i := slices.IndexFunc(w.Monitor.o.Diagnose.Pathologies,
		func(p *catalog.Pathology) bool { return p.ID == "target-down" })
	if w.evaluation == nil || i < 0 {
		return nil
	}
	d, p := &w.evaluation.Diagnosis, w.Monitor.o.Diagnose.Pathologies[i]
	for _, v := range d.Verdicts {
		f := diagnose.Finding{Pathology: p, Model: v.Model, Severity: catalog.Ticket}
		all := 0
		for _, t := range d.Targets {
			if !t.Serves() || !serves(d, &v, &t) {
				continue
			}
			all++
			if since := w.failed[scrapedAs(t.Labels)]; !since.IsZero() && now.Sub(since) > blindAfter {
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
				Labels: w.Alerter.labels(d, &f, prefix+p.Alert), Began: now, Path: "/",
				Annotations: map[string]string{"summary": f.Summary,
					"runbook_url": docs.PublishedRunbooks.PageURL(p.ID)},
			})
		}
	}
	return out
}

// alert is one about sixty itself.
func (w *Watchdog) alert(name string, severity catalog.Severity, began time.Time, summary string) collect.Alert {
	return collect.Alert{Labels: w.Alerter.Alerts().labels(name, severity),
		Annotations: map[string]string{"summary": summary}, Began: began, Path: "/"}
}

// Check looks once, and sends what there is to say; that is sent again while it lasts.
func (w *Watchdog) Check(now time.Time) {
	now = now.Round(0) // by the wall clock, as samples are
	var alerts []collect.Alert
	since, why, blind := w.checkSight(now)
	if w.noteFailures(now); blind {
		a := w.alert("SixtyBlind", catalog.Page, since, fmt.Sprintf("sixty judges nothing since %s: %s",
			since.UTC().Format("15:04:05 UTC"), why))
		a.Annotations["description"] = "No fault is found until this is fixed. Servers that do not answer are still reported."
		alerts = append(w.makeDownAlerts(now), a)
	} else {
		beat := w.alert(receivers.Heartbeat, catalog.Page, now, "sixty judges")
		delete(beat.Labels, "severity")
		beat.Ends = now.Add(2 * beatEvery)
		w.Beat(beat)
	}
	if text := w.Full(); text != "" {
		alerts = append(alerts, w.alert("SixtyDiskFull", catalog.Ticket, now, text))
	}
	for _, f := range w.Failures() {
		if now.Sub(f.Since) > undeliveredAfter {
			a := w.alert(receivers.Failing, catalog.Ticket, f.Since, f.String())
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

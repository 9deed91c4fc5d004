// Package incident turns consecutive diagnoses into incidents: what began, how the verdict changed, when it ended, who
// acted, and what helped.
//
// A [Tracker] takes the diagnoses in order ([Tracker.Observe]). For each of them it
//
//  1. collects the signs (indexDiagnosis): findings that fire, are a page or a ticket, and are not explained by others;
//  2. assigns each sign to an open or recent incident on the same servers (incidentOf), by pathology, by the causes in
//     the catalogue, and by onset. A sign without an incident begins one, unless it is the restart of a sick server;
//  3. continues the incidents that have signs (continueFound): severity, onsets, name, title, story and advice;
//  4. lets the others become quiet, and ends them after [QuietToEnd] (continueUnseen). An incident that cannot be
//     judged stays open;
//  5. notes what happens to the servers, and measures an applied fix (watchServers).
//
// An incident is named after one pathology, Pathology in its summary. The name moves to a cause of it, to a worse fault
// that is no symptom of it, or to another cause once evidence refuted it (updateName). Title, story and advice belong
// to the name: each is decided once and changes only for a reason, which is an event.
//
// [Tracker.Conform] writes the decisions back into a diagnosis, so that every surface shows the same onset, severity,
// name and advice. The JSON of a [Record] is all that a restarted Tracker needs.
//
// The package does no I/O and reads no clock: diagnoses carry the time, and all times are UTC. Package keeper stores
// incidents with their evidence, package view holds what surfaces show of them.
package incident

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// A Record is a stored incident: what surfaces show, and what a Tracker needs after a restart.
type Record struct {
	view.Summary
	Evolution []view.Turn `json:"evolution"`
	Omitted   int         `json:"evolution_omitted,omitempty"`
	Kept      view.Kept   `json:"kept"`
	State     State       `json:"state"`
}

// State is what a Tracker remembers of an incident. The unexported fields begin anew after a restart.
type State struct {
	Members    []string  `json:"members"`    // all pathologies that were part of it
	Instances  []string  `json:"instances"`  // instance labels of the servers on which it was found last
	Confidence float64   `json:"confidence"` // in Pathology
	LastSeen   time.Time `json:"last_seen"`
	// MemberSeen holds when each of Members was found last.
	MemberSeen map[string]time.Time `json:"seen,omitempty"`
	KeptAt     time.Time            `json:"kept"` // of the stored diagnosis

	// ServerLabels holds the labels of the incident's servers by instance. RecordedLabels holds the labels of the
	// servers in its recording by directory. Both decide which teams see it.
	ServerLabels   map[string]map[string]string `json:"where,omitempty"`
	RecordedLabels map[string]map[string]string `json:"recorded,omitempty"`

	PresentSeverity string `json:"present,omitempty"`   // of the present findings; "" in records of earlier releases
	NameOver        bool   `json:"name_over,omitempty"` // it was quiet, and Pathology has not been found since

	// OnsetRead holds when each onset of Summary.Since was last changed. An onset without an entry is final.
	OnsetRead map[string]time.Time `json:"said,omitempty"`

	ImpactAt     time.Time            `json:"counted"` // when Impact was measured
	FirstLink    *Link                `json:"first,omitempty"`
	LinkOnsets   map[string]time.Time `json:"broke,omitempty"` // when each link of the chain began, by its Says
	Servers      int                  `json:"servers"`         // of the model
	ServingSince map[string]time.Time `json:"born,omitempty"`  // when each of them began to serve, by target

	naming *diagnose.Finding // the last finding of Pathology

	scaledFor    time.Duration // how long the number of servers has differed from Servers
	unofferedFor time.Duration // how long the finding has not offered the advice

	nameFoundFor      time.Duration // how long the incident was found as Pathology
	nameRuledOutFor   time.Duration // how long Pathology has been ruled out while the incident went on
	nameRuledOutTimes int           // the number of diagnoses that ruled it out in that time

	quietFor time.Duration // how long nothing of it has been found
}

// Copy returns a record that shares nothing with r.
func (r *Record) Copy() *Record {
	c := *r
	c.Ended, c.QuietSince, c.ClosesAt = clone(r.Ended), clone(r.QuietSince), clone(r.ClosesAt)
	c.Acknowledged, c.Advice, c.Impact = clone(r.Acknowledged), clone(r.Advice), clone(r.Impact)
	c.Targets, c.Affected = slices.Clone(r.Targets), slices.Clone(r.Affected)
	c.Notes, c.Events, c.Evolution = slices.Clone(r.Notes), slices.Clone(r.Events), slices.Clone(r.Evolution)
	c.Since = maps.Clone(r.Since)
	if c.Advice != nil {
		c.Advice.Fixes, c.Advice.Expected = slices.Clone(c.Advice.Fixes), slices.Clone(c.Advice.Expected)
	}
	s := &c.State
	s.Members, s.Instances = slices.Clone(s.Members), slices.Clone(s.Instances)
	s.MemberSeen, s.OnsetRead = maps.Clone(s.MemberSeen), maps.Clone(s.OnsetRead)
	s.FirstLink, s.LinkOnsets, s.ServingSince = clone(s.FirstLink), maps.Clone(s.LinkOnsets), maps.Clone(s.ServingSince)
	s.ServerLabels, s.RecordedLabels = maps.Clone(s.ServerLabels), maps.Clone(s.RecordedLabels) // labels never change
	return &c
}

// Timeline lists verdicts and the actions of people and machines, in order of time. names holds the names of
// pathologies by ID.
func (r *Record) Timeline(names map[string]string) []view.Moment {
	began := "Began"
	if r.BeganAtLeast {
		began = "Already present when watching began"
	}
	all := []view.Moment{{At: r.Began, Text: began}}
	for _, t := range r.Evolution {
		m := view.Moment{At: t.At, Health: view.HealthHealthy, Text: cmp.Or(names[t.ID], diagnose.NameOf(t.ID))}
		switch {
		case t.Severity != "":
			m.Health, m.Text = view.HealthOf(view.Firing, t.Severity), m.Text+" ("+t.Severity+")"
		case t.ID == diagnose.InsufficientData:
			m.Health = view.HealthUnknown
		case t.ID == diagnose.NotCertain:
			m.Health = view.HealthUncertain
		}
		m.Text += ": " + strings.TrimPrefix(t.Summary, m.Text+": ")
		all = append(all, m)
	}
	for _, e := range r.Events {
		all = append(all, view.Moment{At: e.At, Text: e.Text})
	}
	if a := r.Acknowledged; a != nil {
		all = append(all, view.Moment{At: a.At, Text: "Acknowledged by " + a.By})
	}
	for _, n := range r.Notes {
		all = append(all, view.Moment{At: n.At, Text: "Note by " + n.By + ": " + n.Text})
	}
	if r.Ended != nil {
		all = append(all, view.Moment{At: *r.Ended, Text: "Closed: not found since then"})
	}
	slices.SortStableFunc(all, func(a, b view.Moment) int { return a.At.Compare(b.At) })
	return all
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// FindSimilar returns the last incident of the same pathology and model before r, preferably one with notes; nil if
// there is none.
func FindSimilar(r *Record, all []*Record) *view.Similar {
	var best *Record
	noted := func(r *Record) bool { return len(r.Notes) > 0 }
	for _, o := range all {
		if o.ID == r.ID || o.Pathology != r.Pathology || o.pool() != r.pool() || !o.Began.Before(r.Began) {
			continue
		}
		if best == nil || noted(o) && !noted(best) || noted(o) == noted(best) && o.Began.After(best.Began) {
			best = o
		}
	}
	if best == nil {
		return nil
	}
	s := &view.Similar{Summary: best.Copy().Summary}
	s.Note = "As on " + best.Began.UTC().Format("Monday 2006-01-02 at 15:04 UTC")
	if best.Ended != nil {
		s.Note += ", for " + indicator.FormatNumber(best.Ended.Sub(best.Began).Seconds(), indicator.Seconds)
	}
	if n := len(best.Notes); n > 0 {
		s.Note += "; then: " + strings.TrimRight(best.Notes[n-1].Text, ". \n")
	}
	s.Note += "."
	return s
}

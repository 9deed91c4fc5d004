// Package incident turns consecutive diagnoses into incidents: what began, how the verdict changed, when it ended,
// who acted, and what helped.
//
// A [Tracker] receives every diagnosis and reports what begins, changes and ends. It does no I/O and reads no clock:
// diagnoses carry the time. Package keeper stores incidents with their evidence.
package incident

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// A Record is a stored incident: everything that surfaces show, and the Tracker's state for a restart.
type Record struct {
	view.Summary
	Evolution []view.Turn `json:"evolution"`
	Omitted   int         `json:"evolution_omitted,omitempty"`
	Kept      view.Kept   `json:"kept"`
	State     State       `json:"state"`
}

// State is how far a Tracker is with an incident.
type State struct {
	Members    []string             `json:"members"`    // all pathologies that were part of it
	Instances  []string             `json:"instances"`  // instance labels where it was found last
	Confidence float64              `json:"confidence"` // confidence in Pathology
	LastSeen   time.Time            `json:"last_seen"`
	Seen       map[string]time.Time `json:"seen,omitempty"` // when each of Members was
	Kept       time.Time            `json:"kept"`           // the moment of the diagnosis that is kept

	// Where holds the labels of its servers by instance. Recorded holds the labels of the servers in its recording by
	// directory. Both decide which teams see it.
	Where    map[string]map[string]string `json:"where,omitempty"`
	Recorded map[string]map[string]string `json:"recorded,omitempty"`

	// Said holds when each onset of Summary.Since was last changed. An onset without an entry is final.
	Said map[string]time.Time `json:"said,omitempty"`

	Counted time.Time            `json:"counted"` // when Impact was measured
	First   *Link                `json:"first,omitempty"`
	Broke   map[string]time.Time `json:"broke,omitempty"` // when each link of its chain did, by what that says
	Servers int                  `json:"servers"`         // that the model has
	Born    map[string]time.Time `json:"born,omitempty"`  // when each of them began to serve

	presentSeverity string            // severity of the present findings
	told            *diagnose.Finding // the last one of what it is called by

	scaled, unoffered time.Duration // for how long there are others servers, and the advice was not offered

	named    time.Duration // for how long what it is called by was found
	ruledOut time.Duration // and for how long it was not since, while something else of it was
	against  int           // in so many diagnoses

	quiet time.Duration // for how long nothing of it was found
}

// Copy returns a record that shares nothing with r.
func (r *Record) Copy() *Record {
	c := *r
	c.Ended, c.QuietSince, c.Acknowledged = clone(r.Ended), clone(r.QuietSince), clone(r.Acknowledged)
	c.Targets, c.Notes, c.Evolution = slices.Clone(r.Targets), slices.Clone(r.Notes), slices.Clone(r.Evolution)
	c.Since = maps.Clone(r.Since)
	c.ClosesAt, c.Affected, c.Events, c.Advice, c.Impact = clone(r.ClosesAt), slices.Clone(r.Affected),
		slices.Clone(r.Events), clone(r.Advice), clone(r.Impact)
	if c.Advice != nil {
		c.Advice.Fixes, c.Advice.Expected = slices.Clone(c.Advice.Fixes), slices.Clone(c.Advice.Expected)
	}
	c.State.Seen, c.State.Born, c.State.Broke = maps.Clone(r.State.Seen), maps.Clone(r.State.Born),
		maps.Clone(r.State.Broke)
	c.State.Said = maps.Clone(r.State.Said)
	c.State.First = clone(r.State.First)
	c.State.Members, c.State.Instances = slices.Clone(r.State.Members), slices.Clone(r.State.Instances)
	c.State.Where, c.State.Recorded = maps.Clone(r.State.Where), maps.Clone(r.State.Recorded) // labels never change
	return &c
}

// Timeline lists findings and actions of people and machines in order. names holds the verdicts' names by id.
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
	for _, o := range all {
		if o.ID == r.ID || o.Pathology != r.Pathology || o.pool() != r.pool() || !o.Began.Before(r.Began) {
			continue
		}
		noted := func(r *Record) bool { return len(r.Notes) > 0 }
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
		s.Note += fmt.Sprintf(", for %s", indicator.FormatNumber(best.Ended.Sub(best.Began).Seconds(),
			indicator.Seconds))
	}
	if n := len(best.Notes); n > 0 {
		s.Note += "; then: " + strings.TrimRight(best.Notes[n-1].Text, ". \n")
	}
	s.Note += "."
	return s
}

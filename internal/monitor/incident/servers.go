package incident

import (
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// watchServers notes events on the incident's servers: restarts and scaling. It measures the applied advice.
func (r *Record) watchServers(d *indexedDiagnosis, step time.Duration) {
	i := d.verdictOf(r)
	if i < 0 {
		return
	}
	all, servers := d.Verdicts[i].All, 0
	for k := range d.Targets {
		if t := &d.Targets[k]; t.Serves() && slices.Contains(all, t.Name) {
			servers++
			r.watchRestart(d, k)
		}
	}
	switch {
	case r.State.Servers == 0:
		r.State.Servers = servers
	case servers == r.State.Servers || servers == 0:
		r.State.scaledFor = 0
	default: // a server that is replaced counts twice for a moment
		if r.State.scaledFor += step; r.State.scaledFor >= measureAfter {
			r.addEvent(d.at, ScaleEvent, fmt.Sprintf("Scaled from %d to %d servers", r.State.Servers, servers))
			if servers > r.State.Servers {
				r.noteApplied(d.at, func(f *catalog.Fix) bool { return f.Replicas > 0 })
			}
			r.State.Servers, r.State.scaledFor = servers, 0
		}
	}
	r.measureAdvice(d, all)
}

// watchRestart notes that a server's counters began again.
func (r *Record) watchRestart(d *indexedDiagnosis, target int) {
	age, _ := d.Reading(target, indicator.ServingAge)
	if !age.OK {
		return
	}
	name, since := d.Targets[target].Name, d.at.Add(-time.Duration(age.V*float64(time.Second)))
	before, known := r.State.ServingSince[name]
	if known && since.Sub(before) < measureAfter/2 {
		return
	}
	if len(r.State.ServingSince) < maxTargets {
		setTime(&r.State.ServingSince, name, since)
	}
	if known && since.After(r.Began) {
		r.addEvent(since, RestartEvent, name+" was restarted")
		r.noteApplied(since, func(f *catalog.Fix) bool { return f.Replicas == 0 })
	}
}

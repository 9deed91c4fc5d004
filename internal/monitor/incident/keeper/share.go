package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// State that is shared with other monitors of the same servers.
const (
	sharedFor  = 7 * 24 * time.Hour // after an incident began
	mostShared = 200
	maxShared  = 16 << 20 // bytes
)

// SetBroadcast sets what tells other monitors of what people do.
func (k *Keeper) SetBroadcast(f func([]byte)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broadcast = f
}

// share tells other monitors of one incident. It needs the lock.
func (k *Keeper) share(r *incident.Record) {
	if k.broadcast == nil {
		return
	}
	if text, err := json.Marshal([]view.Summary{r.Summary}); err == nil {
		k.broadcast(text)
	}
}

// MarshalBinary is what a monitor that comes is told.
func (k *Keeper) MarshalBinary() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := []view.Summary{}
	for _, r := range k.latest() {
		if len(all) < mostShared && time.Since(r.Began) < sharedFor && (r.Acknowledged != nil || len(r.Notes) > 0) {
			all = append(all, r.Summary)
		}
	}
	return json.Marshal(all)
}

// Merge takes people's actions from another monitor. Actions on unknown incidents are dropped; they are sent again.
func (k *Keeper) Merge(text []byte) error {
	var all []view.Summary
	if len(text) > maxShared {
		return errors.New("the incidents of another monitor are too large")
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("incidents of another monitor: %w", err)
	}
	var errs error
	var told []view.Summary
	k.mu.Lock()
	for i := range all {
		r := k.same(&all[i])
		if r == nil || !merge(r, &all[i]) {
			continue
		}
		if err := k.store.save(r); err != nil {
			k.dirty[r.ID] = true
			errs = errors.Join(errs, fmt.Errorf("write incident %s: %w", r.ID, err))
		}
		told = append(told, r.Copy().Summary)
	}
	k.mu.Unlock()
	if k.c.Listen != nil {
		for _, s := range told {
			k.c.Listen(s)
		}
	}
	return errs
}

// same returns our incident that equals another monitor's incident: it has the same servers and faults, and the nearest
// beginning. Two monitors judge independently, so the ids differ by when each saw it. It returns nil without a match.
func (k *Keeper) same(d *view.Summary) (best *incident.Record) {
	apart := func(r *incident.Record) time.Duration { return r.Began.Sub(d.Began).Abs() }
	for _, r := range k.byID {
		if r.Cluster == d.Cluster && r.Namespace == d.Namespace && r.Model == d.Model && apart(r) <= incident.Rejoin &&
			slices.ContainsFunc(r.State.Members, func(id string) bool { return !d.Since[id].IsZero() }) &&
			(best == nil || apart(r) < apart(best)) {
			best = r
		}
	}
	return best
}

// merge adds the latest acknowledgement and all notes to a record, and reports whether anything was new.
func merge(r *incident.Record, d *view.Summary) (changed bool) {
	if a := d.Acknowledged; a != nil && (r.Acknowledged == nil || a.At.After(r.Acknowledged.At)) {
		if by, err := checkText("by", a.By, maxBy); err == nil {
			r.Acknowledged, changed = &view.Acknowledgement{By: by, At: a.At.UTC()}, true
		}
	}
	for _, n := range d.Notes {
		by, wrong := checkText("by", n.By, maxBy)
		text, err := checkText("text", n.Text, maxText)
		note := view.Note{By: by, At: n.At.UTC(), Text: text}
		if errors.Join(wrong, err) == nil && len(r.Notes) < maxNotes && !slices.Contains(r.Notes, note) {
			r.Notes, changed = append(r.Notes, note), true
		}
	}
	slices.SortStableFunc(r.Notes, func(a, b view.Note) int { return a.At.Compare(b.At) })
	return changed
}

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

// Bounds of what monitors of the same servers tell each other.
const (
	shareFor       = 7 * 24 * time.Hour // after an incident began
	maxShared      = 200
	maxSharedBytes = 16 << 20 // bytes
)

// SetBroadcast sets the function that sends people's actions to other monitors.
func (k *Keeper) SetBroadcast(f func([]byte)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broadcast = f
}

// broadcastRecord sends one incident to other monitors. The caller holds the lock.
func (k *Keeper) broadcastRecord(r *incident.Record) {
	if k.broadcast == nil {
		return
	}
	if text, err := json.Marshal([]view.Summary{r.Summary}); err == nil {
		k.broadcast(text)
	}
}

// MarshalBinary returns the recent incidents with people's actions, for a monitor that joins.
func (k *Keeper) MarshalBinary() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := []view.Summary{}
	for _, r := range k.latestFirst() {
		if len(all) < maxShared && time.Since(r.Began) < shareFor && (r.Acknowledged != nil || len(r.Notes) > 0) {
			all = append(all, r.Summary)
		}
	}
	return json.Marshal(all)
}

// Merge takes people's actions from another monitor, as MarshalBinary or a broadcast wrote them. Actions on incidents
// that are not known here yet are dropped: the other monitor sends them again.
func (k *Keeper) Merge(text []byte) error {
	var all []view.Summary
	if len(text) > maxSharedBytes {
		return errors.New("the incidents of another monitor are too large")
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("incidents of another monitor: %w", err)
	}
	var errs error
	var changed []view.Summary
	k.mu.Lock()
	for i := range all {
		r := k.matchRecord(&all[i])
		if r == nil || !mergeActions(r, &all[i]) {
			continue
		}
		if err := k.store.saveRecord(r); err != nil {
			k.dirty[r.ID] = true
			errs = errors.Join(errs, fmt.Errorf("write incident %s: %w", r.ID, err))
		}
		changed = append(changed, r.Copy().Summary)
	}
	k.mu.Unlock()
	k.notifyListener(changed...)
	return errs
}

// matchRecord returns our record of another monitor's incident, or nil: the same model, a common pathology, and the
// nearest beginning. IDs do not match, because each monitor reads its own onset.
func (k *Keeper) matchRecord(s *view.Summary) (best *incident.Record) {
	distance := func(r *incident.Record) time.Duration { return r.Began.Sub(s.Began).Abs() }
	for _, r := range k.byID {
		common := slices.ContainsFunc(r.State.Members, func(id string) bool { return !s.Since[id].IsZero() })
		if common && r.Cluster == s.Cluster && r.Namespace == s.Namespace && r.Model == s.Model &&
			distance(r) <= incident.ReopenWithin && (best == nil || distance(r) < distance(best)) {
			best = r
		}
	}
	return best
}

// mergeActions adds the notes of another monitor's incident, and its acknowledgement if it is later. It reports whether
// anything was new.
func mergeActions(r *incident.Record, s *view.Summary) (changed bool) {
	if a := s.Acknowledged; a != nil && (r.Acknowledged == nil || a.At.After(r.Acknowledged.At)) {
		if by, err := checkText("by", a.By, maxBy); err == nil {
			r.Acknowledged, changed = &view.Acknowledgement{By: by, At: a.At.UTC()}, true
		}
	}
	for _, n := range s.Notes {
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

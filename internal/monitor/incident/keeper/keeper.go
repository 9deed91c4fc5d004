// Package keeper stores incidents. It feeds each diagnosis to an incident.Tracker and writes the changed records to a
// directory at once, so that kill -9 loses nothing.
//
// What an incident's directory holds is written on recordFile. The record is written in [Keeper.Observe], under the
// lock. The evidence follows in the background, one incident after the other: the diagnosis with its predictions and
// plots, and a recording that sixty diagnose opens. The impact on users is measured then too.
//
// People acknowledge incidents and add notes ([Keeper.Acknowledge], [Keeper.AddNote]). Other monitors of the same
// servers get these actions ([Keeper.SetBroadcast], [Keeper.Merge]), not the incidents: each monitor judges for itself.
// A principal with restricted access sees the incidents of its servers alone, and their evidence without other servers.
//
// The package decides nothing about incidents and notifies nobody: Config.Listen is told of changes.
package keeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/incident/postmortem"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Config says where incidents are stored, and for how long.
type Config struct {
	Dir string // created if it is missing

	MaxIncidents int           // the oldest closed ones are removed first; 1000 if 0
	Retention    time.Duration // of closed incidents; 90 days if 0
	MaxEvidence  int64         // bytes of all recordings; 2 GiB if 0

	Catalogue []*catalog.Pathology
	Predict   diagnose.Predictor // predicts fixes of stored diagnoses; may be nil
	// Impact, which may be nil, measures what users felt of an incident until a time. interval is the scrape interval.
	Impact func(ctx context.Context, q metrics.Querier, of view.Summary, to time.Time,
		interval time.Duration) (*view.Impact, error)
	// Listen, which may be nil, is told of a changed incident after it was written. It must return soon, and may be
	// called from several goroutines.
	Listen func(view.Summary)
	Log    *slog.Logger
}

const (
	saveOpenEvery = 5 * time.Minute // open records are saved without an event too, for their State.LastSeen
	pruneEvery    = time.Hour
	maxJobs       = 64 // incidents whose evidence waits to be written
)

// A Keeper stores incidents. It is safe for concurrent use.
type Keeper struct {
	cfg     Config
	store   *fileStore
	tracker *incident.Tracker

	mu        sync.Mutex // guards tracker, the records, and all until ctx
	byID      map[string]*incident.Record
	dirty     map[string]bool // IDs of changed records that are not written yet
	savedOpen time.Time
	pruned    time.Time
	jobs      map[string]*job // by incident
	busy      bool            // a goroutine works on jobs

	broadcast func([]byte) // sends to other monitors; may be nil

	ctx     context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup
}

// Open reads the stored incidents. Background work ends with the context.
func Open(ctx context.Context, c Config) (*Keeper, error) {
	c.MaxIncidents = cmp.Or(c.MaxIncidents, 1000)
	c.Retention = cmp.Or(c.Retention, 90*24*time.Hour)
	c.MaxEvidence = cmp.Or(c.MaxEvidence, 2<<30)
	k := &Keeper{cfg: c, byID: map[string]*incident.Record{}, dirty: map[string]bool{}, jobs: map[string]*job{}}
	store, records, warnings, err := openStore(c.Dir)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		c.Log.Warn(w)
	}
	k.store = store
	for _, r := range records {
		k.byID[r.ID] = r
	}
	k.tracker = incident.NewTracker(c.Catalogue, records, func(id string) bool { return k.byID[id] != nil })
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k, nil
}

// Close writes what is pending, and gives up when the context ends.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	k.markOpenDirty()
	err := k.writeDirty()
	k.storeEvidence()
	k.mu.Unlock()
	err = errors.Join(err, k.WaitForEvidence(ctx))
	k.cancel()
	k.working.Wait()
	return err
}

// WaitForEvidence waits until all evidence that is due is written.
func (k *Keeper) WaitForEvidence(ctx context.Context) error {
	written := make(chan struct{})
	go func() {
		k.working.Wait()
		close(written)
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-written:
		return nil
	}
}

// Observe takes the next diagnosis. querier, which may be nil, is asked for the evidence, also after the return. An
// error says that something could not be written: it stays in memory and is written with a later diagnosis.
func (k *Keeper) Observe(d *diagnose.Diagnosis, querier metrics.Querier) error {
	k.mu.Lock()
	events := k.tracker.Observe(d)
	for _, e := range events {
		k.byID[e.Record.ID] = e.Record
		if e.Kind != incident.Kept {
			k.dirty[e.Record.ID] = true
		}
		if querier != nil {
			k.queueEvidence(e, d, querier)
		}
	}
	first, later := k.dueImpacts(d)
	err := k.writeDue(d.At)
	var changed []view.Summary
	for _, e := range events {
		if e.Kind != incident.Kept {
			changed = append(changed, e.Record.Copy().Summary)
		}
	}
	k.storeEvidence()
	k.mu.Unlock()
	if querier != nil {
		err = errors.Join(err, k.learnLabels(d.At, querier))
	}
	if querier != nil && k.cfg.Impact != nil {
		k.measureImpacts(first, firstImpactTime, d, querier)
		k.working.Go(func() { k.measureImpacts(later, jobTime, d, querier) })
	}
	k.notifyListener(changed...)
	return err
}

// notifyListener tells Config.Listen of changed incidents.
func (k *Keeper) notifyListener(changed ...view.Summary) {
	if k.cfg.Listen == nil {
		return
	}
	for _, s := range changed {
		k.cfg.Listen(s)
	}
}

// writeDue writes the changed records and, from time to time, all open ones, and removes old incidents. A clock that
// steps back makes both due.
func (k *Keeper) writeDue(now time.Time) error {
	if since := now.Sub(k.savedOpen); since >= saveOpenEvery || since < 0 {
		k.savedOpen = now
		k.markOpenDirty()
	}
	err := k.writeDirty()
	if since := now.Sub(k.pruned); since >= pruneEvery || since < 0 {
		k.pruned = now
		err = errors.Join(err, k.prune(now))
	}
	return err
}

// markOpenDirty marks all open incidents as changed.
func (k *Keeper) markOpenDirty() {
	for id, r := range k.byID {
		if r.Open() {
			k.dirty[id] = true
		}
	}
}

// writeDirty writes the changed records. Failed writes stay pending.
func (k *Keeper) writeDirty() error {
	var errs error
	for _, id := range slices.Sorted(maps.Keys(k.dirty)) {
		r := k.byID[id]
		if r == nil {
			delete(k.dirty, id)
			continue
		}
		if err := k.store.saveRecord(r); err != nil {
			errs = errors.Join(errs, fmt.Errorf("write incident %s: %w", id, err))
			continue
		}
		delete(k.dirty, id)
	}
	if errs != nil {
		return hint.With(errs, "free disk space, or make the directory writable")
	}
	return nil
}

// prune deletes incidents beyond the retention or the maximum number.
func (k *Keeper) prune(now time.Time) error {
	kept, err := k.store.prune(slices.Collect(maps.Values(k.byID)), now, &k.cfg)
	k.byID = map[string]*incident.Record{}
	for _, r := range kept {
		k.byID[r.ID] = r
	}
	if err != nil {
		return fmt.Errorf("remove old incidents: %w", err)
	}
	return nil
}

// Conform writes what was decided about incidents into a diagnosis.
func (k *Keeper) Conform(d *diagnose.Diagnosis) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tracker.Conform(d)
}

// Summary returns an incident as a list has it. It returns nil if there is none or the principal does not see it.
func (k *Keeper) Summary(id string, by *access.Principal) *view.Summary {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.findRecord(id, by)
	if err != nil {
		return nil
	}
	return &r.Copy().Summary
}

// A Query chooses incidents.
type Query struct {
	State string            // open, closed, or "" for all
	Model string            // "" for all; as in Summary, or CLUSTER/NAMESPACE/MODEL
	Limit int               // 0 for all
	By    *access.Principal // who asks: only incidents that it sees are listed; nil sees all
}

// List returns incidents, the latest first.
func (k *Keeper) List(q Query) []view.Summary {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := []view.Summary{}
	for _, r := range k.latestFirst() {
		switch {
		case q.State == "open" && !r.Open(), q.State == "closed" && r.Open():
		case q.Model != "" && q.Model != r.Model && q.Model != view.FullName(r.Cluster, r.Namespace, r.Model):
		case q.By != nil && !sees(q.By, r):
		case q.Limit > 0 && len(out) == q.Limit:
			return out
		default:
			out = append(out, r.Copy().Summary)
		}
	}
	return out
}

// latestFirst returns the records, the latest first. The caller holds the lock.
func (k *Keeper) latestFirst() []*incident.Record {
	return slices.SortedFunc(maps.Values(k.byID), incident.Latest)
}

// ErrUnknown is wrapped by the error for an ID without an incident.
var ErrUnknown = errors.New("no such incident")

// findRecord returns an incident that a principal sees; nil sees all. The caller holds the lock.
func (k *Keeper) findRecord(id string, by *access.Principal) (*incident.Record, error) {
	if r := k.byID[id]; r != nil && (by == nil || sees(by, r)) {
		return r, nil
	}
	return nil, hint.With(fmt.Errorf("%w: %q", ErrUnknown, id),
		"GET /api/v1/incidents lists the stored ones; old ones are removed")
}

// Get returns an incident with its evolution and diagnosis, as a principal sees it. A diagnosis that cannot be read is
// left out.
func (k *Keeper) Get(id string, by *access.Principal) (view.Incident, error) {
	k.mu.Lock()
	r, err := k.findRecord(id, by)
	if err != nil {
		k.mu.Unlock()
		return view.Incident{}, err
	}
	others := slices.DeleteFunc(slices.Collect(maps.Values(k.byID)),
		func(o *incident.Record) bool { return !sees(by, o) })
	out := view.Incident{Similar: incident.FindSimilar(r, others)}
	c, recorded := r.Copy(), !by.Restricted() || len(seenKeys(r.State.RecordedLabels, by)) > 0
	out.Summary, out.Evolution, out.Omitted, out.Kept = c.Summary, c.Evolution, c.Omitted, c.Kept
	out.Timeline = r.Timeline(diagnose.Names(k.cfg.Catalogue))
	k.mu.Unlock()
	out.HasRecording = out.HasRecording && recorded
	if out.Diagnosis, err = k.store.readDiagnosis(id); err != nil {
		k.cfg.Log.Warn("the diagnosis of an incident cannot be read", "incident", id, "err", err)
	}
	if by.Restricted() && out.Diagnosis != nil {
		out.Diagnosis = onlyTargets(out.Diagnosis, out.Targets)
	}
	return out, nil
}

// Bounds of what people write. Lengths are in bytes.
const (
	maxBy    = 200
	maxText  = 10_000
	maxNotes = 500
)

// ErrInvalid is wrapped by errors about what people write.
var ErrInvalid = errors.New("cannot be taken")

// checkText trims and checks a text of people. what names it in errors.
func checkText(what, text string, most int) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("%q %w: it is empty", what, ErrInvalid)
	case len(text) > most:
		return "", fmt.Errorf("%q %w: it is longer than %d bytes", what, ErrInvalid, most)
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}

// Acknowledge notes who looks after an incident. The last acknowledgement counts.
func (k *Keeper) Acknowledge(id, by string, at time.Time) (view.Summary, error) {
	by, err := checkText("by", by, maxBy)
	if err != nil {
		return view.Summary{}, err
	}
	return k.changeRecord(id, func(r *incident.Record) error {
		r.Acknowledged = &view.Acknowledgement{By: by, At: at.UTC()}
		return nil
	})
}

// AddNote adds a note of a person.
func (k *Keeper) AddNote(id, by, text string, at time.Time) (view.Summary, error) {
	by, err := checkText("by", by, maxBy)
	if err == nil {
		text, err = checkText("text", text, maxText)
	}
	if err != nil {
		return view.Summary{}, err
	}
	return k.changeRecord(id, func(r *incident.Record) error {
		if len(r.Notes) >= maxNotes {
			return fmt.Errorf("the note %w: there are %d already", ErrInvalid, maxNotes)
		}
		r.Notes = append(r.Notes, view.Note{By: by, At: at.UTC(), Text: text})
		return nil
	})
}

// changeRecord applies a person's action to a record, writes it, and broadcasts it. If it cannot be written, the record
// stays unchanged and the caller gets the error.
func (k *Keeper) changeRecord(id string, act func(*incident.Record) error) (view.Summary, error) {
	k.mu.Lock()
	r, err := k.findRecord(id, nil)
	if err != nil {
		k.mu.Unlock()
		return view.Summary{}, err
	}
	was := r.Copy()
	if err = act(r); err == nil {
		if err = k.store.saveRecord(r); err != nil {
			err = fmt.Errorf("write incident %s: %w", id, err)
		}
	}
	if err != nil {
		r.Acknowledged, r.Notes = was.Acknowledged, was.Notes
		k.mu.Unlock()
		return view.Summary{}, err
	}
	now := r.Copy().Summary
	k.broadcastRecord(r)
	k.mu.Unlock()
	k.notifyListener(now)
	return now, nil
}

// Recording returns the path of an incident's recording, and the directories in it that the principal may see: nil for
// all.
func (k *Keeper) Recording(id string, by *access.Principal) (path string, directories []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.findRecord(id, nil)
	if err != nil {
		return "", nil, err
	}
	if by.Restricted() {
		directories = seenKeys(r.State.RecordedLabels, by)
	}
	switch {
	case by.Restricted() && len(directories) == 0:
		return "", nil, hint.With(fmt.Errorf("%w: the recording of %s contains other teams' servers alone",
			os.ErrNotExist, id), "ask a user who may see all servers")
	case !r.HasRecording:
		return "", nil, hint.With(fmt.Errorf("%w: no recording of %s is stored", os.ErrNotExist, id),
			"recordings are written within a minute, and the oldest are removed first")
	}
	return k.store.filePath(id, evidenceFile), directories, nil
}

// PostMortem writes an incident as Markdown.
func (k *Keeper) PostMortem(id string, by *access.Principal) ([]byte, error) {
	i, err := k.Get(id, by)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = postmortem.Markdown(&b, &i, cmp.Or(diagnose.Names(k.cfg.Catalogue)[i.Pathology], i.Pathology))
	return b.Bytes(), err
}

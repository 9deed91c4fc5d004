// Package keeper keeps incidents: it feeds diagnoses to an incident.Tracker, writes what
// becomes of them to a directory that survives kill -9, with the evidence as a recording
// that sixty diagnose opens.
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

// Config says where incidents are kept, and for how long.
type Config struct {
	Dir string // made where it is missing

	MaxIncidents int           // the oldest closed ones go first; 1000 when 0
	Retention    time.Duration // of closed incidents; 90 days if 0
	MaxEvidence  int64         // bytes of all recordings; 2 GiB when 0

	Catalogue []*catalog.Pathology
	Predict   diagnose.Predictor // predicts fixes of stored diagnoses; may be nil
	// Impact, which may be nil, measures what users felt of an incident up to a moment, with a scrape so often.
	Impact func(ctx context.Context, q metrics.Querier, of view.Summary, to time.Time,
		interval time.Duration) (*view.Impact, error)
	// Listen, which may be nil, is told what became of an incident, after it was written.
	// It must not wait for long, and may be called from several goroutines.
	Listen func(view.Summary)
	Log    *slog.Logger
}

// How often things are written that no event asks for.
const (
	heartbeat = 5 * time.Minute // when an open incident was seen last
	pruning   = time.Hour
	maxJobs   = 64 // incidents whose evidence waits to be written
)

// A Keeper keeps incidents. It is safe for concurrent use.
type Keeper struct {
	c       Config
	store   *fileStore
	tracker *incident.Tracker

	mu     sync.Mutex
	byID   map[string]*incident.Record
	dirty  map[string]bool // records that could not be written yet
	beat   time.Time
	pruned time.Time
	jobs   map[string]*job // by incident
	busy   bool            // jobs are being done

	broadcast func([]byte) // sends to other monitors; nil without any

	ctx     context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup
}

// Open reads the stored incidents. The context bounds background work.
func Open(ctx context.Context, c Config) (*Keeper, error) {
	c.MaxIncidents, c.Retention, c.MaxEvidence = cmp.Or(c.MaxIncidents, 1000), cmp.Or(c.Retention, 90*24*time.Hour),
		cmp.Or(c.MaxEvidence, 2<<30)
	k := &Keeper{
		c: c, byID: map[string]*incident.Record{}, dirty: map[string]bool{}, jobs: map[string]*job{},
	}
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

// Close writes pending changes until the context ends.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	for _, r := range k.byID {
		if r.Open() {
			k.dirty[r.ID] = true
		}
	}
	err := k.flush()
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

// Observe takes the next diagnosis. The Querier, which may be nil, is asked for the
// evidence afterwards. An error says that something could not be written: it is kept in
// memory, and tried again with the next diagnosis.
func (k *Keeper) Observe(d *diagnose.Diagnosis, q metrics.Querier) error {
	k.mu.Lock()
	events := k.tracker.Observe(d)
	for _, e := range events {
		r := e.Record
		k.byID[r.ID] = r
		if e.Kind != incident.Kept {
			k.dirty[r.ID] = true
		}
		if q != nil {
			k.queueEvidence(e, d, q)
		}
	}
	first, later := k.dueCounts(d)
	if since := d.At.Sub(k.beat); since >= heartbeat || since < 0 {
		k.beat = d.At
		for id, r := range k.byID {
			if r.Open() {
				k.dirty[id] = true
			}
		}
	}
	err := k.flush()
	if since := d.At.Sub(k.pruned); since >= pruning || since < 0 {
		k.pruned = d.At
		err = errors.Join(err, k.prune(d.At))
	}
	told := make([]view.Summary, len(events))
	for i, e := range events {
		told[i] = e.Record.Copy().Summary
	}
	k.storeEvidence()
	k.mu.Unlock()
	if q != nil {
		err = errors.Join(err, k.learnLabels(d.At, q))
	}
	if q != nil && k.c.Impact != nil {
		k.count(first, firstCount, d, q)
		k.working.Go(func() { k.count(later, jobTime, d, q) })
	}
	if k.c.Listen != nil {
		for i, e := range events {
			if e.Kind != incident.Kept {
				k.c.Listen(told[i])
			}
		}
	}
	return err
}

// flush writes the changed records. Failed writes stay pending.
func (k *Keeper) flush() error {
	var errs error
	for _, id := range slices.Sorted(maps.Keys(k.dirty)) {
		r := k.byID[id]
		if r == nil {
			delete(k.dirty, id)
			continue
		}
		if err := k.store.save(r); err != nil {
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
	kept, err := k.store.prune(slices.Collect(maps.Values(k.byID)), now, &k.c)
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

// Summary returns an incident as a list has it, nil where somebody does not see one of that id.
func (k *Keeper) Summary(id string, by *access.Principal) *view.Summary {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.find(id, by)
	if err != nil {
		return nil
	}
	return &r.Copy().Summary
}

// A Query chooses incidents.
type Query struct {
	State string // open, closed, or "" for all
	Model string // "" for all; as in Summary, or CLUSTER/NAMESPACE/MODEL
	Limit int    // 0 for all
	// By is who asks: a team lists what it sees.
	By *access.Principal
}

// List returns incidents, the latest first.
func (k *Keeper) List(q Query) []view.Summary {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := []view.Summary{}
	for _, r := range k.latest() {
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

// latest are the records, the latest first. It needs the lock.
func (k *Keeper) latest() []*incident.Record {
	return slices.SortedFunc(maps.Values(k.byID), incident.Latest)
}

// ErrUnknown is wrapped by the error for an id that no incident has.
var ErrUnknown = errors.New("no such incident")

// find returns an incident that somebody sees; nil sees all.
func (k *Keeper) find(id string, by *access.Principal) (*incident.Record, error) {
	if r := k.byID[id]; r != nil && (by == nil || sees(by, r)) {
		return r, nil
	}
	return nil, hint.With(fmt.Errorf("%w: %q", ErrUnknown, id),
		"GET /api/v1/incidents lists the stored ones; old ones are removed")
}

// Get returns one incident, whole, as somebody sees it. A diagnosis that cannot be read is left out.
func (k *Keeper) Get(id string, by *access.Principal) (view.Incident, error) {
	k.mu.Lock()
	r, err := k.find(id, by)
	if err != nil {
		k.mu.Unlock()
		return view.Incident{}, err
	}
	others := slices.DeleteFunc(slices.Collect(maps.Values(k.byID)),
		func(o *incident.Record) bool { return !sees(by, o) })
	out := view.Incident{Similar: incident.FindSimilar(r, others)}
	c, recorded := r.Copy(), !by.Restricted() || len(seenAmong(r.State.Recorded, by)) > 0
	out.Summary, out.Evolution, out.Omitted, out.Kept = c.Summary, c.Evolution, c.Omitted, c.Kept
	out.Timeline = r.Timeline(diagnose.Names(k.c.Catalogue))
	k.mu.Unlock()
	out.HasRecording = out.HasRecording && recorded
	if out.Diagnosis, err = k.store.document(id, diagnosisFile); err != nil {
		k.c.Log.Warn("the diagnosis of an incident cannot be read", "incident", id, "err", err)
	}
	if by.Restricted() && out.Diagnosis != nil {
		out.Diagnosis = withoutOthers(out.Diagnosis, out.Targets)
	}
	return out, nil
}

// Bounds of what people write.
const (
	maxBy    = 200
	maxText  = 10_000
	maxNotes = 500
)

// ErrInvalid is wrapped by errors about what somebody wrote.
var ErrInvalid = errors.New("cannot be taken")

// checkText checks what somebody wrote.
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

// Acknowledge notes who sees to an incident; the last one counts.
func (k *Keeper) Acknowledge(id, by string, at time.Time) (view.Summary, error) {
	by, err := checkText("by", by, maxBy)
	if err != nil {
		return view.Summary{}, err
	}
	return k.change(id, func(r *incident.Record) error {
		r.Acknowledged = &view.Acknowledgement{By: by, At: at.UTC()}
		return nil
	})
}

// AddNote adds what somebody has to say.
func (k *Keeper) AddNote(id, by, text string, at time.Time) (view.Summary, error) {
	by, err := checkText("by", by, maxBy)
	if err == nil {
		text, err = checkText("text", text, maxText)
	}
	if err != nil {
		return view.Summary{}, err
	}
	return k.change(id, func(r *incident.Record) error {
		if len(r.Notes) >= maxNotes {
			return fmt.Errorf("the note %w: there are %d already", ErrInvalid, maxNotes)
		}
		r.Notes = append(r.Notes, view.Note{By: by, At: at.UTC(), Text: text})
		return nil
	})
}

// change applies somebody's change to a record. If it cannot be written, the record stays unchanged and the caller
// gets the error.
func (k *Keeper) change(id string, how func(*incident.Record) error) (view.Summary, error) {
	k.mu.Lock()
	r, err := k.find(id, nil)
	if err != nil {
		k.mu.Unlock()
		return view.Summary{}, err
	}
	was := r.Copy()
	if err = how(r); err == nil {
		if err = k.store.save(r); err != nil {
			err = fmt.Errorf("write incident %s: %w", id, err)
		}
	}
	if err != nil {
		r.Acknowledged, r.Notes = was.Acknowledged, was.Notes
		k.mu.Unlock()
		return view.Summary{}, err
	}
	now := r.Copy().Summary
	k.share(r)
	k.mu.Unlock()
	if k.c.Listen != nil {
		k.c.Listen(now)
	}
	return now, nil
}

// Recording returns the path of an incident's recording, and the directories in it that the principal may see; nil
// means all.
func (k *Keeper) Recording(id string, by *access.Principal) (path string, directories []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.find(id, nil)
	if err != nil {
		return "", nil, err
	}
	if by.Restricted() {
		directories = seenAmong(r.State.Recorded, by)
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
	err = postmortem.Markdown(&b, &i, cmp.Or(diagnose.Names(k.c.Catalogue)[i.Pathology], i.Pathology))
	return b.Bytes(), err
}

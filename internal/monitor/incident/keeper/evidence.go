package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/pages"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
)

// Bounds of stored evidence.
const (
	before        = 10 * time.Minute // the recording begins so long before the onset,
	longest       = time.Hour        // but is not longer than what a diagnosis looks at
	mostInstances = 24               // the sick ones first
	mostText      = 128 << 20        // bytes of pages, before they are compressed
	jobTime       = 2 * time.Minute
	countedEvery  = time.Minute     // interval of impact counts
	firstCount    = 2 * time.Second // for those in each evaluation
	firstCounts   = 2 * time.Minute // in which nobody may have been hurt yet
)

// A job is evidence to be written.
type job struct {
	id     string
	record *incident.Record // the record at that time
	d      diagnose.Diagnosis
	q      metrics.Querier
}

// dueCounts lists the incidents whose impact must be measured now: first, new incidents before people are told of them,
// until somebody is hurt; later, continuing incidents from time to time, and ended ones.
func (k *Keeper) dueCounts(d *diagnose.Diagnosis) (first, later []*incident.Record) {
	for _, r := range k.byID {
		at := d.At.UTC()
		if !r.Open() {
			at = *r.Ended
		}
		young := r.Impact == nil && d.At.Sub(r.Evolution[0].At) < firstCounts
		early := r.Open() && !young && at.Sub(r.State.Counted) < countedEvery
		if early || r.State.Counted.Equal(at) || !r.Open() && d.At.Sub(at) > incident.Rejoin {
			continue
		}
		if r.State.Counted = at; young {
			first = append(first, r.Copy())
		} else {
			later = append(later, r.Copy())
		}
	}
	return first, later
}

// count measures the impact of incidents. A measurement that does not end in time is repeated later. Counts that were
// lost with their servers keep their last value.
func (k *Keeper) count(due []*incident.Record, within time.Duration, d *diagnose.Diagnosis, q metrics.Querier) {
	ctx, cancel := context.WithTimeout(k.ctx, within)
	defer cancel()
	for _, c := range due {
		impact, err := k.c.Impact(ctx, q, c.Summary, c.State.Counted, d.Interval)
		k.mu.Lock()
		r := k.byID[c.ID]
		switch {
		case r == nil:
		case err != nil:
			r.State.Counted = time.Time{}
			k.c.Log.Debug("the impact of an incident is not known yet", "incident", c.ID, "err", err)
		case impact != nil && (r.Impact == nil || impact.Hurt() >= r.Impact.Hurt()):
			r.Impact, k.dirty[c.ID] = impact, true
		}
		k.mu.Unlock()
	}
}

// queueEvidence schedules storing an event's evidence: the best diagnosis so far, with a recording.
func (k *Keeper) queueEvidence(e incident.Event, d *diagnose.Diagnosis, q metrics.Querier) {
	r := e.Record
	part, ok := incident.DiagnosisOf(d, r)
	if !ok || !e.Best {
		return
	}
	j := k.jobs[r.ID]
	if j == nil {
		if len(k.jobs) >= maxJobs {
			k.c.Log.Warn("too many incidents at once: the evidence of one is not kept", "incident", r.ID)
			return
		}
		j = &job{id: r.ID}
		k.jobs[r.ID] = j
	}
	j.record, j.q, j.d = r.Copy(), q, part
}

// storeEvidence stores evidence in the background, one incident after the other. The caller holds the lock.
func (k *Keeper) storeEvidence() {
	if k.busy {
		return
	}
	k.busy = true
	k.working.Go(func() {
		for j := k.next(); j != nil; j = k.next() {
			k.runJob(j)
		}
	})
}

// next takes a job, nil where none is.
func (k *Keeper) next() *job {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, j := range k.jobs {
		if k.ctx.Err() == nil {
			delete(k.jobs, id)
			return j
		}
	}
	k.busy = false
	return nil
}

// runJob writes the evidence of one incident.
func (k *Keeper) runJob(j *job) {
	ctx, cancel := context.WithTimeout(k.ctx, jobTime)
	defer cancel()
	if err := k.saveEvidence(ctx, j); err != nil && k.ctx.Err() == nil {
		k.c.Log.Warn("the evidence of an incident cannot be stored", "incident", j.id, "err", err)
	}
}

// saveEvidence writes a diagnosis and the recording that it can be made of again.
func (k *Keeper) saveEvidence(ctx context.Context, j *job) error {
	d := j.d
	d.Predict(ctx, j.q, k.c.Predict)
	k.mu.Lock()
	if r := k.byID[j.id]; r != nil {
		r.Advised(&d)
		k.dirty[j.id] = true
		k.tracker.Conform(&d)
	}
	k.mu.Unlock()
	errs := d.Plot(ctx, j.q) // without plots it is still worth having
	if err := k.store.diagnosis(j.id, diagnosisFile, d); err != nil {
		return errors.Join(errs, err)
	}
	recorded, leftOut, err := k.record(ctx, j, &d)
	if err != nil {
		return errors.Join(errs, err)
	}
	k.mu.Lock()
	r := k.byID[j.id]
	if r == nil { // removed meanwhile
		k.mu.Unlock()
		return errors.Join(errs, os.RemoveAll(filepath.Join(k.store.dir, j.id)))
	}
	had := r.HasRecording && r.LeftOut == leftOut
	k.dirty[j.id] = true
	r.HasRecording, r.LeftOut, r.State.Recorded = true, leftOut, recorded
	now := r.Copy().Summary
	k.mu.Unlock()
	if !had && k.c.Listen != nil {
		k.c.Listen(now)
	}
	return errs
}

// record writes the recording that a diagnosis can be made of again, and returns the labels of each of its servers
// by directory, and how many servers it leaves out.
func (k *Keeper) record(ctx context.Context, j *job, d *diagnose.Diagnosis) (recorded map[string]map[string]string,
	leftOut int, err error) {
	from := d.Verdict.Since.Add(-before)
	if oldest := d.At.Add(-longest); d.Verdict.Since.IsZero() || from.Before(oldest) {
		from = oldest
	}
	instances := incident.Instances(d)
	if leftOut = len(instances) - mostInstances; leftOut > 0 {
		instances = instances[:mostInstances]
	}
	leftOut = max(0, leftOut)
	var matchers []*labels.Matcher // other clusters may have servers at the same addresses
	if j.record.Cluster != "" {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, "cluster", j.record.Cluster))
	}
	tmp := k.store.filePath(j.id, temporaryMark+evidenceFile)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, leftOut, fileio.StripOp(err)
	}
	w, err := recording.Create(tmp)
	if err != nil {
		return nil, leftOut, err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp)
		}
	}()
	written, err := pages.Write(ctx, j.q, pages.Request{Instances: instances, Matchers: matchers, From: from, To: d.At,
		MaxBytes: mostText}, w.Add)
	notes, jsonErr := json.MarshalIndent(map[string]any{
		"recorded_by": "sixty serve", "incident": j.id, "verdict": d.Verdict.ID,
		"at": d.At.UTC().Format(time.RFC3339Nano), "since": d.Verdict.Since.UTC().Format(time.RFC3339),
		"targets": d.Verdict.Targets, "command": "sixty diagnose " + j.id + ".tar.zst",
		"labels": written.Labels, "servers_left_out": leftOut,
	}, "", " ")
	if err = errors.Join(err, jsonErr); err == nil {
		err = w.SetMeta(notes)
	}
	recorded = make(map[string]map[string]string, len(written.Labels))
	for name, of := range written.Labels {
		recorded[w.Directory(name)] = labelsOf(of, j.record)
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = fileio.Move(tmp, k.store.filePath(j.id, evidenceFile))
	}
	return recorded, leftOut, err
}

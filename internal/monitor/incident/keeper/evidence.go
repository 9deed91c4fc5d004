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

// Bounds of stored evidence, and when the impact on users is measured.
const (
	recordBefore    = 10 * time.Minute // a recording begins this long before the onset,
	maxRecording    = time.Hour        // but has at most this length, as a diagnosis reads no more
	maxInstances    = 24               // in one recording; the failing ones first
	maxPages        = 128 << 20        // bytes of one recording, uncompressed
	jobTime         = 2 * time.Minute  // for the evidence of one incident
	impactEvery     = time.Minute      // between two measurements of one impact
	firstImpactTime = 2 * time.Second  // for the measurements that an evaluation waits for
	youngFor        = 2 * time.Minute  // how long an incident without impact is measured in every evaluation
)

// A job is evidence to be written.
type job struct {
	id        string
	record    *incident.Record // a copy from the time of the diagnosis
	diagnosis diagnose.Diagnosis
	querier   metrics.Querier
}

// dueImpacts returns copies of the incidents whose impact must be measured now. first are young incidents without an
// impact: they are measured before people are notified. later are the others, from time to time, and ended ones once.
func (k *Keeper) dueImpacts(d *diagnose.Diagnosis) (first, later []*incident.Record) {
	for _, r := range k.byID {
		until := d.At.UTC()
		if !r.Open() {
			until = *r.Ended
		}
		young := r.Impact == nil && d.At.Sub(r.Evolution[0].At) < youngFor
		early := r.Open() && !young && until.Sub(r.State.ImpactAt) < impactEvery
		if early || r.State.ImpactAt.Equal(until) || !r.Open() && d.At.Sub(until) > incident.ReopenWithin {
			continue
		}
		if r.State.ImpactAt = until; young {
			first = append(first, r.Copy())
		} else {
			later = append(later, r.Copy())
		}
	}
	return first, later
}

// measureImpacts measures the impact of incidents. A measurement that does not end in time is repeated later. An impact
// never decreases: servers that are gone took their counts with them.
func (k *Keeper) measureImpacts(due []*incident.Record, timeout time.Duration, d *diagnose.Diagnosis,
	q metrics.Querier) {
	ctx, cancel := context.WithTimeout(k.ctx, timeout)
	defer cancel()
	for _, c := range due {
		impact, err := k.cfg.Impact(ctx, q, c.Summary, c.State.ImpactAt, d.Interval)
		k.mu.Lock()
		r := k.byID[c.ID]
		switch {
		case r == nil:
		case err != nil:
			r.State.ImpactAt = time.Time{}
			k.cfg.Log.Debug("the impact of an incident is not known yet", "incident", c.ID, "err", err)
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
	if !ok || !e.KeepDiagnosis {
		return
	}
	j := k.jobs[r.ID]
	if j == nil {
		if len(k.jobs) >= maxJobs {
			k.cfg.Log.Warn("too many incidents at once: the evidence of one is not kept", "incident", r.ID)
			return
		}
		j = &job{id: r.ID}
		k.jobs[r.ID] = j
	}
	j.record, j.querier, j.diagnosis = r.Copy(), q, part
}

// storeEvidence stores evidence in the background, one incident after the other. The caller holds the lock.
func (k *Keeper) storeEvidence() {
	if k.busy {
		return
	}
	k.busy = true
	k.working.Go(func() {
		for j := k.nextJob(); j != nil; j = k.nextJob() {
			k.runJob(j)
		}
	})
}

// nextJob takes a job. It returns nil if there is none or the Keeper is closed.
func (k *Keeper) nextJob() *job {
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
		k.cfg.Log.Warn("the evidence of an incident cannot be stored", "incident", j.id, "err", err)
	}
}

// saveEvidence predicts the fixes of a job's diagnosis, updates the incident's advice, and writes the diagnosis with
// its recording. Without plots or predictions they are still written.
func (k *Keeper) saveEvidence(ctx context.Context, j *job) error {
	d := j.diagnosis
	d.Predict(ctx, j.querier, k.cfg.Predict)
	k.mu.Lock()
	if r := k.byID[j.id]; r != nil {
		r.UpdateAdvice(&d)
		k.dirty[j.id] = true
		k.tracker.Conform(&d)
	}
	k.mu.Unlock()
	errs := d.Plot(ctx, j.querier)
	if err := k.store.saveDiagnosis(j.id, d); err != nil {
		return errors.Join(errs, err)
	}
	recorded, leftOut, err := k.writeRecording(ctx, j, &d)
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
	r.HasRecording, r.LeftOut, r.State.RecordedLabels = true, leftOut, recorded
	now := r.Copy().Summary
	k.mu.Unlock()
	if !had {
		k.notifyListener(now)
	}
	return errs
}

// writeRecording writes the recording from which the diagnosis can be repeated. It returns the labels of the recorded
// servers by directory, and how many servers it leaves out.
func (k *Keeper) writeRecording(ctx context.Context, j *job, d *diagnose.Diagnosis) (
	recorded map[string]map[string]string, leftOut int, err error) {
	from := d.Verdict.Since.Add(-recordBefore)
	if oldest := d.At.Add(-maxRecording); d.Verdict.Since.IsZero() || from.Before(oldest) {
		from = oldest
	}
	instances := incident.Instances(d)
	if leftOut = len(instances) - maxInstances; leftOut > 0 {
		instances = instances[:maxInstances]
	}
	leftOut = max(0, leftOut)
	var matchers []*labels.Matcher
	if j.record.Cluster != "" { // other clusters may have servers at the same addresses
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
	written, err := pages.Write(ctx, j.querier, pages.Request{
		Instances: instances, Matchers: matchers, From: from, To: d.At,
		MaxBytes: maxPages}, w.Add)
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

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// engineFacts is what is known of the servers' configuration beside what they
// tell themselves.
type engineFacts struct {
	config  engine.Config
	version string
	notes   []string
	log     *engine.Log // nil without --engine-log
}

// engine reads --engine-args and --engine-log, the former going first.
func (f *diagnoseFlags) engine() (*engineFacts, error) {
	known := &engineFacts{config: engine.Config{}}
	if f.engineArgs != "" {
		known.config.Merge(engine.ParseArgs(f.engineArgs, "--engine-args"))
		if len(known.config) == 0 {
			return nil, hint.With(fmt.Errorf("--engine-args: no flag in %q", f.engineArgs), `copy the server's command line, such as "--max-num-seqs 256"`)
		}
	}
	if f.engineLog == "" {
		return known, nil
	}
	file, err := os.Open(f.engineLog)
	if err != nil {
		return nil, fmt.Errorf("--engine-log: %w", err)
	}
	defer file.Close()
	log, err := engine.ParseLog(file, time.Now())
	if err != nil {
		return nil, fmt.Errorf("--engine-log %s: %w", f.engineLog, err)
	}
	known.log, known.version = &log, log.Version
	known.config.Merge(log.Config)
	for _, e := range log.Errors {
		when := ""
		if !e.Last.IsZero() {
			when = ", last at " + stamp(e.Last)
		}
		known.notes = append(known.notes, fmt.Sprintf("the engine log tells of: %s (%d lines%s)", e.Kind, e.Count, when))
	}
	if log.Starts > 0 {
		known.notes = append(known.notes, fmt.Sprintf("the engine log tells of %d restarts", log.Starts))
	}
	return known, nil
}

// annotate puts it before what the metrics say.
func (k *engineFacts) annotate(targets []diagnose.Target) {
	for i := range targets {
		t := &targets[i]
		if t.IsGPU() {
			continue
		}
		c := engine.Config{}
		c.Merge(k.config)
		c.Merge(t.Config)
		t.Config = c
		if k.version != "" {
			t.Version = k.version
		}
		t.Notes = append(t.Notes, k.notes...)
	}
}

// logConfidence bounds what a log alone is worth: means of ten seconds, and
// neither latencies nor, since V1, preemptions.
const logConfidence = 0.5

// diagnoseLog judges what the log's lines of statistics tell.
func diagnoseLog(ctx context.Context, stderr io.Writer, f *diagnoseFlags, known *engineFacts, o diagnose.Options) (d diagnose.Diagnosis, err error) {
	pages := known.log.Pages()
	if len(pages) == 0 {
		return d, hint.With(fmt.Errorf("--engine-log %s: no line of statistics in it", f.engineLog),
			"give a source of numbers too: the server's URL, --recording or --prometheus; or a log of a server without --disable-log-stats")
	}
	s := span{first: pages[0].At, last: pages[len(pages)-1].At}
	if o.At, err = s.at(f.at); err != nil {
		return d, err
	}
	o.Interval, o.First, o.Every = 10*time.Second, s.first, true
	if err := f.past(&o, s); err != nil {
		return d, err
	}
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, p := range pages {
		if _, err := store.Append(embedded.Target{Instance: filepath.Base(f.engineLog)}, p.At, p.Body, "", 0); err != nil {
			return d, fmt.Errorf("--engine-log %s: %w", f.engineLog, err)
		}
	}
	notes(stderr, []string{"a log has no latencies: give the server's URL, a recording or a Prometheus server for a sure verdict"})
	if d, err = diagnose.Run(ctx, store, o); err == nil {
		d.Verdict.Confidence = min(d.Verdict.Confidence, logConfidence)
		for i := range d.Verdicts {
			d.Verdicts[i].Confidence = min(d.Verdicts[i].Confidence, logConfidence)
		}
		for i := range d.Findings {
			d.Findings[i].Confidence = min(d.Findings[i].Confidence, logConfidence)
		}
	}
	return d, err
}

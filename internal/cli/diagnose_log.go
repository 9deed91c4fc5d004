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
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/source"
)

// engine reads --engine-args and --engine-log, the former going first. The log is nil
// where none was given.
func (f *diagnoseFlags) engine() (*diagnose.Known, *engine.Log, error) {
	known := &diagnose.Known{Config: engine.Config{}}
	if f.engineArgs != "" {
		var err error
		if known.Config, err = vllm.Engine.Flags.LikelyArgs(f.engineArgs, "--"+flagArgs); err != nil {
			return nil, nil, err
		}
		if len(known.Config) == 0 {
			return nil, nil, hint.With(fmt.Errorf("--engine-args: no flag in %q", f.engineArgs), `copy the server's command line, such as "--max-num-seqs 256"`)
		}
	}
	if f.engineLog == "" {
		return known, nil, nil
	}
	file, err := os.Open(f.engineLog)
	if err != nil {
		return nil, nil, fmt.Errorf("--engine-log: %w", err)
	}
	defer file.Close()
	log, err := engine.ParseLog(file, time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("--engine-log %s: %w", f.engineLog, err)
	}
	known.AddLog(&log)
	return known, &log, nil
}

// logConfidence bounds what a log alone is worth: means of ten seconds, and
// neither latencies nor, since V1, preemptions.
const logConfidence = 0.5

// judgeLog judges what the log's lines of statistics tell.
func (f *diagnoseFlags) judgeLog(ctx context.Context, stderr io.Writer, log *engine.Log, judge func(*source.Source) error) (err error) {
	s, err := source.OpenLog(ctx, filepath.Base(f.engineLog), log)
	if err != nil {
		return hint.With(fmt.Errorf("--engine-log %s: %w", f.engineLog, err),
			"give a source of numbers too: the server's URL, a recording or --prometheus; or a log of a server without --disable-log-stats")
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	notes(stderr, []string{"a log has no latencies: give the server's URL, a recording or a Prometheus server for a sure verdict"})
	return judge(s)
}

package tracefile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/sixty-dev/sixty/internal/profile"
)

// gcPercent is the growth of memory, in percent, between two garbage collections. A timeline has few pointers and makes
// little garbage, so that frequent collections cost no time, and rare ones would cost twice the memory.
const gcPercent = 25

// Options say how traces are read.
type Options struct {
	Limit int                              // most events of a trace to hold, at least 1000
	Show  func(format string, args ...any) // shows the progress with several traces
}

// Profile reads and analyses files and directories of traces. It holds one trace at a time, because a job may have a
// thousand. If some of the traces cannot be read, the profile is partial.
func Profile(ctx context.Context, args []string, o Options) (*profile.Profile, error) {
	var paths []string
	for _, a := range args {
		list, err := List(a)
		if err != nil {
			return nil, err
		}
		paths = append(paths, list...)
	}
	if o.Limit < 1000 {
		return nil, errors.New("--max-events: want at least 1000")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	var ranks []*profile.Analysis
	var failed []error
	for i, path := range paths {
		if len(paths) > 1 {
			o.Show("reading %d of %d: %s", i+1, len(paths), path)
		}
		t, err := Read(ctx, path, o.Limit)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			failed = append(failed, err)
			continue
		}
		ranks = append(ranks, profile.Analyze(t))
	}
	if len(ranks) == 0 {
		return nil, failed[0]
	}
	p := profile.Combine(ranks)
	for i, err := range failed {
		if i == 3 {
			p.Partial = append(p.Partial, fmt.Sprintf("%d more traces could not be read", len(failed)-3))
			break
		}
		p.Partial = append(p.Partial, err.Error())
	}
	return p, nil
}

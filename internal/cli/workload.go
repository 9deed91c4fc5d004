package cli

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/workload"
)

// What a verb takes beside requests that are made up and come at a rate.
const (
	closedLoops, traces, conversations = workload.ClosedLoops, workload.Traces, workload.Conversations
	scaledRates, noUsualLengths        = workload.ScaledRates, workload.NoUsualLengths
)

// registerWorkload adds the flags that describe a workload.
func registerWorkload(s *pflag.FlagSet, a *workload.Asked, parts workload.Parts) {
	a.AddFlags(s, parts)
}

// givenWorkload notes which flags were given, where what they were given may be the default.
func givenWorkload(s *pflag.FlagSet, a *workload.Asked) {
	a.SetCV, a.SetConcurrency, a.SetPrefixShare = s.Changed("cv"), s.Changed("concurrency"), s.Changed("prefix-share")
}

// readTrace reads a trace, nil of no file.
func readTrace(path, format string) (*workload.Trace, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	defer file.Close()
	return workload.Read(file, workload.Options{Format: workload.Format(format)})
}

// timed refuses a trace that does not say when its requests came.
func timed(t *workload.Trace) error { return t.Timed() }

package campaign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// trialDuration is the length of a trial without --duration and --requests: enough for a steady state with answers
// that take seconds.
const trialDuration = time.Minute

// searchCapacity finds the highest level that meets the objective.
func (b *campaign) searchCapacity(ctx context.Context) (*Found, error) {
	s, _, err := b.syntheticScenario(ctx)
	if err != nil {
		return nil, err
	}
	if s.Name = "trial"; s.Requests == 0 && s.Duration == 0 {
		s.Duration = trialDuration
	}
	try := func(ctx context.Context, level float64) (load.Trial, error) { return b.retryTrial(ctx, s, level) }
	plan := load.SearchPlan{Low: b.SearchFrom, High: b.SearchTo, Whole: b.Search == "concurrency"}
	searched, failure := load.Search(ctx, plan, try) // the levels before a failure are reported too
	if searched == nil || len(searched.Trials) == 0 && failure != nil {
		return nil, failure
	}
	found := &Found{Search: searched, unit: "requests/s"}
	if b.Search == "concurrency" {
		found.unit = "streams"
	}
	if best := searched.Best; best != nil && best.Result != nil {
		found.Results = append(found.Results, best.Result)
	} else {
		for _, t := range searched.Trials {
			if t.Result != nil {
				found.Results = append(found.Results, t.Result)
			}
		}
	}
	if err := b.writeFiles(found, nil); err != nil {
		return found, err
	}
	switch {
	case failure != nil:
		return found, failure
	case searched.Best == nil:
		return found, ErrMissed
	}
	return found, b.judgeResults(found.Results)
}

// maxSpoiled is how often a trial is run that the generator distorts: the machine may be busy for a moment.
const maxSpoiled = 3

// retryTrial runs a trial, and repeats it if the generator distorted it.
func (b *campaign) retryTrial(ctx context.Context, s load.Scenario, level float64) (t load.Trial, err error) {
	for range maxSpoiled {
		if t, err = b.runTrial(ctx, s, level); !errors.Is(err, ErrSpoiled) || ctx.Err() != nil {
			return t, err
		}
		fmt.Fprintf(b.Stderr, "trial at %.4g again: %v\n", level, err)
	}
	return t, err
}

// runTrial runs the scenario at one level.
func (b *campaign) runTrial(ctx context.Context, s load.Scenario, level float64) (load.Trial, error) {
	if s.Concurrency = int(level); b.Search == "rate" {
		a := workload.Constant(level)
		a.CV = b.CV
		s.Concurrency, s.Arrivals = 0, &a
	}
	p, err := b.newPlan(&s)
	if err != nil {
		return load.Trial{}, err
	}
	o, stopped := load.Overload{Promised: b.objective.TTFTP95}, false
	res, _, err := b.runTest(ctx, &p, func(x load.Progress) bool {
		stopped = stopped || o.Lost(x)
		return stopped
	})
	if err != nil {
		return load.Trial{}, err
	}
	t := load.Trial{Level: level, Result: res, Met: true}
	if stopped {
		t.Met, t.Why = false, "stopped early: the server falls behind"
	} else if err := res.Meets(b.objective); err != nil {
		t.Met, t.Why = false, err.Error()
	}
	if res.Gone > 0 {
		return t, hint.With(fmt.Errorf("at %.4g the server went away after %.1f s", level, res.Gone),
			"see its log; --search-to stops a search below that level")
	}
	if res.Generator.Spoiled {
		return t, hint.With(fmt.Errorf("%w: %s", ErrSpoiled, strings.Join(res.Generator.Reasons, "; ")),
			"search with more CPUs for the load generator")
	}
	verdict := "met"
	if !t.Met {
		verdict = "missed: " + t.Why
	}
	fmt.Fprintf(b.Stderr, "trial at %.4g: %s\n", level, verdict)
	return t, nil
}

package campaign

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/loadreport"
)

// trialDuration is how long one trial lasts without --duration and --requests:
// long enough for a steady state of answers of some seconds.
const trialDuration = time.Minute

// search finds the highest level that meets the objective.
func (b *campaign) search(ctx context.Context) error {
	unit := "requests/s"
	if b.Search == "concurrency" {
		unit = "streams"
	}
	s, _, err := b.madeUp(ctx)
	if err != nil {
		return err
	}
	if s.Name = "trial"; s.Requests == 0 && s.Duration == 0 {
		s.Duration = trialDuration
	}
	try := func(ctx context.Context, level float64) (load.Trial, error) { return b.retryTrial(ctx, s, level) }
	plan := load.SearchPlan{Low: b.SearchFrom, High: b.SearchTo, Whole: b.Search == "concurrency"}
	found, err := load.Search(ctx, plan, try)
	if found == nil || len(found.Trials) == 0 && err != nil {
		return err
	}
	failure := err // what was found until then is shown
	var results []*load.Result
	if found.Best != nil && found.Best.Result != nil {
		results = append(results, found.Best.Result)
	} else {
		for i := range found.Trials {
			if r := found.Trials[i].Result; r != nil {
				results = append(results, r)
			}
		}
	}
	if b.Form == text {
		if err := loadreport.SearchText(b.Stdout, found, unit, b.Terminal); err != nil {
			return err
		}
	}
	if err := b.write(results, nil, found, unit); err != nil {
		return err
	}
	switch {
	case failure != nil:
		return failure
	case found.Best == nil:
		return ErrMissed
	}
	return b.verdict(results)
}

// maxSpoiled is how often a trial that the generator spoiled is made again: the
// machine may have been busy with something else for a moment.
const maxSpoiled = 3

// retryTrial makes a trial again when the generator spoiled it.
func (b *campaign) retryTrial(ctx context.Context, s load.Scenario, level float64) (t load.Trial, err error) {
	for range maxSpoiled {
		if t, err = b.trial(ctx, s, level); !errors.Is(err, ErrSpoiled) || ctx.Err() != nil {
			return t, err
		}
		fmt.Fprintf(b.Stderr, "trial at %.4g again: %v\n", level, err)
	}
	return t, err
}

// trial runs the scenario at one level.
func (b *campaign) trial(ctx context.Context, s load.Scenario, level float64) (load.Trial, error) {
	if b.Search == "rate" {
		s.Rate = strconv.FormatFloat(level, 'g', -1, 64)
	} else {
		s.Concurrency = int(level)
	}
	arrivals, err := s.Arrivals()
	if err != nil {
		return load.Trial{}, err
	}
	p, err := b.plan(&s, arrivals)
	if err != nil {
		return load.Trial{}, err
	}
	o, stopped := load.Overload{Promised: b.objective.TTFTP95}, false
	res, _, err := b.run(ctx, &p, func(x load.Progress) bool {
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
		return t, hint.With(fmt.Errorf("at %.4g the server went away after %.1f s", level, res.Gone), "see its log; --search-to stops a search below that level")
	}
	if res.Generator.Spoiled {
		return t, hint.With(fmt.Errorf("%w: %s", ErrSpoiled, strings.Join(res.Generator.Reasons, "; ")), "search with more CPUs for the load generator")
	}
	if b.Form == text {
		verdict := "met"
		if !t.Met {
			verdict = "missed: " + t.Why
		}
		fmt.Fprintf(b.Stderr, "trial at %.4g: %s\n", level, verdict)
	}
	return t, nil
}

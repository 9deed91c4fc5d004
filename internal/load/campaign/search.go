package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// search finds the highest level that meets the objective, or runs a sweep.
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
	var found *load.Found
	if len(b.Sweep) > 0 {
		found, err = b.sweep(ctx, try)
	} else {
		found, err = load.Search(ctx, load.SearchPlan{Low: b.SearchFrom, High: b.SearchTo, Whole: b.Search == "concurrency"}, try)
	}
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
	case found.Best == nil && len(b.Sweep) == 0:
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
	var lost func(load.Progress) bool
	stopped := false
	if b.objective != nil {
		o := load.Overload{Promised: b.objective.TTFTP95}
		lost = func(x load.Progress) bool {
			stopped = stopped || o.Lost(x)
			return stopped
		}
	}
	res, _, err := b.run(ctx, &p, lost)
	if err != nil {
		return load.Trial{}, err
	}
	t := load.Trial{Level: level, Result: res, Met: true}
	switch {
	case b.objective == nil:
	case stopped:
		t.Met, t.Why = false, "stopped early: the server falls behind"
	default:
		if err := res.Meets(b.objective); err != nil {
			t.Met, t.Why = false, err.Error()
		}
	}
	if res.Gone > 0 {
		return t, hint.With(fmt.Errorf("at %.4g the server went away after %.1f s", level, res.Gone), "look at its log; --search-to stops a search below that level")
	}
	if res.Generator.Spoiled {
		return t, hint.With(fmt.Errorf("%w: %s", ErrSpoiled, strings.Join(res.Generator.Reasons, "; ")), "search with a generator that has more processors")
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

// sweep runs every level that was asked for.
func (b *campaign) sweep(ctx context.Context, try func(context.Context, float64) (load.Trial, error)) (*load.Found, error) {
	levels := slices.Clone(b.Sweep)
	slices.Sort(levels)
	found := &load.Found{Done: true, Why: "sweep"}
	var throughput []float64
	for _, level := range levels {
		t, err := try(ctx, level)
		if err != nil {
			return found, err
		}
		t.Level = level
		found.Trials = append(found.Trials, t)
		throughput = append(throughput, t.Result.Throughput.OutputTokens)
		if ctx.Err() != nil {
			break
		}
	}
	for i := range found.Trials {
		if t := &found.Trials[i]; t.Met && b.objective != nil {
			found.Best = t
		}
	}
	if knee, err := load.Knee(levels[:len(throughput)], throughput); err == nil {
		found.Why = fmt.Sprintf("the knee is at %g: more load brings little more throughput", levels[knee])
		if found.Best == nil && b.objective == nil {
			found.Best = &found.Trials[knee]
		}
	}
	return found, nil
}

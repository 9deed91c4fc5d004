package load

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSearchFindsTheCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Float64Range(1.01, 5000).Draw(t, "capacity")
		plan := SearchPlan{Low: 1, Whole: rapid.Bool().Draw(t, "whole")}
		if rapid.Bool().Draw(t, "bounded") {
			plan.High = rapid.Float64Range(2, 10_000).Draw(t, "high")
			if plan.Whole {
				plan.High = math.Ceil(plan.High)
			}
		}
		tries := map[float64]bool{}
		f, err := Search(context.Background(), plan, func(_ context.Context, level float64) (Trial, error) {
			if tries[level] {
				t.Fatalf("level %v was tried twice", level)
			}
			if plan.Whole && level != math.Trunc(level) {
				t.Fatalf("level %v is not whole", level)
			}
			if plan.High > 0 && level > plan.High {
				t.Fatalf("level %v is above the highest, %v", level, plan.High)
			}
			tries[level] = true
			return Trial{Met: level <= capacity}, nil
		})
		if err != nil || !f.Done || f.Best == nil {
			t.Fatalf("found %+v, error %v", f, err)
		}
		reachable := capacity
		if plan.High > 0 {
			reachable = min(reachable, plan.High)
		}
		if f.Best.Level > reachable || f.Best.Level < reachable/1.06 && !(plan.Whole && reachable-f.Best.Level < 1) {
			t.Fatalf("found %v, the capacity is %v within %v", f.Best.Level, capacity, plan.High)
		}
	})
}

func TestSearchEnds(t *testing.T) {
	never := func(context.Context, float64) (Trial, error) { return Trial{}, nil }
	f, err := Search(context.Background(), SearchPlan{Low: 5}, never)
	if err != nil || !f.Done || f.Best != nil || f.Above != 5 || len(f.Trials) != 1 {
		t.Errorf("nothing meets it: %+v, %v", f, err)
	}
	always := func(context.Context, float64) (Trial, error) { return Trial{Met: true}, nil }
	if f, err = Search(context.Background(), SearchPlan{Low: 5}, always); err != nil || f.Done || len(f.Trials) != maxTrials || f.Best.Level != 5<<(maxTrials-1) {
		t.Errorf("everything meets it: %+v, %v", f, err)
	}
	boom := errors.New("boom")
	if f, err = Search(context.Background(), SearchPlan{Low: 5}, func(context.Context, float64) (Trial, error) { return Trial{}, boom }); !errors.Is(err, boom) || f == nil {
		t.Errorf("a trial fails: %+v, %v", f, err)
	}
	for _, bad := range []SearchPlan{{}, {Low: 2, High: 1}, {Low: math.NaN()}} {
		if _, err := Search(context.Background(), bad, always); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

func TestOverload(t *testing.T) {
	slow := Progress{TTFTs: []time.Duration{2 * time.Second}}
	fine := Progress{TTFTs: []time.Duration{100 * time.Millisecond}}
	o := Overload{Promised: 500 * time.Millisecond}
	for i, step := range []struct {
		p    Progress
		lost bool
	}{{slow, false}, {slow, false}, {fine, false}, {slow, false}, {slow, false}, {slow, true}} {
		if got := o.Lost(step.p); got != step.lost {
			t.Errorf("step %d: lost %v", i, got)
		}
	}
	o = Overload{}
	for i := range 20 {
		if lost := o.Lost(Progress{InFlight: 100 * i}); lost != (i >= 3+overloadGrowth-1) {
			t.Errorf("growing backlog, step %d: lost %v", i, lost)
		}
	}
}

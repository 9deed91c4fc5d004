package load

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// A Trial is one test of a search, at one level of load.
type Trial struct {
	Level  float64 `json:"level"` // requests per second, or streams
	Met    bool    `json:"met"`   // met the objective
	Why    string  `json:"why,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// A SearchPlan bounds a search.
type SearchPlan struct {
	Low, High float64 // levels; 0 for High finds it by doubling
	Whole     bool    // levels are whole numbers (streams)
}

const (
	searchPrecision = 0.05 // relative width at which a search ends
	maxTrials       = 20   // 13 reach a level four orders of magnitude above the lowest, 5 more find it within 5 %
)

// Validate reports contradictions.
func (p *SearchPlan) Validate() error {
	switch {
	case !(p.Low > 0):
		return fmt.Errorf("search from %v: want a positive level", p.Low)
	case p.High != 0 && !(p.High > p.Low):
		return fmt.Errorf("search from %v to %v: want an upper level above the lower", p.Low, p.High)
	}
	return nil
}

// Found is the outcome of a search.
type Found struct {
	Best   *Trial  `json:"best,omitempty"` // the highest level that met the objective; nil if none did
	Above  float64 `json:"above"`          // the lowest level that missed it; 0 if none did
	Trials []Trial `json:"trials"`         // in the order of the search
	Done   bool    `json:"done"`           // the precision was reached
	Why    string  `json:"why"`
}

// Search finds the highest level of load that meets an objective. It doubles the lowest level until a trial misses,
// and then bisects between the best level that met and the lowest that missed. try runs one test.
//
// It assumes a monotone server: a level that misses would miss at any higher level. A level that misses by chance
// makes the answer too low, never too high.
func Search(ctx context.Context, plan SearchPlan, try func(context.Context, float64) (Trial, error)) (*Found, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	f := &Found{}
	for {
		level, more := plan.nextLevel(f)
		switch {
		case !more:
			return f, nil
		case len(f.Trials) == maxTrials:
			f.Why = fmt.Sprintf("stopped after %d trials", maxTrials)
			return f, nil
		}
		t, err := try(ctx, level)
		if err != nil {
			if ctx.Err() != nil {
				f.Why = "interrupted"
				return f, nil
			}
			f.Why = fmt.Sprintf("the trial at %g failed", level)
			return f, fmt.Errorf("trial at %g: %w", level, err)
		}
		if ctx.Err() != nil {
			f.Why = "interrupted"
			return f, nil // an interrupted trial proves nothing
		}
		t.Level = level
		f.Trials = append(f.Trials, t)
	}
}

// nextLevel chooses the next level from the trials so far, and updates the outcome.
func (p *SearchPlan) nextLevel(f *Found) (level float64, more bool) {
	met, missed := f.bracket()
	switch {
	case met == 0 && math.IsInf(missed, 1):
		return p.Low, true
	case met == 0 && missed <= p.Low:
		f.Done, f.Why = true, "the objective is missed at the lowest level already"
		return 0, false
	case met == 0:
		level = p.Low
	case math.IsInf(missed, 1):
		level = 2 * met
		if p.High > 0 {
			if met >= p.High {
				f.Done, f.Why = true, "the objective is met at the highest level"
				return 0, false
			}
			level = min(level, p.High)
		}
	case missed/met-1 <= searchPrecision || p.Whole && missed-met <= 1:
		f.Done, f.Why = true, fmt.Sprintf("met at %.4g, missed at %.4g", met, missed)
		return 0, false
	default:
		// The geometric mean, because the precision is relative.
		level = math.Sqrt(met * missed)
	}
	if p.Whole {
		return min(max(math.Round(level), met+1), missed), true
	}
	if r := roundToThreeDigits(level); r > met && r < missed && missed < math.Inf(1) {
		level = r
	}
	return level, true
}

// bracket sets Best and Above. It returns the highest level that met the objective, or 0, and the lowest level that
// missed it, or infinity.
func (f *Found) bracket() (met, missed float64) {
	missed = math.Inf(1)
	for _, t := range f.Trials {
		if !t.Met {
			missed = min(missed, t.Level)
		}
	}
	f.Best = nil
	for i := range f.Trials {
		if t := &f.Trials[i]; t.Met && t.Level > met && t.Level < missed {
			met, f.Best = t.Level, t
		}
	}
	f.Above = missed
	if math.IsInf(missed, 1) {
		f.Above = 0
	}
	return met, missed
}

// roundToThreeDigits rounds a level to three digits.
func roundToThreeDigits(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // FormatFloat's output always parses
	return r
}

// Overload recognizes a test that has clearly lost, so that a search can stop it early.
type Overload struct {
	// Promised is the time to first token of the objective, 0 for none.
	Promised time.Duration

	slow, growing int
	last          int
}

const (
	// overloadFactor is the ratio of the median time to first token to the promised one that counts as slow.
	overloadFactor = 3
	// overloadSlow and overloadGrowth are how many intervals in a row must be slow or must grow the backlog.
	overloadSlow, overloadGrowth = 3, 8
	// minBacklog is the backlog below which growth is the ramp-up of a healthy test.
	minBacklog = 200
)

// Lost reports whether the test is lost after another progress.
func (o *Overload) Lost(p Progress) bool {
	if len(p.TTFTs) > 0 && o.Promised > 0 {
		if stat.Median(p.TTFTs) > overloadFactor*o.Promised {
			o.slow++
		} else {
			o.slow = 0
		}
	}
	if p.InFlight > o.last && p.InFlight > minBacklog {
		o.growing++
	} else {
		o.growing = 0
	}
	o.last = p.InFlight
	return o.slow >= overloadSlow || o.growing >= overloadGrowth
}

package perfmodel

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// UsableIntervals returns the usable intervals of all engines, with other unknown values as 0.
func UsableIntervals(m *workload.Measured) []workload.Interval {
	var out []workload.Interval
	for _, e := range m.Ranks {
		for _, i := range e.Intervals {
			if math.IsNaN(i.Generated) || math.IsNaN(i.Running) || math.IsNaN(i.KVUsage) {
				continue
			}
			for _, v := range []*float64{
				&i.Steps, &i.Computed, &i.FirstTokens, &i.ITLSum, &i.ITLCount, &i.PrefillSum, &i.PrefillCount,
				&i.Waiting, &i.QueueSum, &i.QueueCount, &i.TTFTSum,
			} {
				if math.IsNaN(*v) {
					*v = 0
				}
			}
			out = append(out, i)
		}
	}
	return out
}

// SumWaits sums the times to first token, in the queue and in prefill, and their counts.
func SumWaits(intervals []workload.Interval) (sum workload.Interval) {
	for _, s := range intervals {
		sum.TTFTSum, sum.FirstTokens = sum.TTFTSum+s.TTFTSum, sum.FirstTokens+s.FirstTokens
		sum.QueueSum, sum.QueueCount = sum.QueueSum+s.QueueSum, sum.QueueCount+s.QueueCount
		sum.PrefillSum, sum.PrefillCount = sum.PrefillSum+s.PrefillSum, sum.PrefillCount+s.PrefillCount
	}
	return sum
}

// FitScrapes fits to a live server's metrics or to a recording of them. These are means over intervals, not single
// steps, so the overhead of steps with prefill and the knee are rougher than from requests. Check works as in
// FitRequests.
//
// If the number of steps is not known, the few samples of running requests stand for the batch. Without gaps between
// tokens the server is taken to have been busy all the time. The mean gap includes gaps of preempted requests, but
// steps cannot have taken longer than the interval.
func FitScrapes(cfg sim.Config, scrapes []workload.Interval, prior *Prior, check func() error) (*Fit, error) {
	best, others, err := overKnees(cfg, prior, func(knee int) (*point, error) {
		var obs []Observation
		for _, s := range scrapes {
			obs = append(obs, interval{s, cfg}.toObservations(shapeOf(knee, prior))...)
		}
		if len(obs) == 0 {
			return nil, hint.With(errors.New("calibrate: the server was idle in every interval"),
				"choose a time with load")
		}
		return solveKnee(obs, knee, prior, check)
	})
	if err != nil {
		return nil, err
	}
	f, err := best.toFit(others, check)
	if err != nil {
		return nil, err
	}
	f.estimateFrontend(cfg, scrapes)
	return f, nil
}

// estimateFrontend estimates the API server's time: the time to first token less queue and prefill. A request that
// comes while a step is in execution waits for its end. vLLM counts this wait neither as queue nor as prefill (the
// engine takes requests between steps, EngineCore.run_busy_loop in v1/engine/core.py@v0.23.0), and the simulator has it
// in its queue. On average over time, the wait is half the sum of the squares of the steps' durations divided by the
// time. Intervals in which requests queued are left out. The sums of an interval are of different requests; over
// several intervals these differences even out. An interval with an unnoticed queue does not even out, so the trimmed
// mean leaves such intervals out.
func (f *Fit) estimateFrontend(cfg sim.Config, scrapes []workload.Interval) {
	calm := slices.DeleteFunc(slices.Clone(scrapes), func(s workload.Interval) bool {
		queued := s.Waiting > 0 || s.QueueSum*s.FirstTokens > s.TTFTSum*s.QueueCount/5
		return !(s.FirstTokens+s.PrefillCount > 0) || queued || (s.TTFTSum > 0) != (s.FirstTokens > 0)
	})
	var left []float64 // one for each stretch of neighbouring intervals
	stretches := min(frontendStretches, int(SumWaits(calm).FirstTokens/2))
	for i := range stretches {
		stretch := calm[i*len(calm)/stretches : (i+1)*len(calm)/stretches]
		sum, residual := SumWaits(stretch), 0.0
		for _, s := range stretch {
			residual += interval{s, cfg}.residualWait(f.Cost) * s.FirstTokens
		}
		if sum.FirstTokens >= 1 && sum.QueueCount >= 1 && sum.PrefillCount >= 1 {
			l := (sum.TTFTSum-residual)/sum.FirstTokens - sum.QueueSum/sum.QueueCount - sum.PrefillSum/sum.PrefillCount
			if math.Abs(l) <= time.Hour.Seconds() { // else the counters are wrong
				left = append(left, l)
			}
		}
	}
	if len(left) < fewestStretches {
		return
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the same input gives the same interval
	draws, sample := make([]float64, bootstrapDraws), make([]float64, len(left))
	for i := range draws {
		for k := range sample {
			sample[k] = left[rng.IntN(len(left))]
		}
		draws[i] = max(trimmedMean(sample), 0)
		f.FrontendDraws = append(f.FrontendDraws, sim.Frontend{PerRequest: draws[i]})
	}
	slices.Sort(draws)
	f.setFrontend(max(trimmedMean(left), 0), draws[bootstrapDraws*25/1000], draws[bootstrapDraws*975/1000])
}

// The calm intervals are divided into at most frontendStretches. With fewer than fewestStretches nothing is estimated.
const (
	frontendStretches = 20
	fewestStretches   = 4
)

// trimmedMean is the mean without the highest and the lowest fifth.
func trimmedMean(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	s = s[len(s)/5 : len(s)-len(s)/5]
	sum := 0.0
	for _, x := range s {
		sum += x
	}
	return sum / float64(len(s))
}

// An interval is an engine's metrics between two scrapes, with its configuration.
type interval struct {
	workload.Interval
	cfg sim.Config
}

// residualWait is the mean time that a request waits for the end of the step in execution.
func (s interval) residualWait(cost sim.StepCost) float64 {
	steps, mixed, ok := s.countSteps()
	if !ok {
		return 0
	}
	squares := 0.0
	for _, part := range []struct{ steps, mixed, prefill float64 }{{steps - mixed, 0, 0}, {mixed, mixed, s.Computed}} {
		if part.steps >= 1 {
			one := cost.Seconds(s.workOf(part.steps, part.mixed, part.prefill, cost)) / part.steps
			squares += part.steps * one * one
		}
	}
	return min(squares/(2*s.Seconds), s.Seconds)
}

// countSteps estimates the interval's steps, and the steps with prefill among them.
func (s *interval) countSteps() (steps, mixed float64, ok bool) {
	steps = s.Generated / s.Running // each step gives each running request a token
	if s.Steps > 0 {
		steps = s.Steps
		s.Running = max(s.Generated/s.Steps, 1)
	}
	budget := max(float64(s.cfg.MaxNumBatchedTokens)-s.Running, 1)
	mixed = min(max(s.FirstTokens, s.Computed/budget), steps)
	return steps, mixed, s.Running >= 1 && steps >= 1 && !math.IsInf(steps, 0) && s.Seconds > 0
}

func (s interval) toObservations(shape sim.StepCost) []Observation {
	steps, mixed, ok := s.countSteps()
	if !ok {
		return nil
	}
	seconds := s.Seconds
	if s.ITLCount > 0 {
		seconds = min(s.ITLSum/s.ITLCount*steps, s.Seconds)
	}
	if !(seconds > 0) {
		return nil
	}
	obs := []Observation{{Work: s.workOf(steps, mixed, s.Computed, shape), Seconds: seconds}}
	if s.PrefillCount > 0 && s.PrefillSum > 0 && s.FirstTokens > 0 {
		// A prefill waits for the step in execution, under asynchronous scheduling, and takes its own.
		prompt := s.Computed / s.FirstTokens
		own := math.Ceil(prompt / max(float64(s.cfg.MaxNumBatchedTokens)-s.Running, 1))
		steps := own
		if s.cfg.AsyncScheduling {
			steps++
		}
		obs = append(obs, Observation{
			Work:    s.workOf(steps, own, prompt, shape),
			Seconds: s.PrefillSum / s.PrefillCount,
			Weight:  prefillWeight,
		})
	}
	return obs
}

// workOf is the work of some steps of the interval's mean batch, of which mixed share prefill tokens.
func (s interval) workOf(steps, mixed, prefill float64, shape sim.StepCost) sim.Work {
	prompt := 0.0
	if s.FirstTokens > 0 {
		prompt = s.Computed / s.FirstTokens
	}
	knee := float64(shape.Knee)
	room := max(knee-s.Running, 0) // tokens that a step takes for nothing
	return sim.Work{
		Steps:    int64(math.Round(steps)),
		Mixed:    int64(math.Round(mixed)),
		Seqs:     int64(s.Running*steps + mixed),
		Tokens:   int64(s.Running*steps + prefill),
		Excess:   int64(max(prefill-mixed*room, 0) + max(s.Running-knee, 0)*steps),
		KVTokens: int64(s.KVUsage * float64(s.cfg.Tokens()) * steps),
		Pairs:    int64(prefill * prompt / 2),
		Experts:  int64(1e6 * steps * shape.TouchedShare(s.Running+prefill/max(steps, 1))),
	}
}

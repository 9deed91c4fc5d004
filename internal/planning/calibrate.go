package planning

import (
	"context"
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Miss is a quantity of the servers as they are that their simulation does not give:
// seconds, or tokens per second.
type Miss struct {
	Name      string  `json:"name"`
	Measured  float64 `json:"measured"`
	Simulated float64 `json:"simulated"`
}

// outputTokens is the one quantity that is not a time.
const outputTokens = "output tokens/s"

// String says what was missed.
func (m Miss) String() string {
	format := render.Seconds
	if m.Name == outputTokens {
		format = render.Number
	}
	return fmt.Sprintf("%s %s (measured %s)", m.Name, format(m.Simulated), format(m.Measured))
}

// How near the simulation of the servers as they are has to come to what was measured of
// them: beyond it, no number that rests on it is worth giving. Within negligibleMiss, nothing
// is left to adjust.
const (
	toleratedMiss  = 0.15
	negligibleMiss = 0.02
)

// What replaying the present may adjust: every step alike by a factor, for the robust fit
// describes usual steps and users wait through stalls too; the time outside the engine, up
// to what the metrics leave for it; and then what a step with a prefill costs beside its
// tokens, up to a multiple of any step's cost.
const (
	maxStretch        = 1.5
	maxMixed          = 3
	calibrationPasses = 8
)

// adjustment is what replaying the present changed of a fit.
type adjustment struct{ stretch, front, mixed float64 }

// calibratePresent simulates the servers as they are, with the traffic that they had, until that
// gives what was measured, and reports what it does not give.
func (s *Simulation) calibratePresent(ctx context.Context) error {
	if s.calibration.Basis != perfmodel.Metrics || s.Seen == nil {
		return nil
	}
	measured := s.Seen.Summary()
	fitted := s.calibration.Fit
	outside := max(outsideEngine(s.Seen), fitted.FrontendHigh)
	by := adjustment{1, fitted.Frontend.PerRequest, 0}
	best, worst := fitted, math.Inf(1)
	var off perfmodel.Misses
	for range calibrationPasses {
		s.calibration.Fit = by.applyTo(fitted)
		p, err := s.replayPresent(ctx)
		if err != nil {
			s.calibration.Fit = fitted
			return err
		}
		if p == nil {
			break // the present cannot be simulated, which its run will say
		}
		came := sim.WhileArriving(p.Result.Records)
		ttft, itl := came.TTFTMean.Seconds(), p.Summary.ITL.Mean.Seconds()
		var misses []Miss
		far := 0.0
		for _, m := range []Miss{
			{"TTFT mean", measured.TTFTMean, ttft}, {"ITL mean", measured.ITLMean, itl},
			{outputTokens, measured.OutputPerSecond, came.OutputPerSecond},
		} {
			if !(m.Measured > 0) {
				continue
			}
			one := math.Abs(m.Simulated/m.Measured - 1)
			if far = max(far, one); one > toleratedMiss {
				misses = append(misses, m)
			}
		}
		if far < worst {
			worst, best, s.Missed, off = far, s.calibration.Fit, misses, missesOf(s.Seen, p)
		}
		if worst <= negligibleMiss {
			break
		}
		if measured.ITLMean > 0 && itl > 0 {
			by.stretch = min(max(by.stretch*measured.ITLMean/itl, 1/maxStretch), maxStretch)
		}
		if queue := p.Summary.Queue.Mean.Seconds(); queue < ttft/2 {
			front := by.front + measured.TTFTMean - ttft
			by.front = min(max(front, 0), outside)
			by.mixed = min(max(by.mixed+front-by.front, 0), maxMixed*fitted.Cost.Base)
		}
	}
	s.calibration.Fit = best.Missing(off)
	return nil
}

// enoughForTail observations have one beyond the 95th percentile.
const enoughForTail = 20

// missesOf is by how much a simulation of servers misses what users of theirs waited.
func missesOf(seen *workload.Measured, p *perfmodel.Prediction) perfmodel.Misses {
	w, sum := &seen.Workload, &p.Summary
	of := func(h workload.Histogram, mean, p95 float64) perfmodel.Miss {
		m := perfmodel.MissOf(mean, h.Mean())
		switch _, in := h.Quantile(0.95); {
		case h.Count < enoughForTail || !(in.High > 0) || math.IsInf(in.High, 1) || p95 <= 0:
		case p95 < in.Low, p95 > in.High:
			m.Tail = math.Log(p95 / in.High) // below, all that the bucket may be
		}
		return m
	}
	came := sim.WhileArriving(p.Result.Records)
	return perfmodel.Misses{
		perfmodel.Tokens: perfmodel.MissOf(came.OutputPerSecond, seen.Summary().OutputPerSecond),
		perfmodel.TTFT:   of(w.TTFT, came.TTFTMean.Seconds(), sum.TTFT.P95.Seconds()),
		perfmodel.TPOT:   of(w.ITL, sum.ITL.Mean.Seconds(), sum.ITL.P95.Seconds()),
		perfmodel.E2E:    of(w.E2E, sum.E2E.Mean.Seconds(), sum.E2E.P95.Seconds()),
	}
}

// applyTo is the fit with the adjustment. Every other of its samples stays as it was, so that
// intervals span it.
func (a adjustment) applyTo(f *perfmodel.Fit) *perfmodel.Fit {
	out := f.Scale(sim.Uniform(a.stretch))
	out.Cost.Mixed += a.mixed
	for i := range out.Draws {
		if out.Draws[i].Mixed += a.mixed; i%2 == 0 {
			out.Draws[i] = f.Draws[i]
		}
	}
	out.Frontend.PerRequest = a.front
	out.FrontendLow, out.FrontendHigh = min(f.FrontendLow, a.front), max(f.FrontendHigh, a.front)
	return out
}

// replayPresent simulates the servers as they are; nil where they cannot be.
func (s *Simulation) replayPresent(ctx context.Context) (*perfmodel.Prediction, error) {
	now := s.Present()
	variants, err := now.Variants(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // there is no present to replay
	}
	v := variants[0]
	now.Samples = 0
	now.predict(ctx, v, 1)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return v.Prediction, nil
}

// outsideEngine is what is left of the time to first token beside queue and prefill, in
// seconds, on average: the API server's time, with its stalls. It is all of it where the
// metrics do not tell the parts.
func outsideEngine(m *workload.Measured) float64 {
	sum := perfmodel.Waits(perfmodel.IntervalsOf(m))
	out := sum.TTFTSum / max(sum.FirstTokens, 1)
	if sum.QueueCount > 0 && sum.PrefillCount > 0 {
		out -= sum.QueueSum/sum.QueueCount + sum.PrefillSum/sum.PrefillCount
	}
	return max(out, 0)
}

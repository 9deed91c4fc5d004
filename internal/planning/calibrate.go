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

// A Miss is a quantity of the present, in seconds or tokens per second, as measured and as simulated.
type Miss struct {
	Name      string  `json:"name"`
	Measured  float64 `json:"measured"`
	Simulated float64 `json:"simulated"`
}

// outputTokens is the only quantity that is not a time.
const outputTokens = "output tokens/s"

// String writes both values.
func (m Miss) String() string {
	format := render.Seconds
	if m.Name == outputTokens {
		format = render.Number
	}
	return fmt.Sprintf("%s %s (measured %s)", m.Name, format(m.Simulated), format(m.Measured))
}

// Relative errors of the simulated present. Predictions are given up to toleratedMiss; the calibration is adjusted down
// to negligibleMiss.
const (
	toleratedMiss  = 0.15
	negligibleMiss = 0.02
)

// Bounds of adjustments. Every step may be stretched, because the robust fit describes usual steps while users wait
// through stalls too. The time outside the engine may grow to the part of the TTFT that the metrics assign to it. If
// this does not suffice, steps with a prefill may take longer, by a multiple of a step's fixed time.
const (
	maxStretch        = 1.5
	maxMixed          = 3
	calibrationPasses = 8
)

// An adjustment is a change of a fit after a replay of the present.
type adjustment struct {
	stretch float64 // factor of the time of every step
	front   float64 // time of a request outside the engine, in seconds
	mixed   float64 // additional time of a step with a prefill, in seconds
}

// calibratePresent compares the simulated present with the measurements and sets Check to the comparison. It adjusts a
// calibration that rests on the servers' metrics until both agree, and sets Missed to the remaining errors.
func (s *Simulation) calibratePresent(ctx context.Context) error {
	if s.Seen == nil {
		return nil
	}
	passes := 1
	if s.calibration.Basis == perfmodel.Metrics {
		passes = calibrationPasses
	}
	measured := s.Seen.Summary()
	fitted := s.calibration.Fit
	outside := max(outsideEngine(s.Seen), fitted.FrontendHigh)
	by := adjustment{1, fitted.Frontend.PerRequest, 0}
	best, smallest := fitted, math.Inf(1)
	var misses perfmodel.Misses
	for range passes {
		s.calibration.Fit = by.applyTo(fitted)
		p, err := s.replayPresent(ctx)
		if err != nil {
			s.calibration.Fit = fitted
			return err
		}
		if p == nil {
			break // Run will report why the present cannot be simulated
		}
		replayed, largest := compareReplay(measured, p)
		if largest < smallest {
			smallest, best, misses = largest, s.calibration.Fit, missesOf(s.Seen, p)
			s.Check = replayed
		}
		if smallest <= negligibleMiss {
			break
		}
		ttft, itl := sim.WhileArriving(p.Result.Records).TTFTMean.Seconds(), p.Summary.ITL.Mean.Seconds()
		if measured.ITLMean > 0 && itl > 0 {
			by.stretch = min(max(by.stretch*measured.ITLMean/itl, 1/maxStretch), maxStretch)
		}
		if queue := p.Summary.Queue.Mean.Seconds(); queue < ttft/2 {
			front := by.front + measured.TTFTMean - ttft
			by.front = min(max(front, 0), outside)
			by.mixed = min(max(by.mixed+front-by.front, 0), maxMixed*fitted.Cost.Base)
		}
	}
	if s.calibration.Basis != perfmodel.Metrics {
		s.calibration.Fit = fitted
		return nil
	}
	s.calibration.Fit, s.Missed = best.Missing(misses), nil
	for _, m := range s.Check {
		if m.relativeError() > toleratedMiss {
			s.Missed = append(s.Missed, m)
		}
	}
	return nil
}

// compareReplay returns the measured quantities beside their simulation, and the largest relative error.
func compareReplay(measured workload.Summary, p *perfmodel.Prediction) (out []Miss, largest float64) {
	came := sim.WhileArriving(p.Result.Records)
	for _, m := range []Miss{
		{"TTFT mean", measured.TTFTMean, came.TTFTMean.Seconds()},
		{"ITL mean", measured.ITLMean, p.Summary.ITL.Mean.Seconds()},
		{outputTokens, measured.OutputPerSecond, came.OutputPerSecond},
	} {
		if m.Measured > 0 {
			out, largest = append(out, m), max(largest, m.relativeError())
		}
	}
	return out, largest
}

// relativeError returns the error of the simulated value, as a share of the measured one.
func (m Miss) relativeError() float64 { return math.Abs(m.Simulated/m.Measured - 1) }

// enoughForTail is the number of observations that have one beyond the 95th percentile.
const enoughForTail = 20

// missesOf returns the errors of a simulation of the servers, relative to the measurements.
func missesOf(seen *workload.Measured, p *perfmodel.Prediction) perfmodel.Misses {
	w, sum := &seen.Workload, &p.Summary
	of := func(h workload.Histogram, mean, p95 float64) perfmodel.Miss {
		m := perfmodel.MissOf(mean, h.Mean())
		switch _, in := h.Quantile(0.95); {
		case h.Count < enoughForTail || !(in.High > 0) || math.IsInf(in.High, 1) || p95 <= 0:
		case p95 < in.Low, p95 > in.High:
			m.Tail = math.Log(p95 / in.High) // also below the bucket, because P95 may be at its upper end
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

// applyTo returns the adjusted fit. Every other sample stays unchanged, so that intervals span the adjustment.
func (a adjustment) applyTo(f *perfmodel.Fit) *perfmodel.Fit {
	out := f.Scale(sim.Uniform(a.stretch))
	out.Cost.Mixed += a.mixed
	for i := range out.Draws {
		if i%2 == 0 {
			out.Draws[i] = f.Draws[i]
		} else {
			out.Draws[i].Mixed += a.mixed
		}
	}
	out.Frontend.PerRequest = a.front
	out.FrontendLow, out.FrontendHigh = min(f.FrontendLow, a.front), max(f.FrontendHigh, a.front)
	return out
}

// replayPresent simulates the current servers. It returns nil if that is impossible.
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
	now.predictVariant(ctx, v, 1)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return v.Prediction, nil
}

// outsideEngine returns the mean time from arrival to first token outside queue and prefill, in seconds. This is the
// API server's time with its stalls. Without metrics of queue and prefill it is the whole time to first token.
func outsideEngine(m *workload.Measured) float64 {
	sum := perfmodel.SumWaits(perfmodel.UsableIntervals(m))
	out := sum.TTFTSum / max(sum.FirstTokens, 1)
	if sum.QueueCount > 0 && sum.PrefillCount > 0 {
		out -= sum.QueueSum/sum.QueueCount + sum.PrefillSum/sum.PrefillCount
	}
	return max(out, 0)
}

package perfmodel

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
)

// A Miss is how far a quantity is off when the fit's own measurements are simulated: the logarithm of simulated over
// measured, for its mean and its 95th percentile.
type Miss struct{ Mean, Tail float64 }

// Misses are the misses of a fit, by kind of quantity.
type Misses map[Kind]Miss

// MissOf returns the miss of a mean, zero if either value is not known.
func MissOf(simulated, measured float64) Miss {
	if simulated > 0 && measured > 0 {
		return Miss{Mean: math.Log(simulated / measured)}
	}
	return Miss{}
}

// Missing returns the fit with other misses. The intervals of its predictions are at least as wide as these.
func (f *Fit) Missing(off Misses) *Fit {
	out := *f
	out.misses = off
	return &out
}

// replayLoadTest simulates the load test behind the fit, with the fitted constants.
func (f *Fit) replayLoadTest(d Deployment, requests []sim.Request, measured []MeasuredRequest,
	check func() error,
) error {
	res, err := d.runSimulation(f.Cost, requests, sim.Options{Frontend: f.Frontend, Check: check, Brief: true})
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	type sums struct {
		ttft, tpot, e2e, lastToken time.Duration
		outputTokens               int
	}
	var was, is sums
	firstArrival := time.Duration(math.MaxInt64)
	add := func(s *sums, arrival, firstToken, lastToken time.Duration, tokens int) {
		s.ttft += firstToken - arrival
		s.e2e += lastToken - arrival
		s.tpot += (lastToken - firstToken) / time.Duration(max(tokens-1, 1))
		s.lastToken = max(s.lastToken, lastToken)
		s.outputTokens += tokens
	}
	for i, m := range measured {
		r := &res.Records[i]
		if !m.Use || r.Outcome != sim.Finished {
			continue
		}
		firstArrival = min(firstArrival, m.Request.Arrival)
		add(&was, m.Request.Arrival, m.FirstToken, m.LastToken, m.Request.OutputTokens)
		add(&is, r.Arrival, r.Arrival+r.TTFT(), r.Arrival+r.E2E(), int(r.OutputTokens))
	}
	rate := func(s *sums) float64 { return float64(s.outputTokens) / (s.lastToken - firstArrival).Seconds() }
	f.misses = Misses{
		TTFT: MissOf(is.ttft.Seconds(), was.ttft.Seconds()), TPOT: MissOf(is.tpot.Seconds(), was.tpot.Seconds()),
		E2E: MissOf(is.e2e.Seconds(), was.e2e.Seconds()), Tokens: MissOf(rate(&is), rate(&was)),
	}
	return nil
}

// tooLarge reports misses with which a fit does not describe its load test at all.
func (m Misses) tooLarge() bool {
	return math.Abs(m[TTFT].Mean) > math.Log(2) || math.Abs(m[TPOT].Mean) > 0.2 || math.Abs(m[Tokens].Mean) > 0.2
}

// String names the means that are far off, "" for none.
func (m Misses) String() string {
	var parts []string
	for _, x := range []struct {
		name string
		of   Kind
		far  float64
	}{{"TTFT", TTFT, 0.10}, {"TPOT", TPOT, 0.05}, {"E2E", E2E, 0.10}, {"output tokens/s", Tokens, 0.05}} {
		if off := m[x.of].Mean; math.Abs(off) > x.far {
			parts = append(parts, fmt.Sprintf("%s %+.0f %%", x.name, 100*math.Expm1(off)))
		}
	}
	return strings.Join(parts, ", ")
}

// noBetterThan widens the intervals to the fit's misses: no prediction is better than the replay of the measurements.
// If the replay missed a tail, the model lacks its cause, such as the machine's stalls. The prediction's tail is then
// as far off, on the same side.
func (p *Prediction) noBetterThan(off Misses) {
	if p.Draws == 0 {
		return
	}
	for _, q := range p.listQuantities() {
		times, tail := math.Exp(math.Abs(off[q.kind].Mean)), q.Value
		if q.tail {
			tail *= math.Exp(-off[q.kind].Tail)
		}
		q.Low, q.High = min(q.Low, q.Value/times, tail), max(q.High, q.Value*times, tail)
	}
}

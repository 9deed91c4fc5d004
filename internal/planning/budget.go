package planning

import (
	"errors"
	"math"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/sim"
)

// Bounds of how often a trial is simulated, with different draws.
const (
	maxDraws = 8
	minDraws = 3
)

// Budgets of simulated tokens. A token takes a tenth of a microsecond; a prediction is worth one or two seconds of a
// core.
const (
	perPresent = 400_000    // for one simulation of the present
	perAfter   = 1_600_000  // for one simulation of the time after a change
	perOutcome = 1_500_000  // for all simulations of a trial, beyond minDraws
	perTrial   = 300_000    // for all simulations of one value of a fix
	budget     = 24_000_000 // for everything: beyond it no further fix is predicted
)

// newTrial returns a trial of the present, or of the time after a change. The latter is measured when the initial
// requests are gone and the new arrivals have settled.
func (p *predictor) newTrial(s setup, cfg sim.Config, after bool) *trial {
	t := p.traffic
	n := float64(t.ranks * s.replicas)
	out := &trial{
		config: cfg, observed: t.observed, arrivals: t.arrivalsOf(t.ranks * s.replicas), clients: t.clients / n,
		pause: t.pause, patience: p.patience,
		running: int(math.Round(t.running / n)), waiting: int(math.Round(t.waiting / n)),
		gap: p.measuredDuration(indicator.ITLMean), first: p.measuredDuration(indicator.TTFTMean),
		length: p.horizonFor(perPresent), maxTokens: 2 * perPresent, held: t.held,
	}
	if rate := t.arrivalRate(); rate > 0 {
		out.longestWait = time.Duration(t.waiting / rate * float64(time.Second))
	}
	if !after {
		return out
	}
	out.period = t.length
	out.warm = max(out.length, 2*p.measuredDuration(indicator.E2EMean))
	enough := time.Duration(enoughRequests / t.arrivalRate() * float64(time.Second))
	out.length = min(max(out.length, enough), 4*out.length)
	out.maxTokens = 2 * perAfter
	if out.clients == 0 {
		out.running, out.waiting = 0, 0 // a restart drops all requests
	}
	return out
}

// scaleAges scales how long the requests in flight have waited at the beginning. In a steady queue the shares are 1.
func (s *trial) scaleAges(waitingShare, runningShare float64) {
	s.longestWait = time.Duration(waitingShare * float64(s.longestWait))
	s.first = time.Duration(runningShare * float64(s.first))
}

// roundClients rounds an engine's share of the clients up in some draws and down in others, so that their mean is the
// share.
func (s *trial) roundClients(i int) {
	if s.clients == 0 {
		return
	}
	s.clients = max(math.Floor(s.clients+evenSpread(i)), 1)
	s.running = min(s.running, int(s.clients))
	s.waiting = min(s.waiting, int(s.clients)-s.running)
}

// horizonFor returns the length of the window, or of its beginning with at most so many generated tokens.
func (p *predictor) horizonFor(maxTokens float64) time.Duration {
	i := quantityIndex(indicator.GenerationTokenRate)
	rate := p.measured[i].Or(0) / float64(p.traffic.ranks)
	if seconds := maxTokens / max(rate, 1); seconds < p.traffic.length.Seconds() {
		return time.Duration(seconds * float64(time.Second))
	}
	return p.traffic.length
}

// enoughRequests is the number of requests for a P95 after a change.
const enoughRequests = 300

// measuredDuration returns a measured duration, or 0 if it is unknown.
func (p *predictor) measuredDuration(s *indicator.Signal) time.Duration {
	i := quantityIndex(s)
	return time.Duration(p.measured[i].Or(0) * float64(time.Second))
}

// simulateTrial runs a trial several times with different lengths and, after the first time, with different samples
// of the calibration. It stops after most tokens. The n-th draw is the same in every trial, so that differences between
// trials are not due to chance.
func (p *predictor) simulateTrial(s *trial, most int) ([]*outcome, error) {
	fit := p.calibration.Fit
	var outcomes []*outcome
	tokens := 0
	for i := range maxDraws {
		if err := p.check(); err != nil {
			return nil, err
		}
		if i >= minDraws && tokens > most {
			break
		}
		one := *s
		one.seed, one.cost, one.frontend = uint64(i), fit.Cost, fit.Frontend
		one.roundClients(i)
		if i > 0 && len(fit.Draws) > 0 {
			one.cost = fit.Draws[(i-1)*len(fit.Draws)/maxDraws]
		}
		var err error
		if one.pool, err = p.traffic.drawPool(s.config, i); err != nil {
			return nil, err
		}
		o, err := runTrial(&one)
		if err != nil {
			return nil, err
		}
		if !(o.seconds > 0) {
			return nil, errors.New("the traffic takes more than a second or two to simulate; run sixty simulate")
		}
		outcomes = append(outcomes, o)
		tokens += o.generatedTokens
	}
	p.spent += tokens
	return outcomes, nil
}

package planning

import (
	"errors"
	"math"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/sim"
)

// How much is simulated, in tokens, of which one takes a tenth of a microsecond. A
// prediction is worth a second or two of one core.
const (
	maxDraws = 8
	minDraws = 3

	perPresent = 400_000    // of one simulation of the present
	perAfter   = 1_600_000  // of one of the time after a change
	perOutcome = 1_500_000  // of all of one trial, but for the least number of draws
	perTrial   = 300_000    // of all of one value that is tried
	budget     = 24_000_000 // of all, beyond which no further fix is begun
)

// trial sets the present, or the time after a change: when what it began with has
// gone and what comes is as it will be.
func (p *predictor) trial(s setup, cfg sim.Config, after bool) *trial {
	t := p.traffic
	n := float64(t.ranks * s.replicas)
	sc := &trial{
		cfg: cfg, shown: t.shown, arrivals: t.share(t.ranks * s.replicas), clients: t.clients / n, pause: t.pause, patience: p.patience,
		running: int(math.Round(t.running / n)), waiting: int(math.Round(t.waiting / n)),
		gap: p.seconds(indicator.ITLMean), first: p.seconds(indicator.TTFTMean),
		length: p.horizon(perPresent), maxTokens: 2 * perPresent, held: t.held,
	}
	if rate := t.rate(); rate > 0 {
		sc.waited = time.Duration(t.waiting / rate * float64(time.Second))
	}
	if !after {
		return sc
	}
	sc.period = t.length
	sc.warm = max(sc.length, 2*p.seconds(indicator.E2EMean))
	enough := time.Duration(enoughRequests / t.rate() * float64(time.Second))
	sc.length = min(max(sc.length, enough), 4*sc.length)
	sc.maxTokens = 2 * perAfter
	if sc.clients == 0 {
		sc.running, sc.waiting = 0, 0 // a restart begins with nothing
	}
	return sc
}

// age lets those in flight at the beginning have waited for a share of the time that
// they would have in a queue that stands.
func (s *trial) age(waiting, running float64) {
	s.waited = time.Duration(waiting * float64(s.waited))
	s.first = time.Duration(running * float64(s.first))
}

// roundClients makes whole clients of an engine's share: between the simulations it is
// now one less, now one more, so that their mean is the share.
func (s *trial) roundClients(i int) {
	if s.clients == 0 {
		return
	}
	s.clients = max(math.Floor(s.clients+evenly(i)), 1)
	s.running = min(s.running, int(s.clients))
	s.waiting = min(s.waiting, int(s.clients)-s.running)
}

// horizon is the window, or its beginning where that makes so many tokens already.
func (p *predictor) horizon(tokens float64) time.Duration {
	i := index(indicator.GenerationTokenRate)
	rate := p.measured[i].Or(0) / float64(p.traffic.ranks)
	if seconds := tokens / max(rate, 1); seconds < p.traffic.length.Seconds() {
		return time.Duration(seconds * float64(time.Second))
	}
	return p.traffic.length
}

// enoughRequests make a P95 of the time after a change.
const enoughRequests = 300

// seconds is a measured duration, 0 where it is not known.
func (p *predictor) seconds(s *indicator.Signal) time.Duration {
	i := index(s)
	return time.Duration(p.measured[i].Or(0) * float64(time.Second))
}

// simulate plays a trial several times, each with other lengths and, after the
// first, with other samples of the calibration. Draws of a number are alike in every
// trial, so that differences between trials are not chance.
func (p *predictor) simulate(s *trial, most int) ([]*outcome, error) {
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
		if one.pool, err = p.traffic.pool(s.cfg, i); err != nil {
			return nil, err
		}
		o, err := replay(&one)
		if err != nil {
			return nil, err
		}
		if !(o.seconds > 0) {
			return nil, errors.New("the traffic takes more than a second or two to simulate; run sixty simulate")
		}
		outcomes = append(outcomes, o)
		tokens += o.simulated
	}
	p.spent += tokens
	return outcomes, nil
}

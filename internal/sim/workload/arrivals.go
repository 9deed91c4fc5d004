package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// A Pacer gives the times of an open loop's sessions. It reads no clock, and the same random seed gives the same times.
type Pacer interface {
	// Next returns the time since the start at which the next session is due, never before the previous one, or false
	// when no more are due.
	Next() (due time.Duration, ok bool)
}

// A Segment of a rate profile changes the rate linearly.
type Segment struct {
	Duration time.Duration `json:"duration_ns"`
	From     float64       `json:"from"` // sessions per second at its beginning
	To       float64       `json:"to"`   // and at its end
}

// Arrivals are an open loop's arrival process: a rate profile, and the regularity of the arrivals. A renewal process of
// rate one is drawn, and its times are mapped through the integral of the profile, so that every regularity combines
// with every profile.
type Arrivals struct {
	Profile []Segment `json:"profile"`
	// CV is the coefficient of variation of the times between arrivals: 0 is constant, 1 Poisson, and others are
	// gamma-distributed with shape 1/CV² (vllm bench serve calls the shape burstiness).
	CV float64 `json:"cv"`
}

// maxRate bounds rates, so that a mistyped one does not fill the memory with sessions.
const maxRate = 1e6

// Validate reports contradictions.
func (a *Arrivals) Validate() error {
	if len(a.Profile) == 0 {
		return errors.New("arrivals have no rate")
	}
	total := 0.0
	for i, s := range a.Profile {
		if s.Duration < 0 || !(s.From >= 0 && s.From <= maxRate) || !(s.To >= 0 && s.To <= maxRate) {
			return fmt.Errorf(
				"rate segment %d: %g to %g per second over %s: want rates from 0 to %g and a positive time",
				i+1, s.From, s.To, s.Duration, maxRate)
		}
		if s.Duration == 0 && i < len(a.Profile)-1 {
			return fmt.Errorf("rate segment %d has no duration", i+1)
		}
		if s.Duration == 0 && s.From != s.To {
			return fmt.Errorf("a ramp needs a duration")
		}
		total += (s.From + s.To) / 2
	}
	if total == 0 {
		return errors.New("the rate is 0 throughout")
	}
	if !(a.CV >= 0 && a.CV <= 100) {
		return fmt.Errorf("coefficient of variation %v: want 0 to 100", a.CV)
	}
	return nil
}

// Constant arrivals come at equal distances, for ever.
func Constant(rate float64) Arrivals { return Arrivals{Profile: []Segment{{0, rate, rate}}} }

// Pacer returns the times of valid arrivals.
func (a *Arrivals) Pacer(seed uint64) (Pacer, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a.newPacer(seed, 1), nil
}

func (a *Arrivals) newPacer(seed uint64, stretch float64) *arrivalPacer {
	p := &arrivalPacer{profile: a.Profile, rand: rand.New(rand.NewPCG(seed, 0xa771)), cv: a.CV, stretch: stretch}
	if a.CV == 0 {
		p.sum = -stretch // the first of constant arrivals is due at once
	}
	return p
}

// Expected is the mean number of arrivals before a time.
func (a *Arrivals) Expected(until time.Duration) float64 {
	n, at := 0.0, time.Duration(0)
	for _, s := range a.Profile {
		d := s.Duration
		if d == 0 || d > until-at {
			d = until - at
		}
		if d <= 0 {
			break
		}
		end := s.From
		if s.Duration > 0 {
			end += (s.To - s.From) * d.Seconds() / s.Duration.Seconds()
		}
		n += (s.From + end) / 2 * d.Seconds()
		at += d
	}
	return n
}

// Exactly returns Pacer's times, stretched so that exactly the expected number of arrivals comes before until. It is
// for measured workloads, whose number of arrivals is known.
func (a *Arrivals) Exactly(until time.Duration, seed uint64) (Pacer, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	expected := a.Expected(until)
	trial := a.newPacer(seed, 1)
	for range int(min(math.Round(expected), maxRate)) + 1 {
		trial.sum += trial.drawGap()
	}
	if !(trial.sum > 0) || !(expected >= 1) {
		return a.newPacer(seed, 1), nil
	}
	return a.newPacer(seed, expected/trial.sum), nil
}

// Rate returns the profile's rate at a time since the start.
func (a *Arrivals) Rate(at time.Duration) float64 {
	for _, s := range a.Profile {
		if s.Duration == 0 {
			return s.From
		}
		if at < s.Duration {
			return s.From + (s.To-s.From)*at.Seconds()/s.Duration.Seconds()
		}
		at -= s.Duration
	}
	return 0
}

type arrivalPacer struct {
	profile []Segment
	rand    *rand.Rand
	cv      float64
	sum     float64       // sum of the unit-rate process's gaps
	stretch float64       // factor of those gaps
	base    float64       // integral of the rate before the current segment
	start   time.Duration // beginning of the current segment
}

func (p *arrivalPacer) Next() (time.Duration, bool) {
	p.sum += p.drawGap() * p.stretch
	for len(p.profile) > 0 {
		s := p.profile[0]
		need := p.sum - p.base
		if at, ok := s.timeOf(need); ok {
			return p.start + at, true
		}
		p.base += (s.From + s.To) / 2 * s.Duration.Seconds()
		p.start += s.Duration
		p.profile = p.profile[1:]
	}
	return 0, false
}

// drawGap draws a gap of mean 1 with the wanted coefficient of variation.
func (p *arrivalPacer) drawGap() float64 {
	switch p.cv {
	case 0:
		return 1
	case 1:
		return p.rand.ExpFloat64()
	}
	shape := 1 / (p.cv * p.cv)
	return drawGamma(p.rand, shape) / shape
}

// timeOf returns when the integral of the segment's rate reaches n, if it does.
func (s Segment) timeOf(n float64) (time.Duration, bool) {
	if s.Duration == 0 {
		sec := n / s.From
		return time.Duration(sec * 1e9), sec < 1e9
	}
	d := s.Duration.Seconds()
	total := (s.From + s.To) / 2 * d
	if n >= total {
		return 0, false
	}
	slope := (s.To - s.From) / d
	// From·t + slope·t²/2 = n, solved in the form without cancellation.
	t := 2 * n / (s.From + math.Sqrt(max(s.From*s.From+2*slope*n, 0)))
	if n == 0 {
		t = 0
	}
	return min(time.Duration(t*1e9), s.Duration), true
}

// drawGamma draws from a gamma distribution of scale 1 (Marsaglia and Tsang, ACM TOMS 26(3), 2000; shapes below 1 by
// their section 6).
func drawGamma(rng *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(1-rng.Float64(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v * boost
		}
	}
}

const rateHint = "write 10 (per second), ramp:1-50:2m (from, to, duration) or steps:5,10,20:30s (rates, duration of " +
	"each)"

// ParseArrivals reads a rate as users write it.
func ParseArrivals(rate string, cv float64) (Arrivals, error) {
	a, err := parseArrivals(strings.TrimSpace(rate))
	if err == nil {
		a.CV = cv
		err = a.Validate()
	}
	if err != nil {
		return Arrivals{}, hint.With(fmt.Errorf("rate %q: %w", rate, err), rateHint)
	}
	return a, nil
}

func parseArrivals(s string) (Arrivals, error) {
	kind, rest, named := strings.Cut(s, ":")
	if !named {
		r, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return Arrivals{}, errors.New("not a number")
		}
		return Constant(r), nil
	}
	values, length, ok := strings.Cut(rest, ":")
	d, err := time.ParseDuration(length)
	if !ok || err != nil || d <= 0 {
		return Arrivals{}, fmt.Errorf("%s needs a duration at its end", kind)
	}
	switch kind {
	case "ramp":
		from, to, ok := strings.Cut(values, "-")
		f, err1 := strconv.ParseFloat(from, 64)
		t, err2 := strconv.ParseFloat(to, 64)
		if !ok || err1 != nil || err2 != nil {
			return Arrivals{}, errors.New("a ramp needs FROM-TO")
		}
		return Arrivals{Profile: []Segment{{d, f, t}}}, nil
	case "steps":
		var a Arrivals
		for v := range strings.SplitSeq(values, ",") {
			r, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil {
				return Arrivals{}, fmt.Errorf("step %q is not a number", v)
			}
			a.Profile = append(a.Profile, Segment{d, r, r})
		}
		return a, nil
	}
	return Arrivals{}, fmt.Errorf("unknown shape %q", kind)
}

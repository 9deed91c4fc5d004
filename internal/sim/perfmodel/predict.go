package perfmodel

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
)

// Prediction is the result of a calibrated simulation of a workload. Durations are in seconds.
//
// Low and High of its estimates are 90 % intervals over the fit's samples of the constants. Without samples they equal
// the value. They cover the uncertainty of the constants, not the differences between the simulated workload and a real
// one. If nothing was measured, they are widened by the known errors of such intervals.
type Prediction struct {
	Result  *sim.Result // with the fitted constants
	Summary sim.Summary // summary of Result
	Draws   int         // samples of the constants that the intervals rest on

	TTFT, Queue, TPOT, ITL, E2E  Latency
	OutputPerSecond, Preemptions Estimate

	// Warnings are reasons not to trust the numbers. A prediction with warnings must not be shown without them.
	Warnings []string
}

// A Latency has the statistics of a latency that have intervals.
type Latency struct{ Mean, P95 Estimate }

// Overload reports whether the servers keep up with the arriving requests at their likeliest speed, but not at the slow
// end of their interval: fewer tokens come out, and requests wait for a large part of the time of arrivals. How long
// they wait then depends on how long the load lasts.
func (p *Prediction) Overload() bool {
	var last time.Duration
	for i := range p.Result.Records {
		last = max(last, p.Result.Records[i].Arrival)
	}
	const long = 0.1 // share of the arrivals' time
	o, t := p.OutputPerSecond, p.TTFT.P95
	return o.Low < 0.9*o.Value && t.High > long*last.Seconds() && t.Value < long*last.Seconds()
}

// A Kind is a set of quantities whose predictions have similar errors.
type Kind string

// The kinds. A quantity before the first token belongs to TTFT, gaps between tokens to TPOT.
const (
	TTFT   Kind = "ttft"
	TPOT   Kind = "tpot"
	E2E    Kind = "e2e"
	Tokens Kind = "tokens"
)

// A quantity is one of a prediction's estimates.
type quantity struct {
	*Estimate
	kind Kind // "" for preemptions, which were never measured
	tail bool // it is a percentile with a measured tail
}

// listQuantities lists a prediction's estimates, in the order of summaryValues.
func (p *Prediction) listQuantities() []quantity {
	out := []quantity{{&p.OutputPerSecond, Tokens, false}, {&p.Preemptions, "", false}}
	for _, l := range []struct {
		of   *Latency
		kind Kind
		tail bool
	}{
		{&p.TTFT, TTFT, true},
		{&p.Queue, TTFT, false},
		{&p.TPOT, TPOT, false},
		{&p.ITL, TPOT, true},
		{&p.E2E, E2E, true},
	} {
		out = append(out, quantity{&l.of.Mean, l.kind, false}, quantity{&l.of.P95, l.kind, l.tail})
	}
	return out
}

// summaryValues returns a simulation's values of these quantities.
func summaryValues(s sim.Summary) []float64 {
	out := []float64{s.OutputPerSecond, float64(s.Preemptions)}
	for _, q := range []sim.Quantiles{s.TTFT, s.Queue, s.TPOT, s.ITL, s.E2E} {
		out = append(out, q.Mean.Seconds(), q.P95.Seconds())
	}
	return out
}

// Limits of trust. Beyond a seen range by a quarter, the constants extrapolate. An interval wider than half its value
// means that a small error of the constants decides about a queue: the server is near saturation.
const (
	extrapolation  = 1.25
	extrapolated   = 0.05 // share of requests
	saturatedWidth = 0.5
)

// Predict simulates a workload on a deployment, first with the fitted constants, then with this many of the bootstrap's
// samples for the intervals; 0 draws give none. The samples are not chosen at random. Ordered by the time of the
// simulated work, they are spread from the 5th to the 95th percentile, so that two samples give the extremes.
//
// The API server's time is the fit's. The prediction's warnings say where it goes beyond the range of the fit's
// observations.
func (f *Fit) Predict(d Deployment, requests []sim.Request, draws int, o sim.Options) (*Prediction, error) {
	p, _, err := f.PredictWithin(d, requests, draws, o, nil)
	return p, err
}

// PredictWithin is Predict for a search of deployments whose intervals stay within limits. It calls within after every
// simulation, the slowest first, with the prediction so far. False ends the prediction. Then only its likeliest values
// count, and not even these if a limit of the options was exceeded.
func (f *Fit) PredictWithin(d Deployment, requests []sim.Request, draws int, o sim.Options,
	within func(*Prediction) bool,
) (*Prediction, bool, error) {
	if err := d.Validate(); err != nil {
		return nil, false, err
	}
	if len(requests) == 0 {
		return nil, false, fmt.Errorf("simulate: the workload has no requests")
	}
	o.Frontend, o.Brief = f.Frontend, true
	res, err := d.runSimulation(f.Cost, requests, o)
	if err != nil {
		return nil, false, fmt.Errorf("predict: %w", err)
	}
	o.SampleEvery, o.Limits = 0, sim.Limits{}
	p := &Prediction{Result: res, Summary: res.Summary()}
	is := summaryValues(p.Summary)
	for i, q := range p.listQuantities() {
		*q.Estimate = Exact(is[i])
	}
	if res.Exceeded != "" || within != nil && !within(p) {
		return p, false, nil
	}
	raw := *p
	ok, err := raw.sampleIntervals(d, f.chooseDraws(res, draws), requests, o, func() bool {
		q := raw
		f.widenIntervals(&q)
		return within == nil || within(&q)
	})
	if err != nil {
		return nil, false, fmt.Errorf("predict: %w", err)
	}
	*p = raw
	f.widenIntervals(p)
	if !ok {
		return p, false, nil
	}
	if err := f.truncateIntervals(p, d, requests, o); err != nil {
		return nil, false, fmt.Errorf("predict: %w", err)
	}
	p.Warnings = f.Extrapolation(res.Records)
	if most := f.largestUnseenStep(res); most > 0 && p.TTFT.Mean.relativeWidth() > uncertainPrompts {
		text := fmt.Sprintf("steps with prompts of up to %.0f tokens, calibrated up to %.0f", most, f.Seen.MaxMixed)
		if n := len(p.Warnings); n > 0 {
			p.Warnings[n-1] += "; " + text
		} else {
			p.Warnings = []string{"extrapolated: " + text}
		}
	}
	if w := p.TTFT.P95.relativeWidth(); w > saturatedWidth && f.Observations > 0 {
		what := "uncertain"
		if p.Queue.P95.High > p.TTFT.P95.High/2 {
			what = "near saturation" // the queue is the uncertain part
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf(
			"%s: TTFT P95 may be anything from %s to %s", what, render.Seconds(p.TTFT.P95.Low),
			render.Seconds(p.TTFT.P95.High)))
	}
	return p, true, nil
}

// widenIntervals widens the intervals by their known errors.
func (f *Fit) widenIntervals(p *Prediction) {
	p.widenBy(f.widening)
	p.noBetterThan(f.misses)
}

// truncateIntervals cuts the intervals at the limit of physics: no server is faster than one whose every step reaches
// the GPUs' roofline, and that has no other work.
func (f *Fit) truncateIntervals(p *Prediction, d Deployment, requests []sim.Request, o sim.Options) error {
	if f.roofline.Base == 0 || p.Draws == 0 {
		return nil
	}
	o.Frontend = sim.Frontend{}
	res, err := d.runSimulation(f.roofline, requests, o)
	if err != nil {
		return err
	}
	fastest := summaryValues(res.Summary())
	for i, q := range p.listQuantities() {
		switch q.kind {
		case Tokens:
			q.High = max(min(q.High, fastest[i]), q.Value)
		case TTFT, TPOT, E2E:
			q.Low = min(max(q.Low, fastest[i]), q.Value)
		}
	}
	return nil
}

// NoSlowerThan cuts the slow ends of the intervals at those of a prediction of the same deployment on slower GPUs.
func (p *Prediction) NoSlowerThan(slower *Prediction) {
	by := slower.listQuantities()
	for i, q := range p.listQuantities() {
		switch q.kind {
		case Tokens:
			q.Low = min(max(q.Low, by[i].Low), q.Value)
		case TTFT, TPOT, E2E:
			q.High = max(min(q.High, by[i].High), q.Value)
		}
	}
}

// From manyRequests on, samples are simulated one after the other, to save memory.
const manyRequests = 500_000

// sampleIntervals widens the intervals to the results of samples of the constants, each with its own time of the API
// server, until goOn returns false. It simulates as many samples at once as there are cores, if memory allows.
func (p *Prediction) sampleIntervals(d Deployment, draws []Draw, requests []sim.Request, o sim.Options,
	goOn func() bool,
) (bool, error) {
	atOnce := 1
	if d.Replicas <= 1 && len(requests) < manyRequests {
		atOnce = runtime.GOMAXPROCS(0)
	}
	for end := len(draws); end > 0; end -= atOnce {
		part := draws[max(end-atOnce, 0):end]
		drawn := make([][]float64, len(part))
		var g errgroup.Group
		for i, draw := range part {
			g.Go(func() error {
				o := o
				o.Frontend = draw.Frontend
				r, err := d.runSimulation(draw.Cost, requests, o)
				if err == nil {
					drawn[i] = summaryValues(r.Summary())
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return false, err
		}
		for i, q := range p.listQuantities() {
			for _, v := range drawn {
				q.Low, q.High = min(q.Low, v[i]), max(q.High, v[i])
			}
		}
		if p.Draws += len(part); !goOn() {
			return false, nil
		}
	}
	return true, nil
}

// chooseDraws chooses n of the samples.
func (f *Fit) chooseDraws(res *sim.Result, n int) []Draw {
	if n = min(n, len(f.Draws)); n < 1 {
		return nil
	}
	var work sim.Work
	for _, r := range res.Replicas {
		work.Add(r.Stats.Work)
	}
	seconds := func(c sim.StepCost) float64 {
		w := work
		switch { // the excess was counted with the fit's knee
		case f.Observations > 0:
			w.Excess = max(w.Excess-int64(c.Knee-f.Cost.Knee)*w.Mixed, 0)
		case c.Knee != f.Cost.Knee: // orders a prior's samples by steps without prompts
			w.Excess = 0
		}
		return c.Seconds(w)
	}
	costs := f.Draws
	if f.largestUnseenStep(res) > 0 {
		costs = f.beyondSeen()
	}
	draws := make([]Draw, len(f.Draws))
	for i, cost := range costs {
		draws[i] = Draw{cost, f.Frontend}
		if i < len(f.FrontendDraws) {
			draws[i].Frontend = f.FrontendDraws[i]
		}
	}
	slices.SortStableFunc(draws, func(a, b Draw) int { return cmp.Compare(seconds(a.Cost), seconds(b.Cost)) })
	if n == 1 {
		return draws[len(draws)/2 : len(draws)/2+1]
	}
	var out []Draw
	last := float64(len(draws) - 1)
	for i := range n {
		q := 0.05 + 0.9*float64(i)/float64(n-1)
		out = append(out, draws[int(math.Round(q*last))])
	}
	return out
}

// Extrapolation lists, in sentences, where a simulation goes beyond the range of the fit's observations.
func (f *Fit) Extrapolation(records []sim.Record) []string {
	if f.Observations == 0 {
		if len(f.Draws) == 0 {
			return nil // constants that were given
		}
		return []string{"not calibrated: step times are estimated from data sheets"}
	}
	var used Range
	var total, small, large, long int
	for i := range records {
		r := &records[i]
		batch, context := float64(r.Batch), float64(r.Context)
		if batch == 0 {
			continue
		}
		used.includeStep(batch, context)
		total++
		if batch > f.Seen.MaxSeqs*extrapolation {
			large++
		}
		if batch < f.Seen.MinSeqs/extrapolation {
			small++
		}
		if context > f.Seen.MaxKV*extrapolation {
			long++
		}
	}
	var out []string
	say := func(n int, format string, args ...any) {
		if float64(n) > extrapolated*float64(total) {
			out = append(out, fmt.Sprintf(format, args...)+fmt.Sprintf(", for %d of %d requests", n, total))
		}
	}
	say(large, "extrapolated: batches of up to %.0f requests, calibrated only up to %.0f", used.MaxSeqs, f.Seen.MaxSeqs)
	say(small, "extrapolated: batches below %.0f requests were never measured", f.Seen.MinSeqs)
	say(long, "extrapolated: up to %.0f context tokens in a step, calibrated up to %.0f", used.MaxKV, f.Seen.MaxKV)
	return out
}

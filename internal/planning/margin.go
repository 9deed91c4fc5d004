package planning

import (
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// interval predicts one replica of a point with the calibration's samples.
func (s *search) interval(p *Point) (*perfmodel.Calibration, *perfmodel.Prediction, error) {
	cfg, c, err := s.prepared(p)
	if err != nil {
		return nil, nil, err
	}
	requests, err := s.drawRequests(p.Replicas)
	if err != nil {
		return nil, nil, err
	}
	pred, err := c.Fit.Predict(perfmodel.Deployment{Config: cfg}, requests, perfmodel.Draws(len(requests)), sim.Options{Check: s.Check})
	return c, pred, err
}

// doubts are the targets that the slow ends of a prediction's intervals miss, in words.
func (s *search) doubts(p *Point, pred *perfmodel.Prediction) []string {
	if pred.Overload() {
		return []string{"it does not keep up with the load"}
	}
	var out []string
	t := s.Targets
	for _, l := range t.latencies() {
		if high := l.predicted(pred).High; high > l.want.Seconds() {
			out = append(out, fmt.Sprintf("%s P95 up to %s > %s", l.name, render.Seconds(high), render.Seconds(l.want.Seconds())))
		}
	}
	if o := pred.OutputPerSecond; t.TokensPerSecond > 0 && o.Value > 0 {
		if low := p.TokensPerSecond * o.Low / o.Value; low < t.TokensPerSecond*throughputSlack {
			out = append(out, fmt.Sprintf("down to %.0f output tokens/s < %.0f", low, t.TokensPerSecond))
		}
	}
	return out
}

// moreReplicas are those that are tried where fewer may not be enough, as factors.
var moreReplicas = []float64{1.25, 1.5, 2, 3, 4}

// findSurelyMet returns the smallest deployment on from a point that meets the targets at the slow
// ends of its intervals too; nil where none was found, and why the point does not.
func (s *search) findSurelyMet(p *Point) (*Point, []string) {
	_, pred, err := s.interval(p)
	if err != nil {
		return nil, []string{err.Error()}
	}
	doubts := s.doubts(p, pred)
	if len(doubts) == 0 {
		return p, nil
	}
	per := p.GPUs / max(p.Knobs.Replicas, 1)
	tried := []int{p.Knobs.Replicas}
	before := math.Inf(1)
	for _, factor := range moreReplicas {
		k := p.Knobs
		k.Replicas = min(int(math.Ceil(float64(k.Replicas)*factor)), s.maxGPUs/per)
		if slices.Contains(tried, k.Replicas) {
			continue
		}
		tried = append(tried, k.Replicas)
		q := s.eval(k)
		if q == nil || !q.Met {
			continue
		}
		_, pred, err := s.interval(q)
		if err != nil {
			break
		}
		if len(s.doubts(q, pred)) == 0 {
			return q, doubts
		}
		// Where a request alone may miss a target, more replicas do not help.
		slow := pred.ITLP95.High + pred.TTFTP95.High
		if slow > 0.98*before {
			break
		}
		before = slow
	}
	return nil, doubts
}
